//! The Authorization header of Signature V4.

use super::encode::parse_hex_32;
use super::scope::{CredentialLocation, CredentialScope};
use crate::error::{Code, Refusal, Result};
use crate::limits::{AUTHORIZATION_BYTES_MAX, SIGNED_HEADERS_MAX};

/// The one algorithm of Signature V4 that S3 clients use.
pub(super) const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// `AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…`, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// The access key and the credential scope.
    pub scope: CredentialScope,
    /// The names of the signed headers, lower case, in the signer's order.
    pub signed_headers: SignedHeaders,
    /// The signature.
    pub signature: [u8; 32],
}

/// Names of signed headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedHeaders(String);

impl SignedHeaders {
    /// Parses `host;x-amz-date`. `None` when it is empty or too long, or has a duplicate name, or a
    /// name that is not a lower-case token.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut names: Vec<&str> = text.split(';').collect();
        let token = |b: u8| b.is_ascii_graphic() && !b.is_ascii_uppercase() && b != b':';
        let fine = |name: &str| !name.is_empty() && name.bytes().all(token);
        if names.len() > SIGNED_HEADERS_MAX || !names.iter().all(|name| fine(name)) {
            return None;
        }
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return None;
        }
        Some(Self(text.to_owned()))
    }

    /// The names in the signer's order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split(';')
    }

    /// Whether a header (lower case) is signed.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|signed| signed == name)
    }

    /// The list as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Authorization {
    /// Parses the header's value.
    ///
    /// # Errors
    /// `InvalidArgument` for another scheme, `InvalidRequest` for an unsupported signature (V4A),
    /// otherwise `AuthorizationHeaderMalformed`.
    pub fn parse(value: &str) -> Result<Self> {
        let malformed = |what: &str| CredentialLocation::Header.malformed(what);
        if value.len() > AUTHORIZATION_BYTES_MAX {
            return Err(malformed("it is too long."));
        }
        let value = value.trim();
        let (algorithm, fields) = value.split_once(' ').unwrap_or((value, ""));
        if algorithm != ALGORITHM {
            return Err(other_scheme(algorithm));
        }
        let (mut credential, mut headers, mut signature) = (None, None, None);
        for field in fields.split(',') {
            let field = field.trim();
            let (name, value) = field
                .split_once('=')
                .ok_or_else(|| malformed("a field has no '='."))?;
            let location = match name {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut headers,
                "Signature" => &mut signature,
                _ => return Err(malformed("it has an unknown field.")),
            };
            if location.replace(value).is_some() {
                return Err(malformed("a field is given twice."));
            }
        }
        let scope = credential.ok_or_else(|| malformed("the Credential is missing."))?;
        let headers = headers.ok_or_else(|| malformed("the SignedHeaders are missing."))?;
        let signature = signature.ok_or_else(|| malformed("the Signature is missing."))?;
        Ok(Self {
            scope: CredentialScope::parse(scope, CredentialLocation::Header)?,
            signed_headers: SignedHeaders::parse(headers)
                .ok_or_else(|| malformed("the SignedHeaders are not a list of header names."))?,
            signature: parse_hex_32(signature)
                .ok_or_else(|| malformed("the Signature is not 64 hexadecimal digits."))?,
        })
    }
}

fn other_scheme(algorithm: &str) -> Refusal {
    if algorithm.starts_with("AWS4-") {
        return Refusal::new(
            Code::InvalidRequest,
            "The authorization mechanism you have provided is not supported. Please use \
             AWS4-HMAC-SHA256.",
        );
    }
    Refusal::new(Code::InvalidArgument, "Unsupported Authorization Type")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIG: &str = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";

    #[test]
    fn blanks_after_commas_are_optional() {
        for comma in [",", ", ", " , "] {
            let text = format!(
                "AWS4-HMAC-SHA256 Credential=AK/20130524/us-east-1/s3/aws4_request{comma}\
                 SignedHeaders=host;range;x-amz-date{comma}Signature={SIG}"
            );
            let parsed = Authorization::parse(&text).expect("valid");
            assert_eq!(parsed.scope.access_key, "AK");
            assert_eq!(parsed.signed_headers.as_str(), "host;range;x-amz-date");
            assert_eq!(parsed.signature[0], 0xf0);
        }
    }

    #[test]
    fn every_defect_has_its_code() {
        let cred = "Credential=AK/20130524/us-east-1/s3/aws4_request";
        let code = |text: String| Authorization::parse(&text).expect_err(&text).code();
        for fields in [
            String::new(),
            cred.to_owned(),
            format!("{cred},SignedHeaders=host"),
            format!("{cred},SignedHeaders=host,Signature=abc"),
            format!("{cred},SignedHeaders=,Signature={SIG}"),
            format!("{cred},SignedHeaders=Host,Signature={SIG}"),
            format!("{cred},SignedHeaders=host;host,Signature={SIG}"),
            format!("{cred},SignedHeaders=host,Signature={}", SIG.to_uppercase()),
            format!("{cred},SignedHeaders=host,Signature={SIG},Signature={SIG}"),
            format!("{cred},SignedHeaders=host,Signature={SIG},More=1"),
            format!("{cred},SignedHeaders=host,Signature={SIG},"),
            "x".repeat(AUTHORIZATION_BYTES_MAX),
        ] {
            let text = format!("AWS4-HMAC-SHA256 {fields}");
            assert_eq!(code(text), Code::AuthorizationHeaderMalformed, "{fields}");
        }
        assert_eq!(
            code("AWS4-ECDSA-P256-SHA256 x".into()),
            Code::InvalidRequest
        );
        assert_eq!(code("Bearer abc".into()), Code::InvalidArgument);
        assert_eq!(code(String::new()), Code::InvalidArgument);
    }
}
