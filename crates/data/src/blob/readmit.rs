//! Shards on a disk that was removed and is taken back.
//!
//! What is on it was put there by records of another time. A blob never changes, so a shard of an
//! encoding that is still named is as good there as where the record has it now, if every page of it and
//! its header verify. A file proves itself by both: the pages by blob, generation and number, the header
//! by the layout too, since an encoding that was given up may have had the same generation.
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

/// The shard files in one of [`shelves_on`], in the order of ids; others are not told.
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
    /// The record of a blob with a shard on another disk, where a file of it was found good. Whatever
    /// of it was written last is durable then.
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
