//! The redundancy ledger: how much could stand how many failures, proven by what was verified.
//!
//! It is counted from the records every time. A shard counts as good when its disk can be read now
//! and nothing bad is known of it; its proof is the time when it was last written or read whole and
//! found good. An encoding's proof is the oldest of its shards', a line's the oldest of its
//! encodings': "all of this was good at that time, at the latest".

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dewar_data::blob::Checked;
use dewar_data::pace::Pace;
use dewar_data::segment::SegmentRecord;
use dewar_meta::kv::Scan;
use dewar_meta::ns::keys;
use dewar_meta::ns::record::{CopyState, Entry, Record, VersionRecord};
use dewar_types::{BlobId, DiskId, EntryId, PoolId, Result, Timestamp};

use super::encodings::Encoding;
use super::freeing::Freeing;
use super::scrub::Progress;
use crate::{Inner, Store};

/// Encodings below full redundancy that are remembered to find the objects in them.
const DEGRADED_MAX: usize = 1 << 20;

/// Objects that are named.
pub(super) const NAMED_MAX: usize = 1000;

/// Records looked at in one scan.
const PAGE: usize = 512;

/// How much stands how many failures.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// When it was counted.
    pub counted: Timestamp,
    /// Failures that the catalog is to survive, and the layout of at least one pool; that of no pool
    /// survives more.
    pub full: i32,
    /// By failures left; negative means that it cannot be read now.
    pub lines: BTreeMap<i32, LedgerLine>,
    /// Failures of disks that the catalog survives: its journal and its index, whichever is worse off.
    pub catalog: i32,
    /// Bytes of small objects that stand in the journal only, as safe as the catalog.
    pub unsealed_bytes: u64,
    /// Blobs that nothing names any more and that are not freed yet: they are in no line, and what is
    /// gone of them already is not bad.
    pub freeing: Freed,
    /// Objects below full redundancy, the worst first, [`NAMED_MAX`] at most. Only when asked for.
    pub at_risk: Vec<Danger>,
    /// Whether there were more.
    pub more: bool,
    /// Shards, and pieces of the catalog index, that were read for this ledger and found bad; only when
    /// everything was read.
    pub found_bad: u64,
}

/// What waits to be freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
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
    /// Of the blobs, those with fewer failures left than the layouts of their pools are to survive.
    pub lacking: u64,
    /// Objects; only when asked for.
    pub objects: Option<u64>,
    /// Everything in this line was good at this time or later; `None` if for something no time is
    /// known.
    pub proven: Option<Timestamp>,
}

/// An object that could be lost to fewer failures than the layout is to survive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Danger {
    /// Failures left; negative when it cannot be read now.
    pub margin: i32,
    /// Its path.
    pub path: String,
}

/// What a ledger takes into account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerDepth {
    /// Objects are counted and those at risk named: all names are read.
    pub objects: bool,
    /// Every shard is read from its medium first.
    pub read: bool,
}

impl Store {
    /// Failures of disks that the catalog survives now: as [`Ledger::catalog`].
    #[must_use]
    pub fn catalog_margin(&self) -> i32 {
        self.inner.table.catalog_margin()
    }

    /// Counts the ledger anew. `progress` counts the blobs that were read.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn ledger(&self, depth: LedgerDepth, progress: &AtomicU64) -> Result<Ledger> {
        let inner = &self.inner;
        inner.look_for_anchors().await;
        let mut ledger = Ledger {
            counted: inner.env.clock.now(),
            full: i32::try_from(inner.blobs.pool().tolerance()).unwrap_or(i32::MAX),
            catalog: inner.table.catalog_margin(),
            unsealed_bytes: inner.segments.unsealed_bytes(),
            ..Ledger::default()
        };
        let mut freeing = Freeing::default();
        freeing.refresh(&inner.tree).await?;
        let mut read = None;
        if depth.read {
            read = Some(ledger.counted);
            ledger.found_bad = inner.read_everything(&mut freeing, progress).await?;
        }
        freeing.refresh(&inner.tree).await?;
        let degraded = inner.count_encodings(&mut ledger, &freeing, read).await?;
        if depth.objects {
            let disks = inner.blobs.pool().layouts().collect::<BTreeMap<_, _>>();
            let most = ledger.full;
            let meant = |pool: PoolId| {
                let number = u16::try_from(pool.0).ok();
                let layout = number.and_then(|number| disks.get(&number));
                layout.map_or(most, |layout| i32::from(layout.m))
            };
            inner.count_objects(&mut ledger, &degraded, meant).await?;
        }
        Ok(ledger)
    }
}

/// Encodings below full redundancy, with what they have left.
type Degraded = BTreeMap<BlobId, i32>;

impl Inner {
    /// `read` is when everything was begun to be read, if it was.
    async fn count_encodings(
        &self,
        ledger: &mut Ledger,
        freeing: &Freeing,
        read: Option<Timestamp>,
    ) -> Result<Degraded> {
        let mut progress: BTreeMap<DiskId, Progress> = BTreeMap::new();
        for member in self.blobs.pool().members() {
            progress.insert(member.id, self.scrub_progress(member.id).await?);
        }
        let disks = self.disks();
        let mut degraded = Degraded::new();
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
                    let scrubbed = progress
                        .get(&record.disks[shard])
                        .and_then(|progress| progress.proof(record.id));
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
            if lacks && degraded.len() < DEGRADED_MAX {
                degraded.insert(record.id, standing.margin);
            }
        })
        .await?;
        Ok(degraded)
    }

    /// Reads every shard from its medium, disk by disk in the order of the records, and notes what
    /// is bad.
    async fn read_everything(&self, freeing: &mut Freeing, progress: &AtomicU64) -> Result<u64> {
        let pace = Pace::new(Arc::clone(&self.upkeep.demand), 0, 0);
        let mut bad = 0;
        let mut from = BlobId(0);
        loop {
            let page = self.table.encodings(from, PAGE).await?;
            for encoding in &page.encodings {
                if freeing.holds(encoding.record.id) {
                    continue;
                }
                bad += self.read_encoding(encoding, freeing, &pace).await?;
                progress.fetch_add(1, Ordering::Relaxed);
            }
            match page.next {
                Some(next) => from = next,
                None => return Ok(bad),
            }
        }
    }

    async fn read_encoding(
        &self,
        encoding: &Encoding,
        freeing: &mut Freeing,
        pace: &Pace,
    ) -> Result<u64> {
        let record = &encoding.record;
        let mut bad = 0;
        let shards = (0..record.disks.len())
            .filter(|shard| !record.missing.contains(&(*shard as u8)))
            .map(async |shard| (shard, self.blobs.check(record, shard, pace).await));
        for (shard, checked) in futures_util::future::join_all(shards).await {
            if let Checked::Damaged(_) = checked?
                && self.is_meant(encoding, freeing).await?
            {
                bad += 1;
                self.table
                    .note(encoding, shard, self.env.clock.now())
                    .await?;
                self.upkeep.queued();
            }
        }
        Ok(bad)
    }

    /// Counts objects by what they have left, and names those that are not as safe as they should be.
    /// `meant` says how many failures what is in a pool is to survive.
    async fn count_objects(
        &self,
        ledger: &mut Ledger,
        degraded: &Degraded,
        meant: impl Fn(PoolId) -> i32,
    ) -> Result<()> {
        let packed = self.packed_in(degraded).await?;
        let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
        let mut dangers: Vec<(i32, EntryId, String)> = Vec::new();
        let mut dirs: BTreeMap<EntryId, (EntryId, String)> = BTreeMap::new();
        let kv = self.tree.kv().snapshot();
        for table in [keys::ENTRY, keys::VERSION] {
            let range = keys::KeyRange::prefix(bytes::Bytes::copy_from_slice(&[table]));
            let mut from = range.from.clone();
            loop {
                let scan = Scan {
                    from: &from,
                    to: &range.to,
                    limit: PAGE,
                    reverse: false,
                };
                let page = kv.scan(scan).await?;
                for (key, value) in &page.pairs {
                    let (parent, name, version) = if table == keys::VERSION {
                        let (parent, name, id) = keys::parse_version(key)?;
                        let version = VersionRecord::from_value(key, value)?;
                        (parent, format!("{name} (version {id})"), version)
                    } else {
                        let (parent, name, _) = keys::parse_entry(key)?;
                        match Entry::from_value(key, value)? {
                            Entry::Dir(dir) => {
                                dirs.insert(dir.attributes.id, (parent, name.to_owned()));
                                continue;
                            }
                            Entry::File(file) => (parent, name.to_owned(), file.current),
                            Entry::Symlink(_) => continue,
                        }
                    };
                    let (margin, lacks) = self
                        .margin_of(&version, ledger, degraded, &packed, &meant)
                        .await?;
                    *counts.entry(margin).or_default() += 1;
                    if lacks {
                        ledger.more |= dangers.len() >= NAMED_MAX;
                        // The worst are kept.
                        dangers.push((margin, parent, name));
                        if dangers.len() >= 2 * NAMED_MAX {
                            dangers.sort_by_key(|(margin, ..)| *margin);
                            dangers.truncate(NAMED_MAX);
                        }
                    }
                }
                match page.pairs.last().filter(|_| page.more) {
                    Some((last, _)) => from = keys::just_after(last),
                    None => break,
                }
            }
        }
        for (margin, objects) in counts {
            ledger.lines.entry(margin).or_default().objects = Some(objects);
        }
        dangers.sort_by_key(|(margin, ..)| *margin);
        dangers.truncate(NAMED_MAX);
        ledger.at_risk = dangers
            .into_iter()
            .map(|(margin, parent, name)| Danger {
                margin,
                path: path_of(&dirs, parent, &name),
            })
            .collect();
        Ok(())
    }

    /// Paths of objects that have a part in one of these blobs, some of them if there are many.
    pub(super) async fn objects_in(&self, blobs: &BTreeMap<BlobId, i32>) -> Result<Vec<String>> {
        let mut ledger = Ledger::default();
        self.count_objects(&mut ledger, blobs, |_| 0).await?;
        let named = ledger.at_risk.into_iter();
        Ok(named.map(|danger| danger.path).collect())
    }

    /// Segments that were packed into a blob below full redundancy.
    async fn packed_in(&self, degraded: &Degraded) -> Result<Degraded> {
        let mut packed = Degraded::new();
        let mut range = keys::encodings(keys::SEGMENT, BlobId(0));
        while !degraded.is_empty() {
            let scan = Scan {
                from: &range.from,
                to: &range.to,
                limit: PAGE,
                reverse: false,
            };
            let page = self.tree.kv().scan(scan).await?;
            for (key, value) in &page.pairs {
                if let SegmentRecord::Packed { blob, .. } = SegmentRecord::from_bytes(value)?
                    && let Some(margin) = degraded.get(&blob)
                {
                    packed.insert(keys::parse_blob(key)?, *margin);
                }
            }
            match page.pairs.last().filter(|_| page.more) {
                Some((last, _)) => range.from = keys::just_after(last),
                None => break,
            }
        }
        Ok(packed)
    }

    /// The fewest failures that any part of a version's best copy survives, and whether it is to survive
    /// more.
    async fn margin_of(
        &self,
        version: &VersionRecord,
        ledger: &Ledger,
        degraded: &Degraded,
        packed: &Degraded,
        meant: &impl Fn(PoolId) -> i32,
    ) -> Result<(i32, bool)> {
        let mut best: Option<(i32, bool)> = None;
        for (copy, stored) in version.copies.iter().enumerate() {
            if stored.state == CopyState::Cached {
                continue;
            }
            let extents = self.tree.extents(version, copy).await?;
            let full = meant(stored.pool);
            let margin = extents
                .iter()
                .map(|extent| {
                    let known = degraded
                        .get(&extent.blob)
                        .or_else(|| packed.get(&extent.blob));
                    match known {
                        Some(margin) => *margin,
                        None if extent.slot.is_some() && self.segments.is_unsealed(extent.blob) => {
                            ledger.catalog.min(full)
                        }
                        None => full,
                    }
                })
                .min();
            // Without content it is as safe as its name.
            let margin = margin.unwrap_or(full);
            if best.is_none_or(|(best, _)| best < margin) {
                best = Some((margin, margin < full));
            }
        }
        Ok(best.unwrap_or((ledger.full, false)))
    }
}

fn path_of(dirs: &BTreeMap<EntryId, (EntryId, String)>, parent: EntryId, name: &str) -> String {
    let mut path = name.to_owned();
    let mut at = parent;
    // Cycles cannot be, but a damaged catalog must not hang whoever looks at it.
    for _ in 0..1024 {
        let Some((above, name)) = dirs.get(&at) else {
            break;
        };
        path = format!("{name}/{path}");
        at = *above;
    }
    path
}
