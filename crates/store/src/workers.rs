//! Background work: sealing, compaction, freeing, sweeping, lifecycle, and supervision of disks.
//!
//! Each worker is a loop that waits for its trigger, does one bounded step and logs failures. It
//! tries again later, so an error here costs time and never data. [`Workers::stop`] ends the
//! workers between steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dewar_catalog::UnreferencedBlob;
use dewar_data::blob::BlobStatus;
use dewar_env::{Disk, DiskState};
use dewar_types::{BlobId, DiskId, Result, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::key_rotation::rewrap;
use crate::lifecycle::lifecycle;
use crate::limits::FREE_GRACE;
use crate::quota::count_spaces;
use crate::upkeep::{presence, repair, returned, scrub, suspects};
use crate::{SharedStore, Store};

/// Pause after a step that failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How often the workers without a cue of their own look.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// When a disk is swept again on which blobs were being written.
const SWEEP_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// How often the disks are asked for their room.
const SPACE_EVERY: Duration = Duration::from_secs(5);

/// Blobs freed, or empty directories checked, in one step.
const STEP: usize = 256;

/// The running workers of a store.
#[derive(Debug)]
pub struct Workers {
    /// In the order in which they end.
    tasks: Vec<(watch::Sender<bool>, JoinHandle<()>)>,
}

impl Workers {
    /// Starts the workers. `first_new` is the first blob id that this opening of the store assigns.
    /// The sweep does not touch blobs from this id on.
    #[must_use]
    pub fn start(store: &Store, first_new: BlobId) -> Self {
        let inner = || Arc::clone(&store.inner);
        let tasks = vec![
            start(seal(inner())),
            start(seal_early(inner())),
            start(compact(inner())),
            start(free(inner())),
            start(reclaim_dirs(inner())),
            start(space(inner())),
            start(presence(inner())),
            start(repair(inner())),
            start(scrub(inner())),
            start(suspects(inner())),
            start(returned(inner())),
            start(lifecycle(inner())),
            start(count_spaces(inner())),
            start(rewrap(inner())),
            start(sweep(inner(), first_new)),
        ];
        Self { tasks }
    }

    /// Ends them and waits until they have ended.
    pub async fn stop(self) {
        for (stop, task) in self.tasks {
            // Nobody listening means that it has ended already.
            let _ = stop.send(true);
            if let Err(error) = task.await {
                tracing::error!(%error, "a worker did not end well");
            }
        }
    }
}

fn start(work: impl Future<Output = ()> + Send + 'static) -> (watch::Sender<bool>, JoinHandle<()>) {
    let (stop, stopped) = watch::channel(false);
    (stop, tokio::spawn(until(stopped, work)))
}

async fn until(mut stopped: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        // An error means that the sender is gone, which is a stop too.
        _ = stopped.wait_for(|stop| *stop) => {}
        () = work => {}
    }
}

async fn seal(inner: SharedStore) {
    loop {
        inner.segments.sealable().await;
        if let Err(error) = inner.segments.seal_next().await {
            tracing::warn!(%error, "a segment could not be sealed; trying again");
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }
}

async fn seal_early(inner: SharedStore) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        inner.segments.release();
        if inner.table.pressed() {
            inner.segments.close_current();
        }
    }
}

async fn compact(inner: SharedStore) {
    loop {
        match inner.segments.compact_step().await {
            Ok(0) => tokio::time::sleep(LOOK_EVERY).await,
            Ok(bytes) => tracing::debug!(bytes, "compacted"),
            Err(error) => {
                tracing::warn!(%error, "compaction failed; trying again");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}

async fn free(inner: SharedStore) {
    let mut after = None;
    let mut ahead = FutureBlobs::default();
    loop {
        match free_step(&inner, after.take(), &mut ahead).await {
            Ok(Some(last)) => after = Some(last),
            Ok(None) => tokio::time::sleep(LOOK_EVERY).await,
            Err(error) => {
                tracing::warn!(%error, "blobs could not be freed; trying again");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}

/// Blobs that were queued at a time in the future, because the clock was set back, and the
/// monotonic time at which this process first saw them.
type FutureBlobs = BTreeMap<UnreferencedBlob, Duration>;

/// Frees blobs whose names were removed before the grace time and that have no readers. Bytes are
/// deleted before the record. A crash in between only repeats the deletion. It checks a limited
/// number of blobs behind `after` and returns the last one; `None` when there are no more. Blobs
/// with readers are skipped, so that they do not delay the rest.
async fn free_step(
    inner: &SharedStore,
    after: Option<UnreferencedBlob>,
    ahead: &mut FutureBlobs,
) -> Result<Option<UnreferencedBlob>> {
    let grace = u64::try_from(FREE_GRACE.as_nanos()).unwrap_or(u64::MAX);
    let before = Timestamp(inner.env.clock.now().0.saturating_sub(grace));
    let mut looked_at = inner
        .tree
        .catalog()
        .unnamed_blobs(before, after.as_ref(), STEP)
        .await?;
    let last = looked_at
        .last()
        .filter(|_| looked_at.len() == STEP)
        .copied();
    if last.is_none() {
        looked_at.extend(ripe_ahead(inner, ahead).await?);
    }
    let mut freed = Vec::new();
    let mut marks = Vec::new();
    for unnamed in looked_at {
        if inner.table.readers().holds(unnamed.blob)
            && dewar_env::safeguard("readers keep what they read")
        {
            continue;
        }
        // Until the record is gone: a repair must not put another in its place meanwhile.
        let Some(mark) = inner.upkeep.begin(unnamed.blob) else {
            continue;
        };
        marks.push(mark);
        if let Some(record) = inner.table.named(unnamed.blob).await? {
            let left = inner.blobs.remove(&record).await;
            inner.leave_behind(record, left);
        }
        inner.table.forget(unnamed.blob);
        freed.push(unnamed);
    }
    if !freed.is_empty() {
        inner.tree.catalog().forget_blobs(&freed).await?;
    }
    Ok(last)
}

/// The first of those blobs with a time in the future that have been seen for the grace time.
async fn ripe_ahead(inner: &SharedStore, ahead: &mut FutureBlobs) -> Result<Vec<UnreferencedBlob>> {
    let now = UnreferencedBlob {
        since: inner.env.clock.now(),
        blob: BlobId(u64::MAX),
    };
    let end = Timestamp(u64::MAX);
    let to_come = inner
        .tree
        .catalog()
        .unnamed_blobs(end, Some(&now), STEP)
        .await?;
    let uptime = inner.env.clock.elapsed();
    *ahead = to_come
        .into_iter()
        .map(|unnamed| (unnamed, ahead.get(&unnamed).copied().unwrap_or(uptime)))
        .collect();
    let ripe = ahead
        .iter()
        .filter(|(_, seen)| uptime.saturating_sub(**seen) >= FREE_GRACE);
    Ok(ripe.map(|(unnamed, _)| *unnamed).collect())
}

async fn reclaim_dirs(inner: SharedStore) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if let Err(error) = inner.tree.reclaim_empty_dirs(STEP).await {
            tracing::warn!(%error, "empty directories could not be reclaimed; trying again");
        }
    }
}

async fn space(inner: SharedStore) {
    loop {
        inner.blobs.placement().refresh(inner.blobs.pool()).await;
        tokio::time::sleep(SPACE_EVERY).await;
    }
}

/// Sweeps each disk once after it was found, and again whenever it returns from an absence.
///
/// It does not run until it is decided what happens with blobs that a rebuilt catalog does not
/// name. That is decided while the store is not served.
async fn sweep(inner: SharedStore, first_new: BlobId) {
    loop {
        match inner.rebuilt().await {
            Ok(None) => break,
            Ok(Some(_)) => return,
            Err(error) => tracing::warn!(%error, "cannot tell whether to sweep; trying again"),
        }
        tokio::time::sleep(SPACE_EVERY).await;
    }
    let lost = loop {
        match inner.tree.ids().lost_ranges().await {
            Ok(lost) => break lost,
            Err(error) => {
                tracing::warn!(%error, "leftovers are not removed yet");
                tokio::time::sleep(SPACE_EVERY).await;
            }
        }
    };
    let mut swept: BTreeMap<DiskId, (Arc<dyn Disk>, DiskState)> = BTreeMap::new();
    let mut again: BTreeMap<DiskId, Duration> = BTreeMap::new();
    loop {
        for member in inner.blobs.pool().members() {
            let state = member.disk.state();
            if !inner.upkeep.may_sweep(member.id) {
                continue;
            }
            let left = inner.blobs.has_leftovers(member.id) && !again.contains_key(&member.id);
            if inner.upkeep.sweeps_again(member.id) || left {
                swept.remove(&member.id);
            }
            let done = swept
                .get(&member.id)
                .is_some_and(|(disk, swept)| Arc::ptr_eq(disk, &member.disk) && *swept == state);
            let due = again.get(&member.id);
            let due = due.is_some_and(|due| *due <= inner.env.clock.elapsed());
            if !state.writable() || (done && !due) {
                continue;
            }
            again.remove(&member.id);
            let look_up = async |blob| known(&inner, &lost, blob).await;
            let needed = |blob| inner.table.is_needed(blob);
            let claim = |blob| inner.upkeep.begin(blob).filter(|_| !needed(blob));
            match inner.blobs.sweep(&member, first_new, claim, look_up).await {
                Ok(found) => {
                    if found.removed > 0 {
                        dewar_env::coverage_mark("leftovers were swept");
                        let disk = member.disk.label();
                        tracing::info!(disk, removed = found.removed, "leftovers removed");
                    }
                    // What was being written, sealed or repaired may have left something too.
                    if found.busy > 0 {
                        again.insert(member.id, inner.env.clock.elapsed() + SWEEP_AGAIN_AFTER);
                    }
                    swept.insert(member.id, (member.disk, state));
                }
                Err(error) => {
                    tracing::debug!(disk = member.disk.label(), %error, "sweep cut short");
                }
            }
        }
        tokio::time::sleep(SPACE_EVERY).await;
    }
}

/// The rule of a sweep for a blob's files.
async fn known(inner: &SharedStore, lost: &[(u64, u64)], blob: BlobId) -> Result<BlobStatus> {
    // In this order: a segment leaves the memory only once its record is visible.
    if inner.segments.is_unsealed(blob) {
        return Ok(BlobStatus::Busy);
    }
    Ok(match inner.table.named(blob).await? {
        Some(record) => BlobStatus::Named(record),
        // A loss that was accepted took its record: it can be salvaged by what its header says.
        None if lost
            .iter()
            .any(|(from, to)| (*from..*to).contains(&blob.counter())) =>
        {
            BlobStatus::Kept
        }
        None => BlobStatus::Unnamed,
    })
}
