//! Scrub: every shard of every disk is read from its medium once in a while.
//!
//! One pass per disk, over the records in the order of ids, at the disk's own rate; disks side by
//! side. What does not verify is noted in the catalog and repair is told. How far a pass is stands
//! in the catalog, so that a restart goes on where it was, and what was verified when is known for
//! the ledger.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_data::blob::Checked;
use dewar_data::pace::Pace;
use dewar_meta::kv::{Batch, CommitError};
use dewar_meta::ns::keys;
use dewar_types::{BlobId, DiskId, Error, ErrorKind, Result, Timestamp};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use minicbor::{Decode, Encode};
use tokio::time::Instant;

use super::encodings::Encoding;
use super::freeing::Freeing;
use crate::{Inner, Shared, Store};

/// The kind of `D` record that holds a [`Progress`].
pub(super) const PROGRESS: u8 = b's';

/// How often it is asked whether a pass is due.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How often progress is written down.
const NOTE_EVERY: Duration = Duration::from_secs(30);

/// Records looked at in one scan.
const PAGE: usize = 256;

/// By how much a time may be ahead of the clock and count.
const CLOCKS_DIFFER: Duration = Duration::from_secs(3600);

/// How far the scrub of a disk is, as the catalog keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct Progress {
    /// When the pass under way began.
    #[n(0)]
    pub(super) began: Option<Timestamp>,
    /// The first blob that it has not looked at.
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

/// What the scrub of a disk does and found.
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

impl Default for Progress {
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

impl Progress {
    /// A clock that was ahead for a while puts nothing off for years, and proves nothing.
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

    /// When a shard on this disk was last read and found good, if it is not known to be bad:
    /// the beginning of the pass that read it.
    pub(super) fn proof(&self, blob: BlobId) -> Option<Timestamp> {
        if let Some(began) = self.began
            && blob < self.next.min(self.below)
        {
            return Some(began);
        }
        self.last
            .filter(|_| blob < self.last_below)
            .map(|(began, _)| began)
    }
}

/// Scrubs until it is dropped.
pub(crate) async fn scrub(inner: Shared) {
    let mut running = FuturesUnordered::new();
    let mut on: BTreeSet<DiskId> = BTreeSet::new();
    loop {
        let present: Vec<DiskId> = inner
            .blobs
            .pool()
            .members()
            .filter(|member| member.disk.state().readable())
            .map(|member| member.id)
            .collect();
        for disk in present {
            if on.contains(&disk) {
                continue;
            }
            match inner.due(disk).await {
                Ok(Some(progress)) => {
                    on.insert(disk);
                    let inner = Arc::clone(&inner);
                    running.push(async move { (disk, inner.scrub_disk(disk, progress).await) });
                }
                Ok(None) => {}
                Err(error) => {
                    let folder = inner.folder_of(disk);
                    tracing::warn!(folder, %disk, %error, "the scrub's progress is not known");
                }
            }
        }
        let looking = tokio::time::sleep(LOOK_EVERY);
        tokio::pin!(looking);
        loop {
            tokio::select! {
                biased;
                Some((disk, result)) = running.next() => {
                    on.remove(&disk);
                    if let Err(error) = result {
                        let folder = inner.folder_of(disk);
                        tracing::warn!(folder, %disk, %error, "the scrub was cut short; it will go on");
                    }
                }
                () = &mut looking => break,
            }
        }
    }
}

impl Inner {
    /// The pass that is due on a disk, under way or new.
    async fn due(&self, disk: DiskId) -> Result<Option<Progress>> {
        let mut progress = self.scrub_progress(disk).await?;
        self.upkeep.scrubs.lock().entry(disk).or_default().last = progress.last;
        let doubt = self.unverified().remove(&disk).map(|at| at.doubt);
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
        progress.below = self.tree.ids().blob().await?;
        self.write_progress(disk, &progress).await?;
        Ok(Some(progress))
    }

    pub(super) async fn scrub_progress(&self, disk: DiskId) -> Result<Progress> {
        let Some(value) = self.tree.kv().get(&keys::disk(disk, PROGRESS)).await?.value else {
            return Ok(Progress::default());
        };
        self.decode_progress(disk, &value)
    }

    /// How far the scrub of a disk is, from the catalog's record.
    pub(super) fn decode_progress(&self, disk: DiskId, value: &[u8]) -> Result<Progress> {
        let mut progress: Progress = minicbor::decode(value).map_err(|error| {
            let what = format!("how far the scrub of disk {disk} is");
            Error::with_source(ErrorKind::Corrupt, what, error)
        })?;
        progress.forget_the_future(self.env.clock.now());
        Ok(progress)
    }

    async fn write_progress(&self, disk: DiskId, progress: &Progress) -> Result<()> {
        // Writing into a vector cannot fail.
        let value = minicbor::to_vec(progress).unwrap_or_default();
        let batch = Batch {
            puts: vec![(keys::disk(disk, PROGRESS), Bytes::from(value))],
            ..Batch::default()
        };
        match self.tree.kv().commit(batch).await {
            Ok(_) | Err(CommitError::Conflict(_)) => Ok(()),
            Err(CommitError::Failed(error)) => Err(error.context("noting how far the scrub is")),
        }
    }

    /// Goes on with a pass to its end.
    async fn scrub_disk(&self, disk: DiskId, mut progress: Progress) -> Result<()> {
        let config = &self.upkeep.config;
        let doubt = self.unverified().remove(&disk).map(|at| at.doubt);
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
        let mut freeing = Freeing::default();
        loop {
            let page = self.table.encodings(progress.next, PAGE).await?;
            for encoding in &page.encodings {
                if encoding.record.id >= progress.below {
                    break;
                }
                if self.unverified().get(&disk).map(|at| at.doubt) != doubt {
                    // What it has read was another's.
                    return Ok(());
                }
                self.scrub_encoding(disk, encoding, &mut freeing, &pace)
                    .await?;
                progress.next = BlobId(encoding.record.id.0.saturating_add(1));
                self.verified(disk, progress.below, progress.next);
                if noted.elapsed() >= NOTE_EVERY {
                    self.write_progress(disk, &progress).await?;
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
        self.write_progress(disk, &progress).await?;
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
        freeing: &mut Freeing,
        pace: &Pace,
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
            Checked::Good => {}
            Checked::Unreachable => {
                let message = format!("disk {disk} cannot be read now");
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            Checked::Damaged(damage) => {
                if self.is_meant(encoding, freeing).await? {
                    let blob = record.id;
                    let first = damage.pages.iter().take(PAGES_NAMED_MAX);
                    let pages = first.map(|pages| format!("{}..{}", pages.start, pages.end));
                    let pages = pages.collect::<Vec<_>>().join(" ");
                    let folder = self.folder_of(disk);
                    tracing::warn!(%blob, shard, folder, %disk, pages, "the scrub found a bad shard");
                    dewar_env::reached("the scrub found a bad shard");
                    let now = self.env.clock.now();
                    self.table.note(encoding, shard, now).await?;
                    let mut scrubs = self.upkeep.scrubs.lock();
                    scrubs.entry(disk).or_default().bad += 1;
                    drop(scrubs);
                    self.upkeep.queued();
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

/// Runs of bad pages that the log line of a shard names.
const PAGES_NAMED_MAX: usize = 8;

impl Store {
    /// How far the scrub of each disk is, by disk.
    #[must_use]
    pub fn scrub_status(&self) -> Vec<(DiskId, ScrubStatus)> {
        let scrubs = self.inner.upkeep.scrubs.lock();
        scrubs
            .iter()
            .map(|(disk, status)| (*disk, *status))
            .collect()
    }

    /// Makes a pass over a disk due now; one under way goes on.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn scrub_now(&self, disk: DiskId) -> Result<()> {
        let mut progress = self.inner.scrub_progress(disk).await?;
        if progress.began.is_none() {
            progress.began = Some(self.inner.env.clock.now());
            progress.next = BlobId(0);
            progress.below = self.inner.tree.ids().blob().await?;
            self.inner.write_progress(disk, &progress).await?;
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
        let progress = Progress {
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
        let read: Progress = minicbor::decode(&bytes).expect("decodes");
        assert_eq!(read, progress);
        assert_eq!(read.proof(BlobId(19)), Some(Timestamp(7)));
        assert_eq!(read.proof(BlobId(20)), Some(Timestamp(3)));
        assert_eq!(read.proof(BlobId(30)), None);
    }
}
