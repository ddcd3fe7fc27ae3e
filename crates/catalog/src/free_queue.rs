//! The records of blobs, and the queue of blobs that no name refers to.

use bytes::Bytes;
use dewar_kv::{Batch, Scan};
use dewar_types::{BlobId, Error, Timestamp};

use crate::{Catalog, keys};

/// A blob that may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreferencedBlob {
    /// The blob.
    pub blob: BlobId,
    /// When its last name went.
    pub since: Timestamp,
}

impl Catalog {
    /// Blobs that lost their last name before `before`, oldest first, at most `limit`, starting
    /// after `after`.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn unnamed_blobs(
        &self,
        before: Timestamp,
        after: Option<&UnreferencedBlob>,
        limit: usize,
    ) -> Result<Vec<UnreferencedBlob>, Error> {
        let mut range = keys::free_before(before.0);
        if let Some(after) = after {
            range.from = keys::just_after(&keys::free(after.since.0, after.blob));
        }
        if range.from >= range.to {
            return Ok(Vec::new());
        }
        let page = self
            .kv()
            .scan(Scan {
                from: &range.from,
                to: &range.to,
                limit,
                reverse: false,
            })
            .await?;
        page.pairs
            .iter()
            .map(|(key, _)| {
                let (time, blob) = keys::parse_free(key)?;
                Ok(UnreferencedBlob {
                    blob,
                    since: Timestamp(time),
                })
            })
            .collect()
    }

    /// The bytes of these blobs are gone: their records and queue entries go too.
    ///
    /// # Errors
    /// Errors of the engine; then none of them went.
    pub async fn forget_blobs(&self, blobs: &[UnreferencedBlob]) -> Result<(), Error> {
        let mut deletes = Vec::with_capacity(2 * blobs.len());
        for unnamed in blobs {
            deletes.push(keys::free(unnamed.since.0, unnamed.blob));
            deletes.push(keys::blob(unnamed.blob));
        }
        self.commit_unconditionally(Batch {
            deletes,
            frees: true,
            ..Batch::default()
        })
        .await
    }

    /// The data layer's record of a blob.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn blob_record(&self, blob: BlobId) -> Result<Option<Bytes>, Error> {
        Ok(self.kv().get(&keys::blob(blob)).await?.value)
    }

    /// The data layer's record of a sealed segment.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn segment_record(&self, segment: BlobId) -> Result<Option<Bytes>, Error> {
        Ok(self.kv().get(&keys::segment(segment)).await?.value)
    }
}
