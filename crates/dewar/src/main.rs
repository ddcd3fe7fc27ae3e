//! The one binary: subcommands of the server and client libraries.
fn main() {}
