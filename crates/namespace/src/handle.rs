//! The actor, the tenant and the bucket of a request.

use std::sync::Arc;

use dewar_catalog::record::DirRecord;
use dewar_types::{BucketName, EntryId, Error, ErrorKind, TenantId, TenantName, UserId};

use super::documents::BucketDocuments;

/// The originator of a change. The change log names it, and it owns the entries that are made.
#[derive(Clone, Copy, Debug)]
pub struct Actor<'a> {
    /// Owner of new entries.
    pub user: UserId,
    /// Name for the change log.
    pub principal: &'a str,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its name; empty for the default tenant.
    pub name: TenantName,
    /// Its id.
    pub id: TenantId,
}

impl Tenant {
    /// The default tenant, whose root is entry 1.
    #[must_use]
    pub fn default_tenant() -> Self {
        Self {
            name: TenantName::default(),
            id: TenantId(1),
        }
    }

    /// The directory that holds its buckets.
    #[must_use]
    pub fn root(&self) -> EntryId {
        EntryId(self.id.0)
    }
}

/// A bucket as it was when it was looked up. Changes through it fail with
/// [`ErrorKind::NoSuchBucket`] after this bucket was removed, even if another one has its name. The
/// changed bucket is therefore always the authorised one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The tenant that owns it.
    pub tenant: Tenant,
    /// Its name.
    pub name: BucketName,
    /// Its id.
    pub id: EntryId,
    /// Owner, settings.
    pub record: DirRecord,
    /// Its documents, if it has any: see [`Bucket::document`].
    pub(super) documents: Option<Arc<BucketDocuments>>,
}

impl Bucket {
    /// The full path of a key: `/bucket/key`, or `/@tenant/bucket/key`.
    #[must_use]
    pub fn path(&self, key: &str) -> String {
        let tenant = self.tenant.name.as_str();
        if tenant.is_empty() {
            format!("/{}/{key}", self.name)
        } else {
            format!("/@{tenant}/{}/{key}", self.name)
        }
    }

    pub(super) fn gone(&self) -> Error {
        Error::new(
            ErrorKind::NoSuchBucket,
            format!("bucket {} does not exist", self.name),
        )
    }
}
