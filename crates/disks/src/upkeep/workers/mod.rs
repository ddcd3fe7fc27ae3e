//! The background work on disks.

mod free;
mod segments;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use dewar_env::worker::{PauseGate, WorkOutcome, Worker, WorkerRegistry};
use dewar_types::{BlobId, Result};

use super::bad_shards::BadShardWorker;
use super::presence::PresenceWorker;
use super::readmit::ReturnedDiskWorker;
use super::repair::RepairWorker;
use super::scrub::ScrubWorker;
use crate::disks::{Disks, SharedDisks};

use free::FreeWorker;
use segments::{CloseWorker, CompactWorker, SealWorker};
use sweep::SweepWorker;

impl Disks {
    /// Starts the workers of the disks. `first_new` is the first blob id that this opening of the
    /// store assigns. The sweep does not touch blobs from this id on.
    pub fn start_workers(self: &Arc<Self>, workers: &mut WorkerRegistry, first_new: BlobId) {
        self.start(workers, SealWorker);
        self.start(workers, CloseWorker);
        self.start(workers, CompactWorker);
        self.start(workers, FreeWorker::new);
        self.start(workers, SpaceWorker);
        self.start(workers, PresenceWorker::new);
        self.start(workers, RepairWorker::new);
        self.start(workers, ScrubWorker);
        self.start(workers, BadShardWorker);
        self.start(workers, ReturnedDiskWorker);
        self.start(workers, move |disks| SweepWorker::new(disks, first_new));
    }

    fn start<W: Worker>(
        self: &Arc<Self>,
        workers: &mut WorkerRegistry,
        make: impl Fn(SharedDisks) -> W + Send + 'static,
    ) {
        let disks = Arc::clone(self);
        workers.start(move || make(Arc::clone(&disks)));
    }
}

/// Asks the disks for their free space.
struct SpaceWorker(SharedDisks);

impl Worker for SpaceWorker {
    const NAME: &'static str = "space";
    const LOOK_EVERY: Duration = Duration::from_secs(5);

    async fn work(&mut self, _: &PauseGate) -> Result<WorkOutcome> {
        let blobs = &self.0.blobs;
        blobs.placement().refresh(blobs.pool()).await;
        Ok(WorkOutcome::Idle)
    }
}
