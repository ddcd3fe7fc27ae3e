//! Multipart uploads in progress.

use std::collections::BTreeMap;

use dewar_checksum::DigestSet;
use dewar_types::{EntryId, GroupId, PoolId, Timestamp, UploadId, UserId, VersionId};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::{
    ContentCopy, DisplayedChecksum, ETag, EncryptionRecord, Retention, SystemHeaders, is_default,
};

/// A multipart upload, with the attributes of the future version besides its content.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct UploadRecord {
    /// Its id.
    #[n(0)]
    pub id: UploadId,
    /// Future owner of the file.
    #[n(1)]
    pub owner: UserId,
    /// The group that will own the file.
    #[n(2)]
    pub group: Option<GroupId>,
    /// Permission bits the file will have.
    #[n(3)]
    pub mode: u32,
    /// When it began.
    #[n(4)]
    pub initiated: Timestamp,
    /// Principal that began the upload, as the change log names it.
    #[n(5)]
    pub principal: String,
    /// Headers of the version.
    #[cbor(n(6), skip_if = "is_default")]
    pub headers: SystemHeaders,
    /// User metadata of the version.
    #[cbor(n(7), skip_if = "is_default")]
    pub metadata: BTreeMap<String, String>,
    /// The checksum that the client announced.
    #[n(8)]
    pub checksum: Option<UploadChecksum>,
    /// Storage class of the version.
    #[n(9)]
    pub storage_class: Option<String>,
    /// Pool of the parts; the default pool if `None`.
    #[n(10)]
    pub pool: Option<PoolId>,
    /// Tags of the version.
    #[cbor(n(11), skip_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    /// How long the version is kept.
    #[n(12)]
    pub retention: Option<Retention>,
    /// Whether it is kept until further notice.
    #[n(13)]
    pub legal_hold: Option<bool>,
    /// Its access control list.
    #[n(14)]
    pub acl: Option<ByteVec>,
    /// How the parts are encrypted.
    #[n(16)]
    pub encryption: Option<EncryptionRecord>,
    /// The spaces that the upload and its parts are charged to: those above its key when it began.
    /// Uploads of older catalogs, which did not charge them, have none.
    #[cbor(n(17), skip_if = "is_default")]
    pub spaces: Vec<EntryId>,
}

/// The checksum that a client announced for an upload.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct UploadChecksum {
    /// The algorithm, by Dewar's name for it.
    #[n(0)]
    pub algorithm: String,
    /// Whether it covers the whole object, not the parts' checksums.
    #[n(1)]
    pub full_object: bool,
}

/// A part that was uploaded.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PartRecord {
    /// The id under which its content was written (slot headers and long lists contain it).
    #[n(0)]
    pub id: VersionId,
    /// Bytes.
    #[n(1)]
    pub size: u64,
    /// ETag by which the client must name the part.
    #[n(2)]
    pub etag: ETag,
    /// When it was written.
    #[n(3)]
    pub modified: Timestamp,
    /// Digests of the part.
    #[n(4)]
    pub digests: DigestSet,
    /// Places of the bytes.
    #[cbor(n(5), skip_if = "is_default")]
    pub copies: Vec<ContentCopy>,
    /// The checksum that the writer asked to return to readers.
    #[n(6)]
    pub checksum: Option<DisplayedChecksum>,
}

impl PartRecord {
    /// The ETag without quotes.
    #[must_use]
    pub fn etag(&self) -> String {
        self.etag.text(self.id)
    }
}
