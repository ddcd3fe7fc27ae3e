//! A bucket's configuration documents: policy, CORS rules, lifecycle and the like.

use dewar_types::{Error, ErrorKind, Timestamp, VersionId};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::keys;

/// The kind of a document of a bucket. The number is part of the key and of a mask, so it is below
/// 64 and never given to another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum DocumentKind {
    /// The bucket policy.
    #[n(1)]
    Policy = 1,
    /// The access control list.
    #[n(2)]
    Acl = 2,
    /// Ownership of objects that other users write.
    #[n(3)]
    Ownership = 3,
    /// Limits of public access that no policy and no list may exceed.
    #[n(4)]
    PublicAccessBlock = 4,
    /// Rules for pages of other origins.
    #[n(5)]
    Cors = 5,
    /// Lifecycle rules: expiry of objects.
    #[n(6)]
    Lifecycle = 6,
    /// Tags of the bucket.
    #[n(7)]
    Tags = 7,
    /// How objects are encrypted that do not say.
    #[n(8)]
    Encryption = 8,
    /// Payer of requests.
    #[n(9)]
    RequestPayment = 9,
    /// Receivers of notifications of changes.
    #[n(10)]
    Notification = 10,
    /// Target of the access log.
    #[n(11)]
    Logging = 11,
    /// How it serves pages.
    #[n(12)]
    Website = 12,
    /// Targets of replication.
    #[n(13)]
    Replication = 13,
    /// Limits of the bucket.
    #[n(14)]
    Quota = 14,
}

impl DocumentKind {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::Policy,
        Self::Acl,
        Self::Ownership,
        Self::PublicAccessBlock,
        Self::Cors,
        Self::Lifecycle,
        Self::Tags,
        Self::Encryption,
        Self::RequestPayment,
        Self::Notification,
        Self::Logging,
        Self::Website,
        Self::Replication,
        Self::Quota,
    ];

    /// The kind that the key of a document names.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] for another key; [`ErrorKind::Unsupported`] for a kind of a newer
    /// release.
    pub fn of_key(key: &[u8]) -> Result<Self, Error> {
        let (_, number) = keys::parse_document(key)?;
        let known = Self::ALL.into_iter().find(|kind| *kind as u8 == number);
        known.ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!(
                    "catalog key {} names a document of kind {number}, written by a newer release",
                    key.escape_ascii()
                ),
            )
        })
    }

    /// Its bit in [`super::BucketSettings::documents`].
    #[must_use]
    pub const fn mask(self) -> u64 {
        1 << self as u8
    }
}

/// A document as it is stored. Its content is defined by the layers above, which begin it with a
/// format number of their own.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DocumentRecord {
    /// Minted when it was set.
    #[n(0)]
    pub stamp: VersionId,
    /// When it was set.
    #[n(1)]
    pub modified: Timestamp,
    /// The document.
    #[n(2)]
    pub content: ByteVec,
}
