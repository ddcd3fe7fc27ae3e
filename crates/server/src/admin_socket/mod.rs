//! The Unix socket of the admin API: HTTP/1.1 with JSON over a socket of mode 0600.
//!
//! The peer must be root or the user who runs the server. [`server`] answers, [`client`] asks. The
//! lock in the state folder ([`crate::lock`]) ensures that a command reaches the store either over
//! this socket, or by opening the store itself.

mod client;
mod server;
mod socket;

pub use client::{AdminClient, ClientError};
pub use server::serve;
pub use socket::{AdminSocket, SocketError};

#[cfg(test)]
pub(crate) mod tests;
