//! Immutable blobs, each on the disks of one pool: written once, named by id, removed when nothing
//! names them.

mod bad_shards;
mod check;
mod checksummed_bytes;
mod known_bad_shards;
mod leftovers;
mod log_throttle;
mod presence;
mod reader;
mod readmit;
mod rebuild;
mod record;
mod scan;
mod shards;
mod sweep;
mod sync_limiter;
#[cfg(test)]
mod tests;
mod verified;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use dewar_erasure::Codec;
use dewar_types::{BlobId, Error, ErrorKind, Layout, Result};
use parking_lot::Mutex;
use tracing::Instrument as _;

pub use bad_shards::{BadShard, BadShards};
pub use check::{CheckOutcome, Damage};
pub use checksummed_bytes::ChecksummedBytes;
pub use known_bad_shards::KnownBadShards;
pub use presence::ShardListing;
pub use reader::{BlobReader, BlobStream};
pub use readmit::{NamedShard, shards_on, shelves_on};
pub use rebuild::{RebuildStats, RebuildTarget};
pub use record::{BlobRecord, fuzz_blob_record};
pub use scan::{ReassembledBlob, ScannedShard, ShardFolder, shelf_of};
pub use sweep::{BlobStatus, SweepReport};
pub use sync_limiter::SyncPermit;
pub use verified::VerifiedBytes;
pub use writer::BlobWriter;

use crate::format::ShardKind;
use crate::pool::{Placement, Pool};
use leftovers::Leftovers;
use log_throttle::LogThrottle;
use reader::ReadBudget;
use shards::{OpenShards, ShardError, ShardReader};
use sync_limiter::SyncLimiter;
use writer::{WriterPlan, Writers};

/// The blobs of all pools.
#[derive(Debug)]
pub struct BlobStore {
    pool: Arc<Pool>,
    placement: Placement,
    open: OpenShards,
    codecs: Mutex<BTreeMap<(u8, u8), Arc<Codec>>>,
    room: ReadBudget,
    writers: Writers,
    turns: SyncLimiter,
    counts: Counts,
    notices: LogThrottle,
    suspects: BadShards,
    leftovers: Arc<Leftovers>,
}

/// What happened since the start, for metrics.
#[derive(Debug, Default)]
struct Counts {
    decoded_reads: AtomicU64,
    decoded_bytes: AtomicU64,
    healed_pages: AtomicU64,
    bad_pages: AtomicU64,
}

/// A reading of the counters; see [`BlobStore::counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobCounts {
    /// Reads of a shard that went around it, to others.
    pub decoded_reads: u64,
    /// Bytes that had to be reconstructed for readers.
    pub decoded_bytes: u64,
    /// Pages that did not verify when they were read, whether or not they could be decoded from
    /// others.
    pub bad_pages: u64,
    /// Of these, pages put right.
    pub healed_pages: u64,
}

impl BlobStore {
    /// The blobs on these disks.
    #[must_use]
    pub fn new(pool: Arc<Pool>) -> Self {
        Self {
            placement: Placement::new(pool.env().clone()),
            pool,
            open: OpenShards::default(),
            codecs: Mutex::default(),
            room: ReadBudget::default(),
            writers: Writers::default(),
            turns: SyncLimiter::default(),
            counts: Counts::default(),
            notices: LogThrottle::default(),
            suspects: BadShards::default(),
            leftovers: Arc::default(),
        }
    }

    /// The disks.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The placement of new blobs; refresh it every few seconds.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    pub(crate) fn room(&self) -> &ReadBudget {
        &self.room
    }

    pub(crate) fn open_shards(&self) -> &OpenShards {
        &self.open
    }

    pub(crate) fn codec(&self, layout: Layout) -> Result<Arc<Codec>> {
        let mut codecs = self.codecs.lock();
        if let Some(codec) = codecs.get(&(layout.k, layout.m)) {
            return Ok(Arc::clone(codec));
        }
        let codec = Codec::new(usize::from(layout.k), usize::from(layout.m)).map_err(|error| {
            Error::with_source(ErrorKind::Corrupt, format!("layout {layout}"), error)
        })?;
        let codec = Arc::new(codec);
        codecs.insert((layout.k, layout.m), Arc::clone(&codec));
        Ok(codec)
    }

    /// Begins a blob of the main pool under an unused id. The layout is the pool's, narrowed when
    /// disks are missing (RECORDS.md section 6).
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when fewer than m+1 disks are alive, [`ErrorKind::NoSpace`] when
    /// they are full.
    pub fn create(&self, id: BlobId, kind: ShardKind) -> Result<BlobWriter> {
        self.create_in(self.pool.number(), id, kind)
    }

    /// As [`BlobStore::create`], in any pool.
    ///
    /// # Errors
    /// As [`BlobStore::create`], for the disks of that pool; [`ErrorKind::Unsupported`] for a pool
    /// that is not configured.
    pub fn create_in(&self, pool: u16, id: BlobId, kind: ShardKind) -> Result<BlobWriter> {
        self.encode_as(pool, id, kind, 1)
    }

    /// Bytes of memory that a writer in the main pool holds: see [`BlobWriter::memory_bytes`].
    #[must_use]
    pub fn writer_memory_bytes(&self) -> usize {
        writer::memory_bytes(self.pool.layout())
    }

    /// Begins the next encoding of a blob, in the present layout and on the present disks of its
    /// pool. The caller writes the content to it and replaces the old record by the new one.
    ///
    /// # Errors
    /// As [`BlobStore::create`].
    pub fn encode_anew(&self, record: &BlobRecord, kind: ShardKind) -> Result<BlobWriter> {
        let next = record.generation.saturating_add(1);
        self.encode_as(record.pool, record.id, kind, next)
    }

    fn encode_as(
        &self,
        pool: u16,
        id: BlobId,
        kind: ShardKind,
        generation: u32,
    ) -> Result<BlobWriter> {
        let (layout, disks) = self.placement.choose(&self.pool, pool, id, kind)?;
        if self.pool.layout_of(pool) != Some(layout) {
            dewar_env::coverage_mark("a blob was laid out narrower");
        }
        let disks: Vec<_> = disks
            .into_iter()
            .filter_map(|disk| Some((disk, self.pool.member(disk)?.disk)))
            .collect();
        if disks.len() < layout.shards() {
            let message = "a disk was removed at this moment";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        Ok(BlobWriter::new(WriterPlan {
            id,
            kind,
            generation,
            pool,
            dewar: self.pool.dewar().0,
            layout,
            disks,
            clock: Arc::clone(&self.pool.env().clock),
            resting: Arc::clone(self.placement.resting()),
            rooms: Arc::clone(self.placement.rooms()),
            leftovers: Arc::clone(&self.leftovers),
            codec: self.codec(layout)?,
            writers: self.writers.clone(),
        }))
    }

    /// Opens a blob; no disk is accessed until it is read.
    ///
    /// # Errors
    /// As [`BlobRecord::geometry`].
    pub fn open(self: &Arc<Self>, record: Arc<BlobRecord>) -> Result<BlobReader> {
        Ok(BlobReader {
            store: Arc::clone(self),
            geometry: record.geometry()?,
            record,
        })
    }

    /// Removes the shards of a blob that got no name. Shards on an absent disk cannot be removed;
    /// they are swept when the disk is back.
    pub async fn take_back(&self, record: &BlobRecord) {
        for shard in self.remove(record).await {
            if let Some(disk) = record.disks.get(shard) {
                self.leftovers.add(*disk, record.shard_path(shard));
            }
        }
    }

    /// Removes a blob's shards. Call it when no name and no reader is left. Returns the shards that
    /// could not be removed because their disk is absent; the caller must remember them.
    pub async fn remove(&self, record: &BlobRecord) -> Vec<usize> {
        let shards: Vec<usize> = (0..record.disks.len()).collect();
        self.remove_shards(record, &shards).await
    }

    /// Removes some shards of an encoding; see [`BlobStore::remove`].
    pub async fn remove_shards(&self, record: &BlobRecord, shards: &[usize]) -> Vec<usize> {
        self.open.forget(record.id);
        let mut left = Vec::new();
        for &shard in shards {
            let Some(member) = record.disks.get(shard).and_then(|id| self.pool.member(*id)) else {
                continue;
            };
            if !member.disk.state().writable() {
                left.push(shard);
                continue;
            }
            if let Err(error) = member.disk.remove(&record.shard_path(shard)).await
                && error.kind() != dewar_env::DiskErrorKind::NotFound
            {
                tracing::warn!(blob = %record.id, shard, %error, "shard not removed");
                left.push(shard);
            }
        }
        left
    }

    /// Removes shards that an earlier, failed try to write this blob may have left.
    pub(crate) async fn discard_unnamed(&self, id: BlobId) {
        self.discard(id, 0).await;
    }

    /// Removes shards of later encodings than the given one, left by a failed attempt.
    pub async fn discard_newer(&self, record: &BlobRecord) {
        self.discard(record.id, record.generation.saturating_add(1))
            .await;
    }

    async fn discard(&self, id: BlobId, from: u32) {
        let dir = record::shard_dir(id);
        for member in self.pool.writable() {
            let Ok(files) = member.disk.list(&dir).await else {
                continue;
            };
            for file in files {
                let named = record::parse_shard_name(&file.name);
                if named.is_some_and(|(blob, generation, _)| blob == id && generation >= from) {
                    // What cannot be removed makes the creation fail, which is noticed.
                    let _ = member.disk.remove(&format!("{dir}/{}", file.name)).await;
                }
            }
        }
    }

    /// A read went around a shard because of `error`. Counted, and said once in a while.
    pub(crate) fn note_detour(&self, record: &BlobRecord, shard: usize, error: &ShardError) {
        self.counts.decoded_reads.fetch_add(1, Ordering::Relaxed);
        let disk = record.disks[shard];
        if let Some(unsaid) = self.notices.due(disk, error.trouble()) {
            tracing::warn!(blob = %record.id, %disk, %error, unsaid, "decoded around");
        }
    }

    pub(crate) fn count_decoded(&self, bytes: u64) {
        self.counts
            .decoded_bytes
            .fetch_add(bytes, Ordering::Relaxed);
    }

    /// Puts a page right that did not verify, in the background.
    pub(crate) fn heal(
        self: &Arc<Self>,
        reader: &BlobReader,
        shard: usize,
        page: u64,
        rows_from: u64,
        rows: &Bytes,
    ) {
        let record = Arc::clone(&reader.record);
        let geometry = reader.geometry;
        // A range that holds only a part of the page cannot heal it; the next whole read will.
        let Some(content) = reader::page_in_rows(page, rows_from, rows, geometry.shard_len(shard))
        else {
            return;
        };
        let store = Arc::clone(self);
        let healing = async move {
            let target = ShardReader {
                pool: &store.pool,
                open: &store.open,
                record: &record,
                geometry,
                shard,
            };
            match target.heal(page, content).await {
                Ok(()) => {
                    dewar_env::coverage_mark("a page was healed");
                    store.counts.healed_pages.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(blob = %record.id, shard, page, "page healed");
                }
                Err(error) => {
                    tracing::warn!(blob = %record.id, shard, page, %error, "page not healed");
                }
            }
        };
        tokio::spawn(healing.in_current_span());
    }

    /// Bad shards found by reads that could not decode them from others.
    #[must_use]
    pub fn suspects(&self) -> &BadShards {
        &self.suspects
    }

    /// The counters since the start.
    #[must_use]
    pub fn counts(&self) -> BlobCounts {
        BlobCounts {
            decoded_reads: self.counts.decoded_reads.load(Ordering::Relaxed),
            decoded_bytes: self.counts.decoded_bytes.load(Ordering::Relaxed),
            bad_pages: self.counts.bad_pages.load(Ordering::Relaxed),
            healed_pages: self.counts.healed_pages.load(Ordering::Relaxed),
        }
    }
}
