//! Collecting leftovers: shard files that no record names.
//!
//! They come from three sources: writes that a crash cut short, writers that were dropped while
//! their disk was absent, and removals that a disk missed. A file is removed only when both of
//! these hold:
//!
//! - Its blob was begun before this process opened the store, so it has no writer, or its writer
//!   has given it up.
//! - The catalog does not name that encoding of the blob. It is asked after the file was seen.

use std::collections::BTreeSet;

use dewar_types::{BlobId, DiskId, Result};

use super::BlobStore;
use super::leftovers::Leftovers;
use super::record::{BlobRecord, parse_shard_name};
use crate::pool::Member;

/// The result of a sweep of one disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Shard files looked at.
    pub seen: u64,
    /// Files that nothing names, removed.
    pub removed: u64,
    /// Files of blobs that are being written; it is not known yet which of them will be left over.
    pub busy: u64,
    /// Files with names that Dewar does not use; left alone.
    pub foreign: u64,
}

/// The catalog's knowledge of a blob.
#[derive(Clone, Debug)]
pub enum BlobStatus {
    /// Nothing names it.
    Unnamed,
    /// It is being written now, as a segment that a crash left unsealed is.
    Busy,
    /// Nothing names it, and it may be all that is left of something: it stays.
    Kept,
    /// This encoding of it is named.
    Named(BlobRecord),
}

impl BlobStore {
    /// The highest blob number of any shard file on the disks that can be read; 0 if there is none.
    ///
    /// # Errors
    /// Those of the disks.
    pub async fn highest_number(&self) -> Result<u64> {
        let mut highest = 0;
        let members = self.pool().members();
        for member in members.filter(|member| member.disk.state().readable()) {
            let dirs = member.disk.list("blobs").await?;
            for dir in dirs.into_iter().filter(|entry| entry.is_dir) {
                for file in member.disk.list(&format!("blobs/{}", dir.name)).await? {
                    if let Some((blob, ..)) = parse_shard_name(&file.name) {
                        highest = highest.max(blob.counter());
                    }
                }
            }
        }
        Ok(highest)
    }

    /// Whether writers of this process left files on a disk that they could not remove. The disk
    /// should then be swept again.
    #[must_use]
    pub fn has_leftovers(&self, disk: DiskId) -> bool {
        self.leftovers.any(disk)
    }

    /// Walks the shard files of one disk. `first_new` is the first blob id of this opening of the
    /// store. Files of this and later blobs are removed only if their writer gave them up. `claim`
    /// prevents that a blob is rebuilt while the returned guard exists; it is `None` during a
    /// rebuild. `look_up` asks the catalog about a blob.
    ///
    /// # Errors
    /// Those of the disk and of the catalog; files removed before the error stay removed.
    pub async fn sweep<F, G>(
        &self,
        member: &Member,
        first_new: BlobId,
        claim: impl Fn(BlobId) -> Option<G>,
        look_up: impl Fn(BlobId) -> F,
    ) -> Result<SweepReport>
    where
        F: Future<Output = Result<BlobStatus>>,
    {
        let given_up = PendingRemovals {
            leftovers: &self.leftovers,
            disk: member.id,
            paths: self.leftovers.take(member.id),
        };
        let swept = self.sweep_with(member, first_new, &given_up.paths, claim, look_up);
        let swept = swept.await?;
        // Of what is busy, some is looked at again.
        if swept.busy == 0 {
            given_up.forget();
        }
        Ok(swept)
    }

    async fn sweep_with<F, G>(
        &self,
        member: &Member,
        first_new: BlobId,
        given_up: &BTreeSet<String>,
        claim: impl Fn(BlobId) -> Option<G>,
        look_up: impl Fn(BlobId) -> F,
    ) -> Result<SweepReport>
    where
        F: Future<Output = Result<BlobStatus>>,
    {
        let mut swept = SweepReport::default();
        for dir in member
            .disk
            .list("blobs")
            .await?
            .into_iter()
            .filter(|entry| entry.is_dir)
        {
            let dir = format!("blobs/{}", dir.name);
            let mut removed = 0;
            for file in member.disk.list(&dir).await? {
                let Some((blob, generation, shard)) = parse_shard_name(&file.name) else {
                    swept.foreign += 1;
                    tracing::warn!(
                        disk = member.disk.label(),
                        dir,
                        file = file.name,
                        "not ours"
                    );
                    continue;
                };
                swept.seen += 1;
                let path = format!("{dir}/{}", file.name);
                if blob >= first_new
                    && !given_up.contains(&path)
                    && dewar_env::safeguard("the sweep spares new blobs")
                {
                    continue;
                }
                // Held until the file is gone: a rebuild may be about to make one of this name.
                let Some(_claimed) = claim(blob) else {
                    swept.busy += 1;
                    continue;
                };
                let named = match look_up(blob).await? {
                    BlobStatus::Unnamed => false,
                    BlobStatus::Kept => true,
                    BlobStatus::Busy => {
                        swept.busy += 1;
                        true
                    }
                    BlobStatus::Named(record) => {
                        record.generation == generation
                            && record.disks.get(shard) == Some(&member.id)
                            && !record.missing.contains(&(shard as u8))
                    }
                };
                if !named {
                    member.disk.remove(&path).await?;
                    removed += 1;
                }
            }
            if removed > 0 {
                member.disk.sync_dir(&dir).await?;
                swept.removed += removed;
            }
        }
        Ok(swept)
    }
}

/// What writers gave up, remembered again unless a sweep of the disk came to its end.
struct PendingRemovals<'a> {
    leftovers: &'a Leftovers,
    disk: DiskId,
    paths: BTreeSet<String>,
}

impl PendingRemovals<'_> {
    fn forget(mut self) {
        self.paths.clear();
    }
}

impl Drop for PendingRemovals<'_> {
    fn drop(&mut self) {
        for path in core::mem::take(&mut self.paths) {
            self.leftovers.add(self.disk, path);
        }
    }
}
