//! The order in which uploads are made durable.
//!
//! A disk syncs a few files at once, and further uploads have to wait. Uploads wait here, before
//! they need their MD5. The waiting uploads are hashed side by side with the current one
//! ([`dewar_checksum::Md5Lanes`]). If disks are faster than the clients, no upload waits.
//!
//! A turn lasts until all shards are durable, including remaining writes. Turns only order the work
//! and protect nothing: an upload that has waited for [`PATIENCE`] continues without a turn. So a
//! hung disk delays uploads to other disks by at most that time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{BlobStore, BlobWriter};

/// The number of files that a disk syncs at once by default: the number of its threads for syncs.
const SYNCS_PER_DISK: usize = 4;

/// The longest that an upload waits.
const PATIENCE: Duration = Duration::from_millis(100);

/// Turns of all pools. Each pool has its own disks.
#[derive(Debug, Default)]
pub(super) struct SyncLimiter {
    pools: Mutex<BTreeMap<u16, Arc<PoolSlots>>>,
}

#[derive(Debug, Default)]
struct PoolSlots {
    taken: AtomicUsize,
    freed: Notify,
}

/// The turn of an upload. It ends when this is dropped.
#[derive(Debug)]
pub struct SyncPermit {
    /// `None` for who did not get one.
    of: Option<Arc<PoolSlots>>,
}

impl SyncLimiter {
    /// Waits for one of `most` turns of a pool, not for long.
    async fn take(&self, pool: u16, most: usize) -> SyncPermit {
        let of = Arc::clone(self.pools.lock().entry(pool).or_default());
        let taken = async {
            loop {
                let freed = of.freed.notified();
                tokio::pin!(freed);
                // Registered before the look, so that an end in between is not missed.
                freed.as_mut().enable();
                let free = |taken| (taken < most).then_some(taken + 1);
                let took = of
                    .taken
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free);
                if took.is_ok() {
                    return;
                }
                freed.await;
            }
        };
        let got = tokio::time::timeout(PATIENCE, taken).await.is_ok();
        SyncPermit {
            of: got.then_some(of),
        }
    }
}

impl Drop for SyncPermit {
    fn drop(&mut self) {
        if let Some(of) = &self.of {
            of.taken.fetch_sub(1, Ordering::Relaxed);
            of.freed.notify_one();
        }
    }
}

impl BlobStore {
    /// Waits until the disks of a blob that is about to be sealed are available for it, at most a
    /// tenth of a second.
    pub async fn sync_turn(&self, pool: u16, writer: &BlobWriter) -> SyncPermit {
        let members = self.pool.members();
        let disks = members.filter(|member| member.pool == pool).count();
        let side_by_side = disks / writer.layout().shards().max(1);
        let most = SYNCS_PER_DISK * side_by_side.max(1);
        self.turns.take(pool, most).await
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn as_many_as_disks_take_then_one_by_one() {
        let turns = SyncLimiter::default();
        let first = turns.take(1, 2).await;
        let _second = turns.take(1, 2).await;
        let mut third = Box::pin(turns.take(1, 2));
        let mut context = Context::from_waker(Waker::noop());
        assert!(third.as_mut().poll(&mut context).is_pending());
        let elsewhere = turns.take(2, 2).await;
        assert!(elsewhere.of.is_some(), "another pool has other disks");
        drop(first);
        assert!(third.await.of.is_some());
        assert_eq!(turns.pools.lock()[&1].taken.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_a_disk_that_hangs() {
        let turns = SyncLimiter::default();
        let hangs = turns.take(1, 1).await;
        assert!(turns.take(1, 1).await.of.is_none());
        // Whoever goes away while waiting takes no turn along.
        let mut gone = Box::pin(turns.take(1, 1));
        let mut context = Context::from_waker(Waker::noop());
        assert!(gone.as_mut().poll(&mut context).is_pending());
        drop(hangs);
        drop(gone);
        assert!(turns.take(1, 1).await.of.is_some());
    }
}
