//! The files of the log, the records in them, the holds on them, and the point at which they are
//! free.
//!
//! A file is free under two conditions. First, no hold needs its last record. Second, this is
//! recorded in a durable header of a later file, or in the epoch file on more than m members.
//! Otherwise, after a crash in the middle of the reuse, recovery would look for records that are
//! gone.

use std::sync::Arc;

use super::{LogState, SharedLog};
use crate::Seq;
use crate::format::FileHeader;

/// A file of the log that is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileInfo {
    pub(crate) header: FileHeader,
    /// Its last record so far.
    pub(crate) last: Seq,
}

impl LogState {
    /// The files as they are once the log ends at `end`.
    pub(crate) fn files_up_to(&self, end: Seq) -> Vec<FileInfo> {
        let files = self.files.iter().filter(|file| file.header.first <= end);
        files
            .map(|file| FileInfo {
                last: file.last.min(end),
                ..*file
            })
            .collect()
    }

    /// Whether the log still has this file.
    pub(crate) fn needs_file(&self, number: u64) -> bool {
        self.files.iter().any(|file| file.header.file == number)
    }
}

impl SharedLog {
    /// Registers somebody who still needs the records after `seq`.
    pub(crate) fn add_hold(&self, name: &str, seq: Seq) -> u64 {
        let mut state = self.state.lock();
        state.hold_ids += 1;
        let id = state.hold_ids;
        state.holds.insert(id, (name.to_owned(), seq));
        id
    }

    /// Moves a hold forward; it never goes back.
    pub(crate) fn advance_hold(self: &Arc<Self>, id: u64, seq: Seq) {
        let mut state = self.state.lock();
        let acked = self.acked();
        if let Some((_, held)) = state.holds.get_mut(&id) {
            *held = (*held).max(seq.min(acked));
        }
        self.raise_floor(&mut state);
    }

    /// Ends a hold: nothing is kept for it any more.
    pub(crate) fn release_hold(self: &Arc<Self>, id: u64) {
        let mut state = self.state.lock();
        state.holds.remove(&id);
        self.raise_floor(&mut state);
    }

    fn raise_floor(&self, state: &mut LogState) {
        let lowest = state.holds.values().map(|(_, seq)| *seq).min();
        if let Some(lowest) = lowest
            && lowest > state.floor
        {
            state.floor = lowest;
            self.free_files(state);
            if self.floor_is_urgent(state) {
                self.attention.notify_one();
            }
            self.room.notify_waiters();
        }
    }

    /// Whether files could be freed if the floor were durable, and the log is running out of them:
    /// there may be no more, or a disk has no room for one.
    pub(crate) fn floor_is_urgent(&self, state: &LogState) -> bool {
        let freeable = state.files.len() > 1
            && state
                .files
                .front()
                .is_some_and(|file| file.last <= state.floor && file.last > state.durable_floor);
        let few = || state.files.len() + 1 >= self.ordinary_files_max();
        freeable && (few() || state.lanes.iter().any(|lane| lane.full_until().is_some()))
    }

    /// More than m members name this floor in their epoch file.
    pub(crate) fn floor_is_durable(&self, floor: Seq) {
        let mut state = self.state.lock();
        state.durable_floor = state.durable_floor.max(floor);
        // Members that come back must not get a lower one.
        state.epoch.floor = state.epoch.floor.max(floor);
        self.free_files(&mut state);
        self.room.notify_waiters();
    }

    /// Gives back the slots of files that nothing needs.
    pub(super) fn free_files(&self, state: &mut LogState) {
        let mut freed = false;
        while state.files.len() > 1
            && let Some(file) = state.files.front()
            && file.last <= state.durable_floor
        {
            let number = file.header.file;
            for lane in &state.lanes {
                lane.free(number);
            }
            state.files.pop_front();
            freed = true;
        }
        if freed {
            self.shrink_reserve(state);
            self.attention.notify_one();
        }
    }

    /// Forgets what lies beyond the end of an epoch.
    pub(super) fn truncate_files(&self, state: &mut LogState, end: Seq) {
        while let Some(file) = state.files.back() {
            if file.header.first <= end {
                break;
            }
            for lane in &state.lanes {
                lane.release(file.header.file);
            }
            state.files.pop_back();
        }
        if let Some(file) = state.files.back_mut() {
            file.last = file.last.min(end);
        }
    }
}
