//! Single headers of a request, and values of headers in an answer.

use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Version};

use crate::{RequestError, Result};

/// A header that may be there once, as text.
///
/// # Errors
/// [`RequestError::Header`].
pub fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = std::str::from_utf8(value.as_bytes()).ok();
    text.filter(|_| values.next().is_none())
        .map(Some)
        .ok_or_else(|| RequestError::Header(name.to_owned()))
}

/// Text as a header's value, without control characters, which headers do not allow.
#[must_use]
pub fn value_of(text: &str) -> HeaderValue {
    HeaderValue::from_bytes(text.as_bytes()).unwrap_or_else(|_| {
        let kept: String = text.chars().filter(|c| !c.is_control()).collect();
        HeaderValue::from_bytes(kept.as_bytes()).unwrap_or(HeaderValue::from_static(""))
    })
}

/// An ETag in its quotes.
#[must_use]
pub fn quoted(etag: &str) -> HeaderValue {
    value_of(&format!("\"{etag}\""))
}

/// The token of an `Authorization: Bearer` header (RFC 6750 section 2.1). The same header twice counts
/// once: the compliance suite of WLCG sends that.
///
/// # Errors
/// [`RequestError::Header`] for a token that is not the only credential.
pub fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let Some((scheme, token)) = value.to_str().ok().and_then(|text| text.split_once(' ')) else {
        return Ok(None);
    };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(None);
    }
    if values.any(|other| other != value) {
        return Err(RequestError::Header(AUTHORIZATION.to_string()));
    }
    Ok(Some(token.trim()))
}

/// Whether a request names one host (RFC 9112 section 3.2). A proxy in front of the server may use
/// another of two host names than the server does, and let a request through that it should refuse.
#[must_use]
pub fn has_one_host(head: &Parts) -> bool {
    match head.headers.get_all(HOST).iter().count() {
        0 => head.version != Version::HTTP_11,
        count => count == 1,
    }
}

/// The address of this service as the client wrote it: scheme, host and port, without a slash at the
/// end. `None` for a request without a host.
#[must_use]
pub fn base_url(head: &Parts, secure: bool) -> Option<String> {
    let header = head.headers.get(HOST).and_then(|value| value.to_str().ok());
    let authority = header.or_else(|| head.uri.authority().map(http::uri::Authority::as_str))?;
    let scheme = if secure { "https" } else { "http" };
    Some(format!("{scheme}://{authority}"))
}

/// The host a request was sent to, without port, lower case.
#[must_use]
pub fn host_of(head: &Parts) -> Option<String> {
    let header = head.headers.get(HOST).and_then(|value| value.to_str().ok());
    let host = header.or_else(|| head.uri.authority().map(http::uri::Authority::as_str))?;
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    Some(name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_only_credential() {
        let found = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(
                    AUTHORIZATION,
                    HeaderValue::from_str(value).expect("a value"),
                );
            }
            bearer_token(&headers).map(|token| token.map(str::to_owned))
        };
        let token = || Some("abc".to_owned());
        assert_eq!(found(&["Bearer abc"]).expect("one"), token());
        assert_eq!(
            found(&["bearer abc", "bearer abc"]).expect("the same"),
            token()
        );
        assert_eq!(found(&["Basic abc"]).expect("another scheme"), None);
        assert!(found(&["Bearer abc", "Bearer def"]).is_err());
        assert!(found(&["Bearer abc", "Basic abc"]).is_err());
    }
}
