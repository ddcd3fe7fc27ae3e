//! Shards on a disk that was removed from the pool and is added again.
//!
//! The records in use when these shards were written may have changed since. A blob never changes,
//! so a shard of an encoding that is still named is as good as the one on the record's disk, if its
//! header and all its pages verify. The pages prove blob, generation and number. The header also
//! proves the layout, since an encoding that was given up may have had the same generation.
//!
//! Memory: the names of one folder at a time, at most 4,096 blobs.

use dewar_env::{Access, Disk};
use dewar_types::{BlobId, Result};

use super::BlobStore;
use super::record::{BlobRecord, parse_shard_name, shard_dir};
use crate::pool::Member;

/// A shard file by its name: blob, generation and shard.
pub type NamedShard = (BlobId, u32, usize);

/// The folders with shard files on a disk, oldest ids first.
///
/// # Errors
/// Those of the disk.
pub async fn shelves_on(disk: &dyn Disk) -> Result<Vec<String>> {
    let entries = disk.list("blobs").await?.into_iter();
    let shelves = entries.filter(|entry| entry.is_dir);
    Ok(shelves
        .map(|entry| format!("blobs/{}", entry.name))
        .collect())
}

/// The shard files in one of [`shelves_on`], in the order of ids; other files are left out.
///
/// # Errors
/// Those of the disk.
pub async fn shards_on(disk: &dyn Disk, shelf: &str) -> Result<Vec<NamedShard>> {
    let files = disk.list(shelf).await?;
    let named = files.iter().filter_map(|file| parse_shard_name(&file.name));
    let mut shards: Vec<NamedShard> = named.collect();
    shards.sort_unstable();
    Ok(shards)
}

impl BlobStore {
    /// The record of a blob with `member` as the disk of this shard, after a good file of the shard
    /// was found there. The file and its name are durable afterwards.
    ///
    /// # Errors
    /// Those of the disk.
    pub async fn adopt(
        &self,
        record: &BlobRecord,
        shard: usize,
        member: &Member,
    ) -> Result<BlobRecord> {
        let path = record.shard_path(shard);
        let file = member.disk.open(&path, Access::Write).await?;
        file.sync().await?;
        member.disk.sync_dir(&shard_dir(record.id)).await?;
        let mut now = record.clone();
        if let Some(place) = now.disks.get_mut(shard) {
            *place = member.id;
        }
        now.missing.retain(|&missing| usize::from(missing) != shard);
        self.open_shards().forget(record.id);
        Ok(now)
    }
}
