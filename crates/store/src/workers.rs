//! The background work of a store: that of its disks, and the workers that need names.

use std::sync::Arc;

use dewar_env::worker::{PauseGate, WorkOutcome, Worker, WorkerRegistry};
use dewar_namespace::FreeingStep;
use dewar_types::{BlobId, Result};

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
    add(&mut workers, inner, RemovalWorker);
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

/// Frees the content of directories that were removed in one step.
struct RemovalWorker(SharedStore);

impl Worker for RemovalWorker {
    const NAME: &'static str = "removed-directories";

    async fn work(&mut self, gate: &PauseGate) -> Result<WorkOutcome> {
        let tree = &self.0.tree;
        let mut failure = None;
        let mut outcome = WorkOutcome::Idle;
        for dir in tree.removed_dirs().await? {
            loop {
                gate.pass().await;
                match tree.free_removed(dir).await {
                    Ok(FreeingStep::Freed(_)) => outcome = WorkOutcome::Progress,
                    Ok(FreeingStep::Done | FreeingStep::Lost) => break,
                    // The others do not wait for one whose records are damaged.
                    Err(error) => {
                        failure = Some(error);
                        break;
                    }
                }
            }
        }
        failure.map_or(Ok(outcome), Err)
    }
}
