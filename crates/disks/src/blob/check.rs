//! Checking a shard: all its bytes, read from the medium and verified.
//!
//! A check bypasses the page cache if the file system can, because the cache does not show the
//! state of the medium. It changes nothing; [`super::Damage`] lists the parts that a repair has to
//! write.

use core::ops::Range;

use bytes::Bytes;
use dewar_env::{Access, DiskErrorKind, DiskFile};
use dewar_types::{PAGE_BYTES, Result};

use super::BlobStore;
use super::record::BlobRecord;
use crate::format::runs::{checksum_page_at, page_count, run_spans};
use crate::format::{HEADER_BYTES, PageKey, SLOT_BYTES, SLOTS_PER_PAGE, ShardHeader};
use crate::pace::Pace;
use crate::pool::Member;

/// Bytes of pages read at once.
const STEP_BYTES: u64 = 1 << 20;

/// Separate stretches of bad pages that are told; beyond, all from there on counts as bad.
const STRETCHES_MAX: usize = 256;

/// The result of checking a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// Every page verifies, and the header is its own.
    Good,
    /// Its disk cannot be read now: nothing is known.
    Unreachable,
    /// It is not as it was written.
    Damaged(Damage),
}

/// The damage of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// The header is not the one that was written.
    pub header: bool,
    /// Pages that do not verify or are not there, ascending.
    pub pages: Vec<Range<u64>>,
    /// It has no file: nothing of it has rotted.
    pub absent: bool,
}

impl Damage {
    /// All of a shard with this many pages.
    #[must_use]
    pub fn whole(pages: u64) -> Self {
        Self {
            header: true,
            pages: Some(0..pages)
                .filter(|all| !all.is_empty())
                .into_iter()
                .collect(),
            absent: false,
        }
    }

    fn is_nothing(&self) -> bool {
        !self.header && self.pages.is_empty()
    }

    /// Adds pages that follow all that are there; `last` is the shard's end.
    fn add(&mut self, pages: Range<u64>, last: u64) {
        let full = self.pages.len() >= STRETCHES_MAX;
        match self.pages.last_mut() {
            Some(before) if before.end >= pages.start => before.end = before.end.max(pages.end),
            Some(before) if full => before.end = last,
            _ => self.pages.push(pages),
        }
    }
}

impl BlobStore {
    /// Checks one shard at the place that its record names.
    ///
    /// # Errors
    /// As [`BlobRecord::geometry`]. An error of the disk is part of the result, not an error.
    pub async fn check(
        &self,
        record: &BlobRecord,
        shard: usize,
        pace: &Pace,
    ) -> Result<CheckOutcome> {
        let Some(member) = self.pool().member(record.disks[shard]) else {
            return Ok(CheckOutcome::Unreachable);
        };
        if record.missing.contains(&(shard as u8)) {
            let pages = page_count(record.geometry()?.shard_len(shard));
            return Ok(CheckOutcome::Damaged(Damage::whole(pages)));
        }
        self.check_on(record, shard, &member, pace).await
    }

    /// Checks one shard on any disk, independent of the disk in its record.
    ///
    /// # Errors
    /// As [`BlobStore::check`].
    pub async fn check_on(
        &self,
        record: &BlobRecord,
        shard: usize,
        member: &Member,
        pace: &Pace,
    ) -> Result<CheckOutcome> {
        let shard_len = record.geometry()?.shard_len(shard);
        let pages = page_count(shard_len);
        let whole = |absent| {
            Ok(CheckOutcome::Damaged(Damage {
                absent,
                ..Damage::whole(pages)
            }))
        };
        let path = record.shard_path(shard);
        let file = match member.disk.open(&path, Access::Direct).await {
            Ok(file) => file,
            Err(error) if error.kind() == DiskErrorKind::NotFound => return whole(true),
            Err(_) if member.disk.state().readable() => return whole(false),
            Err(_) => return Ok(CheckOutcome::Unreachable),
        };
        let mut damage = Damage::default();
        let key = PageKey::new(record.id, record.generation, shard as u8);
        let mut slots = None;
        for span in run_spans(0..shard_len, shard_len).flat_map(steps) {
            pace.take(span.bytes.end - span.bytes.start).await;
            if slots.as_ref().is_none_or(|(run, _)| *run != span.run) {
                let page = read(&*file, checksum_page_at(span.run), PAGE_BYTES).await;
                slots = Some((span.run, page.unwrap_or_default()));
            }
            let content = read(
                &*file,
                span.bytes.start,
                (span.bytes.end - span.bytes.start).next_multiple_of(PAGE_BYTES as u64) as usize,
            )
            .await;
            if !member.disk.state().readable() {
                return Ok(CheckOutcome::Unreachable);
            }
            let slots = slots.as_ref().map_or(&[][..], |(_, page)| &page[..]);
            let content = content.unwrap_or_default();
            let want = (span.bytes.end - span.bytes.start) as usize;
            let content = &content[..want.min(content.len())];
            for (at, page) in span.pages.clone().enumerate() {
                let slot = (page % SLOTS_PER_PAGE as u64) as usize * SLOT_BYTES;
                let len = PAGE_BYTES.min(want - at * PAGE_BYTES);
                let good = content
                    .get(at * PAGE_BYTES..at * PAGE_BYTES + len)
                    .zip(slots.get(slot..slot + SLOT_BYTES))
                    .is_some_and(|(bytes, slot)| key.verify_pages(page, bytes, slot).is_ok());
                if !good {
                    damage.add(page..page + 1, pages);
                }
            }
        }
        pace.take(HEADER_BYTES as u64).await;
        let header = read(&*file, 0, HEADER_BYTES).await.unwrap_or_default();
        if !member.disk.state().readable() {
            return Ok(CheckOutcome::Unreachable);
        }
        damage.header = !is_header_of(&header, record, shard, self.pool().dewar().0);
        Ok(match damage.is_nothing() {
            true => CheckOutcome::Good,
            false => CheckOutcome::Damaged(damage),
        })
    }
}

/// Whether a header page is that of this shard.
fn is_header_of(bytes: &[u8], record: &BlobRecord, shard: usize, dewar: u128) -> bool {
    ShardHeader::decode(bytes).is_ok_and(|header| {
        if (header.blob, header.generation) != (record.id, record.generation) {
            dewar_env::coverage_mark("a shard was another's");
        }
        header.blob == record.id
            && header.generation == record.generation
            && usize::from(header.shard) == shard
            && header.layout == record.layout
            && header.blob_len == Some(record.len)
            && header.cluster == dewar
            && header.sealed
    })
}

/// Bytes from a file, fewer where it ends; `None` where the medium does not give them.
async fn read(file: &dyn DiskFile, offset: u64, len: usize) -> Option<Bytes> {
    file.read_at(offset, len).await.ok()
}

/// Whole pages of one run that are read together.
struct Step {
    run: u64,
    pages: Range<u64>,
    /// Their range in the file; the last page of a shard may be short.
    bytes: Range<u64>,
}

fn steps(span: crate::format::runs::RunSpan) -> impl Iterator<Item = Step> {
    let len = span.data_len as u64;
    (0..len).step_by(STEP_BYTES as usize).map(move |from| {
        let to = (from + STEP_BYTES).min(len);
        let first = span.first_page + from / PAGE_BYTES as u64;
        Step {
            run: span.run,
            pages: first..span.first_page + to.div_ceil(PAGE_BYTES as u64),
            bytes: span.data_at + from..span.data_at + to,
        }
    })
}
