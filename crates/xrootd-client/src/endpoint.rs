//! Addresses of servers.

use std::fmt;

use crate::error::{Error, Result};

/// The port of a server that names none.
pub const DEFAULT_PORT: u16 = 1094;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// A name, or an address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether the connection must be encrypted (`roots://`). Other connections are encrypted if
    /// both sides can.
    pub secure: bool,
}

impl Endpoint {
    /// Of `[USER@]HOST[:PORT]`; the user is dropped.
    ///
    /// # Errors
    /// [`Error::BadUrl`].
    pub fn parse(text: &str, secure: bool) -> Result<Self> {
        let bad = || Error::BadUrl(text.to_owned());
        let place = text.rsplit_once('@').map_or(text, |(_, place)| place);
        let (host, rest) = match place.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(bad)?,
            // More than one colon is an address of the sixth kind without brackets.
            None if place.matches(':').count() > 1 => (place, ""),
            None => match place.find(':') {
                Some(at) => place.split_at(at),
                None => (place, ""),
            },
        };
        let port = match rest.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| bad())?,
            None if rest.is_empty() => DEFAULT_PORT,
            None => return Err(bad()),
        };
        let sound = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        if host.is_empty() || host.len() > 255 || port == 0 || !host.chars().all(sound) {
            return Err(bad());
        }
        Ok(Self {
            host: host.to_ascii_lowercase(),
            port,
            secure,
        })
    }

    /// Parses `root://HOST[:PORT]/PATH[?…]` into the server, and the path with its options.
    ///
    /// # Errors
    /// [`Error::BadUrl`].
    pub fn of_url(url: &str) -> Result<(Self, String)> {
        let bad = || Error::BadUrl(url.to_owned());
        let (scheme, rest) = url.split_once("://").ok_or_else(bad)?;
        let secure = match scheme {
            "root" | "xroot" => false,
            "roots" | "xroots" => true,
            _ => return Err(bad()),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (place, path) = rest.split_at(end);
        let path = path.strip_prefix('/').unwrap_or(path);
        Ok((Self::parse(place, secure)?, path.to_owned()))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let read = |text: &str| Endpoint::parse(text, false).map(|e| (e.host, e.port)).ok();
        let some = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(read("SE.example.org"), some("se.example.org", 1094));
        assert_eq!(read("ann@se:1095"), some("se", 1095));
        assert_eq!(read("[::1]:7"), some("::1", 7));
        assert_eq!(read("::1"), some("::1", 1094));
        for bad in [
            "", ":1", "a:0", "a:x", "a:99999", "[::1", "[::1]7", "a b", "a/b", "a?b",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
        let (place, path) = Endpoint::of_url("roots://se//data/x?y=1").expect("a URL");
        assert_eq!(
            (place.to_string().as_str(), place.secure),
            ("se:1094", true)
        );
        assert_eq!(path, "/data/x?y=1");
        assert!(Endpoint::of_url("http://se/x").is_err());
    }
}
