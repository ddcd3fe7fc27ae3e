//! The XRootD door: `root://` on the wire, verbs of the store behind it.
//!
//! # The way of a request
//! [`Door::serve`] gets a connection. [`connection`] negotiates (handshake, protocol, TLS), then
//! reads requests one after the other and lets each run as a task of its own, so that a slow file
//! holds up nobody; answers leave as they are ready through one outlet. [`session`] keeps who the
//! client is and its open files. [`ops`] has a file for each group of requests.
//!
//! - **Reads** take room from a [`budget`](session::Budget) before they read, and give it back when
//!   the socket took the bytes. Bytes are verified by the store; page checksums are computed over
//!   what it verified.
//! - **Writes** of a file go through a task that owns it ([`session::writer`]), in the order in
//!   which they came. They appear at `close`, whole; a connection that ends leaves nothing.
//! - **Third-party copies** ([`tpc`]) are files whose bytes this server fetches itself, and files to
//!   which a client leaves a key for another server.
//! - **Other servers** ([`redirect`]) with the same files take clients over when this one stops, or
//!   always.
//! - **Names** are made canonical once ([`path`]), before anything is asked of the store, which
//!   alone decides who may.
//!
//! # Cancellation
//! When a connection ends its requests are dropped with it. The store runs commits in tasks of
//! their own.

mod callers;
mod connection;
mod door;
mod error;
pub mod limits;
mod measure;
mod ops;
mod path;
mod redirect;
mod session;
mod sss;
#[cfg(test)]
mod tests;
mod tpc;

pub use callers::{Callers, Peer, Proof};
pub use connection::{TlsStream, TlsUpgrade};
pub use dewar_xrootd_client::TlsConfig;
pub use dewar_xrootd_proto::RequestCode;
pub use door::{Door, DoorConfig, DoorLimits, RequestCounters};
pub use measure::{CopyEnd, Meter, NoMeter, RequestOutcome};
pub use path::Translation;
pub use redirect::{Redirect, RedirectMode, RedirectTarget};
pub use sss::{KeyUser, KeytabError, SssKey, fuzz_sss, parse_keytab};
pub use tpc::{AllowList, AllowRule, Pace, TpcConfig, Trust};
