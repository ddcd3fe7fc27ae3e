//! Basic credentials (RFC 7617): an access key and its secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dewar_auth::Secret;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use zeroize::Zeroizing;

use crate::limits::BASIC_BYTES_MAX;
use crate::{RequestError, Result};

/// The user name and the password of a request.
#[derive(Debug)]
pub struct BasicCredentials {
    /// The user name: for Dewar, the id of an access key.
    pub name: String,
    /// The password: for Dewar, the secret of the access key.
    pub password: Secret,
}

impl BasicCredentials {
    /// The credentials of an `Authorization: Basic` header; `None` for another scheme.
    ///
    /// # Errors
    /// [`RequestError::Header`] for credentials that are not the only ones, are malformed, are not
    /// UTF-8, or are longer than [`BASIC_BYTES_MAX`].
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        let Some((scheme, encoded)) = value.to_str().ok().and_then(|text| text.split_once(' '))
        else {
            return Ok(None);
        };
        if !scheme.eq_ignore_ascii_case("basic") {
            return Ok(None);
        }
        let malformed = || RequestError::Header(AUTHORIZATION.to_string());
        let encoded = encoded.trim();
        if values.next().is_some() || encoded.len() > BASIC_BYTES_MAX {
            return Err(malformed());
        }
        let decoded = STANDARD.decode(encoded).map(Zeroizing::new);
        let decoded = decoded.map_err(|_| malformed())?;
        let text = std::str::from_utf8(&decoded).map_err(|_| malformed())?;
        let (name, password) = text.split_once(':').ok_or_else(malformed)?;
        Ok(Some(Self {
            name: name.to_owned(),
            password: Secret::new(password.to_owned()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(value: &str) -> Result<Option<(String, String)>> {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_str(value).expect("a value");
        headers.insert(AUTHORIZATION, value);
        let found = BasicCredentials::of(&headers)?;
        Ok(found.map(|found| (found.name, found.password.reveal().to_owned())))
    }

    #[test]
    fn passwords_may_contain_colons() {
        let pair = |name: &str, password: &str| Some((name.to_owned(), password.to_owned()));
        let header = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert_eq!(of(&header("ann:a:b")), Ok(pair("ann", "a:b")));
        assert_eq!(of(&header("ann:")), Ok(pair("ann", "")));
        assert_eq!(of("basic YTpi"), Ok(pair("a", "b")));
        assert_eq!(of("Bearer YTpi"), Ok(None));
        for wrong in ["Basic !", "Basic YQ==", &header(&"a:".repeat(8000))] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
