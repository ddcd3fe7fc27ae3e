//! The background work of a store, as workers of one [`WorkerRegistry`].
//!
//! The workers of upkeep are in [`crate::upkeep`], those of lifecycle, quotas and key rotation
//! beside what they work on, and the others here. A step that fails costs time and never data.

mod free;
mod segments;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use dewar_env::worker::{PauseGate, WorkOutcome, Worker, WorkerRegistry};
use dewar_types::{BlobId, Result};

use crate::key_rotation::RewrapWorker;
use crate::lifecycle::LifecycleWorker;
use crate::quota::QuotaCountWorker;
use crate::upkeep::{
    BadShardWorker, PresenceWorker, RepairWorker, ReturnedDiskWorker, ScrubWorker,
};
use crate::{SharedStore, Store};

use free::FreeWorker;
use segments::{CloseWorker, CompactWorker, SealWorker};
use sweep::SweepWorker;

/// Blobs freed, or empty directories checked, in one step.
const STEP: usize = 256;

/// Starts the workers of a store. `first_new` is the first blob id that this opening of the store
/// assigns. The sweep does not touch blobs from this id on.
#[must_use]
pub fn start(store: &Store, first_new: BlobId) -> WorkerRegistry {
    let inner = &store.inner;
    let mut workers = WorkerRegistry::new(inner.env.clone());
    add(&mut workers, inner, SealWorker);
    add(&mut workers, inner, CloseWorker);
    add(&mut workers, inner, CompactWorker);
    add(&mut workers, inner, FreeWorker::new);
    add(&mut workers, inner, DirectoryWorker);
    add(&mut workers, inner, SpaceWorker);
    add(&mut workers, inner, PresenceWorker::new);
    add(&mut workers, inner, RepairWorker::new);
    add(&mut workers, inner, ScrubWorker);
    add(&mut workers, inner, BadShardWorker);
    add(&mut workers, inner, ReturnedDiskWorker);
    add(&mut workers, inner, LifecycleWorker::new);
    add(&mut workers, inner, QuotaCountWorker);
    add(&mut workers, inner, RewrapWorker);
    add(&mut workers, inner, move |inner| {
        SweepWorker::new(inner, first_new)
    });
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

/// Asks the disks for their free space.
struct SpaceWorker(SharedStore);

impl Worker for SpaceWorker {
    const NAME: &'static str = "space";
    const LOOK_EVERY: Duration = Duration::from_secs(5);

    async fn work(&mut self, _: &PauseGate) -> Result<WorkOutcome> {
        let blobs = &self.0.blobs;
        blobs.placement().refresh(blobs.pool()).await;
        Ok(WorkOutcome::Idle)
    }
}
