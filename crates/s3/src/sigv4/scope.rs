//! The scope that a credential must have, and the place of a credential.

use dewar_sigv4::{CredentialScope, Error};

use crate::error::{Code, Refusal, Result};

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

    /// Parses a credential at this place.
    pub(super) fn parse(self, text: &str) -> Result<CredentialScope> {
        CredentialScope::parse(text).map_err(|error| self.malformed(&error.to_string()))
    }

    /// Checks that a scope is of this day, region and service.
    pub(super) fn check(
        self,
        scope: &CredentialScope,
        day: &str,
        region: &str,
        service: &str,
    ) -> Result<()> {
        // The IAM API is in no region, and clients name any or none.
        if region != ANY_REGION && scope.region != region {
            let what = format!(
                "the region '{}' is wrong; expecting '{region}'",
                scope.region
            );
            return Err(self.malformed(&what).element("Region", region));
        }
        if scope.service != service {
            return Err(self.malformed(&format!(
                "incorrect service \"{}\". This endpoint belongs to \"{service}\".",
                scope.service
            )));
        }
        if scope.day != day {
            return Err(self.malformed(&format!(
                "Invalid credential date \"{}\". This date is not the same as X-Amz-Date: \
                 \"{day}\".",
                scope.day
            )));
        }
        Ok(())
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Malformed(what) => return CredentialLocation::Header.malformed(what),
            Error::Mismatch(_) => return super::mismatch(),
            Error::Algorithm => Code::InvalidRequest,
            Error::Uri => Code::InvalidURI,
            Error::HeaderMissing(_) => Code::SignatureDoesNotMatch,
            Error::Scheme
            | Error::TooManyParameters
            | Error::DuplicateParameter(_)
            | Error::HeaderText(_) => Code::InvalidArgument,
        };
        Self::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let refusal = location.parse("AK").expect_err("too short");
            assert_eq!(refusal.code(), code);
        }
    }

    #[test]
    fn a_wrong_region_names_the_right_one() {
        let (header, query) = (CredentialLocation::Header, CredentialLocation::Query);
        let scope = CredentialScope::parse("AK/20130524/eu/s3/aws4_request").expect("valid");
        let refusal = header
            .check(&scope, "20130524", "us-east-1", "s3")
            .expect_err("wrong region");
        assert_eq!(refusal.code(), Code::AuthorizationHeaderMalformed);
        assert_eq!(refusal.find("Region"), Some("us-east-1"));
        assert!(query.check(&scope, "20130524", "eu", "s3").is_ok());
        assert!(query.check(&scope, "20130525", "eu", "s3").is_err());
        assert!(query.check(&scope, "20130524", "eu", "sts").is_err());
    }
}
