//! Changing the settings and documents of a bucket.

use std::collections::BTreeMap;

use bytes::Bytes;
use dewar_catalog::record::{
    BucketSettings, ChangeKind, ChangeRecord, DirRecord, DocumentKind, DocumentRecord, Record,
};
use dewar_catalog::{Actor, keys};
use dewar_types::{Error, ErrorKind};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::documents::BucketDocument;
use super::retry::ConflictRetry;
use super::{Bucket, Tree};

/// Longest document in bytes; the longest that S3 allows (1,000 lifecycle rules) is about half.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// A change of a bucket's settings and documents in preparation.
#[derive(Debug)]
pub struct BucketChange<'a> {
    /// The settings; [`BucketSettings::documents`] and [`BucketSettings::revision`] are set
    /// automatically.
    pub settings: &'a mut BucketSettings,
    bucket: &'a Bucket,
    changes: BTreeMap<DocumentKind, Option<Bytes>>,
}

impl BucketChange<'_> {
    /// A document as it is before the change.
    #[must_use]
    pub fn document(&self, kind: DocumentKind) -> Option<&BucketDocument> {
        self.bucket.document(kind)
    }

    /// Sets a document, replacing an earlier one.
    pub fn put(&mut self, kind: DocumentKind, content: Bytes) {
        self.changes.insert(kind, Some(content));
    }

    /// Removes a document; an absent one is no error.
    pub fn remove(&mut self, kind: DocumentKind) {
        self.changes.insert(kind, None);
    }
}

impl Tree {
    /// Changes settings and documents of a bucket in one batch, which requires the very bucket to
    /// be there. `change` is called with the present ones, and again after a lost race. An error of
    /// `change` is returned. Nothing is written when `change` changes nothing.
    ///
    /// # Errors
    /// Those of `change`; `NoSuchBucket`; `TooLarge` for a document of more than
    /// [`DOCUMENT_BYTES_MAX`]; `Quota` if the documents become longer and do not fit; `Conflict`;
    /// errors of the engine.
    pub async fn configure_bucket(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        change: impl Fn(&mut BucketChange<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let path = bucket.path("");
        let mut turn = ConflictRetry::new(self, path.clone());
        loop {
            let chain = self.resolve(bucket, &[]).await?;
            let dir = chain.last();
            let now = chain.bucket_now();
            let mut record: DirRecord = dir.record.clone();
            let settings = record.bucket.as_mut().ok_or_else(|| bucket.gone())?;
            let before = settings.clone();
            let mut changing = BucketChange {
                settings,
                bucket: &now,
                changes: BTreeMap::new(),
            };
            change(&mut changing)?;
            let mut changes = changing.changes;
            changes.retain(|kind, content| content.is_some() || now.document(*kind).is_some());
            settings.documents = before.documents;
            settings.revision = before.revision;
            if changes.is_empty() && *settings == before {
                return Ok(());
            }
            settings.revision += 1;
            let mut stage = BatchBuilder::new(self);
            stage.watch(&chain);
            for (kind, content) in &changes {
                match content {
                    Some(_) => settings.documents |= kind.mask(),
                    None => settings.documents &= !kind.mask(),
                }
            }
            let kinds = changes.keys().copied().collect();
            stage.put_documents(&now, changes).await?;
            record.attributes.ctime = stage.now();
            let key = dir.key.clone();
            stage.forget(key.clone());
            stage.put(key, record.to_value());
            let log = ChangeRecord {
                documents: kinds,
                ..bucket.change(
                    ChangeKind::ConfigureBucket,
                    bucket.tenant.root(),
                    bucket.id,
                    &path,
                )
            };
            stage.log(actor, log).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(()),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }
}

impl BatchBuilder<'_> {
    /// Puts and deletes documents of a bucket as it was read, within its quotas. The bucket's entry is
    /// the caller's.
    pub(super) async fn put_documents(
        &mut self,
        bucket: &Bucket,
        changes: BTreeMap<DocumentKind, Option<Bytes>>,
    ) -> Result<(), Error> {
        let mut bytes = bucket.document_bytes();
        for (kind, content) in changes {
            bytes -= bucket.document(kind).map_or(0, |old| old.content.len());
            bytes += content.as_ref().map_or(0, Bytes::len);
            let key = keys::document(bucket.id, kind as u8);
            let Some(content) = content else {
                self.delete(key);
                continue;
            };
            if content.len() > DOCUMENT_BYTES_MAX {
                let message = format!(
                    "a {kind:?} document of {} bytes; at most {DOCUMENT_BYTES_MAX} are allowed",
                    content.len()
                );
                return Err(Error::new(ErrorKind::TooLarge, message));
            }
            let record = DocumentRecord {
                stamp: self.tree().ids().version().await?,
                modified: self.now(),
                content: content.to_vec().into(),
            };
            self.put(key, record.to_value());
        }
        self.keep_to_quotas();
        self.recharge_documents(bucket, Some(bytes));
        Ok(())
    }

    /// The documents of a bucket go with it.
    pub(super) fn drop_documents(&mut self, bucket: &Bucket) {
        self.recharge_documents(bucket, None);
        let held = bucket.settings().map_or(0, |bucket| bucket.documents);
        for kind in DocumentKind::ALL {
            if held & kind.mask() != 0 {
                self.delete(keys::document(bucket.id, kind as u8));
            }
        }
    }
}
