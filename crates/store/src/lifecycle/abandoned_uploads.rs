//! Abandoned uploads, in every bucket: they end a set time after their last part.

use std::collections::BTreeMap;
use std::time::Duration;

use dewar_namespace::{Bucket, BucketQuery, OpenUploadEntry};
use dewar_types::{BucketName, EntryId, ErrorKind, ObjectKey, Result, Timestamp};

use super::scan::{BUCKETS, PAGE, PassPacer, SYSTEM};
use crate::{Inner, Store, UploadUsage};

/// Most uploads that are read to find the oldest of each owner.
const LOOKED_MAX: usize = 10_000;

impl Store {
    /// The uploads in progress of every owner that has some, by their bytes, most first. Numbers
    /// and bytes are exact. The oldest is searched among the first 10,000 uploads.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn upload_usage(&self) -> Result<Vec<UploadUsage>> {
        self.inner.tree.upload_usage(LOOKED_MAX).await
    }
}

/// Whether an upload ends whose last part came at `last`.
fn is_due(last: Timestamp, now: Timestamp, patience: Duration) -> bool {
    let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
    last.0.saturating_add(patience) <= now.0
}

impl Inner {
    /// Ends all uploads that are due. It reads each upload, but parts only of uploads that are old
    /// enough.
    pub(super) async fn end_abandoned_uploads(&self, pace: &mut PassPacer) -> Result<()> {
        let patience = self.lifecycle.uploads_expire_after;
        let mut after: Option<OpenUploadEntry> = None;
        loop {
            let page = self.tree.uploads_after(after.as_ref(), PAGE).await?;
            let now = self.env.clock.now();
            let mut due: Vec<&OpenUploadEntry> = page
                .iter()
                .filter(|entry| is_due(entry.upload.initiated, now, patience))
                .collect();
            if !due.is_empty() {
                let buckets = self.buckets_of(&due).await?;
                due.retain(|entry| buckets.contains_key(&entry.bucket));
                for entry in due {
                    self.end_abandoned(&buckets[&entry.bucket], entry, now, patience)
                        .await?;
                }
            }
            pace.rest().await;
            match page.into_iter().next_back() {
                Some(last) => after = Some(last),
                None => return Ok(()),
            }
        }
    }

    async fn end_abandoned(
        &self,
        bucket: &Bucket,
        entry: &OpenUploadEntry,
        now: Timestamp,
        patience: Duration,
    ) -> Result<()> {
        let key = ObjectKey::new(&entry.key)?;
        let due = |last| is_due(last, now, patience);
        let ended = self
            .tree
            .abort_upload_if(&SYSTEM, bucket, &key, entry.upload.id, due)
            .await;
        match ended {
            Ok(true) => {
                let path = bucket.path(key.as_str());
                tracing::info!(path, upload = %entry.upload.id, "ended an abandoned upload");
                Ok(())
            }
            Ok(false) => Ok(()),
            // Somebody was faster.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::NoSuchUpload | ErrorKind::NoSuchBucket | ErrorKind::Conflict
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The buckets of these uploads.
    async fn buckets_of(&self, uploads: &[&OpenUploadEntry]) -> Result<BTreeMap<EntryId, Bucket>> {
        let wanted = |id: EntryId| uploads.iter().any(|entry| entry.bucket == id);
        let mut found = BTreeMap::new();
        for tenant in self.tree.catalog().tenants().await? {
            let mut after: Option<BucketName> = None;
            loop {
                let query = BucketQuery {
                    owner: None,
                    prefix: "",
                    after: after.as_ref().map(BucketName::as_str),
                    max: BUCKETS,
                };
                let page = self.tree.buckets(&tenant, query).await?;
                for listed in &page.buckets {
                    if wanted(listed.record.attributes.id)
                        && let Some(bucket) = self.tree.bucket(&tenant, &listed.name).await?
                    {
                        found.insert(bucket.id, bucket);
                    }
                }
                match page.buckets.last() {
                    Some(last) if page.truncated => after = Some(last.name.clone()),
                    _ => break,
                }
            }
        }
        Ok(found)
    }
}
