//! Removal of empty implicit directories.

use dewar_catalog::record::{DirRecord, HintRecord, Record};
use dewar_catalog::{keys, tables};
use dewar_kv::Scan;
use dewar_types::{Error, ErrorKind};

use super::Tree;
use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::dirs::PrunePolicy;

/// The result of a round of [`Tree::reclaim_empty_dirs`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimReport {
    /// Hints that were looked at.
    pub looked_at: usize,
    /// Directories removed because of a hint (those below them not counted).
    pub removed: usize,
    /// Whether hints are left.
    pub more: bool,
}

impl Tree {
    /// Examines up to `limit` directories that may have become empty, and removes the empty ones.
    /// They are invisible already; this frees their keys.
    ///
    /// This is safe beside all other changes. A directory is removed only in a batch that requires
    /// it to be empty, and every change that puts an entry into it requires it to exist. A hint is
    /// removed in the same batch as its directory, with a new hint for the directory above. It is
    /// removed alone when the directory is alive. After a lost race it stays for the next round.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn reclaim_empty_dirs(&self, limit: usize) -> Result<ReclaimReport, Error> {
        let range = tables::HINT.keys();
        let page = self
            .kv()
            .scan(Scan {
                from: &range.from,
                to: &range.to,
                limit,
                reverse: false,
            })
            .await?;
        let mut done = ReclaimReport {
            more: page.more,
            ..ReclaimReport::default()
        };
        for (key, _) in page.pairs {
            done.looked_at += 1;
            if self.follow_hint(key).await? {
                done.removed += 1;
                done.more = true;
            }
        }
        Ok(done)
    }

    async fn follow_hint(&self, hint_key: bytes::Bytes) -> Result<bool, Error> {
        let id = keys::parse_hint(&hint_key)?;
        let hint_read = self.kv().get(&hint_key).await?;
        let Some(value) = &hint_read.value else {
            return Ok(false);
        };
        let mut hint = HintRecord::from_value(&hint_key, value)?;
        let mut stage = BatchBuilder::new(self);
        stage.same(hint_key.clone(), &hint_read);
        stage.delete(hint_key);
        let Some(step) = hint.steps.pop() else {
            stage.commit().await?;
            return Ok(false);
        };
        let key = keys::dir(step.parent, &step.name);
        let read = self.kv().get(&key).await?;
        let dir = match &read.value {
            Some(value) => Some(DirRecord::from_value(&key, value)?),
            None => None,
        };
        let empty = match dir {
            Some(dir) if dir.attributes.id == id && dir.implicit && dir.space.is_none() => {
                match self.purge_empty(id, PrunePolicy::Implicit).await {
                    // Changed all the time: the hint waits for a quieter moment.
                    Err(error) if error.kind() == ErrorKind::Conflict => return Ok(false),
                    empty => empty?,
                }
            }
            _ => false,
        };
        if !empty {
            // Alive, gone or elsewhere: whatever changes that gives a new hint.
            stage.commit().await?;
            return Ok(false);
        }
        stage.same(key.clone(), &read);
        stage.delete(key.clone());
        stage.vanish(key, id);
        if !hint.steps.is_empty() {
            let above = keys::hint(step.parent);
            let read = self.kv().get(&above).await?;
            let older = match &read.value {
                Some(value) => HintRecord::from_value(&above, value)?.stamp < hint.stamp,
                None => true,
            };
            if older {
                stage.same(above.clone(), &read);
                stage.put(above, hint.to_value());
            }
        }
        Ok(matches!(stage.commit().await?, CommitOutcome::Done))
    }
}
