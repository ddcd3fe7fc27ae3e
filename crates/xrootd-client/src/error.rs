//! Errors of the client.

use std::time::Duration;

use dewar_xrootd_proto::{DecodeError, ErrorCode};
use thiserror::Error;

/// Why something was not done.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// The text is no address of this protocol.
    #[error("{0:?} is no address of an XRootD server")]
    BadUrl(String),
    /// A host to which connections are not allowed.
    #[error("{host} may not be asked: {why}")]
    NotAllowed {
        /// As it was named.
        host: String,
        /// Why not.
        why: String,
    },
    /// A name without an address.
    #[error("{host} cannot be resolved: {why}")]
    Resolve {
        /// As it was named.
        host: String,
        /// Why not.
        why: String,
    },
    /// No server answers at this address.
    #[error("{host} cannot be reached: {why}")]
    Connect {
        /// As it was named.
        host: String,
        /// Why not.
        why: String,
    },
    /// Encryption is needed and was not reached.
    #[error("no encrypted connection to {host}: {why}")]
    Tls {
        /// As it was named.
        host: String,
        /// Why not.
        why: String,
    },
    /// The server accepts none of the proofs of identity that this client has.
    #[error("{host} accepts none of the available credentials: {why}")]
    Login {
        /// As it was named.
        host: String,
        /// Why not.
        why: String,
    },
    /// The server says no.
    #[error("[{code}] {message}")]
    Server {
        /// Why, as a number.
        code: u32,
        /// Why, in the server's words.
        message: String,
    },
    /// Something took too long.
    #[error("{what} took more than {} s", limit.as_secs())]
    Timeout {
        /// The operation that took too long.
        what: &'static str,
        /// How long it might have taken.
        limit: Duration,
    },
    /// The connection ended.
    #[error("the connection ended: {0}")]
    Closed(String),
    /// The server does not speak the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The server redirects to another one, in a call that does not follow redirections.
    #[error("the server sends its clients to {host}:{port}")]
    Redirect {
        /// The host, with `?` and options to append to the path.
        host: String,
        /// The port, or a negative number if `host` is a whole URL.
        port: i32,
    },
    /// Servers send each other's clients around.
    #[error("sent to others {0} times, or in a circle")]
    Redirects(usize),
    /// The number of received bytes is wrong.
    #[error("{0}")]
    Data(String),
}

impl Error {
    /// The server's error code, if the protocol defines it.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Server { code, .. } => ErrorCode::from_number(*code),
            _ => None,
        }
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::Protocol(error.to_string())
    }
}

/// The result of every fallible function here.
pub type Result<T> = std::result::Result<T, Error>;
