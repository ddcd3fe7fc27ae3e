//! Identities of clients: the one seam between this door and the identity layer.

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

/// The proof of identity with which a session was opened. The caller is determined from it for each
/// request. Expiry, revocation and disabling therefore take effect at once.
#[derive(Clone, Debug)]
pub enum Proof {
    /// A user who logged in without a secret, or with a secret that was checked only at the login.
    User(UserId),
    /// A bearer token.
    Token(Arc<Secret>),
}

/// Determines callers from their proofs of identity.
pub trait Callers: Send + Sync {
    /// The user of a client without a proof, from its address; `None` if it must prove its
    /// identity.
    fn of_connection<'a>(&'a self, peer: &'a Peer) -> BoxFuture<'a, Result<Option<UserId>>>;

    /// Whether clients may use bearer tokens.
    fn takes_tokens(&self) -> BoxFuture<'_, bool>;

    /// Whether clients at this address may name their user without proof (protocol `unix`).
    fn trusts_names(&self, peer: &Peer) -> bool;

    /// The keys of services for the protocol `sss`; empty if it is not offered.
    fn service_keys(&self) -> BoxFuture<'_, Arc<Vec<SssKey>>>;

    /// The user with a name that the client or its key gave.
    fn by_name<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<UserId>>;

    /// Tells of a client that has logged in, in this way.
    fn logged_in(&self, _caller: &Caller, _way: &str) {}

    /// Tells of a client that was not believed.
    fn turned_away(&self, _peer: &Peer, _way: &str, _why: &str) {}

    /// The present caller of a proof.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Unauthenticated`] if the proof is not valid any more.
    fn caller<'a>(&'a self, proof: &'a Proof, origin: Origin) -> BoxFuture<'a, Result<Caller>>;
}
