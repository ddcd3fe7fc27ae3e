//! Shards that reads found bad and could not decode around. They are checked as the scrub checks
//! shards, and recorded for repair and ledger if they are bad.

use std::time::Duration;

use crate::blob::{BadShard, CheckOutcome};
use dewar_env::worker::{PauseGate, WorkOutcome, Worker};
use dewar_types::Result;

use super::corruption::CorruptionLog;
use super::gc_queue::GcQueue;
use crate::disks::{Disks, SharedDisks};

/// The pause between two checks. Shards that reads find meanwhile are checked together, and logged
/// with the same limit as a pass of the scrub.
const REST: Duration = Duration::from_secs(5);

/// Checks the shards that reads found bad.
pub(crate) struct BadShardWorker(pub(crate) SharedDisks);

impl Worker for BadShardWorker {
    const NAME: &'static str = "bad-shards";

    async fn work(&mut self, gate: &PauseGate) -> Result<WorkOutcome> {
        let disks = &self.0;
        let mut freeing = GcQueue::default();
        let mut rot = CorruptionLog::new("read");
        for suspect in disks.blobs.suspects().take() {
            gate.pass().await;
            if let Err(error) = disks.look_at(suspect, &mut freeing, &mut rot).await {
                let (blob, shard) = (suspect.blob, suspect.shard);
                // The next read of it tells it anew.
                tracing::warn!(%blob, shard, %error, "a shard that a read found bad is not noted");
            }
        }
        rot.sum_up(disks);
        Ok(WorkOutcome::Idle)
    }

    async fn wait(&mut self) {
        tokio::time::sleep(REST).await;
        self.0.blobs.suspects().any().await;
    }
}

impl Disks {
    async fn look_at(
        &self,
        suspect: BadShard,
        freeing: &mut GcQueue,
        rot: &mut CorruptionLog,
    ) -> Result<()> {
        let Some(encoding) = self.table.encoding(suspect.blob).await? else {
            return Ok(());
        };
        let (record, shard) = (&encoding.record, suspect.shard);
        if record.generation != suspect.generation {
            return Ok(());
        }
        let known = self.table.finding(suspect.blob).await?.unwrap_or_default();
        if known.bad().contains(shard) {
            return Ok(());
        }
        // A cable or a cache may have been what was bad: the medium decides.
        let checked = self.blobs.check(record, shard, &self.upkeep.repair_pace);
        if let CheckOutcome::Damaged(damage) = checked.await?
            && self.is_meant(&encoding, freeing).await?
        {
            dewar_env::coverage_mark("a read found a bad shard");
            rot.note(self, &encoding, shard, &damage).await?;
        }
        Ok(())
    }
}
