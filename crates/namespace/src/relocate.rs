//! Moving the content of a version. Its bytes were copied to other blobs, which replace the old
//! ones in one batch.

use dewar_catalog::Actor;
use dewar_catalog::record::{ContentCopy, VersionRecord};
use dewar_types::{Error, ObjectKey, VersionName};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::publish::DataChanges;
use super::retry::ConflictRetry;
use super::versions::readable;
use super::{Bucket, Tree};

/// The new place of a version's content.
#[derive(Clone, Debug)]
pub struct Relocation {
    /// The storage class at the new place, if not the default.
    pub storage_class: Option<String>,
    /// The same bytes in blobs without references.
    pub copies: Vec<ContentCopy>,
    /// Changes that the data layer adds to the same batch.
    pub extra: DataChanges,
}

impl Tree {
    /// Moves a version's content to another place and releases the old one. Its id, times, digests
    /// and all other attributes stay as they are. Returns `false`, and changes nothing, when the
    /// version is gone or its content is not at `was` any more.
    ///
    /// # Errors
    /// `NoSuchBucket`; `Conflict`; errors of the engine, after which the content may or may not
    /// have been moved.
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
            let target = self.find_name(bucket, key).await?;
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
