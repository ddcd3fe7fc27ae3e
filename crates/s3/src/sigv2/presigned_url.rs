//! A V2 signature in the query string.

use dewar_sigv4::limits::ACCESS_KEY_BYTES_MAX;
use dewar_sigv4::{Query, RequestDate};
use dewar_types::Timestamp;
use http::request::Parts;

use super::canonical;
use crate::error::{Code, Refusal, Result};
use crate::limits::{CLOCK_SKEW_SECS_MAX, PRESIGNED_SECS_MAX};

/// The parameters of a V2 presigned URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresignedUrlV2 {
    /// The access key's id.
    pub access_key: String,
    /// The signature, base64.
    pub(crate) signature: String,
    /// Until when it is valid, in seconds since the epoch.
    pub expires_secs: u64,
}

fn denied(message: impl Into<std::borrow::Cow<'static, str>>) -> Refusal {
    Refusal::new(Code::AccessDenied, message)
}

impl PresignedUrlV2 {
    /// Whether a query string carries a V2 signature.
    #[must_use]
    pub fn is_in(query: &Query) -> bool {
        query.has("Signature") || query.has("AWSAccessKeyId")
    }

    /// Reads the parameters from a query string.
    ///
    /// # Errors
    /// `AccessDenied` when one is missing or malformed, or when there are parameters that the
    /// signature does not cover.
    pub fn parse(query: &Query) -> Result<Self> {
        let get = |name| query.get(name).filter(|value| !value.is_empty());
        let (Some(key), Some(signature), Some(expires)) =
            (get("AWSAccessKeyId"), get("Signature"), get("Expires"))
        else {
            return Err(denied(
                "Query-string authentication requires the Signature, Expires and AWSAccessKeyId \
                 parameters",
            ));
        };
        canonical::check_parameters(query)?;
        let digits = expires.bytes().all(|b| b.is_ascii_digit());
        let expires_secs = expires.parse().ok().filter(|_| digits);
        let broken = || denied("Invalid date (should be seconds since epoch)");
        if key.len() > ACCESS_KEY_BYTES_MAX {
            return Err(denied("The AWSAccessKeyId is too long"));
        }
        Ok(Self {
            access_key: key.to_owned(),
            signature: signature.to_owned(),
            expires_secs: expires_secs.ok_or_else(broken)?,
        })
    }

    /// # Errors
    /// `AccessDenied` when it has expired, or when its expiry exceeds the limit for presigned URLs.
    pub(crate) fn check_time(&self, now: Timestamp) -> Result<()> {
        let now = now.secs();
        if self.expires_secs > now.saturating_add(PRESIGNED_SECS_MAX + CLOCK_SKEW_SECS_MAX) {
            return Err(denied("Request expires more than a week from now"));
        }
        if now <= self.expires_secs {
            return Ok(());
        }
        let text = |secs| RequestDate::at(secs).as_str().to_owned();
        Err(denied("Request has expired")
            .element("Expires", text(self.expires_secs))
            .element("ServerTime", text(now)))
    }

    /// The possible strings to sign.
    pub(crate) fn strings_to_sign(
        &self,
        head: &Parts,
        query: &Query,
        bucket: Option<&str>,
    ) -> Vec<String> {
        canonical::strings_to_sign(head, query, bucket, &[&self.expires_secs.to_string()])
    }
}

/// Fuzzes the query string of a V2 presigned URL: no input may panic.
pub fn fuzz_presigned_v2(data: &[u8]) {
    let Some(query) = std::str::from_utf8(data)
        .ok()
        .and_then(|t| Query::parse(Some(t)).ok())
    else {
        return;
    };
    let Ok(presigned) = PresignedUrlV2::parse(&query) else {
        return;
    };
    let request = http::Request::get("/bucket/key").body(());
    if let Ok(request) = request {
        let head = request.into_parts().0;
        for text in presigned.strings_to_sign(&head, &query, None) {
            assert!(text.starts_with("GET\n\n\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use dewar_auth::Secret;
    use proptest::prelude::*;

    use super::*;

    /// The example of the S3 guide, "Query string request authentication alternative".
    #[test]
    fn the_example_of_the_guide_verifies() {
        let target = "/photos/puppy.jpg?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&\
                      Signature=NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D&Expires=1175139620";
        let request = http::Request::get(target).body(()).expect("a request");
        let head = request.into_parts().0;
        let query = Query::parse(head.uri.query()).expect("a query");
        let presigned = PresignedUrlV2::parse(&query).expect("valid");
        let texts = presigned.strings_to_sign(&head, &query, Some("johnsmith"));
        let [text] = texts.as_slice() else {
            panic!("one form of what is signed: {texts:?}");
        };
        assert_eq!(text, "GET\n\n\n1175139620\n/johnsmith/photos/puppy.jpg");
        let secret = Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into());
        assert!(super::super::verifies(&secret, text, &presigned.signature));
        assert!(!super::super::verifies(&secret, text, "AAAA"));
        let at = |secs| presigned.check_time(Timestamp::from_secs(secs));
        assert!(at(1_175_139_620).is_ok());
        assert!(at(1_175_139_621).is_err());
        assert!(at(1_175_139_620 - PRESIGNED_SECS_MAX - CLOCK_SKEW_SECS_MAX - 1).is_err());
    }

    #[test]
    fn nothing_unsigned_slips_in() {
        let parse = |more: &str| {
            let text = format!("AWSAccessKeyId=A&Signature=s&Expires=1{more}");
            PresignedUrlV2::parse(&Query::parse(Some(&text)).expect("a query"))
        };
        assert!(parse("&uploadId=1&partNumber=2&x-id=Get").is_ok());
        for more in ["&renameObject", "&retention", "&attributes"] {
            assert_eq!(parse(more).expect_err(more).code(), Code::AccessDenied);
        }
        for text in ["Signature=s", "AWSAccessKeyId=A&Signature=s&Expires=x"] {
            let query = Query::parse(Some(text)).expect("a query");
            assert!(PresignedUrlV2::parse(&query).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_parser_never_panics(noise in "(AWSAccessKeyId|Signature|Expires|=|&|1|acl|%|x){0,20}") {
            fuzz_presigned_v2(noise.as_bytes());
        }
    }
}
