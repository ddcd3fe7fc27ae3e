//! Redirection of clients to other servers that have the same files.
//!
//! - [`rule`]: the configured rules.
//! - [`peers`]: the servers that are reachable, and their load. Each is watched over a connection
//!   of its own, which ends when that server begins to stop.
//! - [`selection`]: the server that a client is sent to. It depends on the known servers and on
//!   those that the client tried.
//! - [`exclusions`]: the servers that a client says it has tried.
//!
//! # No circles
//! A redirected request names the redirecting server in `tried=`, beside the earlier entries. A
//! gateway that has files serves a request that names the gateway itself. A redirector never sends
//! a client to a server that was tried, with one exception. A server that could not be reached is
//! tried a second time after it was seen again. Otherwise, servers that are restarted one after the
//! other would all count as tried.

mod exclusions;
mod peers;
mod rule;
mod selection;

pub(crate) use exclusions::ExcludedHosts;
pub(crate) use peers::Peers;
pub use rule::{Redirect, RedirectMode, RedirectTarget};
pub(crate) use selection::NoServer;
