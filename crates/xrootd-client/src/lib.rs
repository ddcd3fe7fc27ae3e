//! A small XRootD client on `dewar-xrootd-proto`, for third-party copies, for measuring, and for
//! tests.
//!
//! - A [`Connection`] is a session with one server: handshake, TLS where both sides can, login, and a
//!   proof (a token over TLS, a name, or the host) where the server wants one. Requests run side by
//!   side under stream ids of their own; how many may is bounded.
//!   More connections can be bound to it, on which what is read comes in turns.
//! - A [`File`] is open on one connection. Page reads are verified, and page writes send damaged
//!   pages again.
//! - A [`Client`] opens files wherever servers say they are. Every server that is connected to is
//!   first shown to its [`Resolver`], and only the addresses that this gives are used: so one who
//!   works for others can say where they must not lead him.
//!
//! # Limits
//! Every wait has a deadline ([`Options`]). A reply may have as many bytes as were asked for and not
//! one more; nothing is taken from a socket beyond it, and on each of a session's connections no more than one
//! such reply at a time. A server that breaks the protocol or does not
//! answer in time loses the connection, and everything that waits for it fails.
//!
//! # Cancellation
//! Every future may be dropped at any point. A request that was sent is then answered to nobody; its
//! id is used again only after that.

mod client;
mod connect;
mod connection;
mod endpoint;
mod error;
mod file;
pub mod limits;
mod options;
mod resolve;
#[cfg(test)]
mod tests;
mod wire;

pub use client::Client;
pub use connection::Connection;
pub use endpoint::{DEFAULT_PORT, Endpoint};
pub use error::{Error, Result};
pub use file::{File, Pages};
pub use options::{BearerToken, Identity, Options};
pub use resolve::{Resolver, SystemResolver, system};
pub use rustls::ClientConfig as TlsConfig;
