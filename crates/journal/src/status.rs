//! The status of a journal.

use dewar_types::DiskId;

use crate::log::{Counters, LogPhase, SharedLog};
use crate::{EpochId, Seq};

/// Whether a journal takes records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalState {
    /// It does.
    Running,
    /// A new epoch is being started; appends wait.
    Changing,
    /// Too few members can be written; why.
    Stalled(String),
    /// It was opened for reading.
    ReadOnly,
    /// It was closed.
    Closed,
}

/// The journal's own ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Whether it takes records.
    pub state: JournalState,
    /// The epoch.
    pub epoch: EpochId,
    /// Its number.
    pub epoch_number: u64,
    /// All disks that take part.
    pub members: Vec<DiskId>,
    /// Those that hold the journal.
    pub holders: Vec<DiskId>,
    /// Disks that never take part again.
    pub removed: Vec<DiskId>,
    /// Its lineage: a new one begins when a loss is accepted.
    pub lineage: EpochId,
    /// How often a loss was accepted.
    pub losses_accepted: usize,
    /// Number of disks that may be lost now without losing a record that is still needed. Less than
    /// m while a new holder does not have the older files yet. Negative when needed records may be
    /// on too few disks to be recovered.
    pub margin: i32,
    /// The margin that the configuration asks for: m.
    pub margin_wanted: u32,
    /// Older files still to be copied to new holders.
    pub files_to_copy: usize,
    /// The last appended record.
    pub last: Seq,
    /// The last durable record.
    pub durable: Seq,
    /// No record up to this one is needed any more.
    pub floor: Seq,
    /// Name of each hold, and the sequence number after which it needs the records.
    pub holds: Vec<(String, Seq)>,
    /// Files in use, on each holder.
    pub files: usize,
    /// At most so many.
    pub files_max: usize,
    /// Too many holders have no space for a further file; holds should be released.
    pub cramped: bool,
    /// Bytes appended and not yet durable.
    pub unacked_bytes: usize,
    /// Counters since the journal was opened.
    pub counters: Counters,
}

impl SharedLog {
    pub(crate) fn status(&self) -> Status {
        let state = self.state.lock();
        let journal_state = match &state.phase {
            LogPhase::Running => JournalState::Running,
            LogPhase::Opening | LogPhase::Changing => JournalState::Changing,
            LogPhase::Stalled { why } | LogPhase::Failed { why } => {
                JournalState::Stalled(why.clone())
            }
            LogPhase::ReadOnly => JournalState::ReadOnly,
            LogPhase::Closed => JournalState::Closed,
        };
        let living = state.lanes.iter().filter(|lane| lane.failure().is_none());
        let complete = living.filter(|lane| lane.missing_count() == 0).count();
        Status {
            state: journal_state,
            epoch: state.epoch.id,
            epoch_number: state.epoch.number,
            members: state.epoch.members.clone(),
            holders: state.lanes.iter().map(|lane| lane.id).collect(),
            removed: {
                let mut removed = state.epoch.removed.clone();
                removed.extend(&state.given_up);
                removed
            },
            lineage: state.epoch.lineage,
            losses_accepted: state.epoch.former.len(),
            margin: i32::try_from(complete).unwrap_or(i32::MAX) - 1,
            margin_wanted: u32::try_from(self.config.m).unwrap_or(u32::MAX),
            files_to_copy: state.lanes.iter().map(|lane| lane.missing_count()).sum(),
            last: state.last(),
            durable: self.acked(),
            floor: state.floor(),
            holds: state.holds.values().cloned().collect(),
            files: state.files.len(),
            files_max: self.config.files_max,
            cramped: state.is_cramped(),
            unacked_bytes: state.unacked_bytes(),
            counters: state.counters,
        }
    }
}
