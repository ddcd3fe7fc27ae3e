//! Reading a blob: only the needed pages, from healthy shards if possible, decoded from other
//! shards otherwise.
//!
//! A read goes in windows of at most [`WINDOW_BYTES`] user bytes. Pages in memory are served on the
//! calling thread. Otherwise all shards of a window are read side by side, and the next windows are
//! read ahead. A shard that is missing, bad or slower than [`SLOW_AFTER`] is reconstructed from k
//! others at once. If it answers first after all, its own bytes are used. Only verified bytes are
//! returned (promise 3).

use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dewar_env::BoxFuture;
use dewar_types::{ByteRange, Error, ErrorKind, PAGE_BYTES, Result};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::BlobStore;
use super::bad_shards::BadPageSet;
use super::record::BlobRecord;
use super::shards::{ShardError, ShardReader};
use super::verified::VerifiedBytes;
use crate::format::{Geometry, Piece, runs};

/// User bytes read at once, rounded to whole stripes.
const WINDOW_BYTES: u64 = 1 << 20;

/// Windows read ahead of the one being sent, when pages are not in memory.
const AHEAD: usize = 2;

/// Bytes of windows that all streams hold together, read ahead or waiting to be sent. Beyond it a
/// stream reads nothing ahead and one stripe at a time, so that a crowd of clients that take their
/// bytes slowly or not at all costs a stripe each.
const ROOM_BYTES: u64 = 256 << 20;

/// What the room is counted in, in bytes.
const ROOM_UNIT: u64 = 64 << 10;

/// A shard that took longer is decoded around while it is still awaited.
const SLOW_AFTER: Duration = Duration::from_millis(200);

/// A blob opened for reading. Reads finish even if the blob's name is removed meanwhile.
#[derive(Clone)]
pub struct BlobReader {
    pub(crate) store: Arc<BlobStore>,
    pub(crate) geometry: Geometry,
    pub(crate) record: Arc<BlobRecord>,
}

/// The bytes of a range, in order.
pub struct BlobStream {
    reader: BlobReader,
    /// Windows not begun yet.
    rest: ByteRange,
    ready: VecDeque<VerifiedBytes>,
    /// For the window that is ready, unless it is a single stripe.
    room: Option<OwnedSemaphorePermit>,
    ahead: VecDeque<(JoinHandle<Result<Vec<VerifiedBytes>>>, OwnedSemaphorePermit)>,
}

/// The room that all streams of a store share.
#[derive(Debug)]
pub(crate) struct ReadBudget(Arc<Semaphore>);

impl Default for ReadBudget {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new((ROOM_BYTES / ROOM_UNIT) as usize)))
    }
}

impl ReadBudget {
    fn take(&self, window: ByteRange) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(window.len().div_ceil(ROOM_UNIT)).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(units).ok()
    }
}

/// What came of reading rows of a shard.
type Row = Result<VerifiedBytes, ShardError>;

/// Rows of a shard, as far as a window needs them.
#[derive(Clone, Copy, Debug)]
struct Need {
    shard: usize,
    from: u64,
    to: u64,
}

impl BlobReader {
    /// The blob's length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.record.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.record.len == 0
    }

    /// The bytes of `range`, which must lie within the blob.
    #[must_use]
    pub fn stream(&self, range: ByteRange) -> BlobStream {
        debug_assert!(
            range.end <= self.len(),
            "callers resolve ranges against the size"
        );
        let range = ByteRange {
            start: range.start,
            end: range.end.min(self.len()),
        };
        BlobStream {
            reader: self.clone(),
            rest: range,
            ready: VecDeque::new(),
            room: None,
            ahead: VecDeque::new(),
        }
    }

    /// Reads the whole range at once; for small ranges.
    ///
    /// # Errors
    /// As [`BlobStream::next`].
    pub async fn read(&self, range: ByteRange) -> Result<Bytes> {
        let mut stream = self.stream(range);
        let mut parts = Vec::new();
        while let Some(part) = stream.next().await {
            parts.push(part?);
        }
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0));
        }
        let mut joined = BytesMut::with_capacity(range.len() as usize);
        parts.iter().for_each(|part| joined.extend_from_slice(part));
        Ok(joined.freeze())
    }

    /// A range within one unit of a shard, if its pages are in memory and verify. It waits for
    /// nothing and prepares no further reads.
    #[must_use]
    pub fn read_now(&self, range: ByteRange) -> Option<Bytes> {
        let mut pieces = self.geometry.pieces(range);
        let piece = pieces.next()?;
        if pieces.next().is_some() || range.end > self.len() {
            return None;
        }
        let (from, to) = (piece.shard_offset, piece.shard_offset + piece.len as u64);
        let rows = self.shard(piece.shard).rows_now(from, to)?;
        Some(rows.into_bytes())
    }

    fn shard(&self, shard: usize) -> ShardReader<'_> {
        ShardReader {
            pool: self.store.pool(),
            open: self.store.open_shards(),
            record: &self.record,
            geometry: self.geometry,
            shard,
        }
    }

    /// The rows of each data shard that a window needs: contiguous, since units of one shard
    /// follow each other in it.
    fn needs(&self, window: ByteRange) -> Vec<Need> {
        (0..usize::from(self.record.layout.k))
            .map(|shard| (shard, self.geometry.shard_span(shard, window)))
            .filter(|(_, span)| !span.is_empty())
            .map(|(shard, span)| Need {
                shard,
                from: span.start,
                to: span.end,
            })
            .collect()
    }

    /// Puts a window's rows in the order of the object.
    fn arrange(
        &self,
        window: ByteRange,
        needs: &[Need],
        rows: &[VerifiedBytes],
    ) -> Vec<VerifiedBytes> {
        self.geometry
            .pieces(window)
            .filter_map(|piece: Piece| {
                let at = needs.iter().position(|need| need.shard == piece.shard)?;
                let start = (piece.shard_offset - needs[at].from) as usize;
                Some(rows[at].slice(start..start + piece.len))
            })
            .collect()
    }

    fn window_now(&self, window: ByteRange) -> Option<Vec<VerifiedBytes>> {
        let needs = self.needs(window);
        let rows: Option<Vec<VerifiedBytes>> = needs
            .iter()
            .map(|need| self.shard(need.shard).rows_now(need.from, need.to))
            .collect();
        Some(self.arrange(window, &needs, &rows?))
    }

    async fn window(&self, window: ByteRange) -> Result<Vec<VerifiedBytes>> {
        let needs = self.needs(window);
        let rows = self.gather(&needs).await?;
        Ok(self.arrange(window, &needs, &rows))
    }

    /// Reads what is needed, decoding around whatever fails or dawdles.
    async fn gather(&self, needs: &[Need]) -> Result<Vec<VerifiedBytes>> {
        let met = BadPageSet::new(&self.store, &self.record);
        let gathered = self.gather_around(needs, &met).await;
        if gathered.is_err() {
            met.accuse();
        }
        gathered
    }

    async fn gather_around(
        &self,
        needs: &[Need],
        met: &BadPageSet<'_>,
    ) -> Result<Vec<VerifiedBytes>> {
        let mut got: Vec<Option<VerifiedBytes>> = vec![None; needs.len()];
        let mut bad: Vec<(usize, ShardError)> = Vec::new();
        let mut own: FuturesUnordered<BoxFuture<'_, (usize, Row)>> = needs
            .iter()
            .enumerate()
            .map(|(at, need)| {
                let shard = self.shard(need.shard);
                let (from, to) = (need.from, need.to);
                Box::pin(async move { (at, shard.rows(from, to).await) }) as BoxFuture<'_, _>
            })
            .collect();
        let slow_at = Instant::now() + SLOW_AFTER;
        while !own.is_empty() {
            match tokio::time::timeout_at(slow_at, own.next()).await {
                Ok(Some((at, Ok(bytes)))) => got[at] = Some(bytes),
                Ok(Some((at, Err(error)))) => {
                    met.note(&error);
                    bad.push((at, error));
                }
                Ok(None) | Err(_) => break,
            }
        }
        for at in 0..needs.len() {
            if got[at].is_some() {
                continue;
            }
            let own_failed = bad.iter().any(|(failed, _)| *failed == at);
            // A copy of what is there (counted bytes, not copied ones), since late answers still come in.
            let have = got.clone();
            let rebuilt = self.around(needs[at], needs, &have, met);
            let bytes = if own_failed {
                rebuilt.await
            } else {
                self.race(at, rebuilt, &mut own, &mut got, met).await
            };
            match bytes {
                Ok(bytes) => got[at] = Some(bytes),
                Err(error) => {
                    return Err(match bad.into_iter().find(|(failed, _)| *failed == at) {
                        Some((_, cause)) => error.context(cause),
                        None => error,
                    });
                }
            }
        }
        for (at, error) in bad {
            dewar_env::coverage_mark("a shard was decoded around");
            self.store
                .note_detour(&self.record, needs[at].shard, &error);
            if let (ShardError::BadPage { page, .. }, Some(bytes)) = (&error, &got[at]) {
                self.store
                    .heal(self, needs[at].shard, *page, needs[at].from, bytes.bytes());
            }
        }
        Ok(got.into_iter().flatten().collect())
    }

    /// Decoding against a shard that is merely slow: whichever has the bytes first.
    async fn race<'a>(
        &'a self,
        at: usize,
        rebuilt: impl Future<Output = Result<VerifiedBytes>>,
        own: &mut FuturesUnordered<BoxFuture<'a, (usize, Row)>>,
        got: &mut [Option<VerifiedBytes>],
        met: &BadPageSet<'_>,
    ) -> Result<VerifiedBytes> {
        tokio::pin!(rebuilt);
        let mut failure = None;
        loop {
            if own.is_empty() {
                return match failure {
                    Some(error) => Err(error),
                    None => rebuilt.await,
                };
            }
            tokio::select! {
                biased;
                result = &mut rebuilt, if failure.is_none() => match result {
                    Ok(bytes) => {
                        dewar_env::coverage_mark("decoding overtook a slow shard");
                        return Ok(bytes);
                    }
                    // Not enough others: the slow one is all there is.
                    Err(error) => failure = Some(error),
                },
                late = own.next() => match late {
                    Some((which, Ok(bytes))) if which == at => {
                        dewar_env::coverage_mark("a slow shard overtook decoding");
                        return Ok(bytes);
                    }
                    Some((which, Ok(bytes))) => got[which] = Some(bytes),
                    Some((_, Err(error))) => met.note(&error),
                    None => {}
                },
            }
        }
    }

    /// Rows of one shard from the same rows of k others, of which `needs` and `got` may have some.
    async fn around(
        &self,
        wanted: Need,
        needs: &[Need],
        got: &[Option<VerifiedBytes>],
        met: &BadPageSet<'_>,
    ) -> Result<VerifiedBytes> {
        // The others may be shorter in the last stripe; what they lack counts as zeros.
        let have: Vec<(usize, Bytes)> = needs
            .iter()
            .zip(got)
            .filter_map(|(need, bytes)| {
                let bytes = bytes.as_ref()?.bytes();
                let end = wanted.to.min(self.geometry.shard_len(need.shard));
                let covers = need.from <= wanted.from && need.to >= end && wanted.from <= end;
                covers.then(|| {
                    let start = (wanted.from - need.from) as usize;
                    (need.shard, bytes.slice(start..(end - need.from) as usize))
                })
            })
            .take(usize::from(self.record.layout.k))
            .collect();
        let rows = wanted.from..wanted.to;
        let mut rebuilt = self
            .reconstruct(&[wanted.shard], rows, have, Some(met))
            .await?;
        let bytes = rebuilt.pop().unwrap_or_default();
        self.store.count_decoded(bytes.len() as u64);
        Ok(bytes.into())
    }

    /// Whole pages of shards, made from those of k others.
    ///
    /// # Errors
    /// As [`BlobStream::next`].
    pub(crate) async fn rebuilt(&self, shards: &[usize], pages: &Range<u64>) -> Result<Vec<Bytes>> {
        let rows = pages.start * PAGE_BYTES as u64..pages.end * PAGE_BYTES as u64;
        // Who asks knows what is bad.
        self.reconstruct(shards, rows, Vec::new(), None).await
    }

    /// Whole pages of a shard from its own disk, if they can be had there.
    pub(crate) async fn own_pages(&self, shard: usize, pages: &Range<u64>) -> Option<Bytes> {
        let rows = pages.start * PAGE_BYTES as u64..pages.end * PAGE_BYTES as u64;
        let own = self.shard(shard).rows(rows.start, rows.end).await;
        own.ok().map(VerifiedBytes::into_bytes)
    }

    /// Rows of `wanted` shards (cut at the end of each) from the same rows of k others, of which
    /// some are at hand.
    async fn reconstruct(
        &self,
        wanted: &[usize],
        rows: Range<u64>,
        mut have: Vec<(usize, Bytes)>,
        met: Option<&BadPageSet<'_>>,
    ) -> Result<Vec<Bytes>> {
        let layout = self.record.layout;
        let k = usize::from(layout.k);
        let mut others = (0..layout.shards())
            .filter(|shard| !wanted.contains(shard) && !needs_covered(&have, *shard))
            .collect::<VecDeque<_>>();
        // A unit that the last stripe does not have is known to be zeros and costs no read.
        others
            .make_contiguous()
            .sort_by_key(|shard| self.geometry.shard_len(*shard) > rows.start);
        let mut reads: FuturesUnordered<BoxFuture<'_, (usize, Row)>> = FuturesUnordered::new();
        let mut last_error = None;
        let mut slow_at = Instant::now() + SLOW_AFTER;
        while have.len() < k {
            while have.len() + reads.len() < k
                && let Some(shard) = others.pop_front()
            {
                reads.push(self.read_other(shard, &rows));
            }
            match tokio::time::timeout_at(slow_at, reads.next()).await {
                Ok(Some((shard, Ok(row)))) => have.push((shard, row.into_bytes())),
                Ok(Some((_, Err(error)))) => {
                    if let ShardError::BadPage { .. } = error {
                        dewar_env::coverage_mark("a bad shard won the race and was refused");
                    }
                    if let Some(met) = met {
                        met.note(&error);
                    }
                    last_error = Some(error);
                }
                Ok(None) => {
                    return Err(self.unreadable(have.len(), last_error));
                }
                Err(_) => {
                    // One of them dawdles: ask one more, and go on waiting for all.
                    if let Some(shard) = others.pop_front() {
                        reads.push(self.read_other(shard, &rows));
                    }
                    slow_at = Instant::now() + SLOW_AFTER;
                }
            }
        }
        have.truncate(k);
        let mut out: Vec<BytesMut> = wanted
            .iter()
            .map(|&shard| {
                let end = rows.end.min(self.geometry.shard_len(shard));
                BytesMut::zeroed(end.saturating_sub(rows.start) as usize)
            })
            .collect();
        let mut outputs: Vec<&mut [u8]> = out.iter_mut().map(|bytes| &mut bytes[..]).collect();
        let present: Vec<(usize, &[u8])> = have.iter().map(|(s, bytes)| (*s, &bytes[..])).collect();
        self.store
            .codec(layout)?
            .reconstruct(&present, wanted, &mut outputs)
            .map_err(|error| {
                let what = format!("decoding blob {}", self.record.id);
                Error::with_source(ErrorKind::Internal, what, error)
            })?;
        Ok(out.into_iter().map(BytesMut::freeze).collect())
    }

    fn read_other(&self, shard: usize, rows: &Range<u64>) -> BoxFuture<'_, (usize, Row)> {
        let reader = self.shard(shard);
        let (from, to) = (rows.start, rows.end);
        Box::pin(async move { (shard, reader.rows(from, to).await) })
    }

    fn unreadable(&self, have: usize, cause: Option<ShardError>) -> Error {
        // Bad bytes are for ever, absent disks may return: clients retry only the latter.
        let kind = match cause {
            Some(ShardError::BadPage { .. }) => ErrorKind::Corrupt,
            _ => ErrorKind::Unavailable,
        };
        let message = format!(
            "blob {}: {have} of the {} shards needed can be read",
            self.record.id, self.record.layout.k
        );
        match cause {
            Some(cause) => Error::with_source(kind, message, cause),
            None => Error::new(kind, message),
        }
    }
}

fn needs_covered(have: &[(usize, Bytes)], shard: usize) -> bool {
    have.iter().any(|(had, _)| *had == shard)
}

/// The page `number` out of rows that begin at `from`, if they hold all of it.
pub(crate) fn page_in_rows(number: u64, from: u64, rows: &Bytes, shard_len: u64) -> Option<Bytes> {
    let start = number * PAGE_BYTES as u64;
    let end = start + runs::page_len(number, shard_len) as u64;
    let cut = start.checked_sub(from)? as usize..end.checked_sub(from)? as usize;
    (cut.end <= rows.len()).then(|| rows.slice(cut))
}

impl BlobStream {
    /// The next bytes, up to a stripe unit; `None` at the end.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when too many disks are missing now, [`ErrorKind::Corrupt`] when
    /// too many pages do not verify. The stream is over then.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        let next = self.next_verified().await?;
        Some(next.map(VerifiedBytes::into_bytes))
    }

    /// The same with the checksums of stored pages.
    ///
    /// # Errors
    /// As [`BlobStream::next`].
    pub async fn next_verified(&mut self) -> Option<Result<VerifiedBytes>> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Some(Ok(part));
            }
            self.room = None;
            let read = if let Some((task, room)) = self.ahead.pop_front() {
                self.room = Some(room);
                self.read_ahead();
                task.await.unwrap_or_else(|error| {
                    Err(Error::with_source(
                        ErrorKind::Internal,
                        "a read-ahead task ended",
                        error,
                    ))
                })
            } else {
                let window = self.take_window()?;
                match self.reader.window_now(window) {
                    Some(parts) => Ok(parts),
                    None => {
                        self.read_ahead();
                        self.reader.window(window).await
                    }
                }
            };
            match read {
                Ok(parts) => self.ready.extend(parts),
                Err(error) => {
                    self.rest.start = self.rest.end;
                    self.ahead.clear();
                    return Some(Err(error));
                }
            }
        }
    }

    /// Bytes that it keeps in memory, or is about to.
    #[cfg(test)]
    pub(super) fn holds(&self) -> u64 {
        let ahead = self.ahead.iter().map(|(_, room)| room.num_permits());
        let room = self.room.iter().map(OwnedSemaphorePermit::num_permits);
        let ready: usize = self.ready.iter().map(|part| part.bytes().len()).sum();
        match ahead.chain(room).sum::<usize>() as u64 * ROOM_UNIT {
            0 => ready as u64,
            room => room,
        }
    }

    /// Cuts the next window off what is left, as large as there is room for.
    fn take_window(&mut self) -> Option<ByteRange> {
        let window = self.window_of(WINDOW_BYTES)?;
        self.room = self.reader.store.room().take(window);
        let window = match self.room {
            Some(_) => window,
            None => self.window_of(0)?,
        };
        self.rest.start = window.end;
        Some(window)
    }

    /// The next window of about this many bytes, but at least a stripe, ending at a whole stripe so
    /// that later windows are aligned.
    fn window_of(&self, bytes: u64) -> Option<ByteRange> {
        if self.rest.is_empty() {
            return None;
        }
        let stripe = self.reader.record.layout.stripe_bytes();
        let step = (bytes / stripe).max(1) * stripe;
        let end = ((self.rest.start / stripe) * stripe + step).min(self.rest.end);
        Some(ByteRange {
            start: self.rest.start,
            end,
        })
    }

    fn read_ahead(&mut self) {
        while self.ahead.len() < AHEAD {
            let Some(window) = self.window_of(WINDOW_BYTES) else {
                return;
            };
            let Some(room) = self.reader.store.room().take(window) else {
                return;
            };
            self.rest.start = window.end;
            let reader = self.reader.clone();
            let read = async move { reader.window(window).await };
            let task = tokio::spawn(read.in_current_span());
            self.ahead.push_back((task, room));
        }
    }
}

impl Drop for BlobStream {
    fn drop(&mut self) {
        for (task, _) in &self.ahead {
            task.abort();
        }
    }
}
