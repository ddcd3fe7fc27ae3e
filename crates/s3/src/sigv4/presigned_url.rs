//! A signature in the query string: a presigned URL.

use dewar_sigv4::{
    ALGORITHM, CredentialScope, Query, RequestDate, SIGNATURE_PARAMETER, Signature, SignedHeaders,
};
use dewar_types::Timestamp;

use super::scope::CredentialLocation;
use crate::error::{Code, Refusal, Result};
use crate::limits::{CLOCK_SKEW_SECS_MAX, PRESIGNED_SECS_MAX};

/// The `X-Amz-…` parameters of a presigned URL, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresignedUrl {
    /// The access key and the credential scope.
    pub scope: CredentialScope,
    /// When it was signed.
    pub date: RequestDate,
    /// For how many seconds from then it is valid.
    pub expires_secs: u64,
    /// The names of the signed headers.
    pub signed_headers: SignedHeaders,
    /// The signature.
    pub signature: Signature,
}

fn refuse(message: &'static str) -> Refusal {
    Refusal::new(Code::AuthorizationQueryParametersError, message)
}

impl PresignedUrl {
    /// Whether a query string has a signature of this kind, complete or not.
    #[must_use]
    pub fn is_in(query: &Query) -> bool {
        query.has("X-Amz-Algorithm")
            || query.has(SIGNATURE_PARAMETER)
            || query.has("X-Amz-Credential")
    }

    /// Reads the parameters from a query string.
    ///
    /// # Errors
    /// `AuthorizationQueryParametersError`; `AccessDenied` for an invalid time.
    pub fn parse(query: &Query) -> Result<Self> {
        let get = |name| {
            query.get(name).ok_or_else(|| {
                refuse(
                    "Query-string authentication version 4 requires the X-Amz-Algorithm, \
                     X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and \
                     X-Amz-Expires parameters.",
                )
            })
        };
        let (algorithm, credential) = (get("X-Amz-Algorithm")?, get("X-Amz-Credential")?);
        let (signature, date) = (get(SIGNATURE_PARAMETER)?, get("X-Amz-Date")?);
        let (headers, expires) = (get("X-Amz-SignedHeaders")?, get("X-Amz-Expires")?);
        if algorithm != ALGORITHM {
            return Err(refuse("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\""));
        }
        let scope = CredentialLocation::Query.parse(credential)?;
        let date = RequestDate::parse(date).ok_or_else(|| {
            refuse("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
        })?;
        // An address that is good for no time at all, or for more than there is, lets nobody in.
        let denied = |words: &'static str| Refusal::new(Code::AccessDenied, words);
        let digits = expires.strip_prefix('-').unwrap_or(expires);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(refuse("X-Amz-Expires should be a number"));
        }
        if digits.len() < expires.len() {
            return Err(denied("X-Amz-Expires must be non-negative"));
        }
        let expires_secs = expires
            .parse()
            .ok()
            .filter(|secs| (1..=PRESIGNED_SECS_MAX).contains(secs))
            .ok_or_else(|| {
                denied(
                    "X-Amz-Expires must be less than a week (in seconds); that is, the given \
                     X-Amz-Expires must be less than 604800 seconds",
                )
            })?;
        Ok(Self {
            scope,
            date,
            expires_secs,
            signed_headers: SignedHeaders::parse(headers)
                .ok_or_else(|| refuse("X-Amz-SignedHeaders is not a list of header names"))?,
            signature: Signature::parse(signature)
                .ok_or_else(|| refuse("X-Amz-Signature is not 64 hexadecimal digits"))?,
        })
    }

    /// # Errors
    /// `AccessDenied` when `now` is outside the signed period, with the allowed clock skew at its
    /// beginning.
    pub(super) fn check_time(&self, now: Timestamp) -> Result<()> {
        let (signed, now) = (self.date.secs(), now.secs());
        if signed > now + CLOCK_SKEW_SECS_MAX {
            return Err(Refusal::new(Code::AccessDenied, "Request is not valid yet"));
        }
        let end = signed + self.expires_secs;
        if now <= end {
            return Ok(());
        }
        let text = |secs| RequestDate::at(secs).as_str().to_owned();
        Err(Refusal::new(Code::AccessDenied, "Request has expired")
            .element("X-Amz-Expires", self.expires_secs.to_string())
            .element("Expires", text(end))
            .element("ServerTime", text(now)))
    }
}

/// Fuzzes the query string of a presigned URL: no input may panic.
pub fn fuzz_presigned(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (_, query) = text.split_once('?').unwrap_or(("/", text));
    if let Ok(query) = Query::parse(Some(query))
        && let Ok(presigned) = PresignedUrl::parse(&query)
    {
        assert!(presigned.expires_secs > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIG: &str = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";

    fn query(changed: &str, value: Option<&str>) -> Query {
        let fields = [
            ("X-Amz-Algorithm", ALGORITHM),
            (
                "X-Amz-Credential",
                "AK%2F20130524%2Fus-east-1%2Fs3%2Faws4_request",
            ),
            ("X-Amz-Date", "20130524T000000Z"),
            ("X-Amz-Expires", "86400"),
            ("X-Amz-SignedHeaders", "host"),
            ("X-Amz-Signature", SIG),
        ];
        let text: Vec<_> = fields
            .into_iter()
            .filter_map(|(name, there)| {
                let value = if name == changed { value? } else { there };
                Some(format!("{name}={value}"))
            })
            .collect();
        Query::parse(Some(&text.join("&"))).expect("valid query")
    }

    #[test]
    fn every_parameter_is_needed_and_checked() {
        assert!(PresignedUrl::parse(&query("", None)).is_ok());
        let mut bad: Vec<(&str, Option<&str>)> = vec![
            ("X-Amz-Algorithm", Some("AWS4-HMAC-SHA1")),
            ("X-Amz-Credential", Some("AK")),
            ("X-Amz-Date", Some("20130524")),
            ("X-Amz-SignedHeaders", Some("")),
            ("X-Amz-Signature", Some("00")),
        ];
        for expires in ["", "1s", "-"] {
            bad.push(("X-Amz-Expires", Some(expires)));
        }
        for expires in ["0", "-1", "604801", "99999999999999999999999"] {
            let refusal = PresignedUrl::parse(&query("X-Amz-Expires", Some(expires)));
            assert_eq!(refusal.expect_err(expires).code(), Code::AccessDenied);
        }
        for name in bad.iter().map(|(name, _)| *name).collect::<Vec<_>>() {
            bad.push((name, None));
        }
        for (name, value) in bad {
            let refusal = PresignedUrl::parse(&query(name, value)).expect_err(name);
            assert_eq!(
                refusal.code(),
                Code::AuthorizationQueryParametersError,
                "{name} {value:?}"
            );
        }
    }

    #[test]
    fn is_valid_from_skew_before_until_its_end() {
        let parsed = PresignedUrl::parse(&query("", None)).expect("valid");
        let start = parsed.date.secs();
        let at = |secs| parsed.check_time(Timestamp::from_secs(secs));
        assert!(at(start - CLOCK_SKEW_SECS_MAX).is_ok());
        assert!(at(start + 86400).is_ok());
        assert!(at(start - CLOCK_SKEW_SECS_MAX - 1).is_err());
        let refusal = at(start + 86401).expect_err("expired");
        assert_eq!(refusal.code(), Code::AccessDenied);
        assert_eq!(refusal.find("Expires"), Some("20130525T000000Z"));
    }
}
