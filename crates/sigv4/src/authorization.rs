//! The Authorization header of Signature V4.

use crate::limits::{AUTHORIZATION_BYTES_MAX, SIGNED_HEADERS_MAX};
use crate::{ALGORITHM, CredentialScope, Error, Result, Signature};

/// `AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…`, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// The access key and the credential scope.
    pub scope: CredentialScope,
    /// The names of the signed headers, lower case, in the signer's order.
    pub signed_headers: SignedHeaders,
    /// The signature.
    pub signature: Signature,
}

/// Names of signed headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedHeaders(String);

impl SignedHeaders {
    /// Parses `host;x-amz-date`. `None` when it is empty or too long, or has a duplicate name, or a
    /// name that is not a lower-case token.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
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
    /// [`Error::Scheme`], [`Error::Algorithm`] for V4A, [`Error::Malformed`].
    pub fn parse(value: &str) -> Result<Self> {
        let malformed = Error::Malformed;
        if value.len() > AUTHORIZATION_BYTES_MAX {
            return Err(malformed("it is too long."));
        }
        let value = value.trim();
        let (algorithm, fields) = value.split_once(' ').unwrap_or((value, ""));
        if algorithm != ALGORITHM {
            let is_v4 = algorithm.starts_with("AWS4-");
            return Err(if is_v4 {
                Error::Algorithm
            } else {
                Error::Scheme
            });
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
            scope: CredentialScope::parse(scope)?,
            signed_headers: SignedHeaders::parse(headers)
                .ok_or_else(|| malformed("the SignedHeaders are not a list of header names."))?,
            signature: Signature::parse(signature)
                .ok_or_else(|| malformed("the Signature is not 64 hexadecimal digits."))?,
        })
    }
}

/// Fuzzes the Authorization header: no input may panic, and what parses is within its limits.
pub fn fuzz_authorization(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(authorization) = Authorization::parse(text) {
        assert!(text.contains(&authorization.scope.to_string()));
        assert!(authorization.signed_headers.iter().all(|n| !n.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            assert_eq!(parsed.signature.to_string(), SIG);
        }
    }

    #[test]
    fn every_defect_has_its_error() {
        let cred = "Credential=AK/20130524/us-east-1/s3/aws4_request";
        let error = |text: &str| Authorization::parse(text).expect_err(text);
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
            assert!(matches!(error(&text), Error::Malformed(_)), "{fields}");
        }
        assert_eq!(error("AWS4-ECDSA-P256-SHA256 x"), Error::Algorithm);
        assert_eq!(error("Bearer abc"), Error::Scheme);
        assert_eq!(error(""), Error::Scheme);
    }

    proptest! {
        #[test]
        fn the_parser_never_panics(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            fuzz_authorization(&data);
            crate::fuzz_canonical(&data);
        }

        #[test]
        fn the_parser_never_panics_near_the_truth(
            cut in 0_usize..260, insert in "\\PC{0,6}", tail in 0_usize..20,
        ) {
            let text = format!(
                "AWS4-HMAC-SHA256 Credential=AK/20130524/us-east-1/s3/aws4_request,\
                 SignedHeaders=host;range;x-amz-date,Signature={SIG}"
            );
            let at = cut.min(text.len());
            let rest = &text[(at + tail).min(text.len())..];
            fuzz_authorization(format!("{}{insert}{rest}", &text[..at]).as_bytes());
        }
    }
}
