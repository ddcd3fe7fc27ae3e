//! Who a client is: the one seam between this door and identity.

use std::net::SocketAddr;
use std::sync::Arc;

use dewar_auth::{Caller, Origin, Secret};
use dewar_env::BoxFuture;
use dewar_types::{Result, UserId};

use crate::sss::SssKey;

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

/// What a session was opened with. Who that is is asked anew for each request, so that what expires,
/// is revoked or switched off meanwhile counts at once.
#[derive(Clone, Debug)]
pub enum Proof {
    /// A user who was let in without a secret, or with one that was good for the moment of the login.
    User(UserId),
    /// A bearer token.
    Token(Arc<Secret>),
}

/// Turns what clients show into callers.
pub trait Callers: Send + Sync {
    /// Who a client is without any proof, from where it comes; `None` where it must prove itself.
    fn of_connection<'a>(&'a self, peer: &'a Peer) -> BoxFuture<'a, Result<Option<UserId>>>;

    /// Whether clients may come with bearer tokens.
    fn takes_tokens(&self) -> BoxFuture<'_, bool>;

    /// Whether clients from there may say themselves which user they are (protocol `unix`).
    fn trusts_names(&self, peer: &Peer) -> bool;

    /// The keys with which services prove who they are (protocol `sss`); none where it is not offered.
    fn service_keys(&self) -> BoxFuture<'_, Arc<Vec<SssKey>>>;

    /// Who a user is that was named, by the client or by its key.
    fn by_name<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<UserId>>;

    /// Tells of a client that has logged in, in this way.
    fn logged_in(&self, _caller: &Caller, _way: &str) {}

    /// Tells of a client that was not believed.
    fn turned_away(&self, _peer: &Peer, _way: &str, _why: &str) {}

    /// Whoever a proof stands for now.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Unauthenticated`] where it stands for nobody any more.
    fn caller<'a>(&'a self, proof: &'a Proof, origin: Origin) -> BoxFuture<'a, Result<Caller>>;
}
