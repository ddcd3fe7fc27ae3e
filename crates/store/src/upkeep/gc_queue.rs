//! Blobs that nothing names any more and that wait to be freed, or are being freed.
//!
//! Bytes go before the record does, and a crash may come in between. What is not there of such a
//! blob is not damage, and what is there of it needs no redundancy.

use std::collections::BTreeSet;
use std::time::Duration;

use dewar_meta::ns::{Tree, UnreferencedBlob};
use dewar_types::{BlobId, Result, Timestamp};
use tokio::time::Instant;

use super::blob_index::Encoding;
use crate::Inner;

/// Entries of the queue read in one scan.
const PAGE: usize = 512;

/// Blobs known at a time, the oldest: those are freed first. Some 16 MiB.
const KNOWN_MAX: usize = 1 << 20;

/// How long a queue that is longer is not read again.
const FULL_REST: Duration = Duration::from_secs(60);

/// The queue as far as it was read.
#[derive(Debug, Default)]
pub(super) struct GcQueue {
    blobs: BTreeSet<BlobId>,
    last: Option<UnreferencedBlob>,
    /// When as many were known as can be: the next look begins anew, and costs as much.
    filled: Option<Instant>,
}

impl GcQueue {
    /// Reads on to the end of the queue.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn refresh(&mut self, tree: &Tree) -> Result<()> {
        if self.blobs.len() >= KNOWN_MAX {
            if self.filled.is_some_and(|at| at.elapsed() < FULL_REST) {
                return Ok(());
            }
            // What was freed since is at the front.
            *self = Self::default();
        }
        while self.blobs.len() < KNOWN_MAX {
            let end = Timestamp(u64::MAX);
            let page = tree.unnamed_blobs(end, self.last.as_ref(), PAGE).await?;
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

    /// Whether a blob stands in the queue, which is read on for it.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(super) async fn holds_now(&mut self, tree: &Tree, blob: BlobId) -> Result<bool> {
        if !self.holds(blob) {
            self.refresh(tree).await?;
        }
        Ok(self.holds(blob))
    }
}

impl Inner {
    /// Whether bytes that an encoding lacks are missed: it may have been freed, or laid out anew, while
    /// it was looked at, or be half freed since before a crash.
    pub(super) async fn is_meant(
        &self,
        encoding: &Encoding,
        freeing: &mut GcQueue,
    ) -> Result<bool> {
        let blob = encoding.record.id;
        Ok(!freeing.holds_now(&self.tree, blob).await?
            && self.table.encoding(blob).await?.as_ref() == Some(encoding))
    }
}
