//! Background work: removing files that nobody uses any more, and repairing bad pieces.
//!
//! One task does this work. It ends when the index and all its views are gone. If a disk does not
//! let a file be removed, the disk is swept when it can be written again. By then a new copy may
//! have been written under the same path, so the files to remove are determined at that time. Work
//! that a crash interrupts is done when the index is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use dewar_env::{Access, Disk, DiskErrorKind, Rng};
use dewar_types::{DiskId, Error, Result};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::Inner;
use super::format::Piece;
use super::manifest_store::ManifestStore;
use super::sorted_run::{FOLDER, SortedRun, path_of, run_of};

/// Bad pieces waiting to be mended; more are found again when they are read again.
const HEALS_MAX: usize = 1024;

/// How often it is looked whether a disk can be swept that could not be.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// Something to do later.
pub(super) enum GcTask {
    /// Removes the files of a run that was removed from the index.
    Remove {
        run: u64,
        disks: Vec<(DiskId, Arc<dyn Disk>)>,
    },
    /// Removes the unneeded files of a disk.
    Sweep { disk: DiskId, at: Arc<dyn Disk> },
    /// Rewrites a piece on one disk.
    Heal {
        run: u64,
        disk: DiskId,
        piece: Piece,
    },
}

/// Where chores go, and which runs there are.
#[derive(Clone)]
pub(super) struct GcTasks {
    queue: mpsc::UnboundedSender<GcTask>,
    register: Arc<RunRegistry>,
}

#[derive(Default)]
pub(super) struct RunRegistry {
    runs: Mutex<BTreeMap<u64, Weak<SortedRun>>>,
    healing: Mutex<BTreeSet<(u64, DiskId, u64)>>,
    /// Runs that are being written and are not registered yet.
    writing: Mutex<BTreeSet<u64>>,
    /// Disks that may have leftovers.
    unswept: Mutex<BTreeMap<DiskId, Arc<dyn Disk>>>,
    index: OnceLock<Weak<Inner>>,
}

/// A run that is being written: its files are no leftovers until this is dropped.
pub(super) struct UnfinishedRun {
    register: Arc<RunRegistry>,
    /// Its id, which no run has.
    pub(super) run: u64,
}

impl Drop for UnfinishedRun {
    fn drop(&mut self) {
        self.register.writing.lock().remove(&self.run);
    }
}

impl GcTasks {
    /// The place for chores, and the task's end of it.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<GcTask>) {
        let (queue, chores) = mpsc::unbounded_channel();
        let register = Arc::default();
        (Self { queue, register }, chores)
    }

    /// Adds one. Removals are as many as runs, mends are bounded.
    pub(super) fn add(&self, chore: GcTask) {
        // Without the task there is nothing to tidy up for.
        let _ = self.queue.send(chore);
    }

    /// Has a piece mended, once.
    pub(super) fn heal(&self, run: u64, disk: DiskId, piece: Piece) {
        let mut healing = self.register.healing.lock();
        if healing.len() < HEALS_MAX && healing.insert((run, disk, piece.offset)) {
            self.add(GcTask::Heal { run, disk, piece });
        }
    }

    /// Makes a run known.
    pub(super) fn register(&self, run: &Arc<SortedRun>) {
        let mut runs = self.register.runs.lock();
        runs.retain(|_, run| run.strong_count() > 0);
        runs.insert(run.meta.id, Arc::downgrade(run));
    }

    /// Begins a run under an id that no run has. To be held until the run is registered.
    pub(super) fn begin(&self, rng: &dyn Rng) -> UnfinishedRun {
        let runs = self.register.runs.lock();
        loop {
            let run = rng.u64();
            if !runs.contains_key(&run) && self.register.writing.lock().insert(run) {
                let register = Arc::clone(&self.register);
                return UnfinishedRun { register, run };
            }
        }
    }

    /// Something may have been left on a disk: it is swept as soon as that can be.
    pub(super) fn sweep(&self, disk: DiskId, at: &Arc<dyn Disk>) {
        let at = Arc::clone(at);
        self.add(GcTask::Sweep { disk, at });
    }

    /// Whose runs these are: nothing is swept before that is known.
    pub(super) fn belong_to(&self, index: &Arc<Inner>) {
        // Each index has its own.
        let _ = self.register.index.set(Arc::downgrade(index));
    }

    /// All runs that somebody uses, those of old views included.
    pub(super) fn live(&self) -> Vec<Arc<SortedRun>> {
        let runs = self.register.runs.lock();
        runs.values().filter_map(Weak::upgrade).collect()
    }

    /// The register, for the task, which must not keep the queue open.
    pub(super) fn registered(&self) -> Arc<RunRegistry> {
        Arc::clone(&self.register)
    }
}

/// Works until nobody can add chores any more.
pub(super) async fn keep(mut chores: mpsc::UnboundedReceiver<GcTask>, register: Arc<RunRegistry>) {
    loop {
        let chore = match register.unswept.lock().is_empty() {
            true => None,
            false => Some(SWEEP_EVERY),
        };
        let chore = match chore {
            None => chores.recv().await,
            Some(patience) => match tokio::time::timeout(patience, chores.recv()).await {
                Ok(chore) => chore,
                Err(_) => {
                    sweep_again(&register).await;
                    continue;
                }
            },
        };
        let Some(chore) = chore else { return };
        match chore {
            GcTask::Remove { run, disks } => {
                for (id, disk) in disks {
                    if !remove(&*disk, &path_of(run)).await {
                        register.unswept.lock().insert(id, disk);
                    }
                }
            }
            GcTask::Sweep { disk, at } => {
                register.unswept.lock().insert(disk, at);
                sweep_again(&register).await;
            }
            GcTask::Heal { run, disk, piece } => {
                let live = register.runs.lock().get(&run).and_then(Weak::upgrade);
                if let Some(run) = live {
                    heal(&run, disk, piece).await;
                }
                register.healing.lock().remove(&(run, disk, piece.offset));
            }
        }
    }
}

/// Removes a file; whether it is gone.
pub(super) async fn remove(disk: &dyn Disk, path: &str) -> bool {
    match disk.remove(path).await {
        Ok(()) => true,
        Err(error) if error.kind() == DiskErrorKind::NotFound => true,
        Err(error) => {
            tracing::debug!(%error, "a file of the catalog index stays for now");
            false
        }
    }
}

/// Sweeps the disks that could not be swept and can be now.
async fn sweep_again(register: &RunRegistry) {
    // Held while it is looked which runs are in use: when an index is closed its runs end, and their
    // files stay.
    let Some(inner) = register.index.get().and_then(Weak::upgrade) else {
        return;
    };
    let unswept = register.unswept.lock().clone();
    for (id, disk) in unswept {
        let known = inner.books.lock().await.knows(id, &disk);
        let swept = match known {
            true if !disk.state().writable() => false,
            true => sweep(&inner, id, &disk, None).await,
            // It is swept when it is taken in (again).
            false => true,
        };
        if swept {
            let mut unswept = register.unswept.lock();
            if unswept.get(&id).is_some_and(|at| Arc::ptr_eq(at, &disk)) {
                unswept.remove(&id);
            }
        }
    }
}

/// Removes the files of runs on a disk that nobody needs there; whether nothing is left.
/// `manifest_store` says that the caller holds the books.
pub(super) async fn sweep(
    inner: &Inner,
    id: DiskId,
    disk: &Arc<dyn Disk>,
    books: Option<&ManifestStore>,
) -> bool {
    let listed = match disk.list(FOLDER).await {
        Ok(listed) => listed,
        Err(error) if error.kind() == DiskErrorKind::NotFound => return true,
        Err(error) => {
            tracing::debug!(%error, "a folder of the catalog index cannot be listed");
            return false;
        }
    };
    let register = inner.shared.chores.registered();
    for entry in listed {
        let path = format!("{FOLDER}/{}", entry.name);
        if entry.is_dir || !entry.name.ends_with(".run") {
            continue;
        }
        // No run is copied to a disk meanwhile, which may be under the path of a leftover.
        let held = match books {
            Some(_) => None,
            None => Some(inner.books.lock().await),
        };
        let needed = run_of(&entry.name).is_some_and(|run| {
            let live = register.runs.lock().get(&run).and_then(Weak::upgrade);
            live.is_some_and(|run| run.is_on(id)) || register.writing.lock().contains(&run)
        });
        if !needed {
            if !remove(&**disk, &path).await {
                return false;
            }
            dewar_env::coverage_mark("a leftover of the index was removed");
        }
        drop(held);
    }
    true
}

async fn heal(run: &Arc<SortedRun>, disk: DiskId, piece: Piece) {
    let copies = run.copies();
    let Some(copy) = copies.iter().find(|copy| copy.id == disk && !copy.lost) else {
        return;
    };
    let healed: Result<bool> = async {
        let good = run.read_to_mend(piece).await?;
        let path = path_of(run.meta.id);
        let file = copy.disk.open(&path, Access::Write).await?;
        file.write_at(piece.offset, vec![good]).await?;
        file.sync().await?;
        let len = usize::try_from(piece.len).unwrap_or(usize::MAX);
        let back = copy.file.read_at(piece.offset, len).await?;
        Ok::<_, Error>(piece.verifies(run.meta.id, &back))
    }
    .await;
    let label = copy.disk.label();
    let path = path_of(run.meta.id);
    match healed {
        Ok(true) => {
            run.mended(piece);
            run.shared().counters.healed.fetch_add(1, Ordering::Relaxed);
            tracing::info!(
                disk = label,
                path,
                offset = piece.offset,
                "mended a piece of the catalog index"
            );
        }
        // The copy counts no longer; the next change of the index makes another.
        Ok(false) => {
            tracing::warn!(
                disk = label,
                path,
                "a bad piece of the catalog index cannot be mended"
            );
            run.retain_copies(|other| other.id != disk);
        }
        Err(error) => {
            tracing::warn!(disk = label, path, %error, "a bad piece of the catalog index is not mended yet");
        }
    }
}
