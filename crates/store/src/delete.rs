//! Deleting objects, one or many.

use dewar_auth::{Action, Caller};
use dewar_types::{ObjectKey, Result};

use crate::Store;
use crate::admit::actor;
use crate::api::{BucketRef, DeleteRequest, Deleted, WriteCondition};
use crate::info::write_condition;

impl Store {
    /// Removes an object. That there is none is no error.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Denied`], [`dewar_types::ErrorKind::NoSuchBucket`],
    /// [`dewar_types::ErrorKind::Precondition`].
    pub async fn delete(&self, caller: &Caller, request: DeleteRequest) -> Result<Deleted> {
        let key = &request.object.key;
        let bucket = self
            .inner
            .admit(
                caller,
                Action::DeleteObject,
                &request.object.bucket,
                Some(key.as_str()),
            )
            .await?;
        let principal = caller.to_string();
        let condition = write_condition(&request.condition);
        let gone = self
            .inner
            .tree
            .delete(&actor(caller, &principal), &bucket, key, &condition)
            .await?;
        Ok(Deleted {
            existed: gone.is_some(),
        })
    }

    /// Removes many objects of one bucket, in few batches; each succeeds or fails for itself.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Denied`], [`dewar_types::ErrorKind::NoSuchBucket`].
    pub async fn delete_many(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        objects: Vec<(ObjectKey, WriteCondition)>,
    ) -> Result<Vec<Result<Deleted>>> {
        let bucket = self
            .inner
            .admit(caller, Action::DeleteObject, bucket, None)
            .await?;
        let principal = caller.to_string();
        let keys: Vec<_> = objects
            .into_iter()
            .map(|(key, condition)| (key, write_condition(&condition)))
            .collect();
        let gone = self
            .inner
            .tree
            .delete_many(&actor(caller, &principal), &bucket, &keys)
            .await?;
        Ok(gone
            .into_iter()
            .map(|result| {
                result.map(|gone| Deleted {
                    existed: gone.is_some(),
                })
            })
            .collect())
    }
}
