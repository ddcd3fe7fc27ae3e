//! Removal of empty implicit directories, and of blobs that no name refers to.

use dewar_catalog::keys;
use dewar_catalog::record::{DirRecord, HintRecord, Record};
use dewar_kv::{Batch, CommitError, Precondition, Scan};
use dewar_types::{BlobId, Error, ErrorKind, Timestamp};

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

/// A blob that may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreferencedBlob {
    /// The blob.
    pub blob: BlobId,
    /// When its last name went.
    pub since: Timestamp,
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
        let range = keys::hints();
        let page = self
            .kv
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
        let hint_read = self.kv.get(&hint_key).await?;
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
        let read = self.kv.get(&key).await?;
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
            let read = self.kv.get(&above).await?;
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

    /// Blobs that lost their last name before `before`, oldest first, at most `limit`, starting
    /// after `after`.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn unnamed_blobs(
        &self,
        before: Timestamp,
        after: Option<&UnreferencedBlob>,
        limit: usize,
    ) -> Result<Vec<UnreferencedBlob>, Error> {
        let mut range = keys::free_before(before.0);
        if let Some(after) = after {
            range.from = keys::just_after(&keys::free(after.since.0, after.blob));
        }
        if range.from >= range.to {
            return Ok(Vec::new());
        }
        let page = self
            .kv
            .scan(Scan {
                from: &range.from,
                to: &range.to,
                limit,
                reverse: false,
            })
            .await?;
        page.pairs
            .iter()
            .map(|(key, _)| {
                let (time, blob) = keys::parse_free(key)?;
                Ok(UnreferencedBlob {
                    blob,
                    since: Timestamp(time),
                })
            })
            .collect()
    }

    /// The bytes of these blobs are gone: their records and queue entries go too.
    ///
    /// # Errors
    /// Errors of the engine; then none of them went.
    pub async fn forget_blobs(&self, blobs: &[UnreferencedBlob]) -> Result<(), Error> {
        let mut deletes = Vec::with_capacity(2 * blobs.len());
        for unnamed in blobs {
            deletes.push(keys::free(unnamed.since.0, unnamed.blob));
            deletes.push(keys::blob(unnamed.blob));
        }
        self.commit_plain(Batch {
            deletes,
            frees: true,
            ..Batch::default()
        })
        .await
    }

    /// The data layer's record of a blob.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn blob_record(&self, blob: BlobId) -> Result<Option<bytes::Bytes>, Error> {
        Ok(self.kv.get(&keys::blob(blob)).await?.value)
    }

    /// The data layer's record of a sealed segment.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn segment_record(&self, segment: BlobId) -> Result<Option<bytes::Bytes>, Error> {
        Ok(self.kv.get(&keys::segment(segment)).await?.value)
    }

    /// Replaces a record of the data layer (`keys::blob`, `keys::segment`), if it still is
    /// `expected`.
    ///
    /// # Errors
    /// `Conflict` when it is not; errors of the engine.
    pub async fn replace_record(
        &self,
        key: bytes::Bytes,
        expected: Option<bytes::Bytes>,
        new: Option<bytes::Bytes>,
    ) -> Result<(), Error> {
        let mut batch = Batch {
            require: vec![Precondition::Same {
                key: key.clone(),
                value: expected,
                read_at: 0,
            }],
            ..Batch::default()
        };
        match new {
            Some(value) => batch.puts.push((key, value)),
            None => batch.deletes.push(key),
        }
        self.commit_plain(batch).await
    }

    async fn commit_plain(&self, batch: Batch) -> Result<(), Error> {
        match self.kv.commit(batch).await {
            Ok(_) => Ok(()),
            Err(CommitError::Conflict(_)) => Err(Error::new(
                ErrorKind::Conflict,
                "a record of the data layer was changed by another",
            )),
            Err(CommitError::Failed(error)) => Err(error),
        }
    }
}
