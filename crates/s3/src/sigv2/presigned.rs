//! A V2 signature in the query string.

use dewar_types::Timestamp;
use http::header::{CONTENT_TYPE, HeaderName};
use http::request::Parts;

use crate::error::{Code, Refusal, Result};
use crate::limits::{ACCESS_KEY_BYTES_MAX, CLOCK_SKEW_SECS_MAX, PRESIGNED_SECS_MAX};
use crate::sigv4::{Query, RequestDate};

/// Parameters that are part of what is signed.
const SIGNED: &[&str] = &[
    "acl",
    "cors",
    "delete",
    "lifecycle",
    "location",
    "logging",
    "notification",
    "partNumber",
    "policy",
    "requestPayment",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "restore",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
    "website",
];

/// Parameters that are not signed and may be there: the signature's own, the page of a listing,
/// and headers that botocore repeats.
const UNSIGNED: &[&str] = &[
    "AWSAccessKeyId",
    "Signature",
    "Expires",
    "prefix",
    "delimiter",
    "marker",
    "max-keys",
    "encoding-type",
    "list-type",
    "start-after",
    "continuation-token",
    "fetch-owner",
    "key-marker",
    "upload-id-marker",
    "max-uploads",
    "max-parts",
    "part-number-marker",
    "content-type",
    "content-md5",
];

/// The parameters of a V2 presigned URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresignedV2 {
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

impl PresignedV2 {
    /// Whether a query string carries a V2 signature.
    #[must_use]
    pub fn is_in(query: &Query) -> bool {
        query.has("Signature") || query.has("AWSAccessKeyId")
    }

    /// Takes the parameters from a query string.
    ///
    /// # Errors
    /// `AccessDenied` when one is missing or broken, or when there are parameters that the
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
        let known = |name: &str| {
            SIGNED.contains(&name) || UNSIGNED.contains(&name) || name.starts_with("x-")
        };
        if let Some((name, _)) = query.iter().find(|(name, _)| !known(name)) {
            return Err(denied(format!("The parameter {name} is not signed")));
        }
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
    /// `AccessDenied` when it has expired, or is to expire later than any presigned URL may.
    pub(crate) fn check_time(&self, now: Timestamp) -> Result<()> {
        let now = now.secs();
        if self.expires_secs > now.saturating_add(PRESIGNED_SECS_MAX + CLOCK_SKEW_SECS_MAX) {
            return Err(denied("Request expires more than a week from now"));
        }
        if now <= self.expires_secs {
            return Ok(());
        }
        let text = |secs| RequestDate::at(secs).map(|d| d.as_str().to_owned());
        Err(denied("Request has expired")
            .element("Expires", text(self.expires_secs).unwrap_or_default())
            .element("ServerTime", text(now).unwrap_or_default()))
    }

    /// What may have been signed. `bucket` stands before the path when it is in the host. A path
    /// that is a bucket alone is signed with a slash behind it by some, botocore among them.
    pub(crate) fn strings_to_sign(
        &self,
        head: &Parts,
        query: &Query,
        bucket: Option<&str>,
    ) -> Vec<String> {
        let path = head.uri.path();
        let alone = bucket.is_none() && !path[1.min(path.len())..].contains('/') && path != "/";
        let mut strings = vec![self.string_to_sign(head, query, bucket, "")];
        if alone {
            strings.push(self.string_to_sign(head, query, bucket, "/"));
        }
        strings
    }

    fn string_to_sign(
        &self,
        head: &Parts,
        query: &Query,
        bucket: Option<&str>,
        slash: &str,
    ) -> String {
        let mut out = String::with_capacity(256);
        out.push_str(head.method.as_str());
        out.push('\n');
        let md5 = HeaderName::from_static("content-md5");
        for name in [md5, CONTENT_TYPE] {
            let value = head
                .headers
                .get(&name)
                .and_then(|value| value.to_str().ok());
            out.push_str(value.unwrap_or_default().trim());
            out.push('\n');
        }
        out.push_str(&self.expires_secs.to_string());
        out.push('\n');
        push_amz_headers(&mut out, head);
        if let Some(bucket) = bucket {
            out.push('/');
            out.push_str(bucket);
        }
        out.push_str(head.uri.path());
        out.push_str(slash);
        push_sub_resources(&mut out, query);
        out
    }
}

fn push_amz_headers(out: &mut String, head: &Parts) {
    let mut names: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
    names.retain(|name| name.starts_with("x-amz-"));
    names.sort_unstable();
    for name in names {
        let values = head.headers.get_all(name).iter();
        let values: Vec<_> = values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
            .collect();
        out.push_str(name);
        out.push(':');
        out.push_str(&values.join(","));
        out.push('\n');
    }
}

fn push_sub_resources(out: &mut String, query: &Query) {
    let mut signed: Vec<_> = query
        .iter()
        .filter(|(name, _)| SIGNED.contains(name))
        .collect();
    signed.sort_unstable();
    for (i, (name, value)) in signed.into_iter().enumerate() {
        out.push(if i == 0 { '?' } else { '&' });
        out.push_str(name);
        if !value.is_empty() {
            out.push('=');
            out.push_str(value);
        }
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
    let Ok(presigned) = PresignedV2::parse(&query) else {
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
        let presigned = PresignedV2::parse(&query).expect("valid");
        let text = presigned.string_to_sign(&head, &query, Some("johnsmith"), "");
        assert_eq!(text, "GET\n\n\n1175139620\n/johnsmith/photos/puppy.jpg");
        let secret = Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into());
        assert!(super::super::verifies(&secret, &text, &presigned.signature));
        assert!(!super::super::verifies(&secret, &text, "AAAA"));
        let at = |secs| presigned.check_time(Timestamp::from_secs(secs));
        assert!(at(1_175_139_620).is_ok());
        assert!(at(1_175_139_621).is_err());
        assert!(at(1_175_139_620 - PRESIGNED_SECS_MAX - CLOCK_SKEW_SECS_MAX - 1).is_err());
    }

    #[test]
    fn nothing_unsigned_slips_in() {
        let parse = |more: &str| {
            let text = format!("AWSAccessKeyId=A&Signature=s&Expires=1{more}");
            PresignedV2::parse(&Query::parse(Some(&text)).expect("a query"))
        };
        assert!(parse("&uploadId=1&partNumber=2&x-id=Get").is_ok());
        for more in ["&renameObject", "&retention", "&attributes"] {
            assert_eq!(parse(more).expect_err(more).code(), Code::AccessDenied);
        }
        for text in ["Signature=s", "AWSAccessKeyId=A&Signature=s&Expires=x"] {
            let query = Query::parse(Some(text)).expect("a query");
            assert!(PresignedV2::parse(&query).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_parser_never_panics(noise in "(AWSAccessKeyId|Signature|Expires|=|&|1|acl|%|x){0,20}") {
            fuzz_presigned_v2(noise.as_bytes());
        }
    }
}
