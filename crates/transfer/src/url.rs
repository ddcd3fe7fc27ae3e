//! URLs of the other side of a copy.

use std::fmt;
use std::net::IpAddr;

use http::uri::PathAndQuery;
use thiserror::Error;

/// Maximum bytes of a URL.
pub const URL_BYTES_MAX: usize = 8 << 10;

/// Why a text is no URL that a copy can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    /// Neither `http`, `https`, `dav` nor `davs`.
    #[error("the scheme of the URL is not https or http")]
    Scheme,
    /// A user name or password before the host.
    #[error("the URL has a user name or a password, which are not accepted in URLs")]
    UserInfo,
    /// The host or the port is missing or invalid.
    #[error("the host or the port of the URL is invalid")]
    Authority,
    /// The path or query has invalid characters.
    #[error("the path of the URL has characters that must be percent-encoded")]
    Path,
    /// Longer than [`URL_BYTES_MAX`].
    #[error("the URL is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
}

/// An `https` or `http` URL without user and fragment. `davs` and `dav` mean the same.
///
/// Its [`Display`](fmt::Display) and [`Debug`](fmt::Debug) forms leave the query out, because a query may contain a token
/// or a signature. A path may not, and is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct TransferUrl {
    secure: bool,
    /// In lower case; an IPv6 address has no brackets.
    host: String,
    port: u16,
    path: PathAndQuery,
}

impl TransferUrl {
    /// Parses an absolute URL. Path and query stay as they are, byte for byte, because a signature may
    /// cover them.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" | "davs" => true,
            "http" | "dav" => false,
            _ => return Err(UrlError::Scheme),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlError::UserInfo);
        }
        let (host, port) = parse_authority(authority).ok_or(UrlError::Authority)?;
        Ok(Self {
            secure,
            host,
            port: port.unwrap_or(default_port(secure)),
            path: parse_path(rest)?,
        })
    }

    /// The URL that a `Location` header of an answer from this URL means: absolute, or relative to
    /// this one (RFC 3986 section 5.2).
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn join(&self, location: &str) -> Result<Self, UrlError> {
        if location.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        if let Some(rest) = location.strip_prefix("//") {
            let scheme = if self.secure { "https" } else { "http" };
            return Self::parse(&format!("{scheme}://{rest}"));
        }
        let path = location.find(['/', '?', '#']).unwrap_or(location.len());
        if location[..path].contains(':') {
            return Self::parse(location);
        }
        let own = self.path.path();
        let path = match location.bytes().next() {
            Some(b'/') => parse_path(location)?,
            Some(b'?') => parse_path(&format!("{own}{location}"))?,
            Some(b'#') | None => self.path.clone(),
            Some(_) => {
                let directory = own.rsplit_once('/').map_or("", |(directory, _)| directory);
                parse_path(&without_dots(&format!("{directory}/{location}")))?
            }
        };
        Ok(Self {
            path,
            ..self.clone()
        })
    }

    /// Whether connections are encrypted.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// The host in lower case. An IPv6 address has no brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path without the query, as it was given.
    #[must_use]
    pub fn path(&self) -> &str {
        self.path.path()
    }

    /// Whether the path ends with a slash, as those of directories do.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.path.path().ends_with('/')
    }

    /// Path and query for the request line. May contain secrets.
    pub(crate) fn request_target(&self) -> &PathAndQuery {
        &self.path
    }

    /// The value of the `Host` header. The default port is left out, as clients do that sign this header.
    pub(crate) fn host_header(&self) -> String {
        match self.port == default_port(self.secure) {
            true => bracketed(&self.host),
            false => self.authority(),
        }
    }

    /// `host:port`, with brackets around an IPv6 address.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("{}:{}", bracketed(&self.host), self.port)
    }

    /// Whether another URL leads to the same scheme, host and port.
    #[must_use]
    pub fn same_origin(&self, other: &Self) -> bool {
        (self.secure, self.port, &self.host) == (other.secure, other.port, &other.host)
    }

    /// Whether the query has an S3 signature (Signature Version 4 or 2). The sender of such a URL allows
    /// exactly one kind of request, and signed its headers.
    #[must_use]
    pub fn is_presigned(&self) -> bool {
        let mut names = self
            .path
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split('=').next());
        names.any(|name| {
            ["x-amz-signature", "signature", "x-goog-signature"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known))
        })
    }
}

impl fmt::Display for TransferUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path())
    }
}

impl fmt::Debug for TransferUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransferUrl({self})")
    }
}

const fn default_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

fn bracketed(host: &str) -> String {
    match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

/// The host without brackets in lower case, and the port if it is named.
fn parse_authority(text: &str) -> Option<(String, Option<u16>)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            // Without a zone, which means nothing outside this machine.
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, rest)
        }
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(port.parse().ok().filter(|port| *port > 0)?)
        }
        None if rest.is_empty() => None,
        _ => return None,
    };
    let name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let sound = host.parse::<IpAddr>().is_ok() || host.bytes().all(name);
    (sound && (1..=253).contains(&host.len())).then(|| (host.to_ascii_lowercase(), port))
}

/// Path and query of what follows the authority, without the fragment.
fn parse_path(text: &str) -> Result<PathAndQuery, UrlError> {
    let text = text.split('#').next().unwrap_or_default();
    let slash = if text.starts_with('/') { "" } else { "/" };
    // `http` also accepts some bytes that RFC 3986 forbids; every server may refuse those as it likes.
    let path = format!("{slash}{text}");
    match path.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => path.parse().map_err(|_| UrlError::Path),
        false => Err(UrlError::Path),
    }
}

/// A path and query without the segments `.` and `..` (RFC 3986 section 5.2.4).
fn without_dots(text: &str) -> String {
    let (path, query) = match text.find('?') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> TransferUrl {
        TransferUrl::parse(text).expect("a URL")
    }

    #[test]
    fn urls_are_read() {
        let read = url("davs://SE.example.org:8443/data/a%20b?authz=Bearer%20SECRET#part");
        assert_eq!((read.host(), read.port()), ("se.example.org", 8443));
        assert!(read.is_secure());
        assert_eq!(
            read.request_target().as_str(),
            "/data/a%20b?authz=Bearer%20SECRET"
        );
        assert_eq!(read.to_string(), "https://se.example.org:8443/data/a%20b");
        assert!(!format!("{read:?}").contains("SECRET"));
        for (text, target, host) in [
            ("http://h", "/", "h"),
            ("dav://h:80/x", "/x", "h"),
            ("HTTPS://h:443?x=/", "/?x=/", "h"),
            ("https://[2001:DB8::1]/x", "/x", "[2001:db8::1]"),
            ("https://[::1]:1094//x", "//x", "[::1]:1094"),
            ("http://h:443/", "/", "h:443"),
        ] {
            let read = url(text);
            assert_eq!(read.request_target().as_str(), target, "{text}");
            assert_eq!(read.host_header(), host, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let long = format!("https://h/{}", "x".repeat(URL_BYTES_MAX));
        for (text, error) in [
            ("/x", UrlError::Scheme),
            ("ftp://h/x", UrlError::Scheme),
            ("root://h//x", UrlError::Scheme),
            ("https://ann:secret@h/x", UrlError::UserInfo),
            ("https://ann@h", UrlError::UserInfo),
            ("https:///x", UrlError::Authority),
            ("https://h:0/", UrlError::Authority),
            ("https://h:+80/", UrlError::Authority),
            ("https://h:65536/", UrlError::Authority),
            ("https://h:/", UrlError::Authority),
            ("https://::1/", UrlError::Authority),
            ("https://[::1/", UrlError::Authority),
            ("https://[fe80::1%25eth0]/", UrlError::Authority),
            ("https://[h]/", UrlError::Authority),
            ("https://a b/", UrlError::Authority),
            ("https://h/a b", UrlError::Path),
            ("https://h/a\r\nb", UrlError::Path),
            ("https://h/\u{e9}", UrlError::Path),
            (&long, UrlError::TooLong),
        ] {
            assert_eq!(TransferUrl::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn locations_are_relative_to_what_was_asked() {
        let asked = url("https://h:8443/a/b/c?q=1");
        for (location, joined) in [
            ("https://other/x?y", "https://other:443/x?y"),
            ("http://h:8443/x", "http://h:8443/x"),
            ("//other:1094/x", "https://other:1094/x"),
            ("/x", "https://h:8443/x"),
            ("x", "https://h:8443/a/b/x"),
            ("./x/../y?z=../", "https://h:8443/a/b/y?z=../"),
            ("../../../x", "https://h:8443/x"),
            ("..", "https://h:8443/a/"),
            ("?r=2", "https://h:8443/a/b/c?r=2"),
            ("", "https://h:8443/a/b/c?q=1"),
            ("#f", "https://h:8443/a/b/c?q=1"),
        ] {
            let found = asked.join(location).expect("a location");
            let target = found.request_target();
            let scheme = if found.is_secure() { "https" } else { "http" };
            let whole = format!("{scheme}://{}{target}", found.authority());
            assert_eq!(whole, joined, "{location}");
        }
        assert_eq!(asked.join("mailto:ann"), Err(UrlError::Scheme));
        assert_eq!(asked.join("https://ann@h/"), Err(UrlError::UserInfo));
    }

    #[test]
    fn presigned_urls_are_known_by_their_signature() {
        let signed = url(
            "https://b.s3.example/k?X-Amz-SignedHeaders=host%3BContent-MD5&X-Amz-Signature=00ff",
        );
        assert!(signed.is_presigned());
        let older = url("https://s3/b/k?AWSAccessKeyId=A&Expires=1&Signature=x%3D");
        assert!(older.is_presigned());
        assert!(!url("https://h/x?authz=signature").is_presigned());
        assert!(!url("https://h/x").is_presigned());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}", location in ".{0,60}") {
            let _ = TransferUrl::parse(&text);
            let _ = TransferUrl::parse(&format!("https://h/{text}"));
            if let Ok(joined) = url("https://h/a/b?q=secret").join(&location) {
                prop_assert!(joined.request_target().as_str().starts_with('/'));
                prop_assert!(!joined.to_string().contains('?'));
            }
        }
    }
}
