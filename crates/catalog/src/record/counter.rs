//! Counters.

use bytes::Bytes;
use dewar_types::{BlobId, EntryId, GroupId, TenantId, UserId};

use crate::keys;

/// The owner of counted objects and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CounterScope {
    /// All buckets of a tenant.
    Tenant(TenantId),
    /// A bucket.
    Bucket(EntryId),
    /// A directory marked as the root of a space.
    Space(EntryId),
    /// Content owned by a user.
    User(UserId),
    /// Content owned by a group.
    Group(GroupId),
}

/// A counter of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// Versions of files, delete markers, uploads in progress, and directories that were made on request.
    Objects(CounterScope),
    /// Bytes of all versions of files and of the parts of uploads in progress, with the metadata of
    /// each version, upload and directory beyond the free amount (`METADATA_FREE`).
    Bytes(CounterScope),
    /// Uploads in progress of a user.
    Uploads(UserId),
    /// The part of [`Counter::Bytes`] that those uploads add.
    UploadBytes(UserId),
    /// Bytes of dead slots in a segment.
    Dead(BlobId),
}

impl Counter {
    /// Its key.
    #[must_use]
    pub fn key(self) -> Bytes {
        let (kind, id) = match self {
            Self::Objects(CounterScope::Tenant(id)) => (b'T', id.0),
            Self::Objects(CounterScope::Bucket(id)) => (b'B', id.0),
            Self::Objects(CounterScope::Space(id)) => (b'S', id.0),
            Self::Objects(CounterScope::User(id)) => (b'U', id.0),
            Self::Objects(CounterScope::Group(id)) => (b'G', id.0),
            Self::Bytes(CounterScope::Tenant(id)) => (b't', id.0),
            Self::Bytes(CounterScope::Bucket(id)) => (b'b', id.0),
            Self::Bytes(CounterScope::Space(id)) => (b's', id.0),
            Self::Bytes(CounterScope::User(id)) => (b'u', id.0),
            Self::Bytes(CounterScope::Group(id)) => (b'g', id.0),
            Self::Uploads(id) => (b'M', id.0),
            Self::UploadBytes(id) => (b'm', id.0),
            Self::Dead(id) => (b'd', id.0),
        };
        keys::counter(kind, id)
    }

    /// Whether this is the key of a counter that counts what users store.
    pub(crate) fn is_of_usage(key: &[u8]) -> bool {
        let kind = key.get(1);
        Self::scope_of_bytes(key).is_some()
            || (key.first() == Some(&keys::COUNTER)
                && kind.is_some_and(|kind| b"TBSUGMm".contains(kind)))
    }

    /// The scope of the counter of bytes with this key; `None` for any other key.
    #[must_use]
    pub fn scope_of_bytes(key: &[u8]) -> Option<CounterScope> {
        let (id, kind) = (key.get(2..)?.try_into().ok()?, key.get(1)?);
        let id = u64::from_be_bytes(id);
        let scope = match kind {
            b't' => CounterScope::Tenant(TenantId(id)),
            b'b' => CounterScope::Bucket(EntryId(id)),
            b's' => CounterScope::Space(EntryId(id)),
            b'u' => CounterScope::User(UserId(id)),
            b'g' => CounterScope::Group(GroupId(id)),
            _ => return None,
        };
        (key[0] == keys::COUNTER).then_some(scope)
    }
}
