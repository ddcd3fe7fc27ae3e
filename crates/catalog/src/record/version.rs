//! A version of a file and the places of its bytes (RECORDS.md section 3).

use std::collections::BTreeMap;

use dewar_checksum::{Algorithm, Composite, Digest, DigestSet};
use dewar_types::{BlobId, GroupId, PoolId, Timestamp, UploadId, UserId, VersionId, VersionName};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::{EncryptionRecord, EntryAttributes, is_default};

/// One content of a file. The content never changes; attributes about it may.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct VersionRecord {
    /// Its id; sorts by age.
    #[n(0)]
    pub id: VersionId,
    /// Bytes.
    #[n(1)]
    pub size: u64,
    /// ETag in S3 and HTTP.
    #[n(2)]
    pub etag: ETag,
    /// Time when this content was written, as clients see it.
    #[n(3)]
    pub modified: Timestamp,
    /// Digests of the whole content.
    #[n(4)]
    pub digests: DigestSet,
    /// Marks.
    #[cbor(n(5), skip_if = "is_default")]
    pub flags: VersionFlags,
    /// Headers that go out as they came in.
    #[cbor(n(6), skip_if = "is_default")]
    pub headers: SystemHeaders,
    /// User metadata: lower-case names without the protocol's prefix.
    #[cbor(n(7), skip_if = "is_default")]
    pub metadata: BTreeMap<String, String>,
    /// The copies of the content, each complete. An empty content has none or one without extents.
    #[cbor(n(8), skip_if = "is_default")]
    pub copies: Vec<ContentCopy>,
    /// How it was cut into parts when it was uploaded so.
    #[n(9)]
    pub parts: Option<PartSizes>,
    /// The multipart upload that made it.
    #[n(10)]
    pub upload: Option<UploadId>,
    /// Storage class, if not the default.
    #[n(11)]
    pub storage_class: Option<String>,
    /// The checksum that the writer asked to return to readers.
    #[n(12)]
    pub checksum: Option<DisplayedChecksum>,
    /// Tags.
    #[cbor(n(13), skip_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    /// How long it is kept.
    #[n(14)]
    pub retention: Option<Retention>,
    /// Whether the version has a legal hold; `None` when it was never set.
    #[n(15)]
    pub legal_hold: Option<bool>,
    /// How the bytes are encrypted. The digests above are then absent, because they are encrypted
    /// in this record.
    #[n(16)]
    pub encryption: Option<EncryptionRecord>,
    /// The access control list, in a form that the layers above define.
    #[n(17)]
    pub acl: Option<ByteVec>,
    /// Owner of the version while it was the current one. For the current version, see the file's
    /// attributes.
    #[n(18)]
    pub owner: Option<UserId>,
    /// The group that owned it then.
    #[n(19)]
    pub group: Option<GroupId>,
    /// When the content changed, as the client says that wrote it.
    #[n(26)]
    pub client_modified: Option<Timestamp>,
    /// Text for a tape archive: JSON in base64.
    #[n(27)]
    pub archive_metadata: Option<String>,
}

impl VersionRecord {
    /// A version without attributes, places and history.
    #[must_use]
    pub fn new(
        id: VersionId,
        size: u64,
        etag: ETag,
        modified: Timestamp,
        digests: DigestSet,
    ) -> Self {
        Self {
            id,
            size,
            etag,
            modified,
            digests,
            flags: VersionFlags::default(),
            headers: SystemHeaders::default(),
            metadata: BTreeMap::new(),
            copies: Vec::new(),
            parts: None,
            upload: None,
            storage_class: None,
            checksum: None,
            tags: BTreeMap::new(),
            retention: None,
            legal_hold: None,
            encryption: None,
            acl: None,
            owner: None,
            group: None,
            client_modified: None,
            archive_metadata: None,
        }
    }

    /// The ETag without quotes.
    #[must_use]
    pub fn etag(&self) -> String {
        self.etag.text(self.id)
    }

    /// The name of the version for clients.
    #[must_use]
    pub fn name(&self) -> VersionName {
        if self.flags.named() {
            VersionName::Id(self.id)
        } else {
            VersionName::Null
        }
    }

    /// Owner and group of an older version. A version without an owner of its own has those of the
    /// file.
    #[must_use]
    pub fn ownership(&self, file: &EntryAttributes) -> (UserId, Option<GroupId>) {
        match self.owner {
            Some(owner) => (owner, self.group),
            None => (file.owner, file.group),
        }
    }

    /// Whether its retention or a legal hold forbids its removal at `now`. `bypass` overrides
    /// governance mode.
    #[must_use]
    pub fn is_kept(&self, now: Timestamp, bypass: bool) -> bool {
        let retained = self.retention.is_some_and(|retention| {
            retention.until > now && !(bypass && retention.mode == RetentionMode::Governance)
        });
        retained || self.legal_hold == Some(true)
    }
}

/// Until when a version is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Retention {
    /// How strictly.
    #[n(0)]
    pub mode: RetentionMode,
    /// The end.
    #[n(1)]
    pub until: Timestamp,
}

/// How strictly a version is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum RetentionMode {
    /// A user with the right to bypass may still remove it, or shorten the time.
    #[n(0)]
    Governance,
    /// No user may remove it or shorten the time.
    #[n(1)]
    Compliance,
}

/// How a version's ETag is made.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum ETag {
    /// MD5 of the content.
    #[n(0)]
    Md5(#[cbor(n(0), with = "minicbor::bytes")] [u8; 16]),
    /// MD5 of the parts' MD5s, and how many parts.
    #[n(1)]
    PartSizes(
        #[cbor(n(0), with = "minicbor::bytes")] [u8; 16],
        #[n(1)] u16,
    ),
    /// `<version id>-0`: no MD5 was requested (RECORDS.md section 2).
    #[n(2)]
    Version,
    /// As another store gave it.
    #[n(3)]
    Text(#[n(0)] String),
}

impl ETag {
    /// The text between the quotes, for the version `id`.
    #[must_use]
    pub fn text(&self, id: VersionId) -> String {
        let hex = |bytes: &[u8; 16]| format!("{:032x}", u128::from_be_bytes(*bytes));
        match self {
            Self::Md5(md5) => hex(md5),
            Self::PartSizes(md5, count) => format!("{}-{count}", hex(md5)),
            Self::Version => format!("{id}-0"),
            Self::Text(text) => text.clone(),
        }
    }
}

/// The checksum that S3 shows for an object or part. Algorithms go by Dewar's names
/// ([`Algorithm::name`]).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum DisplayedChecksum {
    /// Over all bytes; the value is among the digests.
    #[n(0)]
    Full(#[n(0)] String),
    /// Over the checksums of the parts: algorithm, value, number of parts.
    #[n(1)]
    Composite(#[n(0)] String, #[n(1)] ByteVec, #[n(2)] u32),
}

impl DisplayedChecksum {
    /// The digest of all bytes by this algorithm.
    #[must_use]
    pub fn full(algorithm: Algorithm) -> Self {
        Self::Full(algorithm.name().to_owned())
    }

    /// The value, and the number of parts if it covers the parts' checksums. `None` when the
    /// algorithm is unknown to this release or its value was not kept.
    #[must_use]
    pub fn value(&self, digests: &DigestSet) -> Option<(Digest, Option<u32>)> {
        match self {
            Self::Full(name) => Some((digests.get(name.parse().ok()?)?, None)),
            Self::Composite(name, value, parts) => {
                let digest = Digest::new(name.parse().ok()?, value).ok()?;
                Some((digest, Some(*parts)))
            }
        }
    }
}

impl From<&Composite> for DisplayedChecksum {
    fn from(composite: &Composite) -> Self {
        Self::Composite(
            composite.digest.algorithm().name().to_owned(),
            composite.digest.as_bytes().to_vec().into(),
            composite.parts,
        )
    }
}

/// Marks of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct VersionFlags(#[n(0)] pub u32);

impl VersionFlags {
    /// The file is deleted; this version has no content.
    pub const DELETE_MARKER: Self = Self(1);
    /// It was written while the bucket kept versions, so its id is its name; others are `null`.
    pub const NAMED: Self = Self(2);
    /// When it got its name, the name had other content. It is also set for a version that came by
    /// a rename, since the name may have had other content.
    pub const REPLACES: Self = Self(4);

    /// Whether [`Self::DELETE_MARKER`] is set.
    #[must_use]
    pub fn delete_marker(self) -> bool {
        self.0 & Self::DELETE_MARKER.0 != 0
    }

    /// Whether [`Self::NAMED`] is set.
    #[must_use]
    pub fn named(self) -> bool {
        self.0 & Self::NAMED.0 != 0
    }

    /// Whether [`Self::REPLACES`] is set.
    #[must_use]
    pub fn replaces(self) -> bool {
        self.0 & Self::REPLACES.0 != 0
    }

    /// With [`Self::NAMED`] set or not.
    #[must_use]
    pub fn with_name(self, named: bool) -> Self {
        self.with(Self::NAMED, named)
    }

    /// With [`Self::REPLACES`] set or cleared.
    #[must_use]
    pub fn with_replaced(self, replaces: bool) -> Self {
        self.with(Self::REPLACES, replaces)
    }

    fn with(self, mark: Self, set: bool) -> Self {
        let rest = self.0 & !mark.0;
        Self(if set { rest | mark.0 } else { rest })
    }
}

/// Headers that a client set and every client gets back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SystemHeaders {
    /// `Content-Type`.
    #[n(0)]
    pub content_type: Option<String>,
    /// `Cache-Control`.
    #[n(1)]
    pub cache_control: Option<String>,
    /// `Content-Disposition`.
    #[n(2)]
    pub content_disposition: Option<String>,
    /// `Content-Encoding`, without `aws-chunked`.
    #[n(3)]
    pub content_encoding: Option<String>,
    /// `Content-Language`.
    #[n(4)]
    pub content_language: Option<String>,
    /// `Expires`, as it was given.
    #[n(5)]
    pub expires: Option<String>,
    /// `x-amz-website-redirect-location`.
    #[n(6)]
    pub redirect: Option<String>,
}

impl SystemHeaders {
    /// Bytes of all values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let Self {
            content_type,
            cache_control,
            content_disposition,
            content_encoding,
            content_language,
            expires,
            redirect,
        } = self;
        [
            content_type,
            cache_control,
            content_disposition,
            content_encoding,
            content_language,
            expires,
            redirect,
        ]
        .into_iter()
        .flatten()
        .map(String::len)
        .sum()
    }
}

/// The whole content in one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ContentCopy {
    /// Pool of the blob.
    #[cbor(n(0), skip_if = "is_default")]
    pub pool: PoolId,
    /// How it can be reached.
    #[cbor(n(1), skip_if = "is_default")]
    pub state: CopyState,
    /// The pieces in order; empty when they are in long lists.
    #[cbor(n(2), skip_if = "is_default")]
    pub extents: Vec<Extent>,
    /// How many [`LongRecord`]s hold the extents.
    #[cbor(n(3), skip_if = "is_default")]
    pub chunks: u16,
}

/// How a copy can be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum CopyState {
    /// At once.
    #[default]
    #[n(0)]
    Online,
    /// After a recall.
    #[n(1)]
    Nearline,
    /// At once, and may be dropped at any time.
    #[n(2)]
    Cached,
}

/// A piece of a blob's or slot's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Extent {
    /// The blob, or the segment of small objects.
    #[n(0)]
    pub blob: BlobId,
    /// First byte, within the content of the blob or slot.
    #[n(1)]
    pub offset: u64,
    /// Bytes.
    #[n(2)]
    pub len: u64,
    /// The slot, when `blob` is a segment.
    #[n(3)]
    pub slot: Option<Slot>,
    /// Of encrypted content: the number that makes its key stream unique under its key. Offset and
    /// length then count clear bytes.
    #[n(4)]
    pub salt: Option<u64>,
}

/// A small object's place in its segment; never changes (RECORDS.md section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Slot {
    /// Start of the slot in the segment's logical space, in bytes.
    #[n(0)]
    pub offset: u32,
    /// Bytes of the slot's header, which the content follows.
    #[n(1)]
    pub header: u32,
    /// Bytes of the slot in all.
    #[n(2)]
    pub len: u32,
}

impl Extent {
    /// A piece of a large blob.
    #[must_use]
    pub const fn large(blob: BlobId, offset: u64, len: u64) -> Self {
        Self {
            blob,
            offset,
            len,
            slot: None,
            salt: None,
        }
    }

    /// The whole content of a slot.
    #[must_use]
    pub fn small(segment: BlobId, slot: Slot) -> Self {
        Self {
            blob: segment,
            offset: 0,
            len: u64::from(slot.len.saturating_sub(slot.header)),
            slot: Some(slot),
            salt: None,
        }
    }

    /// The whole of an encrypted content of `clear` bytes.
    #[must_use]
    pub const fn encrypted(self, salt: u64, clear: u64) -> Self {
        Self {
            len: clear,
            salt: Some(salt),
            ..self
        }
    }
}

/// The division of a content into parts: sizes in order, equal neighbours as one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PartSizes {
    /// How many parts.
    #[n(0)]
    pub count: u32,
    /// Sizes of the parts; empty when they are in long lists.
    #[cbor(n(1), skip_if = "is_default")]
    pub runs: Vec<PartRun>,
    /// How many [`LongRecord`]s hold the runs.
    #[cbor(n(2), skip_if = "is_default")]
    pub chunks: u16,
    /// The parts' checksums in order, by the algorithm of a composite checksum. Empty when there is
    /// none, or when they are in long lists.
    #[cbor(n(3), skip_if = "is_default")]
    pub digests: Vec<ByteVec>,
    /// How many [`LongRecord`]s hold the checksums.
    #[cbor(n(4), skip_if = "is_default")]
    pub digest_chunks: u16,
}

/// Parts of equal size that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PartRun {
    /// How many.
    #[n(0)]
    pub count: u32,
    /// Bytes of each.
    #[n(1)]
    pub size: u64,
}

/// A chunk of a list that is too long for the version's record. Belongs to one version and is as
/// immutable as its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct LongRecord {
    /// Extents of a copy.
    #[cbor(n(0), skip_if = "is_default")]
    pub extents: Vec<Extent>,
    /// Part sizes.
    #[cbor(n(1), skip_if = "is_default")]
    pub runs: Vec<PartRun>,
    /// Part checksums.
    #[cbor(n(2), skip_if = "is_default")]
    pub digests: Vec<ByteVec>,
}
