//! Checking whether shards exist, without reading them.
//!
//! Folders of shards are in the order of blob ids, as records are, so each is listed once.

use std::collections::BTreeSet;

use dewar_env::{Access, DiskErrorKind};
use dewar_types::{BlobId, Error, ErrorKind, Result};

use super::BlobStore;
use super::record::{BlobRecord, parse_shard_name, shard_dir};
use crate::pool::Member;

/// The content of one folder of shards.
#[derive(Debug, Default)]
pub struct ShardListing {
    dir: Option<String>,
    shards: BTreeSet<(BlobId, u32, usize)>,
}

impl BlobStore {
    /// Number of the shard that a record places on a disk and that is missing there. `None` if it
    /// is there, or should not be. `listed` caches one folder, so pass records in the order of ids.
    ///
    /// # Errors
    /// Those of the disk; [`ErrorKind::Unavailable`] when the disk disappeared.
    pub async fn absent(
        &self,
        member: &Member,
        record: &BlobRecord,
        listed: &mut ShardListing,
    ) -> Result<Option<usize>> {
        let Some(shard) = record.disks.iter().position(|id| *id == member.id) else {
            return Ok(None);
        };
        if record.missing.contains(&(shard as u8)) {
            return Ok(None);
        }
        let dir = shard_dir(record.id);
        if listed.dir.as_ref() != Some(&dir) {
            let files = member.disk.list(&dir).await?;
            let named = files.iter().filter_map(|file| parse_shard_name(&file.name));
            listed.shards = named.collect();
            listed.dir = Some(dir);
        }
        if listed
            .shards
            .contains(&(record.id, record.generation, shard))
        {
            return Ok(None);
        }
        // It may have been written since the folder was listed.
        let path = record.shard_path(shard);
        match member.disk.open(&path, Access::Read).await {
            Ok(_) => Ok(None),
            Err(error) if error.kind() == DiskErrorKind::NotFound => Ok(Some(shard)),
            Err(_) if member.disk.state().readable() => Ok(Some(shard)),
            Err(error) => Err(Error::with_source(
                ErrorKind::Unavailable,
                format!("{} went away", member.disk.label()),
                error,
            )),
        }
    }
}
