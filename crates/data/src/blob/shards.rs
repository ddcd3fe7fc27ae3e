//! Verified reads of one shard: open files kept, checksum pages kept, every page checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use dewar_checksum::crc32c;
use dewar_env::{Access, DiskError, DiskFile};
use dewar_types::{BlobId, PAGE_BYTES};
use parking_lot::Mutex;
use thiserror::Error;

use super::record::BlobRecord;
use crate::format::{PAGES_PER_RUN, Slot, page_offset, shard_len, slots_offset};
use crate::pool::{Member, Pool};

/// Shard files kept open at most; each costs a descriptor and up to
/// [`SLOT_PAGES_PER_SHARD_MAX`] checksum pages.
const OPEN_SHARDS_MAX: usize = 2048;

/// Checksum pages kept per open shard: 8 cover 32 MiB of it.
const SLOT_PAGES_PER_SHARD_MAX: usize = 8;

/// Why rows of a shard could not be had from its own disk.
#[derive(Debug, Error)]
pub(crate) enum ShardError {
    /// Its disk is not there, or the shard was never written.
    #[error("shard {shard} of blob {blob} is missing")]
    Missing { blob: BlobId, shard: usize },
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A page does not verify.
    #[error("page {page} of shard {shard} of blob {blob} on {disk} does not verify")]
    BadPage {
        blob: BlobId,
        shard: usize,
        page: u64,
        disk: String,
    },
}

type Key = (BlobId, u32, u8);

/// Open shard files, least recently used out first.
#[derive(Debug, Default)]
pub(crate) struct OpenShards {
    inner: Mutex<Lru>,
}

#[derive(Debug, Default)]
struct Lru {
    open: BTreeMap<Key, (u64, Arc<OpenShard>)>,
    by_age: BTreeMap<u64, Key>,
    clock: u64,
}

/// A shard file with the checksum pages read last.
#[derive(Debug)]
pub(crate) struct OpenShard {
    file: Arc<dyn DiskFile>,
    /// The `returns` of its disk when opened: after an absence the file is opened anew.
    returns: u32,
    slot_pages: Mutex<BTreeMap<u64, Bytes>>,
}

impl OpenShards {
    fn get(&self, key: Key, returns: u32) -> Option<Arc<OpenShard>> {
        let mut lru = self.inner.lock();
        lru.clock += 1;
        let now = lru.clock;
        let (age, shard) = lru.open.get_mut(&key)?;
        if shard.returns != returns {
            return None;
        }
        let shard = Arc::clone(shard);
        let before = core::mem::replace(age, now);
        lru.by_age.remove(&before);
        lru.by_age.insert(now, key);
        Some(shard)
    }

    fn put(&self, key: Key, shard: Arc<OpenShard>) {
        let mut lru = self.inner.lock();
        lru.clock += 1;
        let now = lru.clock;
        if let Some((before, _)) = lru.open.insert(key, (now, shard)) {
            lru.by_age.remove(&before);
        }
        lru.by_age.insert(now, key);
        if lru.open.len() > OPEN_SHARDS_MAX
            && let Some((_, oldest)) = lru.by_age.pop_first()
        {
            lru.open.remove(&oldest);
        }
    }

    /// Closes what is open of a blob that goes away.
    pub(crate) fn forget(&self, blob: BlobId) {
        let mut lru = self.inner.lock();
        let from = (blob, 0, 0);
        let to = (blob, u32::MAX, u8::MAX);
        let keys: Vec<Key> = lru.open.range(from..=to).map(|(key, _)| *key).collect();
        for key in keys {
            if let Some((age, _)) = lru.open.remove(&key) {
                lru.by_age.remove(&age);
            }
        }
    }
}

/// One shard of a blob, to be read.
#[derive(Clone, Copy)]
pub(crate) struct ShardReader<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) open: &'a OpenShards,
    pub(crate) record: &'a BlobRecord,
    pub(crate) shard: usize,
}

impl<'a> ShardReader<'a> {
    /// The shard's length in bytes.
    pub(crate) fn len(&self) -> u64 {
        shard_len(self.record.layout, self.record.len, self.shard)
    }

    fn key(&self) -> Key {
        (self.record.id, self.record.generation, self.shard as u8)
    }

    fn missing(&self) -> ShardError {
        ShardError::Missing {
            blob: self.record.id,
            shard: self.shard,
        }
    }

    /// The disk, if it can be read now.
    fn member(&self) -> Result<(&'a Member, u32), ShardError> {
        if self.record.missing.contains(&(self.shard as u8)) {
            return Err(self.missing());
        }
        let member = self
            .pool
            .member(self.record.disks[self.shard])
            .ok_or_else(|| self.missing())?;
        match member.disk.state() {
            dewar_env::DiskState::Online { returns } => Ok((member, returns)),
            state if state.readable() => Ok((member, u32::MAX)),
            _ => Err(self.missing()),
        }
    }

    /// Rows `from..to` if that needs no waiting: the file is open and the pages are in memory.
    /// `None` where it would wait or where anything is wrong.
    pub(crate) fn rows_now(&self, from: u64, to: u64) -> Option<Bytes> {
        let (_, returns) = self.member().ok()?;
        let open = self.open.get(self.key(), returns)?;
        let (first, last) = pages_of(from, to.min(self.len()));
        if first / PAGES_PER_RUN != (last - 1) / PAGES_PER_RUN {
            return None;
        }
        let bytes = open
            .file
            .read_now(page_offset(first), self.bytes_of(first, last))?
            .ok()?;
        let run = first / PAGES_PER_RUN;
        let kept = open.slot_pages.lock().get(&run).cloned();
        let slots = match kept {
            Some(slots) => slots,
            None => {
                let slots = open.file.read_now(slots_offset(run), PAGE_BYTES)?.ok()?;
                open.keep_slots(run, slots.clone());
                slots
            }
        };
        self.verify(first, &bytes, last, &slots).ok()?;
        Some(cut(&bytes, first, from, to.min(self.len())))
    }

    /// Rows `from..to` of the shard (cut at its end), every page they touch verified.
    pub(crate) async fn rows(&self, from: u64, to: u64) -> Result<Bytes, ShardError> {
        let to = to.min(self.len());
        if from >= to {
            return Ok(Bytes::new());
        }
        let open = self.open_file().await?;
        let (first, last) = pages_of(from, to);
        let mut parts = Vec::new();
        let mut page = first;
        while page < last {
            let run = page / PAGES_PER_RUN;
            let end = last.min((run + 1) * PAGES_PER_RUN);
            parts.push(self.run_pages(&open, run, page, end).await?);
            page = end;
        }
        let bytes = match parts.len() {
            1 => parts.swap_remove(0),
            _ => {
                let mut joined = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
                parts.iter().for_each(|part| joined.extend_from_slice(part));
                joined.freeze()
            }
        };
        Ok(cut(&bytes, first, from, to))
    }

    /// Pages `first..last`, all of one run.
    async fn run_pages(
        &self,
        open: &OpenShard,
        run: u64,
        first: u64,
        last: u64,
    ) -> Result<Bytes, ShardError> {
        let data = (page_offset(first), self.bytes_of(first, last));
        let kept = open.slot_pages.lock().get(&run).cloned();
        let (bytes, slots) = match kept {
            Some(slots) => (open.file.read_at(data.0, data.1).await?, slots),
            None => {
                let pieces = vec![data, (slots_offset(run), PAGE_BYTES)];
                let mut read = open.file.read_pieces(pieces).await?.into_iter();
                let bytes = read.next().unwrap_or_default();
                let slots = read.next().unwrap_or_default();
                open.keep_slots(run, slots.clone());
                (bytes, slots)
            }
        };
        let verified = self.verify(first, &bytes, last, &slots);
        if verified.is_err() {
            // The checksum page may be what is bad, or what was read too early: never keep it.
            open.slot_pages.lock().remove(&run);
        }
        verified.map(|()| bytes)
    }

    fn verify(&self, first: u64, bytes: &[u8], last: u64, slots: &[u8]) -> Result<(), ShardError> {
        let bad = |page| ShardError::BadPage {
            blob: self.record.id,
            shard: self.shard,
            page,
            disk: self.pool.member(self.record.disks[self.shard]).map_or_else(
                || self.record.disks[self.shard].to_string(),
                |member| member.disk.label().to_owned(),
            ),
        };
        if bytes.len() != self.bytes_of(first, last) {
            return Err(bad(first + (bytes.len() / PAGE_BYTES) as u64));
        }
        for (page, content) in (first..last).zip(bytes.chunks(PAGE_BYTES)) {
            let at = (page % PAGES_PER_RUN) as usize * 4;
            let stored = slots.get(at..at + 4).and_then(|slot| slot.try_into().ok());
            let slot = Slot {
                blob: self.record.id,
                generation: self.record.generation,
                shard: self.shard as u8,
                page,
            };
            if stored.map(u32::from_le_bytes) != Some(slot.seal(crc32c(content))) {
                return Err(bad(page));
            }
        }
        Ok(())
    }

    /// Stored bytes of pages `first..last`; only the shard's last page may be short.
    fn bytes_of(&self, first: u64, last: u64) -> usize {
        let page = PAGE_BYTES as u64;
        ((last * page).min(self.len()) - first * page) as usize
    }

    async fn open_file(&self) -> Result<Arc<OpenShard>, ShardError> {
        let (member, returns) = self.member()?;
        if let Some(open) = self.open.get(self.key(), returns) {
            return Ok(open);
        }
        let path = self.record.shard_path(self.shard);
        let file = member.disk.open(&path, Access::Read).await?;
        let open = Arc::new(OpenShard {
            file,
            returns,
            slot_pages: Mutex::new(BTreeMap::new()),
        });
        self.open.put(self.key(), Arc::clone(&open));
        Ok(open)
    }

    /// Puts right bytes back where a page did not verify, and its slot with them.
    pub(crate) async fn heal(&self, page: u64, content: Bytes) -> Result<(), ShardError> {
        let (member, _) = self.member()?;
        let path = self.record.shard_path(self.shard);
        let file = member.disk.open(&path, Access::Write).await?;
        let slot = Slot {
            blob: self.record.id,
            generation: self.record.generation,
            shard: self.shard as u8,
            page,
        };
        let value = Bytes::copy_from_slice(&slot.seal(crc32c(&content)).to_le_bytes());
        let slot_at = slots_offset(page / PAGES_PER_RUN) + page % PAGES_PER_RUN * 4;
        file.write_pieces(vec![
            (page_offset(page), vec![content]),
            (slot_at, vec![value]),
        ])
        .await?;
        file.sync().await?;
        self.open.forget(self.record.id);
        Ok(())
    }
}

impl OpenShard {
    fn keep_slots(&self, run: u64, slots: Bytes) {
        let mut kept = self.slot_pages.lock();
        if kept.len() >= SLOT_PAGES_PER_SHARD_MAX {
            // Reads go forward, so the lowest run is the least likely to be wanted again.
            kept.pop_first();
        }
        kept.insert(run, slots);
    }
}

/// The pages that rows `from..to` touch.
fn pages_of(from: u64, to: u64) -> (u64, u64) {
    let page = PAGE_BYTES as u64;
    (from / page, to.div_ceil(page))
}

/// Rows `from..to` out of whole pages that begin with page `first`.
fn cut(bytes: &Bytes, first: u64, from: u64, to: u64) -> Bytes {
    let start = first * PAGE_BYTES as u64;
    bytes.slice((from - start) as usize..(to - start) as usize)
}
