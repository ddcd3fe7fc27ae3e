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
//!   [`ErrorKind::Conflict`](dewar_types::ErrorKind::Conflict).
//!
//! The layers above interpret the documents. [`BucketDocument::parsed`] keeps the parsed form for
//! as long as the document is in the cache.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use dewar_catalog::keys;
use dewar_catalog::record::{BucketSettings, DocumentKind, DocumentRecord, Record};
use dewar_kv::{KvRead, Scan};
use dewar_types::{EntryId, Error, Timestamp, VersionId};

use super::Bucket;

/// Memory of a document beside its content, about.
const DOCUMENT_MEMORY_BYTES: usize = 256;

/// How much larger than its bytes a document is when it is parsed: lifecycle rules, of which a thousand
/// short ones take some megabytes, are the worst.
const PARSED_TIMES: usize = 24;

/// The documents of a bucket, as they were when the bucket was looked up.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BucketDocuments(BTreeMap<DocumentKind, BucketDocument>);

impl BucketDocuments {
    /// The documents of a bucket whose entry was read from `kv`.
    pub(super) async fn load(kv: &dyn KvRead, bucket: EntryId) -> Result<Self, Error> {
        let range = keys::documents(bucket);
        let scan = Scan {
            from: &range.from,
            to: &range.to,
            limit: 1 + DocumentKind::ALL.len(),
            reverse: false,
        };
        let mut documents = BTreeMap::new();
        for (key, value) in kv.scan(scan).await?.pairs {
            let kind = DocumentKind::of_key(&key)?;
            let record = DocumentRecord::from_value(&key, &value)?;
            documents.insert(kind, BucketDocument::new(record));
        }
        Ok(Self(documents))
    }

    /// Bytes of all of them.
    fn bytes(&self) -> usize {
        self.0.values().map(|document| document.content.len()).sum()
    }

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

    /// Bytes of all documents.
    pub(super) fn document_bytes(&self) -> usize {
        self.documents.as_ref().map_or(0, |all| all.bytes())
    }

    /// The bucket's settings.
    #[must_use]
    pub fn settings(&self) -> Option<&BucketSettings> {
        self.record.bucket.as_ref()
    }
}
