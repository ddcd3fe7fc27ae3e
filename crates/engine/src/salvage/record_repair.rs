//! Comparing the catalog's records of blobs with the disks.
//!
//! A catalog that is older than the disks has outdated records: of blobs that were rewritten or
//! moved since, and of blobs that are gone. The former get the correct record. Missing shards are
//! recorded as bad, so that the ledger shows unreadable data, and repair mends the rest.

use std::collections::{BTreeMap, BTreeSet};

use dewar_disks::blob::{KnownBadShards, ScannedShard};
use dewar_disks::upkeep::Encoding;
use dewar_types::{BlobId, DiskId, Result};

use super::report::Finding;
use super::{SalvageWalk, Shelves, shelf_range};

/// Records read in one scan.
const PAGE: usize = 512;

impl SalvageWalk<'_> {
    /// Compares all records of a range of ids with the shards found there.
    pub(super) async fn compare(
        &mut self,
        range: core::ops::Range<BlobId>,
        found: &BTreeMap<BlobId, Vec<ScannedShard>>,
    ) -> Result<()> {
        let mut from = range.start;
        loop {
            let page = self.table().encodings(from, PAGE).await?;
            for encoding in page.encodings {
                if encoding.record.id >= range.end {
                    return Ok(());
                }
                let shards = found.get(&encoding.record.id);
                let shards = shards.map_or(&[][..], Vec::as_slice);
                self.compare_one(&encoding, shards).await?;
            }
            match page.next.filter(|next| *next < range.end) {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Records of blobs in whose folder there is nothing.
    pub(super) async fn without_shelf(&mut self, shelves: &Shelves) -> Result<()> {
        let ranges: Vec<_> = shelves
            .iter()
            .filter_map(|name| shelf_range(name))
            .collect();
        let mut from = BlobId(0);
        loop {
            let page = self.table().encodings(from, PAGE).await?;
            for encoding in page.encodings {
                let id = encoding.record.id;
                if !ranges.iter().any(|range| range.contains(&id)) {
                    self.compare_one(&encoding, &[]).await?;
                }
            }
            match page.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    async fn compare_one(&mut self, encoding: &Encoding, found: &[ScannedShard]) -> Result<()> {
        let record = &encoding.record;
        let there: BTreeSet<DiskId> = self.blobs().pool().members().map(|m| m.id).collect();
        let lacks: Vec<usize> = (0..record.disks.len())
            .filter(|shard| !record.missing.contains(&(*shard as u8)))
            .filter(|shard| there.contains(&record.disks[*shard]))
            .filter(|shard| {
                !found.contains(&ScannedShard {
                    generation: record.generation,
                    shard: *shard as u8,
                    disk: record.disks[*shard],
                })
            })
            .collect();
        if lacks.is_empty() || self.queued.contains(&record.id) {
            return Ok(());
        }
        let left = record.disks.len() - record.missing.len() - lacks.len();
        let readable = left >= usize::from(record.layout.k);
        if !readable
            && let Ok(assembled) = self.blobs().assemble(record.id, found).await
            && assembled.record.len == record.len
        {
            // It was encoded anew, or moved, since the catalog knew it.
            self.tell(&Finding::Mended { blob: record.id });
            if self.write {
                let table = self.table();
                let queued = table.finding(record.id).await?;
                let (now, left) = (&assembled.record, KnownBadShards::default());
                table.replaced(encoding, now, queued.as_ref(), left).await?;
            }
            return Ok(());
        }
        if self.write {
            let now = self.store.env().clock.now();
            for shard in &lacks {
                self.table().note(encoding, *shard, now).await?;
            }
        }
        self.tell(&Finding::Gone {
            blob: record.id,
            shards: lacks.len(),
            readable,
        });
        Ok(())
    }
}
