//! Verification of the holders' files while the journal runs.
//!
//! All copies are verified when a journal is opened, which may be months ago. Each file is
//! therefore read once a day from each holder ([`crate::Journal::verify`]). The file that is being
//! written is read as far as it is acknowledged, since it may be the only place of small objects
//! for days on a quiet pool. If a record or the header is damaged, the whole file is written again
//! from copies that verify. The new file replaces the old one. Until then the holder does not count
//! for [`crate::Status::margin`].
//!
//! A file that is being written cannot be replaced, so a damaged one is ended first: a new epoch on
//! the same holders begins the next file.
//!
//! # Crash cases
//! A crash in between leaves two files of the same number on a disk. The opening takes each record
//! from the one that verifies.

use std::sync::Arc;
use std::time::Duration;

use dewar_env::{BoxFuture, DiskFile};
use dewar_types::{DiskId, Error, ErrorKind};
use tokio::sync::Mutex;

use crate::backfill::{copy, way};
use crate::copies::FileCopy;
use crate::epoch::EpochId;
use crate::format::{BLOCK_BYTES, FileHeader};
use crate::log::{FileInfo, LogPhase, SharedLog};
use crate::log_reader::{CopySource, LogReader};
use crate::replica::{FileSlot, JOURNAL_DIR, ReplicaWriter};

/// Pause after each file, so that reading takes little of what a disk can do.
const NAP: Duration = Duration::from_secs(1);

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VerifyReport {
    /// Copies of files that were not what they should be.
    pub(crate) bad: u64,
    /// Those of them that still are not.
    pub(crate) left: u64,
}

/// Reads what is acknowledged from all holders, and mends what is damaged. `one` at a time.
pub(crate) async fn verify(shared: &Arc<SharedLog>, one: &Mutex<()>) -> VerifyReport {
    let _one = one.lock().await;
    let mut found = VerifyReport::default();
    let (lanes, files) = {
        let state = shared.state.lock();
        if state.phase != LogPhase::Running {
            return found;
        }
        (state.lanes.clone(), state.files_up_to(shared.acked()))
    };
    for file in &files {
        for lane in &lanes {
            let number = file.header.file;
            let Some(slot) = lane.existing(number) else {
                continue;
            };
            // Others have what is still being written here.
            if lane.is_behind(file.last) || is_intact(shared, lane, &slot, file).await {
                continue;
            }
            if lane.failure().is_some() || !shared.state.lock().needs_file(number) {
                continue;
            }
            found.bad += 1;
            dewar_env::coverage_mark("a journal file was found damaged while it ran");
            let disk = lane.disk.label();
            tracing::warn!(disk, path = slot.path, "a journal file is damaged");
            lane.set_damaged(number, &slot);
            shared.state.lock().counters.damaged += 1;
            let mended = match ended(shared, number).await {
                Ok(Some(file)) => mend(shared, lane, &slot, &file).await,
                // Nobody needs it any more.
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = mended {
                tracing::error!(%error, disk, path = slot.path, "it cannot be mended now");
                found.left += 1;
            }
        }
        tokio::time::sleep(NAP).await;
    }
    found
}

/// One copy of one file.
struct SingleCopy {
    disk: DiskId,
    copy: Arc<dyn DiskFile>,
    file: u64,
}

impl CopySource for SingleCopy {
    fn copies(&self, _: EpochId, file: u64) -> BoxFuture<'_, Vec<FileCopy>> {
        let copy = || FileCopy::new(self.disk, Arc::clone(&self.copy));
        let copies = (file == self.file).then(copy).into_iter().collect();
        Box::pin(std::future::ready(copies))
    }
}

/// Whether a holder has a file as it was written. What cannot be read now is taken for intact.
async fn is_intact(
    shared: &SharedLog,
    lane: &ReplicaWriter,
    slot: &FileSlot,
    file: &FileInfo,
) -> bool {
    let before = lane.disk.state();
    let wanted = &file.header;
    let same = |header: &FileHeader| {
        (header.lineage, header.epoch, header.file) == (wanted.lineage, wanted.epoch, wanted.file)
    };
    let header = slot.file.read_at(0, BLOCK_BYTES as usize).await;
    let header = header
        .ok()
        .and_then(|block| FileHeader::decode(&block).ok());
    let mut intact = header.flatten().is_some_and(|header| same(&header));
    if intact {
        let source = SingleCopy {
            disk: lane.id,
            copy: Arc::clone(&slot.file),
            file: wanted.file,
        };
        let (span, start) = way(file);
        let mut chain = LogReader::new(source, shared.config.file_bytes, vec![span], start);
        intact = loop {
            match chain.next().await {
                Ok(Some(_)) => {}
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
    }
    intact || !before.readable() || lane.disk.state() != before
}

/// The file once nothing more is written to it, for which another is begun; `None` if it is not needed
/// any more.
async fn ended(shared: &SharedLog, number: u64) -> Result<Option<FileInfo>, Error> {
    let ended = async {
        loop {
            let changed = shared.room.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut state = shared.state.lock();
                let mut files = state.files.iter();
                let file = *files.find(|file| file.header.file == number)?;
                if number >= state.current_file() {
                    state.ending = state.ending.max(Some(number));
                } else if file.last <= shared.acked() {
                    return Some(file);
                }
            }
            shared.attention.notify_one();
            changed.await;
        }
    };
    let patience = shared.config.stall_max;
    tokio::time::timeout(patience, ended).await.map_err(|_| {
        let message = format!("journal file {number} is being written and could not be ended");
        Error::new(ErrorKind::Unavailable, message)
    })
}

/// Writes a file anew from the copies that verify, and puts it in the place of the damaged one.
async fn mend(
    shared: &Arc<SharedLog>,
    lane: &Arc<ReplicaWriter>,
    damaged: &Arc<FileSlot>,
    file: &FileInfo,
) -> Result<(), Error> {
    let slot = copy(shared, Arc::clone(shared), lane, file).await?;
    if !lane.replace(file.header.file, damaged, slot) {
        // Nobody needs it any more.
        return Ok(());
    }
    lane.disk.remove(&damaged.path).await?;
    lane.disk.sync_dir(JOURNAL_DIR).await?;
    dewar_env::coverage_mark("a journal file was mended while it ran");
    tracing::info!(
        disk = lane.disk.label(),
        path = damaged.path,
        "a journal file was written anew"
    );
    Ok(())
}
