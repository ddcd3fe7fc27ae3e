//! The catalog's side of the data layer: blob records, segment records, and readers.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::blob::BlobRecord;
use crate::segment::{Compaction, DeadBytes, DeadPage, SegmentRecord, SegmentTable};
use bytes::Bytes;
use dewar_catalog::Catalog;
use dewar_catalog::keys;
use dewar_catalog::record::Counter;
use dewar_env::{BoxFuture, Env};
use dewar_kv::{Batch, CommitError, Kv, Precondition, Scan, Seq};
use dewar_types::{BlobId, Error, ErrorKind, Result};
use parking_lot::Mutex;

/// Blob records kept in memory.
const BLOB_RECORDS_MAX: usize = 32 * 1024;

/// The journal as far as small objects depend on it.
pub trait JournalPin: Send + Sync {
    /// The last sequence given to a record.
    fn last_seq(&self) -> u64;

    /// Records up to and including this one are no longer needed for their slots.
    fn release(&self, seq: u64);

    /// The number of disk failures that the catalog survives. It counts journal records that are
    /// still needed, and the last copy of the index.
    fn margin(&self) -> i32;

    /// Pieces of the index that are damaged in every copy. As long as there are any, the catalog
    /// does not survive a restart.
    fn lost(&self) -> u64 {
        0
    }

    /// Whether the journal is filling up, so that segments should be sealed early.
    fn pressed(&self) -> bool;

    /// Whether journal or index are being copied to other disks. This takes precedence over repair.
    fn moves(&self) -> bool {
        false
    }
}

/// Records of blobs and segments.
pub struct BlobTable {
    env: Env,
    pub(crate) kv: Arc<dyn Kv>,
    catalog: Catalog,
    hold: Arc<dyn JournalPin>,
    records: Mutex<Records>,
    readers: ReadPins,
}

/// Records of blobs that were read lately.
#[derive(Default)]
struct Records {
    known: BTreeMap<BlobId, Arc<BlobRecord>>,
    /// The number of removals from the cache. A record that was read before a removal is not cached
    /// after it.
    forgotten: u64,
    /// Blobs whose record was to be changed by a failed commit that may still take effect. The
    /// result is known when reads take this batch into account.
    open: BTreeMap<BlobId, Seq>,
}

impl Records {
    fn forget(&mut self, blob: BlobId) {
        self.forgotten += 1;
        self.known.remove(&blob);
    }
}

impl BlobTable {
    /// The entries of the catalog that the batch with a blob's first name must contain.
    #[must_use]
    pub fn first_entries(record: &BlobRecord) -> Vec<(Bytes, Bytes)> {
        let mut entries = vec![(keys::blob(record.id), record.to_bytes().into())];
        if !record.missing.is_empty() {
            entries.push((keys::repair(record.id), Bytes::new()));
        }
        entries
    }

    /// The tables of a catalog.
    #[must_use]
    pub fn new(env: Env, catalog: Catalog, hold: Arc<dyn JournalPin>) -> Self {
        Self {
            env,
            kv: Arc::clone(catalog.kv()),
            catalog,
            hold,
            records: Mutex::default(),
            readers: ReadPins::default(),
        }
    }

    /// The blobs and segments with readers.
    #[must_use]
    pub fn readers(&self) -> &ReadPins {
        &self.readers
    }

    /// Whether segments should be sealed although they are not full.
    pub(crate) fn pressed(&self) -> bool {
        self.hold.pressed()
    }

    /// Whether journal or index are being copied to other disks.
    pub(crate) fn catalog_moves(&self) -> bool {
        self.hold.moves()
    }

    /// The number of disk failures that the catalog and the journal survive.
    pub(crate) fn catalog_margin(&self) -> i32 {
        self.hold.margin()
    }

    /// Pieces of the catalog index that no disk has right.
    pub(crate) fn catalog_lost(&self) -> u64 {
        self.hold.lost()
    }

    /// The record of a blob, if it was read lately.
    #[must_use]
    pub fn known_record(&self, blob: BlobId) -> Option<Arc<BlobRecord>> {
        self.records.lock().known.get(&blob).map(Arc::clone)
    }

    /// The record of a blob that some version names.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn record(&self, blob: BlobId) -> Result<Arc<BlobRecord>> {
        let forgotten = {
            let records = self.records.lock();
            if let Some(record) = records.known.get(&blob) {
                return Ok(Arc::clone(record));
            }
            records.forgotten
        };
        let read = self.kv.get(&keys::blob(blob)).await?;
        let bytes = read.value.ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                format!("blob {blob} is named but has no record"),
            )
        })?;
        let record = Arc::new(BlobRecord::from_bytes(&bytes)?);
        let mut records = self.records.lock();
        if records.forgotten == forgotten && !records.open.contains_key(&blob) {
            if records.known.len() >= BLOB_RECORDS_MAX {
                // The oldest ids go first: what was written lately is read most.
                records.known.pop_first();
            }
            records.known.insert(blob, Arc::clone(&record));
        }
        Ok(record)
    }

    pub(crate) fn forget(&self, blob: BlobId) {
        self.records.lock().forget(blob);
    }

    /// A change of the blob's record failed and may happen yet.
    pub fn leave_open(&self, blob: BlobId) {
        let taken = self.kv.last_sequence();
        let mut records = self.records.lock();
        records.forget(blob);
        records.open.insert(blob, taken);
    }

    /// Whether the result of every change of the blob's record is known.
    #[must_use]
    pub fn is_decided(&self, blob: BlobId) -> bool {
        !self.records.lock().open.contains_key(&blob)
    }

    /// Whether files of the blob that the catalog does not name now may still be needed. A slow
    /// reader may use an encoding that was replaced since. A repair's files may still be named
    /// although its commit failed.
    #[must_use]
    pub fn is_needed(&self, blob: BlobId) -> bool {
        self.readers.holds(blob) || !self.is_decided(blob)
    }

    /// The blobs whose result has become known.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn newly_decided(&self) -> Result<Vec<BlobId>> {
        let Some(any) = self.records.lock().open.keys().next().copied() else {
            return Ok(Vec::new());
        };
        let seen = self.kv.get(&keys::blob(any)).await?.seq;
        let mut records = self.records.lock();
        let decided = records.open.extract_if(.., |_, taken| *taken <= seen);
        let decided: Vec<BlobId> = decided.map(|(blob, _)| blob).collect();
        decided.iter().for_each(|blob| records.forget(*blob));
        Ok(decided)
    }

    /// The encoding of a blob or of a sealed segment that the catalog names. A sweep must not
    /// delete its files.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn named(&self, blob: BlobId) -> Result<Option<BlobRecord>> {
        if let Some(bytes) = self.catalog.blob_record(blob).await? {
            return BlobRecord::from_bytes(&bytes).map(Some);
        }
        match self.catalog.segment_record(blob).await? {
            Some(bytes) => match SegmentRecord::from_bytes(&bytes)? {
                SegmentRecord::Whole { blob } => Ok(Some(blob)),
                SegmentRecord::Packed { .. } => Ok(None),
            },
            None => Ok(None),
        }
    }

    async fn segment_record(&self, segment: BlobId) -> Result<Option<SegmentRecord>> {
        match self.catalog.segment_record(segment).await? {
            Some(bytes) => SegmentRecord::from_bytes(&bytes).map(Some),
            None => Ok(None),
        }
    }

    async fn blob_record(&self, blob: BlobId) -> Result<Option<BlobRecord>> {
        match self.catalog.blob_record(blob).await? {
            Some(bytes) => BlobRecord::from_bytes(&bytes).map(Some),
            None => Ok(None),
        }
    }

    async fn put_sealed(
        &self,
        segment: BlobId,
        record: &SegmentRecord,
        holes: &[(u32, u32)],
    ) -> Result<()> {
        let key = keys::segment(segment);
        let mut batch = Batch {
            require: vec![Precondition::absent(key.clone())],
            puts: vec![(key, record.to_bytes().into())],
            // Lets the journal go: without room kept back for it, a full journal stays full.
            seals: true,
            ..Batch::default()
        };
        if let SegmentRecord::Whole { blob } = record
            && !blob.missing.is_empty()
        {
            batch.puts.push((keys::repair(segment), Bytes::new()));
        }
        // A hole is a slot that nothing will ever name.
        for (offset, len) in holes {
            let len = Bytes::copy_from_slice(&len.to_be_bytes());
            batch.puts.push((keys::dead(segment, *offset), len));
        }
        let dead: i64 = holes.iter().map(|(_, len)| i64::from(*len)).sum();
        if dead > 0 {
            batch.adds.push((Counter::Dead(segment).key(), dead));
        }
        self.commit(batch, || format!("sealing segment {segment}"))
            .await
    }

    /// The ranges of a segment that are marked dead, (offset, length) by offset.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn dead_stretches(&self, segment: BlobId) -> Result<Vec<(u32, u32)>> {
        self.dead_slots(segment).await
    }

    async fn dead_slots(&self, segment: BlobId) -> Result<Vec<(u32, u32)>> {
        let range = keys::dead_in(segment);
        let mut dead = Vec::new();
        let mut from = range.from.clone();
        loop {
            let scan = Scan {
                from: &from,
                to: &range.to,
                limit: 4096,
                reverse: false,
            };
            let page = self.kv.scan(scan).await?;
            for (key, value) in &page.pairs {
                let (_, offset) = keys::parse_dead(key)?;
                let len = <[u8; 4]>::try_from(&value[..]).map_err(|_| {
                    let message = format!("dead mark of segment {segment} at {offset}");
                    Error::new(ErrorKind::Corrupt, message)
                })?;
                dead.push((offset, u32::from_be_bytes(len)));
            }
            match page.pairs.last().filter(|_| page.more) {
                Some((last, _)) => from = keys::just_after(last),
                None => return Ok(dead),
            }
        }
    }

    async fn dead_sum(&self, segment: BlobId) -> Result<u64> {
        let key = Counter::Dead(segment).key();
        match self.kv.get(&key).await?.value {
            Some(value) => dead_count(segment, &value),
            None => Ok(0),
        }
    }

    async fn dead_page(&self, from: BlobId, limit: usize) -> Result<DeadPage> {
        // All counters of dead bytes stand together under their kind.
        let from = Counter::Dead(from).key();
        let to = keys::just_after(&Counter::Dead(BlobId(u64::MAX)).key());
        let scan = Scan {
            from: &from,
            to: &to,
            limit,
            reverse: false,
        };
        let page = self.kv.scan(scan).await?;
        let mut found = DeadPage::default();
        for (key, value) in &page.pairs {
            let id = key.get(2..10).and_then(|id| <[u8; 8]>::try_from(id).ok());
            let segment = id.map(|id| BlobId(u64::from_be_bytes(id))).ok_or_else(|| {
                let message = format!("counter {}", key.escape_ascii());
                Error::new(ErrorKind::Corrupt, message)
            })?;
            let bytes = dead_count(segment, value)?;
            if bytes > 0 {
                found.dead.push(DeadBytes { segment, bytes });
            }
            found.next = page.more.then_some(BlobId(segment.0.saturating_add(1)));
        }
        Ok(found)
    }

    async fn apply_compaction(&self, change: Compaction) -> Result<()> {
        let now = self.env.clock.now().0;
        let mut batch = Batch {
            frees: true,
            ..Batch::default()
        };
        for (segment, was, becomes) in &change.segments {
            let key = keys::segment(*segment);
            batch.require.push(Precondition::Same {
                key: key.clone(),
                value: Some(was.to_bytes().into()),
                read_at: 0,
            });
            let dead = change.honoured.get(segment).map_or(&[][..], Vec::as_slice);
            batch
                .deletes
                .extend(dead.iter().map(|(offset, _)| keys::dead(*segment, *offset)));
            let counter = Counter::Dead(*segment).key();
            match becomes {
                Some(record) => {
                    let bytes: i64 = dead.iter().map(|(_, len)| i64::from(*len)).sum();
                    batch.adds.push((counter, -bytes));
                    batch.puts.push((key, record.to_bytes().into()));
                }
                // Every slot is dead and marked, so that nothing is added any more.
                None => {
                    batch.deletes.push(counter);
                    batch.deletes.push(key);
                }
            }
        }
        for blob in &change.freed {
            // A sealed segment's blob has no record of its own until it waits to be freed.
            let record = blob.to_bytes().into();
            batch.puts.push((keys::blob(blob.id), record));
            batch.puts.push((keys::free(now, blob.id), Bytes::new()));
        }
        if let Some(blob) = &change.packed {
            batch.puts.extend(Self::first_entries(blob));
        }
        self.commit(batch, || "compacting segments".to_owned())
            .await
    }

    async fn commit(&self, batch: Batch, doing: impl Fn() -> String) -> Result<()> {
        match self.kv.commit(batch).await {
            Ok(_) => Ok(()),
            Err(CommitError::Conflict(_)) => Err(Error::new(
                ErrorKind::Conflict,
                format!("{}: it changed meanwhile", doing()),
            )),
            Err(CommitError::Failed(error)) => Err(error.context(doing())),
        }
    }
}

impl SegmentTable for BlobTable {
    fn mint(&self) -> BoxFuture<'_, Result<BlobId>> {
        Box::pin(self.catalog.ids().blob())
    }

    fn segment(&self, segment: BlobId) -> BoxFuture<'_, Result<Option<SegmentRecord>>> {
        Box::pin(self.segment_record(segment))
    }

    fn blob(&self, blob: BlobId) -> BoxFuture<'_, Result<Option<BlobRecord>>> {
        Box::pin(self.blob_record(blob))
    }

    fn seal<'a>(
        &'a self,
        segment: BlobId,
        record: &'a SegmentRecord,
        holes: &'a [(u32, u32)],
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.put_sealed(segment, record, holes))
    }

    fn dead(&self, segment: BlobId) -> BoxFuture<'_, Result<Vec<(u32, u32)>>> {
        Box::pin(self.dead_slots(segment))
    }

    fn dead_total(&self, segment: BlobId) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.dead_sum(segment))
    }

    fn dead_bytes(&self, from: BlobId, limit: usize) -> BoxFuture<'_, Result<DeadPage>> {
        Box::pin(self.dead_page(from, limit))
    }

    fn is_read(&self, segment: BlobId) -> bool {
        self.readers.holds(segment)
    }

    fn compacted(&self, change: Compaction) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.apply_compaction(change))
    }

    fn last_seq(&self) -> u64 {
        self.hold.last_seq()
    }

    fn release(&self, seq: u64) {
        self.hold.release(seq);
    }
}

fn dead_count(segment: BlobId, value: &[u8]) -> Result<u64> {
    let bytes = <[u8; 8]>::try_from(value).map_err(|_| {
        let message = format!("counter of dead bytes of segment {segment}");
        Error::new(ErrorKind::Corrupt, message)
    })?;
    Ok(u64::try_from(i64::from_be_bytes(bytes)).unwrap_or(0))
}

/// Blobs and segments with readers. They are not freed and not compacted.
#[derive(Clone, Debug, Default)]
pub struct ReadPins {
    counts: Arc<Mutex<BTreeMap<BlobId, usize>>>,
}

/// Keeps blobs from being freed, and dead slots from being compacted away, until it is dropped.
#[derive(Debug)]
pub struct ReadPin {
    readers: ReadPins,
    blobs: Vec<BlobId>,
}

impl ReadPins {
    /// Pins blobs and segments.
    #[must_use]
    pub fn pin(&self, blobs: impl Iterator<Item = BlobId>) -> ReadPin {
        let blobs: Vec<BlobId> = blobs.collect();
        let mut counts = self.counts.lock();
        for blob in &blobs {
            *counts.entry(*blob).or_default() += 1;
        }
        drop(counts);
        ReadPin {
            readers: self.clone(),
            blobs,
        }
    }

    /// Whether a blob or segment is pinned.
    #[must_use]
    pub fn holds(&self, blob: BlobId) -> bool {
        self.counts.lock().contains_key(&blob)
    }
}

impl Drop for ReadPin {
    fn drop(&mut self) {
        let mut counts = self.readers.counts.lock();
        for blob in &self.blobs {
            if let Some(count) = counts.get_mut(blob) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(blob);
                }
            }
        }
    }
}
