//! One holder: its files and the writes to it.
//!
//! A replica writer knows nothing of quorums. It gives each file number of the log a place on its
//! disk: a *slot*, which is a zero-filled file, usually a reused one. It keeps a spare slot ready,
//! and counts the operations under way. A failed operation ends the writer; its disk may come back
//! as a new one.
//!
//! Filling a file with zeros costs as much as writing it, so it is done only when no reusable file
//! is left. While the journal is opened, it is done only for a slot that a write waits for, since
//! the files of the previous epoch become free right afterwards. Later it is done ahead, in the
//! background.
//!
//! A file's header is durable before anything after it is written. A file without the expected
//! header therefore holds nothing that was acknowledged, and recovery neither reads nor keeps it.
//!
//! A slot is reused only when no write to it is under way, because a write that was given up may
//! still happen. For the same reason a disk that was dropped starts with new files. Its old files
//! of the log stay until the copies are complete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dewar_env::{Access, CreateOptions, Disk, DiskError, DiskErrorKind, DiskFile, DiskState};
use dewar_types::DiskId;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use crate::Seq;

/// The folder of journal files on every disk.
pub(crate) const JOURNAL_DIR: &str = "journal";
const SUFFIX: &str = ".log";
/// Writes handed to a disk at once; what is beyond waits here instead of filling its queue.
const WRITES_MAX: usize = 16;
/// How long a disk without room for a further file is not asked again, the first time. Room on a
/// disk makes no noise.
const PAUSE: Duration = Duration::from_secs(1);
/// The same at most: filling half a file to see that there is no room for it costs much.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A place for one file of the log.
#[derive(Debug)]
pub(crate) struct FileSlot {
    pub(crate) path: String,
    pub(crate) file: Arc<dyn DiskFile>,
}

/// A disk that takes the log.
#[derive(Debug)]
pub(crate) struct ReplicaWriter {
    pub(crate) id: DiskId,
    pub(crate) disk: Arc<dyn Disk>,
    /// State of the disk when the writer began; another count of returns means that it was absent
    /// meanwhile.
    began: DiskState,
    file_bytes: u64,
    permits: Semaphore,
    inner: Mutex<Inner>,
    /// File numbers below this one have a slot or a spare slot.
    horizon: AtomicU64,
    /// There are new spare slots, or the lane failed.
    ready: Notify,
    /// The tender has something to do.
    pub(crate) attention: Notify,
    /// It was said that the lane has failed.
    told: AtomicBool,
    /// It failed because some of its files were removed from outside.
    robbed: AtomicBool,
    /// Its files are being looked for.
    looking: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    /// The slot of each file number.
    files: BTreeMap<u64, PlacedFile>,
    /// Files below this number are not needed any more.
    freed: u64,
    spares: Vec<Arc<FileSlot>>,
    /// Slots that are free after their last write has ended.
    retired: Vec<Arc<FileSlot>>,
    /// File numbers are given out in order.
    next: u64,
    /// Number in the next new file's name.
    name: u64,
    outstanding: BTreeMap<u64, PendingWrites>,
    outstanding_bytes: usize,
    /// Old files that are still being copied here.
    missing: Vec<u64>,
    /// Files that are here and damaged.
    damaged: BTreeSet<u64>,
    /// Whether a write waits for a spare slot.
    called: bool,
    /// The disk had no space for a further file.
    full: Option<OutOfSpace>,
    failed: Option<String>,
}

/// A disk without room for a further file.
#[derive(Clone, Copy, Debug)]
struct OutOfSpace {
    /// When it is tried again.
    again_at: Duration,
    pause: Duration,
    /// Free space as the device reported it.
    available: Option<u64>,
}

#[derive(Debug)]
struct PlacedFile {
    slot: Arc<FileSlot>,
    /// Its header is durable.
    begun: bool,
}

/// Where a write goes.
enum WriteTarget {
    FileSlot(Arc<FileSlot>),
    /// There is no slot to take yet, or its header is not durable yet.
    Wait,
    /// The file is not needed any more.
    Freed,
}

#[derive(Debug)]
struct PendingWrites {
    last: Seq,
    bytes: usize,
    started: Duration,
}

impl ReplicaWriter {
    /// A lane that starts with what was found on its disk; see [`ReplicaWriter::begin_at`].
    pub(crate) fn new(
        id: DiskId,
        disk: Arc<dyn Disk>,
        file_bytes: u64,
        found: ReplicaInventory,
    ) -> Arc<Self> {
        let began = disk.state();
        let lane = Self {
            id,
            disk,
            began,
            file_bytes,
            permits: Semaphore::new(WRITES_MAX),
            horizon: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                spares: found.spares,
                name: found.name,
                ..Inner::default()
            }),
            ready: Notify::new(),
            attention: Notify::new(),
            told: AtomicBool::new(false),
            robbed: AtomicBool::new(false),
            looking: AtomicBool::new(false),
        };
        Arc::new(lane)
    }

    /// Gets a disk ready that becomes a holder while the journal runs: a first spare slot under a
    /// name that was never used.
    ///
    /// # Errors
    /// What the disk says.
    pub(crate) async fn prepare(
        disk: &Arc<dyn Disk>,
        file_bytes: u64,
    ) -> Result<ReplicaInventory, DiskError> {
        let mut name = 0;
        let mut leftovers = Vec::new();
        for entry in disk.list(JOURNAL_DIR).await? {
            let path = format!("{JOURNAL_DIR}/{}", entry.name);
            if let Some(number) = name_number(&path) {
                name = name.max(number + 1);
                leftovers.push(path);
            }
        }
        let spare = create(&**disk, name, file_bytes).await?;
        Ok(ReplicaInventory {
            spares: vec![spare],
            leftovers,
            name: name + 1,
        })
    }

    /// Makes the names of files durable that were found: a process that was killed may have made them
    /// and not come to it.
    pub(crate) async fn sync_names(&self) {
        if let Err(error) = self.disk.sync_dir(JOURNAL_DIR).await {
            self.fail(&error.to_string());
        }
    }

    /// Says which file number comes first.
    pub(crate) fn begin_at(&self, first: u64) {
        let mut inner = self.inner.lock();
        inner.next = inner.next.max(first);
        self.set_horizon(&inner);
    }

    /// Why the lane failed, if it did: an operation did, or its disk was away meanwhile.
    pub(crate) fn failure(&self) -> Option<String> {
        let state = self.disk.state();
        if state != self.began {
            self.fail(&format!("{}: {state:?}", self.disk.label()));
        }
        self.inner.lock().failed.clone()
    }

    /// Whether this is the first time that somebody says that it has failed.
    pub(crate) fn tell(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }

    /// Whether it failed by no fault of its disk, which is or was away or lost files to somebody.
    pub(crate) fn is_innocent(&self) -> bool {
        self.disk.state() != self.began || self.robbed.load(Ordering::Relaxed)
    }

    /// Ends the lane after an operation that failed.
    fn fail_with(&self, error: &DiskError) {
        if error.kind() == DiskErrorKind::NotFound {
            self.robbed.store(true, Ordering::Relaxed);
        }
        self.fail(&error.to_string());
    }

    /// Looks whether its files are still there under their names, and fails if not: records in a file
    /// that somebody removed are nowhere. Cheap enough for every few seconds; whether it failed.
    pub(crate) async fn look_for_files(&self) -> bool {
        if self.looking.swap(true, Ordering::Relaxed) {
            return false;
        }
        let slots: Vec<Arc<FileSlot>> = {
            let inner = self.inner.lock();
            let placed = inner.files.values().map(|placed| &placed.slot);
            placed.chain(&inner.spares).map(Arc::clone).collect()
        };
        let mut robbed = false;
        for slot in &slots {
            // What cannot be looked at now is no news. Meanwhile it may have been removed by the tender.
            if matches!(slot.file.is_in_place().await, Ok(false)) && self.has(slot) {
                dewar_env::coverage_mark("files of the journal were lost while it ran");
                self.robbed.store(true, Ordering::Relaxed);
                let label = self.disk.label();
                self.fail(&format!("somebody removed {label}/{}", slot.path));
                robbed = true;
                break;
            }
        }
        drop(slots);
        self.looking.store(false, Ordering::Relaxed);
        // What became free meanwhile was taken for busy.
        if !self.inner.lock().retired.is_empty() {
            self.attention.notify_one();
        }
        robbed
    }

    fn has(&self, slot: &Arc<FileSlot>) -> bool {
        let inner = self.inner.lock();
        let mut placed = inner.files.values().map(|placed| &placed.slot);
        placed.any(|other| Arc::ptr_eq(other, slot))
            || inner.spares.iter().any(|other| Arc::ptr_eq(other, slot))
    }

    /// Ends the lane.
    pub(crate) fn fail(&self, why: &str) {
        let mut inner = self.inner.lock();
        if inner.failed.is_none() {
            inner.failed = Some(why.to_owned());
        }
        drop(inner);
        self.ready.notify_waiters();
        self.attention.notify_one();
    }

    /// File numbers below this one can be written without waiting.
    pub(crate) fn horizon(&self) -> u64 {
        self.horizon.load(Ordering::Acquire)
    }

    /// Notes a write that is about to begin.
    pub(crate) fn begin(&self, flight: u64, last: Seq, bytes: usize, started: Duration) {
        let mut inner = self.inner.lock();
        let outstanding = PendingWrites {
            last,
            bytes,
            started,
        };
        inner.outstanding.insert(flight, outstanding);
        inner.outstanding_bytes += bytes;
    }

    /// Writes a group to its place; durable on return.
    ///
    /// # Errors
    /// What the disk says; the lane has failed then.
    pub(crate) async fn write(
        &self,
        flight: u64,
        file: u64,
        offset: u64,
        bytes: Bytes,
    ) -> Result<(), DiskError> {
        let written = async {
            let Some(slot) = self.slot(file, offset).await? else {
                return Ok(());
            };
            let _turn = self.permits.acquire().await;
            slot.file.write_durable(offset, vec![bytes]).await
        };
        let written = written.await;
        let mut inner = self.inner.lock();
        if offset == 0
            && written.is_ok()
            && let Some(placed) = inner.files.get_mut(&file)
        {
            placed.begun = true;
            self.ready.notify_waiters();
        }
        if let Some(ended) = inner.outstanding.remove(&flight) {
            inner.outstanding_bytes -= ended.bytes;
        }
        let retired = !inner.retired.is_empty();
        drop(inner);
        if let Err(error) = &written {
            self.fail_with(error);
        } else if retired {
            self.attention.notify_one();
        }
        written
    }

    /// By how much it lags behind what others have made durable: bytes, and for how long.
    pub(crate) fn lag(&self, acked: Seq, now: Duration) -> (usize, Duration) {
        let inner = self.inner.lock();
        let behind = inner
            .outstanding
            .values()
            .filter(|outstanding| outstanding.last <= acked);
        let mut lag = (0, Duration::ZERO);
        for outstanding in behind {
            lag.0 += outstanding.bytes;
            lag.1 = lag.1.max(now.saturating_sub(outstanding.started));
        }
        lag
    }

    /// The slot of a file number for a write at an offset: takes a spare one for a number that is
    /// new, and waits for it and for the file's header. `None` if the file is not needed any more.
    async fn slot(&self, file: u64, offset: u64) -> Result<Option<Arc<FileSlot>>, DiskError> {
        loop {
            let ready = self.ready.notified();
            tokio::pin!(ready);
            ready.as_mut().enable();
            match self.target(file, offset)? {
                WriteTarget::FileSlot(slot) => return Ok(Some(slot)),
                WriteTarget::Freed => return Ok(None),
                WriteTarget::Wait => ready.await,
            }
        }
    }

    /// Asks for a spare slot that is not kept ready at present.
    pub(crate) fn call(&self) {
        let mut inner = self.inner.lock();
        if inner.spares.is_empty() && !inner.called {
            inner.called = true;
            drop(inner);
            self.attention.notify_one();
        }
    }

    fn target(&self, file: u64, offset: u64) -> Result<WriteTarget, DiskError> {
        let mut inner = self.inner.lock();
        if inner.failed.is_some() {
            return Err(self.error("write"));
        }
        if let Some(placed) = inner.files.get(&file) {
            return Ok(if placed.begun || offset == 0 {
                WriteTarget::FileSlot(Arc::clone(&placed.slot))
            } else {
                WriteTarget::Wait
            });
        }
        if file < inner.freed {
            return Ok(WriteTarget::Freed);
        }
        let Some(slot) = inner.spares.pop() else {
            drop(inner);
            self.call();
            return Ok(WriteTarget::Wait);
        };
        let placed = PlacedFile {
            slot: Arc::clone(&slot),
            begun: false,
        };
        inner.files.insert(file, placed);
        inner.next = inner.next.max(file + 1);
        self.set_horizon(&inner);
        drop(inner);
        self.attention.notify_one();
        Ok(if offset == 0 {
            WriteTarget::FileSlot(slot)
        } else {
            WriteTarget::Wait
        })
    }

    /// The slot of a file number, if it has one.
    pub(crate) fn existing(&self, file: u64) -> Option<Arc<FileSlot>> {
        let inner = self.inner.lock();
        if inner.failed.is_some() || inner.missing.contains(&file) {
            return None;
        }
        inner
            .files
            .get(&file)
            .map(|placed| Arc::clone(&placed.slot))
    }

    /// This file and all before it are no longer needed.
    pub(crate) fn free(&self, file: u64) {
        {
            let mut inner = self.inner.lock();
            inner.freed = inner.freed.max(file + 1);
        }
        self.release(file);
        self.ready.notify_waiters();
    }

    /// The file is no longer needed.
    pub(crate) fn release(&self, file: u64) {
        let mut inner = self.inner.lock();
        inner.missing.retain(|missing| *missing != file);
        inner.damaged.remove(&file);
        if let Some(placed) = inner.files.remove(&file) {
            inner.retired.push(placed.slot);
            drop(inner);
            self.attention.notify_one();
        }
    }

    /// Takes a file that was found on the disk and is not needed any more.
    pub(crate) fn adopt(&self, slot: Arc<FileSlot>) {
        let mut inner = self.inner.lock();
        let known = |other: &Arc<FileSlot>| other.path == slot.path;
        let placed = inner.files.values().map(|placed| &placed.slot);
        if !placed.chain(&inner.spares).any(known) {
            inner.retired.push(slot);
            drop(inner);
            self.attention.notify_one();
        }
    }

    /// Files that a new holder does not have yet.
    pub(crate) fn set_missing(&self, files: Vec<u64>) {
        self.inner.lock().missing = files;
    }

    /// Whether a file is still to be copied here.
    pub(crate) fn misses(&self, file: u64) -> bool {
        self.inner.lock().missing.contains(&file)
    }

    /// How many files are still to be copied here, for the first time or because they are damaged.
    pub(crate) fn missing_count(&self) -> usize {
        let inner = self.inner.lock();
        inner.missing.len() + inner.damaged.len()
    }

    /// Whether something up to this record is still being written here.
    pub(crate) fn is_behind(&self, last: Seq) -> bool {
        let inner = self.inner.lock();
        let mut under_way = inner.outstanding.values();
        under_way.any(|outstanding| outstanding.last <= last)
    }

    /// A file is not what it should be.
    pub(crate) fn set_damaged(&self, file: u64, slot: &Arc<FileSlot>) {
        let mut inner = self.inner.lock();
        let placed = inner.files.get(&file);
        if placed.is_some_and(|placed| Arc::ptr_eq(&placed.slot, slot)) {
            inner.damaged.insert(file);
        }
    }

    /// Puts a good copy of a file in the place of a damaged one. If that is not needed any more, the copy
    /// takes something else; whether it was.
    pub(crate) fn replace(&self, file: u64, damaged: &Arc<FileSlot>, good: Arc<FileSlot>) -> bool {
        let mut inner = self.inner.lock();
        match inner.files.get_mut(&file) {
            Some(placed) if Arc::ptr_eq(&placed.slot, damaged) => {
                placed.slot = good;
                inner.damaged.remove(&file);
                true
            }
            _ => {
                inner.retired.push(good);
                drop(inner);
                self.attention.notify_one();
                false
            }
        }
    }

    /// A file was copied; `None` if it is not needed any more.
    pub(crate) fn copied(&self, file: u64, slot: Option<Arc<FileSlot>>) {
        let mut inner = self.inner.lock();
        let wanted = inner.missing.contains(&file);
        inner.missing.retain(|missing| *missing != file);
        match slot {
            Some(slot) if wanted => {
                inner.files.insert(file, PlacedFile { slot, begun: true });
            }
            Some(slot) => inner.retired.push(slot),
            None => {}
        }
    }

    /// A new zero-filled file that is no spare slot yet.
    pub(crate) async fn create_slot(&self) -> Result<Arc<FileSlot>, DiskError> {
        let name = {
            let mut inner = self.inner.lock();
            inner.name += 1;
            inner.name - 1
        };
        create(&*self.disk, name, self.file_bytes).await
    }

    /// Looks after the spare slots while the lane lives; gives `false` when it has failed.
    pub(crate) async fn tend(&self, stock: SpareSlots) -> bool {
        loop {
            let surplus = {
                let mut inner = self.inner.lock();
                if inner.failed.is_some() {
                    return false;
                }
                let (free, busy): (Vec<_>, Vec<_>) = std::mem::take(&mut inner.retired)
                    .into_iter()
                    .partition(|slot| Arc::strong_count(slot) == 1);
                inner.retired = busy;
                inner.spares.extend(free);
                inner.called &= inner.spares.is_empty();
                self.set_horizon(&inner);
                let keep = inner.spares.len().min(stock.most);
                inner.spares.split_off(keep)
            };
            self.ready.notify_waiters();
            for slot in surplus {
                if let Err(error) = self.disk.remove(&slot.path).await {
                    self.fail_with(&error);
                }
            }
            {
                let inner = self.inner.lock();
                if inner.spares.len() >= stock.least.max(usize::from(inner.called)) {
                    return true;
                }
            }
            if let Some(full) = self.inner.lock().full
                && stock.now < full.again_at
            {
                return true;
            }
            match self.create_slot().await {
                Ok(slot) => {
                    let mut inner = self.inner.lock();
                    inner.retired.push(slot);
                    if inner.full.take().is_some() {
                        tracing::info!(
                            disk = self.disk.label(),
                            "room for a further journal file again"
                        );
                    }
                }
                // The files that there are can still be used.
                Err(error) if error.kind() == DiskErrorKind::Full => {
                    self.note_full(&error, stock.now).await;
                    return true;
                }
                Err(error) => {
                    self.fail_with(&error);
                    return false;
                }
            }
        }
    }

    /// Says once that there is no room, and lets the disk rest, longer every time.
    async fn note_full(&self, error: &DiskError, now: Duration) {
        let available = self.disk.space().await.ok().map(|space| space.available);
        let mut inner = self.inner.lock();
        if inner.full.is_none() {
            tracing::warn!(
                %error, available, needed = self.file_bytes,
                "no room for a further journal file"
            );
        }
        let pause = inner
            .full
            .map_or(PAUSE, |full| (full.pause * 2).min(PAUSE_MAX));
        inner.full = Some(OutOfSpace {
            again_at: now + pause,
            pause,
            available,
        });
    }

    /// When it is worth trying to make the file for which its disk had no room.
    pub(crate) fn full_until(&self) -> Option<Duration> {
        self.inner.lock().full.map(|full| full.again_at)
    }

    /// What is missing on its disk, if it needs a file and there is no room for one.
    pub(crate) fn shortage(&self) -> Option<String> {
        let full = self.inner.lock().full?;
        let label = self.disk.label();
        Some(match full.available {
            Some(available) => format!("{label} ({available} bytes free)"),
            None => label.to_owned(),
        })
    }

    /// Whether its disk has no room for a file behind `current` and none is ready.
    pub(crate) fn lacks_room(&self, current: u64) -> bool {
        self.inner.lock().full.is_some() && self.horizon() <= current + 1
    }

    fn set_horizon(&self, inner: &Inner) {
        let horizon = inner.next + inner.spares.len() as u64;
        self.horizon.store(horizon, Ordering::Release);
    }

    fn error(&self, operation: &'static str) -> DiskError {
        DiskError::new(
            DiskErrorKind::Missing,
            operation,
            self.disk.label(),
            JOURNAL_DIR,
        )
    }
}

/// How many spare slots a lane keeps; one that is called for is made in any case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpareSlots {
    /// Made ahead up to so many.
    pub(crate) least: usize,
    /// Removed beyond so many.
    pub(crate) most: usize,
    /// The time.
    pub(crate) now: Duration,
}

/// What a lane starts with.
#[derive(Debug)]
pub(crate) struct ReplicaInventory {
    pub(crate) spares: Vec<Arc<FileSlot>>,
    /// Files that hold something of the log, maybe.
    pub(crate) leftovers: Vec<String>,
    /// Number in the next new file's name.
    pub(crate) name: u64,
}

/// The number in a journal file's name; `None` if the path is not one's.
pub(crate) fn name_number(path: &str) -> Option<u64> {
    let name = path.strip_prefix(JOURNAL_DIR)?.strip_prefix('/')?;
    name.strip_suffix(SUFFIX)?.parse().ok()
}

/// Opens a journal file for direct reads and writes.
pub(crate) async fn open_slot(disk: &dyn Disk, path: String) -> Result<Arc<FileSlot>, DiskError> {
    let file = disk.open(&path, Access::Direct).await?;
    Ok(Arc::new(FileSlot { path, file }))
}

async fn create(disk: &dyn Disk, name: u64, file_bytes: u64) -> Result<Arc<FileSlot>, DiskError> {
    let path = format!("{JOURNAL_DIR}/{name:08}{SUFFIX}");
    let options = CreateOptions {
        zeroed_bytes: file_bytes,
        direct: true,
    };
    // A disk that does not say what it has may yet take the file.
    if let Ok(space) = disk.space().await
        && !space.for_further_file(file_bytes)
    {
        let kind = DiskErrorKind::Full;
        return Err(DiskError::new(kind, "create", disk.label(), &path));
    }
    let file = disk.create(&path, options).await?;
    disk.sync_dir(JOURNAL_DIR).await?;
    Ok(Arc::new(FileSlot { path, file }))
}
