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
    /// Whether only the slashes of a key made it: then it is invisible while nothing lives in it,
    /// and reclaimed.
    #[cbor(n(1), skip_if = "is_default")]
    pub implicit: bool,
    /// The bucket's settings, if it is one.
    #[n(2)]
    pub bucket: Option<BucketSettings>,
    /// Set where the subtree is counted for itself (a space).
    #[n(3)]
    pub space: Option<SpaceMark>,
}

/// What a bucket has beyond a directory. Its owner is the directory's.
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
    /// Set where versions may be kept by retention and legal holds; never taken away.
    #[n(3)]
    pub object_lock: Option<ObjectLock>,
    // 4: default layout, 5: default pool
    /// Which documents it has: [`super::DocumentKind::mask`] of each, in one number.
    #[cbor(n(6), skip_if = "is_default")]
    pub documents: u64,
    /// Counts the changes of settings and documents, so that each change of a document changes
    /// this record too, which every change in the bucket requires to be as it was read.
    #[cbor(n(7), skip_if = "is_default")]
    pub revision: u64,
}

/// What happens to a version that is replaced.
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

/// What a bucket with object lock does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ObjectLock {
    /// For versions that do not say how long they are kept.
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
    /// For a version that is written at `now`.
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
    /// Whether what was in the directory when it was marked has been counted.
    #[n(0)]
    pub counted: bool,
    /// Most bytes, if limited.
    #[n(1)]
    pub max_bytes: Option<u64>,
    /// Most objects, if limited.
    #[n(2)]
    pub max_objects: Option<u64>,
    /// Bytes from which on there are many, if somebody wants to know.
    #[n(3)]
    pub soft_bytes: Option<u64>,
    /// Objects from which on there are many, if somebody wants to know.
    #[n(4)]
    pub soft_objects: Option<u64>,
}

/// The limits of a tenant, a user or a bucket, or where a space with limits is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct QuotaRecord {
    /// Most bytes, if limited.
    #[n(0)]
    pub max_bytes: Option<u64>,
    /// Most objects, if limited.
    #[n(1)]
    pub max_objects: Option<u64>,
    /// Bytes from which on there are many, if somebody wants to know.
    #[n(2)]
    pub soft_bytes: Option<u64>,
    /// Objects from which on there are many, if somebody wants to know.
    #[n(3)]
    pub soft_objects: Option<u64>,
    /// Bucket and path that a space had when its limits were set; those stand in its mark.
    #[n(4)]
    pub place: Option<(EntryId, String)>,
}

/// An implicit directory that may have become empty, and where it hangs.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct HintRecord {
    /// When the directory lost something; of two hints for one directory the younger is right.
    #[n(0)]
    pub stamp: VersionId,
    /// The unbroken run of implicit directories down to it, itself the last.
    #[n(1)]
    pub steps: Vec<HintStep>,
}

/// Where a directory hangs.
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
