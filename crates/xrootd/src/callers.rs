//! Who a client is: the one seam between this door and identity.

use std::net::SocketAddr;

use dewar_auth::{Caller, Origin};
use dewar_env::BoxFuture;
use dewar_types::Result;

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The client's end.
    pub client: SocketAddr,
    /// Ours.
    pub server: SocketAddr,
    /// Whether the connection is encrypted.
    pub secure: bool,
}

impl Peer {
    /// As policies see it.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            address: Some(self.client.ip().to_canonical()),
            secure: self.secure,
        }
    }
}

/// Turns what clients show into callers.
pub trait Callers: Send + Sync {
    /// Who a client is without any proof, from where it comes; `None` where it must prove itself.
    fn of_connection<'a>(&'a self, peer: &'a Peer) -> BoxFuture<'a, Result<Option<Caller>>>;

    /// Whether clients may come with bearer tokens; asked over TLS only.
    fn takes_tokens(&self) -> bool;

    /// Who a bearer token speaks for.
    fn by_token<'a>(&'a self, token: &'a str, origin: Origin) -> BoxFuture<'a, Result<Caller>>;

    /// Whether clients from there may say themselves which user they are (protocol `unix`).
    fn trusts_names(&self, peer: &Peer) -> bool;

    /// Who a client is that says so itself.
    fn by_name<'a>(&'a self, name: &'a str, origin: Origin) -> BoxFuture<'a, Result<Caller>>;
}
