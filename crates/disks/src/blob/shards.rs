//! Verified reads of one shard: open files kept, checksum pages kept, every page checked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::{Bytes, BytesMut};
use dewar_env::{Access, Disk, DiskError, DiskErrorKind, DiskFile};
use dewar_types::{BlobId, PAGE_BYTES};
use parking_lot::Mutex;
use thiserror::Error;

use super::record::BlobRecord;
use super::verified::VerifiedBytes;
use crate::format::runs::{RunSpan, checksum_page_at, page_at, run_spans, slot_at};
use crate::format::{Geometry, PageKey, SLOT_BYTES, SLOTS_PER_PAGE};
use crate::pool::{Member, Pool};

/// Shard files kept open at most; each costs a descriptor and its checksum pages.
const OPEN_SHARDS_MAX: usize = 2048;

/// Checksum pages that an open shard may keep in any case: 4 cover 16 MiB of it, and who reads forwards
/// wants the last one again.
const SLOT_PAGES_PER_SHARD: usize = 4;

/// Checksum pages that all open shards keep together beyond those: they cover 32 GiB. Small reads all
/// over a large file would else read a checksum page each.
const SLOT_PAGES_MAX: usize = 8192;

/// A file was used so lately, in uses of others, that its place among them needs no change.
const LATELY: u64 = OPEN_SHARDS_MAX as u64 / 8;

/// Why rows of a shard could not be had from its own disk.
#[derive(Debug, Error)]
pub(crate) enum ShardError {
    /// Its disk is absent, or the shard was never written.
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

impl ShardError {
    /// What kind of trouble it is, in a word.
    pub(crate) fn trouble(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing",
            Self::Disk(_) => "disk",
            Self::BadPage { .. } => "page",
        }
    }
}

type Key = (BlobId, u32, u8);

/// Open shard files, least recently used out first.
#[derive(Debug, Default)]
pub(crate) struct OpenShards {
    inner: Mutex<Lru>,
    /// Checksum pages that all of them keep.
    slot_pages: Arc<AtomicUsize>,
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
    /// Its disk when opened, with the disk's count of returns. After an absence, and on another
    /// disk under the same id, the file is opened again.
    disk: Arc<dyn Disk>,
    returns: u32,
    slot_pages: Mutex<BTreeMap<u64, Bytes>>,
    /// Those of all open shards.
    all_slot_pages: Arc<AtomicUsize>,
}

impl OpenShards {
    fn get(&self, key: Key, member: &Member, returns: u32) -> Option<Arc<OpenShard>> {
        let mut lru = self.inner.lock();
        lru.clock += 1;
        let now = lru.clock;
        let (age, shard) = lru.open.get_mut(&key)?;
        let another = shard.returns != returns || !Arc::ptr_eq(&shard.disk, &member.disk);
        if another && dewar_env::safeguard("files are opened anew after an absence") {
            return None;
        }
        let shard = Arc::clone(shard);
        if now - *age < LATELY {
            return Some(shard);
        }
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
    pub(crate) geometry: Geometry,
    pub(crate) shard: usize,
}

impl<'a> ShardReader<'a> {
    /// The shard's length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.geometry.shard_len(self.shard)
    }

    fn key(&self) -> Key {
        (self.record.id, self.record.generation, self.shard as u8)
    }

    fn page_key(&self) -> PageKey {
        let (blob, generation, shard) = self.key();
        PageKey::new(blob, generation, shard)
    }

    fn missing(&self) -> ShardError {
        ShardError::Missing {
            blob: self.record.id,
            shard: self.shard,
        }
    }

    /// The disk, if it can be read now.
    fn member(&self) -> Result<(Member, u32), ShardError> {
        if self.record.missing.contains(&(self.shard as u8)) {
            return Err(self.missing());
        }
        let member = self
            .pool
            .member(self.record.disks[self.shard])
            .ok_or_else(|| self.missing())?;
        match member.disk.state() {
            dewar_env::DiskState::Online { returns }
            | dewar_env::DiskState::ReadOnly { returns } => Ok((member, returns)),
            state if state.readable() => Ok((member, u32::MAX)),
            _ => Err(self.missing()),
        }
    }

    /// Rows `from..to` if that needs no waiting: the file is open and the pages are in memory.
    /// `None` where it would wait or where anything is wrong.
    pub(crate) fn rows_now(&self, from: u64, to: u64) -> Option<VerifiedBytes> {
        let (member, returns) = self.member().ok()?;
        let open = self.open.get(self.key(), &member, returns)?;
        let to = to.min(self.len());
        let mut spans = run_spans(from..to, self.len());
        let span = spans.next()?;
        if spans.next().is_some() {
            return None;
        }
        let bytes = open.file.read_now(span.data_at, span.data_len)?.ok()?;
        let kept = open.slot_pages.lock().get(&span.run).cloned();
        let slots = match kept {
            Some(slots) => slots,
            None => {
                let at = checksum_page_at(span.run);
                let slots = open.file.read_now(at, PAGE_BYTES)?.ok()?;
                open.keep_slots(span.run, slots.clone());
                slots
            }
        };
        let slots = self.verify(&span, &bytes, &slots).ok()?;
        Some(self.cut(&bytes, (span.first_page, slots), from, to))
    }

    /// Rows `from..to` of the shard (cut at its end), every page they touch verified.
    pub(crate) async fn rows(&self, from: u64, to: u64) -> Result<VerifiedBytes, ShardError> {
        let to = to.min(self.len());
        if from >= to {
            return Ok(VerifiedBytes::default());
        }
        let open = self.open_file().await?;
        let (mut parts, mut sums) = (Vec::new(), Vec::new());
        for span in run_spans(from..to, self.len()) {
            let (bytes, slots) = self.span_pages(&open, &span).await?;
            parts.push(bytes);
            sums.push(slots);
        }
        let slots = (from / PAGE_BYTES as u64, joined(sums));
        Ok(self.cut(&joined(parts), slots, from, to))
    }

    /// Rows `from..to` out of whole pages with their slots, the first of which has this number.
    fn cut(&self, pages: &Bytes, slots: (u64, Bytes), from: u64, to: u64) -> VerifiedBytes {
        let start = slots.0 * PAGE_BYTES as u64;
        let bytes = pages.slice((from - start) as usize..(to - start) as usize);
        VerifiedBytes::of_pages(bytes, from, (self.page_key(), self.len()), slots)
    }

    /// The pages of one run and their slots, verified.
    async fn span_pages(
        &self,
        open: &OpenShard,
        span: &RunSpan,
    ) -> Result<(Bytes, Bytes), ShardError> {
        let kept = open.slot_pages.lock().get(&span.run).cloned();
        let (bytes, slots) = match kept {
            Some(slots) => (open.file.read_at(span.data_at, span.data_len).await?, slots),
            None => {
                let pieces = vec![
                    (span.data_at, span.data_len),
                    (checksum_page_at(span.run), PAGE_BYTES),
                ];
                let mut read = open.file.read_pieces(pieces).await?.into_iter();
                let bytes = read.next().unwrap_or_default();
                let slots = read.next().unwrap_or_default();
                open.keep_slots(span.run, slots.clone());
                (bytes, slots)
            }
        };
        let verified = self.verify(span, &bytes, &slots);
        if verified.is_err() {
            // The checksum page may be what is bad, or what was read too early: never keep it.
            open.drop_slots(span.run);
        }
        verified.map(|slots| (bytes, slots))
    }

    /// Compares pages with the checksum page of their run; their slots.
    fn verify(&self, span: &RunSpan, bytes: &[u8], slots: &Bytes) -> Result<Bytes, ShardError> {
        if bytes.len() != span.data_len {
            // The file ends too early.
            return Err(self.bad_page(span.first_page + (bytes.len() / PAGE_BYTES) as u64));
        }
        let start = (span.first_page % SLOTS_PER_PAGE as u64) as usize * SLOT_BYTES;
        let end = start + span.slots_len();
        if slots.len() < end {
            return Err(self.bad_page(span.first_page));
        }
        let slots = slots.slice(start..end);
        self.page_key()
            .verify_pages(span.first_page, bytes, &slots)
            .map_err(|error| self.bad_page(error.page))?;
        Ok(slots)
    }

    fn bad_page(&self, page: u64) -> ShardError {
        let disk = self.record.disks[self.shard];
        ShardError::BadPage {
            blob: self.record.id,
            shard: self.shard,
            page,
            disk: match self.pool.member(disk) {
                Some(member) => member.disk.label().to_owned(),
                None => disk.to_string(),
            },
        }
    }

    async fn open_file(&self) -> Result<Arc<OpenShard>, ShardError> {
        let (member, returns) = self.member()?;
        if let Some(open) = self.open.get(self.key(), &member, returns) {
            return Ok(open);
        }
        let path = self.record.shard_path(self.shard);
        let file = member.disk.open(&path, Access::Read).await;
        if file
            .as_ref()
            .is_err_and(|error| error.kind() == DiskErrorKind::NotFound)
        {
            dewar_env::coverage_mark("a stale disk lacked a shard");
        }
        let file = file?;
        let open = Arc::new(OpenShard {
            file,
            disk: member.disk,
            returns,
            slot_pages: Mutex::new(BTreeMap::new()),
            all_slot_pages: Arc::clone(&self.open.slot_pages),
        });
        self.open.put(self.key(), Arc::clone(&open));
        Ok(open)
    }

    /// Puts right bytes back where a page did not verify, and its slot with them.
    pub(crate) async fn heal(&self, page: u64, content: Bytes) -> Result<(), ShardError> {
        let (member, _) = self.member()?;
        let path = self.record.shard_path(self.shard);
        let file = member.disk.open(&path, Access::Write).await?;
        let slot = self.page_key().slot(page, &content).to_le_bytes();
        file.write_pieces(vec![
            (page_at(page), vec![content]),
            (slot_at(page), vec![Bytes::copy_from_slice(&slot)]),
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
        if kept.len() >= SLOT_PAGES_PER_SHARD
            && self.all_slot_pages.load(Relaxed) >= SLOT_PAGES_MAX
            && !kept.contains_key(&run)
        {
            // Reads go forward, so the lowest run is the least likely to be wanted again.
            kept.pop_first();
            self.all_slot_pages.fetch_sub(1, Relaxed);
        }
        if kept.insert(run, slots).is_none() {
            self.all_slot_pages.fetch_add(1, Relaxed);
        }
    }

    fn drop_slots(&self, run: u64) {
        if self.slot_pages.lock().remove(&run).is_some() {
            self.all_slot_pages.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for OpenShard {
    fn drop(&mut self) {
        let kept = self.slot_pages.get_mut().len();
        self.all_slot_pages.fetch_sub(kept, Relaxed);
    }
}

fn joined(mut parts: Vec<Bytes>) -> Bytes {
    if parts.len() == 1 {
        return parts.swap_remove(0);
    }
    let mut joined = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
    parts.iter().for_each(|part| joined.extend_from_slice(part));
    joined.freeze()
}
