//! All encodings of blobs that the catalog names, in the order of ids, and changing one.

use crate::blob::{BlobRecord, KnownBadShards};
use crate::segment::SegmentRecord;
use bytes::Bytes;
use dewar_catalog::keys;
use dewar_catalog::tables::{self, Table};
use dewar_kv::{Batch, CommitError, Precondition, Scan};
use dewar_types::{BlobId, Error, ErrorKind, Result, Timestamp};

use crate::blob_table::BlobTable;

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordLocation {
    /// In the table of blobs.
    Blob,
    /// In that of sealed segments.
    Segment,
}

/// An encoding that the catalog names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// The table of its record.
    pub home: RecordLocation,
    /// Its record.
    pub record: BlobRecord,
}

/// Some encodings, by id.
#[derive(Debug, Default)]
pub struct EncodingPage {
    /// The encodings.
    pub encodings: Vec<Encoding>,
    /// The position to continue from; `None` at the end.
    pub next: Option<BlobId>,
}

impl Encoding {
    fn key(&self) -> Bytes {
        match self.home {
            RecordLocation::Blob => keys::blob(self.record.id),
            RecordLocation::Segment => keys::segment(self.record.id),
        }
    }

    fn value(&self, record: &BlobRecord) -> Bytes {
        match self.home {
            RecordLocation::Blob => record.to_bytes().into(),
            RecordLocation::Segment => {
                let blob = record.clone();
                SegmentRecord::Whole { blob }.to_bytes().into()
            }
        }
    }

    fn same(&self) -> Precondition {
        Precondition::Same {
            key: self.key(),
            value: Some(self.value(&self.record)),
            read_at: 0,
        }
    }
}

impl BlobTable {
    /// The encodings from a blob on, about `limit` of them.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn encodings(&self, from: BlobId, limit: usize) -> Result<EncodingPage> {
        let (mut encodings, blobs_to) = self.of_table(tables::BLOB, from, limit).await?;
        let (segments, segments_to) = self.of_table(tables::SEGMENT, from, limit).await?;
        // Beyond the nearer end one of the tables has not been looked at.
        let next = match (blobs_to, segments_to) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        encodings.extend(segments);
        encodings.retain(|encoding| next.is_none_or(|next| encoding.record.id < next));
        encodings.sort_by_key(|encoding| encoding.record.id);
        Ok(EncodingPage { encodings, next })
    }

    async fn of_table(
        &self,
        table: Table,
        from: BlobId,
        limit: usize,
    ) -> Result<(Vec<Encoding>, Option<BlobId>)> {
        let range = keys::encodings(table, from);
        let scan = Scan {
            from: &range.from,
            to: &range.to,
            limit,
            reverse: false,
        };
        let page = self.kv.scan(scan).await?;
        let mut found = Vec::with_capacity(page.pairs.len());
        let mut last = from;
        for (key, value) in &page.pairs {
            last = keys::parse_blob(key)?;
            found.extend(encoding(table, value)?);
        }
        let next = page.more.then_some(BlobId(last.0.saturating_add(1)));
        Ok((found, next))
    }

    /// The encoding of one blob as it is now.
    pub(crate) async fn encoding(&self, blob: BlobId) -> Result<Option<Encoding>> {
        for (table, key) in [
            (tables::BLOB, keys::blob(blob)),
            (tables::SEGMENT, keys::segment(blob)),
        ] {
            if let Some(value) = self.kv.get(&key).await?.value
                && let Some(found) = encoding(table, &value)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The known damage of blobs from one on, by id, `limit` at most, and the position to continue
    /// from.
    pub(crate) async fn findings(
        &self,
        from: BlobId,
        limit: usize,
    ) -> Result<(Vec<(BlobId, KnownBadShards)>, Option<BlobId>)> {
        let range = keys::repairs(from);
        let scan = Scan {
            from: &range.from,
            to: &range.to,
            limit,
            reverse: false,
        };
        let page = self.kv.scan(scan).await?;
        let mut found = Vec::with_capacity(page.pairs.len());
        for (key, value) in &page.pairs {
            found.push((keys::parse_blob(key)?, KnownBadShards::from_bytes(value)?));
        }
        let last = found.last().map_or(from, |(blob, _)| *blob);
        let next = page.more.then_some(BlobId(last.0.saturating_add(1)));
        Ok((found, next))
    }

    /// The known damage of a blob; `None` if it is not on the queue.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn finding(&self, blob: BlobId) -> Result<Option<KnownBadShards>> {
        match self.kv.get(&keys::repair(blob)).await?.value {
            Some(value) => KnownBadShards::from_bytes(&value).map(Some),
            None => Ok(None),
        }
    }

    /// Records that a shard of an encoding is bad. Returns whether that is new. Does nothing if the
    /// encoding has changed.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn note(&self, encoding: &Encoding, shard: usize, now: Timestamp) -> Result<bool> {
        let key = keys::repair(encoding.record.id);
        loop {
            let queued = self.kv.get(&key).await?;
            let known = KnownBadShards::from_bytes(queued.value.as_deref().unwrap_or_default())?;
            let is_new = !known.bad().contains(shard);
            let batch = Batch {
                require: vec![encoding.same(), Precondition::same(key.clone(), &queued)],
                puts: vec![(key.clone(), known.with(shard, now).to_bytes().into())],
                // What leads to repair is noted on a full pool too.
                frees: true,
                ..Batch::default()
            };
            match self.kv.commit(batch).await {
                Ok(_) => return Ok(is_new),
                Err(CommitError::Conflict(_)) => {
                    if self.encoding(encoding.record.id).await?.as_ref() != Some(encoding) {
                        return Ok(false);
                    }
                }
                Err(CommitError::Failed(error)) => return Err(error.context("noting a bad shard")),
            }
        }
    }

    /// Replaces the record of an encoding. The findings in `left` stay on the queue.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] when the record or the findings have changed; nothing was changed
    /// then.
    pub async fn replaced(
        &self,
        was: &Encoding,
        now: &BlobRecord,
        findings: Option<&KnownBadShards>,
        left: KnownBadShards,
    ) -> Result<()> {
        let id = was.record.id;
        let mut batch = Batch::default();
        if dewar_env::safeguard("a repair replaces what it read") {
            batch.require.push(was.same());
        }
        if *now != was.record {
            batch.puts.push((was.key(), was.value(now)));
        }
        // Whoever queued the blob anew meanwhile has seen something that this repair has not.
        let key = keys::repair(id);
        let queued = self.kv.get(&key).await?;
        match &queued.value {
            Some(value) if findings == Some(&KnownBadShards::from_bytes(value)?) => {
                batch.require.push(Precondition::same(key.clone(), &queued));
                match left.bad().is_empty() {
                    true => batch.deletes.push(key),
                    false => batch.puts.push((key, left.to_bytes().into())),
                }
            }
            Some(_) => {
                let message = format!("blob {id} was found bad again while it was repaired");
                return Err(Error::new(ErrorKind::Conflict, message));
            }
            None => {}
        }
        if batch.puts.is_empty() && batch.deletes.is_empty() {
            return Ok(());
        }
        match self.kv.commit(batch).await {
            Ok(_) => {
                self.forget(id);
                Ok(())
            }
            Err(CommitError::Conflict(_)) => Err(Error::new(
                ErrorKind::Conflict,
                format!("repairing blob {id}: it changed meanwhile"),
            )),
            Err(CommitError::Failed(error)) => {
                if !error.left_unchanged() {
                    dewar_env::coverage_mark("it is open whether a repair counts");
                    self.leave_open(id);
                }
                Err(error.context(format!("repairing blob {id}")))
            }
        }
    }

    /// Replaces a record by one with a shard on another disk, where it was found good, or `bad` at
    /// that time. In the queue only the entries about this shard change.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] when the record or the findings have changed; nothing was changed
    /// then.
    pub(crate) async fn adopted(
        &self,
        was: &Encoding,
        now: &BlobRecord,
        shard: usize,
        bad: Option<Timestamp>,
    ) -> Result<()> {
        let id = was.record.id;
        let key = keys::repair(id);
        let queued = self.kv.get(&key).await?;
        let known = KnownBadShards::from_bytes(queued.value.as_deref().unwrap_or_default())?;
        let left = match bad {
            Some(found) => Some(known.with(shard, found)),
            None => queued.value.as_ref().map(|_| known.without(shard)),
        };
        let mut batch = Batch {
            require: vec![
                was.same(),
                Precondition::Same {
                    key: key.clone(),
                    value: queued.value,
                    read_at: queued.seq,
                },
            ],
            puts: vec![(was.key(), was.value(now))],
            ..Batch::default()
        };
        if let Some(left) = left {
            batch.puts.push((key, left.to_bytes().into()));
        }
        match self.kv.commit(batch).await {
            Ok(_) => {
                self.forget(id);
                Ok(())
            }
            Err(CommitError::Conflict(_)) => Err(Error::new(
                ErrorKind::Conflict,
                format!("taking a shard of blob {id} from another disk: it changed meanwhile"),
            )),
            Err(CommitError::Failed(error)) => {
                Err(error.context(format!("taking a shard of blob {id} from another disk")))
            }
        }
    }

    /// Takes an entry off the queue whose blob is gone.
    pub(crate) async fn unqueue(&self, blob: BlobId) -> Result<()> {
        let batch = Batch {
            require: vec![
                Precondition::absent(keys::blob(blob)),
                Precondition::absent(keys::segment(blob)),
            ],
            deletes: vec![keys::repair(blob)],
            ..Batch::default()
        };
        match self.kv.commit(batch).await {
            Ok(_) | Err(CommitError::Conflict(_)) => Ok(()),
            Err(CommitError::Failed(error)) => Err(error.context("emptying the repair queue")),
        }
    }
}

fn encoding(table: Table, value: &[u8]) -> Result<Option<Encoding>> {
    if table == tables::BLOB {
        let record = BlobRecord::from_bytes(value)?;
        let home = RecordLocation::Blob;
        return Ok(Some(Encoding { home, record }));
    }
    Ok(match SegmentRecord::from_bytes(value)? {
        SegmentRecord::Whole { blob } => Some(Encoding {
            home: RecordLocation::Segment,
            record: blob,
        }),
        // Its bytes stand in a blob with a record of its own.
        SegmentRecord::Packed { .. } => None,
    })
}
