//! The Authorization header of Signature V2.

use dewar_sigv4::limits::{ACCESS_KEY_BYTES_MAX, AUTHORIZATION_BYTES_MAX};

use crate::error::{Code, Refusal, Result};

/// `AWS access-key:signature`, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationV2 {
    /// The access key's id.
    pub access_key: String,
    /// The signature, base64.
    pub(crate) signature: String,
}

impl AuthorizationV2 {
    /// Whether the header's value is of this kind.
    #[must_use]
    pub fn is(value: &str) -> bool {
        value.split_ascii_whitespace().next() == Some("AWS")
    }

    /// Parses the header's value.
    ///
    /// # Errors
    /// `InvalidArgument` for malformed text.
    pub fn parse(value: &str) -> Result<Self> {
        let malformed = || {
            let message = "AWS authorization header is invalid. Expected AwsAccessKeyId:signature";
            Refusal::new(Code::InvalidArgument, message).element("ArgumentName", "Authorization")
        };
        if value.len() > AUTHORIZATION_BYTES_MAX {
            return Err(malformed());
        }
        let credential = value.trim().strip_prefix("AWS").unwrap_or_default().trim();
        let parts = credential.rsplit_once(':');
        let (key, signature) = parts.ok_or_else(malformed)?;
        if key.is_empty() || signature.is_empty() || key.len() > ACCESS_KEY_BYTES_MAX {
            return Err(malformed());
        }
        Ok(Self {
            access_key: key.to_owned(),
            signature: signature.to_owned(),
        })
    }
}

/// Fuzzes the Authorization header of Signature V2: no input may panic.
pub fn fuzz_authorization_v2(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(parsed) = AuthorizationV2::parse(text) {
        assert!(!parsed.access_key.is_empty() && !parsed.signature.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_form_and_nothing_else() {
        let parsed = AuthorizationV2::parse("AWS AK:a+b/c=").expect("valid");
        assert_eq!((&*parsed.access_key, &*parsed.signature), ("AK", "a+b/c="));
        let long = format!("AWS {}:s", "k".repeat(ACCESS_KEY_BYTES_MAX + 1));
        for bad in ["AWS", "AWS ", "AWS AK", "AWS :s", "AWS AK:", "", &long] {
            let refusal = AuthorizationV2::parse(bad).expect_err(bad);
            assert_eq!(refusal.code(), Code::InvalidArgument, "{bad}");
        }
        assert!(AuthorizationV2::is("AWS AK:s") && AuthorizationV2::is("AWS"));
        assert!(!AuthorizationV2::is("AWS4-HMAC-SHA256 x") && !AuthorizationV2::is(""));
    }
}
