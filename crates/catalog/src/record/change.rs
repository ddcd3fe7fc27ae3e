//! The change log's records (RECORDS.md section 4).

use dewar_types::{EntryId, Timestamp, VersionId, Zone};
use minicbor::{Decode, Encode};

use super::{DocumentKind, VersionRecord, is_default};

/// One change of the tree. Its place in commit order comes from the engine, with
/// [`dewar_kv::Kv::changes`].
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ChangeRecord {
    /// The zone's clock, the zone, and a number within the zone that is never given twice.
    #[n(0)]
    pub stamp: VersionId,
    /// The kind of change.
    #[n(1)]
    pub verb: ChangeKind,
    /// The bucket; 0 above buckets.
    #[n(2)]
    pub bucket: EntryId,
    /// The directory that holds the entry (after the change).
    #[n(3)]
    pub parent: EntryId,
    /// The entry.
    #[n(4)]
    pub entry: EntryId,
    /// Full path when it happened (after the change), the bucket and a tenant's `/@name` included.
    #[n(5)]
    pub path: String,
    /// The earlier name of a renamed entry, or the source of a copy.
    #[n(6)]
    pub source: Option<String>,
    /// Principal that made the change.
    #[cbor(n(7), skip_if = "is_default")]
    pub principal: String,
    /// The version that was made or removed.
    #[n(8)]
    pub version: Option<VersionSummary>,
    /// The version that this one took the place of.
    #[n(9)]
    pub replaced: Option<VersionId>,
    /// The documents of the bucket that were set or removed.
    #[cbor(n(10), skip_if = "is_default")]
    pub documents: Vec<DocumentKind>,
}

impl ChangeRecord {
    /// A change of an entry. Its stamp and principal are filled in when it is logged.
    #[must_use]
    pub fn new(
        verb: ChangeKind,
        bucket: EntryId,
        parent: EntryId,
        entry: EntryId,
        path: String,
    ) -> Self {
        Self {
            stamp: VersionId(0),
            verb,
            bucket,
            parent,
            entry,
            path,
            source: None,
            principal: String::new(),
            version: None,
            replaced: None,
            documents: Vec::new(),
        }
    }

    /// The zone of the change.
    #[must_use]
    pub fn zone(&self) -> Zone {
        dewar_types::EntryId(self.stamp.0 as u64).zone()
    }

    /// The zone's hybrid logical clock, nanoseconds since the epoch.
    #[must_use]
    pub fn clock(&self) -> u64 {
        self.stamp.clock()
    }
}

/// A kind of change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum ChangeKind {
    /// A version was written.
    #[n(0)]
    Put,
    /// A version was made of another's extents.
    #[n(1)]
    Copy,
    /// A version was joined from the parts of an upload.
    #[n(2)]
    Complete,
    /// A file went.
    #[n(3)]
    Delete,
    /// A file got another name.
    #[n(4)]
    Rename,
    /// A directory got another name, and all below it with it.
    #[n(5)]
    RenameDir,
    /// A directory was made on request.
    #[n(6)]
    MakeDir,
    /// A directory went on request.
    #[n(7)]
    RemoveDir,
    /// A bucket was made.
    #[n(8)]
    CreateBucket,
    /// A bucket went.
    #[n(9)]
    DeleteBucket,
    /// Attributes changed.
    #[n(10)]
    SetAttributes,
    /// A tenant was made.
    #[n(11)]
    CreateTenant,
    /// Settings or documents of a bucket changed.
    #[n(12)]
    ConfigureBucket,
    /// A delete marker hid a file.
    #[n(13)]
    Mark,
    /// A version went that was named, an older one or the current one.
    #[n(14)]
    DeleteVersion,
}

/// The facts about a version that a reader of the log needs without looking it up.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct VersionSummary {
    /// Its id.
    #[n(0)]
    pub id: VersionId,
    /// Bytes.
    #[n(1)]
    pub size: u64,
    /// The ETag without quotes.
    #[n(2)]
    pub etag: String,
    /// When it was written.
    #[n(3)]
    pub modified: Timestamp,
}

impl From<&VersionRecord> for VersionSummary {
    fn from(version: &VersionRecord) -> Self {
        Self {
            id: version.id,
            size: version.size,
            etag: version.etag(),
            modified: version.modified,
        }
    }
}
