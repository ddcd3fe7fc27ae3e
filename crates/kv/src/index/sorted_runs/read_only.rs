//! Read-only access to runs: a state that is held for a backup, runs in a backup, and the readable
//! rest of a damaged index.
//!
//! Nothing here changes or repairs anything. A repair needs the task of an open index, and the
//! files that are read here may be the only copy.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use dewar_env::Disk;
use dewar_types::{DiskId, Error, ErrorKind, Result};

use super::RunConfig;
use super::cache::PieceCache;
use super::format::{Block, BlockCursor, Piece, RunMeta};
use super::gc::GcTasks;
use super::manifest_store::batches;
use super::open::{look, members, open_runs};
use super::sorted_run::{RunContext, RunCopy, RunCounters, SortedRun};
use super::view::Version;
use crate::Seq;
use crate::index::IndexView;

/// The facts about a run besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunFile {
    /// Its id, random.
    pub id: u64,
    /// Bytes of its file.
    pub len: u64,
    /// Entries, deletions included.
    pub entries: u64,
    /// Deletions.
    pub deletions: u64,
    /// CRC-32C of the whole file.
    pub crc: u32,
    /// Number of merges of its entries.
    pub level: u32,
}

impl From<RunMeta> for RunFile {
    fn from(meta: RunMeta) -> Self {
        Self {
            id: meta.id,
            len: meta.len,
            entries: meta.entries,
            deletions: meta.deletions,
            crc: meta.crc,
            level: meta.level,
        }
    }
}

impl From<RunFile> for RunMeta {
    fn from(file: RunFile) -> Self {
        Self {
            id: file.id,
            len: file.len,
            entries: file.entries,
            deletions: file.deletions,
            crc: file.crc,
            level: file.level,
        }
    }
}

/// A state of an index. Its files stay as long as this is held. Hold it for minutes.
#[derive(Clone)]
pub struct ReadOnlyRuns {
    version: Arc<Version>,
}

/// A range of keys whose values are lost: all keys strictly between the two bounds. `None` is the
/// beginning or the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostKeyRange {
    /// The last known key before the range.
    pub after: Option<Bytes>,
    /// The next known key after the range.
    pub before: Option<Bytes>,
}

/// The readable rest of an index on the disks that are present.
pub struct SurvivingRuns {
    /// The newest state that can be opened.
    pub runs: ReadOnlyRuns,
    /// Number of its manifest.
    pub number: u64,
    /// Disks that have all of its runs.
    pub copies: usize,
    /// Pieces that are bad in some copy.
    pub bad_pieces: u64,
    /// Keys of which no copy verifies.
    pub lost: Vec<LostKeyRange>,
}

impl ReadOnlyRuns {
    pub(super) fn new(version: Arc<Version>) -> Self {
        Self { version }
    }

    /// The last batch that is in it.
    #[must_use]
    pub fn applied(&self) -> Seq {
        self.version.applied
    }

    /// Its runs, newest first.
    #[must_use]
    pub fn files(&self) -> Vec<RunFile> {
        let runs = self.version.runs.iter();
        runs.map(|run| run.meta.into()).collect()
    }

    /// The value of a key.
    ///
    /// # Errors
    /// When no copy of a needed piece verifies.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.version.get(key).await
    }

    /// Reads the `n`-th run from end to end: the bytes of its file.
    ///
    /// # Errors
    /// When there is no such run.
    pub fn reader(&self, n: usize) -> Result<RunReader> {
        Ok(RunReader {
            run: Arc::clone(self.run(n)?),
            part: 0,
            ready: VecDeque::new(),
        })
    }

    /// The same as a view.
    #[must_use]
    pub fn view(&self) -> Arc<dyn IndexView> {
        Arc::clone(&self.version) as Arc<dyn IndexView>
    }

    /// Entries in all runs; a key that is in several runs counts several times.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.version.runs.iter().map(|run| run.meta.entries).sum()
    }

    /// Bytes of all runs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.version.runs.iter().map(|run| run.meta.len).sum()
    }

    fn run(&self, n: usize) -> Result<&Arc<SortedRun>> {
        self.version.runs.get(n).ok_or_else(|| {
            let message = format!("the catalog index has no run number {n}");
            Error::new(ErrorKind::Internal, message)
        })
    }

    pub(super) fn runs(&self) -> &[Arc<SortedRun>] {
        &self.version.runs
    }
}

/// Reads the bytes of a run's file in order, each piece from any copy that verifies.
pub struct RunReader {
    run: Arc<SortedRun>,
    /// The next partition; the tail follows the last one.
    part: usize,
    ready: VecDeque<Bytes>,
}

impl RunReader {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// When no copy of a piece verifies.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        while self.ready.is_empty() {
            let parts = self.run.directory.len();
            let pieces = match self.part.cmp(&parts) {
                std::cmp::Ordering::Less => {
                    let partition = self.run.partition(self.part).await?;
                    self.run.pieces(self.part, &partition)
                }
                std::cmp::Ordering::Equal => self.run.tail().to_vec(),
                std::cmp::Ordering::Greater => return Ok(None),
            };
            self.part += 1;
            for batch in batches(&pieces) {
                self.ready.extend(self.run.read_all(batch).await?);
            }
        }
        Ok(self.ready.pop_front())
    }
}

/// Runs in plain files, newest first: file, disk and path of each.
///
/// # Errors
/// When one cannot be read, or is not the expected run.
pub async fn runs_in_files(
    files: Vec<(RunFile, Arc<dyn Disk>, String)>,
    applied: Seq,
) -> Result<ReadOnlyRuns> {
    let shared = shared(1 << 20);
    let mut runs = Vec::with_capacity(files.len());
    for (meta, disk, path) in files {
        let copy = RunCopy::open(DiskId(0), &disk, &path).await?;
        let len = copy.file.len().await?;
        if len != meta.len {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{}/{path} has {len} bytes and should have {}",
                    disk.label(),
                    meta.len
                ),
            ));
        }
        let at = format!("{}/{path}", disk.label());
        let run = SortedRun::open(meta.into(), vec![copy], &shared).await;
        runs.push(Arc::new(run.map_err(|error| error.context(at))?));
    }
    Ok(ReadOnlyRuns::new(Arc::new(Version { runs, applied })))
}

/// Examines the readable rest of an index and reads all copies of it; changes nothing. `None` when
/// no state of it can be opened.
pub async fn remains(
    disks: Vec<(DiskId, Arc<dyn Disk>)>,
    config: &RunConfig,
    deep: bool,
) -> Option<SurvivingRuns> {
    let mut found = look(members(disks)).await;
    for disk in &mut found {
        disk.manifest = disk.manifest.take().filter(|m| m.lineage == config.lineage);
    }
    let mut candidates: Vec<_> = found.iter().filter_map(|f| f.manifest.clone()).collect();
    candidates.sort_by_key(|m| std::cmp::Reverse((m.applied, m.number)));
    candidates.dedup();
    let shared = shared(config.cache_bytes);
    for manifest in candidates {
        let Ok(runs) = open_runs(&manifest, &found, &shared).await else {
            continue;
        };
        let copies = found
            .iter()
            .filter(|f| runs.iter().all(|run| run.is_on(f.member.id)))
            .filter(|f| f.manifest.as_ref() == Some(&manifest));
        let copies = copies.count();
        let mut lost = Vec::new();
        if deep {
            for run in &runs {
                // What every copy has wrong is an error here and a stretch of keys below.
                if run.verify().await.is_err() {
                    let mut blocks = ReadableBlocks::of(run);
                    while blocks.next().await.is_some() {}
                    lost.extend(blocks.lost());
                }
            }
        }
        let counter = &shared.counters.bad_pieces;
        let version = Version {
            applied: manifest.applied,
            runs,
        };
        return Some(SurvivingRuns {
            bad_pieces: counter.load(Ordering::Relaxed),
            runs: ReadOnlyRuns::new(Arc::new(version)),
            number: manifest.number,
            copies,
            lost,
        });
    }
    None
}

/// Caches and books of runs that nobody mends.
fn shared(cache_bytes: usize) -> Arc<RunContext> {
    // Without the task at the other end, chores are dropped.
    let (chores, _) = GcTasks::new();
    Arc::new(RunContext {
        blocks: PieceCache::new(cache_bytes),
        partitions: PieceCache::new(cache_bytes),
        chores,
        counters: RunCounters::default(),
    })
}

/// Walks the blocks of a run that can be read, and notes what lies between.
pub(super) struct ReadableBlocks {
    run: Arc<SortedRun>,
    part: usize,
    blocks: VecDeque<Piece>,
    lost: Vec<LostKeyRange>,
    /// Whether the last lost range continues.
    open: bool,
    last: Option<Bytes>,
}

impl ReadableBlocks {
    pub(super) fn of(run: &Arc<SortedRun>) -> Self {
        Self {
            run: Arc::clone(run),
            part: 0,
            blocks: VecDeque::new(),
            lost: Vec::new(),
            open: false,
            last: None,
        }
    }

    /// The next block that can be read.
    pub(super) async fn next(&mut self) -> Option<Block> {
        loop {
            while let Some(piece) = self.blocks.pop_front() {
                let Some((block, first, last)) = readable(&self.run, piece).await else {
                    self.note();
                    continue;
                };
                if std::mem::take(&mut self.open)
                    && let Some(lost) = self.lost.last_mut()
                {
                    lost.before = Some(first);
                }
                self.last = Some(last);
                return Some(block);
            }
            if self.part == self.run.directory.len() {
                return None;
            }
            match self.run.partition(self.part).await {
                Ok(partition) => {
                    let blocks = (0..partition.len()).map(|n| partition.block(n));
                    self.blocks = blocks.collect();
                }
                Err(_) => self.note(),
            }
            self.part += 1;
        }
    }

    /// What could not be read, after the last block.
    pub(super) fn lost(self) -> Vec<LostKeyRange> {
        self.lost
    }

    fn note(&mut self) {
        if !std::mem::replace(&mut self.open, true) {
            self.lost.push(LostKeyRange {
                after: self.last.clone(),
                before: None,
            });
        }
    }
}

/// A block with its first and last key, if any copy of it can be read.
async fn readable(run: &SortedRun, piece: Piece) -> Option<(Block, Bytes, Bytes)> {
    let block = Block::parse(run.read(piece).await.ok()?).ok()?;
    let mut entry = BlockCursor::new(block.clone());
    let mut ends: Option<(Bytes, Bytes)> = None;
    while entry.advance().ok()? {
        let key = Bytes::copy_from_slice(entry.key()?);
        ends = Some(match ends {
            Some((first, _)) => (first, key),
            None => (key.clone(), key),
        });
    }
    let (first, last) = ends?;
    Some((block, first, last))
}
