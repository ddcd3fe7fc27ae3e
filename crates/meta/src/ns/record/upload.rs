//! Multipart uploads in progress.

use std::collections::BTreeMap;

use dewar_checksum::DigestSet;
use dewar_types::{EntryId, GroupId, PoolId, Timestamp, UploadId, UserId, VersionId};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::{
    ContentCopy, DisplayedChecksum, ETag, EncryptionRecord, Retention, SystemHeaders, is_default,
};

/// A multipart upload: what the version will have besides its content.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct UploadRecord {
    /// Its id.
    #[n(0)]
    pub id: UploadId,
    /// Who will own the file.
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
    /// Who began it, as the change log names them.
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
    /// Where the parts go, if not the default pool.
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
    /// The spaces that count the upload and its parts: those above its key when it began. Uploads of
    /// catalogs that did not count them have none.
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
    /// Whether it goes over the whole object, not over the parts' checksums.
    #[n(1)]
    pub full_object: bool,
}

/// A part that was uploaded.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PartRecord {
    /// The id under which its content was written (slot headers and long lists bear it).
    #[n(0)]
    pub id: VersionId,
    /// Bytes.
    #[n(1)]
    pub size: u64,
    /// What the client must name it by.
    #[n(2)]
    pub etag: ETag,
    /// When it was written.
    #[n(3)]
    pub modified: Timestamp,
    /// Digests of the part.
    #[n(4)]
    pub digests: DigestSet,
    /// Where its bytes are.
    #[cbor(n(5), skip_if = "is_default")]
    pub copies: Vec<ContentCopy>,
    /// The checksum that the writer asked to be shown to readers.
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
