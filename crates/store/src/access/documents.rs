//! The access settings of a bucket that are stored as documents. Each begins with a format number.

use std::sync::Arc;

use bytes::Bytes;
use dewar_auth::{
    Acl, Action, Ownership, Policy, PolicyKind, PublicAccessBlock, STORED_POLICY_BYTES_MAX,
};
use dewar_types::{Error, ErrorKind, Result};

use crate::document::{Document, DocumentKind};

const FORMAT: u8 = 1;

/// A policy with its text.
pub(crate) struct PolicyDocument {
    pub(crate) text: String,
    pub(crate) policy: Arc<Policy>,
    /// Whether a statement that denies also binds the owner when it changes the policy.
    pub(crate) locks_owner_out: bool,
}

/// The list of a bucket.
pub(crate) struct AclDocument(pub(crate) Arc<Acl>);

/// The rule for the owner of objects that others write.
pub(crate) struct OwnershipDocument(pub(crate) Ownership);

/// The public access block.
pub(crate) struct BlockDocument(pub(crate) PublicAccessBlock);

/// The payer of requests.
pub(crate) struct PaymentDocument {
    pub(crate) requester: bool,
}

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

impl Document for PolicyDocument {
    const KIND: DocumentKind = DocumentKind::Policy;
    const GET: Action = Action::GetBucketPolicy;
    const PUT: Action = Action::PutBucketPolicy;
    const DELETE: Action = Action::DeleteBucketPolicy;

    fn to_bytes(&self) -> Bytes {
        let mut bytes = vec![FORMAT, u8::from(self.locks_owner_out)];
        bytes.extend_from_slice(self.text.as_bytes());
        bytes.into()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
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

impl Document for AclDocument {
    const KIND: DocumentKind = DocumentKind::Acl;
    const GET: Action = Action::GetBucketAcl;
    const PUT: Action = Action::PutBucketAcl;
    const DELETE: Action = Action::PutBucketAcl;

    fn to_bytes(&self) -> Bytes {
        self.0.to_bytes().into()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let acl = Acl::from_bytes(bytes).map_err(|error| {
            Error::with_source(ErrorKind::Corrupt, "a bucket's access control list", error)
        })?;
        Ok(Self(Arc::new(acl)))
    }
}

impl Document for OwnershipDocument {
    const KIND: DocumentKind = DocumentKind::Ownership;
    const GET: Action = Action::GetBucketOwnershipControls;
    const PUT: Action = Action::PutBucketOwnershipControls;
    const DELETE: Action = Action::PutBucketOwnershipControls;

    fn to_bytes(&self) -> Bytes {
        let number = match self.0 {
            Ownership::BucketOwnerEnforced => 1,
            Ownership::BucketOwnerPreferred => 2,
            Ownership::ObjectWriter => 3,
        };
        vec![FORMAT, number].into()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self(match body("ownership", bytes)? {
            [1] => Ownership::BucketOwnerEnforced,
            [2] => Ownership::BucketOwnerPreferred,
            [3] => Ownership::ObjectWriter,
            _ => return Err(damaged("ownership")),
        }))
    }
}

impl Document for BlockDocument {
    const KIND: DocumentKind = DocumentKind::PublicAccessBlock;
    const GET: Action = Action::GetBucketPublicAccessBlock;
    const PUT: Action = Action::PutBucketPublicAccessBlock;
    const DELETE: Action = Action::PutBucketPublicAccessBlock;

    fn to_bytes(&self) -> Bytes {
        let bits = u8::from(self.0.block_public_acls)
            | u8::from(self.0.ignore_public_acls) << 1
            | u8::from(self.0.block_public_policy) << 2
            | u8::from(self.0.restrict_public_buckets) << 3;
        vec![FORMAT, bits].into()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let [bits] = body("public access block", bytes)? else {
            return Err(damaged("public access block"));
        };
        Ok(Self(PublicAccessBlock {
            block_public_acls: bits & 1 != 0,
            ignore_public_acls: bits & 2 != 0,
            block_public_policy: bits & 4 != 0,
            restrict_public_buckets: bits & 8 != 0,
        }))
    }
}

impl Document for PaymentDocument {
    const KIND: DocumentKind = DocumentKind::RequestPayment;
    const GET: Action = Action::GetBucketRequestPayment;
    const PUT: Action = Action::PutBucketRequestPayment;
    const DELETE: Action = Action::PutBucketRequestPayment;

    fn to_bytes(&self) -> Bytes {
        vec![FORMAT, u8::from(self.requester)].into()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        match body("request payment", bytes)? {
            [requester] => Ok(Self {
                requester: *requester != 0,
            }),
            _ => Err(damaged("request payment")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Format 1 opens for ever.
    #[test]
    fn documents_of_format_1_open() {
        let text =
            r#"{"Statement":{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"*"}}"#;
        let mut bytes = vec![1, 1];
        bytes.extend_from_slice(text.as_bytes());
        let policy = PolicyDocument::from_bytes(&bytes).expect("opens");
        assert!(policy.locks_owner_out && policy.text == text);
        assert_eq!(policy.to_bytes(), bytes);
        for (number, ownership) in [
            (1, Ownership::BucketOwnerEnforced),
            (2, Ownership::BucketOwnerPreferred),
            (3, Ownership::ObjectWriter),
        ] {
            let read = OwnershipDocument::from_bytes(&[1, number]).expect("opens");
            assert_eq!(read.0, ownership);
            assert_eq!(*read.to_bytes(), [1, number]);
        }
        for bits in 0..16 {
            let read = BlockDocument::from_bytes(&[1, bits]).expect("opens");
            assert_eq!(*read.to_bytes(), [1, bits]);
        }
        assert!(
            PaymentDocument::from_bytes(&[1, 1])
                .expect("opens")
                .requester
        );
    }

    #[test]
    fn what_is_damaged_or_newer_is_said_to_be() {
        for bytes in [&[][..], &[1], &[0, 1], &[1, 9, 9]] {
            let error = OwnershipDocument::from_bytes(bytes).err().expect("damaged");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        let error = BlockDocument::from_bytes(&[2, 0]).err().expect("newer");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(PolicyDocument::from_bytes(&[1, 0, b'x']).is_err());
    }
}
