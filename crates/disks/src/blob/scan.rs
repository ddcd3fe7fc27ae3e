//! Survey of the blobs on the disks without a catalog: shard files by their names, and their
//! headers. It serves salvage and changes nothing.
//!
//! The name of a file says blob, generation and shard. Only the header proves them, and says which
//! object the bytes belong to. A file counts only when its header is sealed, verifies, agrees with
//! the name, and was written for the disk that the file is on. Files that were copied elsewhere by
//! hand, are torn, or come from a write that did not end are therefore ignored.
//!
//! Memory: the names of one folder at a time, at most 4,096 blobs by their ids.

use std::collections::{BTreeMap, BTreeSet};

use dewar_env::{Access, DiskErrorKind};
use dewar_types::{BlobId, DiskId, Error, ErrorKind, Layout, Result, Timestamp};

use super::BlobStore;
use super::record::{BlobRecord, parse_shard_name, shard_dir, shard_path};
use crate::format::{HEADER_BYTES, ShardHeader, ShardKind};

/// The folder of all blobs on every disk.
const FOLDER: &str = "blobs";

/// A shard file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScannedShard {
    /// Generation of the encoding.
    pub generation: u32,
    /// Number of the shard.
    pub shard: u8,
    /// The disk it lies on.
    pub disk: DiskId,
}

/// The blobs of one folder, on all disks together.
#[derive(Debug, Default)]
pub struct ShardFolder {
    /// Shard files by blob.
    pub blobs: BTreeMap<BlobId, Vec<ScannedShard>>,
    /// Files that are not ours.
    pub foreign: u64,
    /// Disks that could not be listed, and why.
    pub unread: Vec<String>,
}

/// A blob put together from its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReassembledBlob {
    /// The record that a catalog would have, except for the unknown time of the last verification.
    pub record: BlobRecord,
    /// Kind of the blob.
    pub kind: ShardKind,
    /// When it was begun.
    pub created: Timestamp,
    /// The writer's description of the object.
    pub owner: Vec<u8>,
}

/// The folder, of [`BlobStore::shelves`], that a blob's shards are in.
#[must_use]
pub fn shelf_of(blob: BlobId) -> String {
    let dir = shard_dir(blob);
    dir.rsplit('/').next().unwrap_or(&dir).to_owned()
}

/// What all headers of one encoding have in common.
type Common = (ShardKind, Layout, u64, Timestamp, Vec<u8>);

impl BlobStore {
    /// The folders of blobs on any disk, oldest ids first, and the disks that could not be listed.
    pub async fn shelves(&self) -> (BTreeSet<String>, Vec<String>) {
        let mut shelves = BTreeSet::new();
        let mut unread = Vec::new();
        for member in self.pool.members() {
            match member.disk.list(FOLDER).await {
                Ok(entries) => shelves.extend(
                    entries
                        .into_iter()
                        .filter(|entry| entry.is_dir)
                        .map(|entry| entry.name),
                ),
                Err(error) => unread.push(error.to_string()),
            }
        }
        (shelves, unread)
    }

    /// The content of one of [`BlobStore::shelves`].
    pub async fn shelf(&self, name: &str) -> ShardFolder {
        let dir = format!("{FOLDER}/{name}");
        let mut shelf = ShardFolder::default();
        for member in self.pool.members() {
            let files = match member.disk.list(&dir).await {
                Ok(files) => files,
                Err(error) => {
                    shelf.unread.push(error.to_string());
                    continue;
                }
            };
            for file in files {
                match parse_shard_name(&file.name) {
                    Some((blob, generation, shard)) if shard <= usize::from(u8::MAX) => {
                        shelf.blobs.entry(blob).or_default().push(ScannedShard {
                            generation,
                            shard: shard as u8,
                            disk: member.id,
                        });
                    }
                    _ => shelf.foreign += 1,
                }
            }
        }
        shelf
    }

    /// Assembles the newest encoding of a blob that has enough shards.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when there is none; the message lists the missing shards.
    pub async fn assemble(&self, blob: BlobId, found: &[ScannedShard]) -> Result<ReassembledBlob> {
        let mut generations: BTreeMap<u32, Vec<ScannedShard>> = BTreeMap::new();
        for shard in found {
            generations
                .entry(shard.generation)
                .or_default()
                .push(*shard);
        }
        let mut why = format!("blob {blob} has no shards");
        for (generation, shards) in generations.into_iter().rev() {
            match self.assemble_encoding(blob, generation, &shards).await {
                Ok(assembled) => return Ok(assembled),
                Err(lack) => why = lack,
            }
        }
        Err(Error::new(ErrorKind::Corrupt, why))
    }

    async fn assemble_encoding(
        &self,
        blob: BlobId,
        generation: u32,
        shards: &[ScannedShard],
    ) -> Result<ReassembledBlob, String> {
        let mut by_common: Vec<(Common, BTreeMap<u8, DiskId>)> = Vec::new();
        let mut flaw = None;
        for found in shards {
            match self.own_header(blob, found).await {
                Ok(header) => {
                    let common = (
                        header.kind,
                        header.layout,
                        header.blob_len.unwrap_or(0),
                        header.created,
                        header.owner,
                    );
                    match by_common.iter_mut().find(|(known, _)| *known == common) {
                        Some((_, disks)) => {
                            disks.entry(found.shard).or_insert(found.disk);
                        }
                        None => {
                            by_common.push((common, BTreeMap::from([(found.shard, found.disk)])));
                        }
                    }
                }
                Err(why) => flaw = Some(why),
            }
        }
        let most = by_common.into_iter().max_by_key(|(_, disks)| disks.len());
        let Some(((kind, layout, len, created, owner), disks)) = most else {
            let flaw = flaw.unwrap_or_default();
            return Err(format!("blob {blob} has no shard that counts: {flaw}"));
        };
        if disks.len() < usize::from(layout.k) {
            return Err(format!(
                "blob {blob} has {} of the {} shards that it needs{}",
                disks.len(),
                layout.k,
                flaw.map(|flaw| format!(" ({flaw})")).unwrap_or_default()
            ));
        }
        // A shard that is not there gets a place that none of the others has, where there is one:
        // repair decides.
        let taken: BTreeSet<DiskId> = disks.values().copied().collect();
        // All of its disks are of one pool, and at least one is there.
        let any = disks.values().find_map(|id| self.pool.member(*id));
        let number = any.map_or(self.pool.number(), |member| member.pool);
        let mut spare = self
            .pool
            .members()
            .filter(|member| member.pool == number)
            .map(|member| member.id)
            .filter(|id| !taken.contains(id));
        let mut record = BlobRecord {
            id: blob,
            pool: number,
            generation,
            layout,
            len,
            disks: Vec::with_capacity(layout.shards()),
            missing: Vec::new(),
            written: None,
        };
        for shard in 0..layout.shards() {
            let disk = disks.get(&(shard as u8)).copied().unwrap_or_else(|| {
                record.missing.push(shard as u8);
                spare.next().unwrap_or(DiskId(0))
            });
            record.disks.push(disk);
        }
        Ok(ReassembledBlob {
            record,
            kind,
            created,
            owner,
        })
    }

    /// The description of a blob in its first readable shard, for a blob with too few shards to
    /// assemble.
    pub async fn described(
        &self,
        blob: BlobId,
        found: &[ScannedShard],
    ) -> Option<(ShardKind, Vec<u8>)> {
        for shard in found {
            if let Ok(header) = self.own_header(blob, shard).await {
                return Some((header.kind, header.owner.to_vec()));
            }
        }
        None
    }

    /// The header of a shard file, if it is what its name and place say.
    async fn own_header(&self, blob: BlobId, found: &ScannedShard) -> Result<ShardHeader, String> {
        let at = || format!("shard {} on disk {}", found.shard, found.disk);
        let member = self
            .pool
            .member(found.disk)
            .ok_or_else(|| format!("{}: the disk is gone", at()))?;
        let path = shard_path(blob, found.generation, usize::from(found.shard));
        let read = async {
            let file = member.disk.open(&path, Access::Read).await?;
            file.read_at(0, HEADER_BYTES).await
        };
        let bytes = read.await.map_err(|error| error.to_string())?;
        let header = ShardHeader::decode(&bytes).map_err(|error| format!("{}: {error}", at()))?;
        if (header.blob, header.generation, header.shard) != (blob, found.generation, found.shard) {
            return Err(format!("{} is a file of blob {}", at(), header.blob));
        }
        if header.cluster != self.pool.dewar().0 {
            return Err(format!("{} is of another Dewar", at()));
        }
        if header.disk != found.disk {
            return Err(format!("{} was written for disk {}", at(), header.disk));
        }
        if !header.sealed {
            return Err(format!("{} was never finished", at()));
        }
        Ok(header)
    }

    /// Number of shards of a record's encoding whose file exists at the recorded place.
    pub async fn files_of(&self, record: &BlobRecord) -> usize {
        let mut there = 0;
        for (shard, disk) in record.disks.iter().enumerate() {
            let Some(member) = self.pool.member(*disk) else {
                continue;
            };
            match member
                .disk
                .open(&record.shard_path(shard), Access::Read)
                .await
            {
                Ok(_) => there += 1,
                Err(error) if error.kind() == DiskErrorKind::NotFound => {}
                Err(error) => tracing::debug!(%error, "a shard cannot be opened"),
            }
        }
        there
    }
}
