//! How far a running copy is, for markers, lists and records.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The value of an unknown size.
const UNKNOWN: u64 = u64::MAX;

/// The progress of one copy. The copy writes it, and any number of readers look at it.
#[derive(Debug)]
pub struct TransferProgress {
    begun: Instant,
    /// Microseconds from the start to the first byte; `UNKNOWN` before.
    first_byte: AtomicU64,
    position: AtomicU64,
    written: AtomicU64,
    moved: AtomicU64,
    size: AtomicU64,
    attempts: AtomicU32,
    /// Connections to each address of the other side.
    remotes: Mutex<BTreeMap<SocketAddr, u32>>,
    /// Addresses to which there were connections.
    seen: Mutex<BTreeSet<SocketAddr>>,
}

/// Addresses of the other side that are remembered for the record.
pub(crate) const SEEN_MAX: usize = 16;

impl Default for TransferProgress {
    fn default() -> Self {
        Self::new()
    }
}

impl TransferProgress {
    /// A copy that begins now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            first_byte: AtomicU64::new(UNKNOWN),
            position: AtomicU64::new(0),
            written: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            size: AtomicU64::new(UNKNOWN),
            attempts: AtomicU32::new(0),
            remotes: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// Bytes of the file that have been copied, for `Stripe Bytes Transferred`. It never falls: a copy that
    /// begins again from zero shows the earlier number until it has passed it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.position.load(Relaxed)
    }

    /// All bytes that moved, also those of attempts that failed.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// Bytes of the file that the present attempt has, which is fewer again after it began from zero.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// The size of the file, if it is known.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        Some(self.size.load(Relaxed)).filter(|size| *size != UNKNOWN)
    }

    /// How often the data was asked for or sent so far.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts.load(Relaxed)
    }

    /// Time since the copy began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Time from the start to the first byte, if one has moved.
    #[must_use]
    pub fn first_byte(&self) -> Option<Duration> {
        let micros = self.first_byte.load(Relaxed);
        (micros != UNKNOWN).then(|| Duration::from_micros(micros))
    }

    /// The addresses of the other side to which connections are open, for `RemoteConnections`; each once.
    #[must_use]
    pub fn remotes(&self) -> Vec<SocketAddr> {
        self.remotes.lock().keys().copied().collect()
    }

    /// The addresses of the other side to which connections were made, at most [`SEEN_MAX`].
    pub(crate) fn seen(&self) -> Vec<SocketAddr> {
        self.seen.lock().iter().copied().collect()
    }

    /// The size of the file, as soon as it is known.
    pub fn set_size(&self, size: u64) {
        self.size.store(size, Relaxed);
    }

    /// Counts another attempt, and returns its number.
    pub fn count_attempt(&self) -> u32 {
        self.attempts.fetch_add(1, Relaxed) + 1
    }

    /// `bytes` more moved, and the file is complete up to `position`.
    pub fn count(&self, bytes: u64, position: u64) {
        self.moved.fetch_add(bytes, Relaxed);
        self.position.fetch_max(position, Relaxed);
        if position > 0 {
            self.written.store(position, Relaxed);
        }
        if bytes > 0 && self.first_byte.load(Relaxed) == UNKNOWN {
            let micros = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(0);
            self.first_byte.store(micros, Relaxed);
        }
    }

    /// Shows an address as connected until the result is dropped.
    pub(crate) fn connected(self: &Arc<Self>, address: SocketAddr) -> ConnectedRemote {
        *self.remotes.lock().entry(address).or_default() += 1;
        let mut seen = self.seen.lock();
        if seen.len() < SEEN_MAX {
            seen.insert(address);
        }
        ConnectedRemote {
            progress: Arc::clone(self),
            address,
        }
    }
}

/// A connection that [`TransferProgress::remotes`] shows.
pub(crate) struct ConnectedRemote {
    progress: Arc<TransferProgress>,
    address: SocketAddr,
}

impl Drop for ConnectedRemote {
    fn drop(&mut self) {
        let mut remotes = self.progress.remotes.lock();
        if let Some(count) = remotes.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                remotes.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn progress_only_grows() {
        let progress = Arc::new(TransferProgress::new());
        assert_eq!((progress.size(), progress.first_byte()), (None, None));
        tokio::time::advance(Duration::from_secs(2)).await;
        progress.count(10, 10);
        tokio::time::advance(Duration::from_secs(2)).await;
        // Again from zero.
        progress.count(4, 4);
        progress.set_size(0);
        assert_eq!((progress.bytes(), progress.moved()), (10, 14));
        assert_eq!(progress.written(), 4);
        assert_eq!(progress.size(), Some(0));
        assert_eq!(progress.first_byte(), Some(Duration::from_secs(2)));
        assert_eq!(progress.elapsed(), Duration::from_secs(4));
    }

    #[test]
    fn an_address_is_shown_while_one_connection_is_open() {
        let progress = Arc::new(TransferProgress::new());
        let address = SocketAddr::from(([127, 0, 0, 1], 1094));
        let first = progress.connected(address);
        let second = progress.connected(address);
        drop(first);
        assert_eq!(progress.remotes(), [address]);
        drop(second);
        assert!(progress.remotes().is_empty());
        // The record has it.
        assert_eq!(progress.seen(), [address]);
    }
}
