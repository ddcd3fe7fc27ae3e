//! The background work of a store: that of its disks, and the workers that need names.

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_env::worker::{PauseGate, WorkOutcome, Worker, WorkerRegistry, WorkerStatus};
use dewar_namespace::FreeingStep;
use dewar_types::{BlobId, EntryId, Result};

use crate::key_rotation::RewrapWorker;
use crate::lifecycle::LifecycleWorker;
use crate::quota::QuotaCountWorker;
use crate::{SharedStore, Store};

/// Directories checked in one step.
const STEP: usize = 256;

/// Starts the workers of a store. `first_new` is the first blob id that this opening of the store
/// assigns. The sweep does not touch blobs from this id on.
#[must_use]
pub fn start(store: &Store, first_new: BlobId) -> WorkerRegistry {
    let inner = &store.inner;
    let mut workers = WorkerRegistry::new(inner.env.clone());
    inner.disks.start_workers(&mut workers, first_new);
    add(&mut workers, inner, DirectoryWorker);
    add(&mut workers, inner, RemovalWorker::new);
    add(&mut workers, inner, LifecycleWorker::new);
    add(&mut workers, inner, QuotaCountWorker);
    add(&mut workers, inner, RewrapWorker);
    workers
}

fn add<W: Worker>(
    workers: &mut WorkerRegistry,
    inner: &SharedStore,
    make: impl Fn(SharedStore) -> W + Send + 'static,
) {
    let inner = Arc::clone(inner);
    workers.start(move || make(Arc::clone(&inner)));
}

/// Removes empty directories that nothing keeps.
struct DirectoryWorker(SharedStore);

impl Worker for DirectoryWorker {
    const NAME: &'static str = "empty-directories";

    async fn work(&mut self, _: &PauseGate) -> Result<WorkOutcome> {
        self.0.tree.reclaim_empty_dirs(STEP).await?;
        Ok(WorkOutcome::Idle)
    }
}

/// Steps of one removal that lose in a row before a warning. Nothing but the worker changes a removed
/// directory, so a step loses seldom.
const LOST_STEPS_WARNED: u32 = 10;

/// Frees the content of directories that were removed in one step.
struct RemovalWorker {
    store: SharedStore,
    /// Steps that lost in a row, by removal.
    lost: BTreeMap<EntryId, u32>,
    pending: Option<u64>,
}

impl RemovalWorker {
    fn new(store: SharedStore) -> Self {
        Self {
            store,
            lost: BTreeMap::new(),
            pending: None,
        }
    }

    /// A step of a removal lost.
    fn count_lost(&mut self, dir: EntryId) {
        let lost = self.lost.entry(dir).or_default();
        *lost = lost.saturating_add(1);
        if *lost == LOST_STEPS_WARNED {
            tracing::warn!(
                directory = %dir,
                steps = *lost,
                "the content of a removed directory is not freed: its records may be damaged"
            );
        }
    }
}

impl Worker for RemovalWorker {
    const NAME: &'static str = "removed-directories";

    async fn work(&mut self, gate: &PauseGate) -> Result<WorkOutcome> {
        let tree = Arc::clone(&self.store.tree);
        let mut failure = None;
        let mut outcome = WorkOutcome::Idle;
        let removed = tree.removed_dirs().await?;
        let mut left = removed.len() as u64;
        self.lost.retain(|dir, _| removed.contains(dir));
        for dir in removed {
            self.pending = Some(left);
            loop {
                gate.pass().await;
                match tree.free_removed(dir).await {
                    Ok(FreeingStep::Freed(_)) => {
                        self.lost.remove(&dir);
                        outcome = WorkOutcome::Progress;
                    }
                    Ok(FreeingStep::Done) => {
                        left = left.saturating_sub(1);
                        break;
                    }
                    Ok(FreeingStep::Lost) => {
                        self.count_lost(dir);
                        break;
                    }
                    // The others do not wait for one whose records are damaged.
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
            }
        }
        self.pending = Some(left);
        failure.map_or(Ok(outcome), Err)
    }

    fn status(&self) -> WorkerStatus {
        WorkerStatus {
            pending: self.pending,
        }
    }
}
