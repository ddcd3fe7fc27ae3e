//! Faults of a simulated disk.

use std::time::Duration;

use crate::DiskErrorKind;
use crate::sim::SimRng;

/// The kind of an operation, for faults and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SimOp {
    /// Reading from a file, listing, opening.
    Read,
    /// A write that is durable later.
    Write,
    /// A write that is durable when it returns.
    WriteDurable,
    /// Syncing a file.
    Sync,
    /// Making a file.
    Create,
    /// Removing a file.
    Remove,
    /// Renaming a file.
    Rename,
    /// Syncing a folder.
    SyncDir,
}

impl SimOp {
    /// Whether it changes the medium; these are counted by [`super::SimWorld::ops`].
    #[must_use]
    pub const fn mutates(self) -> bool {
        !matches!(self, Self::Read)
    }

    pub(super) const fn syncs(self) -> bool {
        matches!(self, Self::WriteDurable | Self::Sync | Self::SyncDir)
    }
}

/// Duration of operations: random between the two bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimLatency {
    /// Reads.
    pub read: (Duration, Duration),
    /// Writes and changes of names.
    pub write: (Duration, Duration),
    /// Syncs and durable writes.
    pub sync: (Duration, Duration),
}

impl SimLatency {
    pub(super) fn of(&self, op: SimOp, rng: &SimRng) -> Duration {
        let (min, max) = match op {
            SimOp::Read => self.read,
            op if op.syncs() => self.sync,
            _ => self.write,
        };
        let spread = u64::try_from(max.saturating_sub(min).as_nanos()).unwrap_or(u64::MAX);
        if spread == 0 {
            return min;
        }
        min + Duration::from_nanos(rng.below(spread))
    }
}

/// How often operations go wrong, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimFaults {
    /// A read fails with an I/O error.
    pub read_error: u32,
    /// A write fails with an I/O error, done or not.
    pub write_error: u32,
    /// A sync fails, which poisons the disk.
    pub sync_error: u32,
    /// A write is reported as done and is not.
    pub lost_write: u32,
    /// A write is reported as done but goes to another position or file.
    pub misdirected_write: u32,
    /// A bit of a write is stored wrong.
    pub flip_on_write: u32,
    /// A bit of a read is returned wrong, this once.
    pub flip_on_read: u32,
}

/// How an operation is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpStage {
    Whole,
    /// Begun, not finished: nothing of it is durable.
    Cut,
    Lost,
    Misdirected,
    Flipped,
}

impl SimFaults {
    /// What chance does to an operation that was not otherwise stopped.
    pub(super) fn strike(&self, op: SimOp, rng: &SimRng) -> Result<OpStage, DiskErrorKind> {
        let error = match op {
            SimOp::Read => self.read_error,
            SimOp::Sync | SimOp::SyncDir => self.sync_error,
            _ => self.write_error,
        };
        if rng.chance(error) {
            return Err(DiskErrorKind::Io);
        }
        Ok(match op {
            SimOp::Read if rng.chance(self.flip_on_read) => OpStage::Flipped,
            SimOp::Write | SimOp::WriteDurable if rng.chance(self.lost_write) => OpStage::Lost,
            SimOp::Write | SimOp::WriteDurable if rng.chance(self.misdirected_write) => {
                OpStage::Misdirected
            }
            SimOp::Write | SimOp::WriteDurable if rng.chance(self.flip_on_write) => {
                OpStage::Flipped
            }
            _ => OpStage::Whole,
        })
    }
}

/// Whether a sync is carried out: a simulation may leave one kind of them out.
pub(super) fn syncs(op: SimOp, path: &str) -> bool {
    let name = match (op, path.split_once('/').map_or(path, |(top, _)| top)) {
        (SimOp::SyncDir, "blobs") => "sync of the folders of shards",
        (_, "blobs") => "sync of shards",
        (SimOp::SyncDir, "index") => "sync of the folder of the index",
        (_, "index") => "sync of runs and manifests",
        (SimOp::SyncDir, "journal") => "sync of the folder of the journal",
        (SimOp::WriteDurable, "journal") => "durable writes of the journal",
        (_, "journal") => "sync of epoch files",
        (SimOp::SyncDir, "") => "sync of the folder of the identity",
        _ => return true,
    };
    crate::safeguard(name)
}

/// Counters of a disk since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimCounters {
    /// Reads that were queued.
    pub reads: u64,
    /// Reads answered on the calling thread.
    pub reads_now: u64,
    /// Writes that are durable later.
    pub writes: u64,
    /// Durable writes.
    pub durable_writes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of folders.
    pub dir_syncs: u64,
    /// Files made, removed and renamed.
    pub name_changes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Bytes read.
    pub bytes_read: u64,
}

impl SimCounters {
    pub(super) fn count(&mut self, op: SimOp) {
        match op {
            SimOp::Read => self.reads += 1,
            SimOp::Write => self.writes += 1,
            SimOp::WriteDurable => self.durable_writes += 1,
            SimOp::Sync => self.syncs += 1,
            SimOp::SyncDir => self.dir_syncs += 1,
            SimOp::Create | SimOp::Remove | SimOp::Rename => self.name_changes += 1,
        }
    }
}
