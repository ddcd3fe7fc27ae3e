//! Writing a blob: cut, encode, checksum, spread, sync.
//!
//! Bytes are gathered in windows of a few whole stripes, deinterleaved so that each shard's part of
//! a window is contiguous. Parity is then computed over the window at once, and each disk gets one
//! write. A task per shard owns its file and processes its queue of windows. Disks therefore work
//! side by side, and the writer waits for a slow disk only when its queue is full.
//!
//! Order: pages and their checksum pages, and the header; then the file's sync, then its folder's
//! sync; only then may the catalog name the blob (invariant I1). A crash at any point leaves files
//! that no record names, which the sweep removes. If the writer is dropped, its queues are closed
//! without a finish, and each task removes its file. If it is dropped during the seal, the finished
//! files are removed too.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use dewar_env::{Clock, CreateOptions, Disk, DiskErrorKind, DiskFile};
use dewar_types::{BlobId, DiskId, Error, ErrorKind, Layout, PAGE_BYTES, Result, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument as _;

use super::checksummed_bytes::{ChecksummedBytes, KnownCrcs};
use super::leftovers::Leftovers;
use super::record::{BlobRecord, shard_dir, shard_path};
use crate::format::runs::{self, checksum_page_at, run_spans};
use crate::format::{
    BLOB_BYTES_MAX, ChecksumKind, OWNER_BYTES_MAX, PageKey, SLOT_BYTES, ShardHeader, ShardKind,
};
use crate::pool::{DiskBackoff, SpaceAccounting, SpaceDemand, SpaceReservation};

/// User bytes gathered before they go to the disks, rounded down to whole stripes but at least one.
const WINDOW_BYTES: u64 = 1 << 20;

/// The windows that all writers gather, beyond which each is smaller.
const WINDOWS_BYTES: u64 = 32 << 20;

/// Windows that may wait for one disk while others proceed. With the one that is gathered, the one that waits
/// for the queue and the one that is written this bounds the memory of a writer to `(3 + 2) × window × (k+m)/k`.
const QUEUED_WINDOWS: usize = 2;

/// Memory of a shard's task, its queue and its file, about.
const SHARD_MEMORY_BYTES: usize = 4 << 10;

/// What a shard takes besides its bytes, about: checksums and the header.
const OVERHEAD_BYTES: usize = 2 * PAGE_BYTES;

/// How a blob is to be written.
pub(crate) struct WriterPlan {
    pub(crate) id: BlobId,
    pub(crate) kind: ShardKind,
    pub(crate) generation: u32,
    pub(crate) pool: u16,
    pub(crate) dewar: u128,
    pub(crate) layout: Layout,
    pub(crate) disks: Vec<(DiskId, Arc<dyn Disk>)>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) resting: Arc<DiskBackoff>,
    pub(crate) rooms: Arc<SpaceAccounting>,
    pub(crate) leftovers: Arc<Leftovers>,
    pub(crate) codec: Arc<dewar_erasure::Codec>,
    pub(crate) writers: Writers,
}

/// Counts the writers that there are, each of which holds a clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writers(Arc<()>);

impl Writers {
    /// What each of them gathers next.
    fn window_bytes(&self, stripe: u64) -> u64 {
        // The store has one too.
        let writers = Arc::strong_count(&self.0).saturating_sub(1).max(1);
        let window = WINDOW_BYTES.min(WINDOWS_BYTES / writers as u64);
        (window / stripe).max(1) * stripe
    }
}

/// A blob being written.
pub struct BlobWriter {
    plan: WriterPlan,
    shards: Vec<ShardQueue>,
    window: Vec<BytesMut>,
    /// Checksums that came with the pages of the window, for each data shard.
    crcs: Vec<KnownCrcs>,
    window_bytes_max: u64,
    window_bytes: u64,
    pages: u64,
    len: u64,
    created: Timestamp,
    /// Whether shards may be finished while the record was not returned yet.
    sealing: bool,
}

struct ShardQueue {
    queue: Option<mpsc::Sender<Work>>,
    /// `None` after it was reported.
    outcome: Option<oneshot::Receiver<Result<()>>>,
}

enum Work {
    Window(Part),
    /// The last window is part of it, so that a blob of one window costs each disk one operation.
    Finish {
        last: Option<Part>,
        header: Bytes,
    },
}

/// A shard's part of a window.
struct Part {
    first_page: u64,
    bytes: Bytes,
    slots: Bytes,
}

pub(super) fn memory_bytes(layout: Layout) -> usize {
    layout.stripe_bytes() as usize + layout.shards() * SHARD_MEMORY_BYTES
}

impl BlobWriter {
    pub(crate) fn new(plan: WriterPlan) -> Self {
        let stripe = plan.layout.stripe_bytes();
        let shards = (0..plan.layout.shards())
            .map(|shard| start_shard(&plan, shard))
            .collect();
        Self {
            window: vec![BytesMut::new(); usize::from(plan.layout.k)],
            crcs: vec![KnownCrcs::default(); usize::from(plan.layout.k)],
            window_bytes_max: plan.writers.window_bytes(stripe),
            window_bytes: 0,
            pages: 0,
            len: 0,
            created: plan.clock.now(),
            sealing: false,
            shards,
            plan,
        }
    }

    /// The blob's id.
    #[must_use]
    pub fn id(&self) -> BlobId {
        self.plan.id
    }

    /// How the blob is cut.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.plan.layout
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether no byte was taken yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it gathers before it writes.
    #[cfg(test)]
    pub(super) fn window_bytes_max(&self) -> u64 {
        self.window_bytes_max
    }

    /// Minimum memory of the writer while nothing waits for a disk, in bytes: one stripe in
    /// preparation, and a task with its queue for each shard. Larger windows take memory from a
    /// budget that all writers share.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        memory_bytes(self.plan.layout)
    }

    /// Takes the next bytes. Waits while the disks are too slow.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] beyond [`BLOB_BYTES_MAX`]; [`ErrorKind::Unavailable`] when so many
    /// shards failed that the blob cannot be acknowledged.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.write_paged(&ChecksummedBytes::from(bytes)).await
    }

    /// The same for bytes with checksums. If a page of them is a page of a shard, its checksum is
    /// stored unchanged.
    ///
    /// # Errors
    /// As [`BlobWriter::write`].
    pub async fn write_paged(&mut self, paged: &ChecksummedBytes) -> Result<()> {
        let bytes = paged.bytes();
        if self.len.saturating_add(bytes.len() as u64) > BLOB_BYTES_MAX {
            let message = format!("blob {} is over {BLOB_BYTES_MAX} bytes", self.plan.id);
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let unit = u64::from(self.plan.layout.unit);
        let mut at = 0;
        while at < bytes.len() {
            if self.window_bytes == self.window_bytes_max {
                self.flush().await?;
            }
            let shard = (self.window_bytes / unit) % u64::from(self.plan.layout.k);
            let room = unit - self.window_bytes % unit;
            let take = room.min((bytes.len() - at) as u64) as usize;
            let buffer = &mut self.window[shard as usize];
            if buffer.is_empty() {
                let share = self.window_bytes_max / u64::from(self.plan.layout.k);
                buffer.reserve(share as usize);
            }
            let begun = buffer.len().next_multiple_of(PAGE_BYTES) - buffer.len();
            for page in (begun..take).step_by(PAGE_BYTES) {
                if let Some(crc) = paged.page_crc(at + page) {
                    self.crcs[shard as usize].put(buffer.len() + page, crc);
                }
            }
            buffer.extend_from_slice(&bytes[at..at + take]);
            at += take;
            self.window_bytes += take as u64;
            self.len += take as u64;
        }
        Ok(())
    }

    /// Hands the window to the shards. The next one is as large as fits beside those who write by then.
    async fn flush(&mut self) -> Result<()> {
        let parts = self.encode()?;
        let stripe = self.plan.layout.stripe_bytes();
        self.window_bytes_max = self.plan.writers.window_bytes(stripe);
        for (shard, part) in parts.into_iter().enumerate() {
            // A shard whose task ended has failed: its outcome says why, and the others go on.
            if let Some(queue) = &self.shards[shard].queue
                && queue.send(Work::Window(part)).await.is_err()
            {
                self.shards[shard].queue = None;
            }
        }
        self.enough_shards()
    }

    /// Takes the window, which may be empty, as one part for each shard.
    fn encode(&mut self) -> Result<Vec<Part>> {
        let longest = self.window.first().map_or(0, BytesMut::len);
        if longest == 0 {
            return Ok(Vec::new());
        }
        let data: Vec<Bytes> = self.window.iter_mut().map(|b| b.split().freeze()).collect();
        let mut parity: Vec<BytesMut> = (0..self.plan.layout.m)
            .map(|_| BytesMut::zeroed(longest))
            .collect();
        let inputs: Vec<&[u8]> = data.iter().map(|bytes| &bytes[..]).collect();
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(|bytes| &mut bytes[..]).collect();
        self.plan
            .codec
            .encode(&inputs, &mut outputs)
            .map_err(|error| {
                Error::with_source(
                    ErrorKind::Internal,
                    format!("encoding {}", self.plan.id),
                    error,
                )
            })?;
        let first_page = self.pages;
        self.pages += runs::page_count(longest as u64);
        self.window_bytes = 0;
        // Of parity nothing came.
        let known: Vec<KnownCrcs> = self.crcs.iter_mut().map(KnownCrcs::take).collect();
        let known = known
            .into_iter()
            .chain(core::iter::repeat_with(KnownCrcs::default));
        let parts = data
            .into_iter()
            .chain(parity.into_iter().map(BytesMut::freeze))
            .zip(known)
            .enumerate()
            .map(|(shard, (bytes, known))| Part {
                first_page,
                slots: self.slots(shard, first_page, &bytes, &known),
                bytes,
            });
        Ok(parts.collect())
    }

    /// The checksums of a shard's pages, as they stand in a checksum page.
    fn slots(&self, shard: usize, first_page: u64, bytes: &[u8], known: &KnownCrcs) -> Bytes {
        let key = PageKey::new(self.plan.id, self.plan.generation, shard as u8);
        let pages = bytes.chunks(PAGE_BYTES);
        let mut slots = BytesMut::with_capacity(pages.len() * SLOT_BYTES);
        for ((page, number), bytes) in (0..).zip(first_page..).zip(pages) {
            let crc = known.of(page, bytes);
            slots.put_u32_le(key.slot_of_crc(number, bytes.len(), crc));
        }
        slots.freeze()
    }

    /// Shards that must be durable for an acknowledgement: one more than is needed to read, so
    /// that a write during which disks went away still survives a loss; all, where there is no
    /// such number (RECORDS.md section 6).
    fn needed(&self) -> usize {
        let spare = usize::from(dewar_env::safeguard("k+1 shards before an acknowledgement"));
        (usize::from(self.plan.layout.k) + spare).min(self.plan.layout.shards())
    }

    fn enough_shards(&self) -> Result<()> {
        let live = self
            .shards
            .iter()
            .filter(|shard| shard.queue.is_some())
            .count();
        if live >= self.needed() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "blob {}: {live} disks are left to write to, {} needed",
                self.plan.id,
                self.needed()
            ),
        ))
    }

    /// Ends the blob. When this returns, enough shards are durable, and the catalog may name the
    /// record. `describe` goes into every shard's header for salvage; it is cut to
    /// [`OWNER_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] or [`ErrorKind::NoSpace`] when too few shards became durable; the
    /// shards are then removed.
    pub async fn seal(mut self, describe: &[u8]) -> Result<BlobRecord> {
        let mut last = self.encode()?.into_iter();
        let describe = &describe[..describe.len().min(OWNER_BYTES_MAX)];
        let headers: Vec<Bytes> = (0..self.shards.len())
            .map(|shard| self.header(shard, describe))
            .collect::<Result<_>>()?;
        self.sealing = true;
        for (queue, header) in self.shards.iter_mut().zip(headers) {
            let last = last.next();
            if let Some(queue) = queue.queue.take() {
                // A task that ended already says so in its outcome.
                let _ = queue.send(Work::Finish { last, header }).await;
            }
        }
        let mut missing = Vec::new();
        let mut cause = None;
        for (shard, queue) in self.shards.iter_mut().enumerate() {
            if let Err(error) = queue.outcome(shard).await {
                tracing::warn!(blob = %self.plan.id, shard, %error, "shard not written");
                missing.push(shard as u8);
                cause.get_or_insert(error);
            }
        }
        let record = BlobRecord {
            id: self.plan.id,
            pool: self.plan.pool,
            generation: self.plan.generation,
            layout: self.plan.layout,
            len: self.len,
            disks: self.plan.disks.iter().map(|(id, _)| *id).collect(),
            missing,
            written: Some(self.plan.clock.now()),
        };
        match cause {
            Some(cause) if self.shards.len() - record.missing.len() < self.needed() => {
                // Before the error is told: who tries again may use the same names.
                for (shard, (_, disk)) in self.plan.disks.iter().enumerate() {
                    // What cannot be removed now is collected by the sweep.
                    let _ = disk.remove(&record.shard_path(shard)).await;
                }
                self.sealing = false;
                // What is wrong with one disk is no defect of ours: another try finds others.
                let kind = match cause.kind() {
                    kind @ (ErrorKind::NoSpace | ErrorKind::Busy(_) | ErrorKind::Timeout) => kind,
                    _ => ErrorKind::Unavailable,
                };
                let message = format!("blob {}: too few shards are durable", record.id);
                Err(Error::with_source(kind, message, cause))
            }
            _ => {
                self.sealing = false;
                Ok(record)
            }
        }
    }

    fn header(&self, shard: usize, describe: &[u8]) -> Result<Bytes> {
        let header = ShardHeader {
            checksum: ChecksumKind::Crc32cMixed,
            kind: self.plan.kind,
            sealed: true,
            blob: self.plan.id,
            generation: self.plan.generation,
            shard: shard as u8,
            layout: self.plan.layout,
            blob_len: Some(self.len),
            created: self.created,
            cluster: self.plan.dewar,
            pool: self.plan.pool.into(),
            disk: self.plan.disks[shard].0,
            owner: describe.to_vec(),
        };
        match header.encode() {
            Ok(page) => Ok(Bytes::copy_from_slice(&page)),
            Err(error) => {
                let message = format!("the header of blob {}", self.plan.id);
                Err(Error::with_source(ErrorKind::Internal, message, error))
            }
        }
    }
}

impl Drop for BlobWriter {
    /// While the blob is being written, the end of the queues is what makes each task remove its
    /// file. Tasks that were told to finish may do so; their files are removed after them.
    fn drop(&mut self) {
        if !core::mem::take(&mut self.sealing) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // The process ends: the sweep of the next one collects them.
            return;
        };
        let generation = self.plan.generation;
        let id = self.plan.id;
        for (shard, mut queue) in self.shards.drain(..).enumerate() {
            let disk = Arc::clone(&self.plan.disks[shard].1);
            runtime.spawn(async move {
                queue.queue = None;
                if queue.outcome.is_none() || queue.outcome(shard).await.is_ok() {
                    // What cannot be removed now is collected by the sweep.
                    let _ = disk.remove(&shard_path(id, generation, shard)).await;
                }
            });
        }
    }
}

impl ShardQueue {
    /// What became of the shard. Dropping the future loses nothing.
    async fn outcome(&mut self, shard: usize) -> Result<()> {
        let ended = |what: &str| Error::new(ErrorKind::Internal, format!("shard {shard}: {what}"));
        let Some(outcome) = &mut self.outcome else {
            return Err(ended("its end was told before"));
        };
        let told = outcome.await;
        self.outcome = None;
        told.unwrap_or_else(|_| Err(ended("its task ended")))
    }
}

fn start_shard(plan: &WriterPlan, shard: usize) -> ShardQueue {
    let (queue, work) = mpsc::channel(QUEUED_WINDOWS);
    let (tell, outcome) = oneshot::channel();
    let task = ShardTask {
        id: plan.disks[shard].0,
        resting: Arc::clone(&plan.resting),
        rooms: Arc::clone(&plan.rooms),
        demand: match plan.kind {
            ShardKind::Object => SpaceDemand::GoOn,
            ShardKind::Segment => SpaceDemand::Seal,
        },
        leftovers: Arc::clone(&plan.leftovers),
        disk: Arc::clone(&plan.disks[shard].1),
        dir: shard_dir(plan.id),
        path: shard_path(plan.id, plan.generation, shard),
        file: None,
        stopped: false,
        made: false,
        run: BytesMut::new(),
        run_number: 0,
    };
    let work = async move {
        let result = task.run(work).await;
        // Nobody listens when the writer was dropped.
        let _ = tell.send(result);
    };
    tokio::spawn(work.in_current_span());
    ShardQueue {
        queue: Some(queue),
        outcome: Some(outcome),
    }
}

/// Owns one shard's file from creation to sync.
struct ShardTask {
    id: DiskId,
    resting: Arc<DiskBackoff>,
    /// Asked before each window.
    rooms: Arc<SpaceAccounting>,
    demand: SpaceDemand,
    leftovers: Arc<Leftovers>,
    disk: Arc<dyn Disk>,
    dir: String,
    path: String,
    file: Option<Arc<dyn DiskFile>>,
    /// Whether it was stopped by the reserve.
    stopped: bool,
    /// Whether the name may be there.
    made: bool,
    /// Slots of the run being written.
    run: BytesMut,
    run_number: u64,
}

impl ShardTask {
    async fn run(mut self, mut work: mpsc::Receiver<Work>) -> Result<()> {
        let result = self.work(&mut work).await;
        match result {
            Ok(true) => {
                self.resting.worked(self.id);
                Ok(())
            }
            Ok(false) => {
                self.discard().await;
                Err(Error::new(
                    ErrorKind::Internal,
                    format!("{} was given up", self.path),
                ))
            }
            Err(error) => {
                drop(work);
                // A full queue is no defect, nor is a full disk that was not even asked to take it.
                if !matches!(error.kind(), ErrorKind::Busy(_)) && !self.stopped {
                    self.resting.failed(self.id);
                }
                self.discard().await;
                Err(error)
            }
        }
    }

    /// Whether the shard was finished.
    async fn work(&mut self, work: &mut mpsc::Receiver<Work>) -> Result<bool> {
        while let Some(next) = work.recv().await {
            match next {
                Work::Window(part) => {
                    let given = self.take_room(part.bytes.len() as u64).await?;
                    let pieces = self.pieces(part);
                    self.file().await?.write_pieces(pieces).await?;
                    drop(given);
                }
                Work::Finish { last, header } => {
                    self.finish(last, header).await?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Stops before the file system has to: what empties the disk needs the rest.
    async fn take_room(&mut self, bytes: u64) -> Result<SpaceReservation> {
        if let Some(asked) = self.rooms.ask_again(self.id)
            && let Ok(space) = self.disk.space().await
        {
            self.rooms.saw(&asked, space);
        }
        let given = self.rooms.take(self.id, self.demand, bytes);
        given.ok_or_else(|| {
            self.stopped = true;
            let message = format!("{} is full but for its reserve", self.disk.label());
            Error::new(ErrorKind::NoSpace, message)
        })
    }

    async fn file(&mut self) -> Result<Arc<dyn DiskFile>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = self
            .disk
            .create(&self.path, CreateOptions::default())
            .await?;
        self.made = true;
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Where a part goes, with the checksum pages of the runs that end in it.
    fn pieces(&mut self, part: Part) -> Vec<(u64, Vec<Bytes>)> {
        let Part {
            first_page,
            mut bytes,
            mut slots,
        } = part;
        let mut pieces = Vec::new();
        let start = first_page * PAGE_BYTES as u64;
        let end = start + bytes.len() as u64;
        for span in run_spans(start..end, end) {
            pieces.push((span.data_at, vec![bytes.split_to(span.data_len)]));
            self.run
                .extend_from_slice(&slots.split_to(span.slots_len()));
            if self.run.len() == PAGE_BYTES {
                pieces.push(self.end_run());
            }
        }
        pieces
    }

    /// The checksum page of the run that ends here; slots without a page are zeros.
    fn end_run(&mut self) -> (u64, Vec<Bytes>) {
        let mut page = self.run.split();
        page.resize(PAGE_BYTES, 0);
        let offset = checksum_page_at(self.run_number);
        self.run_number += 1;
        (offset, vec![page.freeze()])
    }

    async fn finish(&mut self, last: Option<Part>, header: Bytes) -> Result<()> {
        let left = last.as_ref().map_or(0, |part| part.bytes.len());
        let _given = self.take_room((left + OVERHEAD_BYTES) as u64).await?;
        let mut pieces = last.map_or_else(Vec::new, |part| self.pieces(part));
        if !self.run.is_empty() {
            pieces.push(self.end_run());
        }
        pieces.push((0, vec![header]));
        let Some(file) = &self.file else {
            let made = self.disk.create_whole(&self.path, pieces).await;
            // Whose name it is that was there before, nobody here knows.
            self.made = !matches!(&made, Err(error) if error.kind() == DiskErrorKind::Exists);
            return Ok(made?);
        };
        file.complete(pieces).await?;
        Ok(self.disk.sync_dir(&self.dir).await?)
    }

    async fn discard(&mut self) {
        if core::mem::take(&mut self.made) {
            self.file = None;
            if let Err(error) = self.disk.remove(&self.path).await
                && error.kind() != DiskErrorKind::NotFound
            {
                self.leftovers.add(self.id, self.path.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_writers_gather_less_each() {
        let stripe = 256 << 10;
        let store = Writers::default();
        let mut open = vec![store.clone()];
        assert_eq!(store.window_bytes(stripe), 1 << 20);
        open.extend((1..32).map(|_| store.clone()));
        assert_eq!(store.window_bytes(stripe), 1 << 20);
        open.push(store.clone());
        assert_eq!(store.window_bytes(stripe), 3 * stripe);
        open.extend((33..1000).map(|_| store.clone()));
        assert_eq!(store.window_bytes(stripe), stripe);
        drop(open);
        assert_eq!(store.window_bytes(stripe), 1 << 20);
        assert_eq!(store.window_bytes(3 << 20), 3 << 20);
    }
}
