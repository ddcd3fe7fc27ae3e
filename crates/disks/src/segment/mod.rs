//! Segments: storage of small objects.
//!
//! A small object is a slot in a segment, addressed as (segment, offset) for ever. While a segment
//! is open, its bytes are in memory and, durably, in journal records. When the segment is full and
//! every slot is settled, it is *sealed*: it is written as one erasure-coded blob. The record of
//! that blob then lets the journal free its files. *Compaction* copies the live data of mostly dead
//! segments into a shared blob. Both change only the segment's record, never an object's.
//!
//! Order: the blob's shards are durable before the record names them. The memory copy is dropped,
//! and the journal's hold advances, only after the record is durable and visible. A crash before
//! that leaves an unnamed blob for the sweep and the slots in the journal, from which
//! [`Segments::restore`] refills the memory.
//!
//! A segment with readers is not compacted. A reader that opened an object finishes reading it,
//! even if the object's name is removed.
//!
//! A hole (a slot that was reserved and given up) is marked dead when its segment is sealed.
//! Compaction reclaims it like a deleted slot.
//!
//! Memory: at most [`SegmentLimits::unsealed_max`] segments of [`SegmentLimits::bytes`] for each
//! pool; writers wait beyond that.
//!
//! Every segment belongs to one pool, and compaction stays in that pool. The record of a segment's
//! blob names the pool. For a segment that is not sealed yet, the descriptions in its slots name
//! it.

mod compact;
mod open;
mod record;
mod slot;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use dewar_env::BoxFuture;
use dewar_types::{BlobId, ByteRange, Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use compact::{Compaction, DeadBytes, DeadPage};
pub use open::{SEALING_WAIT_MAX, Slot};
pub use record::{RelocatedRange, SegmentRecord, fuzz_segment_record};
pub use slot::{DESCRIPTION_BYTES_MAX, SlotHeader, decode_slot, encode_slot, fuzz_slot};

use crate::blob::{BlobRecord, BlobStore};
use compact::Compactor;
use open::OpenSegment;

/// Default bytes of slots in a segment.
pub const SEGMENT_BYTES: u32 = 16 << 20;

/// Default number of segments of a pool that may be in memory at once, including the open one.
pub const UNSEALED_MAX: usize = 5;

/// Places of sealed segments kept in memory, at most.
const PLACES_MAX: usize = 16 * 1024;

/// Runs of packed segments kept in memory, at most: 16 bytes each.
const PLACED_RUNS_MAX: usize = 2 << 20;

/// The interface from segments to the catalog.
pub trait SegmentTable: Send + Sync {
    /// An id that was never given.
    fn mint(&self) -> BoxFuture<'_, Result<BlobId>>;

    /// The record of a sealed segment; `None` while it is not sealed, or after it was removed.
    fn segment(&self, segment: BlobId) -> BoxFuture<'_, Result<Option<SegmentRecord>>>;

    /// The record of a blob.
    fn blob(&self, blob: BlobId) -> BoxFuture<'_, Result<Option<BlobRecord>>>;

    /// Makes a sealed segment's record durable and visible, with its holes, (offset, length),
    /// marked dead. [`ErrorKind::Conflict`] when there is a record already.
    fn seal<'a>(
        &'a self,
        segment: BlobId,
        record: &'a SegmentRecord,
        holes: &'a [(u32, u32)],
    ) -> BoxFuture<'a, Result<()>>;

    /// The dead ranges of a segment, (offset, length) by offset.
    fn dead(&self, segment: BlobId) -> BoxFuture<'_, Result<Vec<(u32, u32)>>>;

    /// The sum of those lengths.
    fn dead_total(&self, segment: BlobId) -> BoxFuture<'_, Result<u64>>;

    /// Segments from `from` on with dead bytes, by id, among `limit` segments.
    fn dead_bytes(&self, from: BlobId, limit: usize) -> BoxFuture<'_, Result<DeadPage>>;

    /// Whether the segment has a reader, which may still need slots that are dead by now.
    fn is_read(&self, segment: BlobId) -> bool;

    /// Applies a compaction as one batch; see [`Compaction`]. [`ErrorKind::Conflict`] when a record
    /// has changed meanwhile and nothing was changed.
    fn compacted(&self, change: Compaction) -> BoxFuture<'_, Result<()>>;

    /// The last sequence given to a journal record so far.
    fn last_seq(&self) -> u64;

    /// Journal records up to and including this one are no longer needed for their slots.
    fn release(&self, seq: u64);
}

/// The bounds of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentLimits {
    /// Bytes of slots in a segment. Records with another size stay readable.
    pub bytes: u32,
    /// Segments of a pool that may be in memory at once, the open one included; at least 2.
    pub unsealed_max: usize,
}

impl Default for SegmentLimits {
    fn default() -> Self {
        Self {
            bytes: SEGMENT_BYTES,
            unsealed_max: UNSEALED_MAX,
        }
    }
}

/// The small objects of all pools.
pub struct Segments {
    blobs: Arc<BlobStore>,
    table: Arc<dyn SegmentTable>,
    limits: SegmentLimits,
    state: Mutex<State>,
    /// Wakes waiting tasks: a segment was sealed, closed or settled.
    changed: Notify,
    places: Mutex<SealedSegments>,
    compactor: tokio::sync::Mutex<Compactor>,
}

/// Places of sealed segments read last.
#[derive(Default)]
struct SealedSegments {
    by_id: BTreeMap<BlobId, Arc<SealedSegment>>,
    runs: usize,
}

#[derive(Default)]
struct State {
    /// The one of each pool that takes slots.
    current: BTreeMap<u16, BlobId>,
    unsealed: BTreeMap<BlobId, OpenSegment>,
}

/// A sealed segment, ready to be read.
#[derive(Debug, PartialEq)]
struct SealedSegment {
    blob: Arc<BlobRecord>,
    runs: Option<Vec<RelocatedRange>>,
}

impl Segments {
    /// The segments among some blobs, with the records of the catalog's table.
    #[must_use]
    pub fn new(blobs: Arc<BlobStore>, table: Arc<dyn SegmentTable>) -> Arc<Self> {
        Self::with_limits(blobs, table, SegmentLimits::default())
    }

    /// The same with other bounds.
    #[must_use]
    pub fn with_limits(
        blobs: Arc<BlobStore>,
        table: Arc<dyn SegmentTable>,
        limits: SegmentLimits,
    ) -> Arc<Self> {
        Arc::new(Self {
            blobs,
            table,
            limits,
            state: Mutex::default(),
            changed: Notify::new(),
            places: Mutex::default(),
            compactor: tokio::sync::Mutex::default(),
        })
    }

    /// `len` bytes at a logical offset: from memory while the segment is unsealed, otherwise
    /// verified from disk.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the segment is unknown, and those of
    /// [`crate::blob::BlobStream::next`].
    pub async fn read(&self, segment: BlobId, offset: u32, len: u32) -> Result<Bytes> {
        if let Some(bytes) = self.read_unsealed(segment, offset, len) {
            return Ok(bytes);
        }
        let kept = self.places.lock().by_id.get(&segment).cloned();
        let place = match kept {
            Some(place) => place,
            None => self.place(segment).await?,
        };
        match self.read_placed(&place, segment, offset, len).await {
            Ok(bytes) => Ok(bytes),
            // Compaction may have moved it and removed the old blob since the place was kept.
            Err(error) => {
                let now = self.place(segment).await?;
                if now == place {
                    return Err(error);
                }
                self.read_placed(&now, segment, offset, len).await
            }
        }
    }

    async fn read_placed(
        &self,
        place: &SealedSegment,
        segment: BlobId,
        offset: u32,
        len: u32,
    ) -> Result<Bytes> {
        let start = match &place.runs {
            None => Some(u64::from(offset)),
            Some(runs) => record::locate(runs, offset, len),
        };
        let range = start
            .map(|start| ByteRange {
                start,
                end: start + u64::from(len),
            })
            .filter(|range| range.end <= place.blob.len)
            .ok_or_else(|| {
                let message = format!("segment {segment} holds nothing at {offset}+{len}");
                Error::new(ErrorKind::Corrupt, message)
            })?;
        self.blobs.open(Arc::clone(&place.blob))?.read(range).await
    }

    /// Looks a sealed segment up in the catalog and keeps the answer.
    async fn place(&self, segment: BlobId) -> Result<Arc<SealedSegment>> {
        let gone = |what: &str, id: BlobId| {
            Error::new(
                ErrorKind::NotFound,
                format!("{what} {id} is not in the catalog"),
            )
        };
        let record = self
            .table
            .segment(segment)
            .await?
            .ok_or_else(|| gone("segment", segment))?;
        let place = Arc::new(match record {
            SegmentRecord::Whole { blob } => SealedSegment {
                blob: Arc::new(blob),
                runs: None,
            },
            SegmentRecord::Packed { blob, runs, .. } => {
                let record = self
                    .table
                    .blob(blob)
                    .await?
                    .ok_or_else(|| gone("blob", blob))?;
                SealedSegment {
                    blob: Arc::new(record),
                    runs: Some(runs),
                }
            }
        });
        self.places.lock().put(segment, Arc::clone(&place));
        Ok(place)
    }

    fn forget(&self, segment: BlobId) {
        self.places.lock().remove(segment);
    }

    /// Reports that a blob has another record. Cached places of segments in it are looked up again.
    pub fn moved(&self, blob: BlobId) {
        let mut places = self.places.lock();
        let stale = |(_, place): &(&BlobId, &Arc<SealedSegment>)| place.blob.id == blob;
        let segments: Vec<BlobId> = places
            .by_id
            .iter()
            .filter(stale)
            .map(|(id, _)| *id)
            .collect();
        for segment in segments {
            places.remove(segment);
        }
    }
}

impl SealedSegments {
    fn put(&mut self, segment: BlobId, place: Arc<SealedSegment>) {
        self.remove(segment);
        self.runs += place.runs();
        self.by_id.insert(segment, place);
        while self.by_id.len() > PLACES_MAX || self.runs > PLACED_RUNS_MAX {
            // The oldest ids go first: what was written lately is read most.
            let Some((_, oldest)) = self.by_id.pop_first() else {
                return;
            };
            self.runs -= oldest.runs();
        }
    }

    fn remove(&mut self, segment: BlobId) {
        if let Some(place) = self.by_id.remove(&segment) {
            self.runs -= place.runs();
        }
    }
}

impl SealedSegment {
    fn runs(&self) -> usize {
        self.runs.as_ref().map_or(0, Vec::len)
    }
}
