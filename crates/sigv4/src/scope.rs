//! The credential scope: access key, day, region and service.

use std::fmt;

use crate::limits::ACCESS_KEY_BYTES_MAX;
use crate::{Error, Result};

/// `access-key/day/region/service/aws4_request`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CredentialScope {
    /// The access key's id.
    pub access_key: String,
    /// The day, `YYYYMMDD`.
    pub day: String,
    /// The region.
    pub region: String,
    /// The service.
    pub service: String,
}

impl CredentialScope {
    /// Parses a credential from the right, because the access key itself may contain slashes.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::Malformed(
                "the Credential is mal-formed; expecting \
                 \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
            )
        };
        let mut parts = text.rsplitn(5, '/');
        let mut next = || parts.next().ok_or_else(wrong);
        let (terminal, service, region, day, key) = (next()?, next()?, next()?, next()?, next()?);
        if key.is_empty() || key.len() > ACCESS_KEY_BYTES_MAX {
            return Err(wrong());
        }
        if terminal != "aws4_request" {
            let what = "the Credential must end in the terminal \"aws4_request\".";
            return Err(Error::Malformed(what));
        }
        if day.len() != 8 || !day.bytes().all(|b| b.is_ascii_digit()) {
            let what = "the credential's date must be written YYYYMMDD.";
            return Err(Error::Malformed(what));
        }
        Ok(Self {
            access_key: key.to_owned(),
            day: day.to_owned(),
            region: region.to_owned(),
            service: service.to_owned(),
        })
    }

    /// Appends the scope without the access key, as in the string to sign.
    pub(crate) fn push_to(&self, out: &mut String) {
        for part in [&self.day, &self.region, &self.service] {
            out.push_str(part);
            out.push('/');
        }
        out.push_str("aws4_request");
    }
}

impl fmt::Display for CredentialScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.push_to(&mut text);
        write!(f, "{}/{text}", self.access_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_may_hold_slashes() {
        let text = "A/B/20130524/us-east-1/s3/aws4_request";
        let scope = CredentialScope::parse(text).expect("valid");
        assert_eq!(scope.access_key, "A/B");
        assert_eq!(scope.to_string(), text);
    }

    #[test]
    fn malformed_scopes_are_refused() {
        for bad in [
            "",
            "AK",
            "/20130524/r/s3/aws4_request",
            "AK/20130524/r/s3/aws3_request",
            "AK/2013524/r/s3/aws4_request",
            "AK/2013-5-4/r/s3/aws4_request",
        ] {
            let error = CredentialScope::parse(bad).expect_err(bad);
            assert!(matches!(error, Error::Malformed(_)), "{bad}");
        }
    }
}
