//! The index as immutable sorted runs, byte-identical on m+1 disks.
//!
//! A batch becomes a run: a file of sorted blocks with checksums, filters and a sparse index. Runs
//! are merged in the background so that they stay few. A manifest on each of the disks names the
//! runs and the last batch that is in them. The index is therefore its own incremental snapshot.
//! Recovery needs the newest manifest and the tail of the journal. Formats:
//! `docs/formats/catalog-runs.md`.
//!
//! # Order and crashes
//! See `manifest_store` for the change from one state to the next, and `open` for the checks of an
//! opening. A power failure at any moment leaves the current state or the next one.
//!
//! # Disks that fail
//! If a copy is bad, reads take another one, and the bad copy is repaired (`sorted_run`, `gc`). A
//! disk that fails a write is replaced by another holder before the batch counts as applied.
//! Without another disk the batch fails with `Unavailable` (or `NoSpace`), and the present content
//! stays readable.
//!
//! # Cancellation
//! Batches and changes of disks run as tasks of their own: dropping their future does not stop them
//! half-way.

mod bootstrap;
mod build;
mod cache;
mod cursor;
mod format;
mod gc;
mod manifest_store;
mod merge;
mod open;
mod read_only;
mod sorted_run;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dewar_env::{Access, BoxFuture, Disk, DiskErrorKind, Env};
use dewar_types::{DiskId, Error, ErrorKind, Result};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::{Entry, Index, IndexView, check_batch};
use crate::Seq;
use build::{CopyWriter, IndexDisk, RunBuilder};
use manifest_store::ManifestStore;
use merge::{FAN, MergeScheduler};
use sorted_run::{RunContext, SortedRun};
use view::Version;

pub use read_only::{
    LostKeyRange, ReadOnlyRuns, RunFile, RunReader, SurvivingRuns, remains, runs_in_files,
};

pub use format::{fuzz_block, fuzz_footer, fuzz_manifest};

/// A batch waits for merging when so many runs were not merged yet.
const FRESH_RUNS_MAX: usize = 4 * FAN;

/// Bytes of a new run gathered before they are written.
const WRITE_BYTES: usize = 1 << 20;

/// Entries between two chances for others to run, about 50 us.
const STEPS_BETWEEN_YIELDS: usize = 128;

/// Pieces that no copy has and that are looked for at a time.
const RETRIED_MAX: usize = 64;

/// Times that a batch is written anew because the disks changed meanwhile.
const ATTEMPTS_MAX: usize = 3;

/// Settings of an index of runs.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Disks that hold it: m+1.
    pub copies: usize,
    /// Lineage of the journal that the index belongs to; an index of another lineage is ignored.
    pub lineage: u128,
    /// Memory for blocks, in bytes. The page cache holds more.
    pub cache_bytes: usize,
    /// Memory for filters and the sparse index, in bytes. About 1.6 per key are enough for all of
    /// them.
    pub pinned_bytes: usize,
}

impl RunConfig {
    /// 64 MiB for blocks, 256 MiB for filters and the sparse index.
    #[must_use]
    pub fn new(copies: usize, lineage: u128) -> Self {
        Self {
            copies,
            lineage,
            cache_bytes: 64 << 20,
            pinned_bytes: 256 << 20,
        }
    }
}

/// The status of an index of runs.
#[derive(Clone, Debug, Default)]
pub struct RunStatus {
    /// The last batch that is in it.
    pub applied: Seq,
    /// Number of its manifest.
    pub number: u64,
    /// Runs.
    pub runs: usize,
    /// Entries in all runs; a key that is in several runs counts several times.
    pub entries: u64,
    /// Deletions among them.
    pub deletions: u64,
    /// Bytes of all runs, one copy of each.
    pub bytes: u64,
    /// Disks that should hold it.
    pub copies_wanted: usize,
    /// Disks that can be read and hold all of it.
    pub copies: usize,
    /// The disks that hold it.
    pub holders: Vec<DiskId>,
    /// Merges under way.
    pub merging: usize,
    /// Merges done since it was opened.
    pub merges: u64,
    /// Bytes of runs made from batches since it was opened, one copy of each.
    pub bytes_applied: u64,
    /// Bytes of runs made by merges since it was opened, one copy of each.
    pub bytes_merged: u64,
    /// Bad pieces of copies since it was opened.
    pub bad_pieces: u64,
    /// Bad pieces that were repaired.
    pub healed: u64,
    /// Bytes of memory for caches and directories.
    pub memory_bytes: usize,
}

/// An index of sorted runs; see the module. Dropping it ends merging; views stay valid.
pub struct RunIndex {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    config: RunConfig,
    shared: Arc<RunContext>,
    current: RwLock<Arc<Version>>,
    /// See [`Index::kept`].
    kept: AtomicU64,
    books: tokio::sync::Mutex<ManifestStore>,
    /// The disks that have the current manifest, for readers while a change is under way.
    placed: RwLock<Vec<IndexDisk>>,
    applying: tokio::sync::Mutex<()>,
    merges: Mutex<MergeScheduler>,
    /// Changes when a state became current or a merge ended.
    progress: watch::Sender<u64>,
    stop: AtomicBool,
}

impl RunIndex {
    /// Makes an index that is empty after batch `applied`, and removes the files of an earlier
    /// index from these disks. The first disks that can be written become its holders.
    ///
    /// # Errors
    /// `Unavailable` or `NoSpace` when fewer disks than copies can be written.
    pub async fn create(
        env: Env,
        disks: Vec<(DiskId, Arc<dyn Disk>)>,
        config: RunConfig,
        applied: Seq,
    ) -> Result<Self> {
        let inner = open::create(env, disks, config, applied).await?;
        Ok(Self { inner })
    }

    /// Opens the newest complete index of the lineage on the present disks, in order of preference,
    /// and completes its copies as far as the disks allow.
    ///
    /// # Errors
    /// `NotFound` when no disk has one; `Corrupt` or `Unavailable` when none is complete. The index
    /// must then be rebuilt from the journal or another source.
    pub async fn open(
        env: Env,
        disks: Vec<(DiskId, Arc<dyn Disk>)>,
        config: RunConfig,
    ) -> Result<Self> {
        let inner = open::open(env, disks, config).await?;
        merge::start(&inner);
        Ok(Self { inner })
    }

    /// The last batch that [`RunIndex::open`] would find in the index on these disks. Changes nothing.
    ///
    /// # Errors
    /// As [`RunIndex::open`].
    pub async fn probe(disks: Vec<(DiskId, Arc<dyn Disk>)>, config: &RunConfig) -> Result<Seq> {
        open::probe(disks, config).await
    }

    /// Sets the usable disks, in order of preference. A holder that is not among them, or cannot be
    /// written, is replaced: its copies are made on other disks before this returns. They are made
    /// from the old holder if no other copy is left.
    ///
    /// # Errors
    /// `Unavailable` or `NoSpace` when there are too few disks for all copies. The list is accepted
    /// nevertheless, and the present content is served.
    pub async fn set_disks(&self, disks: Vec<(DiskId, Arc<dyn Disk>)>) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        finish(tokio::spawn(async move { inner.change_disks(disks).await })).await
    }

    /// Disks that can be read now and hold all of it; one less may be lost. Waits for nothing, even
    /// while copies are being made.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.inner.copies()
    }

    /// Disks that should hold it.
    #[must_use]
    pub fn copies_wanted(&self) -> usize {
        self.inner.config.copies
    }

    /// The disks that held it when it was last changed.
    #[must_use]
    pub fn holders(&self) -> Vec<DiskId> {
        let placed = self.inner.placed.read();
        placed.iter().map(|member| member.id).collect()
    }

    /// Opens the files of disks anew that were absent, and checks that the files of all copies
    /// still exist under their names. A disk on which a file is missing is no holder any more and
    /// is returned. A file is missing when somebody removed it, or when the disk came back with
    /// older content. A removed file can be read as long as it is open, so call
    /// [`RunIndex::set_disks`] soon, which copies the file to other disks.
    pub async fn look(&self) -> Vec<DiskId> {
        self.inner.look().await
    }

    /// The status of the index.
    pub async fn status(&self) -> RunStatus {
        self.inner.status().await
    }

    /// The files of the index on a disk, including those that only an older view still reads. For
    /// the search for leftovers.
    #[must_use]
    pub fn files(&self, disk: DiskId) -> Vec<String> {
        let live = self.inner.shared.chores.live();
        let runs = live.iter().filter(|run| run.is_on(disk));
        let mut files: Vec<String> = runs.map(|run| sorted_run::path_of(run.meta.id)).collect();
        files.push(manifest_store::manifest_path());
        files
    }

    /// Returns when there is nothing to merge (or merging failed).
    pub async fn settle(&self) {
        let mut progress = self.inner.progress.subscribe();
        loop {
            progress.borrow_and_update();
            if !merge::is_busy(&self.inner) {
                return;
            }
            // The sender lives in `self`.
            let _ = progress.changed().await;
        }
    }

    /// Ends merging and returns when nothing is under way any more.
    pub async fn stop(&self) {
        self.inner.stop.store(true, Ordering::Relaxed);
        let mut progress = self.inner.progress.subscribe();
        let idle = |_: &u64| self.inner.merges.lock().running == 0;
        // The sender lives in `self`.
        let _ = progress.wait_for(idle).await;
        let _books = self.inner.books.lock().await;
    }

    /// Reads every copy of every run completely, and repairs bad pieces from another copy. Returns
    /// the number of bad pieces. For a periodic scrub.
    ///
    /// # Errors
    /// When a piece is bad in all copies, or no disk that has it can be read. All other pieces were
    /// read and repaired nevertheless.
    pub async fn verify(&self) -> Result<u64> {
        let counters = &self.inner.shared.counters;
        let before = counters.bad_pieces.load(Ordering::Relaxed);
        let mut verified = Ok(());
        for run in &self.inner.version().runs {
            let run = run.verify().await;
            verified = verified.and(run);
        }
        verified?;
        Ok(counters.bad_pieces.load(Ordering::Relaxed) - before)
    }

    /// Number of pieces of which no copy was good at the last read, and that were not repaired
    /// since. The index continues with the bytes in memory. It could not be opened again, or not be
    /// read completely.
    #[must_use]
    pub fn lost_pieces(&self) -> usize {
        let version = self.inner.version();
        version.runs.iter().map(|run| run.lost().len()).sum()
    }

    /// Tries some of these pieces again. A disk with a good copy may be back, or the bytes in
    /// memory can perhaps be written now.
    pub async fn retry_lost(&self) {
        let version = self.inner.version();
        let lost = version.runs.iter();
        let lost = lost.flat_map(|run| run.lost().into_iter().map(move |piece| (run, piece)));
        for (run, piece) in lost.take(RETRIED_MAX) {
            if run.read_to_mend(piece).await.is_ok() {
                // What cannot be mended is told by whoever tries.
                let _ = run.verify_pieces(&[piece]).await;
            }
        }
    }
}

impl Drop for RunIndex {
    fn drop(&mut self) {
        self.inner.stop.store(true, Ordering::Relaxed);
    }
}

impl Index for RunIndex {
    fn view(&self) -> Arc<dyn IndexView> {
        self.inner.version()
    }

    fn apply(&self, entries: Vec<Entry>, upto: Seq) -> BoxFuture<'_, Result<()>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            finish(tokio::spawn(
                async move { inner.take_in(entries, upto).await },
            ))
            .await
        })
    }

    fn applied(&self) -> Seq {
        self.inner.current.read().applied
    }

    fn kept(&self) -> Seq {
        self.inner.kept.load(Ordering::Relaxed)
    }
}

async fn finish(task: tokio::task::JoinHandle<Result<()>>) -> Result<()> {
    let ended = task.await;
    ended.unwrap_or_else(|error| {
        let message = "a task of the catalog index ended early";
        Err(Error::with_source(ErrorKind::Internal, message, error))
    })
}

impl Inner {
    fn new(
        env: Env,
        config: RunConfig,
        shared: Arc<RunContext>,
        version: Version,
        books: ManifestStore,
    ) -> Self {
        Self {
            env,
            config,
            shared,
            current: RwLock::new(Arc::new(version)),
            kept: AtomicU64::new(0),
            placed: RwLock::new(books.placed()),
            books: tokio::sync::Mutex::new(books),
            applying: tokio::sync::Mutex::default(),
            merges: Mutex::default(),
            progress: watch::Sender::new(0),
            stop: AtomicBool::new(false),
        }
    }

    fn version(&self) -> Arc<Version> {
        Arc::clone(&self.current.read())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    async fn take_in(self: &Arc<Self>, entries: Vec<Entry>, upto: Seq) -> Result<()> {
        let _alone = self.applying.lock().await;
        check_batch(&entries, upto, self.version().applied)?;
        for (key, value) in &entries {
            build::check_entry(key, value.as_deref())?;
        }
        self.merges.lock().failed = false;
        merge::start(self);
        self.wait_for_room().await;
        for _ in 0..ATTEMPTS_MAX {
            if self.attempt(&entries, upto).await? {
                merge::start(self);
                return Ok(());
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "the disks of the catalog index change all the time",
        ))
    }

    /// Merging goes on at its pace; a batch waits only where it falls far behind.
    async fn wait_for_room(&self) {
        let mut progress = self.progress.subscribe();
        loop {
            progress.borrow_and_update();
            let version = self.version();
            let fresh = version.runs.iter().take_while(|run| run.meta.level == 0);
            if fresh.count() < FRESH_RUNS_MAX || !merge::is_busy(self) || self.stopped() {
                return;
            }
            // The sender lives in `self`.
            let _ = progress.changed().await;
        }
    }

    /// Writes a batch and makes it current; whether the disks stayed the same meanwhile.
    async fn attempt(self: &Arc<Self>, entries: &[Entry], upto: Seq) -> Result<bool> {
        let (generation, targets) = {
            let books = self.books.lock().await;
            (books.generation, self.targets(&books)?)
        };
        let run = if entries.is_empty() {
            None
        } else {
            Some(self.write_run(entries, &targets).await?)
        };
        let mut books = self.books.lock().await;
        if books.generation != generation {
            run.inspect(|run| run.retire());
            return Ok(false);
        }
        let bytes = run.as_ref().map_or(0, |run| run.meta.len);
        let current = self.version();
        let next = Version {
            runs: run
                .into_iter()
                .chain(current.runs.iter().cloned())
                .collect(),
            applied: upto,
        };
        self.install(&mut books, next).await?;
        let counters = &self.shared.counters;
        counters.bytes_applied.fetch_add(bytes, Ordering::Relaxed);
        Ok(true)
    }

    async fn write_run(&self, entries: &[Entry], targets: &[IndexDisk]) -> Result<Arc<SortedRun>> {
        let chores = &self.shared.chores;
        let writing = chores.begin(&*self.env.rng);
        let mut writer = CopyWriter::create(writing.run, targets, chores).await;
        let mut builder = RunBuilder::new(writing.run);
        for some in entries.chunks(STEPS_BETWEEN_YIELDS) {
            for (key, value) in some {
                builder.add(key, value.as_deref());
            }
            if builder.ready() >= WRITE_BYTES
                && let Err(error) = writer.write(builder.take()).await
            {
                writer.abandon().await;
                return Err(error);
            }
            tokio::task::yield_now().await;
        }
        let (last, meta, directory) = builder.finish(0)?;
        if let Err(error) = writer.write(last).await {
            writer.abandon().await;
            return Err(error);
        }
        let copies = writer.finish().await?;
        let run = Arc::new(SortedRun::new(
            meta,
            directory,
            copies,
            Arc::clone(&self.shared),
        ));
        self.shared.chores.register(&run);
        Ok(run)
    }

    /// Whether as many disks as should hold everything, and can be written.
    fn is_complete(&self, books: &ManifestStore) -> bool {
        let version = self.version();
        let good = |id: &&DiskId| {
            let member = books.disks.iter().find(|m| m.id == **id);
            member.is_some_and(|m| m.disk.state().writable())
                && version.runs.iter().all(|run| run.is_on(**id))
        };
        books.holders.len() == self.config.copies
            && books.holders.iter().filter(good).count() == self.config.copies
    }

    async fn change_disks(self: &Arc<Self>, disks: Vec<(DiskId, Arc<dyn Disk>)>) -> Result<()> {
        let mut books = self.books.lock().await;
        let disks = disks.into_iter().map(|(id, disk)| IndexDisk { id, disk });
        let disks: Vec<IndexDisk> = disks.collect();
        let old = std::mem::replace(&mut books.disks, disks);
        books.generation += 1;
        *self.placed.write() = books.placed();
        let version = self.version();
        let was_there = |m: &&IndexDisk| {
            let same = |o: &IndexDisk| o.id == m.id && Arc::ptr_eq(&o.disk, &m.disk);
            old.iter().any(same)
        };
        let joined = books.disks.iter().filter(|m| !was_there(m));
        let joined: Vec<IndexDisk> = joined.cloned().collect();
        // New copies come before old ones go: readers find one at any moment.
        for member in &joined {
            open::adopt(self, member, &version).await;
        }
        for run in self.shared.chores.live() {
            manifest_store::count_only(&run, &books.disks);
        }
        let complete = self.is_complete(&books);
        if complete {
            self.kept.store(version.applied, Ordering::Relaxed);
            for run in &version.runs {
                for gone in run.retain_copies(|copy| books.holders.contains(&copy.id)) {
                    self.shared.chores.sweep(gone.id, &gone.disk);
                }
            }
        }
        for member in &joined {
            open::sweep(self, &books, member).await;
        }
        if complete {
            return Ok(());
        }
        let same = Version {
            runs: version.runs.clone(),
            applied: version.applied,
        };
        self.install(&mut books, same).await
    }

    async fn look(&self) -> Vec<DiskId> {
        // Held, so that no change of ours is taken for somebody else's.
        let mut books = self.books.lock().await;
        let version = self.version();
        let mut lost = Vec::new();
        for member in books.placed() {
            if !member.disk.state().readable() {
                continue;
            }
            let path = manifest_store::manifest_path();
            let manifest = member.disk.open(&path, Access::Read).await;
            let mut gone =
                matches!(manifest, Err(error) if error.kind() == DiskErrorKind::NotFound);
            for run in &version.runs {
                gone |= run.look_on(member.id).await;
            }
            let was_away = version.runs.iter().any(|run| run.is_stale_on(member.id));
            if !gone && was_away {
                dewar_env::coverage_mark("files of the index were opened anew after an absence");
                if !open::reopen(self, &member, &version).await {
                    let disk = member.disk.label();
                    tracing::info!(
                        disk,
                        "a disk that was away lacks the state of the catalog index"
                    );
                    lost.push(member.id);
                }
            }
            if gone {
                dewar_env::coverage_mark("files of the index were lost while it ran");
                let disk = member.disk.label();
                tracing::warn!(disk, "somebody removed files of the catalog index");
                lost.push(member.id);
            }
        }
        if !lost.is_empty() {
            books.holders.retain(|id| !lost.contains(id));
            *self.placed.write() = books.placed();
        }
        lost
    }

    fn copies(&self) -> usize {
        let version = self.version();
        let holds = |member: &&IndexDisk| {
            member.disk.state().readable() && version.runs.iter().all(|run| run.is_on(member.id))
        };
        self.placed.read().iter().filter(holds).count()
    }

    async fn status(&self) -> RunStatus {
        let books = self.books.lock().await;
        let version = self.version();
        let sum = |of: fn(&SortedRun) -> u64| version.runs.iter().map(|run| of(run)).sum::<u64>();
        let shared = &self.shared;
        let counters = &shared.counters;
        let directories = counters.directory_bytes.load(Ordering::Relaxed);
        RunStatus {
            applied: version.applied,
            number: books.number,
            runs: version.runs.len(),
            entries: sum(|run| run.meta.entries),
            deletions: sum(|run| run.meta.deletions),
            bytes: sum(|run| run.meta.len),
            copies_wanted: self.config.copies,
            copies: self.copies(),
            holders: books.holders.clone(),
            merging: self.merges.lock().running,
            merges: counters.merges.load(Ordering::Relaxed),
            bytes_applied: counters.bytes_applied.load(Ordering::Relaxed),
            bytes_merged: counters.bytes_merged.load(Ordering::Relaxed),
            bad_pieces: counters.bad_pieces.load(Ordering::Relaxed),
            healed: counters.healed.load(Ordering::Relaxed),
            memory_bytes: shared.blocks.bytes()
                + shared.partitions.bytes()
                + usize::try_from(directories).unwrap_or(usize::MAX),
        }
    }
}
