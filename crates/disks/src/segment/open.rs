//! Unsealed segments: reserving slots, keeping their bytes, sealing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_env::InterruptionMark;
use dewar_types::{BlobId, Error, ErrorKind, Layout, Result};
use tokio::time::Instant;

use crate::blob::{BlobRecord, BlobWriter};
use crate::format::ShardKind;

use super::{SegmentRecord, Segments, State};

/// Maximum wait of a small object for a segment to be sealed, when too many are unsealed.
pub const SEALING_WAIT_MAX: Duration = Duration::from_secs(30);

/// A segment in memory.
#[derive(Debug)]
pub(super) struct OpenSegment {
    slots: BTreeMap<u32, Bytes>,
    used: u32,
    /// The number of the pool that it is to be sealed in.
    pool: u16,
    /// Reserved slots that are neither named nor given up.
    unsettled: u32,
    /// Takes no more slots.
    closed: bool,
    sealing: bool,
    /// Its blob, after its shards are durable and while only the record is missing. It is never
    /// written twice, since a record whose commit failed may still become visible.
    written: Option<BlobRecord>,
    /// All its slots are in journal records after this one.
    floor: u64,
}

/// Space for one small object. Fill it, commit the batch that carries it, then settle it. If it is
/// dropped unfilled, or abandoned, the space stays a hole. A slot that was filled and then dropped
/// counts as settled, since its batch may have happened.
#[derive(Debug)]
pub struct Slot {
    segments: Arc<Segments>,
    segment: BlobId,
    offset: u32,
    len: u32,
    filled: bool,
    open: bool,
}

impl Segments {
    /// Reserves `len` bytes in the main pool; see [`Segments::reserve_in`].
    ///
    /// # Errors
    /// As [`Segments::reserve_in`].
    pub async fn reserve(self: &Arc<Self>, len: u32) -> Result<Slot> {
        self.reserve_in(self.blobs.pool().number(), len).await
    }

    /// Reserves `len` bytes in a segment of a pool. Waits while too many segments of that pool are
    /// unsealed, up to [`SEALING_WAIT_MAX`].
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] for more than the size of a segment; [`ErrorKind::InvalidArgument`]
    /// for 0 bytes; [`ErrorKind::Busy`] when no segment was sealed within that time; those of
    /// minting an id.
    pub async fn reserve_in(self: &Arc<Self>, pool: u16, len: u32) -> Result<Slot> {
        if len == 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "a slot of no bytes"));
        }
        if len > self.limits.bytes {
            let message = format!("a slot of {len} bytes does not fit a segment");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let until = Instant::now() + SEALING_WAIT_MAX;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that a change in between is not missed.
            changed.as_mut().enable();
            let full = {
                let mut state = self.state.lock();
                if let Some(slot) = self.reserve_in_current(&mut state, pool, len) {
                    return Ok(slot);
                }
                state.unsealed_of(pool) >= self.limits.unsealed_max
            };
            if full {
                let patience = until.saturating_duration_since(Instant::now());
                if tokio::time::timeout(patience, changed).await.is_err() {
                    let message = "segments of small objects cannot be sealed";
                    return Err(Error::new(ErrorKind::Busy(SEALING_WAIT_MAX), message));
                }
                continue;
            }
            let id = self.table.mint().await?;
            let mut state = self.state.lock();
            // Another writer may have opened one meanwhile; the id is then simply not used.
            if !state.current.contains_key(&pool)
                && state.unsealed_of(pool) < self.limits.unsealed_max
            {
                let floor = self.table.last_seq();
                state.unsealed.insert(
                    id,
                    OpenSegment {
                        slots: BTreeMap::new(),
                        used: 0,
                        pool,
                        unsettled: 0,
                        closed: false,
                        sealing: false,
                        written: None,
                        floor,
                    },
                );
                state.current.insert(pool, id);
            }
        }
    }

    fn reserve_in_current(
        self: &Arc<Self>,
        state: &mut super::State,
        pool: u16,
        len: u32,
    ) -> Option<Slot> {
        let id = *state.current.get(&pool)?;
        let segment = state.unsealed.get_mut(&id)?;
        if segment.used + len > self.limits.bytes {
            segment.closed = true;
            state.current.remove(&pool);
            self.changed.notify_waiters();
            return None;
        }
        let offset = segment.used;
        segment.used += len;
        segment.unsettled += 1;
        Some(Slot {
            segments: Arc::clone(self),
            segment: id,
            offset,
            len,
            filled: false,
            open: true,
        })
    }

    pub(super) fn read_unsealed(&self, segment: BlobId, offset: u32, len: u32) -> Option<Bytes> {
        let state = self.state.lock();
        let (start, bytes) = state
            .unsealed
            .get(&segment)?
            .slots
            .range(..=offset)
            .next_back()?;
        let from = (offset - start) as usize;
        let to = from.checked_add(len as usize)?;
        (to <= bytes.len()).then(|| bytes.slice(from..to))
    }

    /// Restores a slot found in the journal, of a segment of `pool`. Call it for every record at
    /// recovery, before anything else; [`Segments::restored`] ends it.
    pub fn restore(&self, seq: u64, pool: u16, segment: BlobId, offset: u32, bytes: Bytes) {
        dewar_env::coverage_mark("a slot came back from the journal");
        let mut state = self.state.lock();
        let unsealed = state
            .unsealed
            .entry(segment)
            .or_insert_with(|| OpenSegment {
                slots: BTreeMap::new(),
                used: 0,
                pool,
                unsettled: 0,
                closed: true,
                sealing: false,
                written: None,
                floor: seq.saturating_sub(1),
            });
        unsealed.used = unsealed.used.max(offset.saturating_add(bytes.len() as u32));
        unsealed.slots.insert(offset, bytes);
    }

    /// Drops restored slots of segments that had been sealed already.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn restored(&self) -> Result<()> {
        let found: Vec<BlobId> = self.state.lock().unsealed.keys().copied().collect();
        for segment in found {
            if self.table.segment(segment).await?.is_some() {
                self.state.lock().unsealed.remove(&segment);
            }
        }
        self.release();
        Ok(())
    }

    /// Closes the open segments, so that they are sealed although they are not full: for a clean
    /// stop, and when the journal fills up.
    pub fn close_current(&self) {
        let mut state = self.state.lock();
        let State {
            current, unsealed, ..
        } = &mut *state;
        current.retain(|_, id| match unsealed.get_mut(id) {
            Some(segment) if segment.used > 0 => {
                segment.closed = true;
                self.changed.notify_waiters();
                false
            }
            _ => true,
        });
    }

    /// Whether a segment is in memory. It has no record yet, but may be in flight to its disks.
    #[must_use]
    pub fn is_unsealed(&self, segment: BlobId) -> bool {
        self.state.lock().unsealed.contains_key(&segment)
    }

    /// The lowest id of the segments in memory. It may be written to its disks long after later
    /// ones.
    #[must_use]
    pub fn first_unsealed(&self) -> Option<BlobId> {
        let state = self.state.lock();
        state.unsealed.keys().next().copied()
    }

    /// Bytes in memory.
    #[must_use]
    pub fn unsealed_bytes(&self) -> u64 {
        self.state
            .lock()
            .unsealed
            .values()
            .map(|segment| u64::from(segment.used))
            .sum()
    }

    /// The segments in memory.
    #[must_use]
    pub fn unsealed(&self) -> Vec<BlobId> {
        self.state.lock().unsealed.keys().copied().collect()
    }

    /// Writes slots that are still in a journal to the disks, as a segment without a record, for
    /// salvage to find. There must be no blob of this id.
    ///
    /// # Errors
    /// Those of writing a blob.
    pub async fn write_unnamed(
        &self,
        pool: u16,
        id: BlobId,
        slots: &BTreeMap<u32, Bytes>,
    ) -> Result<BlobRecord> {
        self.write_blob(pool, id, slots).await
    }

    /// Waits until a segment can be sealed.
    pub async fn sealable(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self
                .state
                .lock()
                .unsealed
                .values()
                .any(OpenSegment::sealable)
            {
                return;
            }
            changed.await;
        }
    }

    /// Seals the oldest segment that is closed and settled; `false` when there is none.
    ///
    /// # Errors
    /// Those of writing a blob and of the catalog. The segment stays as it was, for another
    /// attempt.
    pub async fn seal_next(self: &Arc<Self>) -> Result<bool> {
        let (id, pool, slots, written) = {
            let mut state = self.state.lock();
            let next = state
                .unsealed
                .iter_mut()
                .find(|(_, segment)| segment.sealable());
            let Some((id, segment)) = next else {
                return Ok(false);
            };
            segment.sealing = true;
            let slots = segment.slots.clone();
            (*id, segment.pool, slots, segment.written.clone())
        };
        let guard = SealAttempt { segments: self, id };
        // Nothing but holes: no name leads here, and nothing is to be kept.
        if !slots.is_empty() {
            self.write_sealed(pool, id, &slots, written).await?;
        }
        self.state.lock().unsealed.remove(&id);
        drop(guard);
        self.release();
        self.changed.notify_waiters();
        Ok(true)
    }

    async fn write_sealed(
        &self,
        pool: u16,
        id: BlobId,
        slots: &BTreeMap<u32, Bytes>,
        written: Option<BlobRecord>,
    ) -> Result<()> {
        if self.table.segment(id).await?.is_some() {
            dewar_env::coverage_mark("a segment had been sealed unnoticed");
            // An earlier try got its record in but not its answer.
            return Ok(());
        }
        let blob = match written {
            Some(blob) => blob,
            None => {
                let underway = InterruptionMark::new("the sealing of a segment was cut short");
                let blob = self.write_blob(pool, id, slots).await;
                underway.done();
                let blob = blob?;
                if let Some(segment) = self.state.lock().unsealed.get_mut(&id) {
                    segment.written = Some(blob.clone());
                }
                blob
            }
        };
        let holes = holes(slots);
        match self
            .table
            .seal(id, &SegmentRecord::Whole { blob }, &holes)
            .await
        {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                match self.table.segment(id).await? {
                    Some(_) => Ok(()),
                    None => Err(error),
                }
            }
            sealed => sealed,
        }
    }

    /// Writes a segment's bytes to its disks, up to its last slot; holes are zeros.
    async fn write_blob(
        &self,
        pool: u16,
        id: BlobId,
        slots: &BTreeMap<u32, Bytes>,
    ) -> Result<BlobRecord> {
        // Shards of an earlier try, if it failed after writing some, are under the same names.
        self.blobs.discard_unnamed(id).await;
        let mut writer = self.sealed_into(pool, id)?;
        let mut at = 0;
        for (offset, bytes) in slots {
            while at < *offset {
                let zeros = &ZEROS[..ZEROS.len().min((offset - at) as usize)];
                writer.write(Bytes::from_static(zeros)).await?;
                at += zeros.len() as u32;
            }
            writer.write(bytes.clone()).await?;
            at = offset + bytes.len() as u32;
        }
        writer.seal(b"segment").await
    }

    /// A blob for a segment in its pool. One that takes nothing now, since its disks are away or full,
    /// must not keep the journal of all pools from being let go: then another takes the segment that
    /// survives as many losses, the main pool before others.
    fn sealed_into(&self, pool: u16, id: BlobId) -> Result<BlobWriter> {
        let refused = match self.blobs.create_in(pool, id, ShardKind::Segment) {
            Err(error) => error,
            writer => return writer,
        };
        let disks = self.blobs.pool();
        let losses = disks.layout_of(pool).map_or(0, |layout| layout.m);
        let mut others: Vec<(u16, Layout)> = disks.layouts().collect();
        others.retain(|(other, layout)| *other != pool && layout.m >= losses);
        others.sort_by_key(|(other, _)| (*other != disks.number(), *other));
        for (other, _) in others {
            if let Ok(writer) = self.blobs.create_in(other, id, ShardKind::Segment) {
                dewar_env::coverage_mark("a segment was sealed in another pool");
                tracing::warn!(segment = %id, pool, other, error = %refused, "a segment is sealed in another pool");
                return Ok(writer);
            }
        }
        Err(refused)
    }

    /// Tells the journal which records it may free. Call it regularly. While no segment is sealed,
    /// no other call does this, and the records of other changes would be kept for ever.
    pub fn release(&self) {
        let floor = {
            let state = self.state.lock();
            let floors = state.unsealed.values().map(|segment| segment.floor);
            // Read under the lock: a segment opened later has a floor no lower than this.
            match dewar_env::safeguard("the journal is kept for unsealed segments") {
                true => floors.min().unwrap_or_else(|| self.table.last_seq()),
                false => self.table.last_seq(),
            }
        };
        self.table.release(floor);
    }

    fn settle(&self, segment: BlobId, hole: Option<u32>) {
        let mut state = self.state.lock();
        let Some(unsealed) = state.unsealed.get_mut(&segment) else {
            return;
        };
        unsealed.unsettled -= 1;
        if let Some(offset) = hole {
            unsealed.slots.remove(&offset);
        }
        if unsealed.sealable() {
            drop(state);
            self.changed.notify_waiters();
        }
    }
}

static ZEROS: [u8; 16 * 1024] = [0; 16 * 1024];

/// What lies between slots, (offset, length).
fn holes(slots: &BTreeMap<u32, Bytes>) -> Vec<(u32, u32)> {
    let mut holes = Vec::new();
    let mut at = 0;
    for (offset, bytes) in slots {
        if *offset > at {
            holes.push((at, offset - at));
        }
        at = offset + bytes.len() as u32;
    }
    holes
}

impl std::fmt::Debug for Segments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segments").finish_non_exhaustive()
    }
}

/// Lets a segment be tried again when sealing it fails or is dropped.
struct SealAttempt<'a> {
    segments: &'a Segments,
    id: BlobId,
}

impl Drop for SealAttempt<'_> {
    fn drop(&mut self) {
        if let Some(segment) = self.segments.state.lock().unsealed.get_mut(&self.id) {
            segment.sealing = false;
        }
    }
}

impl State {
    fn unsealed_of(&self, pool: u16) -> usize {
        let of_pool = |segment: &&OpenSegment| segment.pool == pool;
        self.unsealed.values().filter(of_pool).count()
    }
}

impl OpenSegment {
    fn sealable(&self) -> bool {
        self.closed && self.unsettled == 0 && !self.sealing
    }
}

impl Slot {
    /// The segment.
    #[must_use]
    pub fn segment(&self) -> BlobId {
        self.segment
    }

    /// Offset in the segment.
    #[must_use]
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Stores the slot's bytes, readable as soon as a name refers to them. Their length must be the
    /// reserved one.
    pub fn fill(&mut self, bytes: Bytes) {
        assert_eq!(
            bytes.len(),
            self.len as usize,
            "a slot is filled with what was reserved"
        );
        if let Some(segment) = self.segments.state.lock().unsealed.get_mut(&self.segment) {
            segment.slots.insert(self.offset, bytes);
        }
        self.filled = true;
    }

    /// The batch that carries it is durable.
    pub fn settle(mut self) {
        self.open = false;
        self.segments.settle(self.segment, None);
    }

    /// Reports that the batch that carries it did not happen and will not.
    pub fn abandon(mut self) {
        self.open = false;
        self.segments.settle(self.segment, Some(self.offset));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.open {
            self.segments
                .settle(self.segment, (!self.filled).then_some(self.offset));
        }
    }
}
