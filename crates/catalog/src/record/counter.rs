//! Counters, and the scopes that they count for.

use bytes::Bytes;
use dewar_kv::KvRead;
use dewar_types::{BlobId, EntryId, Error, GroupId, TenantId, UserId};

use super::number;
use crate::keys;
use crate::tables::{COUNTER, QUOTA};

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

impl CounterScope {
    /// The scopes that count what a user and a group own.
    pub fn of_owner((user, group): (UserId, Option<GroupId>)) -> impl Iterator<Item = Self> {
        let group = group.map(Self::Group);
        std::iter::once(Self::User(user)).chain(group)
    }

    /// Key of the quota of the scope.
    #[must_use]
    pub fn quota_key(self) -> Bytes {
        let counter = Counter::Bytes(self).key();
        QUOTA.key(&[counter.get(1..).unwrap_or_default()])
    }

    /// The quotas of all spaces.
    #[must_use]
    pub fn space_quotas() -> keys::KeyRange {
        QUOTA.range(&[b"s"])
    }

    /// The scope that a quota's key names.
    ///
    /// # Errors
    /// `Corrupt` when it is no such key.
    pub fn of_quota_key(key: &[u8]) -> Result<Self, Error> {
        let corrupt = || keys::corrupt(key, QUOTA.name);
        let rest = key.strip_prefix(&[QUOTA.prefix]);
        let (kind, id) = rest.and_then(<[u8]>::split_first).ok_or_else(corrupt)?;
        let id = u64::from_be_bytes(id.try_into().map_err(|_| corrupt())?);
        Ok(match kind {
            b't' => Self::Tenant(TenantId(id)),
            b'b' => Self::Bucket(EntryId(id)),
            b's' => Self::Space(EntryId(id)),
            b'u' => Self::User(UserId(id)),
            b'g' => Self::Group(GroupId(id)),
            _ => return Err(corrupt()),
        })
    }
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

    /// Its value; 0 when nothing was ever added.
    ///
    /// # Errors
    /// Errors of the engine; `Corrupt` when the value is no number.
    pub async fn value(self, kv: &dyn KvRead) -> Result<i64, Error> {
        let key = self.key();
        let value = kv.get(&key).await?.value;
        value.map_or(Ok(0), |value| number(&key, &value).map(u64::cast_signed))
    }

    /// Whether this is the key of a counter that counts what users store.
    #[must_use]
    pub fn is_of_usage(key: &[u8]) -> bool {
        let kind = key.strip_prefix(&[COUNTER.prefix]).and_then(<[u8]>::first);
        kind.is_some_and(|kind| b"TBSUGtbsugMm".contains(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_has_the_key_of_its_counter_of_bytes() {
        let scopes = [
            CounterScope::Tenant(TenantId(1)),
            CounterScope::Bucket(EntryId(2)),
            CounterScope::Space(EntryId(3)),
            CounterScope::User(UserId(4)),
            CounterScope::Group(GroupId(5)),
        ];
        for scope in scopes {
            let key = scope.quota_key();
            assert_eq!(key[..1], [QUOTA.prefix]);
            assert_eq!(key[1..], Counter::Bytes(scope).key()[1..]);
            assert_eq!(CounterScope::of_quota_key(&key).unwrap(), scope);
            assert!(CounterScope::of_quota_key(&Counter::Bytes(scope).key()).is_err());
            assert!(CounterScope::of_quota_key(&key[..5]).is_err());
        }
    }
}
