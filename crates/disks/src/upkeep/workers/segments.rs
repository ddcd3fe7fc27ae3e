//! The workers of segments, which hold small objects.

use dewar_env::worker::{PauseGate, WorkOutcome, Worker};
use dewar_types::Result;

use crate::disks::SharedDisks;

/// Writes full segments to the disks.
pub(super) struct SealWorker(pub(super) SharedDisks);

impl Worker for SealWorker {
    const NAME: &'static str = "segment-seal";

    async fn work(&mut self, _: &PauseGate) -> Result<WorkOutcome> {
        let sealed = self.0.segments.seal_next().await?;
        Ok(WorkOutcome::progress_if(sealed))
    }

    async fn wait(&mut self) {
        self.0.segments.sealable().await;
    }
}

/// Closes segments that are not full while the journal fills up.
pub(super) struct CloseWorker(pub(super) SharedDisks);

impl Worker for CloseWorker {
    const NAME: &'static str = "segment-close";

    async fn work(&mut self, _: &PauseGate) -> Result<WorkOutcome> {
        self.0.segments.release();
        if self.0.table.pressed() {
            self.0.segments.close_current();
        }
        Ok(WorkOutcome::Idle)
    }
}

/// Writes the rest of segments anew when much of them is dead.
pub(super) struct CompactWorker(pub(super) SharedDisks);

impl Worker for CompactWorker {
    const NAME: &'static str = "segment-compaction";

    async fn work(&mut self, _: &PauseGate) -> Result<WorkOutcome> {
        let bytes = self.0.segments.compact_step().await?;
        if bytes > 0 {
            tracing::debug!(bytes, "compacted");
        }
        Ok(WorkOutcome::progress_if(bytes > 0))
    }
}
