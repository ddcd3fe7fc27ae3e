//! Salvage: objects that a catalog does not know are added to it from the descriptions in their
//! blobs.
//!
//! All folders of blobs are walked on all disks at once, in the order of ids. A blob that the
//! catalog names is only compared with its files ([`record_repair`]). A blob that it does not name, and that
//! can be younger than the source of the catalog ([`RebuildMarker`]), is reassembled from its headers. A
//! large object gets the path at which it was written. A segment is read as a whole, and its slots
//! are found by their headers. Each slot gets its path, and then the segment gets its record, in
//! which slots without a name are marked dead. Parts go to uploads under their old ids. The uploads
//! are joined at the end if their part numbers have no gap ([`uploads`]).
//!
//! Blobs themselves are never written to: only the catalog changes.
//!
//! # Crashes and repetition
//! Each step is one batch. Restored objects have a name, so a repetition skips them. A segment gets
//! its record last: before that, all of its slots are inspected again, and those with names keep
//! them. While [`RebuildMarker`] is in the catalog, nothing is swept. It is removed when everything could
//! be inspected.
//!
//! A change is reported just before it is made, and the loss in a segment just before the segment's
//! record is written: a repetition would find neither again. So a receiver that keeps all reports,
//! and counts a repeated report once, knows everything at the end.
//!
//! # Limits
//! Some facts cannot be recovered: names given later than the bytes (renames, copies), deletions
//! since then, tags, users' names and keys, owners of buckets, objects without content, and
//! unsealed data.
//!
//! Memory: a segment, the names of one folder, users and buckets, and blobs that wait to be freed.

mod record_repair;
mod report;
mod restore_names;
mod slots;
mod uploads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dewar_catalog::record::{Extent, Slot};
use dewar_catalog::{IdKind, keys};
use dewar_disks::blob::{BlobStore, ReassembledBlob, ScannedShard};
use dewar_disks::format::ShardKind;
use dewar_disks::salvage_header::SalvageHeader;
use dewar_disks::segment::{SegmentRecord, SegmentTable as _};
use dewar_disks::{BlobTable, RebuildMarker};
use dewar_namespace::{DataChanges, Tree};
use dewar_store::Store;
use dewar_types::{BlobId, ByteRange, Error, ErrorKind, Result, Timestamp};
use futures_util::StreamExt as _;

pub use report::{Finding, FindingReporter, SalvageTotals};
pub use restore_names::{KEPT_BUCKET, KEPT_USER};

use report::SalvageReporter;
use restore_names::{NameRestorer, SalvagedContent};
use slots::{SalvagedSlot, SegmentBytes};

/// Numbers left out above all that were found, for disks that are away.
pub(super) const ID_GAP: u64 = 1 << 32;

/// Blobs whose ids differ in the last bits share a folder.
const SHELF_BITS: u32 = 12;

/// Contents restored at once, which share journal writes.
const AT_ONCE: usize = 64;

/// Blobs to be freed that are read at once.
const QUEUED_AT_ONCE: usize = 1024;

/// Bytes of a segment read at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// The size of a read where a window cannot be read.
const STEP_BYTES: u64 = 4096;

/// Longest time, in nanoseconds, that a write may have been in progress when the source of the
/// catalog was taken. An older blob without a name is a leftover.
const UNDER_WAY: u64 = 24 * 3600 * 1_000_000_000;

/// How to salvage.
pub struct Salvage<'r> {
    /// Whether anything is changed; otherwise it is only said what would be.
    pub write: bool,
    /// Whether objects that the catalog does not know are put back, or only reported.
    pub place: bool,
    /// The source of the catalog, for a dry run on a catalog that does not record it.
    pub assume: Option<RebuildMarker>,
    /// Whether to record at the end that the catalog is complete. If not, the caller does so after
    /// it has reported the result.
    pub settle: bool,
    /// Receives all reports.
    pub report: &'r mut dyn FindingReporter,
}

/// The result of a salvage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// The counts of the findings.
    pub totals: SalvageTotals,
    /// Whether everything could be inspected, so that blobs without a name may be swept from now
    /// on.
    pub settled: bool,
}

impl Salvage<'_> {
    /// Salvages; see the module. The store must not be served, and must have no workers.
    ///
    /// # Errors
    /// Those of the catalog and of its disks. Completed steps stay, and a repetition continues
    /// there.
    pub async fn run(self, store: &Store) -> Result<SalvageReport> {
        let rebuilt = store.disks().rebuilt().await?.or(self.assume);
        if self.write && rebuilt.is_some() {
            raise_ids(store).await?;
        }
        let place = self.write && self.place;
        // What is put back was within the quotas when it was written.
        let _unlimited = store.tree().suspend_quotas();
        let from = rebuilt.as_ref().map(|rebuilt| rebuilt.from);
        let teller = SalvageReporter::new(self.report, from);
        let placer = NameRestorer::new(store, place, teller).await?;
        let queued = queued_to_be_freed(store).await?;
        let mut walk = SalvageWalk {
            store,
            placer,
            queued,
            rebuilt,
            write: self.write,
            place,
            looked_at: 0,
            known: 0,
            leftover: 0,
        };
        walk.all().await?;
        if place {
            walk.join_uploads().await?;
        }
        let totals = SalvageTotals {
            blobs: walk.looked_at,
            known: walk.known,
            leftover: walk.leftover,
            ..walk.placer.totals()
        };
        let settled = totals.unread == 0;
        if place && settled && self.settle {
            store.disks().settle_rebuilt().await?;
        }
        Ok(SalvageReport { totals, settled })
    }
}

async fn queued_to_be_freed(store: &Store) -> Result<BTreeSet<BlobId>> {
    let catalog = store.tree().catalog();
    let mut queued = BTreeSet::new();
    let mut after = None;
    loop {
        let some = catalog
            .unnamed_blobs(Timestamp(u64::MAX), after.as_ref(), QUEUED_AT_ONCE)
            .await?;
        queued.extend(some.iter().map(|unnamed| unnamed.blob));
        match some.last().filter(|_| some.len() == QUEUED_AT_ONCE) {
            Some(last) => after = Some(*last),
            None => return Ok(queued),
        }
    }
}

/// Ensures that no id is assigned twice, even if a former catalog assigned more: new ids are above
/// all that are found on the disks, with a gap. Called before anything is written.
async fn raise_ids(store: &Store) -> Result<()> {
    let (shelves, _) = store.disks().blobs().shelves().await;
    let ids = store.tree().ids();
    let own = format!("{:04x}-", ids.zone());
    let last = shelves.iter().rev().find_map(|name| {
        let counter = name.strip_prefix(&own)?;
        u64::from_str_radix(counter, 16).ok()
    });
    let blobs = last.map_or(0, |last| (last + 1) << SHELF_BITS);
    ids.raise(IdKind::Blob, blobs + ID_GAP).await?;
    for kind in [IdKind::Entry, IdKind::Version] {
        let reserved = ids.reserved(kind).await?;
        ids.raise(kind, reserved + ID_GAP).await?;
    }
    Ok(())
}

struct SalvageWalk<'a> {
    store: &'a Store,
    placer: NameRestorer<'a>,
    /// Blobs that no name leads to and that are to be freed.
    queued: BTreeSet<BlobId>,
    rebuilt: Option<RebuildMarker>,
    /// Whether records are mended.
    write: bool,
    /// Whether contents are placed.
    place: bool,
    /// Blobs; of these, such as the catalog names, and leftovers.
    looked_at: u64,
    known: u64,
    leftover: u64,
}

impl<'a> SalvageWalk<'a> {
    fn tree(&self) -> &'a Tree {
        self.store.tree()
    }

    fn blobs(&self) -> &'a Arc<BlobStore> {
        self.store.disks().blobs()
    }

    fn table(&self) -> &'a BlobTable {
        self.store.disks().table()
    }

    fn tell(&self, finding: &Finding) {
        self.placer.tell(std::slice::from_ref(finding));
    }

    async fn all(&mut self) -> Result<()> {
        let (shelves, unread) = self.blobs().shelves().await;
        for why in unread {
            self.tell(&Finding::Unread { why });
        }
        for shelf in &shelves {
            let found = self.blobs().shelf(shelf).await;
            for why in found.unread {
                self.tell(&Finding::Unread { why });
            }
            if let Some(range) = shelf_range(shelf) {
                self.compare(range, &found.blobs).await?;
            }
            for (blob, shards) in found.blobs {
                self.looked_at += 1;
                self.blob(blob, &shards).await?;
            }
        }
        self.without_shelf(&shelves).await
    }

    async fn blob(&mut self, blob: BlobId, shards: &[ScannedShard]) -> Result<()> {
        if self.is_known(blob).await? {
            self.known += 1;
            return Ok(());
        }
        if self.rebuilt.is_some() {
            self.placer.looks_at(blob);
        }
        let assembled = match self.blobs().assemble(blob, shards).await {
            Ok(assembled) => assembled,
            Err(error) => {
                // A write that did not end leaves the same, so only what may matter is told.
                if self.may_be_newer(blob, None) {
                    let why = error.message().to_owned();
                    let said = self.blobs().described(blob, shards).await;
                    let path = said
                        .filter(|(kind, _)| *kind == ShardKind::Object)
                        .and_then(|(_, owner)| SalvageHeader::from_bytes(&owner))
                        .map(|description| description.path);
                    self.tell(&Finding::Lacking { blob, path, why });
                } else {
                    self.leftover += 1;
                }
                return Ok(());
            }
        };
        if !self.may_be_newer(blob, Some(&assembled)) {
            self.leftover += 1;
            return Ok(());
        }
        match assembled.kind {
            ShardKind::Object => self.object(assembled).await,
            ShardKind::Segment => self.segment(assembled).await,
        }
    }

    async fn is_known(&self, blob: BlobId) -> Result<bool> {
        let catalog = self.tree().catalog();
        Ok(self.store.segments().is_unsealed(blob)
            || catalog.blob_record(blob).await?.is_some()
            || catalog.segment_record(blob).await?.is_some())
    }

    /// Whether the catalog may lack it because it was written later.
    fn may_be_newer(&self, blob: BlobId, assembled: Option<&ReassembledBlob>) -> bool {
        let Some(rebuilt) = &self.rebuilt else {
            return false;
        };
        if rebuilt.since.0 == 0 || blob >= rebuilt.bound {
            return true;
        }
        let earliest = rebuilt.since.0.saturating_sub(UNDER_WAY);
        assembled.is_none_or(|assembled| assembled.created.0 >= earliest)
    }

    async fn object(&mut self, assembled: ReassembledBlob) -> Result<()> {
        let blob = assembled.record.id;
        let description = SalvageHeader::from_bytes(&assembled.owner);
        let Some(description) = description.filter(|d| fits(d, assembled.record.len)) else {
            let why = "its header says nothing of an object".to_owned();
            self.tell(&Finding::Nameless { blob, why });
            return Ok(());
        };
        match self.placer.prepare(&description).await {
            Ok(()) => {}
            Err(error) if is_bad_name(&error) => {
                let why = error.message().to_owned();
                self.tell(&Finding::Nameless { blob, why });
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let content = SalvagedContent {
            extent: encrypted(Extent::large(blob, 0, description.size), &description),
            extra: DataChanges {
                puts: BlobTable::first_entries(&assembled.record),
                ..DataChanges::default()
            },
            main: self.blobs().pool().number(),
            description: &description,
        };
        self.placer.place(&content).await?;
        Ok(())
    }

    async fn segment(&mut self, assembled: ReassembledBlob) -> Result<()> {
        let blob = assembled.record.id;
        let bytes = self.read_segment(&assembled).await?;
        let stretches = bytes.unreadable.iter();
        let mut lost: Vec<Finding> = stretches
            .map(|&(offset, len)| Finding::Unreadable { blob, offset, len })
            .collect();
        // What lost its name under the catalog although it did not know the segment sealed.
        let dead = self.table().dead_stretches(blob).await?;
        let mut by_path: BTreeMap<String, Vec<(SalvagedSlot, SalvageHeader)>> = BTreeMap::new();
        for slot in bytes.slots() {
            if dead.binary_search(&(slot.offset, slot.len)).is_ok() {
                continue;
            }
            let nameless = |why: &str| Finding::Nameless {
                blob,
                why: format!("at {}: {why}", slot.offset),
            };
            let Some(description) = SalvageHeader::from_bytes(&slot.description) else {
                lost.push(nameless("a header that says nothing of an object"));
                continue;
            };
            if !fits(&description, u64::from(slot.len - slot.header)) {
                lost.push(nameless("a header of another length"));
                continue;
            }
            if !bytes.is_readable(u64::from(slot.offset), u64::from(slot.len)) {
                lost.push(nameless(&format!("{} cannot be read", description.path)));
                continue;
            }
            match self.placer.prepare(&description).await {
                Ok(()) => {}
                Err(error) if is_bad_name(&error) => {
                    lost.push(nameless(error.message()));
                    continue;
                }
                Err(error) => return Err(error),
            }
            let contents = by_path.entry(description.path.clone()).or_default();
            contents.push((slot, description));
        }
        drop(bytes);
        let placer = &self.placer;
        let placing = by_path
            .into_values()
            .map(|contents| place_all(placer, blob, contents));
        let mut placing = futures_util::stream::iter(placing).buffer_unordered(AT_ONCE);
        let mut named = Vec::new();
        while let Some(placed) = placing.next().await {
            named.extend(placed?);
        }
        drop(placing);
        // With its record it is looked at no more.
        self.placer.tell(&lost);
        if self.place && !named.is_empty() {
            named.sort_unstable();
            self.seal(assembled, &named).await?;
        }
        Ok(())
    }

    /// Gives a segment its record, when all that has a name in it has it.
    async fn seal(&self, assembled: ReassembledBlob, named: &[(u32, u32)]) -> Result<()> {
        let table = self.table();
        let id = assembled.record.id;
        let len = u32::try_from(assembled.record.len).unwrap_or(u32::MAX);
        // What the catalog lost a name for since it was made is marked already.
        let mut taken: Vec<(u32, u32)> = table.dead_stretches(id).await?;
        taken.extend_from_slice(named);
        taken.sort_unstable();
        let mut holes = Vec::new();
        let mut at = 0;
        for (offset, bytes) in taken {
            if offset > at {
                holes.push((at, offset - at));
            }
            at = at.max(offset.saturating_add(bytes));
        }
        if len > at {
            holes.push((at, len - at));
        }
        let record = SegmentRecord::Whole {
            blob: assembled.record,
        };
        table.seal(id, &record, &holes).await
    }

    async fn read_segment(&self, assembled: &ReassembledBlob) -> Result<SegmentBytes> {
        let reader = self.blobs().open(Arc::new(assembled.record.clone()))?;
        let len = reader.len();
        if len > u64::from(u32::MAX) {
            let message = format!("segment {} has {len} bytes", assembled.record.id);
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let mut all = SegmentBytes::default();
        let mut at = 0;
        while at < len {
            let window = ByteRange {
                start: at,
                end: (at + WINDOW_BYTES).min(len),
            };
            at = window.end;
            if let Ok(bytes) = reader.read(window).await {
                all.bytes.extend_from_slice(&bytes);
                continue;
            }
            let mut from = window.start;
            while from < window.end {
                let step = ByteRange {
                    start: from,
                    end: (from + STEP_BYTES).min(window.end),
                };
                from = step.end;
                match reader.read(step).await {
                    Ok(bytes) => all.bytes.extend_from_slice(&bytes),
                    Err(_) => {
                        all.bytes.resize(step.end as usize, 0);
                        match all.unreadable.last_mut() {
                            Some((start, len)) if *start + *len == step.start => *len += step.len(),
                            _ => all.unreadable.push((step.start, step.len())),
                        }
                    }
                }
            }
        }
        Ok(all)
    }
}

/// Whether a content of so many stored bytes can be the one described.
fn fits(description: &SalvageHeader, stored: u64) -> bool {
    match (description.salt, &description.encryption) {
        (None, None) => description.digests.is_some() && description.size == stored,
        // Sealed chunks are longer.
        (Some(_), Some(_)) => description.size < stored,
        _ => false,
    }
}

fn encrypted(extent: Extent, description: &SalvageHeader) -> Extent {
    match description.salt {
        Some(salt) => extent.encrypted(salt, description.size),
        None => extent,
    }
}

/// Restores the contents of one path, one after the other. Returns the ranges that names lead to
/// now.
async fn place_all(
    placer: &NameRestorer<'_>,
    segment: BlobId,
    contents: Vec<(SalvagedSlot, SalvageHeader)>,
) -> Result<Vec<(u32, u32)>> {
    let mut named = Vec::with_capacity(contents.len());
    for (slot, description) in contents {
        let place = Slot {
            offset: slot.offset,
            header: slot.header,
            len: slot.len,
        };
        let content = SalvagedContent {
            description: &description,
            extent: encrypted(Extent::small(segment, place), &description),
            main: placer.store.disks().blobs().pool().number(),
            extra: DataChanges::default(),
        };
        if placer.place(&content).await? {
            named.push((slot.offset, slot.len));
        }
    }
    Ok(named)
}

/// Whether a name is impossible, because the path is damaged or from another release.
fn is_bad_name(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidName | ErrorKind::InvalidArgument
    )
}

/// The ids whose shards are in a folder.
fn shelf_range(name: &str) -> Option<core::ops::Range<BlobId>> {
    let (zone, counter) = name.split_once('-')?;
    let zone = u16::from_str_radix(zone, 16).ok()?;
    let first = u64::from_str_radix(counter, 16).ok()? << SHELF_BITS;
    let from = BlobId::new(zone, first);
    Some(from..BlobId(from.0 + (1 << SHELF_BITS)))
}

/// The catalog's entry about its source.
pub(super) fn rebuilt_entry(rebuilt: &RebuildMarker) -> (bytes::Bytes, bytes::Bytes) {
    (keys::rebuilt(), rebuilt.to_bytes().into())
}

/// Folders in the order of the ids in them.
type Shelves = BTreeSet<String>;
