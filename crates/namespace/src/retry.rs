//! Retries of changes that lost a race.
//!
//! The first attempt of a change is optimistic. After a lost race, the change takes the lock of the
//! contended name and tries again while it holds the lock. Many changes of one name therefore form
//! a queue. New changes may still come in between, so the number of attempts is bounded and the
//! pauses between them grow.

use std::sync::Arc;
use std::time::Duration;

use dewar_types::{Error, ErrorKind};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::Tree;

/// Attempts before a change gives up with [`ErrorKind::Conflict`].
const ATTEMPTS: u32 = 64;
/// Retries that come at once: what was collided with is already visible.
const AT_ONCE: u32 = 3;
/// Pause after that, doubled with each attempt up to [`PAUSE_MAX`]; a random part of it is slept.
const PAUSE: Duration = Duration::from_micros(200);
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// Locks for contended names; names share them by hash.
const LOCKS: usize = 256;

/// Locks that only losers take.
pub(super) struct ContentionLocks {
    locks: Vec<Arc<Mutex<()>>>,
}

impl ContentionLocks {
    pub(super) fn new() -> Self {
        Self {
            locks: (0..LOCKS).map(|_| Arc::default()).collect(),
        }
    }

    fn lock_of(&self, key: &str) -> Arc<Mutex<()>> {
        // FNV-1a: the same in every run, as the simulation needs it.
        let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Arc::clone(&self.locks[(hash % LOCKS as u64) as usize])
    }
}

/// The attempts of one change.
pub(super) struct ConflictRetry<'t> {
    tree: &'t Tree,
    path: String,
    lost: u32,
    queues: bool,
    queue: Option<OwnedMutexGuard<()>>,
}

impl<'t> ConflictRetry<'t> {
    /// For a change of `path`.
    pub(super) fn new(tree: &'t Tree, path: String) -> Self {
        Self {
            tree,
            path,
            lost: 0,
            queues: true,
            queue: None,
        }
    }

    /// For a change that makes other changes with turns of their own meanwhile: it must not hold a
    /// lock, which one of those may want.
    pub(super) fn around(tree: &'t Tree, path: String) -> Self {
        Self {
            queues: false,
            ..Self::new(tree, path)
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// An attempt lost; returns when the next may begin.
    pub(super) async fn lost(&mut self) -> Result<(), Error> {
        self.lost += 1;
        if self.lost >= ATTEMPTS {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("{} is being changed by too many others", self.path),
            ));
        }
        if self.queues && self.queue.is_none() {
            let lock = self.tree.contended.lock_of(&self.path);
            self.queue = Some(lock.lock_owned().await);
        }
        if self.lost > AT_ONCE {
            let doubled = PAUSE.saturating_mul(1 << (self.lost - AT_ONCE).min(10));
            let limit = doubled.min(PAUSE_MAX).as_nanos() as u64;
            let pause = self.tree.catalog.env().rng.u64() % limit.max(1);
            tokio::time::sleep(Duration::from_nanos(pause)).await;
        }
        Ok(())
    }
}
