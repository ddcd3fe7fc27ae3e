//! Removed disks that are taken back.
//!
//! Removing a disk is final for the journal, but not for its shards. Blobs are immutable and named
//! by id, so an old disk's shard of a blob that still exists is as good as ever. A disk that is
//! taken back is a member again at once. Shards that records still expect on it are read, as on any
//! disk that was away. Then all its files are searched for shards that the pool lacks, because the
//! disk with the shard is lost or the shard was found bad. Such a shard is verified as a whole, and
//! the record names this disk from then on. Other files are swept after the search is complete.
//!
//! # Crash cases
//! The batch that takes the decision to remove the disk back also records that it must be searched.
//! This stays in the catalog until the search is complete. A repeated search skips shards that were
//! taken already.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::blob::{CheckOutcome, KnownBadShards, shards_on, shelves_on};
use crate::pool::Member;
use bytes::Bytes;
use dewar_catalog::keys;
use dewar_env::Disk;
use dewar_env::worker::{PauseGate, WorkOutcome, Worker, WorkerStatus};
use dewar_kv::Batch;
use dewar_types::{BlobId, DiskId, Error, ErrorKind, Result};

use super::blob_index::Encoding;
use super::decisions::DECISION;
use super::redundancy::Redundancy;
use super::scrub::PROGRESS;
use super::stale_disk::{DOUBT, TOKEN};
use crate::disks::{Disks, SharedDisks};

/// The kind of `D` record of a disk that was taken back and must be searched.
pub(super) const RETURNED: u8 = b'b';

/// Pause if another task works on a blob.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Records read in one scan.
const PAGE: usize = 512;

/// The number of taken shards after which repair is notified.
const TELL_EVERY: u64 = 256;

/// The content of a removed disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Shard files on it.
    pub shards: u64,
    /// Of those, shards that the pool has nowhere else now, by their names.
    pub lacking: u64,
    /// Their bytes.
    pub lacking_bytes: u64,
    /// Blobs with such a shard that cannot be read now.
    pub unreadable: u64,
}

/// Searches the disks that were taken back.
pub(crate) struct ReturnedDiskWorker(pub(crate) SharedDisks);

impl Worker for ReturnedDiskWorker {
    const NAME: &'static str = "returned-disks";

    async fn work(&mut self, gate: &PauseGate) -> Result<WorkOutcome> {
        let disks = &self.0;
        let waiting = disks.upkeep.decisions.lock().returned.clone();
        let members = waiting
            .iter()
            .filter_map(|id| disks.blobs.pool().member(*id));
        for member in members.filter(|member| member.disk.state().writable()) {
            let disk = member.disk.label();
            match disks.look_through(&member, gate).await {
                Ok(taken) => {
                    tracing::info!(disk, taken, "a disk that was taken back is in full use");
                }
                Err(error) => {
                    tracing::info!(disk, %error, "a disk that was taken back is looked through later");
                }
            }
        }
        Ok(WorkOutcome::Idle)
    }

    fn status(&self) -> WorkerStatus {
        let waiting = self.0.upkeep.decisions.lock().returned.len() as u64;
        WorkerStatus {
            pending: Some(waiting),
        }
    }
}

/// Whether a file of this encoding on a disk is useful: the pool lacks the shard, and the disk has
/// no other shard of the blob.
fn is_wanted(
    encoding: &Encoding,
    standing: &Redundancy,
    disk: DiskId,
    found: (u32, usize),
) -> bool {
    let (generation, shard) = found;
    let record = &encoding.record;
    let Some(place) = record.disks.get(shard) else {
        return false;
    };
    let free = *place == disk || !record.disks.contains(&disk);
    record.generation == generation && free && !standing.good.contains(shard)
}

/// Files by blob.
fn by_blob(files: Vec<(BlobId, u32, usize)>) -> BTreeMap<BlobId, Vec<(u32, usize)>> {
    let mut blobs: BTreeMap<BlobId, Vec<(u32, usize)>> = BTreeMap::new();
    for (blob, generation, shard) in files {
        blobs.entry(blob).or_default().push((generation, shard));
    }
    blobs
}

impl Disks {
    /// Takes what the pool lacks from a disk; how many shards.
    async fn look_through(&self, member: &Member, gate: &PauseGate) -> Result<u64> {
        let mut taken = 0;
        for shelf in shelves_on(&*member.disk).await? {
            let files = shards_on(&*member.disk, &shelf).await?;
            for (blob, found) in by_blob(files) {
                gate.pass().await;
                for found in found {
                    if self.take(member, blob, found).await? {
                        taken += 1;
                        if taken % TELL_EVERY == 0 {
                            self.upkeep.wake();
                        }
                    }
                }
            }
        }
        let batch = Batch {
            deletes: vec![keys::disk(member.id, RETURNED)],
            frees: true,
            ..Batch::default()
        };
        // Before it is no longer kept from it.
        self.upkeep.to_sweep.lock().insert(member.id);
        self.put_decision(batch).await?;
        dewar_env::coverage_mark("a disk that was taken back was looked through");
        Ok(taken)
    }

    /// Whether this shard is taken from the disk.
    async fn take(&self, member: &Member, blob: BlobId, found: (u32, usize)) -> Result<bool> {
        let _working = loop {
            match self.upkeep.begin(blob) {
                Some(working) => break working,
                None => tokio::time::sleep(BUSY_PAUSE).await,
            }
        };
        let (_, shard) = found;
        loop {
            let Some(encoding) = self.table.encoding(blob).await? else {
                return Ok(false);
            };
            let record = &encoding.record;
            let known = self.table.finding(blob).await?.unwrap_or_default();
            let standing = self.view().standing(record, &known);
            if !is_wanted(&encoding, &standing, member.id, found) {
                return Ok(false);
            }
            let pace = &self.upkeep.repair_pace;
            let bad = match self.blobs.check_on(record, shard, member, pace).await? {
                CheckOutcome::Good => None,
                CheckOutcome::Unreachable => {
                    let message = format!("{} cannot be read now", member.disk.label());
                    return Err(Error::new(ErrorKind::Unavailable, message));
                }
                // Of a blob that cannot be read each page counts, if nobody has a better one.
                CheckOutcome::Damaged(damage)
                    if !damage.header
                        && standing.margin < 0
                        && self.blobs.pool().member(record.disks[shard]).is_none() =>
                {
                    Some(self.env.clock.now())
                }
                CheckOutcome::Damaged(_) => return Ok(false),
            };
            let now = self.blobs.adopt(record, shard, member).await?;
            match self.table.adopted(&encoding, &now, shard, bad).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Conflict => continue,
                Err(error) => return Err(error),
            }
            self.segments.moved(blob);
            dewar_env::coverage_mark("a shard was taken from a disk that came back");
            return Ok(true);
        }
    }
}

impl Disks {
    /// The content of a removed disk that was found in a folder. Its files are listed and not read.
    ///
    /// # Errors
    /// Those of the disk and of the catalog.
    pub async fn holdings(&self, id: DiskId, disk: &dyn Disk) -> Result<Holdings> {
        let mut holdings = Holdings::default();
        let disks = self.view();
        for shelf in shelves_on(disk).await? {
            let files = by_blob(shards_on(disk, &shelf).await?);
            holdings.shards += files.values().map(|found| found.len() as u64).sum::<u64>();
            let (Some(first), Some(last)) = (files.keys().next(), files.keys().next_back()) else {
                continue;
            };
            let mut from = Some(*first);
            while let Some(at) = from.filter(|at| at <= last) {
                let page = self.table.encodings(at, PAGE).await?;
                let findings = self.findings_of(&page.encodings).await?;
                for encoding in &page.encodings {
                    let blob = encoding.record.id;
                    let none = KnownBadShards::default();
                    let known = findings.get(&blob).unwrap_or(&none);
                    let standing = disks.standing(&encoding.record, known);
                    let found = files.get(&blob).into_iter().flatten();
                    let wanted: BTreeSet<usize> = found
                        .filter(|found| is_wanted(encoding, &standing, id, **found))
                        .map(|(_, shard)| *shard)
                        .collect();
                    let geometry = encoding.record.geometry()?;
                    holdings.lacking += wanted.len() as u64;
                    let bytes = wanted.iter().map(|shard| geometry.shard_len(*shard));
                    holdings.lacking_bytes += bytes.sum::<u64>();
                    holdings.unreadable += u64::from(standing.margin < 0 && !wanted.is_empty());
                }
                from = page.next;
            }
        }
        Ok(holdings)
    }

    /// Takes the decision to remove a disk back. The disk must be searched, and nothing on it
    /// counts as verified.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn take_back(&self, disk: DiskId) -> Result<()> {
        let batch = Batch {
            puts: vec![(keys::disk(disk, RETURNED), Bytes::new())],
            deletes: [DECISION, PROGRESS, TOKEN, DOUBT]
                .map(|what| keys::disk(disk, what))
                .to_vec(),
            frees: true,
            ..Batch::default()
        };
        self.put_decision(batch).await?;
        self.upkeep.scrubs.lock().remove(&disk);
        Ok(())
    }

    /// Whether a disk was taken back and has not been looked through yet.
    #[must_use]
    pub fn is_returning(&self, disk: DiskId) -> bool {
        self.upkeep.decisions.lock().returned.contains(&disk)
    }
}
