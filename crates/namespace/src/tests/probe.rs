//! An engine that counts what is asked of it, and can make tasks take turns at every call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use dewar_env::BoxFuture;
use dewar_kv::{Batch, CommitError, Kv, KvRead, ReadValue, Scan, ScanPage, Seq};

use super::*;

#[derive(Default)]
pub(super) struct ProbeCounts {
    pub(super) gets: AtomicUsize,
    pub(super) scans: AtomicUsize,
    pub(super) pairs: AtomicUsize,
    pub(super) commits: AtomicUsize,
    pub(super) conflicts: AtomicUsize,
    pub(super) yields: AtomicBool,
    /// Every so many commits one fails, by turns before it is applied and after; 0 for never.
    pub(super) fail_every: AtomicUsize,
    /// The next commit waits for this before it is judged.
    pub(super) gate: parking_lot::Mutex<Option<Arc<tokio::sync::Notify>>>,
}

impl ProbeCounts {
    pub(super) fn reset(&self) {
        for count in [&self.gets, &self.scans, &self.pairs, &self.commits] {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// Gets, scans, pairs that scans gave, commits.
    pub(super) fn read(&self) -> (usize, usize, usize, usize) {
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (
            read(&self.gets),
            read(&self.scans),
            read(&self.pairs),
            read(&self.commits),
        )
    }

    async fn turn(&self) {
        if self.yields.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
    }
}

#[derive(Clone)]
pub(super) struct Probe<K> {
    inner: K,
    pub(super) counts: Arc<ProbeCounts>,
}

impl Probe<MemoryKv> {
    pub(super) fn new() -> Self {
        Self {
            inner: MemoryKv::new(),
            counts: Arc::default(),
        }
    }
}

impl KvRead for Probe<Arc<dyn KvRead>> {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<ReadValue, Error>> {
        self.counts.gets.fetch_add(1, Ordering::Relaxed);
        self.inner.get(key)
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> BoxFuture<'a, Result<ScanPage, Error>> {
        Box::pin(async move {
            self.counts.scans.fetch_add(1, Ordering::Relaxed);
            let page = self.inner.scan(scan).await?;
            self.counts
                .pairs
                .fetch_add(page.pairs.len(), Ordering::Relaxed);
            Ok(page)
        })
    }
}

impl KvRead for Probe<MemoryKv> {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<ReadValue, Error>> {
        Box::pin(async move {
            self.counts.turn().await;
            self.counts.gets.fetch_add(1, Ordering::Relaxed);
            self.inner.get(key).await
        })
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> BoxFuture<'a, Result<ScanPage, Error>> {
        Box::pin(async move {
            self.counts.turn().await;
            self.counts.scans.fetch_add(1, Ordering::Relaxed);
            let page = self.inner.scan(scan).await?;
            self.counts
                .pairs
                .fetch_add(page.pairs.len(), Ordering::Relaxed);
            Ok(page)
        })
    }
}

impl Kv for Probe<MemoryKv> {
    fn snapshot(&self) -> Arc<dyn KvRead> {
        Arc::new(Probe {
            inner: self.inner.snapshot(),
            counts: Arc::clone(&self.counts),
        })
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<Seq, CommitError>> {
        Box::pin(async move {
            self.counts.turn().await;
            let gate = self.counts.gate.lock().take();
            if let Some(gate) = gate {
                gate.notified().await;
            }
            let number = self.counts.commits.fetch_add(1, Ordering::Relaxed) + 1;
            let every = self.counts.fail_every.load(Ordering::Relaxed);
            let fails = every > 0 && number.is_multiple_of(every);
            let lost = Error::new(ErrorKind::Unavailable, "the power failed");
            if fails && (number / every).is_multiple_of(2) {
                return Err(lost.into());
            }
            let done = self.inner.commit(batch).await;
            if fails {
                return Err(lost.into());
            }
            if let Err(CommitError::Conflict(_)) = done {
                self.counts.conflicts.fetch_add(1, Ordering::Relaxed);
            }
            self.counts.turn().await;
            done
        })
    }

    fn last_sequence(&self) -> Seq {
        self.inner.last_sequence()
    }

    fn changes(&self, after: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<(Seq, Bytes)>, Error>> {
        self.inner.changes(after, limit)
    }
}
