//! Rebuilding shards from the others, in place or on another disk.
//!
//! A blob never changes, so a rebuilt shard is byte for byte the lost one. It keeps its generation;
//! only its disk may change. Only the needed bytes are read: the rows of k good shards for the bad
//! ranges, once for all targets.
//!
//! Order: pages and their slots, the header, the file's sync, its folder's sync; then the caller
//! changes the record. A crash before that leaves a file that no record names (on another disk), or
//! a file with pages that still do not verify (in place). The next check continues from there.

use core::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use dewar_env::{Access, CreateOptions, DiskErrorKind, DiskFile};
use dewar_types::{DiskId, Error, ErrorKind, PAGE_BYTES, Result};

use super::check::Damage;
use super::record::{BlobRecord, shard_dir};
use super::{BlobReader, BlobStore};
use crate::format::runs::{page_count, run_spans, slot_at};
use crate::format::{HEADER_BYTES, PageKey, SLOT_BYTES, ShardHeader};
use crate::pace::Pace;
use crate::pool::SpaceDemand;

/// Pages of each shard that are rebuilt at once: 1 MiB. Divides a run.
const STEP_PAGES: u64 = 256;

/// A shard to be rebuilt.
#[derive(Clone, Debug)]
pub struct RebuildTarget {
    /// Number of the shard.
    pub shard: usize,
    /// Target disk. If it is not the record's disk, the whole shard is written to it.
    pub disk: DiskId,
    /// Damage of the shard.
    pub damage: Damage,
}

/// The result of a rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildStats {
    /// Bytes of pages written.
    pub written: u64,
}

struct Open {
    shard: usize,
    disk: DiskId,
    /// Whether the file is new, and so takes space.
    grows: bool,
    damage: Damage,
    file: Arc<dyn DiskFile>,
    key: PageKey,
    len: u64,
    /// Whether it is on another disk until now.
    moves: bool,
}

impl BlobStore {
    /// Rebuilds shards; see the module. Returns the new record, which the caller puts into the
    /// catalog in place of `record`.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] or [`ErrorKind::Corrupt`] when too few shards can be read; errors
    /// of the targets' disks. Bytes written before the error do no harm.
    pub async fn rebuild(
        self: &Arc<Self>,
        record: &Arc<BlobRecord>,
        targets: &[RebuildTarget],
        pace: &Pace,
    ) -> Result<(BlobRecord, RebuildStats)> {
        let reader = self.open(Arc::clone(record))?;
        let mut open = Vec::new();
        for target in targets {
            open.push(self.open_target(&reader, target).await?);
        }
        let mut rebuilt = RebuildStats::default();
        let last = open.iter().map(|open| page_count(open.len)).max();
        let mut page = 0;
        while page < last.unwrap_or(0) {
            let step = page..page + STEP_PAGES;
            rebuilt.written += self.rebuild_step(&reader, &open, &step, pace).await?;
            page = step.end;
        }
        let now = self.relocated(record, targets);
        for (target, open) in targets.iter().zip(&open) {
            let mut pieces = Vec::new();
            if target.damage.header || target.disk != record.disks[target.shard] {
                let header = self.header_page(record, target).await?;
                pieces.push((0, vec![header]));
            }
            open.file.complete(pieces).await?;
            if let Some(member) = self.pool().member(target.disk) {
                member.disk.sync_dir(&shard_dir(record.id)).await?;
            }
        }
        self.open_shards().forget(record.id);
        Ok((now, rebuilt))
    }

    fn relocated(&self, record: &BlobRecord, targets: &[RebuildTarget]) -> BlobRecord {
        let mut now = record.clone();
        for target in targets {
            now.disks[target.shard] = target.disk;
            now.missing
                .retain(|&shard| usize::from(shard) != target.shard);
        }
        now
    }

    async fn open_target(&self, reader: &BlobReader, target: &RebuildTarget) -> Result<Open> {
        let record = &reader.record;
        let absent = || {
            let message = format!("disk {} is not there", target.disk);
            Error::new(ErrorKind::Unavailable, message)
        };
        let member = self.pool().member(target.disk).ok_or_else(absent)?;
        let path = record.shard_path(target.shard);
        let len = reader.geometry.shard_len(target.shard);
        let moved = target.disk != record.disks[target.shard];
        let opened = match member.disk.open(&path, Access::Write).await {
            // Of an earlier try, which nobody finished: what it wrote is not worth a look.
            Ok(_) if moved => {
                member.disk.remove(&path).await?;
                Err(DiskErrorKind::NotFound)
            }
            Ok(file) => Ok(file),
            Err(error) if error.kind() == DiskErrorKind::NotFound => Err(error.kind()),
            Err(error) => return Err(error.into()),
        };
        let grows = opened.is_err();
        let (file, damage) = match opened {
            Ok(file) => (file, target.damage.clone()),
            Err(_) => (
                member.disk.create(&path, CreateOptions::default()).await?,
                Damage::whole(page_count(len)),
            ),
        };
        Ok(Open {
            shard: target.shard,
            disk: target.disk,
            grows,
            damage,
            file,
            key: PageKey::new(record.id, record.generation, target.shard as u8),
            len,
            moves: moved,
        })
    }

    /// Rebuilds what is bad of some pages of all targets; the bytes written.
    async fn rebuild_step(
        self: &Arc<Self>,
        reader: &BlobReader,
        open: &[Open],
        step: &Range<u64>,
        pace: &Pace,
    ) -> Result<u64> {
        let bad: Vec<(&Open, Vec<Range<u64>>)> = open
            .iter()
            .map(|open| (open, within(&open.damage.pages, step)))
            .filter(|(_, pages)| !pages.is_empty())
            .collect();
        let Some(from) = bad
            .iter()
            .flat_map(|(_, pages)| pages)
            .map(|p| p.start)
            .min()
        else {
            return Ok(0);
        };
        let to = bad.iter().flat_map(|(_, pages)| pages).map(|p| p.end).max();
        let rows = from..to.unwrap_or(from);
        let k = u64::from(reader.record.layout.k);
        pace.take((k + bad.len() as u64) * (rows.end - rows.start) * PAGE_BYTES as u64)
            .await;
        // What only moves is copied as long as it can be read, and is there for the others: of a blob
        // that has lost m shards no other may be left out.
        let mut bytes = Vec::with_capacity(bad.len());
        for (open, _) in &bad {
            bytes.push(match open.moves {
                true => reader.own_pages(open.shard, &rows).await,
                false => None,
            });
        }
        let lost: Vec<usize> = bad
            .iter()
            .zip(&bytes)
            .filter(|(_, own)| own.is_none())
            .map(|((open, _), _)| open.shard)
            .collect();
        let read = match lost.is_empty() {
            true => Ok(Vec::new()),
            false => reader.rebuilt(&lost, &rows).await,
        };
        let mut rebuilt = match read {
            Ok(rebuilt) => rebuilt.into_iter(),
            // Perhaps no single page is beyond repair, only the stretch as a whole.
            Err(_) if rows.end - rows.start > 1 => {
                let mut written = 0;
                for page in rows {
                    let one = page..page + 1;
                    let step = self.rebuild_step(reader, open, &one, pace);
                    written += Box::pin(step).await?;
                }
                return Ok(written);
            }
            Err(error) => return Err(error),
        };
        let bytes = bytes
            .into_iter()
            .filter_map(|own| own.or_else(|| rebuilt.next()));
        let mut written = 0;
        for ((open, pages), bytes) in bad.iter().zip(bytes) {
            // A shard that is only mended takes no more room than it had.
            let rooms = self.placement.rooms();
            if open.grows && !rooms.has(open.disk, SpaceDemand::GoOn) {
                let message = format!("disk {} is full but for its reserve", open.disk);
                return Err(Error::new(ErrorKind::NoSpace, message));
            }
            for stretch in pages {
                let at = ((stretch.start - rows.start) as usize) * PAGE_BYTES;
                let end = ((stretch.end - rows.start) as usize * PAGE_BYTES).min(bytes.len());
                let taken = open.write(stretch.start, bytes.slice(at..end)).await?;
                if open.grows {
                    drop(rooms.give(open.disk, taken));
                }
                written += taken;
            }
        }
        Ok(written)
    }

    /// The header of any shard of a blob that can be read; they differ in shard and disk only.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when none can.
    pub async fn header(&self, record: &BlobRecord) -> Result<ShardHeader> {
        for (shard, disk) in record.disks.iter().enumerate() {
            let Some(member) = self.pool().member(*disk) else {
                continue;
            };
            let path = record.shard_path(shard);
            if let Ok(file) = member.disk.open(&path, Access::Read).await
                && let Ok(bytes) = file.read_at(0, HEADER_BYTES).await
                && let Ok(header) = ShardHeader::decode(&bytes)
                && (header.blob, header.generation) == (record.id, record.generation)
                && header.sealed
            {
                return Ok(header);
            }
        }
        let message = format!(
            "the header of blob {}: no shard that can be read has it",
            record.id
        );
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    async fn header_page(&self, record: &BlobRecord, target: &RebuildTarget) -> Result<Bytes> {
        let mut header = self.header(record).await?;
        header.shard = target.shard as u8;
        header.disk = target.disk;
        match header.encode() {
            Ok(page) => Ok(Bytes::copy_from_slice(&page)),
            Err(error) => {
                let message = format!("the header of blob {}", record.id);
                Err(Error::with_source(ErrorKind::Internal, message, error))
            }
        }
    }
}

impl Open {
    /// Writes pages with their slots.
    async fn write(&self, first: u64, mut bytes: Bytes) -> Result<u64> {
        let written = bytes.len() as u64;
        let from = first * PAGE_BYTES as u64;
        let mut pieces = Vec::new();
        for span in run_spans(from..from + written, self.len) {
            let part = bytes.split_to(span.data_len.min(bytes.len()));
            let mut slots = vec![0; part.len().div_ceil(PAGE_BYTES) * SLOT_BYTES];
            self.key.fill_slots(span.first_page, &part, &mut slots);
            pieces.push((span.data_at, vec![part]));
            pieces.push((slot_at(span.first_page), vec![slots.into()]));
        }
        self.file.write_pieces(pieces).await?;
        Ok(written)
    }
}

/// The parts of `stretches` that lie in `step`.
fn within(stretches: &[Range<u64>], step: &Range<u64>) -> Vec<Range<u64>> {
    stretches
        .iter()
        .map(|pages| pages.start.max(step.start)..pages.end.min(step.end))
        .filter(|pages| pages.start < pages.end)
        .collect()
}
