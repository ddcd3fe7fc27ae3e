//! Directories, buckets, tenants.

use dewar_types::{EntryId, TenantId, Timestamp, VersionId};
use minicbor::{Decode, Encode};

use super::{EntryAttributes, Retention, RetentionMode, is_default};

/// A directory; a bucket is a directory in its tenant's root.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DirRecord {
    /// Id, owner, times.
    #[n(0)]
    pub attributes: EntryAttributes,
    /// Whether it was made only by the slashes of a key. It is then invisible and reclaimed while
    /// it contains no live entry.
    #[cbor(n(1), skip_if = "is_default")]
    pub implicit: bool,
    /// The bucket's settings, if it is one.
    #[n(2)]
    pub bucket: Option<BucketSettings>,
    /// Set if the subtree is counted separately (a space).
    #[n(3)]
    pub space: Option<SpaceMark>,
}

/// Properties of a bucket beyond those of a directory. Its owner is the directory's.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct BucketSettings {
    /// When it was made.
    #[n(0)]
    pub created: Timestamp,
    /// Whether older versions are kept.
    #[cbor(n(1), skip_if = "is_default")]
    pub versioning: Versioning,
    /// Whether every front computes MD5, so that every ETag is one.
    #[cbor(n(2), skip_if = "is_default")]
    pub md5: bool,
    /// Set if versions may be protected by retention and legal holds; never removed.
    #[n(3)]
    pub object_lock: Option<ObjectLock>,
    // 4: default layout, 5: default pool
    /// The kinds of its documents: [`super::DocumentKind::mask`] of each, in one number.
    #[cbor(n(6), skip_if = "is_default")]
    pub documents: u64,
    /// Counts the changes of settings and documents. Each change of a document therefore changes
    /// this record too, and every change in the bucket requires this record to be unchanged.
    #[cbor(n(7), skip_if = "is_default")]
    pub revision: u64,
}

/// Whether replaced versions are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Versioning {
    /// It goes.
    #[default]
    #[n(0)]
    Off,
    /// It is kept.
    #[n(1)]
    Enabled,
    /// Kept ones stay, new ones go.
    #[n(2)]
    Suspended,
}

/// The settings of a bucket with object lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ObjectLock {
    /// Retention of versions that are written without one.
    #[n(0)]
    pub default: Option<DefaultRetention>,
}

/// How long a version is kept from when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DefaultRetention {
    /// How strictly.
    #[n(0)]
    pub mode: RetentionMode,
    /// How many.
    #[n(1)]
    pub count: u32,
    /// Years of 365 days, or days.
    #[n(2)]
    pub years: bool,
}

impl DefaultRetention {
    /// The retention of a version that is written at `now`.
    #[must_use]
    pub fn starting(self, now: Timestamp) -> Retention {
        let days = u64::from(self.count) * if self.years { 365 } else { 1 };
        let nanos = days.saturating_mul(86_400_000_000_000);
        Retention {
            mode: self.mode,
            until: Timestamp(now.0.saturating_add(nanos)),
        }
    }
}

/// The root of a subtree that is counted for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SpaceMark {
    /// Whether the content from before the mark has been counted.
    #[n(0)]
    pub counted: bool,
    /// Most bytes, if limited.
    #[n(1)]
    pub max_bytes: Option<u64>,
    /// Most objects, if limited.
    #[n(2)]
    pub max_objects: Option<u64>,
    /// Soft limit in bytes, for reports.
    #[n(3)]
    pub soft_bytes: Option<u64>,
    /// Soft limit in objects, for reports.
    #[n(4)]
    pub soft_objects: Option<u64>,
}

/// The limits of a tenant, a user or a bucket, or the place of a space with limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct QuotaRecord {
    /// Most bytes, if limited.
    #[n(0)]
    pub max_bytes: Option<u64>,
    /// Most objects, if limited.
    #[n(1)]
    pub max_objects: Option<u64>,
    /// Soft limit in bytes, for reports.
    #[n(2)]
    pub soft_bytes: Option<u64>,
    /// Soft limit in objects, for reports.
    #[n(3)]
    pub soft_objects: Option<u64>,
    /// Bucket and path of a space when its limits were set; the limits themselves are in its mark.
    #[n(4)]
    pub place: Option<(EntryId, String)>,
}

/// An implicit directory that may have become empty, and its parents.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct HintRecord {
    /// When the directory lost an entry; of two hints for one directory, the newer is valid.
    #[n(0)]
    pub stamp: VersionId,
    /// The unbroken chain of implicit directories down to it, itself the last.
    #[n(1)]
    pub steps: Vec<HintStep>,
}

/// The parent and name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct HintStep {
    /// The directory that holds it.
    #[n(0)]
    pub parent: EntryId,
    /// Its name there.
    #[n(1)]
    pub name: String,
}

/// A tenant; its id is the number of its root directory.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct TenantRecord {
    /// Its id.
    #[n(0)]
    pub id: TenantId,
    /// When it was made.
    #[n(1)]
    pub created: Timestamp,
}

impl TenantRecord {
    /// The directory that holds its buckets.
    #[must_use]
    pub fn root(&self) -> EntryId {
        EntryId(self.id.0)
    }
}
