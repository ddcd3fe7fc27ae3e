//! The catalog's side of the data layer: blob records, segment records, and who still reads what.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use dewar_data::blob::BlobRecord;
use dewar_data::segment::{Compaction, DeadBytes, SegmentRecord, SegmentTable};
use dewar_env::{BoxFuture, Env};
use dewar_meta::kv::{Batch, CommitError, Kv, Require, Scan};
use dewar_meta::ns::record::Counter;
use dewar_meta::ns::{Tree, keys};
use dewar_types::{BlobId, Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::limits::BLOB_RECORDS_MAX;

/// The journal as far as small objects depend on it.
pub trait JournalHold: Send + Sync {
    /// The last sequence given to a record.
    fn last_seq(&self) -> u64;

    /// Records up to and including this one are no longer needed for their slots.
    fn release(&self, seq: u64);

    /// Whether the journal is filling up, so that segments should be sealed early.
    fn pressed(&self) -> bool;
}

/// Records of blobs and segments.
pub struct BlobTable {
    env: Env,
    kv: Arc<dyn Kv>,
    tree: Arc<Tree>,
    hold: Arc<dyn JournalHold>,
    records: Mutex<BTreeMap<BlobId, Arc<BlobRecord>>>,
}

impl BlobTable {
    /// The tables of a catalog.
    #[must_use]
    pub fn new(env: Env, kv: Arc<dyn Kv>, tree: Arc<Tree>, hold: Arc<dyn JournalHold>) -> Self {
        Self {
            env,
            kv,
            tree,
            hold,
            records: Mutex::default(),
        }
    }

    /// Whether segments should be sealed although they are not full.
    pub(crate) fn pressed(&self) -> bool {
        self.hold.pressed()
    }

    /// The record of a blob that some version names.
    pub(crate) async fn record(&self, blob: BlobId) -> Result<Arc<BlobRecord>> {
        if let Some(record) = self.records.lock().get(&blob) {
            return Ok(Arc::clone(record));
        }
        let bytes = self.tree.blob_record(blob).await?.ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                format!("blob {blob} is named but has no record"),
            )
        })?;
        let record = Arc::new(BlobRecord::from_bytes(&bytes)?);
        let mut records = self.records.lock();
        if records.len() >= BLOB_RECORDS_MAX {
            // The oldest ids go first: what was written lately is read most.
            records.pop_first();
        }
        records.insert(blob, Arc::clone(&record));
        Ok(record)
    }

    pub(crate) fn forget(&self, blob: BlobId) {
        self.records.lock().remove(&blob);
    }

    /// The encoding that the catalog names, be it of a blob or of a sealed segment: what a sweep
    /// must not touch.
    pub(crate) async fn named(&self, blob: BlobId) -> Result<Option<BlobRecord>> {
        if let Some(bytes) = self.tree.blob_record(blob).await? {
            return BlobRecord::from_bytes(&bytes).map(Some);
        }
        match self.tree.segment_record(blob).await? {
            Some(bytes) => match SegmentRecord::from_bytes(&bytes)? {
                SegmentRecord::Whole { blob } => Ok(Some(blob)),
                SegmentRecord::Packed { .. } => Ok(None),
            },
            None => Ok(None),
        }
    }

    async fn segment_record(&self, segment: BlobId) -> Result<Option<SegmentRecord>> {
        match self.tree.segment_record(segment).await? {
            Some(bytes) => SegmentRecord::from_bytes(&bytes).map(Some),
            None => Ok(None),
        }
    }

    async fn blob_record(&self, blob: BlobId) -> Result<Option<BlobRecord>> {
        match self.tree.blob_record(blob).await? {
            Some(bytes) => BlobRecord::from_bytes(&bytes).map(Some),
            None => Ok(None),
        }
    }

    async fn put_sealed(&self, segment: BlobId, record: &SegmentRecord) -> Result<()> {
        let key = keys::segment(segment);
        let mut batch = Batch {
            require: vec![Require::absent(key.clone())],
            puts: vec![(key, record.to_bytes().into())],
            ..Batch::default()
        };
        if let SegmentRecord::Whole { blob } = record
            && !blob.missing.is_empty()
        {
            batch.puts.push((keys::repair(segment), Bytes::new()));
        }
        self.commit(batch, || format!("sealing segment {segment}"))
            .await
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

    async fn most_dead(&self, limit: usize) -> Result<Vec<DeadBytes>> {
        // All counters of dead bytes stand together under their kind.
        let from = Counter::Dead(BlobId(0)).key();
        let to = Counter::Dead(BlobId(u64::MAX)).key();
        let scan = Scan {
            from: &from,
            to: &to,
            limit,
            reverse: false,
        };
        let page = self.kv.scan(scan).await?;
        Ok(page
            .pairs
            .iter()
            .filter_map(|(key, value)| {
                let segment = BlobId(u64::from_be_bytes(key.get(2..10)?.try_into().ok()?));
                let bytes = i64::from_be_bytes(value[..].try_into().ok()?);
                Some(DeadBytes {
                    segment,
                    bytes: u64::try_from(bytes).ok().filter(|n| *n > 0)?,
                })
            })
            .collect())
    }

    async fn apply_compaction(&self, change: Compaction) -> Result<()> {
        let now = self.env.clock.now().0;
        let mut batch = Batch::default();
        for (segment, was, becomes) in &change.segments {
            let key = keys::segment(*segment);
            batch.require.push(Require::Same {
                key: key.clone(),
                value: Some(was.to_bytes().into()),
                read_at: 0,
            });
            match becomes {
                Some(record) => batch.puts.push((key, record.to_bytes().into())),
                None => batch.deletes.push(key),
            }
            match was {
                // A sealed segment's blob has no record of its own until it waits to be freed.
                SegmentRecord::Whole { blob } => {
                    batch
                        .puts
                        .push((keys::blob(blob.id), blob.to_bytes().into()));
                    batch.puts.push((keys::free(now, blob.id), Bytes::new()));
                }
                SegmentRecord::Packed { blob, .. } => {
                    self.drop_shared(&mut batch, *blob, now).await?
                }
            }
        }
        if let Some((blob, named)) = &change.packed {
            batch
                .puts
                .push((keys::blob(blob.id), blob.to_bytes().into()));
            if *named > 1 {
                let count = Bytes::copy_from_slice(&u64::from(*named).to_be_bytes());
                batch.puts.push((keys::references(blob.id, 0), count));
            }
            if !blob.missing.is_empty() {
                batch.puts.push((keys::repair(blob.id), Bytes::new()));
            }
        }
        for (segment, dead) in &change.honoured {
            let bytes: i64 = dead.iter().map(|(_, len)| i64::from(*len)).sum();
            batch.adds.push((Counter::Dead(*segment).key(), -bytes));
            batch
                .deletes
                .extend(dead.iter().map(|(offset, _)| keys::dead(*segment, *offset)));
        }
        self.commit(batch, || "compacting segments".to_owned())
            .await
    }

    /// One segment fewer names a shared blob.
    async fn drop_shared(&self, batch: &mut Batch, blob: BlobId, now: u64) -> Result<()> {
        let key = keys::references(blob, 0);
        // Several segments of one compaction may share the blob: count on from the batch.
        let pending = batch.puts.iter().position(|(put, _)| *put == key);
        let count = match pending {
            Some(at) => Some(batch.puts.remove(at).1),
            None => {
                let read = self.kv.get(&key).await?;
                batch.require.push(Require::same(key.clone(), &read));
                read.value
            }
        };
        let count = match count {
            Some(bytes) => u64::from_be_bytes(bytes[..].try_into().map_err(|_| {
                Error::new(
                    ErrorKind::Corrupt,
                    format!("reference count of blob {blob}"),
                )
            })?),
            None => 1,
        };
        match count {
            0 | 1 => {
                batch.deletes.push(key);
                batch.puts.push((keys::free(now, blob), Bytes::new()));
            }
            // One is what an absent count means, but the batch may count further down.
            more => batch
                .puts
                .push((key, Bytes::copy_from_slice(&(more - 1).to_be_bytes()))),
        }
        Ok(())
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
        Box::pin(self.tree.ids().blob())
    }

    fn segment(&self, segment: BlobId) -> BoxFuture<'_, Result<Option<SegmentRecord>>> {
        Box::pin(self.segment_record(segment))
    }

    fn blob(&self, blob: BlobId) -> BoxFuture<'_, Result<Option<BlobRecord>>> {
        Box::pin(self.blob_record(blob))
    }

    fn seal<'a>(&'a self, segment: BlobId, record: &'a SegmentRecord) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.put_sealed(segment, record))
    }

    fn dead(&self, segment: BlobId) -> BoxFuture<'_, Result<Vec<(u32, u32)>>> {
        Box::pin(self.dead_slots(segment))
    }

    fn dead_bytes(&self, limit: usize) -> BoxFuture<'_, Result<Vec<DeadBytes>>> {
        Box::pin(self.most_dead(limit))
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

/// Blobs that somebody reads now: they are not freed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers {
    counts: Arc<Mutex<BTreeMap<BlobId, usize>>>,
}

/// Keeps blobs from being freed until it is dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    readers: Readers,
    blobs: Vec<BlobId>,
}

impl Readers {
    pub(crate) fn pin(&self, blobs: impl Iterator<Item = BlobId>) -> Pinned {
        let blobs: Vec<BlobId> = blobs.collect();
        let mut counts = self.counts.lock();
        for blob in &blobs {
            *counts.entry(*blob).or_default() += 1;
        }
        drop(counts);
        Pinned {
            readers: self.clone(),
            blobs,
        }
    }

    pub(crate) fn holds(&self, blob: BlobId) -> bool {
        self.counts.lock().contains_key(&blob)
    }
}

impl Drop for Pinned {
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
