//! Adopting content that was written under another catalog: for salvage only.

use dewar_catalog::record::{ContentCopy, Record, UploadRecord};
use dewar_catalog::{Actor, keys};
use dewar_types::{Error, ObjectKey, Timestamp, UploadId, VersionId};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::multipart::NewUpload;
use super::publish::DataChanges;
use super::retry::ConflictRetry;
use super::{Bucket, Tree};

impl Tree {
    /// Opens an upload under the id that it had, unless it is open.
    ///
    /// # Errors
    /// `NoSuchBucket`; `Conflict`; errors of the engine.
    pub async fn adopt_upload(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        key: &ObjectKey,
        id: UploadId,
        new: &NewUpload,
    ) -> Result<UploadRecord, Error> {
        let mut turn = ConflictRetry::new(self, bucket.path(key.as_str()));
        loop {
            let (dirs, _) = key.split();
            let chain = self.resolve(bucket, &dirs).await?;
            let at = keys::upload(bucket.id, key.as_str(), id);
            let read = self.kv().get(&at).await?;
            if let Some(value) = &read.value {
                return UploadRecord::from_value(&at, value);
            }
            let mut stage = BatchBuilder::new(self);
            // An upload's id is made as a version's is.
            let initiated = Timestamp(VersionId(id.0).clock());
            let record = new.record(id, actor, initiated, &chain);
            stage.same(at.clone(), &read);
            stage.begin_upload(chain, at, record.clone()).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(record),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// Records that the bytes of the current version of a name are not where the catalog says. The
    /// content that it named before is released. `false` when the name holds another version.
    ///
    /// # Errors
    /// As [`Tree::publish`].
    pub async fn relocate(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        version: VersionId,
        copies: &[ContentCopy],
        extra: &DataChanges,
    ) -> Result<bool, Error> {
        let mut turn = ConflictRetry::new(self, bucket.path(key.as_str()));
        loop {
            let target = self.find_name(bucket, key).await?;
            let (Some((at, read)), Some(file)) = (&target.slot, target.file()) else {
                return Ok(false);
            };
            if file.current.id != version {
                return Ok(false);
            }
            let mut record = file.clone();
            let mut stage = BatchBuilder::new(self);
            stage.watch(&target.chain);
            stage.same(at.clone(), read);
            stage.release_version(&file.current).await?;
            for copy in copies {
                stage.fresh(&copy.extents);
            }
            extra.stage(&mut stage);
            record.current.copies = copies.to_vec();
            stage.spill_version(&mut record.current)?;
            stage.put(at.clone(), record.to_value());
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(true),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }
}
