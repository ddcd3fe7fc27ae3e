//! The redundancy ledger: how much data survives how many failures, proven by the times of
//! verification.
//!
//! It is computed from the records every time. A shard counts as good when its disk can be read now
//! and no damage of it is known. Its proof is the time when it was last written, or read whole and
//! found good. The proof of an encoding is the oldest of its shards', that of a line the oldest of
//! its encodings': "all of this was good at that time, or later".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::blob::CheckOutcome;
use crate::pace::Pace;
use dewar_types::{BlobId, DiskId, ErrorKind, Result, Timestamp};

use super::blob_index::Encoding;
use super::corruption::CorruptionLog;
use super::gc_queue::GcQueue;
use super::margins::Margins;
use super::scrub::ScrubProgress;
use crate::disks::Disks;

/// Records read in one scan.
const PAGE: usize = 512;

/// The redundancy ledger: amounts of data by the number of failures that they survive.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// When it was counted.
    pub counted: Timestamp,
    /// Failures that the catalog is to survive. It is the number of the safest pool's layout.
    pub full: i32,
    /// By failures left; negative means that it cannot be read now.
    pub lines: BTreeMap<i32, LedgerLine>,
    /// Disk failures that the catalog survives: the smaller number of its journal and its index.
    /// Negative if a part of it can be read from no disk.
    pub catalog: i32,
    /// Pieces of the catalog index that no disk has right.
    pub catalog_lost: u64,
    /// Whether the catalog was restored or rebuilt, and it is not decided yet whether blobs without
    /// a name are salvaged or given up. These blobs are in no line.
    pub unsettled: bool,
    /// The reason why not all records could be read, if it is lost data of the catalog. The counts
    /// cover the part that was read.
    pub unread: Option<String>,
    /// Bytes of small objects that are only in the journal, as safe as the catalog.
    pub unsealed_bytes: u64,
    /// Blobs without a name that are not freed yet. They are in no line, and their missing shards
    /// are not damage.
    pub freeing: PendingFree,
    /// Objects below full redundancy, the worst first, about a thousand if there are more. Only when
    /// asked for.
    pub at_risk: Vec<ObjectAtRisk>,
    /// Whether there were more.
    pub more: bool,
    /// Shards, pieces of the catalog index and files of the journal that were read for this ledger
    /// and found bad. Only when everything was read.
    pub found_bad: u64,
}

/// Blobs that wait to be freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingFree {
    /// Blobs.
    pub blobs: u64,
    /// Their content in bytes.
    pub bytes: u64,
}

/// A line of the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerLine {
    /// Encoded blobs: large objects or parts of them, and segments of small ones.
    pub blobs: u64,
    /// Their content in bytes.
    pub bytes: u64,
    /// Of the blobs, those that survive fewer failures than the layouts of their pools are to
    /// survive.
    pub lacking: u64,
    /// Objects; only when asked for.
    pub objects: Option<u64>,
    /// Everything in this line was good at this time or later; `None` if for some of it no time is
    /// known.
    pub proven: Option<Timestamp>,
}

/// An object that survives fewer failures than the layout is to survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectAtRisk {
    /// Failures left; negative when it cannot be read now.
    pub margin: i32,
    /// Its path.
    pub path: String,
}

impl Disks {
    /// Disk failures that the catalog survives now, as [`Ledger::catalog`].
    #[must_use]
    pub fn catalog_margin(&self) -> i32 {
        self.table.catalog_margin()
    }

    /// Continues without lost data of the catalog. Other errors are returned.
    ///
    /// # Errors
    /// The error in `counted`, unless it is about a part of the catalog that is lost.
    pub fn go_on_without<T: Default>(&self, counted: Result<T>, ledger: &mut Ledger) -> Result<T> {
        match counted {
            Err(error) if error.kind() == ErrorKind::Corrupt && self.table.catalog_lost() > 0 => {
                ledger.unread = Some(error.to_string());
                Ok(T::default())
            }
            counted => counted,
        }
    }

    /// Computes the ledger again, without objects, and the margins of the encodings below full
    /// redundancy. If `read` is set, every shard is read from its medium first, and `progress`
    /// counts the blobs that were read.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn ledger(&self, read: bool, progress: &AtomicU64) -> Result<(Ledger, Margins)> {
        self.look_for_anchors().await;
        let mut ledger = Ledger {
            counted: self.env.clock.now(),
            full: i32::try_from(self.blobs.pool().tolerance()).unwrap_or(i32::MAX),
            catalog: self.table.catalog_margin(),
            unsealed_bytes: self.segments.unsealed_bytes(),
            ..Ledger::default()
        };
        let rebuilt = self.rebuilt().await;
        ledger.unsettled = self.go_on_without(rebuilt, &mut ledger)?.is_some();
        let mut freeing = GcQueue::default();
        let queue = freeing.refresh(&self.catalog).await;
        self.go_on_without(queue, &mut ledger)?;
        let mut whole = BTreeSet::new();
        let mut trusted = BTreeSet::new();
        if read {
            let doubted = self.unverified_blobs();
            let before = self.steady();
            let everything = self.read_everything(&mut freeing, progress).await;
            (ledger.found_bad, whole) = self.go_on_without(everything, &mut ledger)?;
            let after = self.steady();
            for (disk, doubted) in doubted {
                let steady = before.contains_key(&disk) && before.get(&disk) == after.get(&disk);
                if steady && whole.contains(&disk) {
                    trusted.insert(disk);
                    self.end_doubt(disk, doubted.doubt).await?;
                }
            }
        }
        let queue = freeing.refresh(&self.catalog).await;
        self.go_on_without(queue, &mut ledger)?;
        let counting = self.count_encodings(&mut ledger, &freeing, &whole, &trusted);
        let margins = counting.await;
        let margins = self.go_on_without(margins, &mut ledger)?;
        self.note_catalog(&mut ledger);
        Ok((ledger, margins))
    }

    /// Notes how safe the catalog is now: a read may have been the first to find a part damaged.
    pub fn note_catalog(&self, ledger: &mut Ledger) {
        ledger.catalog = self.table.catalog_margin();
        ledger.catalog_lost = self.table.catalog_lost();
    }
}

impl Disks {
    /// Readable disks, with the number of their returns. A disk with the same number in two such
    /// maps was not absent in between.
    fn steady(&self) -> BTreeMap<DiskId, u32> {
        let members = self.blobs.pool().members();
        let there = members.filter_map(|member| Some((member.id, member.disk.state().returns()?)));
        there.collect()
    }

    /// Counts encodings. Everything on the disks `read` was read since [`Ledger::counted`]; on the
    /// disks `trusted`, which were in doubt, as well.
    async fn count_encodings(
        &self,
        ledger: &mut Ledger,
        freeing: &GcQueue,
        read: &BTreeSet<DiskId>,
        trusted: &BTreeSet<DiskId>,
    ) -> Result<Margins> {
        let mut progress: BTreeMap<DiskId, ScrubProgress> = BTreeMap::new();
        for member in self.blobs.pool().members() {
            progress.insert(member.id, self.scrub_progress(member.id).await?);
        }
        let mut disks = self.view();
        disks.distrust(&self.not_compared());
        for disk in trusted {
            disks.trust(*disk);
        }
        let counted = ledger.counted;
        // What the journal has can be read, whatever is lost of the index.
        let mut margins = Margins::new(
            self.upkeep.config.margins_max,
            ledger.full,
            ledger.catalog.max(0),
            disks.clone(),
        );
        self.for_each_encoding(|encoding, findings| {
            let record = &encoding.record;
            if freeing.holds(record.id) {
                ledger.freeing.blobs += 1;
                ledger.freeing.bytes += record.len;
                return;
            }
            let standing = disks.standing(record, findings);
            let proven = standing
                .good
                .iter()
                .map(|shard| {
                    let disk = &record.disks[shard];
                    let read = read.contains(disk).then_some(counted);
                    let scrubbed = progress.get(disk);
                    let scrubbed = scrubbed.and_then(|progress| progress.proof(record.id));
                    read.max(scrubbed).max(record.written)
                })
                .min()
                .flatten();
            let first = !ledger.lines.contains_key(&standing.margin);
            let line = ledger.lines.entry(standing.margin).or_default();
            line.blobs += 1;
            line.bytes += record.len;
            let lacks = standing.margin < disks.meant(record);
            line.lacking += u64::from(lacks);
            line.proven = match first {
                true => proven,
                false => line.proven.min(proven),
            };
            if lacks {
                margins.hold(record.id, standing.margin);
            }
        })
        .await?;
        Ok(margins)
    }

    /// Reads every shard from its medium, disk by disk in the order of the records, and records
    /// damage. Returns the number of bad shards, and the disks that could be read completely.
    async fn read_everything(
        &self,
        freeing: &mut GcQueue,
        progress: &AtomicU64,
    ) -> Result<(u64, BTreeSet<DiskId>)> {
        let pace = Pace::new(Arc::clone(&self.upkeep.demand), 0, 0);
        let mut rot = CorruptionLog::new("fsck");
        let began = self.env.clock.now();
        let below = self.catalog.ids().blob().await?;
        let mut proven: BTreeSet<DiskId> = self.blobs.pool().members().map(|m| m.id).collect();
        let mut from = BlobId(0);
        loop {
            let page = self.table.encodings(from, PAGE).await?;
            // What comes while it is read would keep it from ending.
            let there = page.encodings.iter().filter(|it| it.record.id < below);
            for encoding in there {
                if freeing.holds(encoding.record.id) {
                    continue;
                }
                let unread = self
                    .read_encoding(encoding, freeing, &pace, &mut rot)
                    .await?;
                proven.retain(|disk| !unread.contains(disk));
                progress.fetch_add(1, Ordering::Relaxed);
            }
            match page.next {
                Some(next) if next < below => from = next,
                _ => break,
            }
        }
        rot.sum_up(self);
        // Who has read a disk as a whole has scrubbed it.
        for &disk in &proven {
            if let Err(error) = self.note_proof(disk, began, below).await {
                // The catalog may not be writable just now; what was found is told all the same.
                let folder = self.folder_of(disk);
                tracing::info!(folder, %disk, %error, "that a disk was read as a whole is not noted");
            }
        }
        Ok((rot.total(), proven))
    }

    /// Reads the shards of an encoding; the disks that could not be read.
    async fn read_encoding(
        &self,
        encoding: &Encoding,
        freeing: &mut GcQueue,
        pace: &Pace,
        rot: &mut CorruptionLog,
    ) -> Result<Vec<DiskId>> {
        let record = &encoding.record;
        let mut unread = Vec::new();
        let shards = (0..record.disks.len())
            .filter(|shard| !record.missing.contains(&(*shard as u8)))
            .map(async |shard| (shard, self.blobs.check(record, shard, pace).await));
        for (shard, checked) in futures_util::future::join_all(shards).await {
            match checked? {
                CheckOutcome::Good => {}
                CheckOutcome::Unreachable => unread.push(record.disks[shard]),
                CheckOutcome::Damaged(damage) => {
                    if self.is_meant(encoding, freeing).await? {
                        rot.note(self, encoding, shard, &damage).await?;
                    }
                }
            }
        }
        Ok(unread)
    }
}
