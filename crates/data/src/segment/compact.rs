//! Compaction: what is alive of mostly dead segments moves into one shared blob.
//!
//! Objects are not touched: only the segments' records change, in one batch that also takes the
//! dead marks that were honoured. Marks that arrive meanwhile stay, and count for the next time.
//! The old blobs are handed back to be freed after a grace time, so that reads under way finish.

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_types::{BlobId, ByteRange, Result};

use super::record::{Run, SegmentRecord, alive};
use super::{SEGMENT_BYTES, Segments};
use crate::blob::BlobRecord;
use crate::format::ShardKind;

/// A segment and its dead bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadBytes {
    /// The segment.
    pub segment: BlobId,
    /// Bytes of its slots that nothing names any more.
    pub bytes: u64,
}

/// One batch of the catalog that ends a compaction.
#[derive(Clone, Debug, Default)]
pub struct Compaction {
    /// Each segment as it was read (so that a change in between is noticed) and as it becomes;
    /// `None` when nothing of it is alive.
    pub segments: Vec<(BlobId, SegmentRecord, Option<SegmentRecord>)>,
    /// The new blob and how many segments name it; `None` when nothing was alive.
    pub packed: Option<(BlobRecord, u32)>,
    /// The dead marks that are honoured and go, per segment.
    pub honoured: BTreeMap<BlobId, Vec<(u32, u32)>>,
}

struct Victim {
    segment: BlobId,
    record: SegmentRecord,
    /// Live runs: logical offset and length.
    alive: Vec<(u32, u32)>,
    dead: Vec<(u32, u32)>,
}

impl Segments {
    /// Compacts the worst segments, as many as fill one new blob; returns the bytes gained, 0 when
    /// no segment has at least half of its bytes dead.
    ///
    /// # Errors
    /// Those of reading, writing and of the catalog; nothing has changed then but for a blob that
    /// the sweep collects.
    pub async fn compact_step(self: &Arc<Self>) -> Result<u64> {
        let mut victims = Vec::new();
        let mut live_bytes = 0;
        let mut gained = 0;
        let mut worst = self.table.dead_bytes(1024).await?;
        worst.sort_by_key(|dead| (core::cmp::Reverse(dead.bytes), dead.segment));
        for dead in worst {
            let Some(victim) = self.victim(dead.segment).await? else {
                continue;
            };
            let live: u64 = victim.alive.iter().map(|(_, len)| u64::from(*len)).sum();
            let gone: u64 = victim.dead.iter().map(|(_, len)| u64::from(*len)).sum();
            if gone < live {
                continue;
            }
            if !victims.is_empty() && live_bytes + live > u64::from(SEGMENT_BYTES) {
                break;
            }
            live_bytes += live;
            gained += gone;
            victims.push(victim);
        }
        if victims.is_empty() {
            return Ok(0);
        }
        let change = self.pack(&victims).await?;
        self.table.compacted(change).await?;
        for victim in &victims {
            self.forget(victim.segment);
        }
        Ok(gained)
    }

    async fn victim(&self, segment: BlobId) -> Result<Option<Victim>> {
        // An unsealed segment has no record yet: its turn comes after sealing.
        let Some(record) = self.table.segment(segment).await? else {
            return Ok(None);
        };
        let dead = self.table.dead(segment).await?;
        let alive = match &record {
            SegmentRecord::Whole { blob } => alive(blob.len as u32, &dead),
            SegmentRecord::Packed { runs, .. } => runs
                .iter()
                .flat_map(|run| {
                    let end = run.logical + run.len;
                    let inside: Vec<(u32, u32)> = dead
                        .iter()
                        .filter(|(offset, _)| (run.logical..end).contains(offset))
                        .map(|(offset, len)| (offset - run.logical, *len))
                        .collect();
                    alive(run.len, &inside)
                        .into_iter()
                        .map(|(offset, len)| (offset + run.logical, len))
                        .collect::<Vec<_>>()
                })
                .collect(),
        };
        Ok(Some(Victim {
            segment,
            record,
            alive,
            dead,
        }))
    }

    /// Writes what is alive into a new blob and says what the catalog must change.
    async fn pack(&self, victims: &[Victim]) -> Result<Compaction> {
        let mut change = Compaction::default();
        let packed = self.table.mint().await?;
        let mut writer = None;
        let mut physical = 0;
        let mut named = 0;
        for victim in victims {
            let place = self.place(victim.segment).await?;
            let mut runs: Vec<Run> = Vec::with_capacity(victim.alive.len());
            for &(logical, len) in &victim.alive {
                let writer = match &mut writer {
                    Some(writer) => writer,
                    None => writer.insert(self.blobs.create(packed, ShardKind::Segment)?),
                };
                let start = match &place.runs {
                    None => u64::from(logical),
                    Some(old) => super::record::locate(old, logical, len).unwrap_or(u64::MAX),
                };
                let range = ByteRange {
                    start,
                    end: start.saturating_add(u64::from(len)),
                };
                let mut stream = self.blobs.open(Arc::clone(&place.blob))?.stream(range);
                while let Some(bytes) = stream.next().await {
                    writer.write(bytes?).await?;
                }
                runs.push(Run {
                    logical,
                    len,
                    physical,
                });
                physical += u64::from(len);
            }
            let becomes = (!runs.is_empty()).then(|| {
                named += 1;
                SegmentRecord::Packed { blob: packed, runs }
            });
            change
                .segments
                .push((victim.segment, victim.record.clone(), becomes));
            change.honoured.insert(victim.segment, victim.dead.clone());
        }
        if let Some(writer) = writer {
            change.packed = Some((writer.seal(b"packed segments").await?, named));
        }
        Ok(change)
    }
}
