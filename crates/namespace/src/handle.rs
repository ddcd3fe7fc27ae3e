//! The bucket of a request.

use std::sync::Arc;

use dewar_catalog::Tenant;
use dewar_catalog::record::{ChangeKind, ChangeRecord, DirRecord};
use dewar_types::{BucketName, EntryId, Error, ErrorKind};

use super::documents::BucketDocuments;

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

    /// A change of an entry of the bucket, for the change log.
    pub(super) fn change(
        &self,
        verb: ChangeKind,
        parent: EntryId,
        entry: EntryId,
        path: &str,
    ) -> ChangeRecord {
        ChangeRecord::new(verb, self.id, parent, entry, path.to_owned())
    }

    pub(super) fn gone(&self) -> Error {
        Error::new(
            ErrorKind::NoSuchBucket,
            format!("bucket {} does not exist", self.name),
        )
    }
}
