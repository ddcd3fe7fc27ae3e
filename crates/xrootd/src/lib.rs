//! The XRootD door: `root://` on the wire, verbs of the store behind it.
//!
//! # The way of a request
//! [`Door::serve`] gets a connection. [`connection`] negotiates (handshake, protocol, TLS), then
//! reads requests one after the other and runs each as a task of its own, so that a slow file does
//! not delay the others. Answers are sent through one reply writer as they are ready. [`session`]
//! keeps the client's identity and its open files. [`ops`] has a file for each group of requests.
//!
//! - **Reads** reserve memory from a [`budget`](session::Budget) before they read, and release it
//!   when the socket took the bytes. The store verifies the bytes; page checksums are computed over
//!   the verified bytes.
//! - **Writes** of a file go through a task that owns it ([`session::writer`]), in the order of
//!   their arrival. They appear at `close`, all at once; a connection that ends leaves nothing.
//! - **Third-party copies** ([`tpc`]) are files whose bytes this server fetches itself, and files
//!   for which a client leaves a key for another server.
//! - **Other servers** ([`redirect`]) with the same files take clients over when this one stops, or
//!   always.
//! - **Names** are made canonical once ([`path`]), before any call of the store, which alone
//!   decides about access.
//!
//! # Cancellation
//! When a connection ends, its requests are dropped with it. The store runs commits in tasks of
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
pub use dewar_transfer::{AllowList, AllowRule, Pace, Trust};
pub use dewar_xrootd_client::TlsConfig;
pub use dewar_xrootd_proto::RequestCode;
pub use door::{Door, DoorConfig, DoorLimits, RequestCounters};
pub use measure::{CopyEnd, Meter, NoMeter, RequestOutcome};
pub use path::Translation;
pub use redirect::{Redirect, RedirectMode, RedirectTarget};
pub use sss::{KeyUser, KeytabError, SssKey, fuzz_sss, parse_keytab};
pub use tpc::TpcConfig;
