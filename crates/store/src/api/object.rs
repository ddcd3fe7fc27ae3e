//! Objects.

use dewar_checksum::{Algorithm, AlgorithmSet, Composite, Digest, DigestSet};
use dewar_namespace::{Hierarchy, ReadCondition, VersionAttributes, WriteCondition};
use dewar_types::{ObjectKey, RangeSpec, Timestamp, UserId, VersionId, VersionName};

use crate::lifecycle::Expiry;

use super::{BucketRef, NewAcl};
use crate::encryption::{CustomerKey, Encryption, EncryptionMode};

/// An object as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// The bucket.
    pub bucket: BucketRef,
    /// The key in it.
    pub key: ObjectKey,
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
    /// Its attributes. Their access control list is not for clients.
    pub attributes: VersionAttributes,
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
    /// The time of expiry, for a current version.
    pub expiry: Option<Expiry>,
}

impl ObjectInfo {
    /// When the content changed: as the client said that wrote it, and otherwise when it was written.
    #[must_use]
    pub fn content_modified(&self) -> Timestamp {
        self.attributes.client_modified.unwrap_or(self.modified)
    }
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

/// The treatment of a file that has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// There must be none. Only by the rules of a hierarchy; otherwise, see
    /// [`WriteCondition::absent`].
    New,
    /// It is replaced.
    Replace,
    /// It is changed, and must be there. Only by the rules of a hierarchy.
    Update,
}

/// A request to write an object or a file.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// Under which name.
    pub object: ObjectRef,
    /// The treatment of a file that has the name.
    pub mode: WriteMode,
    /// The number of bytes, if known. With it the store can refuse early and choose the place
    /// better.
    pub size: Option<u64>,
    /// Its attributes, apart from the access control list. A file that is changed keeps its own.
    pub attributes: VersionAttributes,
    /// Permission bits of the file. They are kept and shown. Policies decide about access.
    pub permissions: u32,
    /// Whether the file keeps the extended attributes of a file that it replaces. Only by the rules
    /// of a hierarchy.
    pub keep_extended: bool,
    /// Digests to compute beside Adler-32 and CRC-32C, which are always computed. With
    /// [`Algorithm::Md5`] the ETag is the MD5, otherwise `<version id>-0`.
    pub want: AlgorithmSet,
    /// The digest to show to readers as the object's checksum.
    pub checksum: Option<Algorithm>,
    /// Checked first before the write, and again in the transaction.
    pub condition: WriteCondition,
    /// The rules for the name: those of keys, or those of a hierarchy.
    pub hierarchy: Hierarchy,
    /// By whose key to encrypt it.
    pub encryption: Option<Encryption>,
    /// Its access control list, if not the private one.
    pub acl: Option<NewAcl>,
}

impl WriteRequest {
    /// A write of a key that replaces what has the name, without conditions and attributes.
    #[must_use]
    pub fn new(object: ObjectRef) -> Self {
        Self {
            object,
            mode: WriteMode::Replace,
            size: None,
            attributes: VersionAttributes::default(),
            permissions: 0o644,
            keep_extended: false,
            want: AlgorithmSet::EMPTY,
            checksum: None,
            condition: WriteCondition::NONE,
            hierarchy: Hierarchy::Flat,
            encryption: None,
            acl: None,
        }
    }

    /// A write of a file by the rules of a hierarchy.
    #[must_use]
    pub fn file(object: ObjectRef, mode: WriteMode) -> Self {
        Self {
            mode,
            hierarchy: Hierarchy::Strict,
            ..Self::new(object)
        }
    }
}

/// The writer's length and digests of the bytes. The commit fails if one differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedContent {
    /// Their number.
    pub size: Option<u64>,
    /// Digests; each algorithm must have been wanted from the start.
    pub digests: Vec<Digest>,
}

impl ExpectedContent {
    /// Content of a size, if it is known, with any digests.
    #[must_use]
    pub fn of_size(size: Option<u64>) -> Self {
        Self {
            size,
            digests: Vec::new(),
        }
    }
}

/// A digest that written content does not have. It is the source of the error
/// [`dewar_types::ErrorKind::ChecksumMismatch`], so that a caller knows which of several digests it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{expected} was expected")]
pub struct DigestMismatch {
    /// The digest that the writer named.
    pub expected: Digest,
    /// The digest of what came, if it was computed.
    pub computed: Option<Digest>,
}

impl DigestMismatch {
    /// The error of a commit.
    pub(crate) fn error(expected: &Digest, digests: &DigestSet, path: &str) -> dewar_types::Error {
        let algorithm = expected.algorithm();
        let message = format!("{path}: the {algorithm:?} of what came is another");
        let mismatch = Self {
            expected: *expected,
            computed: digests.get(algorithm),
        };
        let kind = dewar_types::ErrorKind::ChecksumMismatch;
        dewar_types::Error::with_source(kind, message, mismatch)
    }
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
    /// Attributes of the copy, apart from the access control list. Without tags of its own, it has
    /// those of the source.
    pub attributes: VersionAttributes,
    /// Whether headers and metadata are those of `attributes`, and not those of the source.
    pub replace_headers: bool,
    /// The digest to show as the copy's checksum, if it is not that of the source.
    pub checksum: Option<Algorithm>,
    /// The condition on the target.
    pub condition: WriteCondition,
    /// The rules for the target's name.
    pub hierarchy: Hierarchy,
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

/// The names that a rename in a hierarchy may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Nothing may have the target's name.
    Never,
    /// A file may replace a file.
    Files,
    /// The same, and a directory may replace an empty directory, as in POSIX.
    EmptyDirectories,
    /// A file may replace a file or a directory, and a directory both. A replaced directory is removed
    /// with its content, as [`crate::Store::remove_tree`] does it in one step.
    Everything,
}

/// A request to rename a file or a directory in a hierarchy.
#[derive(Clone, Debug)]
pub struct RenameNodeRequest {
    /// The file or directory, without a slash at its end.
    pub source: ObjectRef,
    /// The new name.
    pub target: ObjectRef,
    /// The names that it may replace.
    pub overwrite: Overwrite,
}
