//! A thin blocking HTTP/1.1 client: one thread, one connection, one request at a time.
//!
//! Protocol: a [`Connection`] is opened, the head and body of a request are sent with vectored
//! writes straight from their own memory, and the answer is received into a [`Sink`]. Bodies are
//! framed by Content-Length, by chunks, or by the end of the connection. The connection is kept for
//! the next request unless either side closes it. Any error closes it.
//!
//! Cost: on a plain socket a body that is not needed is dropped inside the kernel (`MSG_TRUNC`), so
//! that receiving a gigabyte costs the client next to nothing.
//!
//! Deadlines: every call takes a [`Deadline`] and gives up after it. Sockets wake up every [`POLL`]
//! at the latest, so a deadline is kept to within that.
//!
//! Deliberately absent: redirects, proxies, cookies, pipelining, HTTP/2, content encodings.

mod connection;
mod endpoint;
mod receive;
mod sink;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

pub use connection::{Connection, Transport};
pub use endpoint::{BadEndpoint, Endpoint};
pub use receive::ResponseHead;
pub use sink::{Bytes, Sink};
pub use tls::{TlsError, Trust, tls_config};

use std::io;
use std::time::{Duration, Instant};

use crate::clock;

/// Time that a socket call may sleep before it checks the deadline.
pub const POLL: Duration = Duration::from_millis(250);

/// The latest moment a request may end.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    /// `limit` from now.
    #[must_use]
    pub fn after(limit: Duration) -> Self {
        Self {
            at: clock::now() + limit,
            limit,
        }
    }

    fn left(&self) -> Duration {
        self.at.saturating_duration_since(clock::now())
    }

    fn check(&self, during: ErrorPhase) -> Result<(), HttpError> {
        if self.left().is_zero() {
            return Err(HttpError::Deadline {
                during,
                limit_s: self.limit.as_secs_f64(),
            });
        }
        Ok(())
    }
}

/// The phase of a request in which a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPhase {
    /// Opening the connection, the TLS handshake included.
    Connect,
    /// Sending the request.
    Send,
    /// Waiting for the first byte of the answer.
    Wait,
    /// Receiving the answer after its first byte.
    Receive,
}

impl std::fmt::Display for ErrorPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Send => "sending the request",
            Self::Wait => "waiting for the answer",
            Self::Receive => "receiving the answer",
        })
    }
}

/// Why a request got no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The operating system said no.
    #[error("{during}: {source}")]
    Io {
        /// The phase.
        during: ErrorPhase,
        /// The system's error.
        source: io::Error,
    },
    /// The other side closed the connection before the answer was complete.
    #[error("connection closed while {during}")]
    Closed {
        /// The phase.
        during: ErrorPhase,
    },
    /// The deadline passed.
    #[error("gave up after {limit_s} s while {during}")]
    Deadline {
        /// The phase.
        during: ErrorPhase,
        /// The time the request was given, in seconds.
        limit_s: f64,
    },
    /// The answer is not HTTP, or breaks its framing.
    #[error("malformed answer: {what}")]
    Malformed {
        /// The problem.
        what: String,
    },
    /// The body is longer than the caller is willing to hold.
    #[error("answer longer than {limit_bytes} bytes")]
    TooLong {
        /// The limit.
        limit_bytes: usize,
    },
    /// The body is not the one that was expected ([`Sink::Compare`]).
    #[error("byte {offset} of the object is not what was written")]
    Content {
        /// Offset of the first wrong byte within the object.
        offset: u64,
    },
}

impl HttpError {
    fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed { what: what.into() }
    }

    /// A few words for counting errors of the same kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Io {
                during: ErrorPhase::Connect,
                ..
            } => "connect",
            Self::Io { .. } => "io",
            Self::Closed { .. } => "closed",
            Self::Deadline { .. } => "deadline",
            Self::Malformed { .. } | Self::TooLong { .. } => "malformed",
            Self::Content { .. } => "content",
        }
    }

    /// Whether the connection ended before any byte of the answer. A server ends an idle connection
    /// in this way. If the connection had already served a request, the request may be sent again
    /// on a new connection.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        matches!(
            self,
            Self::Io {
                during: ErrorPhase::Send | ErrorPhase::Wait,
                ..
            } | Self::Closed {
                during: ErrorPhase::Send | ErrorPhase::Wait
            }
        )
    }
}
