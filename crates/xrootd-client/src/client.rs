//! Opening files on the servers to which redirections lead.

use std::collections::BTreeSet;
use std::sync::Arc;

use dewar_xrootd_proto::request::Open;
use dewar_xrootd_proto::split_cgi;
use rustls::ClientConfig;

use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::file::File;
use crate::options::{Identity, Options};
use crate::resolve::{Resolver, SystemResolver};

/// The settings of every connection that the client opens.
#[derive(Clone)]
pub struct Client {
    /// Resolves the addresses of every server.
    pub resolver: Arc<dyn Resolver>,
    /// TLS settings with the trusted certificates; without them nothing can be encrypted.
    pub tls: Option<Arc<ClientConfig>>,
    /// Identity that the client presents to servers.
    pub identity: Identity,
    /// Deadlines and limits.
    pub options: Options,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver),
            tls: None,
            identity: Identity::default(),
            options: Options::default(),
        }
    }
}

impl Client {
    /// A session with a server.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub async fn connect(&self, place: &Endpoint) -> Result<Connection> {
        let tls = self.tls.as_ref();
        Connection::open(place, &*self.resolver, tls, &self.identity, self.options).await
    }

    /// Opens a file, on that server or on another one to which it redirects.
    ///
    /// # Errors
    /// As for every request; [`Error::Redirects`] for too many redirections, or for a circle.
    pub async fn open(&self, place: &Endpoint, open: &Open) -> Result<File> {
        let (mut place, mut open) = (place.clone(), open.clone());
        let mut been = BTreeSet::new();
        loop {
            if !been.insert((place.clone(), open.path.clone()))
                || been.len() > self.options.redirects_max
            {
                return Err(Error::Redirects(been.len()));
            }
            let outcome = match self.connect(&place).await {
                // A token on a path is as much of a secret as one that is shown at a login.
                Ok(connection) if !connection.is_private() && open.path.contains("authz=") => {
                    Err(Error::Tls {
                        host: place.to_string(),
                        why: "a token is not sent in clear".to_owned(),
                    })
                }
                Ok(connection) => File::open(&connection, &open).await,
                Err(error) => Err(error),
            };
            let (host, port) = match outcome {
                Err(Error::Redirect { host, port }) => (host, port),
                outcome => return outcome,
            };
            let (next, path) = follow(&place, &open.path, &host, port)?;
            tracing::debug!(from = %place, to = %next, "redirected");
            place = next;
            open.path = path;
        }
    }
}

/// Where a redirection leads, and what is opened there.
fn follow(from: &Endpoint, path: &str, host: &str, port: i32) -> Result<(Endpoint, String)> {
    let bad = || Error::Protocol(format!("a redirection to {host:?}"));
    if port < 0 {
        // A whole URL. What is encrypted stays so.
        let (mut place, path) = Endpoint::of_url(host).map_err(|_| bad())?;
        place.secure |= from.secure;
        return Ok((place, path));
    }
    let (host, more) = split_cgi(host);
    let mut place = Endpoint::parse(host, from.secure).map_err(|_| bad())?;
    if port > 0 {
        place.port = u16::try_from(port).map_err(|_| bad())?;
    }
    let path = match (more.0.trim_start_matches('&'), path.contains('?')) {
        ("", _) => path.to_owned(),
        (more, true) => format!("{path}&{more}"),
        (more, false) => format!("{path}?{more}"),
    };
    Ok((place, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read() {
        let from = Endpoint::parse("a", true).expect("a place");
        let led = |host: &str, port| {
            follow(&from, "/x?y=1", host, port).map(|(place, path)| (place.to_string(), path))
        };
        let to = |place: &str, path: &str| (place.to_owned(), path.to_owned());
        assert_eq!(led("b", 7).expect("led"), to("b:7", "/x?y=1"));
        assert_eq!(
            led("b?z=2&w", 0).expect("led"),
            to("b:1094", "/x?y=1&z=2&w")
        );
        assert_eq!(led("root://c:5//d", -1).expect("led"), to("c:5", "/d"));
        assert!(led("http://c/d", -1).is_err() && led("", 1).is_err() && led("b", 70_000).is_err());
        assert!(
            follow(&from, "/x", "root://c//d", -1)
                .expect("led")
                .0
                .secure
        );
    }
}
