//! Headers that a client gives for the request to the other side.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use thiserror::Error;

use crate::url::TransferUrl;

/// Maximum number of forwarded headers.
pub const FORWARDED_HEADERS_MAX: usize = 32;

/// Maximum bytes of all forwarded names and values together. A token with many groups has 8 KiB.
pub const FORWARDED_BYTES_MAX: usize = 16 << 10;

/// The prefix of headers to forward: `TransferHeaderAuthorization` becomes `Authorization`.
const PREFIX: &str = "transferheader";

/// The older form: `Copy-Header: Authorization: Bearer ...`.
const COPY_HEADER: &str = "copy-header";

/// Headers that the transfer sets by itself, or that change the connection (RFC 9110 section 7.6.1).
const REFUSED: [&str; 18] = [
    "host",
    "content-length",
    "content-range",
    "transfer-encoding",
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "keep-alive",
    "upgrade",
    "trailer",
    "te",
    "expect",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "accept-encoding",
];

/// Why the headers of a request cannot be forwarded. No text contains a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ForwardedHeadersError {
    /// A header that a client may not set.
    #[error("the header {0} may not be set for the other side")]
    Refused(String),
    /// Not the name of a header, or not a value.
    #[error("{0} is not followed by a valid header")]
    Invalid(&'static str),
    /// More than [`FORWARDED_HEADERS_MAX`].
    #[error("more than {FORWARDED_HEADERS_MAX} headers are to be forwarded")]
    TooMany,
    /// More than [`FORWARDED_BYTES_MAX`].
    #[error("the headers to be forwarded have more than {FORWARDED_BYTES_MAX} bytes")]
    TooLong,
}

/// The headers for the other side. They may contain a token: they are held in memory only, and
/// [`Debug`](fmt::Debug) shows no value.
#[derive(Clone, Default)]
pub struct ForwardedHeaders(HeaderMap);

impl ForwardedHeaders {
    /// Those that a request for a copy names by `TransferHeader*` and `Copy-Header`. The request's own
    /// headers, above all its `Authorization`, are never forwarded.
    ///
    /// # Errors
    /// [`ForwardedHeadersError`].
    pub fn from_request(request: &HeaderMap) -> Result<Self, ForwardedHeadersError> {
        let mut headers = Self::default();
        for (name, value) in request {
            if let Some(name) = name.as_str().strip_prefix(PREFIX) {
                let name = name.parse().map_err(|_| invalid("TransferHeader"))?;
                headers.add(name, value.clone())?;
            } else if name.as_str() == COPY_HEADER {
                let (name, value) = copy_header(value).ok_or_else(|| invalid("Copy-Header"))?;
                headers.add(name, value)?;
            }
        }
        Ok(headers)
    }

    /// Whether a request for a copy names headers for the other side.
    #[must_use]
    pub fn are_in(request: &HeaderMap) -> bool {
        let mut names = request.keys().map(HeaderName::as_str);
        names.any(|name| name.starts_with(PREFIX) || name == COPY_HEADER)
    }

    /// Adds one more header, such as `ArchiveMetadata` of a push.
    ///
    /// # Errors
    /// [`ForwardedHeadersError`], unless [`ForwardedHeadersError::Invalid`].
    pub fn add(
        &mut self,
        name: HeaderName,
        mut value: HeaderValue,
    ) -> Result<(), ForwardedHeadersError> {
        if REFUSED.contains(&name.as_str()) {
            return Err(ForwardedHeadersError::Refused(name.as_str().to_owned()));
        }
        if self.0.len() >= FORWARDED_HEADERS_MAX {
            return Err(ForwardedHeadersError::TooMany);
        }
        let bytes = |name: &HeaderName, value: &HeaderValue| name.as_str().len() + value.len();
        let held: usize = self.0.iter().map(|(name, value)| bytes(name, value)).sum();
        if held + bytes(&name, &value) > FORWARDED_BYTES_MAX {
            return Err(ForwardedHeadersError::TooLong);
        }
        value.set_sensitive(true);
        self.0.append(name, value);
        Ok(())
    }

    /// Whether a header of this name is among them.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The values, which may be secrets.
    pub(crate) fn values(&self) -> impl Iterator<Item = &HeaderValue> {
        self.0.values()
    }

    /// Adds those that a request to this URL may have to `to`. A presigned URL is a credential by itself,
    /// and a server of S3 refuses a second one.
    pub(crate) fn add_to(&self, to: &mut HeaderMap, url: &TransferUrl) {
        for (name, value) in &self.0 {
            if url.is_presigned() && name == http::header::AUTHORIZATION {
                continue;
            }
            to.append(name.clone(), value.clone());
        }
    }
}

impl fmt::Debug for ForwardedHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

const fn invalid(which: &'static str) -> ForwardedHeadersError {
    ForwardedHeadersError::Invalid(which)
}

fn copy_header(value: &HeaderValue) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = value.to_str().ok()?.split_once(':')?;
    Some((name.trim().parse().ok()?, value.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<ForwardedHeaders, ForwardedHeadersError> {
        let mut request = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().expect("a name");
            request.append(name, value.parse().expect("a value"));
        }
        ForwardedHeaders::from_request(&request)
    }

    #[test]
    fn headers_are_forwarded_by_either_form_and_never_shown() {
        let headers = read(&[
            ("Authorization", "Bearer OWN"),
            ("TransferHeaderAuthorization", "Bearer SECRET"),
            ("Copy-Header", "X-Extra:  1"),
            ("Copy-Header", "X-Extra: 2"),
            ("Source", "https://h/x"),
        ])
        .expect("valid");
        let mut sent = HeaderMap::new();
        headers.add_to(
            &mut sent,
            &TransferUrl::parse("https://h/x").expect("a URL"),
        );
        assert_eq!(sent["authorization"], "Bearer SECRET");
        let extra: Vec<_> = sent.get_all("x-extra").iter().collect();
        assert_eq!(extra, ["1", "2"]);
        assert_eq!(sent.len(), 3);
        let shown = format!("{headers:?} {sent:?}");
        assert!(
            !shown.contains("SECRET") && shown.contains("authorization"),
            "{shown}"
        );
    }

    #[test]
    fn a_presigned_url_gets_no_authorization() {
        let headers = read(&[("TransferHeaderAuthorization", "Bearer x")]).expect("valid");
        let url = TransferUrl::parse("https://h/x?X-Amz-Signature=0").expect("a URL");
        let mut sent = HeaderMap::new();
        headers.add_to(&mut sent, &url);
        assert!(sent.is_empty());
    }

    #[test]
    fn the_transfer_alone_sets_what_frames_its_requests() {
        for name in REFUSED {
            let refused = Err(ForwardedHeadersError::Refused(name.to_owned()));
            let header = format!("TransferHeader{name}");
            assert_eq!(read(&[(&header, "x")]).map(|_| ()), refused, "{name}");
            let header = format!("{}: x", name.to_uppercase());
            assert_eq!(read(&[("Copy-Header", &header)]).map(|_| ()), refused);
        }
        for (name, value, which) in [
            ("TransferHeader", "x", "TransferHeader"),
            ("Copy-Header", "x", "Copy-Header"),
            ("Copy-Header", ": x", "Copy-Header"),
            ("Copy-Header", "a b: x", "Copy-Header"),
        ] {
            assert_eq!(read(&[(name, value)]).map(|_| ()), Err(invalid(which)));
        }
    }

    #[test]
    fn headers_are_limited() {
        let many: Vec<String> = (0..=FORWARDED_HEADERS_MAX)
            .map(|number| format!("TransferHeaderX{number}"))
            .collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_str(), "x")).collect();
        assert!(read(&many[1..]).is_ok());
        assert_eq!(read(&many).map(|_| ()), Err(ForwardedHeadersError::TooMany));
        let long = "x".repeat(FORWARDED_BYTES_MAX);
        let long = [("TransferHeaderX", long.as_str())];
        assert_eq!(read(&long).map(|_| ()), Err(ForwardedHeadersError::TooLong));
    }
}
