//! Documents of buckets: policy, ACL, CORS rules, lifecycle and the like.
//!
//! # Adding a document
//! Give its type an `impl` of [`Document`], usually with [`cbor_document`](crate::cbor_document).
//! The type may be in any crate that depends on the store, or in a private module of the store.
//! Then these calls exist:
//!
//! ```text
//! store.get_bucket_document::<Cors>(&caller, &bucket).await?;       // Option<Arc<Cors>>
//! store.put_bucket_document(&caller, &bucket, &cors).await?;        // replaces
//! store.delete_bucket_document::<Cors>(&caller, &bucket).await?;    // that there is none is no error
//! let rules = document_of::<Cors>(&found)?;                          // in a verb: reads and parses nothing
//! ```
//!
//! Documents are cached with their bucket, parsed once. So [`document_of`] on a [`Bucket`] that was
//! looked up costs one map lookup. A document is changed in one batch that requires the same bucket
//! to exist. The change is in the change log, and the document is deleted with the bucket. New
//! buckets get their first documents with [`dewar_namespace::NewBucket::documents`]. To decide a
//! change together with other documents or settings of the bucket, use
//! [`Tree::configure_bucket`](dewar_namespace::Tree::configure_bucket).

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use dewar_auth::{Action, Caller};
pub use dewar_catalog::record::DocumentKind;
use dewar_namespace::{Bucket, BucketChange};
use dewar_types::Result;

use crate::Store;
use crate::api::BucketRef;
use crate::authorize::actor;

/// A kind of document that a bucket may have.
pub trait Document: Any + Send + Sync + Sized {
    /// The kind; one type for each.
    const KIND: DocumentKind;
    /// The action that authorises reading it.
    const GET: Action;
    /// The action that authorises setting it.
    const PUT: Action;
    /// The action that authorises removing it.
    const DELETE: Action;

    /// The stored form, which begins with a format number.
    fn to_bytes(&self) -> Bytes;

    /// Reads every stored form that was ever written.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Unsupported`] for a newer format, [`dewar_types::ErrorKind::Corrupt`].
    fn from_bytes(bytes: &[u8]) -> Result<Self>;
}

/// Stores a type that has minicbor's `Encode` and `Decode` (with `#[cbor(map)]`, so that fields may
/// be added) as a document: `cbor_document!(Cors, format 1, Cors, get GetBucketCors, put PutBucketCors,
/// delete PutBucketCors);` with the kind and the actions by their names.
#[macro_export]
macro_rules! cbor_document {
    ($type:ty, format $format:literal, $kind:ident, get $get:ident, put $put:ident, delete $delete:ident) => {
        impl $crate::document::Document for $type {
            const KIND: $crate::document::DocumentKind = $crate::document::DocumentKind::$kind;
            const GET: ::dewar_auth::Action = ::dewar_auth::Action::$get;
            const PUT: ::dewar_auth::Action = ::dewar_auth::Action::$put;
            const DELETE: ::dewar_auth::Action = ::dewar_auth::Action::$delete;

            fn to_bytes(&self) -> ::bytes::Bytes {
                let mut bytes = vec![$format];
                // Writing into a vector cannot fail.
                let _ = ::minicbor::encode(self, &mut bytes);
                bytes.into()
            }

            fn from_bytes(bytes: &[u8]) -> ::dewar_types::Result<Self> {
                $crate::document::decode($format, stringify!($kind), bytes)
            }
        }
    };
}

/// Reads what [`cbor_document`](crate::cbor_document) wrote.
///
/// # Errors
/// As [`Document::from_bytes`].
pub fn decode<T: for<'b> minicbor::Decode<'b, ()>>(
    newest: u8,
    what: &str,
    bytes: &[u8],
) -> Result<T> {
    use dewar_types::{Error, ErrorKind};
    match bytes.split_first() {
        Some((format, body)) if (1..=newest).contains(format) => {
            minicbor::decode(body).map_err(|error| {
                let message = format!("a bucket's {what} document is damaged");
                Error::with_source(ErrorKind::Corrupt, message, error)
            })
        }
        Some((format, _)) => Err(Error::new(
            ErrorKind::Unsupported,
            format!("a bucket's {what} document has format {format}, written by a newer release"),
        )),
        None => Err(Error::new(
            ErrorKind::Corrupt,
            format!("a bucket's {what} document is empty"),
        )),
    }
}

/// A document of a bucket that was looked up. It does not read the catalog.
///
/// # Errors
/// As [`Document::from_bytes`].
pub fn document_of<D: Document>(bucket: &Bucket) -> Result<Option<Arc<D>>> {
    let found = bucket.document(D::KIND);
    found
        .map(|document| document.parsed(D::from_bytes))
        .transpose()
}

/// A document of a bucket before a change of its settings.
///
/// # Errors
/// As [`Document::from_bytes`].
pub(crate) fn document_in<D: Document>(change: &BucketChange<'_>) -> Result<Option<D>> {
    let found = change.document(D::KIND);
    found
        .map(|document| D::from_bytes(&document.content))
        .transpose()
}

impl Store {
    /// A document of a bucket; `None` if it was never set.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Denied`], [`dewar_types::ErrorKind::NoSuchBucket`].
    pub async fn get_bucket_document<D: Document>(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
    ) -> Result<Option<Arc<D>>> {
        let found = self
            .inner
            .authorize_bucket(caller, D::GET, bucket, None)
            .await?;
        document_of(&found)
    }

    /// Sets a document of a bucket and replaces an existing one. The caller must have validated it.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Denied`], [`dewar_types::ErrorKind::NoSuchBucket`],
    /// [`dewar_types::ErrorKind::TooLarge`].
    pub async fn put_bucket_document<D: Document>(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        document: &D,
    ) -> Result<()> {
        let found = self
            .inner
            .authorize_bucket(caller, D::PUT, bucket, None)
            .await?;
        self.put_document(caller, &found, document).await
    }

    /// The same in a bucket where the caller may.
    pub(crate) async fn put_document<D: Document>(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        document: &D,
    ) -> Result<()> {
        let principal = caller.to_string();
        let bytes = document.to_bytes();
        self.inner
            .tree
            .configure_bucket(&actor(caller, &principal), bucket, |change| {
                change.put(D::KIND, bytes.clone());
                Ok(())
            })
            .await
    }

    /// Removes a document of a bucket. A missing document is no error.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Denied`], [`dewar_types::ErrorKind::NoSuchBucket`].
    pub async fn delete_bucket_document<D: Document>(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
    ) -> Result<()> {
        let found = self
            .inner
            .authorize_bucket(caller, D::DELETE, bucket, None)
            .await?;
        let principal = caller.to_string();
        let removed = self
            .inner
            .tree
            .configure_bucket(&actor(caller, &principal), &found, |change| {
                change.remove(D::KIND);
                Ok(())
            })
            .await;
        if D::KIND == DocumentKind::Policy {
            self.inner.bucket_policy_changed(&found);
        }
        removed
    }
}
