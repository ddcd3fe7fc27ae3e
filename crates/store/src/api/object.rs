//! Objects.

use std::collections::BTreeMap;

use dewar_checksum::{AlgorithmSet, Composite, Digest, DigestSet};
use dewar_meta::ns::record::Retention;
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

/// What a client says about an object's content and gets back with it; at most 8 KiB in all
/// (S3: 2 KiB of user metadata beside the system headers).
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

/// What may be said about a version beside its content and attributes, and be changed later.
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

/// What there is to know about an object without reading it.
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
    /// What clients call it; `None` in buckets that never kept versions.
    pub name: Option<VersionName>,
    /// Who wrote it.
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
    /// Whether it is kept until further notice; `None` when nobody ever said.
    pub legal_hold: Option<bool>,
    /// Its storage class, if not the default.
    pub storage_class: Option<String>,
    /// When it expires, for what is the current version.
    pub expiry: Option<Expiry>,
}

/// A delete marker stands where an object was asked for: the source of an error that says there is
/// none, so that a front can tell.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a delete marker, version {name}")]
pub struct DeleteMarkerError {
    /// What clients call it.
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
    /// How many bytes will come, when known: lets the store refuse early and place well.
    pub size: Option<u64>,
    /// Attributes to keep with it.
    pub attributes: ObjectMetadata,
    /// Tags and the like.
    pub marks: VersionAttributes,
    /// Digests to compute beside Adler-32 and CRC-32C, which always are. With
    /// [`dewar_checksum::Algorithm::Md5`] the ETag is the MD5, else `<version id>-0`.
    pub want: AlgorithmSet,
    /// Which digest to show to readers as the object's checksum.
    pub checksum: Option<dewar_checksum::Algorithm>,
    /// Checked first against what is there, and again in the transaction.
    pub condition: WriteCondition,
    /// By whose key to encrypt it.
    pub encryption: Option<Encryption>,
    /// Its access control list, if not the private one.
    pub acl: Option<NewAcl>,
}

/// What the writer says the bytes were; anything that differs fails the commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedContent {
    /// Their number.
    pub size: Option<u64>,
    /// Digests; each algorithm must have been wanted from the start.
    pub digests: Vec<Digest>,
}

/// An object is to be read, or looked at.
#[derive(Clone, Debug)]
pub struct GetRequest {
    /// Which.
    pub object: ObjectRef,
    /// Which version, if not the current one.
    pub version: Option<VersionName>,
    /// Which bytes; all if not given.
    pub range: Option<RangeSpec>,
    /// Only this part, from 1, of a multipart object; excludes `range`.
    pub part: Option<u32>,
    /// What must hold.
    pub condition: ReadCondition,
    /// The key of content that the customer's key encrypts.
    pub customer_key: Option<CustomerKey>,
}

impl GetRequest {
    /// All of the current version, whatever it is.
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

/// What there is to know about an object is wanted, its parts included.
#[derive(Clone, Debug)]
pub struct AttributesRequest {
    /// Which.
    pub object: ObjectRef,
    /// Which version, if not the current one.
    pub version: Option<VersionName>,
    /// The key that the customer brings, where the object is encrypted with one.
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
    /// Which.
    pub object: ObjectRef,
    /// Which version, for good; without one as the bucket has it.
    pub version: Option<VersionName>,
    /// What must hold.
    pub condition: WriteCondition,
    /// Whether governance shall not stand in the way of a caller who may bypass it.
    pub bypass: bool,
}

/// One of many objects that are to be removed.
#[derive(Clone, Debug)]
pub struct DeleteItem {
    /// Which.
    pub key: ObjectKey,
    /// As [`DeleteRequest::version`].
    pub version: Option<VersionName>,
    /// What must hold.
    pub condition: WriteCondition,
}

/// What became of a removal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeleteResult {
    /// Whether there was something.
    pub existed: bool,
    /// The version that went or, with [`DeleteResult::marker`], the delete marker that came or went;
    /// `None` in buckets that never kept versions.
    pub name: Option<VersionName>,
    /// Whether [`DeleteResult::name`] is a delete marker.
    pub marker: bool,
}

/// An object is to be copied inside Dewar.
#[derive(Clone, Debug)]
pub struct CopyRequest {
    /// From where.
    pub source: ObjectRef,
    /// Which version of it, if not the current one.
    pub source_version: Option<VersionName>,
    /// What must hold at the source.
    pub source_condition: ReadCondition,
    /// To where.
    pub target: ObjectRef,
    /// Tags and the like.
    pub marks: VersionAttributes,
    /// New attributes, or those of the source.
    pub attributes: Option<ObjectMetadata>,
    /// Which digest to show as the copy's checksum, when another than the source's.
    pub checksum: Option<dewar_checksum::Algorithm>,
    /// What must hold at the target.
    pub condition: WriteCondition,
    /// The key of a source that the customer's key encrypts.
    pub source_key: Option<CustomerKey>,
    /// By whose key to encrypt the copy.
    pub encryption: Option<Encryption>,
    /// The copy's access control list, if not the private one: the source's is not copied.
    pub acl: Option<NewAcl>,
}

/// An object, or a directory (a key that ends in `/`) with everything below, gets another name
/// in the same bucket.
#[derive(Clone, Debug)]
pub struct RenameRequest {
    /// From where.
    pub source: ObjectRef,
    /// What must hold at the source.
    pub source_condition: WriteCondition,
    /// To which key of the same bucket.
    pub target: ObjectKey,
    /// What must hold at the target.
    pub condition: WriteCondition,
}
