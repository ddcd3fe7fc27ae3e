//! The credential scope: access key, day, region and service.

use crate::error::{Code, Refusal, Result};
use crate::limits::ACCESS_KEY_BYTES_MAX;

/// The expected region where the region does not matter.
pub(super) const ANY_REGION: &str = "*";

/// The place of a credential. It decides the error code for a malformed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CredentialLocation {
    /// The Authorization header.
    Header,
    /// The query string of a presigned URL.
    Query,
    /// A browser's form.
    Form,
}

impl CredentialLocation {
    /// A refusal of something malformed at this place.
    pub(super) fn malformed(self, what: &str) -> Refusal {
        match self {
            Self::Header => Refusal::new(
                Code::AuthorizationHeaderMalformed,
                format!("The authorization header is malformed; {what}"),
            ),
            Self::Query => Refusal::new(
                Code::AuthorizationQueryParametersError,
                format!("Error parsing the X-Amz-Credential parameter; {what}"),
            ),
            Self::Form => Refusal::new(
                Code::InvalidRequest,
                format!("Error parsing the x-amz-credential field; {what}"),
            ),
        }
    }
}

/// `access-key/day/region/service/aws4_request`
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub(super) fn parse(text: &str, location: CredentialLocation) -> Result<Self> {
        let wrong = || {
            location.malformed(
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
            return Err(
                location.malformed("the Credential must end in the terminal \"aws4_request\".")
            );
        }
        if day.len() != 8 || !day.bytes().all(|b| b.is_ascii_digit()) {
            return Err(location.malformed("the credential's date must be written YYYYMMDD."));
        }
        Ok(Self {
            access_key: key.to_owned(),
            day: day.to_owned(),
            region: region.to_owned(),
            service: service.to_owned(),
        })
    }

    /// Checks that the scope is of this day, region and service.
    pub(super) fn check(
        &self,
        location: CredentialLocation,
        day: &str,
        region: &str,
        service: &str,
    ) -> Result<()> {
        // The IAM API is in no region, and clients name any or none.
        if region != ANY_REGION && self.region != region {
            let what = format!(
                "the region '{}' is wrong; expecting '{region}'",
                self.region
            );
            return Err(location.malformed(&what).element("Region", region));
        }
        if self.service != service {
            return Err(location.malformed(&format!(
                "incorrect service \"{}\". This endpoint belongs to \"{service}\".",
                self.service
            )));
        }
        if self.day != day {
            return Err(location.malformed(&format!(
                "Invalid credential date \"{}\". This date is not the same as X-Amz-Date: \
                 \"{day}\".",
                self.day
            )));
        }
        Ok(())
    }

    /// Appends the scope without the access key, as in the string to sign.
    pub(super) fn push_to(&self, out: &mut String) {
        for part in [&self.day, &self.region, &self.service] {
            out.push_str(part);
            out.push('/');
        }
        out.push_str("aws4_request");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_may_hold_slashes() {
        let scope = CredentialScope::parse(
            "A/B/20130524/us-east-1/s3/aws4_request",
            CredentialLocation::Header,
        );
        assert_eq!(scope.expect("valid").access_key, "A/B");
    }

    #[test]
    fn malformed_scopes_have_the_code_of_their_place() {
        for (location, code) in [
            (
                CredentialLocation::Header,
                Code::AuthorizationHeaderMalformed,
            ),
            (
                CredentialLocation::Query,
                Code::AuthorizationQueryParametersError,
            ),
            (CredentialLocation::Form, Code::InvalidRequest),
        ] {
            for bad in [
                "",
                "AK",
                "/20130524/r/s3/aws4_request",
                "AK/20130524/r/s3/aws3_request",
                "AK/2013524/r/s3/aws4_request",
                "AK/2013-5-4/r/s3/aws4_request",
            ] {
                let refusal = CredentialScope::parse(bad, location).expect_err(bad);
                assert_eq!(refusal.code(), code, "{bad}");
            }
        }
    }

    #[test]
    fn a_wrong_region_names_the_right_one() {
        let scope =
            CredentialScope::parse("AK/20130524/eu/s3/aws4_request", CredentialLocation::Header)
                .expect("valid");
        let refusal = scope
            .check(CredentialLocation::Header, "20130524", "us-east-1", "s3")
            .expect_err("wrong region");
        assert_eq!(refusal.code(), Code::AuthorizationHeaderMalformed);
        assert_eq!(refusal.find("Region"), Some("us-east-1"));
        assert!(
            scope
                .check(CredentialLocation::Query, "20130524", "eu", "s3")
                .is_ok()
        );
        assert!(
            scope
                .check(CredentialLocation::Query, "20130525", "eu", "s3")
                .is_err()
        );
        assert!(
            scope
                .check(CredentialLocation::Query, "20130524", "eu", "sts")
                .is_err()
        );
    }
}
