//! Freeing of blobs that no version names any more.

use std::collections::BTreeMap;
use std::time::Duration;

use dewar_catalog::UnreferencedBlob;
use dewar_env::worker::{PauseGate, WorkOutcome, Worker};
use dewar_types::{BlobId, Result, Timestamp};

use crate::disks::SharedDisks;
use crate::limits::FREE_GRACE;

/// Blobs freed in one step.
const STEP: usize = 256;

/// Frees blobs whose names were removed before the grace time and that have no readers. Bytes are
/// deleted before the record. A crash in between only repeats the deletion. Blobs with readers are
/// skipped, so that they do not delay the rest.
pub(super) struct FreeWorker {
    disks: SharedDisks,
    /// The last blob that was checked, while there are more.
    after: Option<UnreferencedBlob>,
    /// Blobs that were queued at a time in the future, because the clock was set back, and the
    /// monotonic time at which this process first saw them.
    ahead: BTreeMap<UnreferencedBlob, Duration>,
}

impl Worker for FreeWorker {
    const NAME: &'static str = "free";

    async fn work(&mut self, _: &PauseGate) -> Result<WorkOutcome> {
        self.after = self.step().await?;
        Ok(WorkOutcome::progress_if(self.after.is_some()))
    }
}

impl FreeWorker {
    pub(super) const fn new(disks: SharedDisks) -> Self {
        Self {
            disks,
            after: None,
            ahead: BTreeMap::new(),
        }
    }

    /// Checks a limited number of blobs and returns the last one; `None` when there are no more.
    async fn step(&mut self) -> Result<Option<UnreferencedBlob>> {
        let after = self.after.take();
        let disks = &self.disks;
        let grace = u64::try_from(FREE_GRACE.as_nanos()).unwrap_or(u64::MAX);
        let before = Timestamp(disks.env.clock.now().0.saturating_sub(grace));
        let mut looked_at = disks
            .catalog
            .unnamed_blobs(before, after.as_ref(), STEP)
            .await?;
        let last = looked_at
            .last()
            .filter(|_| looked_at.len() == STEP)
            .copied();
        if last.is_none() {
            looked_at.extend(ripe_ahead(disks, &mut self.ahead).await?);
        }
        let mut freed = Vec::new();
        let mut marks = Vec::new();
        for unnamed in looked_at {
            if disks.table.readers().holds(unnamed.blob)
                && dewar_env::safeguard("readers keep what they read")
            {
                continue;
            }
            // Until the record is gone: a repair must not put another in its place meanwhile.
            let Some(mark) = disks.upkeep.begin(unnamed.blob) else {
                continue;
            };
            marks.push(mark);
            if let Some(record) = disks.table.named(unnamed.blob).await? {
                let left = disks.blobs.remove(&record).await;
                disks.leave_behind(record, left);
            }
            disks.table.forget(unnamed.blob);
            freed.push(unnamed);
        }
        if !freed.is_empty() {
            disks.catalog.forget_blobs(&freed).await?;
        }
        Ok(last)
    }
}

/// The first of those blobs with a time in the future that have been seen for the grace time.
async fn ripe_ahead(
    disks: &SharedDisks,
    ahead: &mut BTreeMap<UnreferencedBlob, Duration>,
) -> Result<Vec<UnreferencedBlob>> {
    let now = UnreferencedBlob {
        since: disks.env.clock.now(),
        blob: BlobId(u64::MAX),
    };
    let end = Timestamp(u64::MAX);
    let to_come = disks.catalog.unnamed_blobs(end, Some(&now), STEP).await?;
    let uptime = disks.env.clock.elapsed();
    *ahead = to_come
        .into_iter()
        .map(|unnamed| (unnamed, ahead.get(&unnamed).copied().unwrap_or(uptime)))
        .collect();
    let ripe = ahead
        .iter()
        .filter(|(_, seen)| uptime.saturating_sub(**seen) >= FREE_GRACE);
    Ok(ripe.map(|(unnamed, _)| *unnamed).collect())
}
