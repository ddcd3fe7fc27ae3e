//! Objects.

use std::collections::BTreeMap;

use dewar_catalog::record::Retention;
use dewar_checksum::{AlgorithmSet, Composite, Digest, DigestSet};
use dewar_types::{ObjectKey, RangeSpec, Timestamp, UserId, VersionId, VersionName};

use crate::lifecycle::Expiry;

use super::{BucketRef, NewAcl, ReadCondition, WriteCondition};
use crate::encryption::{CustomerKey, Encryption, EncryptionMode};

/// An entity tag without its quotes, or the wildcard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ETag {
    /// `*`
    Any,
    /// A value, without quotes.
    Is(String),
}

impl ETag {
    /// Whether `etag` (without quotes) is meant.
    #[must_use]
    pub fn matches(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Is(value) => value == etag,
        }
    }
}

/// An object as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// The bucket.
    pub bucket: BucketRef,
    /// The key in it.
    pub key: ObjectKey,
}

/// Attributes that a client stores with an object and gets back with it; at most 8 KiB in all (S3:
/// 2 KiB of user metadata beside the system headers).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMetadata {
    /// Content-Type.
    pub content_type: Option<String>,
    /// Cache-Control.
    pub cache_control: Option<String>,
    /// Content-Disposition.
    pub content_disposition: Option<String>,
    /// Content-Encoding, `aws-chunked` taken out.
    pub content_encoding: Option<String>,
    /// Content-Language.
    pub content_language: Option<String>,
    /// Expires, as the client wrote it.
    pub expires: Option<String>,
    /// The client's own names, lower case without prefix, and values.
    pub user: BTreeMap<String, String>,
}

/// Settings of a version that can be changed later: tags, retention, legal hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionAttributes {
    /// Tags, at most ten. For a copy `None` means the source's.
    pub tags: Option<BTreeMap<String, String>>,
    /// How long it is kept, if not as the bucket says.
    pub retention: Option<Retention>,
    /// Whether it is kept until further notice.
    pub legal_hold: Option<bool>,
    /// Its storage class, if not the default.
    pub storage_class: Option<String>,
}

/// Object metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its size in bytes.
    pub size: u64,
    /// Its ETag without quotes.
    pub etag: String,
    /// When this content was written.
    pub modified: Timestamp,
    /// The version.
    pub version: VersionId,
    /// Whether the name had other content when it was written.
    pub replaces: bool,
    /// The version's name, as clients see it; `None` in buckets that never kept versions.
    pub name: Option<VersionName>,
    /// The owner.
    pub owner: UserId,
    /// Its attributes.
    pub attributes: ObjectMetadata,
    /// Digests of the whole content, as far as they are known.
    pub digests: DigestSet,
    /// The checksum that the writer asked for, to be shown to readers.
    pub checksum: Option<ObjectChecksum>,
    /// How many parts it was made of, when by multipart.
    pub parts: Option<u32>,
    /// The checksum of the part that was asked for, where there is one.
    pub part_checksum: Option<Digest>,
    /// By whose key it is encrypted.
    pub encrypted: Option<EncryptionMode>,
    /// How many tags it has.
    pub tags: usize,
    /// How long it is kept.
    pub retention: Option<Retention>,
    /// Whether the version has a legal hold; `None` if it was never set.
    pub legal_hold: Option<bool>,
    /// Its storage class, if not the default.
    pub storage_class: Option<String>,
    /// The time of expiry, for a current version.
    pub expiry: Option<Expiry>,
}

/// A delete marker at the requested name. It is the source of the error that the object does not
/// exist, so that a front can distinguish the cases.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a delete marker, version {name}")]
pub struct DeleteMarkerError {
    /// The version's name, as clients see it.
    pub name: VersionName,
}

/// A checksum of a whole object as S3 shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectChecksum {
    /// Over all bytes.
    Full(Digest),
    /// Over the checksums of the parts; shown with `-parts` behind it.
    Composite(Composite),
}

/// A new object is to be written.
#[derive(Clone, Debug)]
pub struct PutRequest {
    /// Under which name.
    pub object: ObjectRef,
    /// The number of bytes, if known. With it the store can refuse early and choose the place
    /// better.
    pub size: Option<u64>,
    /// Attributes to keep with it.
    pub attributes: ObjectMetadata,
    /// Tags and the like.
    pub marks: VersionAttributes,
    /// Digests to compute beside Adler-32 and CRC-32C, which are always computed. With
    /// [`dewar_checksum::Algorithm::Md5`] the ETag is the MD5, otherwise `<version id>-0`.
    pub want: AlgorithmSet,
    /// The digest to show to readers as the object's checksum.
    pub checksum: Option<dewar_checksum::Algorithm>,
    /// Checked first before the write, and again in the transaction.
    pub condition: WriteCondition,
    /// By whose key to encrypt it.
    pub encryption: Option<Encryption>,
    /// Its access control list, if not the private one.
    pub acl: Option<NewAcl>,
}

/// The writer's length and digests of the bytes. The commit fails if one differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedContent {
    /// Their number.
    pub size: Option<u64>,
    /// Digests; each algorithm must have been wanted from the start.
    pub digests: Vec<Digest>,
}

/// A request to read an object or its metadata.
#[derive(Clone, Debug)]
pub struct GetRequest {
    /// The object.
    pub object: ObjectRef,
    /// The version; the current one if `None`.
    pub version: Option<VersionName>,
    /// The range of bytes; all if `None`.
    pub range: Option<RangeSpec>,
    /// Only this part, from 1, of a multipart object; excludes `range`.
    pub part: Option<u32>,
    /// The condition.
    pub condition: ReadCondition,
    /// The key of content that the customer's key encrypts.
    pub customer_key: Option<CustomerKey>,
}

impl GetRequest {
    /// The whole current version.
    #[must_use]
    pub fn whole(object: ObjectRef) -> Self {
        Self {
            object,
            version: None,
            range: None,
            part: None,
            condition: ReadCondition::default(),
            customer_key: None,
        }
    }
}

/// A request for an object's metadata, including its parts.
#[derive(Clone, Debug)]
pub struct AttributesRequest {
    /// The object.
    pub object: ObjectRef,
    /// The version; the current one if `None`.
    pub version: Option<VersionName>,
    /// The customer's key, if the object is encrypted with one.
    pub customer_key: Option<CustomerKey>,
    /// Only parts after this number.
    pub after: u32,
    /// At most this many parts.
    pub max: usize,
}

/// A part of an object that was uploaded in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartAttributes {
    /// Its number.
    pub number: u32,
    /// Its size in bytes.
    pub size: u64,
    /// Its checksum, when the object's is over those of its parts.
    pub checksum: Option<Digest>,
}

/// An object is to be removed.
#[derive(Clone, Debug)]
pub struct DeleteRequest {
    /// The object.
    pub object: ObjectRef,
    /// The version to delete for good. If `None`, the bucket's versioning setting decides.
    pub version: Option<VersionName>,
    /// The condition.
    pub condition: WriteCondition,
    /// Whether to bypass governance retention, for a caller with the right to.
    pub bypass: bool,
}

/// One of many objects that are to be removed.
#[derive(Clone, Debug)]
pub struct DeleteItem {
    /// The key.
    pub key: ObjectKey,
    /// As [`DeleteRequest::version`].
    pub version: Option<VersionName>,
    /// The condition.
    pub condition: WriteCondition,
}

/// The result of a removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteResult {
    /// Whether there was something.
    pub existed: bool,
    /// The removed version or, with [`DeleteResult::marker`], the delete marker that was added or
    /// removed; `None` in buckets that never kept versions.
    pub name: Option<VersionName>,
    /// Whether [`DeleteResult::name`] is a delete marker.
    pub marker: bool,
}

/// An object is to be copied inside Dewar.
#[derive(Clone, Debug)]
pub struct CopyRequest {
    /// From where.
    pub source: ObjectRef,
    /// The version to copy from; the current one if `None`.
    pub source_version: Option<VersionName>,
    /// The condition on the source.
    pub source_condition: ReadCondition,
    /// To where.
    pub target: ObjectRef,
    /// Tags and the like.
    pub marks: VersionAttributes,
    /// New attributes, or those of the source.
    pub attributes: Option<ObjectMetadata>,
    /// The digest to show as the copy's checksum, if it is not that of the source.
    pub checksum: Option<dewar_checksum::Algorithm>,
    /// The condition on the target.
    pub condition: WriteCondition,
    /// The key of a source that the customer's key encrypts.
    pub source_key: Option<CustomerKey>,
    /// By whose key to encrypt the copy.
    pub encryption: Option<Encryption>,
    /// The copy's access control list, if not the private one: the source's is not copied.
    pub acl: Option<NewAcl>,
}

/// A request to rename an object, or a directory (a key that ends in `/`) with its content, within
/// a bucket.
#[derive(Clone, Debug)]
pub struct RenameRequest {
    /// From where.
    pub source: ObjectRef,
    /// The condition on the source.
    pub source_condition: WriteCondition,
    /// To which key of the same bucket.
    pub target: ObjectKey,
    /// The condition on the target.
    pub condition: WriteCondition,
}
