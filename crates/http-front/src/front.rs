//! The seam between a listener and a front on HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use dewar_auth::fair_share::ShareOwner;
use dewar_auth::{AcceptedConnection, Caller, Origin};
use dewar_env::BoxFuture;
use dewar_types::RequestId;
use http::request::Parts;
use http::{Request, Response};

use crate::{AnswerBody, WireBody};

/// A front on HTTP. It answers requests of every connection at once.
pub trait HttpFront: Send + Sync + 'static {
    /// Answers one request. Every error is an answer.
    ///
    /// The extensions of the request contain its [`RequestId`] and the connection as an
    /// `Arc<dyn AcceptedConnection>`. The answer may have a [`RequestSummary`] among its extensions.
    fn answer(
        self: Arc<Self>,
        request: Request<WireBody>,
        arrival: Arrival,
    ) -> BoxFuture<'static, Response<AnswerBody>>;

    /// The whole answer to a client when no connection is free. The connection is closed after it.
    fn busy(&self) -> &'static [u8] {
        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
          connection: close\r\ncontent-length: 0\r\n\r\n"
    }
}

/// Counts the connection of a request for its caller, if that is known. A front calls this when it
/// has verified the credential of the request.
///
/// Returns `false` if the caller already has as many connections as are free for others. The front
/// then refuses the request, and the listener closes the connection after the answer.
#[must_use]
pub fn count_connection(request: &Parts, caller: &Caller) -> bool {
    let connection = request.extensions.get::<Arc<dyn AcceptedConnection>>();
    let connection = connection.filter(|_| caller.user().is_some());
    connection.is_none_or(|connection| connection.authenticated(&ShareOwner::of(caller)))
}

/// How a request arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The request's id. The front sends it to the client.
    pub id: RequestId,
    /// The client's end of the connection.
    pub peer: SocketAddr,
    /// The version of TLS, `1.2` or `1.3`; `None` for a connection without TLS.
    pub tls: Option<&'static str>,
}

impl Arrival {
    /// The origin of the request, for the checks of its credentials.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            address: Some(self.peer.ip()),
            secure: self.tls.is_some(),
        }
    }
}

/// The summary of an answered request, stored as an extension of the answer, for logs and metrics.
/// For a request that was refused early, some fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSummary {
    /// The verb, in the protocol's own words.
    pub verb: Option<&'static str>,
    /// The user who proved an identity.
    pub user: Option<String>,
    /// The bucket that was named.
    pub bucket: Option<String>,
    /// The key that was named.
    pub key: Option<String>,
}
