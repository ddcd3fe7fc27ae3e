//! Journal files on disks that are not holders any more.
//!
//! When a disk is absent for a moment, another one replaces it, but the disk keeps its files. They
//! are useful until m+1 holders have the whole log. Later they only take space. On a full disk they
//! take the space that it would need to become a holder again, when the next disk is absent for a
//! moment. The membership manager removes them then.
//!
//! # Crash cases
//! A file that is removed is on m+1 holders at that moment, as every record of the log has to be.

use std::collections::BTreeSet;
use std::sync::Arc;

use dewar_env::DiskError;
use dewar_types::DiskId;
use parking_lot::Mutex;

use crate::epoch::JournalMember;
use crate::format::{BLOCK_BYTES, FileHeader};
use crate::log::{LogPhase, LogState, SharedLog};
use crate::replica::{JOURNAL_DIR, name_number, open_slot};

/// Which members were looked through since they hold nothing.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// Disks without such files, by their count of returns; a disk that was absent may have files
    /// again.
    clean: BTreeSet<(DiskId, u32)>,
    busy: BTreeSet<DiskId>,
}

impl Leftovers {
    /// Whether a member is being looked through: it must not be made a holder meanwhile, whose new files
    /// would be taken for old ones.
    pub(crate) fn is_busy(&self, id: DiskId) -> bool {
        self.busy.contains(&id)
    }

    /// The members to look through now, which are busy from now on; `holding` has or will have files.
    pub(crate) fn due(
        &mut self,
        state: &LogState,
        holding: impl Fn(DiskId) -> bool,
    ) -> Vec<Arc<JournalMember>> {
        let mut due = Vec::new();
        for member in &state.members {
            let id = member.id;
            if holding(id) || state.epoch.holders.contains(&id) {
                self.clean.retain(|(clean, _)| *clean != id);
                continue;
            }
            let disk = member.disk.state();
            let Some(returns) = disk.returns().filter(|_| disk.writable()) else {
                continue;
            };
            if is_whole(state) && !self.busy.contains(&id) && self.clean.insert((id, returns)) {
                self.busy.insert(id);
                due.push(Arc::clone(member));
            }
        }
        due
    }
}

/// Whether m+1 holders have everything that is needed.
pub(crate) fn is_whole(state: &LogState) -> bool {
    let complete = state
        .lanes
        .iter()
        .filter(|lane| lane.failure().is_none() && lane.missing_count() == 0);
    state.phase == LogPhase::Running && complete.count() >= state.quorum
}

/// Looks through a member, and removes what is left of the journal on it.
pub(crate) async fn sweep(
    shared: Arc<SharedLog>,
    member: Arc<JournalMember>,
    all: Arc<Mutex<Leftovers>>,
) {
    let swept = remove_files(&shared, &member).await;
    let mut all = all.lock();
    all.busy.remove(&member.id);
    match swept {
        // It may hold the journal again.
        Ok(true) => shared.attention.notify_one(),
        // The keeper looks again, at its own pace: a disk may fail at once, and do so for ever.
        Ok(false) | Err(_) => all.clean.retain(|(id, _)| *id != member.id),
    }
    drop(all);
    if let Err(error) = swept {
        tracing::debug!(%error, "old journal files stay for now");
    }
}

/// Whether none is left.
async fn remove_files(shared: &SharedLog, member: &JournalMember) -> Result<bool, DiskError> {
    for entry in member.disk.list(JOURNAL_DIR).await? {
        let path = format!("{JOURNAL_DIR}/{}", entry.name);
        if name_number(&path).is_none() {
            continue;
        }
        let slot = open_slot(&*member.disk, path).await?;
        let block = slot.file.read_at(0, BLOCK_BYTES as usize).await?;
        let lineage = match FileHeader::decode(&block) {
            Ok(header) => header.map(|header| header.lineage),
            // A later version's.
            Err(_) => continue,
        };
        {
            let state = shared.state.lock();
            // Of a log that was given up nobody else may have a copy.
            if lineage.is_some_and(|lineage| lineage != state.epoch.lineage.0) {
                continue;
            }
            // A holder may have failed meanwhile.
            if !is_whole(&state) {
                return Ok(false);
            }
        }
        member.disk.remove(&slot.path).await?;
        dewar_env::coverage_mark(
            "an old file of the journal was removed from a disk that holds none",
        );
    }
    Ok(true)
}
