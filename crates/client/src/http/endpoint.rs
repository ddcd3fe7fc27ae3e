//! The address of a server: scheme, host and port.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// The base URL of a server, without a path: `http://127.0.0.1:9000`, `https://s3.example.org`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    https: bool,
    host: String,
    port: u16,
}

/// Text that is no endpoint.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no endpoint ({why}); it looks like http://127.0.0.1:9000")]
pub struct BadEndpoint {
    text: String,
    why: &'static str,
}

impl Endpoint {
    /// Whether to speak TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// The host without brackets, as TLS wants to see it proven.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Value of the `host` header. It has the port only if it is not the scheme's default.
    #[must_use]
    pub fn authority(&self) -> String {
        let bracketed = self.host.contains(':');
        let host = if bracketed {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match (self.https, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// The addresses behind the name, in the resolver's order.
    ///
    /// # Errors
    /// Those of the resolver; a name without an address is `NotFound`.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<_> = (self.host.as_str(), self.port).to_socket_addrs()?.collect();
        if found.is_empty() {
            let text = format!("{} has no address", self.host);
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(found)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

impl FromStr for Endpoint {
    type Err = BadEndpoint;

    fn from_str(text: &str) -> Result<Self, BadEndpoint> {
        let bad = |why| BadEndpoint {
            text: text.to_owned(),
            why,
        };
        let (https, rest) = if let Some(rest) = text.strip_prefix("http://") {
            (false, rest)
        } else if let Some(rest) = text.strip_prefix("https://") {
            (true, rest)
        } else {
            return Err(bad("no http:// or https://"));
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) || rest.contains(char::is_whitespace) {
            return Err(bad("more than scheme, host and port"));
        }
        let (host, port) = if let Some(bracketed) = rest.strip_prefix('[') {
            let (host, port) = bracketed
                .split_once(']')
                .ok_or_else(|| bad("open bracket"))?;
            (host, port.strip_prefix(':'))
        } else {
            rest.split_once(':')
                .map_or((rest, None), |(host, port)| (host, Some(port)))
        };
        if host.is_empty() {
            return Err(bad("no host"));
        }
        let port = match port {
            None if https => 443,
            None => 80,
            Some(port) => port.parse().map_err(|_| bad("no such port"))?,
        };
        Ok(Self {
            https,
            host: host.to_owned(),
            port,
        })
    }
}
