//! Deleting files and versions, one or a thousand.
//!
//! A delete without a version's name depends on the bucket. If the bucket keeps no versions, the
//! file is removed; otherwise a delete marker is put on top (see [`super::versions`]). A delete
//! with a version's name removes that version permanently, unless a retention or hold protects it.

use std::collections::BTreeMap;

use dewar_catalog::Actor;
use dewar_catalog::record::{VersionRecord, Versioning};
use dewar_types::{Error, ErrorKind, ObjectKey, VersionId, VersionName};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::condition::WriteCondition;
use super::resolve::{NameRef, ResolvedName};
use super::retry::ConflictRetry;
use super::versions::Name;
use super::{Bucket, Tree};

/// Deletes that share a batch.
const DELETES_PER_BATCH: usize = 250;

/// A key or version to delete.
#[derive(Clone, Debug)]
pub struct DeleteTarget {
    /// The key.
    pub key: ObjectKey,
    /// The version to remove permanently. Without one, the bucket decides what a delete does.
    pub version: Option<VersionName>,
    /// Condition on the version, or on the current one.
    pub condition: WriteCondition,
    /// Restricts the delete to this version; another version that has the name by now is left
    /// alone.
    pub only: Option<VersionId>,
    /// The name as it was looked up, if the caller did.
    pub found: Option<ResolvedName>,
}

impl DeleteTarget {
    /// Deletes the content of a key, without conditions.
    #[must_use]
    pub fn key(key: ObjectKey) -> Self {
        Self {
            key,
            version: None,
            condition: WriteCondition::NONE,
            only: None,
            found: None,
        }
    }

    fn name<'a>(&'a self, bucket: &'a Bucket) -> NameRef<'a> {
        NameRef::new(bucket, &self.key, self.found.clone())
    }
}

/// The result of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOutcome {
    /// The version that was permanently removed, if any.
    pub version: Option<VersionRecord>,
    /// The delete marker that hides the file now.
    pub marker: Option<VersionRecord>,
}

/// One thing of a list, with its place in it.
type IndexedTarget<'a> = (usize, &'a DeleteTarget);

impl Tree {
    /// Deletes the content of `key`. As in S3, a missing key is no error, even under a condition.
    /// If the bucket keeps versions and there is no condition, the delete of a missing key puts a
    /// delete marker.
    ///
    /// # Errors
    /// `Precondition` when the condition does not hold for the present version; `Locked` when the
    /// version is protected (`bypass` also overrides governance mode); `Quota` for a delete marker
    /// that hides nothing readable and does not fit; `Conflict` after too many lost races;
    /// `NoSuchBucket`; errors of the engine.
    pub async fn delete(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        doomed: &DeleteTarget,
        bypass: bool,
    ) -> Result<DeleteOutcome, Error> {
        let mut name = doomed.name(bucket);
        let mut turn = ConflictRetry::new(self, name.path());
        loop {
            let target = name.resolve(self).await?;
            let mut stage = BatchBuilder::new(self);
            let mut done = stage
                .carry_out(actor, target, &[(0, doomed)], bypass)
                .await?;
            let removed = done
                .pop()
                .map_or(Ok(DeleteOutcome::default()), |(_, done)| done)?;
            if stage.is_empty() {
                return Ok(removed);
            }
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(removed),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// Deletes many keys and versions of a bucket in few batches. The results have the order of the
    /// list, each as of [`Tree::delete`]. An entry that occurs twice in the list is absent the
    /// second time. A batch is applied completely or not at all; this does not hold for the list as
    /// a whole.
    ///
    /// # Errors
    /// `NoSuchBucket`; errors of the engine. Earlier batches may have been applied.
    pub async fn delete_many(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        list: &[DeleteTarget],
        bypass: bool,
    ) -> Result<Vec<Result<DeleteOutcome, Error>>, Error> {
        let mut results = Vec::with_capacity(list.len());
        for chunk in list.chunks(DELETES_PER_BATCH) {
            // What one key is named for belongs together, in the order of the list.
            let mut wishes: BTreeMap<&ObjectKey, Vec<IndexedTarget<'_>>> = BTreeMap::new();
            for wish in chunk.iter().enumerate() {
                wishes.entry(&wish.1.key).or_default().push(wish);
            }
            let mut names: Vec<NameRef<'_>> = wishes
                .values()
                .filter_map(|wishes| Some(wishes.first()?.1.name(bucket)))
                .collect();
            let mut turn = ConflictRetry::new(self, bucket.path(""));
            let done = loop {
                let mut stage = BatchBuilder::new(self);
                let mut done = Vec::with_capacity(chunk.len());
                for (name, wishes) in names.iter_mut().zip(wishes.values()) {
                    let target = name.resolve(self).await?;
                    done.extend(stage.carry_out(actor, target, wishes, bypass).await?);
                }
                if stage.is_empty() {
                    break done;
                }
                match stage.commit().await {
                    Ok(CommitOutcome::Done) => break done,
                    Ok(CommitOutcome::Lost) => turn.lost().await?,
                    // A delete marker does not fit, and the others are not to suffer for it.
                    Err(error) if error.kind() == ErrorKind::Quota => {
                        break self.delete_singly(actor, bucket, chunk, bypass).await;
                    }
                    Err(error) => return Err(error),
                }
            };
            let mut done = done;
            done.sort_by_key(|(place, _)| *place);
            results.extend(done.into_iter().map(|(_, result)| result));
        }
        Ok(results)
    }
}

impl Tree {
    /// Deletes one after the other what does not go together.
    async fn delete_singly(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        list: &[DeleteTarget],
        bypass: bool,
    ) -> Vec<(usize, Result<DeleteOutcome, Error>)> {
        let mut done = Vec::with_capacity(list.len());
        for (place, doomed) in list.iter().enumerate() {
            done.push((place, self.delete(actor, bucket, doomed, bypass).await));
        }
        done
    }
}

impl BatchBuilder<'_> {
    /// Deletes what is wished of one name. What is refused leaves the others as they are.
    async fn carry_out(
        &mut self,
        actor: &Actor<'_>,
        target: ResolvedName,
        wishes: &[IndexedTarget<'_>],
        bypass: bool,
    ) -> Result<Vec<(usize, Result<DeleteOutcome, Error>)>, Error> {
        let versioning = target.chain.versioning();
        // What a marker needs: nothing else changes where the directory is missing.
        let makes = versioning != Versioning::Off
            && target.chain.parent().is_none()
            && wishes
                .iter()
                .any(|(_, doomed)| doomed.version.is_none() && doomed.condition.is_none());
        let parent = if makes {
            self.make_dirs(&target.chain, actor.user, None).await?
        } else {
            target.chain.last_id()
        };
        let mut name = Name::new(&target, parent);
        let mut results = Vec::with_capacity(wishes.len());
        let mut changed = false;
        for (place, doomed) in wishes {
            let found = match doomed.version {
                Some(version) => name.find(self, version).await?,
                None => name.file().map(|file| file.current.clone()),
            };
            let found = found.filter(|found| doomed.only.is_none_or(|only| only == found.id));
            if found.is_none() && doomed.only.is_some() {
                results.push((*place, Ok(DeleteOutcome::default())));
                continue;
            }
            let marks = doomed.version.is_none() && versioning != Versioning::Off;
            if found.is_none() && !(marks && doomed.condition.is_none()) {
                results.push((*place, Ok(DeleteOutcome::default())));
                continue;
            }
            if let Some(version) = &found
                && let Err(unmet) = doomed.condition.check(&target.path, Some(version))
            {
                results.push((*place, Err(unmet)));
                continue;
            }
            let removed = match found {
                found if marks => {
                    // What hides something readable is never refused: lifecycle and users empty a full
                    // bucket by it. That was put within the limits, so such markers are bounded too.
                    if found.is_none_or(|found| found.flags.delete_marker()) {
                        self.keep_to_quotas();
                    }
                    let marker = name.mark(self, actor, versioning).await?;
                    DeleteOutcome {
                        version: None,
                        marker: Some(marker),
                    }
                }
                Some(version) if version.is_kept(self.now(), bypass) => {
                    results.push((*place, Err(super::versions::locked(&target.path, &version))));
                    continue;
                }
                Some(version) => {
                    name.remove(self, actor, &version, bypass).await?;
                    DeleteOutcome {
                        version: Some(version),
                        marker: None,
                    }
                }
                None => DeleteOutcome::default(),
            };
            changed = true;
            results.push((*place, Ok(removed)));
        }
        if changed {
            name.settle(self).await?;
        }
        Ok(results)
    }
}
