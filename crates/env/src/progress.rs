//! Counts of long work: the work increases them, and other tasks read them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How far long work is, in units that the work chooses.
#[derive(Debug, Default)]
pub struct WorkProgress {
    done: AtomicU64,
    total: AtomicU64,
    errors: AtomicU64,
}

impl WorkProgress {
    /// Adds units that are done.
    pub fn add_done(&self, units: u64) {
        self.done.fetch_add(units, Relaxed);
    }

    /// Adds something that failed or was found bad.
    pub fn add_error(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    /// Sets the number of units of the whole work.
    pub fn set_total(&self, units: u64) {
        self.total.store(units, Relaxed);
    }

    /// The units that are done.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// The units of the whole work; `None` while they are not known.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        Some(self.total.load(Relaxed)).filter(|total| *total > 0)
    }

    /// How much failed or was found bad.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Relaxed)
    }
}
