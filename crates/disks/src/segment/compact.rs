//! Compaction: live data of mostly dead blobs of segments is copied into one new blob.
//!
//! The unit is a blob: a sealed segment, or a shared blob of an earlier compaction. When at least
//! half of its bytes are dead, all live data in it is copied, of all segments that are in it. Every
//! blob of segments is therefore at least half alive, or about to be freed, and no blob needs a
//! count of its references.
//!
//! Objects are not touched. Only the segments' records change, in one batch that also removes the
//! processed dead marks. Marks that arrive meanwhile stay, and count for the next time. The old
//! blobs are returned to be freed after a grace time, so that reads under way finish.
//!
//! Cost: a step reads [`LOOKED_AT`] counters and their records, reads the dead marks of the
//! compacted blobs only, and copies at most a segment's bytes. Memory: the marks and runs of
//! [`ENTRIES_MAX`], and one window of bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dewar_env::InterruptionMark;
use dewar_types::{BlobId, ByteRange, Error, ErrorKind, Result};

use super::Segments;
use super::record::{RelocatedRange, SegmentRecord, alive};
use crate::blob::{BlobReader, BlobRecord, BlobWriter};
use crate::format::ShardKind;

/// Counters of dead bytes that a step looks at.
const LOOKED_AT: usize = 1024;

/// Segments that one blob is shared by, at most; each record lists them all.
const MEMBERS_MAX: usize = 64;

/// Dead marks and live runs in one batch, at most; one blob may have more for itself.
const ENTRIES_MAX: usize = 128 * 1024;

/// Live runs that are this near are read together with what is between them, in bytes.
const GAP_BYTES: u64 = 32 * 1024;

/// Bytes read at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// A segment and its dead bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadBytes {
    /// The segment.
    pub segment: BlobId,
    /// Bytes of its slots that nothing names any more.
    pub bytes: u64,
}

/// Some of the segments with dead bytes.
#[derive(Clone, Debug, Default)]
pub struct DeadPage {
    /// The segments, by id.
    pub dead: Vec<DeadBytes>,
    /// Start of the next step; `None` at the end.
    pub next: Option<BlobId>,
}

/// One batch of the catalog that ends a compaction.
#[derive(Clone, Debug, Default)]
pub struct Compaction {
    /// Each segment with its old record (so that a change in between is noticed) and its new one.
    /// `None` when nothing of it is alive, so that no mark for it can come any more.
    pub segments: Vec<(BlobId, SegmentRecord, Option<SegmentRecord>)>,
    /// The new blob, whose record must be stored; `None` when nothing was alive.
    pub packed: Option<BlobRecord>,
    /// Blobs without references. Their records must be kept until they are freed.
    pub freed: Vec<BlobRecord>,
    /// The processed dead marks to remove, per segment.
    pub honoured: BTreeMap<BlobId, Vec<(u32, u32)>>,
}

/// What compaction remembers from step to step.
#[derive(Debug)]
pub(super) struct Compactor {
    /// Start of the next search.
    cursor: BlobId,
    /// A change with an unknown result. It is resolved before anything else.
    unfinished: Option<Compaction>,
    /// Blobs that could not be compacted. They are skipped until a round found nothing else.
    avoid: BTreeSet<BlobId>,
    /// Whether a step takes one blob only, to find the one that cannot be compacted.
    alone: bool,
    /// The pool whose blobs are compacted next, or the next one after it.
    turn: u16,
}

impl Default for Compactor {
    fn default() -> Self {
        Self {
            cursor: BlobId(0),
            unfinished: None,
            avoid: BTreeSet::new(),
            alone: false,
            turn: 0,
        }
    }
}

/// A blob that is mostly dead.
struct Unit {
    blob: BlobRecord,
    victims: Vec<Victim>,
}

/// What is to be packed into one new blob.
#[derive(Default)]
struct Load {
    units: Vec<Unit>,
    live: u64,
    entries: usize,
    members: usize,
    /// Takes no more.
    full: bool,
}

impl Load {
    /// Takes a unit if it fits; the first one always does.
    fn take(&mut self, unit: Unit, bytes_max: u64, alone: bool) {
        let fits = self.live + unit.live() <= bytes_max
            && self.entries + unit.entries() <= ENTRIES_MAX
            && self.members + unit.victims.len() <= MEMBERS_MAX;
        self.full |= !self.units.is_empty() && (alone || !fits);
        if self.full {
            return;
        }
        self.live += unit.live();
        self.entries += unit.entries();
        self.members += unit.victims.len();
        self.units.push(unit);
    }
}

struct Victim {
    segment: BlobId,
    record: SegmentRecord,
    /// Live runs: logical offset and length.
    alive: Vec<(u32, u32)>,
    dead: Vec<(u32, u32)>,
}

impl Segments {
    /// Compacts the worst blobs of a range of the segments, as many as fill one new blob. The next
    /// step continues after it. Returns the bytes gained, 0 when no blob there was mostly dead.
    ///
    /// # Errors
    /// Those of reading, writing and of the catalog. Then nothing has changed, or the next step
    /// finds out whether it has.
    pub async fn compact_step(self: &Arc<Self>) -> Result<u64> {
        let mut compactor = self.compactor.lock().await;
        if compactor.unfinished.is_some() {
            dewar_env::coverage_mark("it was found out whether a compaction had happened");
        }
        if compactor.unfinished.is_none() {
            let units = self.choose(&mut compactor).await?;
            if units.is_empty() {
                return Ok(0);
            }
            let underway = InterruptionMark::new("a compaction was cut short");
            let packed = self.pack(&units).await;
            underway.done();
            match packed {
                Ok(change) => compactor.unfinished = Some(change),
                Err(error) => {
                    match &units[..] {
                        [only] => {
                            compactor.avoid.insert(only.blob.id);
                        }
                        _ => compactor.alone = true,
                    }
                    return Err(error);
                }
            }
        }
        self.finish(&mut compactor).await
    }

    /// Applies what was packed.
    async fn finish(&self, compactor: &mut Compactor) -> Result<u64> {
        let Some(change) = &compactor.unfinished else {
            return Ok(0);
        };
        let underway = InterruptionMark::new("a compaction was cut short");
        let changed = self.table.compacted(change.clone()).await;
        underway.done();
        if let Err(error) = changed {
            if error.kind() != ErrorKind::Conflict {
                return Err(error);
            }
            dewar_env::coverage_mark("a compaction found its records changed");
            // Refused because it had happened, or because a record is another now.
            if !self.happened(change).await? {
                if let Some(packed) = &change.packed {
                    self.blobs.take_back(packed).await;
                }
                compactor.unfinished = None;
                return Err(error);
            }
        }
        dewar_env::coverage_mark("segments were compacted");
        for (segment, ..) in &change.segments {
            self.forget(*segment);
        }
        let freed: u64 = change.freed.iter().map(|blob| blob.len).sum();
        let kept = change.packed.as_ref().map_or(0, |blob| blob.len);
        compactor.unfinished = None;
        Ok(freed.saturating_sub(kept))
    }

    async fn happened(&self, change: &Compaction) -> Result<bool> {
        for (segment, _, becomes) in &change.segments {
            if self.table.segment(*segment).await? != *becomes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The worst blobs of the next stretch of segments.
    async fn choose(&self, compactor: &mut Compactor) -> Result<Vec<Unit>> {
        let page = self.table.dead_bytes(compactor.cursor, LOOKED_AT).await?;
        compactor.cursor = page.next.unwrap_or(BlobId(0));
        let mut dead = page.dead;
        dead.sort_by_key(|dead| (core::cmp::Reverse(dead.bytes), dead.segment));
        let mut loads: BTreeMap<u16, Load> = BTreeMap::new();
        let mut seen = compactor.avoid.clone();
        for DeadBytes { segment, .. } in dead {
            // A segment in memory is not sealed yet. An attempt may have stored its record without an
            // answer, and the next attempt would bring the record of a compacted segment back.
            if self.is_unsealed(segment) {
                continue;
            }
            let Some(record) = self.table.segment(segment).await? else {
                continue;
            };
            if !seen.insert(record.blob()) {
                continue;
            }
            let Some(unit) = self.unit(segment, record).await? else {
                continue;
            };
            let load = loads.entry(unit.blob.pool).or_default();
            load.take(unit, u64::from(self.limits.bytes), compactor.alone);
            if loads.values().all(|load| load.full) {
                break;
            }
        }
        // What is packed together stays in its pool, and the pools take turns.
        let turn = loads
            .range(compactor.turn..)
            .next()
            .or(loads.first_key_value());
        let turn = turn.map(|(pool, _)| *pool);
        compactor.turn = turn.map_or(0, |pool| pool.wrapping_add(1));
        let load = turn.and_then(|pool| loads.remove(&pool));
        let units = load.unwrap_or_default().units;
        if units.is_empty() && page.next.is_none() {
            compactor.avoid.clear();
            compactor.alone = false;
        }
        Ok(units)
    }

    /// The blob that holds a segment, if it is mostly dead and nobody reads it. The marks are read
    /// only then, and after the look at the readers: who begins later finds the names as the marks
    /// have them.
    async fn unit(&self, segment: BlobId, record: SegmentRecord) -> Result<Option<Unit>> {
        let (blob, members) = match &record {
            SegmentRecord::Whole { blob } => (blob.clone(), vec![(segment, record)]),
            SegmentRecord::Packed { blob, members, .. } => {
                let shared = self.table.blob(*blob).await?.ok_or_else(|| {
                    let message = format!("blob {blob} of segment {segment} has no record");
                    Error::new(ErrorKind::Corrupt, message)
                })?;
                let mut records = Vec::new();
                for member in members {
                    if let Some(record) = self.table.segment(*member).await?
                        && record.blob() == *blob
                    {
                        records.push((*member, record));
                    }
                }
                (shared, records)
            }
        };
        let mut live = 0;
        for (segment, record) in &members {
            let dead = self.table.dead_total(*segment).await?;
            let placed: u64 = spans(record).iter().map(|(_, len)| u64::from(*len)).sum();
            live += placed.saturating_sub(dead);
        }
        if live > blob.len / 2
            || members
                .iter()
                .any(|(segment, _)| self.table.is_read(*segment))
        {
            return Ok(None);
        }
        let mut victims = Vec::with_capacity(members.len());
        for (segment, record) in members {
            let dead = self.table.dead(segment).await?;
            victims.push(Victim {
                alive: alive(&spans(&record), &dead),
                segment,
                record,
                dead,
            });
        }
        Ok(Some(Unit { blob, victims }))
    }

    /// Writes what is alive into a new blob and says what the catalog must change.
    async fn pack(&self, units: &[Unit]) -> Result<Compaction> {
        let mut change = Compaction::default();
        let id = self.table.mint().await?;
        let victims = || units.iter().flat_map(|unit| &unit.victims);
        let members: Vec<BlobId> = victims()
            .filter(|victim| !victim.alive.is_empty())
            .map(|victim| victim.segment)
            .collect();
        if !members.is_empty() {
            let pool = units
                .first()
                .map_or(self.blobs.pool().number(), |unit| unit.blob.pool);
            let mut writer = self.blobs.create_in(pool, id, ShardKind::Segment)?;
            for unit in units {
                let reader = self.blobs.open(Arc::new(unit.blob.clone()))?;
                for victim in &unit.victims {
                    copy(&reader, victim, &mut writer).await?;
                }
            }
            change.packed = Some(writer.seal(b"packed segments").await?);
        }
        let mut physical = 0;
        for victim in victims() {
            let runs: Vec<RelocatedRange> = victim
                .alive
                .iter()
                .map(|&(logical, len)| {
                    let run = RelocatedRange {
                        logical,
                        len,
                        physical,
                    };
                    physical += u64::from(len);
                    run
                })
                .collect();
            let becomes = (!runs.is_empty()).then(|| SegmentRecord::Packed {
                blob: id,
                runs,
                members: members.clone(),
            });
            let was = victim.record.clone();
            change.segments.push((victim.segment, was, becomes));
            change.honoured.insert(victim.segment, victim.dead.clone());
        }
        change.freed = units.iter().map(|unit| unit.blob.clone()).collect();
        Ok(change)
    }
}

/// Copies what is alive of a segment, in the order of its runs, reading near ones together.
async fn copy(reader: &BlobReader, victim: &Victim, writer: &mut BlobWriter) -> Result<()> {
    let mut group: Vec<ByteRange> = Vec::new();
    for &(logical, len) in &victim.alive {
        let range = victim.physical(logical, len)?;
        if let (Some(first), Some(last)) = (group.first(), group.last()) {
            let near = range.start >= last.end
                && range.start - last.end <= GAP_BYTES
                && range.end - first.start <= WINDOW_BYTES;
            if !near {
                copy_group(reader, &group, writer).await?;
                group.clear();
            }
        }
        group.push(range);
    }
    copy_group(reader, &group, writer).await
}

async fn copy_group(
    reader: &BlobReader,
    group: &[ByteRange],
    writer: &mut BlobWriter,
) -> Result<()> {
    let (Some(first), Some(last)) = (group.first(), group.last()) else {
        return Ok(());
    };
    let window = ByteRange {
        start: first.start,
        end: last.end,
    };
    if window.end > reader.len() {
        let message = format!(
            "a run of a segment ends at {} of {}",
            window.end,
            reader.len()
        );
        return Err(Error::new(ErrorKind::Corrupt, message));
    }
    if group.len() == 1 {
        let mut stream = reader.stream(window);
        while let Some(bytes) = stream.next().await {
            writer.write(bytes?).await?;
        }
        return Ok(());
    }
    let bytes = reader.read(window).await?;
    for range in group {
        let (from, to) = (range.start - window.start, range.end - window.start);
        writer
            .write(bytes.slice(from as usize..to as usize))
            .await?;
    }
    Ok(())
}

/// The stretches of a segment's logical space that its blob holds.
fn spans(record: &SegmentRecord) -> Vec<(u32, u32)> {
    match record {
        SegmentRecord::Whole { blob } => vec![(0, blob.len as u32)],
        SegmentRecord::Packed { runs, .. } => {
            runs.iter().map(|run| (run.logical, run.len)).collect()
        }
    }
}

impl Unit {
    fn live(&self) -> u64 {
        self.victims
            .iter()
            .flat_map(|victim| &victim.alive)
            .map(|(_, len)| u64::from(*len))
            .sum()
    }

    fn entries(&self) -> usize {
        self.victims
            .iter()
            .map(|victim| victim.alive.len() + victim.dead.len())
            .sum()
    }
}

impl Victim {
    fn physical(&self, logical: u32, len: u32) -> Result<ByteRange> {
        let start = match &self.record {
            SegmentRecord::Whole { .. } => Some(u64::from(logical)),
            SegmentRecord::Packed { runs, .. } => super::record::locate(runs, logical, len),
        };
        let start = start.ok_or_else(|| {
            let message = format!("segment {} has nothing at {logical}", self.segment);
            Error::new(ErrorKind::Corrupt, message)
        })?;
        Ok(ByteRange {
            start,
            end: start + u64::from(len),
        })
    }
}
