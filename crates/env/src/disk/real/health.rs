//! The state of a disk, made of several causes.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::DiskState;

/// See [`DiskState`] for the states; what is worst wins.
pub(super) struct Health {
    causes: Mutex<Causes>,
    state: watch::Sender<DiskState>,
    /// A copy of the state that one load reads: the kind in the three low bits, the returns above.
    packed: AtomicU64,
}

#[derive(Default)]
struct Causes {
    missing: bool,
    poisoned: bool,
    read_only: bool,
    /// Threads stuck in an operation past its deadline.
    stuck: usize,
    returns: u32,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            causes: Mutex::default(),
            state: watch::Sender::new(DiskState::Online { returns: 0 }),
            packed: AtomicU64::new(0),
        }
    }
}

impl Health {
    pub(super) fn state(&self) -> DiskState {
        let packed = self.packed.load(Ordering::Acquire);
        let returns = u32::try_from(packed >> 3).unwrap_or(u32::MAX);
        match packed & 7 {
            0 => DiskState::Online { returns },
            4 => DiskState::ReadOnly { returns },
            1 => DiskState::Missing,
            2 => DiskState::Hung,
            _ => DiskState::Poisoned,
        }
    }

    pub(super) fn watch(&self) -> watch::Receiver<DiskState> {
        self.state.subscribe()
    }

    pub(super) fn set_missing(&self, missing: bool) {
        self.change(|causes| causes.missing = missing);
    }

    pub(super) fn is_missing(&self) -> bool {
        self.causes.lock().missing
    }

    /// Whether that is news.
    pub(super) fn set_read_only(&self, read_only: bool) -> bool {
        let mut news = false;
        self.change(|causes| {
            news = causes.read_only != read_only;
            causes.read_only = read_only;
        });
        news
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.causes.lock().read_only
    }

    /// Until the process ends.
    pub(super) fn poison(&self) {
        self.change(|causes| causes.poisoned = true);
    }

    pub(super) fn stuck(&self, threads: usize) {
        self.change(|causes| causes.stuck += threads);
    }

    pub(super) fn unstuck(&self, threads: usize) {
        self.change(|causes| causes.stuck = causes.stuck.saturating_sub(threads));
    }

    fn change(&self, f: impl FnOnce(&mut Causes)) {
        let mut causes = self.causes.lock();
        let away = |c: &Causes| c.missing || c.stuck > 0;
        let was_away = away(&causes);
        f(&mut causes);
        if was_away && !away(&causes) {
            causes.returns += 1;
        }
        let (state, low) = if causes.missing {
            (DiskState::Missing, 1)
        } else if causes.stuck > 0 {
            (DiskState::Hung, 2)
        } else if causes.poisoned {
            (DiskState::Poisoned, 3)
        } else if causes.read_only {
            let returns = causes.returns;
            (DiskState::ReadOnly { returns }, 4)
        } else {
            let returns = causes.returns;
            (DiskState::Online { returns }, 0)
        };
        self.packed
            .store(u64::from(causes.returns) << 3 | low, Ordering::Release);
        // Under the lock, so that states are published in the order in which they came.
        self.state.send_if_modified(|old| {
            let changed = *old != state;
            *old = state;
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_cause_wins_and_returns_count() {
        let health = Health::default();
        health.stuck(2);
        health.unstuck(1);
        assert_eq!(health.state(), DiskState::Hung);
        health.set_missing(true);
        assert_eq!(health.state(), DiskState::Missing);
        health.unstuck(1);
        health.set_missing(false);
        assert_eq!(health.state(), DiskState::Online { returns: 1 });
        health.set_missing(false);
        assert_eq!(*health.watch().borrow(), DiskState::Online { returns: 1 });
        assert!(health.set_read_only(true) && !health.set_read_only(true));
        assert_eq!(health.state(), DiskState::ReadOnly { returns: 1 });
        health.set_missing(true);
        health.set_missing(false);
        assert_eq!(health.state(), DiskState::ReadOnly { returns: 2 });
        assert!(health.set_read_only(false));
        assert_eq!(health.state(), DiskState::Online { returns: 2 });
        health.set_read_only(true);
        health.poison();
        health.set_missing(true);
        health.set_missing(false);
        assert_eq!(health.state(), DiskState::Poisoned);
    }
}
