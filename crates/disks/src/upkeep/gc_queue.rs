//! Blobs that nothing names any more and that wait to be freed, or are being freed.
//!
//! Bytes are deleted before the record, and a crash may come in between. Missing shards of such a
//! blob are not damage, and existing ones need no redundancy.

use std::collections::BTreeSet;
use std::time::Duration;

use dewar_catalog::Catalog;
use dewar_catalog::UnreferencedBlob;
use dewar_types::{BlobId, Result, Timestamp};
use tokio::time::Instant;

use super::blob_index::Encoding;
use crate::disks::Disks;

/// Entries of the queue read in one scan.
const PAGE: usize = 512;

/// Most blobs in memory, the oldest: those are freed first. About 16 MiB.
const KNOWN_MAX: usize = 1 << 20;

/// How long a queue that is longer is not read again.
const FULL_REST: Duration = Duration::from_secs(60);

/// The queue as far as it was read.
#[derive(Debug, Default)]
pub(super) struct GcQueue {
    blobs: BTreeSet<BlobId>,
    last: Option<UnreferencedBlob>,
    /// The time when the memory limit was reached. The next search begins again, at the same cost.
    filled: Option<Instant>,
}

impl GcQueue {
    /// Reads on to the end of the queue.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn refresh(&mut self, catalog: &Catalog) -> Result<()> {
        if self.blobs.len() >= KNOWN_MAX {
            if self.filled.is_some_and(|at| at.elapsed() < FULL_REST) {
                return Ok(());
            }
            // What was freed since is at the front.
            *self = Self::default();
        }
        while self.blobs.len() < KNOWN_MAX {
            let end = Timestamp(u64::MAX);
            let page = catalog.unnamed_blobs(end, self.last.as_ref(), PAGE).await?;
            self.blobs.extend(page.iter().map(|unnamed| unnamed.blob));
            self.last = page.last().copied().or(self.last);
            if page.len() < PAGE {
                break;
            }
        }
        if self.blobs.len() >= KNOWN_MAX {
            self.filled = Some(Instant::now());
        }
        Ok(())
    }

    /// Whether a blob stood in the queue when that was read.
    pub(super) fn holds(&self, blob: BlobId) -> bool {
        self.blobs.contains(&blob)
    }

    /// Whether a blob is in the queue. The queue is read further for it.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn holds_now(&mut self, catalog: &Catalog, blob: BlobId) -> Result<bool> {
        if !self.holds(blob) {
            self.refresh(catalog).await?;
        }
        Ok(self.holds(blob))
    }
}

impl Disks {
    /// Whether missing bytes of an encoding are damage. The encoding may have been freed or
    /// rewritten while it was read, or half freed before a crash.
    pub(super) async fn is_meant(
        &self,
        encoding: &Encoding,
        freeing: &mut GcQueue,
    ) -> Result<bool> {
        let blob = encoding.record.id;
        Ok(!freeing.holds_now(&self.catalog, blob).await?
            && self.table.encoding(blob).await?.as_ref() == Some(encoding))
    }
}
