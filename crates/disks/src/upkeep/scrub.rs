//! Scrub: every shard of every disk is read from its medium periodically.
//!
//! Each disk has one pass, over the records in the order of ids, at the disk's own rate. Disks are
//! scrubbed in parallel. Shards that do not verify are recorded in the catalog and passed to
//! repair. The position of a pass is in the catalog, so that a restart continues there. The ledger
//! uses the times of verification.

use std::sync::Arc;
use std::time::Duration;

use crate::blob::CheckOutcome;
use crate::pace::Pace;
use bytes::Bytes;
use dewar_catalog::keys;
use dewar_env::worker::{PauseGate, WorkOutcome, Worker};
use dewar_kv::{Batch, CommitError};
use dewar_types::{BlobId, DiskId, Error, ErrorKind, Result, Timestamp};
use minicbor::{Decode, Encode};
use tokio::time::Instant;

use super::blob_index::Encoding;
use super::corruption::CorruptionLog;
use super::disk_tasks::DiskTasks;
use super::gc_queue::GcQueue;
use crate::disks::{Disks, SharedDisks};

/// The kind of `D` record that holds a [`ScrubProgress`].
pub(super) const PROGRESS: u8 = b's';

/// Interval of checks whether a pass is due.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How often progress is written down.
const NOTE_EVERY: Duration = Duration::from_secs(30);

/// Records read in one scan.
const PAGE: usize = 256;

/// By how much a time may be ahead of the clock and count.
const CLOCKS_DIFFER: Duration = Duration::from_secs(3600);

/// How far the scrub of a disk is, as the catalog keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct ScrubProgress {
    /// When the pass under way began.
    #[n(0)]
    pub(super) began: Option<Timestamp>,
    /// The first blob that it has not read.
    #[n(1)]
    pub(super) next: BlobId,
    /// When the last complete pass began, and ended.
    #[n(2)]
    pub(super) last: Option<(Timestamp, Timestamp)>,
    /// That pass saw all blobs below this one.
    #[n(3)]
    pub(super) last_below: BlobId,
    /// Blobs minted since the pass under way began are not its business.
    #[n(4)]
    pub(super) below: BlobId,
}

/// The state of the scrub of a disk, and its findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubStatus {
    /// When the pass under way began.
    pub began: Option<Timestamp>,
    /// When the last complete pass began, and ended.
    pub last: Option<(Timestamp, Timestamp)>,
    /// Shards read in the pass under way, since the start of the process.
    pub shards: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Shards that did not verify, since the start of the process.
    pub bad: u64,
}

/// The pass over a disk that is due or under way, or the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubPass {
    /// The disk.
    pub disk: DiskId,
    /// Whether the disk can be read now.
    pub readable: bool,
    /// The state and the findings. [`ScrubStatus::began`] is set as soon as a pass is asked for.
    pub status: ScrubStatus,
}

impl Default for ScrubProgress {
    /// Nothing was read yet.
    fn default() -> Self {
        Self {
            began: None,
            next: BlobId(0),
            last: None,
            last_below: BlobId(0),
            below: BlobId(0),
        }
    }
}

impl ScrubProgress {
    /// Resets times in the future. A clock that was ahead for a while must not delay anything for
    /// years, or prove anything.
    fn forget_the_future(&mut self, now: Timestamp) {
        let allowed = u64::try_from(CLOCKS_DIFFER.as_nanos()).unwrap_or(u64::MAX);
        let ahead = |at: Timestamp| at.0 > now.0.saturating_add(allowed);
        if self
            .last
            .is_some_and(|(began, ended)| ahead(began) || ahead(ended))
        {
            self.last = None;
        }
        if self.began.is_some_and(ahead) {
            self.began = None;
        }
    }

    /// The time when a shard on this disk was last read and found good, if it is not known to be
    /// bad: the beginning of the pass that read it.
    pub(super) fn proof(&self, blob: BlobId) -> Option<Timestamp> {
        let now = self.began.filter(|_| blob < self.next.min(self.below));
        let last = self.last.filter(|_| blob < self.last_below);
        // What read everything meanwhile counts as a pass, too.
        now.max(last.map(|(began, _)| began))
    }
}

/// Reads the disks, all at the same time.
pub(crate) struct ScrubWorker(pub(crate) SharedDisks);

impl Worker for ScrubWorker {
    const NAME: &'static str = "scrub";
    const LOOK_EVERY: Duration = LOOK_EVERY;

    /// Ends when no disk is being read.
    async fn work(&mut self, gate: &PauseGate) -> Result<WorkOutcome> {
        let disks = &self.0;
        let mut passes = DiskTasks::new();
        loop {
            let members = disks.blobs.pool().members();
            let readable = members.filter(|member| member.disk.state().readable());
            for disk in readable.map(|member| member.id) {
                if gate.is_closed() || passes.runs_on(disk) {
                    continue;
                }
                match disks.due(disk).await {
                    Ok(Some(progress)) => {
                        passes.start(disk, disks.scrub_disk(disk, progress, gate));
                    }
                    Ok(None) => {}
                    Err(error) => {
                        let folder = disks.folder_of(disk);
                        tracing::warn!(folder, %disk, %error, "the scrub's progress is not known");
                    }
                }
            }
            if passes.is_empty() {
                return Ok(WorkOutcome::Idle);
            }
            let looking = tokio::time::sleep(LOOK_EVERY);
            tokio::pin!(looking);
            loop {
                tokio::select! {
                    biased;
                    Some((disk, result)) = passes.next() => {
                        if let Err(error) = result {
                            let folder = disks.folder_of(disk);
                            tracing::warn!(folder, %disk, %error, "the scrub was cut short; it will go on");
                        }
                    }
                    () = &mut looking => break,
                }
            }
        }
    }
}

impl Disks {
    /// The pass that is due on a disk, under way or new.
    async fn due(&self, disk: DiskId) -> Result<Option<ScrubProgress>> {
        let mut progress = self.scrub_progress(disk).await?;
        self.upkeep.scrubs.lock().entry(disk).or_default().last = progress.last;
        let doubt = self.unverified_blobs().remove(&disk).map(|at| at.doubt);
        let is_new = |below: BlobId| doubt.is_none_or(|doubt| below > doubt.below);
        if progress.began.is_some() && is_new(progress.below) {
            return Ok(Some(progress));
        }
        if let Some(doubt) = doubt
            && progress.began.is_none()
            && progress.last.is_some()
            && is_new(progress.last_below)
        {
            // It ended, and that nothing is in doubt any more could not be noted.
            self.end_doubt(disk, doubt).await?;
            return Ok(None);
        }
        let now = self.env.clock.now();
        let every = u64::try_from(self.upkeep.config.scrub_every.as_nanos()).unwrap_or(u64::MAX);
        let due = doubt.is_some()
            || progress
                .last
                .is_none_or(|(began, _)| began.0.saturating_add(every) <= now.0);
        if !due {
            return Ok(None);
        }
        progress.began = Some(now);
        progress.next = BlobId(0);
        progress.below = self.catalog.ids().blob().await?;
        self.write_progress(disk, &progress).await?;
        Ok(Some(progress))
    }

    pub(super) async fn scrub_progress(&self, disk: DiskId) -> Result<ScrubProgress> {
        let Some(value) = self
            .catalog
            .kv()
            .get(&keys::disk(disk, PROGRESS))
            .await?
            .value
        else {
            return Ok(ScrubProgress::default());
        };
        self.decode_progress(disk, &value)
    }

    /// How far the scrub of a disk is, from the catalog's record.
    pub(super) fn decode_progress(&self, disk: DiskId, value: &[u8]) -> Result<ScrubProgress> {
        let mut progress: ScrubProgress = minicbor::decode(value).map_err(|error| {
            let what = format!("how far the scrub of disk {disk} is");
            Error::with_source(ErrorKind::Corrupt, what, error)
        })?;
        progress.forget_the_future(self.env.clock.now());
        Ok(progress)
    }

    /// Records that all blobs below `below` on a disk were read from `began` on.
    pub(super) async fn note_proof(
        &self,
        disk: DiskId,
        began: Timestamp,
        below: BlobId,
    ) -> Result<()> {
        let mut progress = self.scrub_progress(disk).await?;
        if progress.last.is_none_or(|(last, _)| last < began) {
            progress.last = Some((began, self.env.clock.now()));
            progress.last_below = below;
            self.write_progress(disk, &progress).await?;
            self.upkeep.scrubs.lock().entry(disk).or_default().last = progress.last;
        }
        Ok(())
    }

    /// Records the position of a pass, and keeps a newer proof that another task recorded
    /// meanwhile.
    async fn note_progress(&self, disk: DiskId, progress: &mut ScrubProgress) -> Result<()> {
        let known = self.scrub_progress(disk).await?;
        let began = |progress: &ScrubProgress| progress.last.map(|(began, _)| began);
        if began(&known) > began(progress) {
            progress.last = known.last;
            progress.last_below = known.last_below;
        }
        self.write_progress(disk, progress).await
    }

    async fn write_progress(&self, disk: DiskId, progress: &ScrubProgress) -> Result<()> {
        // Writing into a vector cannot fail.
        let value = minicbor::to_vec(progress).unwrap_or_default();
        let batch = Batch {
            puts: vec![(keys::disk(disk, PROGRESS), Bytes::from(value))],
            ..Batch::default()
        };
        match self.catalog.kv().commit(batch).await {
            Ok(_) | Err(CommitError::Conflict(_)) => Ok(()),
            Err(CommitError::Failed(error)) => Err(error.context("noting how far the scrub is")),
        }
    }

    /// Goes on with a pass to its end.
    async fn scrub_disk(
        &self,
        disk: DiskId,
        mut progress: ScrubProgress,
        gate: &PauseGate,
    ) -> Result<()> {
        let config = &self.upkeep.config;
        let doubt = self.unverified_blobs().remove(&disk).map(|at| at.doubt);
        let (busy, idle) = match doubt {
            Some(_) => (config.repair_busy, config.repair_idle),
            None => (config.scrub_busy, config.scrub_idle),
        };
        let pace = Pace::new(Arc::clone(&self.upkeep.demand), busy, idle);
        {
            let mut scrubs = self.upkeep.scrubs.lock();
            let status = scrubs.entry(disk).or_default();
            status.began = progress.began;
            status.shards = 0;
            status.bytes = 0;
        }
        let mut noted = Instant::now();
        let mut freeing = GcQueue::default();
        let mut rot = CorruptionLog::new("scrub");
        loop {
            let page = self.table.encodings(progress.next, PAGE).await?;
            for encoding in &page.encodings {
                if encoding.record.id >= progress.below {
                    break;
                }
                gate.pass().await;
                if self.unverified_blobs().get(&disk).map(|at| at.doubt) != doubt {
                    // What it has read was another's.
                    rot.sum_up(self);
                    return Ok(());
                }
                let scrubbed = self.scrub_encoding(disk, encoding, &mut freeing, &pace, &mut rot);
                if let Err(error) = scrubbed.await {
                    rot.sum_up(self);
                    return Err(error);
                }
                progress.next = BlobId(encoding.record.id.0.saturating_add(1));
                self.verified(disk, progress.below, progress.next);
                if noted.elapsed() >= NOTE_EVERY {
                    self.note_progress(disk, &mut progress).await?;
                    noted = Instant::now();
                }
            }
            match page.next {
                Some(next) if next < progress.below => progress.next = next,
                _ => break,
            }
        }
        let ended = self.env.clock.now();
        progress.last = progress.began.map(|began| (began, ended));
        progress.last_below = progress.below;
        progress.began = None;
        rot.sum_up(self);
        self.note_progress(disk, &mut progress).await?;
        if let Some(doubt) = doubt
            && progress.last_below > doubt.below
        {
            self.end_doubt(disk, doubt).await?;
        }
        let mut scrubs = self.upkeep.scrubs.lock();
        let status = scrubs.entry(disk).or_default();
        status.began = None;
        status.last = progress.last;
        let (shards, bytes, bad) = (status.shards, status.bytes, status.bad);
        drop(scrubs);
        let folder = self.folder_of(disk);
        tracing::info!(folder, %disk, shards, bytes, bad, "scrub finished");
        Ok(())
    }

    async fn scrub_encoding(
        &self,
        disk: DiskId,
        encoding: &Encoding,
        freeing: &mut GcQueue,
        pace: &Pace,
        rot: &mut CorruptionLog,
    ) -> Result<()> {
        let record = &encoding.record;
        let Some(shard) = record.disks.iter().position(|id| *id == disk) else {
            return Ok(());
        };
        // Repair knows already.
        if record.missing.contains(&(shard as u8)) {
            return Ok(());
        }
        let bytes = record.geometry()?.shard_len(shard);
        match self.blobs.check(record, shard, pace).await? {
            CheckOutcome::Good => {}
            CheckOutcome::Unreachable => {
                let message = format!("disk {disk} cannot be read now");
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            CheckOutcome::Damaged(damage) => {
                if self.is_meant(encoding, freeing).await? {
                    dewar_env::coverage_mark("the scrub found a bad shard");
                    rot.note(self, encoding, shard, &damage).await?;
                    let mut scrubs = self.upkeep.scrubs.lock();
                    scrubs.entry(disk).or_default().bad += 1;
                }
            }
        }
        let mut scrubs = self.upkeep.scrubs.lock();
        let status = scrubs.entry(disk).or_default();
        status.shards += 1;
        status.bytes += bytes;
        Ok(())
    }
}

impl Disks {
    /// How far the scrub of each disk is, by disk.
    #[must_use]
    pub fn scrub_status(&self) -> Vec<(DiskId, ScrubStatus)> {
        let scrubs = self.upkeep.scrubs.lock();
        scrubs
            .iter()
            .map(|(disk, status)| (*disk, *status))
            .collect()
    }

    /// The passes over all present disks, as in the catalog.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn scrub_passes(&self) -> Result<Vec<ScrubPass>> {
        let mut passes = Vec::new();
        let members = self.blobs.pool().members();
        let members: Vec<_> = members
            .map(|member| (member.id, member.disk.state().readable()))
            .collect();
        for (disk, readable) in members {
            let progress = self.scrub_progress(disk).await?;
            let known = self.upkeep.scrubs.lock().get(&disk).copied();
            let mut status = known.unwrap_or_default();
            if progress.began.is_some() && status.began != progress.began {
                // It was asked for, and nothing was read yet.
                (status.shards, status.bytes) = (0, 0);
            }
            (status.began, status.last) = (progress.began, progress.last);
            passes.push(ScrubPass {
                disk,
                readable,
                status,
            });
        }
        Ok(passes)
    }

    /// Makes a pass over a disk due now. A running pass continues.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn scrub_now(&self, disk: DiskId) -> Result<()> {
        let mut progress = self.scrub_progress(disk).await?;
        if progress.began.is_none() {
            progress.began = Some(self.env.clock.now());
            progress.next = BlobId(0);
            progress.below = self.catalog.ids().blob().await?;
            self.write_progress(disk, &progress).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are a format: docs/formats/segment.md.
    #[test]
    fn progress_is_kept_as_it_is_drawn_and_proves_what_it_has_seen() {
        let progress = ScrubProgress {
            began: Some(Timestamp(7)),
            next: BlobId(20),
            last: Some((Timestamp(3), Timestamp(5))),
            last_below: BlobId(30),
            below: BlobId(40),
        };
        let bytes = [
            0xa5, 0x00, 0x07, 0x01, 0x14, 0x02, 0x82, 0x03, 0x05, 0x03, 0x18, 0x1e, 0x04, 0x18,
            0x28,
        ];
        assert_eq!(minicbor::to_vec(&progress).expect("encodes"), bytes);
        let read: ScrubProgress = minicbor::decode(&bytes).expect("decodes");
        assert_eq!(read, progress);
        assert_eq!(read.proof(BlobId(19)), Some(Timestamp(7)));
        assert_eq!(read.proof(BlobId(20)), Some(Timestamp(3)));
        assert_eq!(read.proof(BlobId(30)), None);
    }
}
