//! A small XRootD client on `dewar-xrootd-proto`, for third-party copies, for measuring, and for
//! tests.
//!
//! - A [`Connection`] is a session with one server: handshake, TLS if both sides can, login, and
//!   authentication (a token over TLS, a name, or the host) if the server requires it. Requests run
//!   side by side under stream ids of their own, up to a limit. More connections can be bound to
//!   it, which carry the read data in turn.
//! - A [`File`] is open on one connection. Page reads are verified, and page writes send damaged
//!   pages again.
//! - A [`Client`] opens files on the servers to which redirections lead. Before every connection,
//!   its [`Resolver`] gets the server's name, and only the addresses that it returns are used. A
//!   program that works for other users can therefore restrict the servers.
//!
//! # Limits
//! Every wait has a deadline ([`Options`]). A reply may have at most the requested bytes. No more
//! is read from a socket, and each connection of a session reads one such reply at a time. A
//! connection to a server that breaks the protocol or does not answer in time is closed, and
//! everything that waits for it fails.
//!
//! # Cancellation
//! Every future may be dropped at any point. The answer to a request that was sent is then
//! discarded; its id is reused only after that.

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
