//! One run: an immutable sorted file, with identical copies on several disks.
//!
//! A piece is read from the first copy that answers and verifies. A bad or unreadable piece of a
//! copy is rewritten in the background ([`super::gc`]) from another copy, or from memory when
//! no copy has it. A read fails only when this does not help either. It never returns bytes that do
//! not verify. The index remembers the pieces that no copy has until a copy has them again. As long
//! as there are such pieces, the index would not survive a restart.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use dewar_env::{Access, Disk, DiskError, DiskErrorKind, DiskFile};
use dewar_types::{DiskId, Error, ErrorKind, Result};
use parking_lot::{Mutex, RwLock};

use super::cache::PieceCache;
use super::format::{
    Block, Directory, FOOTER_BYTES, Footer, HEADER_BYTES, Malformed, Partition, Piece, RunMeta,
    header,
};
use super::gc::{GcTask, GcTasks};
use super::manifest_store::batches;

/// The folder of the index on every disk.
pub(super) const FOLDER: &str = "index";

/// What the runs of one index share.
pub(super) struct RunContext {
    pub(super) blocks: PieceCache<Block>,
    pub(super) partitions: PieceCache<Arc<Partition>>,
    pub(super) chores: GcTasks,
    pub(super) counters: RunCounters,
}

/// What went on so far.
#[derive(Default)]
pub(super) struct RunCounters {
    pub(super) bad_pieces: AtomicU64,
    pub(super) healed: AtomicU64,
    pub(super) merges: AtomicU64,
    pub(super) bytes_applied: AtomicU64,
    pub(super) bytes_merged: AtomicU64,
    pub(super) directory_bytes: AtomicU64,
}

/// The file of a run on one disk.
#[derive(Clone)]
pub(super) struct RunCopy {
    pub(super) id: DiskId,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) file: Arc<dyn DiskFile>,
    /// The disk's count of returns when the file was opened. After another return the open file may
    /// be useless.
    returns: Option<u32>,
    /// Somebody removed the file, or the disk is not the index's any more: it can be read as long as
    /// it is open, and counts no more.
    pub(super) lost: bool,
}

impl RunCopy {
    /// Opens the file of a run on a disk.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) async fn open(
        id: DiskId,
        disk: &Arc<dyn Disk>,
        path: &str,
    ) -> Result<Self, DiskError> {
        let returns = disk.state().returns();
        Ok(Self {
            id,
            disk: Arc::clone(disk),
            file: disk.open(path, Access::Read).await?,
            returns,
            lost: false,
        })
    }
}

/// A run and where its copies are. The files go when the last holder of an obsolete run lets go.
pub(super) struct SortedRun {
    pub(super) meta: RunMeta,
    pub(super) directory: Directory,
    copies: RwLock<Arc<[RunCopy]>>,
    shared: Arc<RunContext>,
    obsolete: AtomicBool,
    /// Pieces of which no copy was good at the last read.
    lost: Mutex<BTreeSet<Piece>>,
}

/// What a run knows about a key: a value, or that it was deleted.
pub(super) type KeyLookup = Option<Bytes>;

/// The path of a run.
pub(super) fn path_of(run: u64) -> String {
    format!("{FOLDER}/{run:016x}.run")
}

/// The run of a file name.
pub(super) fn run_of(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_suffix(".run")?, 16).ok()
}

impl SortedRun {
    /// A run whose directory is at hand.
    pub(super) fn new(
        meta: RunMeta,
        directory: Directory,
        copies: Vec<RunCopy>,
        shared: Arc<RunContext>,
    ) -> Self {
        let bytes = directory.bytes() as u64;
        let held = &shared.counters.directory_bytes;
        held.fetch_add(bytes, Ordering::Relaxed);
        Self {
            meta,
            directory,
            copies: RwLock::new(copies.into()),
            shared,
            obsolete: AtomicBool::new(false),
            lost: Mutex::default(),
        }
    }

    /// Reads footer and directory from whichever copy verifies.
    pub(super) async fn open(
        meta: RunMeta,
        copies: Vec<RunCopy>,
        shared: &Arc<RunContext>,
    ) -> Result<Self> {
        let mut why = Error::new(ErrorKind::Unavailable, "no disk has it");
        for copy in &copies {
            match read_directory(&meta, copy).await {
                Ok(directory) => {
                    return Ok(Self::new(meta, directory, copies, Arc::clone(shared)));
                }
                Err(error) => why = error,
            }
        }
        Err(why.context(format_args!("open {}", path_of(meta.id))))
    }

    /// Where it is now.
    pub(super) fn copies(&self) -> Arc<[RunCopy]> {
        Arc::clone(&self.copies.read())
    }

    /// Whether a disk has it, for whoever opens it again too.
    pub(super) fn is_on(&self, disk: DiskId) -> bool {
        let copies = self.copies.read();
        copies.iter().any(|copy| copy.id == disk && !copy.lost)
    }

    /// Whether the disk was away since the file on it was opened.
    pub(super) fn is_stale_on(&self, disk: DiskId) -> bool {
        let copies = self.copies.read();
        let copy = copies.iter().find(|copy| copy.id == disk);
        copy.is_some_and(|copy| {
            let returns = copy.disk.state().returns();
            returns.is_some() && returns != copy.returns
        })
    }

    /// Looks whether the file on a disk is still where it was made, and notes if it is not. Whether it
    /// was lost now.
    pub(super) async fn look_on(&self, disk: DiskId) -> bool {
        let copies = self.copies();
        let copy = copies.iter().find(|copy| copy.id == disk && !copy.lost);
        let Some(copy) = copy else { return false };
        // What cannot be looked at now is no news: its disk tells.
        if !matches!(copy.file.is_in_place().await, Ok(false)) {
            return false;
        }
        self.leave(|copy| copy.id == disk);
        true
    }

    /// Has copies count no more that can still be read.
    pub(super) fn leave(&self, which: impl Fn(&RunCopy) -> bool) {
        self.change_copies(|copies| {
            for copy in copies.iter_mut().filter(|copy| which(copy)) {
                copy.lost = true;
            }
        });
    }

    /// What it shares with the other runs of its index.
    pub(super) fn shared(&self) -> &Arc<RunContext> {
        &self.shared
    }

    /// Takes note of a new copy.
    pub(super) fn add_copy(&self, copy: RunCopy) {
        self.change_copies(|copies| {
            copies.retain(|old| old.id != copy.id);
            copies.push(copy);
        });
    }

    /// Forgets copies that `keep` does not want; returns them.
    pub(super) fn retain_copies(&self, keep: impl Fn(&RunCopy) -> bool) -> Vec<RunCopy> {
        let mut gone = Vec::new();
        self.change_copies(|copies| {
            copies.retain(|copy| {
                let stays = keep(copy);
                if !stays {
                    gone.push(copy.clone());
                }
                stays
            });
        });
        gone
    }

    fn change_copies(&self, change: impl FnOnce(&mut Vec<RunCopy>)) {
        let mut copies = self.copies.write();
        let mut changed = copies.to_vec();
        change(&mut changed);
        *copies = changed.into();
    }

    /// Its files may go as soon as nobody uses it.
    pub(super) fn retire(&self) {
        self.obsolete.store(true, Ordering::Relaxed);
    }

    /// Whether it may hold keys of this range (`to` empty: without end).
    pub(super) fn overlaps(&self, from: &[u8], to: &[u8]) -> bool {
        self.directory.last_key() >= from && (to.is_empty() || self.directory.first_key() < to)
    }

    /// What it knows about a key, if that takes no waiting: `None` is "it would".
    pub(super) fn get_now(&self, key: &[u8], hash: u64) -> Option<Result<Option<KeyLookup>>> {
        let Some(n) = self.partition_of(key) else {
            return Some(Ok(None));
        };
        let partition = self.partition_now(n)?;
        let Some(piece) = block_of(&partition, key, hash) else {
            return Some(Ok(None));
        };
        let block = self.block_now(piece)?;
        Some(block.get(key).map_err(|why| self.malformed(why)))
    }

    /// What it knows about a key.
    pub(super) async fn get(&self, key: &[u8], hash: u64) -> Result<Option<KeyLookup>> {
        let Some(n) = self.partition_of(key) else {
            return Ok(None);
        };
        let partition = self.partition(n).await?;
        let Some(piece) = block_of(&partition, key, hash) else {
            return Ok(None);
        };
        let block = self.block(piece).await?;
        block.get(key).map_err(|why| self.malformed(why))
    }

    fn partition_of(&self, key: &[u8]) -> Option<usize> {
        let n = self.directory.find(key)?;
        (key <= self.directory.last_key()).then_some(n)
    }

    fn partition_now(&self, n: usize) -> Option<Arc<Partition>> {
        let piece = self.directory.partition(n);
        if let Some(partition) = self.shared.partitions.get(self.meta.id, piece.offset) {
            return Some(partition);
        }
        let bytes = self.read_now(piece)?;
        self.keep_partition(piece, bytes).ok()
    }

    /// A partition by number, from memory or a disk.
    pub(super) async fn partition(&self, n: usize) -> Result<Arc<Partition>> {
        if let Some(partition) = self.partition_now(n) {
            return Ok(partition);
        }
        let piece = self.directory.partition(n);
        let bytes = self.read(piece).await?;
        self.keep_partition(piece, bytes)
    }

    fn keep_partition(&self, piece: Piece, bytes: Bytes) -> Result<Arc<Partition>> {
        let partition = Partition::parse(bytes).map_err(|why| self.malformed(why))?;
        let partition = Arc::new(partition);
        let cache = &self.shared.partitions;
        let size = partition.bytes();
        cache.insert(self.meta.id, piece.offset, Arc::clone(&partition), size);
        Ok(partition)
    }

    fn block_now(&self, piece: Piece) -> Option<Block> {
        if let Some(block) = self.shared.blocks.get(self.meta.id, piece.offset) {
            return Some(block);
        }
        let bytes = self.read_now(piece)?;
        self.keep_block(piece, bytes).ok()
    }

    /// A block, from memory or a disk.
    pub(super) async fn block(&self, piece: Piece) -> Result<Block> {
        if let Some(block) = self.block_now(piece) {
            return Ok(block);
        }
        let bytes = self.read(piece).await?;
        self.keep_block(piece, bytes)
    }

    fn keep_block(&self, piece: Piece, bytes: Bytes) -> Result<Block> {
        let block = Block::parse(bytes).map_err(|why| self.malformed(why))?;
        let cache = &self.shared.blocks;
        let size = usize::try_from(piece.len).unwrap_or(usize::MAX);
        cache.insert(self.meta.id, piece.offset, block.clone(), size);
        Ok(block)
    }

    /// From the page cache of the first copy's disk; anything unusual is left to [`Self::read`].
    fn read_now(&self, piece: Piece) -> Option<Bytes> {
        let copies = self.copies.read();
        let copy = in_turn(&copies, self.meta.id).find(|copy| copy.disk.state().readable())?;
        let bytes = copy.file.read_now(piece.offset, len(piece))?.ok()?;
        piece.verifies(self.meta.id, &bytes).then_some(bytes)
    }

    /// A verified piece.
    pub(super) async fn read(&self, piece: Piece) -> Result<Bytes> {
        let mut read = self.read_all(&[piece]).await?;
        Ok(read.pop().unwrap_or_default())
    }

    /// A verified piece, to mend a copy with. What is found wrong is not told: mending one copy
    /// would have the others mended, and those this one again.
    pub(super) async fn read_to_mend(&self, piece: Piece) -> Result<Bytes> {
        let (read, _) = self.gather(&[piece]).await;
        Ok(read?.pop().unwrap_or_default())
    }

    /// Verified pieces that stand one behind the other, each from whichever copy has it.
    pub(super) async fn read_all(&self, pieces: &[Piece]) -> Result<Vec<Bytes>> {
        let (read, bad) = self.gather(pieces).await;
        if !bad.is_empty() {
            dewar_env::coverage_mark("a piece of the index was bad in one copy");
        }
        self.report(bad);
        read
    }

    /// The pieces, and which copies had which of them wrong.
    async fn gather(&self, pieces: &[Piece]) -> (Result<Vec<Bytes>>, Vec<(DiskId, Piece)>) {
        let copies = self.copies();
        let mut found: Vec<Option<Bytes>> = vec![None; pieces.len()];
        let mut bad = Vec::new();
        let mut why = Error::new(ErrorKind::Unavailable, "no disk that has it can be read");
        // A second round: what came wrong over a cable or before a timeout may come right.
        for _round in 0..2 {
            for copy in in_turn(&copies, self.meta.id) {
                let wanted = found.iter().enumerate().filter(|(_, f)| f.is_none());
                let wanted: Vec<usize> = wanted.map(|(n, _)| n).collect();
                if wanted.is_empty() {
                    break;
                }
                match self.read_from(copy, pieces, &wanted, &mut found).await {
                    Ok(wrong) if wrong.is_empty() => {}
                    Ok(wrong) => {
                        why = self.malformed(Malformed("no copy has the right checksum"));
                        bad.extend(wrong.into_iter().map(|piece| (copy.id, piece)));
                    }
                    Err(error) => why = error,
                }
            }
        }
        self.note_lost(pieces, &found, &bad);
        for (found, piece) in found.iter_mut().zip(pieces) {
            if found.is_none() {
                *found = self.in_memory(*piece);
            }
        }
        let found: Option<Vec<Bytes>> = found.into_iter().collect();
        let read = found.ok_or_else(|| why.context(format_args!("read {}", path_of(self.meta.id))));
        (read, bad)
    }

    /// Keeps in mind which pieces no copy has right. Where no copy could be read nothing is known.
    fn note_lost(&self, pieces: &[Piece], found: &[Option<Bytes>], bad: &[(DiskId, Piece)]) {
        let mut lost = self.lost.lock();
        for (piece, found) in pieces.iter().zip(found) {
            if found.is_some() {
                lost.remove(piece);
            } else if bad.iter().any(|(_, wrong)| wrong == piece) {
                lost.insert(*piece);
            }
        }
    }

    /// Pieces that no copy had right when they were read last.
    pub(super) fn lost(&self) -> Vec<Piece> {
        self.lost.lock().iter().copied().collect()
    }

    /// A copy has a piece again.
    pub(super) fn mended(&self, piece: Piece) {
        self.lost.lock().remove(&piece);
    }

    /// A piece as it was when it was read: it does not change as long as the run is there.
    fn in_memory(&self, piece: Piece) -> Option<Bytes> {
        let (run, at) = (self.meta.id, piece.offset);
        let directory = || (self.tail()[0] == piece).then(|| self.directory.piece().clone());
        let bytes = match at {
            0 => Some(Bytes::copy_from_slice(&header(run))),
            _ => directory()
                .or_else(|| Some(self.shared.partitions.get(run, at)?.piece().clone()))
                .or_else(|| Some(self.shared.blocks.get(run, at)?.piece().clone())),
        };
        let bytes = bytes.filter(|bytes| piece.verifies(run, bytes))?;
        dewar_env::coverage_mark("a piece of the index that no copy had was in memory");
        Some(bytes)
    }

    /// Fills in what this copy has right; returns what it has wrong.
    async fn read_from(
        &self,
        copy: &RunCopy,
        pieces: &[Piece],
        wanted: &[usize],
        found: &mut [Option<Bytes>],
    ) -> Result<Vec<Piece>> {
        if !copy.disk.state().readable() {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("{} is {:?}", copy.disk.label(), copy.disk.state()),
            ));
        }
        let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else {
            return Ok(Vec::new());
        };
        let start = pieces[first].offset;
        let span = usize::try_from(pieces[last].end() - start).unwrap_or(usize::MAX);
        let mut wrong = Vec::new();
        match copy.file.read_at(start, span).await {
            Ok(bytes) => {
                for &n in wanted {
                    let from = usize::try_from(pieces[n].offset - start).unwrap_or(usize::MAX);
                    let end = from.saturating_add(len(pieces[n]));
                    let piece = (end <= bytes.len()).then(|| bytes.slice(from..end));
                    match piece.filter(|bytes| pieces[n].verifies(self.meta.id, bytes)) {
                        Some(bytes) => found[n] = Some(bytes),
                        None => wrong.push(pieces[n]),
                    }
                }
                Ok(wrong)
            }
            // An unreadable page spoils the whole read: piece by piece it is known which.
            Err(error) if error.kind() == DiskErrorKind::Io => {
                for &n in wanted {
                    let read = copy.file.read_at(pieces[n].offset, len(pieces[n])).await;
                    match read {
                        Ok(bytes) if pieces[n].verifies(self.meta.id, &bytes) => {
                            found[n] = Some(bytes);
                        }
                        Ok(_) => wrong.push(pieces[n]),
                        Err(error) if error.kind() == DiskErrorKind::Io => wrong.push(pieces[n]),
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(wrong)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The pieces of a partition, its own last: they stand one behind the other. The header counts
    /// to the first one.
    pub(super) fn pieces(&self, n: usize, partition: &Partition) -> Vec<Piece> {
        let header = Piece {
            offset: 0,
            len: HEADER_BYTES as u32,
        };
        let header = (n == 0).then_some(header);
        let blocks = (0..partition.len()).map(|block| partition.block(block));
        let blocks = blocks.chain([self.directory.partition(n)]);
        header.into_iter().chain(blocks).collect()
    }

    /// Reads every copy from end to end past the caches, and has mended what is wrong where
    /// another copy has it right.
    ///
    /// # Errors
    /// When a piece is wrong in all copies; what comes after it was read all the same.
    pub(super) async fn verify(&self) -> Result<()> {
        let mut verified = Ok(());
        for n in 0..self.directory.len() {
            let partition = match self.partition(n).await {
                Ok(partition) => partition,
                Err(error) => {
                    verified = verified.and(Err(error));
                    continue;
                }
            };
            for batch in batches(&self.pieces(n, &partition)) {
                let batch = self.verify_pieces(batch).await;
                verified = verified.and(batch);
            }
        }
        let tail = self.verify_pieces(&self.tail()).await;
        verified.and(tail)
    }

    /// Has these pieces mended on every copy that has them wrong, if any copy, or memory, has them right.
    ///
    /// # Errors
    /// When none has.
    pub(super) async fn verify_pieces(&self, pieces: &[Piece]) -> Result<()> {
        let all: Vec<usize> = (0..pieces.len()).collect();
        let mut bad = Vec::new();
        let mut found = vec![None; pieces.len()];
        for copy in self.copies().iter() {
            match self.read_from(copy, pieces, &all, &mut found).await {
                Ok(wrong) => bad.extend(wrong.into_iter().map(|piece| (copy.id, piece))),
                // An absent disk has nothing to verify; it shows in the status.
                Err(error) => tracing::debug!(%error, "a copy of a run is not verified"),
            }
        }
        self.note_lost(pieces, &found, &bad);
        self.report(bad);
        if found.iter().all(Option::is_some) {
            return Ok(());
        }
        // What is wrong is told already.
        self.gather(pieces).await.0.map(drop)
    }

    fn report(&self, bad: Vec<(DiskId, Piece)>) {
        let count = bad.len() as u64;
        let counter = &self.shared.counters.bad_pieces;
        counter.fetch_add(count, Ordering::Relaxed);
        for (disk, piece) in bad {
            self.shared.chores.heal(self.meta.id, disk, piece);
        }
    }

    /// Directory and footer.
    pub(super) fn tail(&self) -> [Piece; 2] {
        let footer = footer_piece(&self.meta);
        let before = self.directory.partition(self.directory.len() - 1).end();
        let directory = Piece {
            offset: before,
            len: u32::try_from(footer.offset.saturating_sub(before)).unwrap_or(u32::MAX),
        };
        [directory, footer]
    }

    /// That verified bytes make no sense.
    pub(super) fn malformed(&self, why: Malformed) -> Error {
        Error::new(
            ErrorKind::Corrupt,
            format!("{}: {why}", path_of(self.meta.id)),
        )
    }
}

impl Drop for SortedRun {
    fn drop(&mut self) {
        let held = &self.shared.counters.directory_bytes;
        held.fetch_sub(self.directory.bytes() as u64, Ordering::Relaxed);
        if *self.obsolete.get_mut() {
            // What is on a disk that left is for others to remove: it may be wiped just now.
            let copies = self.copies.get_mut().iter().filter(|copy| !copy.lost);
            let disks = copies
                .map(|copy| (copy.id, Arc::clone(&copy.disk)))
                .collect();
            let run = self.meta.id;
            self.shared.chores.add(GcTask::Remove { run, disks });
        }
    }
}

/// The copies, each run beginning at another one, so that runs share the work of the disks while
/// each is cached once. Those that count no more come last.
fn in_turn(copies: &[RunCopy], run: u64) -> impl Iterator<Item = &RunCopy> {
    let count = copies.len().max(1) as u64;
    let (before, from) =
        copies.split_at(usize::try_from(run % count).unwrap_or(0).min(copies.len()));
    let turn = from.iter().chain(before);
    let lost = turn.clone().filter(|copy| copy.lost);
    turn.filter(|copy| !copy.lost).chain(lost)
}

fn block_of(partition: &Partition, key: &[u8], hash: u64) -> Option<Piece> {
    if !partition.may_hold(hash) {
        return None;
    }
    partition.find(key).map(|n| partition.block(n))
}

fn len(piece: Piece) -> usize {
    usize::try_from(piece.len).unwrap_or(usize::MAX)
}

fn footer_piece(meta: &RunMeta) -> Piece {
    Piece {
        offset: meta.len.saturating_sub(FOOTER_BYTES as u64),
        len: FOOTER_BYTES as u32,
    }
}

async fn read_directory(meta: &RunMeta, copy: &RunCopy) -> Result<Directory> {
    let corrupt =
        |why: &str| Error::new(ErrorKind::Corrupt, format!("{}: {why}", copy.disk.label()));
    let at = footer_piece(meta);
    let bytes = copy.file.read_at(at.offset, FOOTER_BYTES).await?;
    if !at.verifies(meta.id, &bytes) {
        return Err(corrupt("the footer has a wrong checksum"));
    }
    let footer = Footer::decode(&bytes).map_err(|why| corrupt(why.0))?;
    if footer.run != meta.id || footer.directory.end() != at.offset {
        return Err(corrupt("the footer is that of another run"));
    }
    let place = footer.directory;
    let bytes = copy.file.read_at(place.offset, len(place)).await?;
    if !place.verifies(meta.id, &bytes) {
        return Err(corrupt("the directory has a wrong checksum"));
    }
    Directory::parse(bytes, place.offset).map_err(|why| corrupt(why.0))
}
