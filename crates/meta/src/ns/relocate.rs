//! Moving the content of a version: its bytes were copied to other blobs, which take the places of the
//! old ones in one batch.

use dewar_types::{Error, ObjectKey, VersionName};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::publish::DataChanges;
use super::record::{ContentCopy, VersionRecord};
use super::retry::ConflictRetry;
use super::versions::readable;
use super::{Actor, Bucket, Tree};

/// Where a version's content is from now on.
#[derive(Clone, Debug)]
pub struct Relocation {
    /// The storage class that it has there, if not the default.
    pub storage_class: Option<String>,
    /// The same bytes in blobs that nothing names yet.
    pub copies: Vec<ContentCopy>,
    /// What the data layer wants in the same batch.
    pub extra: DataChanges,
}

impl Tree {
    /// Puts a version's content in another place; what it named before is released. Its id, times,
    /// digests and whatever else it has stay as they are. `false` when the version went meanwhile, or
    /// its content is not where it `was` any more; then nothing was changed.
    ///
    /// # Errors
    /// `NoSuchBucket`; `Conflict`; what the engine says, and then it is open whether it was moved.
    pub async fn move_content(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        key: &ObjectKey,
        was: &VersionRecord,
        moved: &Relocation,
    ) -> Result<bool, Error> {
        let name: Option<VersionName> = Some(was.name());
        let mut turn = ConflictRetry::new(self, bucket.path(key.as_str()));
        loop {
            let target = self.target(bucket, key).await?;
            let place = self.place_of(&target, name).await?;
            let Ok(place) = readable(&target.path, place, name) else {
                return Ok(false);
            };
            if place.version.id != was.id || place.version.copies != was.copies {
                return Ok(false);
            }
            let mut stage = BatchBuilder::new(self);
            let mut copies = moved.copies.clone();
            stage
                .replace_copies(was.id, &was.copies, &mut copies)
                .await?;
            moved.extra.stage(&mut stage);
            let version = VersionRecord {
                copies,
                storage_class: moved.storage_class.clone(),
                ..place.version
            };
            stage.rewrite(actor, &target, place.older, version).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(true),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }
}
