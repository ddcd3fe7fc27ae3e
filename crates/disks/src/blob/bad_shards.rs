//! Bad shards that reads found where too few others were good. They are kept here until repair
//! takes them.
//!
//! A page that can be decoded from other shards is repaired immediately. Otherwise the read fails,
//! and so does every later one, so repair must learn of the shard. No read waits for that. A shard
//! is reported only once in a while, however many reads fail.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use dewar_types::BlobId;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::BlobStore;
use super::record::BlobRecord;
use super::shards::ShardError;

/// After it was told, the same shard is not told again for this long.
const QUIET: Duration = Duration::from_secs(60);

/// Shards remembered at most. What is beyond is told by a later read, or found by the scrub.
const SUSPECTS_MAX: usize = 4096;

/// A shard with pages that did not verify when they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadShard {
    /// Its blob.
    pub blob: BlobId,
    /// The encoding of it that was read.
    pub generation: u32,
    /// Its number.
    pub shard: usize,
}

/// The shards that wait for repair; see the module.
#[derive(Debug, Default)]
pub struct BadShards {
    known: Mutex<SuspectShard>,
    cue: Notify,
}

#[derive(Debug, Default)]
struct SuspectShard {
    waiting: BTreeSet<BadShard>,
    /// Recently reported shards, including the waiting ones.
    told: BTreeMap<BadShard, Instant>,
}

impl BadShards {
    fn tell(&self, suspect: BadShard) {
        let now = Instant::now();
        let lately = |at: &Instant| now < *at + QUIET;
        let mut known = self.known.lock();
        if known.told.get(&suspect).is_some_and(lately) {
            return;
        }
        if known.told.len() >= SUSPECTS_MAX {
            known.told.retain(|_, at| lately(at));
        }
        if known.told.len() >= SUSPECTS_MAX || known.waiting.len() >= SUSPECTS_MAX {
            return;
        }
        known.told.insert(suspect, now);
        known.waiting.insert(suspect);
        drop(known);
        self.cue.notify_one();
    }

    /// Takes the shards that wait for repair. They stop waiting.
    #[must_use]
    pub fn take(&self) -> BTreeSet<BadShard> {
        core::mem::take(&mut self.known.lock().waiting)
    }

    /// Waits until some shard waits for repair.
    pub async fn any(&self) {
        while self.known.lock().waiting.is_empty() {
            self.cue.notified().await;
        }
    }
}

/// The bad pages that one read met, each counted once however often it was tried.
pub(super) struct BadPageSet<'a> {
    store: &'a BlobStore,
    record: &'a BlobRecord,
    pages: Mutex<BTreeSet<(usize, u64)>>,
}

impl<'a> BadPageSet<'a> {
    pub(super) fn new(store: &'a BlobStore, record: &'a BlobRecord) -> Self {
        Self {
            store,
            record,
            pages: Mutex::default(),
        }
    }

    /// Notes what came of reading a shard, if it is a bad page.
    pub(super) fn note(&self, error: &ShardError) {
        if let ShardError::BadPage { shard, page, .. } = error
            && self.pages.lock().insert((*shard, *page))
        {
            self.store.counts.bad_pages.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The read failed: the shards have to be looked at.
    pub(super) fn accuse(self) {
        for (shard, _) in self.pages.into_inner() {
            self.store.suspects.tell(BadShard {
                blob: self.record.id,
                generation: self.record.generation,
                shard,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspect(blob: u64, shard: usize) -> BadShard {
        BadShard {
            blob: BlobId(blob),
            generation: 1,
            shard,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_is_told_once_a_minute_however_often_it_is_read() {
        let suspects = BadShards::default();
        for _ in 0..1000 {
            suspects.tell(suspect(1, 0));
            suspects.tell(suspect(1, 2));
        }
        let told = [suspect(1, 0), suspect(1, 2)].into();
        assert_eq!(suspects.take(), told);
        suspects.tell(suspect(1, 0));
        let quiet = tokio::time::timeout(QUIET / 2, suspects.any()).await;
        assert!(quiet.is_err(), "it was told already");
        tokio::time::advance(QUIET).await;
        suspects.tell(suspect(1, 0));
        suspects.any().await;
        assert_eq!(suspects.take(), [suspect(1, 0)].into());
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_an_end_to_what_is_remembered() {
        let suspects = BadShards::default();
        for blob in 0..2 * SUSPECTS_MAX as u64 {
            suspects.tell(suspect(blob, 0));
        }
        assert_eq!(suspects.take().len(), SUSPECTS_MAX);
        tokio::time::advance(QUIET).await;
        suspects.tell(suspect(u64::MAX, 0));
        assert_eq!(suspects.take(), [suspect(u64::MAX, 0)].into());
    }
}
