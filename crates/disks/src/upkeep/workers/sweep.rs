//! Removal of shard files that nothing names.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::blob::BlobStatus;
use crate::pool::Member;
use dewar_env::worker::{PauseGate, WorkOutcome, Worker};
use dewar_env::{Disk, DiskState};
use dewar_types::{BlobId, DiskId, Result};

use crate::disks::SharedDisks;

/// When a disk is swept again on which blobs were being written.
const SWEEP_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Sweeps each disk once after it was found, and again whenever it returns from an absence.
///
/// It does not run until it is decided what happens with blobs that a rebuilt catalog does not
/// name. That is decided while the store is not served.
pub(super) struct SweepWorker {
    disks: SharedDisks,
    /// The first blob id that this opening assigns.
    first_new: BlobId,
    /// The catalog was rebuilt, and it was not decided yet what happens with the blobs that it does
    /// not name.
    undecided: bool,
    /// The ranges of ids that an accepted loss took, once they are known.
    lost: Option<Vec<(u64, u64)>>,
    /// The disks that were swept, with the state that they had.
    swept: BTreeMap<DiskId, (Arc<dyn Disk>, DiskState)>,
    /// When disks are swept again.
    again: BTreeMap<DiskId, Duration>,
}

impl Worker for SweepWorker {
    const NAME: &'static str = "sweep";
    const LOOK_EVERY: Duration = Duration::from_secs(5);

    async fn work(&mut self, gate: &PauseGate) -> Result<WorkOutcome> {
        let lost = match self.lost.take() {
            Some(lost) => lost,
            None => {
                self.undecided = self.undecided || self.disks.rebuilt().await?.is_some();
                if self.undecided {
                    return Ok(WorkOutcome::Idle);
                }
                self.disks.catalog.ids().lost_ranges().await?
            }
        };
        for member in self.disks.blobs.pool().members() {
            gate.pass().await;
            if self.is_due(&member) {
                self.sweep(member, &lost).await;
            }
        }
        self.lost = Some(lost);
        Ok(WorkOutcome::Idle)
    }
}

impl SweepWorker {
    pub(super) const fn new(disks: SharedDisks, first_new: BlobId) -> Self {
        Self {
            disks,
            first_new,
            undecided: false,
            lost: None,
            swept: BTreeMap::new(),
            again: BTreeMap::new(),
        }
    }

    fn is_due(&mut self, member: &Member) -> bool {
        let disks = &self.disks;
        let state = member.disk.state();
        if !disks.upkeep.may_sweep(member.id) {
            return false;
        }
        let left = disks.blobs.has_leftovers(member.id) && !self.again.contains_key(&member.id);
        if disks.upkeep.sweeps_again(member.id) || left {
            self.swept.remove(&member.id);
        }
        let done = self
            .swept
            .get(&member.id)
            .is_some_and(|(disk, swept)| Arc::ptr_eq(disk, &member.disk) && *swept == state);
        let due = self.again.get(&member.id);
        let due = due.is_some_and(|due| *due <= disks.env.clock.elapsed());
        state.writable() && (!done || due)
    }

    async fn sweep(&mut self, member: Member, lost: &[(u64, u64)]) {
        let disks = &self.disks;
        let state = member.disk.state();
        self.again.remove(&member.id);
        let look_up = async |blob| known(disks, lost, blob).await;
        let needed = |blob| disks.table.is_needed(blob);
        let claim = |blob| disks.upkeep.begin(blob).filter(|_| !needed(blob));
        let swept = disks.blobs.sweep(&member, self.first_new, claim, look_up);
        match swept.await {
            Ok(found) => {
                if found.removed > 0 {
                    dewar_env::coverage_mark("leftovers were swept");
                    let disk = member.disk.label();
                    tracing::info!(disk, removed = found.removed, "leftovers removed");
                }
                // What was being written, sealed or repaired may have left something too.
                if found.busy > 0 {
                    let again = disks.env.clock.elapsed() + SWEEP_AGAIN_AFTER;
                    self.again.insert(member.id, again);
                }
                self.swept.insert(member.id, (member.disk, state));
            }
            Err(error) => {
                tracing::debug!(disk = member.disk.label(), %error, "sweep cut short");
            }
        }
    }
}

/// The rule of a sweep for a blob's files.
async fn known(disks: &SharedDisks, lost: &[(u64, u64)], blob: BlobId) -> Result<BlobStatus> {
    // In this order: a segment leaves the memory only once its record is visible.
    if disks.segments.is_unsealed(blob) {
        return Ok(BlobStatus::Busy);
    }
    Ok(match disks.table.named(blob).await? {
        Some(record) => BlobStatus::Named(record),
        // A loss that was accepted took its record: it can be salvaged by what its header says.
        None if lost
            .iter()
            .any(|(from, to)| (*from..*to).contains(&blob.counter())) =>
        {
            BlobStatus::Kept
        }
        None => BlobStatus::Unnamed,
    })
}
