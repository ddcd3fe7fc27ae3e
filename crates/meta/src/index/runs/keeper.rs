//! What is done later: removing files nobody uses any more, and mending bad pieces.
//!
//! One task, which ends when the index and all its views are gone. A removal that a crash cuts
//! off is made up for when the index is opened again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use dewar_env::{Access, Disk, DiskErrorKind, Rng};
use dewar_types::{DiskId, Error, Result};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::format::Piece;
use super::run::{Run, path_of};

/// Bad pieces waiting to be mended; more are found again when they are read again.
const HEALS_MAX: usize = 1024;

/// Something to do later.
pub(super) enum Chore {
    /// Removes a file.
    Remove {
        disks: Vec<Arc<dyn Disk>>,
        path: String,
    },
    /// Writes a piece anew on one disk.
    Heal {
        run: u64,
        disk: DiskId,
        piece: Piece,
    },
}

/// Where chores go, and which runs there are.
#[derive(Clone)]
pub(super) struct Chores {
    queue: mpsc::UnboundedSender<Chore>,
    register: Arc<Register>,
}

#[derive(Default)]
pub(super) struct Register {
    runs: Mutex<BTreeMap<u64, Weak<Run>>>,
    healing: Mutex<BTreeSet<(u64, DiskId, u64)>>,
}

impl Chores {
    /// The place for chores, and the task's end of it.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Chore>) {
        let (queue, chores) = mpsc::unbounded_channel();
        let register = Arc::default();
        (Self { queue, register }, chores)
    }

    /// Adds one. Removals are as many as runs, mends are bounded.
    pub(super) fn add(&self, chore: Chore) {
        // Without the task there is nothing to tidy up for.
        let _ = self.queue.send(chore);
    }

    /// Has a piece mended, once.
    pub(super) fn heal(&self, run: u64, disk: DiskId, piece: Piece) {
        let mut healing = self.register.healing.lock();
        if healing.len() < HEALS_MAX && healing.insert((run, disk, piece.offset)) {
            self.add(Chore::Heal { run, disk, piece });
        }
    }

    /// Makes a run known.
    pub(super) fn register(&self, run: &Arc<Run>) {
        let mut runs = self.register.runs.lock();
        runs.retain(|_, run| run.strong_count() > 0);
        runs.insert(run.meta.id, Arc::downgrade(run));
    }

    /// An id that no run has.
    pub(super) fn fresh_id(&self, rng: &dyn Rng) -> u64 {
        let runs = self.register.runs.lock();
        loop {
            let id = rng.u64();
            if !runs.contains_key(&id) {
                return id;
            }
        }
    }

    /// All runs that somebody uses, those of old views included.
    pub(super) fn live(&self) -> Vec<Arc<Run>> {
        let runs = self.register.runs.lock();
        runs.values().filter_map(Weak::upgrade).collect()
    }

    /// The register, for the task, which must not keep the queue open.
    pub(super) fn registered(&self) -> Arc<Register> {
        Arc::clone(&self.register)
    }
}

/// Works until nobody can add chores any more.
pub(super) async fn keep(mut chores: mpsc::UnboundedReceiver<Chore>, register: Arc<Register>) {
    while let Some(chore) = chores.recv().await {
        match chore {
            Chore::Remove { disks, path } => {
                for disk in disks {
                    remove(&*disk, &path).await;
                }
            }
            Chore::Heal { run, disk, piece } => {
                let live = register.runs.lock().get(&run).and_then(Weak::upgrade);
                if let Some(run) = live {
                    heal(&run, disk, piece).await;
                }
                register.healing.lock().remove(&(run, disk, piece.offset));
            }
        }
    }
}

/// Removes a file; what cannot be removed now is found when the index is opened.
pub(super) async fn remove(disk: &dyn Disk, path: &str) {
    match disk.remove(path).await {
        Ok(()) => {}
        Err(error) if error.kind() == DiskErrorKind::NotFound => {}
        Err(error) => tracing::debug!(%error, "a file of the catalog index stays for now"),
    }
}

async fn heal(run: &Arc<Run>, disk: DiskId, piece: Piece) {
    let copies = run.copies();
    let Some(copy) = copies.iter().find(|copy| copy.id == disk) else {
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
