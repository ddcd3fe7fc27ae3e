//! The stored forms of a bucket's access settings. Each begins with a format number. The list has
//! its own ([`crate::Acl::to_bytes`]).

use std::sync::Arc;

use dewar_types::{Error, ErrorKind, Result};

use crate::{
    BucketPolicy, Ownership, Policy, PolicyKind, PublicAccessBlock, RequestPayment,
    STORED_POLICY_BYTES_MAX,
};

const FORMAT: u8 = 1;

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("a bucket's {what} is damaged"))
}

fn body<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a [u8]> {
    match bytes.split_first() {
        Some((&FORMAT, body)) => Ok(body),
        Some((format, _)) if *format > FORMAT => {
            let message = format!("a bucket's {what} has format {format}, of a newer release");
            Err(Error::new(ErrorKind::Unsupported, message))
        }
        _ => Err(damaged(what)),
    }
}

/// A value of one byte.
fn byte(what: &str, bytes: &[u8]) -> Result<u8> {
    match body(what, bytes)? {
        [byte] => Ok(*byte),
        _ => Err(damaged(what)),
    }
}

impl BucketPolicy {
    /// The stored form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT, u8::from(self.locks_owner_out)];
        bytes.extend_from_slice(self.text.as_bytes());
        bytes
    }

    /// Reads the stored form and compiles the policy.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a newer format, [`ErrorKind::Corrupt`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (flags, text) = body("policy", bytes)?
            .split_first()
            .ok_or_else(|| damaged("policy"))?;
        let text = std::str::from_utf8(text).map_err(|_| damaged("policy"))?;
        // Whether it speaks of this bucket was seen when it was set.
        let policy = Policy::parse(text, PolicyKind::AnyBucket, STORED_POLICY_BYTES_MAX)
            .map_err(|error| Error::with_source(ErrorKind::Corrupt, "a bucket's policy", error))?;
        Ok(Self {
            text: text.to_owned(),
            policy: Arc::new(policy),
            locks_owner_out: flags & 1 != 0,
        })
    }
}

impl Ownership {
    /// The stored form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let number = match self {
            Self::BucketOwnerEnforced => 1,
            Self::BucketOwnerPreferred => 2,
            Self::ObjectWriter => 3,
        };
        vec![FORMAT, number]
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// As [`BucketPolicy::from_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(match byte("ownership", bytes)? {
            1 => Self::BucketOwnerEnforced,
            2 => Self::BucketOwnerPreferred,
            3 => Self::ObjectWriter,
            _ => return Err(damaged("ownership")),
        })
    }
}

impl PublicAccessBlock {
    /// The stored form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let bits = u8::from(self.block_public_acls)
            | u8::from(self.ignore_public_acls) << 1
            | u8::from(self.block_public_policy) << 2
            | u8::from(self.restrict_public_buckets) << 3;
        vec![FORMAT, bits]
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// As [`BucketPolicy::from_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bits = byte("public access block", bytes)?;
        Ok(Self {
            block_public_acls: bits & 1 != 0,
            ignore_public_acls: bits & 2 != 0,
            block_public_policy: bits & 4 != 0,
            restrict_public_buckets: bits & 8 != 0,
        })
    }
}

impl RequestPayment {
    /// The stored form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        vec![FORMAT, u8::from(self.requester)]
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// As [`BucketPolicy::from_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let requester = byte("request payment", bytes)? != 0;
        Ok(Self { requester })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Format 1 opens for ever.
    #[test]
    fn settings_of_format_1_open() {
        let text =
            r#"{"Statement":{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"*"}}"#;
        let mut bytes = vec![1, 1];
        bytes.extend_from_slice(text.as_bytes());
        let policy = BucketPolicy::from_bytes(&bytes).expect("opens");
        assert!(policy.locks_owner_out && policy.text == text);
        assert_eq!(policy.to_bytes(), bytes);
        for (number, ownership) in [
            (1, Ownership::BucketOwnerEnforced),
            (2, Ownership::BucketOwnerPreferred),
            (3, Ownership::ObjectWriter),
        ] {
            let read = Ownership::from_bytes(&[1, number]).expect("opens");
            assert_eq!(read, ownership);
            assert_eq!(read.to_bytes(), [1, number]);
        }
        for bits in 0..16 {
            let read = PublicAccessBlock::from_bytes(&[1, bits]).expect("opens");
            assert_eq!(read.to_bytes(), [1, bits]);
        }
        let payment = RequestPayment::from_bytes(&[1, 1]).expect("opens");
        assert!(payment.requester);
    }

    #[test]
    fn what_is_damaged_or_newer_is_said_to_be() {
        for bytes in [&[][..], &[1], &[0, 1], &[1, 9, 9]] {
            let error = Ownership::from_bytes(bytes).expect_err("damaged");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        let error = PublicAccessBlock::from_bytes(&[2, 0]).expect_err("newer");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(BucketPolicy::from_bytes(&[1, 0, b'x']).is_err());
    }
}
