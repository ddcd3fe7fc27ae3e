//! Authorization of a write to a file, and the conditions on the existing file.

use dewar_auth::{Action, Caller, Details};
use dewar_meta::ns::{Bucket, ResolvedName};
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
            let (bucket, found) = (&admitted.bucket, admitted.found);
            let request = current_version(bucket, &write.object.key);
            shared
                .find_in(caller, bucket, &request, found, false)
                .await?;
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
    /// The name as it was looked up.
    pub(super) found: ResolvedName,
    /// What must still hold when the version gets the name.
    pub(super) condition: WriteCondition,
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
        let node = self.tree.find_node(&bucket, key).await?;
        let refused = |kind, what: &str| Err(Error::new(kind, format!("{path} {what}")));
        match (write.mode, node.file()) {
            _ if node.directory().is_some() => {
                return refused(ErrorKind::IsADirectory, "is a directory");
            }
            (WriteMode::New, Some(_)) => return refused(ErrorKind::AlreadyExists, "exists"),
            (WriteMode::Update, None) => return refused(ErrorKind::NotFound, "does not exist"),
            (_, None) => {
                self.tree.check_above(node.name()).await?;
            }
            (_, Some(_)) => {}
        }
        let condition = match write.mode {
            WriteMode::New => WriteCondition::absent(),
            // A token may let its bearer create, and not overwrite.
            WriteMode::Replace | WriteMode::Update => {
                let asked = WriteCondition::default();
                self.judge_write(caller, &bucket, key, &asked, node.file())?
            }
        };
        Ok(AuthorizedWrite {
            bucket,
            found: node.into_name(),
            condition,
        })
    }

    /// Looks a name up that a file may have by the rules of a hierarchy.
    ///
    /// # Errors
    /// [`ErrorKind::IsADirectory`], [`ErrorKind::NotADirectory`].
    pub(crate) async fn file_place(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
    ) -> Result<ResolvedName> {
        let node = self.tree.find_node(bucket, key).await?;
        if node.directory().is_some() {
            let message = format!("{} is a directory", bucket.path(key.as_str()));
            return Err(Error::new(ErrorKind::IsADirectory, message));
        }
        if node.file().is_none() {
            self.tree.check_above(node.name()).await?;
        }
        Ok(node.into_name())
    }
}
