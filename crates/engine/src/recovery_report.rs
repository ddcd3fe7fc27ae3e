//! The reports of a rebuild or a restore: the state that was found, the possible way, the result.

use dewar_disks::RebuildMarker;
use dewar_kv::index::sorted_runs::LostKeyRange;
use dewar_types::{Result, Timestamp};

use crate::salvage::{Finding, FindingReporter, SalvageReport};

/// The state of the journal, as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalCondition {
    /// It opens by its rule: everything acknowledged is in it or in the index.
    Whole {
        /// The records after this one.
        floor: u64,
        /// The last one.
        end: u64,
    },
    /// It opens when a loss is accepted.
    Part {
        /// The records after this one.
        floor: u64,
        /// The last one that is there.
        end: u64,
        /// Why it does not open by its rule.
        why: String,
    },
    /// There is none.
    None {
        /// The problem.
        why: String,
    },
}

/// The state of the index, as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexCondition {
    /// The last batch in it.
    pub applied: u64,
    /// Its entries, in all runs.
    pub entries: u64,
    /// Bytes of one copy.
    pub bytes: u64,
    /// Disks that have all of it.
    pub copies: usize,
    /// Pieces that are damaged in some copy. The value is meaningful only when everything was read.
    pub bad_pieces: u64,
    /// Keys of which no copy verifies.
    pub lost: Vec<LostKeyRange>,
}

/// How the catalog can be made whole again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebuildMethod {
    /// Exactly.
    Exact {
        /// The last batch.
        upto: u64,
    },
    /// From the index and the available journal.
    Journal {
        /// The last batch that is known.
        upto: u64,
    },
    /// The index alone.
    Index {
        /// The last batch that is known.
        upto: u64,
    },
    /// From the blobs alone.
    Blobs,
}

impl RebuildMethod {
    /// Whether nothing is lost.
    #[must_use]
    pub fn is_exact(self) -> bool {
        matches!(self, Self::Exact { .. })
    }
}

/// The state of a catalog on its disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// Disks of this deployment that are there.
    pub disks: usize,
    /// The journal.
    pub journal: JournalCondition,
    /// The newest state of the index that can be opened.
    pub index: Option<IndexCondition>,
    /// The origin of the catalog, if it is the result of an unfinished rebuild or restore.
    pub rebuilt: Option<RebuildMarker>,
    /// The possible way of a rebuild.
    pub way: RebuildMethod,
}

/// The report of a rebuild or a restore.
#[derive(Clone, Copy, Debug)]
pub enum RebuildOutcome<'a> {
    /// Of a rebuild.
    Rebuild(&'a RebuildReport),
    /// Of a restore.
    Restore(&'a RestoreReport),
}

/// Receives the progress of a rebuild or a restore, so that no finding is lost when it is
/// interrupted.
pub trait ProgressReporter: FindingReporter {
    /// A catalog is about to be made. Nothing was changed or salvaged yet. It is not called if an
    /// interrupted attempt is continued.
    ///
    /// # Errors
    /// Then nothing is changed.
    fn begins(&mut self, _: RebuildOutcome<'_>) -> Result<()> {
        Ok(())
    }

    /// All is done except for the last record. Until this returns, the same command continues the
    /// attempt.
    ///
    /// # Errors
    /// Then the last record is not written.
    fn ends(&mut self, _: RebuildOutcome<'_>) -> Result<()> {
        Ok(())
    }
}

impl<F: FnMut(&Finding) + Send + Sync> ProgressReporter for F {}

/// The result of a rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuildReport {
    /// The state before.
    pub diagnosis: Diagnosis,
    /// Pieces of the index that a copy had wrong and that were mended.
    pub mended: u64,
    /// Entries of the index afterwards.
    pub entries: u64,
    /// The result of the search through the blobs; `None` if they were not searched, because
    /// nothing could be put back.
    pub salvaged: Option<SalvageReport>,
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreReport {
    /// The backup.
    pub name: String,
    /// When its catalog was as it says.
    pub taken: Timestamp,
    /// The last batch in it.
    pub upto: u64,
    /// Entries of its index.
    pub entries: u64,
    /// Bytes of its index.
    pub bytes: u64,
    /// The part that the journal adds to it; `None` when it does not continue the backup, or is
    /// given up.
    pub followed: Option<JournalTail>,
    /// Id of the key that its secrets are wrapped with.
    pub master_key: String,
    /// The state of the catalog on the disks before.
    pub diagnosis: Diagnosis,
    /// Whether an interrupted attempt was continued, or blobs were put back that an earlier restore
    /// of the same backup left unnamed.
    pub gone_on: bool,
    /// The result of the search through the blobs; `None` when nothing was changed.
    pub salvaged: Option<SalvageReport>,
}

/// Batches that a journal has beyond a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalTail {
    /// The last one.
    pub upto: u64,
    /// When the last change in them was made; `None` when there are none.
    pub until: Option<Timestamp>,
    /// The journal is complete: everything acknowledged is in the backup or in the journal.
    pub exact: bool,
}
