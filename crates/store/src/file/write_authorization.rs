//! Authorization of a write to a file, and the conditions on the existing file.

use dewar_auth::{Action, Caller, Details};
use dewar_catalog::record::FileRecord;
use dewar_namespace::{Bucket, Condition};
use dewar_types::{Error, ErrorKind, ObjectKey, Result};

use crate::api::{BucketRef, GetRequest, ObjectRef, WriteCondition};
use crate::limits::OBJECT_BYTES_MAX;
use crate::{Inner, Store};

use super::revision::too_large;
use super::{FileWrite, WriteMode};

impl Store {
    /// Whether [`Store::write_file`] would let this caller begin now. Nothing is opened or reserved.
    ///
    /// # Errors
    /// As [`Store::write_file`], apart from those of quotas and disks.
    pub async fn authorize_write(&self, caller: &Caller, write: &FileWrite) -> Result<()> {
        let shared = &self.inner;
        let admitted = shared.authorize_file_write(caller, write).await?;
        if write.mode == WriteMode::Update {
            let request = current_version(&admitted.bucket, &write.object.key);
            let found = shared.find(caller, &admitted.bucket, &request, false);
            found.await?;
        }
        Ok(())
    }
}

/// A request for all of the current version.
pub(super) fn current_version(bucket: &Bucket, key: &ObjectKey) -> GetRequest {
    GetRequest::whole(ObjectRef {
        bucket: BucketRef {
            tenant: Some(bucket.tenant.name.clone()),
            name: bucket.name.clone(),
        },
        key: key.clone(),
    })
}

/// A write that its caller may begin.
pub(super) struct AuthorizedWrite {
    pub(super) bucket: Bucket,
    /// The file that has the name now.
    pub(super) there: Option<FileRecord>,
    /// What must still hold when the version gets the name.
    pub(super) condition: Condition,
}

impl Inner {
    /// Judges a write: who may, and what must be there.
    ///
    /// # Errors
    /// As [`Store::authorize_write`].
    pub(super) async fn authorize_file_write(
        &self,
        caller: &Caller,
        write: &FileWrite,
    ) -> Result<AuthorizedWrite> {
        let key = &write.object.key;
        let details = Details {
            creates: Some(true),
            ..self.details()
        };
        let (action, named) = (Action::PutObject, Some(key.as_str()));
        let bucket = self
            .authorize_bucket_with(caller, action, &write.object.bucket, named, &details)
            .await?;
        let path = bucket.path(key.as_str());
        if let Some(size) = write.size.filter(|size| *size > OBJECT_BYTES_MAX) {
            return Err(too_large(&path, size));
        }
        let (there, directory) = self.either(&bucket, key).await?;
        let refused = |kind, what: &str| Err(Error::new(kind, format!("{path} {what}")));
        match (write.mode, &there) {
            _ if directory.is_some() => return refused(ErrorKind::IsADirectory, "is a directory"),
            (WriteMode::New, Some(_)) => return refused(ErrorKind::AlreadyExists, "exists"),
            (WriteMode::Update, None) => return refused(ErrorKind::NotFound, "does not exist"),
            (_, None) => self.check_above(&bucket, key).await?,
            (_, Some(_)) => {}
        }
        let condition = match write.mode {
            WriteMode::New => Condition::absent(),
            // A token may let its bearer create, and not overwrite.
            WriteMode::Replace | WriteMode::Update => {
                let asked = WriteCondition::default();
                self.write_condition(caller, &bucket, key, &asked).await?
            }
        };
        Ok(AuthorizedWrite {
            bucket,
            there,
            condition,
        })
    }
}
