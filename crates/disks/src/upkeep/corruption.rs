//! Rot: shards that were read and did not verify. A missing shard is found and mended in the same
//! way, but it does not count against its disk.
//!
//! The catalog has the number of bad shards since the disk joined. So the number is kept when they
//! are mended: replace a disk on which shards rot again and again. The log names the first few
//! shards of a pass on each disk, and the total at its end.

use std::collections::BTreeMap;

use crate::blob::Damage;
use bytes::Bytes;
use dewar_catalog::keys;
use dewar_kv::{Batch, CommitError, Precondition};
use dewar_types::{DiskId, Error, ErrorKind, Result, Timestamp};
use minicbor::{Decode, Encode};

use super::blob_index::Encoding;
use crate::disks::Disks;
use crate::salvage_header::SalvageHeader;

/// The kind of `D` record that holds a [`CorruptionStats`].
const FOUND: u8 = b'f';

/// Shards of a disk that one pass names in the log.
const NAMED_MAX: u64 = 5;

/// Runs of bad pages that the log line of a shard names.
const PAGES_NAMED_MAX: usize = 8;

/// The shards found bad on a disk since it joined the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CorruptionStats {
    /// Shards, mended or not.
    #[n(0)]
    pub shards: u64,
    /// When the last of them was found.
    #[n(1)]
    pub last: Option<Timestamp>,
}

/// The findings of one pass.
#[derive(Debug)]
pub(super) struct CorruptionLog {
    /// The reader, for the log.
    by: &'static str,
    found: BTreeMap<DiskId, u64>,
}

impl CorruptionLog {
    pub(super) fn new(by: &'static str) -> Self {
        Self {
            by,
            found: BTreeMap::new(),
        }
    }

    /// Records a bad shard, for repair, in the disk's count unless the shard is only missing, and
    /// in the log.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn note(
        &mut self,
        disks: &Disks,
        encoding: &Encoding,
        shard: usize,
        damage: &Damage,
    ) -> Result<()> {
        let (record, by) = (&encoding.record, self.by);
        let disk = record.disks[shard];
        let count = self.found.entry(disk).or_default();
        *count += 1;
        if *count <= NAMED_MAX {
            let pages = damage.pages.iter().take(PAGES_NAMED_MAX);
            let pages = pages.map(|pages| format!("{}..{}", pages.start, pages.end));
            let pages = pages.collect::<Vec<_>>().join(" ");
            let (blob, folder) = (record.id, disks.folder_of(disk));
            // As it was called when it was written; a segment is of many.
            let header = disks.blobs.header(record).await.ok();
            let said = header.and_then(|header| SalvageHeader::from_bytes(&header.owner));
            let path = said.map(|said| said.path).unwrap_or_default();
            match damage.absent {
                true => tracing::warn!(%blob, shard, folder, %disk, path, by, "a shard is gone"),
                false => {
                    tracing::warn!(%blob, shard, folder, %disk, pages, path, by, "found a bad shard");
                }
            }
        }
        let now = disks.env.clock.now();
        if disks.table.note(encoding, shard, now).await? && !damage.absent {
            disks.count_rot(disk, now).await?;
        }
        disks.upkeep.queued();
        Ok(())
    }

    /// How many were found.
    pub(super) fn total(&self) -> u64 {
        self.found.values().sum()
    }

    /// Says how many there were on disks of which not all were named.
    pub(super) fn sum_up(&self, disks: &Disks) {
        for (disk, shards) in self.found.iter().filter(|(_, shards)| **shards > NAMED_MAX) {
            let (folder, by) = (disks.folder_of(*disk), self.by);
            tracing::warn!(%disk, folder, shards, by, "found shards bad or gone, of which the first were named");
        }
    }
}

impl Disks {
    async fn count_rot(&self, disk: DiskId, now: Timestamp) -> Result<()> {
        *self.upkeep.rot.lock().entry(disk).or_default() += 1;
        let key = keys::disk(disk, FOUND);
        loop {
            let known = self.catalog.kv().get(&key).await?;
            let found = CorruptionStats {
                shards: parse(disk, known.value.as_ref())?.shards + 1,
                last: Some(now),
            };
            // Writing into a vector cannot fail.
            let value = minicbor::to_vec(found).unwrap_or_default();
            let batch = Batch {
                require: vec![Precondition::same(key.clone(), &known)],
                puts: vec![(key.clone(), Bytes::from(value))],
                // What leads to repair is known on a full pool too.
                frees: true,
                ..Batch::default()
            };
            match self.catalog.kv().commit(batch).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Conflict(_)) => {}
                Err(CommitError::Failed(error)) => {
                    return Err(error.context("counting a bad shard"));
                }
            }
        }
    }
}

fn parse(disk: DiskId, value: Option<&Bytes>) -> Result<CorruptionStats> {
    let Some(value) = value else {
        return Ok(CorruptionStats::default());
    };
    minicbor::decode(value).map_err(|error| {
        let what = format!("how much was found bad on disk {disk}");
        Error::with_source(ErrorKind::Corrupt, what, error)
    })
}

impl Disks {
    /// The shards found bad on a disk since it joined the pool.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn corruptions_found(&self, disk: DiskId) -> Result<CorruptionStats> {
        let value = self.catalog.kv().get(&keys::disk(disk, FOUND)).await?;
        parse(disk, value.value.as_ref())
    }

    /// Shards found bad since the start of the process, by disk.
    #[must_use]
    pub fn rot_since_start(&self) -> BTreeMap<DiskId, u64> {
        self.upkeep.rot.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are a format: docs/formats/segment.md.
    #[test]
    fn what_was_found_is_kept_as_it_is_drawn() {
        let found = CorruptionStats {
            shards: 7,
            last: Some(Timestamp(9)),
        };
        let bytes = [0xa2, 0x00, 0x07, 0x01, 0x09];
        assert_eq!(minicbor::to_vec(found).expect("encodes"), bytes);
        let read: CorruptionStats = minicbor::decode(&bytes).expect("decodes");
        assert_eq!(read, found);
    }
}
