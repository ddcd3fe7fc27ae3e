//! Counters.

use bytes::Bytes;
use dewar_types::{BlobId, EntryId, GroupId, TenantId, UserId};

use crate::ns::keys;

/// Whose objects and bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All buckets of a tenant.
    Tenant(TenantId),
    /// A bucket.
    Bucket(EntryId),
    /// A directory marked as the root of a space.
    Space(EntryId),
    /// What a user owns.
    User(UserId),
    /// What a group owns.
    Group(GroupId),
}

/// A counter of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// Files with a current version that is no delete marker.
    Objects(Scope),
    /// Bytes of all versions of files. Parts of uploads in progress do not count.
    Bytes(Scope),
    /// Bytes of dead slots in a segment.
    Dead(BlobId),
}

impl Counter {
    /// Its key.
    #[must_use]
    pub fn key(self) -> Bytes {
        let (kind, id) = match self {
            Self::Objects(Scope::Tenant(id)) => (b'T', id.0),
            Self::Objects(Scope::Bucket(id)) => (b'B', id.0),
            Self::Objects(Scope::Space(id)) => (b'S', id.0),
            Self::Objects(Scope::User(id)) => (b'U', id.0),
            Self::Objects(Scope::Group(id)) => (b'G', id.0),
            Self::Bytes(Scope::Tenant(id)) => (b't', id.0),
            Self::Bytes(Scope::Bucket(id)) => (b'b', id.0),
            Self::Bytes(Scope::Space(id)) => (b's', id.0),
            Self::Bytes(Scope::User(id)) => (b'u', id.0),
            Self::Bytes(Scope::Group(id)) => (b'g', id.0),
            Self::Dead(id) => (b'd', id.0),
        };
        keys::counter(kind, id)
    }
}
