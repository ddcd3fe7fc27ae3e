//! The `Destination` of a COPY or MOVE, and the `Source` of a COPY: a path of this service, or another
//! service.

use http::request::Parts;
use http::{StatusCode, Uri};

use crate::error::{DavError, Result};
use crate::resource_path::ResourcePath;

/// The target of a COPY or MOVE.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A path of this service.
    Local(ResourcePath),
    /// Another service.
    Remote,
}

/// The other end of a COPY, beside the path of the request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CopyEnds<'h> {
    /// To a path of this service.
    To(ResourcePath),
    /// From a path of this service.
    From(ResourcePath),
    /// To another service.
    ToRemote(&'h str),
    /// From another service.
    FromRemote(&'h str),
}

impl<'h> CopyEnds<'h> {
    /// Reads `Source` or `Destination`.
    ///
    /// # Errors
    /// 400 for both, neither, or a malformed one.
    pub(crate) fn of(head: &'h Parts, own: &[String]) -> Result<Self> {
        let source = header_once(head, "source")?;
        let target = header_once(head, "destination")?;
        match (source, target) {
            (Some(text), None) => Ok(match Destination::parse(text, own)? {
                Destination::Local(path) => Self::From(path),
                Destination::Remote => Self::FromRemote(text),
            }),
            (None, Some(text)) => Ok(match Destination::parse(text, own)? {
                Destination::Local(path) => Self::To(path),
                Destination::Remote => Self::ToRemote(text),
            }),
            (None, None) => Err(destination_missing()),
            (Some(_), Some(_)) => {
                let words = "A COPY has either the header Source or the header Destination.";
                Err(DavError::new(StatusCode::BAD_REQUEST, words))
            }
        }
    }
}

/// The refusal of a COPY or MOVE without its other end.
pub(crate) fn destination_missing() -> DavError {
    let words = "The header Destination is missing.";
    DavError::new(StatusCode::BAD_REQUEST, words)
}

/// A header with a URL.
///
/// # Errors
/// 400 for one that is there twice or not ASCII.
pub(crate) fn header_once<'h>(head: &'h Parts, name: &'static str) -> Result<Option<&'h str>> {
    let mut values = head.headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    text.map(Some).ok_or_else(|| {
        let words = format!("The header {name} is not valid.");
        DavError::new(StatusCode::BAD_REQUEST, words)
    })
}

impl Destination {
    /// Reads a URL or a path. It is local if it has no host, or if scheme, host and port are those of one
    /// of `own` addresses. Clients always send an absolute one.
    ///
    /// # Errors
    /// 400 for a malformed one.
    pub(crate) fn parse(text: &str, own: &[String]) -> Result<Self> {
        let refused = |words: &'static str| DavError::new(StatusCode::BAD_REQUEST, words);
        let text = Some(text.trim()).filter(|text| !text.contains('#'));
        let text = text.ok_or_else(|| refused("A URL is not valid."))?;
        let uri: Uri = text.parse().map_err(|_| refused("A URL is not valid."))?;
        if uri.authority().is_some_and(|it| it.as_str().contains('@')) {
            return Err(refused("A URL contains a user name."));
        }
        if uri.scheme().is_none() && !text.starts_with('/') {
            return Err(refused("There must be a URL or a path."));
        }
        let named = Authority::of(&uri);
        let is_own = named.is_some() && own.iter().any(|own| Authority::parse(own) == named);
        if uri.scheme().is_some() && !is_own {
            return Ok(Self::Remote);
        }
        ResourcePath::parse(uri.path()).map(Self::Local)
    }
}

/// Scheme, host and port of a URL.
#[derive(PartialEq, Eq)]
struct Authority {
    secure: bool,
    host: String,
    port: u16,
}

impl Authority {
    fn parse(url: &str) -> Option<Self> {
        Self::of(&url.parse().ok()?)
    }

    fn of(uri: &Uri) -> Option<Self> {
        let secure = match uri.scheme_str()? {
            "https" | "davs" => true,
            "http" | "dav" => false,
            _ => return None,
        };
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let host = uri.host()?.to_ascii_lowercase();
        Some(Self { secure, host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_local() {
        let own = [
            "http://localhost:8080".to_owned(),
            "https://Storage.example.org".to_owned(),
            "https://[2001:db8::1]:1094".to_owned(),
        ];
        let of = |value: &str| Destination::parse(value, &own);
        let local = |path: &str| Destination::Local(ResourcePath::parse(path).expect(path));
        for here in [
            "/data/a%20b",
            "http://localhost:8080/data/a%20b",
            "https://storage.example.org:443/data/a%20b?x=1",
            "davs://STORAGE.example.org/data/a%20b",
            "https://[2001:db8::1]:1094/data/a%20b",
        ] {
            assert_eq!(of(here).expect(here), local("/data/a b"), "{here}");
        }
        for elsewhere in [
            "http://storage.example.org/data/a",
            "https://storage.example.org:8443/data/a",
            "https://localhost:8080/data/a",
            "https://other/data/a",
            "ftp://localhost:8080/data/a",
        ] {
            assert_eq!(of(elsewhere).expect(elsewhere), Destination::Remote);
        }
        for bad in ["", "data/a", "http://a@localhost:8080/x", "/a#b", "http://"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_copy_has_one_other_end() {
        let head = |headers: &[(&str, &str)]| {
            let request = headers
                .iter()
                .fold(http::Request::builder(), |head, (name, value)| {
                    head.header(*name, *value)
                });
            request.body(()).expect("a request").into_parts().0
        };
        let (near, far) = ("/data/a", "https://other/data/a");
        let path = || ResourcePath::parse(near).expect("a path");
        for (name, value, ends) in [
            ("destination", near, CopyEnds::To(path())),
            ("source", near, CopyEnds::From(path())),
            ("destination", far, CopyEnds::ToRemote(far)),
            ("source", far, CopyEnds::FromRemote(far)),
        ] {
            let head = head(&[(name, value)]);
            assert_eq!(CopyEnds::of(&head, &[]).expect(name), ends);
        }
        for wrong in [
            &[][..],
            &[("source", far), ("destination", near)],
            &[("source", far), ("source", far)],
        ] {
            let refused = CopyEnds::of(&head(wrong), &[]).expect_err("not one end");
            assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        }
    }
}
