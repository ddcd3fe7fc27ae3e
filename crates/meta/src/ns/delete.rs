//! Deleting files, one or a thousand.

use std::collections::BTreeSet;

use dewar_types::{Error, ObjectKey};

use super::condition::Condition;
use super::publish::change;
use super::record::{Verb, VersionRecord};
use super::resolve::Target;
use super::stage::{Committed, Stage};
use super::turn::Turn;
use super::{Actor, Bucket, Tree};

/// Deletes that share a batch.
const DELETES_PER_BATCH: usize = 250;

impl Tree {
    /// Deletes what `key` holds and gives it; `None` when there was nothing, which is no error even
    /// under a condition, as S3 has it.
    ///
    /// # Errors
    /// `Precondition` when the condition does not hold for what is there; `Conflict` after too
    /// many lost races; `NoSuchBucket`; what the engine says.
    pub async fn delete(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        key: &ObjectKey,
        condition: &Condition,
    ) -> Result<Option<VersionRecord>, Error> {
        let mut turn = Turn::new(self, bucket.path(key.as_str()));
        loop {
            let target = self.target(bucket, key).await?;
            let Some(file) = target.file() else {
                return Ok(None);
            };
            condition.check_write(turn.path(), Some(&file.current))?;
            let mut stage = Stage::new(self);
            let gone = stage.remove(actor, &target).await?;
            match stage.commit().await? {
                Committed::Done => return Ok(gone),
                Committed::Lost => turn.lost().await?,
            }
        }
    }

    /// Deletes many keys of a bucket in few batches. The results stand in the order of `keys`, each
    /// as of [`Tree::delete`]; a key named twice is found absent the second time. A batch is there
    /// wholly or not at all, the list as a whole need not be.
    ///
    /// # Errors
    /// `NoSuchBucket`; what the engine says. Earlier batches may have been applied.
    pub async fn delete_many(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        keys: &[(ObjectKey, Condition)],
    ) -> Result<Vec<Result<Option<VersionRecord>, Error>>, Error> {
        let mut results = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(DELETES_PER_BATCH) {
            let mut turn = Turn::new(self, bucket.path(""));
            loop {
                let mut stage = Stage::new(self);
                let found = self.stage_deletes(&mut stage, actor, bucket, chunk).await?;
                if stage.is_empty() {
                    results.extend(found);
                    break;
                }
                match stage.commit().await? {
                    Committed::Done => {
                        results.extend(found);
                        break;
                    }
                    Committed::Lost => turn.lost().await?,
                }
            }
        }
        Ok(results)
    }

    async fn stage_deletes(
        &self,
        stage: &mut Stage<'_>,
        actor: &Actor<'_>,
        bucket: &Bucket,
        keys: &[(ObjectKey, Condition)],
    ) -> Result<Vec<Result<Option<VersionRecord>, Error>>, Error> {
        let mut seen = BTreeSet::new();
        let mut results = Vec::with_capacity(keys.len());
        for (key, condition) in keys {
            let target = self.target(bucket, key).await?;
            let Some(file) = target.file().filter(|_| !seen.contains(key)) else {
                results.push(Ok(None));
                continue;
            };
            if let Err(unmet) = condition.check_write(&target.path, Some(&file.current)) {
                results.push(Err(unmet));
                continue;
            }
            seen.insert(key);
            results.push(Ok(stage.remove(actor, &target).await?));
        }
        Ok(results)
    }
}

impl Stage<'_> {
    /// The file at the target goes.
    pub(super) async fn remove(
        &mut self,
        actor: &Actor<'_>,
        target: &Target,
    ) -> Result<Option<VersionRecord>, Error> {
        let (Some((key, read)), Some(file)) = (&target.slot, target.file()) else {
            return Ok(None);
        };
        self.watch(&target.chain);
        self.same(key.clone(), read);
        self.delete(key.clone());
        let gone = self.displace(target).await?;
        self.hint(&target.chain).await?;
        let mut record = change(
            Verb::Delete,
            target,
            target.chain.last_id(),
            file.attributes.id,
        );
        record.version = Some((&file.current).into());
        self.log(actor, record).await?;
        Ok(gone)
    }
}
