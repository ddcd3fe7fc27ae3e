//! Copying the log's older files to a new holder.
//!
//! Each record comes from any copy that verifies and goes to the same position. The copy counts
//! when it is synced. Until then the new holder's disk keeps its files from an earlier time.
//!
//! If all holders of a file failed at once, no holder has it any more. It is then searched on the
//! disks of all members, since a disk that comes back still has its files. The search is repeated
//! until a disk has the file or nobody needs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_env::{BoxFuture, DiskFile};
use dewar_types::{DiskId, Error};
use futures_util::future::join_all;

use crate::copies::FileCopy;
use crate::epoch::{EpochId, JournalMember, Span};
use crate::format::{BLOCK_BYTES, FileHeader};
use crate::leftovers::is_whole;
use crate::log::{FileInfo, SharedLog};
use crate::log_reader::{CopySource, LogReader, ReadStart};
use crate::membership::HolderReplacement;
use crate::replica::{FileSlot, JOURNAL_DIR, ReplicaWriter, name_number, open_slot};

/// Bytes gathered for one write.
const CHUNK_BYTES: usize = 1 << 20;

/// When it is tried again to copy what could not be copied, the first time.
const PAUSE: Duration = Duration::from_secs(2);

/// The same at most.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Copies files to a new holder, oldest first, and then removes what was on its disk before. Goes on
/// until it has all that is needed, or is no holder any more.
pub(crate) async fn fill(shared: Arc<SharedLog>, to: HolderReplacement, files: Vec<FileInfo>) {
    let mut pause = PAUSE;
    let mut leftovers = to.leftovers;
    while let Err(error) = fill_once(&shared, &to.lane, &files).await {
        if to.lane.failure().is_some() {
            return;
        }
        if !leftovers.is_empty() && is_whole(&shared.state.lock()) {
            // Others have all of it, and what is left here may be what takes the room.
            remove(&to.lane, std::mem::take(&mut leftovers)).await;
            continue;
        }
        if pause == PAUSE {
            let disk = to.lane.disk.label();
            tracing::error!(%error, disk, "journal files cannot be copied now; trying again");
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    remove(&to.lane, leftovers).await;
}

async fn remove(lane: &ReplicaWriter, paths: Vec<String>) {
    for path in paths {
        if let Err(error) = lane.disk.remove(&path).await {
            tracing::warn!(%error, "an old journal file stays");
        }
    }
}

/// Copies what is missing and can be had; the first error, if something still needed is missing then.
async fn fill_once(
    shared: &Arc<SharedLog>,
    lane: &ReplicaWriter,
    files: &[FileInfo],
) -> Result<(), Error> {
    let mut elsewhere = None;
    let mut failed = Ok(());
    for file in files {
        let number = file.header.file;
        if !lane.misses(number) {
            continue; // copied, or freed meanwhile
        }
        let mut copied = copy(shared, Arc::clone(shared), lane, file).await;
        if copied.is_err() && lane.failure().is_none() && shared.state.lock().needs_file(number) {
            let source = match &elsewhere {
                Some(source) => Arc::clone(source),
                None => Arc::clone(elsewhere.insert(FormerCopies::search(shared, files).await)),
            };
            if source.found.contains_key(&number) {
                copied = copy(shared, source, lane, file).await;
                if copied.is_ok() {
                    dewar_env::coverage_mark("a journal file came from a disk that held it before");
                }
            }
        }
        match copied {
            Ok(slot) => lane.copied(number, Some(slot)),
            Err(_) if !shared.state.lock().needs_file(number) => lane.copied(number, None),
            Err(error) => failed = failed.and(Err(error)),
        }
    }
    failed
}

/// A journal file on a disk.
type CopiedFile = (DiskId, Arc<dyn DiskFile>);

/// Copies of a file on holders and on disks that held it before.
struct FormerCopies {
    shared: Arc<SharedLog>,
    /// By the number of the file.
    found: BTreeMap<u64, Vec<CopiedFile>>,
}

impl FormerCopies {
    /// Looks through the journal files on the disks of all members: a header each.
    async fn search(shared: &Arc<SharedLog>, files: &[FileInfo]) -> Arc<Self> {
        let members = shared.state.lock().members.clone();
        let readable = members
            .iter()
            .filter(|member| member.disk.state().readable());
        let looking: Vec<_> = readable.map(|member| files_on(member, files)).collect();
        let mut found: BTreeMap<u64, Vec<_>> = BTreeMap::new();
        for (number, copied) in join_all(looking).await.into_iter().flatten() {
            found.entry(number).or_default().push(copied);
        }
        let shared = Arc::clone(shared);
        Arc::new(Self { shared, found })
    }
}

/// Those of the wanted files that are on a disk, as far as they can be read.
async fn files_on(member: &JournalMember, wanted: &[FileInfo]) -> Vec<(u64, CopiedFile)> {
    let mut found = Vec::new();
    let listed = member.disk.list(JOURNAL_DIR).await.unwrap_or_default();
    for entry in listed {
        let path = format!("{JOURNAL_DIR}/{}", entry.name);
        if name_number(&path).is_none() {
            continue;
        }
        // What cannot be read is on another disk, or is looked for again.
        let Ok(slot) = open_slot(&*member.disk, path).await else {
            continue;
        };
        let Ok(block) = slot.file.read_at(0, BLOCK_BYTES as usize).await else {
            continue;
        };
        let Ok(Some(header)) = FileHeader::decode(&block) else {
            continue;
        };
        let same =
            |file: &&FileInfo| (file.header.epoch, file.header.file) == (header.epoch, header.file);
        if wanted.iter().any(|file| same(&file)) {
            found.push((header.file, (member.id, Arc::clone(&slot.file))));
        }
    }
    found
}

impl CopySource for FormerCopies {
    fn copies(&self, epoch: EpochId, file: u64) -> BoxFuture<'_, Vec<FileCopy>> {
        Box::pin(async move {
            let mut copies = self.shared.copies(epoch, file).await;
            let found = self.found.get(&file).into_iter().flatten();
            copies.extend(found.map(|(disk, file)| FileCopy::new(*disk, Arc::clone(file))));
            copies
        })
    }
}

/// The records of a file, as a chain goes through them.
pub(crate) fn way(file: &FileInfo) -> (Span, ReadStart) {
    let header = &file.header;
    let span = Span {
        epoch: header.epoch,
        number: header.epoch_number,
        file: header.file,
        first: header.first,
        prev: header.prev,
        last: Some(file.last),
    };
    let start = ReadStart {
        file: header.file,
        first: header.first,
        prev: header.prev,
    };
    (span, start)
}

/// Writes a file of the log to a new slot, from copies that verify.
pub(crate) async fn copy(
    shared: &SharedLog,
    source: impl CopySource,
    lane: &ReplicaWriter,
    file: &FileInfo,
) -> Result<Arc<FileSlot>, Error> {
    let header = &file.header;
    let (span, start) = way(file);
    let mut chain = LogReader::new(source, shared.config.file_bytes, vec![span], start);
    // Before room is taken for what may be nowhere.
    let first = chain.next().await?;
    let slot = lane.create_slot().await?;
    let written = async {
        let mut chunk = Chunk {
            at: 0,
            bytes: header.encode(),
        };
        let mut next = first;
        while let Some(link) = next {
            chunk.put(link.place.offset, &link.record.raw);
            if chunk.bytes.len() >= CHUNK_BYTES {
                let (at, bytes) = chunk.take_blocks();
                slot.file.write_at(at, vec![bytes]).await?;
            }
            next = chain.next().await?;
        }
        let (at, bytes) = chunk.take_all();
        slot.file.write_at(at, vec![bytes]).await?;
        slot.file.sync().await?;
        Ok(())
    };
    match written.await {
        Ok(()) => Ok(slot),
        Err(error) => {
            // It takes something else.
            lane.adopt(slot);
            Err(error)
        }
    }
}

/// Bytes from an offset on that are not written yet.
struct Chunk {
    at: u64,
    bytes: Vec<u8>,
}

impl Chunk {
    fn put(&mut self, offset: u64, raw: &[u8]) {
        let start = usize::try_from(offset - self.at).expect("a file fits the address space");
        self.bytes.resize(start, 0);
        self.bytes.extend_from_slice(raw);
    }

    /// The whole blocks; what is left of the last one stays.
    fn take_blocks(&mut self) -> (u64, Bytes) {
        let whole = self.bytes.len() - self.bytes.len() % BLOCK_BYTES as usize;
        let rest = self.bytes.split_off(whole);
        let blocks = std::mem::replace(&mut self.bytes, rest);
        let at = self.at;
        self.at += whole as u64;
        (at, blocks.into())
    }

    fn take_all(mut self) -> (u64, Bytes) {
        let padded = self.bytes.len().next_multiple_of(BLOCK_BYTES as usize);
        self.bytes.resize(padded, 0);
        (self.at, self.bytes.into())
    }
}
