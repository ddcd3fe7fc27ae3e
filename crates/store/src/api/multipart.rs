//! Uploads in parts.

use dewar_checksum::{Algorithm, AlgorithmSet, Digest};
use dewar_types::{RangeSpec, Timestamp, UploadId, UserId, VersionName};

use crate::encryption::{CustomerKey, Encryption, EncryptionMode};
use crate::lifecycle::Expiry;

use super::{
    BucketRef, NewAcl, ObjectChecksum, ObjectRef, ReadCondition, VersionAttributes, WriteCondition,
};

/// An upload is to begin.
#[derive(Clone, Debug)]
pub struct CreateUploadRequest {
    /// Under which name it will end.
    pub object: ObjectRef,
    /// Attributes of the object to be, apart from the access control list.
    pub attributes: VersionAttributes,
    /// The checksum that parts will carry and the object shows.
    pub checksum: Option<Algorithm>,
    /// Whether that checksum will be over the parts' checksums instead of over all bytes.
    pub composite: bool,
    /// By whose key to encrypt it.
    pub encryption: Option<Encryption>,
    /// The object's access control list, if not the private one.
    pub acl: Option<NewAcl>,
}

/// A part is to be written, from the client or from another object.
#[derive(Clone, Debug)]
pub struct UploadPartRequest {
    /// Of which object.
    pub object: ObjectRef,
    /// Of which upload.
    pub upload: UploadId,
    /// Its number, 1 to 10,000. A number that is there already is replaced.
    pub number: u32,
    /// How many bytes will come, when known.
    pub size: Option<u64>,
    /// Further digests to compute. MD5 is always computed.
    pub want: AlgorithmSet,
    /// The digest to show as the part's checksum.
    pub checksum: Option<Algorithm>,
    /// The key of an upload that the customer's key encrypts.
    pub customer_key: Option<CustomerKey>,
}

/// The source of a copied part.
#[derive(Clone, Debug)]
pub struct PartSource {
    /// The source object.
    pub object: ObjectRef,
    /// The version to copy from; the current one if `None`.
    pub version: Option<VersionName>,
    /// The bytes to copy.
    pub range: Option<RangeSpec>,
    /// The condition on the source.
    pub condition: ReadCondition,
    /// The key of a source that the customer's key encrypts.
    pub customer_key: Option<CustomerKey>,
}

/// A part as the completing client lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletePart {
    /// Its number.
    pub number: u32,
    /// Its ETag without quotes.
    pub etag: String,
    /// Its checksum, when the client gives it.
    pub checksum: Option<Digest>,
}

/// An upload is to become an object.
#[derive(Clone, Debug)]
pub struct CompleteRequest {
    /// Under which name.
    pub object: ObjectRef,
    /// The upload.
    pub upload: UploadId,
    /// The parts, in ascending order.
    pub parts: Vec<CompletePart>,
    /// The size the client expects.
    pub size: Option<u64>,
    /// The checksum of the whole that the client expects.
    pub checksum: Option<ObjectChecksum>,
    /// The condition on the object at the target name.
    pub condition: WriteCondition,
    /// The key of an upload that the customer's key encrypts.
    pub customer_key: Option<CustomerKey>,
}

/// The parts of an upload are wanted.
#[derive(Clone, Debug)]
pub struct ListPartsRequest {
    /// Of which object.
    pub object: ObjectRef,
    /// Of which upload.
    pub upload: UploadId,
    /// The customer's key of an upload that is encrypted with one. Without it no checksum of a part
    /// is returned.
    pub customer_key: Option<CustomerKey>,
    /// Only parts after this number.
    pub after: u32,
    /// At most this many, 0 to 1,000.
    pub max: usize,
}

/// A part that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPart {
    /// Its number.
    pub number: u32,
    /// Its size in bytes.
    pub size: u64,
    /// Its ETag without quotes.
    pub etag: String,
    /// When it was written.
    pub modified: Timestamp,
    /// The checksum shown for it.
    pub checksum: Option<Digest>,
    /// By whose key it is encrypted.
    pub encrypted: Option<EncryptionMode>,
}

/// A page of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartsPage {
    /// The user who began the upload.
    pub owner: UserId,
    /// The storage class of the object to be, if not the default.
    pub storage_class: Option<String>,
    /// When the upload is given up by a rule of the bucket.
    pub abort: Option<Expiry>,
    /// The checksum the upload was begun with, and whether it is composite.
    pub checksum: Option<(Algorithm, bool)>,
    /// The parts by number.
    pub parts: Vec<ListedPart>,
    /// The number to continue after, when there are more.
    pub next: Option<u32>,
}

/// The uploads in progress are wanted.
#[derive(Clone, Debug)]
pub struct ListUploadsRequest {
    /// Of which bucket.
    pub bucket: BucketRef,
    /// Only keys that begin so.
    pub prefix: String,
    /// As in [`super::ListRequest::delimiter`].
    pub delimiter: String,
    /// Only keys after this one, or the same key and uploads after `after_upload`.
    pub after_key: String,
    /// See `after_key`.
    pub after_upload: Option<UploadId>,
    /// At most this many, 0 to 1,000.
    pub max: usize,
}

/// An upload in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedUpload {
    /// Its key.
    pub key: String,
    /// Its id.
    pub upload: UploadId,
    /// When it began.
    pub initiated: Timestamp,
    /// The user who began the upload.
    pub owner: UserId,
    /// The storage class of the object to be, if not the default.
    pub storage_class: Option<String>,
    /// The checksum it was begun with, and whether it is composite.
    pub checksum: Option<(Algorithm, bool)>,
}

/// A page of uploads, by key, then by age.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadsPage {
    /// The uploads.
    pub uploads: Vec<ListedUpload>,
    /// Common prefixes, when a delimiter was given.
    pub prefixes: Vec<String>,
    /// The position to continue from, when more follow.
    pub next: Option<(String, Option<UploadId>)>,
}
