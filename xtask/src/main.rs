//! Build, test, lint, bench and docs, each one word.
fn main() {}
