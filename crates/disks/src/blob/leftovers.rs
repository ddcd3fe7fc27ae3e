//! Shard files that could not be removed, because their disk was absent when their writer gave them
//! up, or when their blob was taken back.
//!
//! A sweep of a disk leaves new blobs alone, since they may still have a writer. Without this list,
//! files that were given up would stay until the server restarts.

use std::collections::{BTreeMap, BTreeSet};

use dewar_types::DiskId;
use parking_lot::Mutex;

/// So many are remembered for a disk; what is beyond waits for the next process.
const PATHS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Leftovers(Mutex<BTreeMap<DiskId, BTreeSet<String>>>);

impl Leftovers {
    /// A file that its writer gave up stayed on a disk, or may have.
    pub(crate) fn add(&self, disk: DiskId, path: String) {
        let mut disks = self.0.lock();
        let paths = disks.entry(disk).or_default();
        if paths.len() < PATHS_MAX {
            paths.insert(path);
        }
    }

    /// Those of a disk. What is still there when they were seen to is added again.
    pub(crate) fn take(&self, disk: DiskId) -> BTreeSet<String> {
        self.0.lock().remove(&disk).unwrap_or_default()
    }

    /// Whether there are any on a disk.
    pub(crate) fn any(&self, disk: DiskId) -> bool {
        self.0.lock().contains_key(&disk)
    }
}
