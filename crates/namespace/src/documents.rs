//! Documents and settings of buckets: policy, ACL, CORS rules, lifecycle and the like.
//!
//! A document is a record of its own ([`keys::document`]), because some documents are long and a
//! bucket's entry is read and compared often. The entry lists the kinds of documents of the bucket
//! and counts their changes. This has three effects:
//!
//! - A bucket without documents costs nothing beyond its entry.
//! - Documents are read once, together with the entry, and are then in the cache of directories
//!   ([`super::cache`]). [`Bucket::document`] reads nothing.
//! - Every change in a bucket requires the bucket's entry to be as it was read. A change that was
//!   decided by a document that has been replaced meanwhile is therefore not made. If the tree made
//!   the decision, it tries again with the new document. Otherwise the change fails with
//!   [`ErrorKind::Conflict`].
//!
//! The layers above interpret the documents. [`BucketDocument::parsed`] keeps the parsed form for
//! as long as the document is in the cache.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use dewar_catalog::record::{
    BucketSettings, ChangeKind, ChangeRecord, DirRecord, DocumentKind, DocumentRecord, Record,
};
use dewar_catalog::{Actor, keys};
use dewar_kv::{KvRead, Scan};
use dewar_types::{EntryId, Error, ErrorKind, Timestamp, VersionId};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::dirs::dir_change;
use super::retry::ConflictRetry;
use super::{Bucket, Tree};

/// Longest document in bytes; the longest that S3 allows (1,000 lifecycle rules) is about half.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// Memory of a document beside its content, about.
const DOCUMENT_MEMORY_BYTES: usize = 256;

/// How much larger than its bytes a document is when it is parsed: lifecycle rules, of which a thousand
/// short ones take some megabytes, are the worst.
const PARSED_TIMES: usize = 24;

/// The documents of a bucket, as they were when the bucket was looked up.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BucketDocuments(BTreeMap<DocumentKind, BucketDocument>);

impl BucketDocuments {
    /// Bytes of memory that they take, about.
    pub(super) fn memory_bytes(&self) -> usize {
        let documents = self.0.values().map(|document| document.content.len());
        let parsed = documents.map(|len| DOCUMENT_MEMORY_BYTES + len * (1 + PARSED_TIMES));
        parsed.sum()
    }
}

/// One document.
pub struct BucketDocument {
    /// Minted when the document was set, so no two documents have the same.
    pub stamp: VersionId,
    /// When it was set.
    pub modified: Timestamp,
    /// Its bytes.
    pub content: Bytes,
    parsed: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl BucketDocument {
    fn new(record: DocumentRecord) -> Self {
        Self {
            stamp: record.stamp,
            modified: record.modified,
            content: Vec::from(record.content).into(),
            parsed: OnceLock::new(),
        }
    }

    /// The document as parsed by `parse`, which is called once for as long as the document is
    /// cached. Use one type for one kind of document.
    ///
    /// # Errors
    /// Those of `parse`, which is called again the next time.
    pub fn parsed<T: Any + Send + Sync, E>(
        &self,
        parse: impl FnOnce(&[u8]) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        if let Some(parsed) = self.parsed.get()
            && let Ok(parsed) = Arc::clone(parsed).downcast()
        {
            return Ok(parsed);
        }
        let parsed = Arc::new(parse(&self.content)?);
        // Somebody else may have been faster, with the same.
        let _ = self.parsed.set(Arc::clone(&parsed) as _);
        Ok(parsed)
    }
}

impl fmt::Debug for BucketDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketDocument")
            .field("stamp", &self.stamp)
            .field("bytes", &self.content.len())
            .finish_non_exhaustive()
    }
}

impl PartialEq for BucketDocument {
    fn eq(&self, other: &Self) -> bool {
        (self.stamp, self.modified, &self.content) == (other.stamp, other.modified, &other.content)
    }
}

impl Eq for BucketDocument {}

impl Bucket {
    /// A document of the bucket, if it has one of that kind. Reads nothing, since it was read with
    /// the bucket.
    #[must_use]
    pub fn document(&self, kind: DocumentKind) -> Option<&BucketDocument> {
        self.documents.as_ref()?.0.get(&kind)
    }

    /// The bucket's settings.
    #[must_use]
    pub fn settings(&self) -> Option<&BucketSettings> {
        self.record.bucket.as_ref()
    }
}

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
    /// [`DOCUMENT_BYTES_MAX`]; `Conflict`; errors of the engine.
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
            stage.put_documents(bucket.id, changes).await?;
            record.attributes.ctime = stage.now();
            let key = dir.key.clone();
            stage.forget(key.clone());
            stage.put(key, record.to_value());
            let log = ChangeRecord {
                documents: kinds,
                ..dir_change(
                    ChangeKind::ConfigureBucket,
                    bucket,
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

    /// The documents of a bucket whose entry was read from `kv`.
    pub(super) async fn load_documents(
        kv: &dyn KvRead,
        bucket: EntryId,
    ) -> Result<BucketDocuments, Error> {
        let range = keys::documents(bucket);
        let scan = Scan {
            from: &range.from,
            to: &range.to,
            limit: 1 + DocumentKind::ALL.len(),
            reverse: false,
        };
        let mut documents = BTreeMap::new();
        for (key, value) in kv.scan(scan).await?.pairs {
            let kind = kind_of(&key)?;
            let record = DocumentRecord::from_value(&key, &value)?;
            documents.insert(kind, BucketDocument::new(record));
        }
        Ok(BucketDocuments(documents))
    }
}

/// The kind of document that a key names.
pub(super) fn kind_of(key: &Bytes) -> Result<DocumentKind, Error> {
    let (_, number) = keys::parse_document(key)?;
    let known = DocumentKind::ALL
        .into_iter()
        .find(|kind| *kind as u8 == number);
    known.ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            format!(
                "catalog key {} names a document of kind {number}, written by a newer release",
                key.escape_ascii()
            ),
        )
    })
}

impl BatchBuilder<'_> {
    /// Puts and deletes documents; the bucket's entry is the caller's.
    pub(super) async fn put_documents(
        &mut self,
        bucket: EntryId,
        changes: BTreeMap<DocumentKind, Option<Bytes>>,
    ) -> Result<(), Error> {
        for (kind, content) in changes {
            let key = keys::document(bucket, kind as u8);
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
                stamp: self.tree().ids.version().await?,
                modified: self.now(),
                content: content.to_vec().into(),
            };
            self.put(key, record.to_value());
        }
        Ok(())
    }

    /// The bucket's documents go with it.
    pub(super) fn drop_documents(&mut self, bucket: EntryId, record: &DirRecord) {
        let held = record.bucket.as_ref().map_or(0, |bucket| bucket.documents);
        for kind in DocumentKind::ALL {
            if held & kind.mask() != 0 {
                self.delete(keys::document(bucket, kind as u8));
            }
        }
    }
}
