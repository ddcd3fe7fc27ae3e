//! Upkeep: background work that keeps the promised redundancy of stored data.
//!
//! - **Scrub** reads every shard from its medium, disk by disk, and records those that do not
//!   verify.
//! - **Suspects** are shards that a read found bad and could not decode around. They are recorded
//!   likewise.
//! - **Presence** notices when the folder of shards of a disk was removed or replaced.
//! - **Tokens** detect a disk that was replaced by an old copy of itself.
//! - **Repair** writes shards again, in place or on another disk, and encodes blobs anew if their
//!   layout does not fit the online disks. Blobs that survive the fewest further failures come
//!   first.
//! - **The ledger** counts how much data survives how many failures. It uses the records and the
//!   times of verification, never an empty queue.
//!
//! The truth is the catalog: the records have the places of shards, the repair queue has the known
//! bad ones, and `D` keys have the decisions about disks and the position of each scrub. Nothing
//! here keeps a list in memory that grows with what is stored.
//!
//! # Crashes
//! New shards are durable before a record names them, and old files go after it (invariant I1). An
//! interrupted repair leaves files that the sweep collects; the queue still names the blob.

mod bad_shards;
mod blob_index;
mod corruption;
mod decisions;
mod disk_tasks;
mod gc_queue;
mod ledger;
mod margins;
mod presence;
mod readmit;
mod redundancy;
mod repair;
mod scrub;
mod stale_disk;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::blob::BlobRecord;
use crate::pace::{ClientLoad, Pace};
use dewar_types::{BlobId, DiskId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use corruption::CorruptionStats;
pub use decisions::{Decision, DiskLine, RemovalLoss};
pub use ledger::{Ledger, LedgerLine, ObjectAtRisk, PendingFree};
pub use margins::Margins;
pub use readmit::Holdings;
pub use repair::RepairStatus;
pub use scrub::{ScrubPass, ScrubStatus};

pub use blob_index::{Encoding, EncodingPage, RecordLocation};

/// How upkeep is done.
#[derive(Clone, Debug)]
pub struct UpkeepConfig {
    /// Bytes that repair may read and write per second while clients are served; 0 is no limit.
    pub repair_busy: u64,
    /// The same while none are.
    pub repair_idle: u64,
    /// Bytes that the scrub of one disk may read per second while clients are served.
    pub scrub_busy: u64,
    /// The same while none are.
    pub scrub_idle: u64,
    /// How often each disk is read as a whole.
    pub scrub_every: Duration,
    /// How long a disk may be away before its shards are rebuilt on others.
    pub out_after: Duration,
    /// Encodings below full redundancy that a ledger holds in memory. Beyond, their records are
    /// read again.
    pub margins_max: usize,
}

impl Default for UpkeepConfig {
    fn default() -> Self {
        Self {
            repair_busy: 64 << 20,
            repair_idle: 512 << 20,
            scrub_busy: 16 << 20,
            scrub_idle: 64 << 20,
            scrub_every: Duration::from_secs(14 * 24 * 3600),
            out_after: Duration::from_secs(600),
            margins_max: 1 << 20,
        }
    }
}

/// State of upkeep that the catalog need not have.
pub(crate) struct Upkeep {
    config: UpkeepConfig,
    demand: Arc<ClientLoad>,
    pub(crate) repair_pace: Pace,
    /// Something may have to be repaired.
    cue: Notify,
    /// Whether all records must be read, not only the queue.
    survey_due: AtomicBool,
    /// Blobs whose files are being written or removed: only one task may work on each.
    working: Mutex<BTreeSet<BlobId>>,
    decisions: Mutex<decisions::Decisions>,
    /// Disks to be swept again although nothing about them changed.
    to_sweep: Mutex<BTreeSet<DiskId>>,
    /// Disks to be emptied on which the last pass over all records found nothing.
    emptied: Mutex<BTreeSet<DiskId>>,
    away_since: Mutex<BTreeMap<DiskId, Instant>>,
    /// The state of the folders of shards.
    presence: Mutex<BTreeMap<DiskId, presence::Presence>>,
    /// The state of the tokens of disks.
    tokens: Mutex<stale_disk::Tokens>,
    /// Held while disks are compared, or while a doubt is ended: one at a time.
    comparing: tokio::sync::Mutex<()>,
    /// Disks in doubt, with the shards that have not been read since.
    unverified: Mutex<BTreeMap<DiskId, stale_disk::UnverifiedBlobs>>,
    repair: Mutex<RepairStatus>,
    told: Mutex<repair::RepairLog>,
    scrubs: Mutex<BTreeMap<DiskId, ScrubStatus>>,
    /// Shards found bad since the start.
    rot: Mutex<BTreeMap<DiskId, u64>>,
    /// Shards that no record names any more, and that readers may still use.
    leftovers: Mutex<Vec<ReplacedFiles>>,
}

/// Files of an encoding that has been replaced.
#[derive(Debug)]
struct ReplacedFiles {
    record: BlobRecord,
    shards: Vec<usize>,
    since: Instant,
}

/// Takes a blob's mark off when a repair ends, however it ends.
pub(crate) struct RepairGuard<'a> {
    upkeep: &'a Upkeep,
    blob: BlobId,
}

impl Upkeep {
    pub(crate) fn new(config: UpkeepConfig) -> Self {
        let demand = Arc::new(ClientLoad::default());
        Self {
            repair_pace: Pace::new(Arc::clone(&demand), config.repair_busy, config.repair_idle),
            demand,
            cue: Notify::new(),
            survey_due: AtomicBool::new(true),
            working: Mutex::default(),
            decisions: Mutex::default(),
            to_sweep: Mutex::default(),
            emptied: Mutex::default(),
            away_since: Mutex::default(),
            presence: Mutex::default(),
            tokens: Mutex::default(),
            comparing: tokio::sync::Mutex::default(),
            unverified: Mutex::default(),
            repair: Mutex::default(),
            told: Mutex::default(),
            scrubs: Mutex::default(),
            rot: Mutex::default(),
            leftovers: Mutex::default(),
            config,
        }
    }

    /// A client asked for something.
    pub(crate) fn note_demand(&self) {
        self.demand.note();
    }

    /// `None` when it is being worked on already.
    pub(crate) fn begin(&self, blob: BlobId) -> Option<RepairGuard<'_>> {
        let new = self.working.lock().insert(blob) || !dewar_env::safeguard("one hand on a blob");
        // Not made where it is refused: its end would give back what somebody else holds.
        new.then(|| RepairGuard { upkeep: self, blob })
    }

    /// Reports that disks or decisions have changed, so that all records are read again.
    pub(crate) fn wake(&self) {
        self.survey_due.store(true, Ordering::Relaxed);
        self.cue.notify_one();
    }

    /// Whether files of a disk may be swept: not before its content has been searched.
    pub(crate) fn may_sweep(&self, disk: DiskId) -> bool {
        !self.decisions.lock().returned.contains(&disk)
    }

    /// Whether a disk is to be swept again; returned once.
    pub(crate) fn sweeps_again(&self, disk: DiskId) -> bool {
        self.to_sweep.lock().remove(&disk)
    }

    /// Something was queued.
    pub(crate) fn queued(&self) {
        self.cue.notify_one();
    }
}

impl Drop for RepairGuard<'_> {
    fn drop(&mut self) {
        self.upkeep.working.lock().remove(&self.blob);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_claim_leaves_the_other_alone() {
        let upkeep = Upkeep::new(UpkeepConfig::default());
        let held = upkeep.begin(BlobId(1));
        assert!(held.is_some());
        for _ in 0..3 {
            assert!(upkeep.begin(BlobId(1)).is_none());
        }
        drop(held);
        assert!(upkeep.begin(BlobId(1)).is_some());
    }
}
