//! How a client behaves.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

/// How a client behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// For a connection, with TLS and login. Each address that is tried gets a share of it.
    pub connect_time: Duration,
    /// Limit for a reply, from the request on. It starts again whenever the server sends something,
    /// since the server may have other replies to send first. A wait that the server asks for is
    /// added.
    pub request_time: Duration,
    /// For a reply with everything that is sent before it, including waits that the server asks for
    /// and delayed replies.
    pub wait_time: Duration,
    /// For the next bytes of anything that has begun.
    pub stall_time: Duration,
    /// Requests of one connection that may be under way.
    pub requests_max: usize,
    /// Maximum number of redirections in a row.
    pub redirects_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_time: Duration::from_secs(15),
            request_time: Duration::from_secs(60),
            wait_time: Duration::from_secs(600),
            stall_time: Duration::from_secs(60),
            requests_max: 64,
            redirects_max: 16,
        }
    }
}

/// A bearer token. Its `Debug` output does not show it, and its memory is wiped.
#[derive(Clone)]
pub struct BearerToken(Arc<Zeroizing<String>>);

impl BearerToken {
    /// Of its text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Arc::new(Zeroizing::new(text.to_owned())))
    }

    /// Its text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The identity that a client presents to servers.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Name of the user (login, and protocol `unix`).
    pub user: String,
    /// A token for servers that require one. It is sent over TLS only.
    pub token: Option<BearerToken>,
    /// The program's name, for the server's log.
    pub program: String,
    /// Whether the client comes for a third-party copy; servers may accept such a client by the key
    /// alone.
    pub third_party: bool,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            user: "dewar".to_owned(),
            token: None,
            program: "dewar".to_owned(),
            third_party: false,
        }
    }
}
