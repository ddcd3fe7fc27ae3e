//! Locks that WebDAV clients take on files and directories.
//!
//! A lock belongs to a name in a directory. Only WebDAV looks at locks, so they are no part of other
//! changes of the tree. One lock is granted at a time, so that two that exclude each other cannot both
//! be. A lock that has ended has no effect. The next lock that is taken removes it. An index in memory
//! leads to the locks of a name and of a directory.

use std::sync::Arc;

use bytes::Bytes;
use dewar_catalog::record::{LockRecord, Record};
use dewar_catalog::{keys, tables};
use dewar_types::{EntryId, Error, ErrorKind, ObjectKey, Timestamp};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::{Bucket, Tree};

/// Locks that are read at once.
const PAGE: usize = 1000;

/// Most locks of all holders together.
const LOCKS_MAX: usize = 100_000;

/// Ended locks that are removed when a lock is taken.
const ENDED_REMOVED_MAX: usize = 1000;

/// A lock with its number, which is its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameLock {
    /// The number.
    pub number: u128,
    /// The lock.
    pub record: LockRecord,
    key: Bytes,
}

/// Whether a lock was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockGrant {
    /// It was.
    Granted(NameLock),
    /// This one excludes it.
    Excluded(NameLock),
}

impl NameLock {
    fn from_pair(key: Bytes, value: &Bytes) -> Result<Self, Error> {
        Ok(Self {
            number: keys::parse_lock(&key)?,
            record: LockRecord::from_value(&key, value)?,
            key,
        })
    }

    fn has_ended(&self, now: Timestamp) -> bool {
        self.record.expires <= now
    }
}

impl Tree {
    /// The locks that cover a name: its own, and the deep ones of the directories above it. With
    /// `with_parent`, also all of the directory that holds it.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn locks_covering(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        with_parent: bool,
    ) -> Result<Vec<NameLock>, Error> {
        if !self.has_locks() {
            return Ok(Vec::new());
        }
        let sites = self.lock_sites(bucket, key).await?;
        let names = key.as_str().split('/').count();
        let now = self.catalog().env().clock.now();
        let mut covering = Vec::new();
        for (depth, (parent, name)) in sites.iter().enumerate() {
            // A change that makes directories concerns the last one that exists.
            let concerns = depth + 1 == names || (with_parent && depth + 2 == sites.len());
            let of_name = self.locks.read().of_name(&keys::locks(*parent, name));
            for lock in self.live_locks(of_name, now).await? {
                if concerns || lock.record.deep {
                    covering.push(lock);
                }
            }
        }
        Ok(covering)
    }

    /// The locks of names below a directory.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn locks_below(
        &self,
        bucket: &Bucket,
        directory: &ObjectKey,
    ) -> Result<Vec<NameLock>, Error> {
        let now = self.catalog().env().clock.now();
        let below = self.locks.read().below(bucket.id, directory.as_str());
        self.live_locks(below, now).await
    }

    /// The locks under these keys that have not ended.
    async fn live_locks(&self, keys: Vec<Bytes>, now: Timestamp) -> Result<Vec<NameLock>, Error> {
        let mut locks = Vec::new();
        for key in keys {
            if let Some(value) = self.kv().get(&key).await?.value {
                let lock = NameLock::from_pair(key, &value)?;
                if !lock.has_ended(now) {
                    locks.push(lock);
                }
            }
        }
        Ok(locks)
    }

    /// Every lock that can be read, those that have ended included.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn all_locks(&self) -> Result<Vec<NameLock>, Error> {
        let mut pages = tables::LOCK.keys().pages(&**self.kv(), PAGE);
        let mut locks = Vec::new();
        while let Some(page) = pages.next().await? {
            for (key, value) in page {
                match NameLock::from_pair(key, &value) {
                    Ok(lock) => locks.push(lock),
                    Err(error) => tracing::warn!(%error, "a lock is left out"),
                }
            }
        }
        Ok(locks)
    }

    /// Takes a lock, unless another one excludes it. A holder has at most `per_holder` locks.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where the directory above is missing, [`ErrorKind::Quota`] for too many
    /// locks; errors of the engine.
    pub async fn take_lock(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        number: u128,
        record: LockRecord,
        per_holder: usize,
    ) -> Result<LockGrant, Error> {
        let one_at_a_time = Arc::clone(&self.lock_grants).lock_owned().await;
        let now = self.catalog().env().clock.now();
        let excludes = |lock: &NameLock| !(record.shared && lock.record.shared);
        let mut concerned = self.locks_covering(bucket, key, false).await?;
        if record.deep {
            concerned.extend(self.locks_below(bucket, key).await?);
        }
        if let Some(lock) = concerned.into_iter().find(excludes) {
            return Ok(LockGrant::Excluded(lock));
        }
        let (own, live, ended) = {
            let index = self.locks.read();
            let ended = index.ended(now, ENDED_REMOVED_MAX);
            (index.held_by(&record.holder, now), index.live(now), ended)
        };
        if own >= per_holder || live >= LOCKS_MAX {
            let message = format!("{} has too many locks", record.principal);
            return Err(Error::new(ErrorKind::Quota, message));
        }
        let sites = self.lock_sites(bucket, key).await?;
        let names = key.as_str().split('/').count();
        let Some((parent, name)) = sites.get(names - 1) else {
            let path = bucket.path(key.as_str());
            let message = format!("the directory above {path} does not exist");
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        let lock = NameLock {
            number,
            key: keys::lock(*parent, name, number),
            record,
        };
        let mut stage = BatchBuilder::new(self);
        for key in &ended {
            stage.delete(key.clone());
        }
        stage.put(lock.key.clone(), lock.record.to_value());
        let changed = ended.into_iter().chain([lock.key.clone()]);
        stage.changes_locks(one_at_a_time, changed);
        commit(stage).await?;
        Ok(LockGrant::Granted(lock))
    }

    /// Gives a lock another end.
    ///
    /// # Errors
    /// [`ErrorKind::Precondition`] if it has ended or was given back; errors of the engine.
    pub async fn extend_lock(
        &self,
        lock: &NameLock,
        expires: Timestamp,
    ) -> Result<NameLock, Error> {
        let one_at_a_time = Arc::clone(&self.lock_grants).lock_owned().await;
        let now = self.catalog().env().clock.now();
        let is_there = self.kv().get(&lock.key).await?.value.is_some();
        if !is_there || lock.has_ended(now) {
            let message = format!("the lock on {} has ended", lock.record.path);
            return Err(Error::new(ErrorKind::Precondition, message));
        }
        let extended = NameLock {
            record: LockRecord {
                expires,
                ..lock.record.clone()
            },
            ..lock.clone()
        };
        let mut stage = BatchBuilder::new(self);
        stage.put(extended.key.clone(), extended.record.to_value());
        stage.changes_locks(one_at_a_time, [extended.key.clone()]);
        commit(stage).await?;
        Ok(extended)
    }

    /// Removes locks, up to 1,000 in one batch.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn remove_locks(&self, locks: Vec<NameLock>) -> Result<(), Error> {
        for locks in locks.chunks(PAGE) {
            let one_at_a_time = Arc::clone(&self.lock_grants).lock_owned().await;
            let mut stage = BatchBuilder::new(self);
            for lock in locks {
                stage.delete(lock.key.clone());
            }
            let changed = locks.iter().map(|lock| lock.key.clone());
            stage.changes_locks(one_at_a_time, changed);
            commit(stage).await?;
        }
        Ok(())
    }

    /// Whether there is any lock at all, from memory.
    #[must_use]
    pub fn has_locks(&self) -> bool {
        !self.locks.read().is_empty()
    }

    /// Finds out where all locks are. One whose record is damaged locks nothing, and keeps nobody from
    /// opening the tree.
    pub(super) async fn load_locks(&self) -> Result<(), Error> {
        let mut pages = tables::LOCK.keys().pages(&**self.kv(), PAGE);
        while let Some(page) = pages.next().await? {
            let mut index = self.locks.write();
            for (key, value) in page {
                match NameLock::from_pair(key, &value) {
                    Ok(lock) => index.insert(&lock.key, &lock.record),
                    Err(error) => tracing::warn!(%error, "a lock is left out"),
                }
            }
        }
        Ok(())
    }

    /// The directory and the name of each step of a path, as far as the directories exist.
    async fn lock_sites(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
    ) -> Result<Vec<(EntryId, String)>, Error> {
        let found = self.find_name(bucket, key).await?;
        let dirs = found.chain.dirs.iter();
        let ids = dirs.map(|dir| dir.record.attributes.id);
        let names = key.as_str().split('/').map(str::to_owned);
        Ok(ids.zip(names).collect())
    }
}

/// Nothing that these batches are based on can change, as one lock is granted at a time.
async fn commit(stage: BatchBuilder<'_>) -> Result<(), Error> {
    match stage.commit().await? {
        CommitOutcome::Done => Ok(()),
        CommitOutcome::Lost => Err(Error::new(
            ErrorKind::Conflict,
            "another change of the locks came first",
        )),
    }
}
