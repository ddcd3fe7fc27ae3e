//! Handing clients to other servers that have the same files.
//!
//! - [`rule`]: what the configuration says about them.
//! - [`peers`]: which of them are there, and how much they have to do. Each is watched over a
//!   connection of its own, which ends at the moment at which that server begins to stop.
//! - [`selection`]: which one a client is sent to, from what is known and from what the client tried.
//! - [`exclusions`]: what a client says that it tried.
//!
//! # No circles
//! A request that is sent on says in `tried=` who sent it, beside what it said before. A gateway that
//! has files serves a request that says so itself; a redirector never sends to a server that was
//! tried, with one exception: one that could not be reached is tried a second time after it was seen
//! again, because servers that are started anew one after the other would else all count as tried.

mod exclusions;
mod peers;
mod rule;
mod selection;

pub(crate) use exclusions::ExcludedHosts;
pub(crate) use peers::Peers;
pub use rule::{Redirect, RedirectMode, RedirectTarget};
pub(crate) use selection::NoServer;
