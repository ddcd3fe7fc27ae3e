//! Putting an object.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use dewar_auth::{Action, Caller, Details};
use dewar_catalog::record::{ETag, SystemHeaders};
use dewar_checksum::{Algorithm, DigestSet};
use dewar_namespace::{Bucket, Condition, NewVersion};
use dewar_types::{Error, ErrorKind, ObjectKey, Result};
use tracing::Instrument as _;

use crate::access::ObjectOwner;
use crate::api::{ExpectedContent, ObjectInfo, PutRequest, VersionAttributes};
use crate::authorize::pairs;
use crate::content_writer::ContentWriter;
use crate::encryption::{self, NewDataKey};
use crate::info::{full_checksum, headers, version_info, with_expiry};
use crate::limits::OBJECT_BYTES_MAX;
use crate::{SharedStore, Store};
use dewar_disks::salvage_header::SalvageOrigin;

/// An incoming object. It is invisible before [`Upload::commit`]. If it is dropped before, nothing
/// remains.
pub struct Upload {
    shared: SharedStore,
    caller: Caller,
    bucket: Bucket,
    key: ObjectKey,
    owner: ObjectOwner,
    headers: SystemHeaders,
    metadata: BTreeMap<String, String>,
    marks: VersionAttributes,
    checksum: Option<Algorithm>,
    condition: Condition,
    encryption: Option<NewDataKey>,
    incoming: ContentWriter,
}

impl Store {
    /// Begins to write an object. A condition that fails now is reported before bytes are accepted.
    /// It is checked again when the object gets its name.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::Precondition`],
    /// [`ErrorKind::TooLarge`], [`ErrorKind::Quota`], [`ErrorKind::NoSpace`],
    /// [`ErrorKind::Unavailable`].
    pub async fn put(&self, caller: &Caller, request: PutRequest) -> Result<Upload> {
        let tags = request.marks.tags.as_ref().map(pairs);
        let details = Details {
            creates: Some(true),
            tags: tags.as_deref(),
            ..self.inner.details()
        };
        let key = Some(request.object.key.as_str());
        let bucket = self
            .inner
            .authorize_bucket_with(
                caller,
                Action::PutObject,
                &request.object.bucket,
                key,
                &details,
            )
            .await?;
        let (key, marks) = (&request.object.key, &request.marks);
        self.inner
            .check_version_attributes(caller, &bucket, key, marks, &details)?;
        self.put_authorized(caller, bucket, request).await
    }

    /// The same in a bucket where the caller may write it, with these marks.
    pub(crate) async fn put_authorized(
        &self,
        caller: &Caller,
        bucket: Bucket,
        request: PutRequest,
    ) -> Result<Upload> {
        let shared = &self.inner;
        let object_key = request.object.key;
        if let Some(size) = request.size.filter(|size| *size > OBJECT_BYTES_MAX) {
            let path = bucket.path(object_key.as_str());
            let message = format!("{path}: {size} bytes, {OBJECT_BYTES_MAX} are allowed");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let condition = shared
            .write_condition(caller, &bucket, &object_key, &request.condition)
            .await?;
        let path = bucket.path(object_key.as_str());
        if !condition.is_none() {
            let current = shared.tree.lookup(&bucket, &object_key).await?;
            condition.check_write(&path, current.as_ref().map(|found| &found.file.current))?;
        }
        let owner = shared
            .object_owner(caller, &bucket, object_key.as_str(), request.acl.as_ref())
            .await?;
        if let Some(size) = request.size {
            shared
                .tree
                .check_room(&bucket, &object_key, owner.owner, size)
                .await?;
        }
        let want = match request.checksum {
            Some(algorithm) => request.want.with(algorithm),
            None => request.want,
        };
        let headers = headers(&request.attributes)?;
        let origin = SalvageOrigin {
            owner: owner.owner.0,
            path,
            part: None,
            headers: headers.clone(),
            metadata: request.attributes.user.clone(),
            pool: shared.pool_of_class(request.marks.storage_class.as_deref()),
        };
        let encryption = match &encryption::chosen(request.encryption, &bucket)? {
            Some(how) => Some(encryption::begin(how, &shared.master, &*shared.env.rng)?),
            None => None,
        };
        let key = encryption.as_ref().map(|fresh| &fresh.key);
        let incoming = ContentWriter::new(shared, want, request.size, origin, key).await?;
        Ok(Upload {
            shared: SharedStore::clone(shared),
            caller: caller.clone(),
            bucket,
            key: object_key,
            owner,
            headers,
            metadata: request.attributes.user,
            marks: request.marks,
            checksum: request.checksum,
            condition,
            encryption,
            incoming,
        })
    }
}

impl Upload {
    /// Takes the next bytes. Waits while the disks are slower than the client.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], [`ErrorKind::NoSpace`], [`ErrorKind::Unavailable`].
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.incoming.write(bytes).await
    }

    /// Completes the object: makes it durable and gives it its name, if it matches `expect`.
    ///
    /// # Errors
    /// [`ErrorKind::IncompleteBody`], [`ErrorKind::ChecksumMismatch`], [`ErrorKind::Precondition`],
    /// [`ErrorKind::Conflict`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::Quota`],
    /// [`ErrorKind::NoSpace`], [`ErrorKind::Unavailable`]. The name is unchanged then.
    pub async fn commit(self, expect: ExpectedContent) -> Result<ObjectInfo> {
        let id = self.incoming.version();
        let checksum = full_checksum(self.checksum);
        let (fresh, rng) = (self.encryption, Arc::clone(&self.shared.env.rng));
        let master = Arc::clone(&self.shared.master);
        let mut sealed = None;
        let received = self
            .incoming
            .finish(&expect, |clear| {
                if let Some(fresh) = fresh {
                    sealed = Some(fresh.finish(&master, &*rng, *clear, checksum.clone())?);
                }
                Ok(sealed.clone().unzip())
            })
            .await?;
        let clear = received.digests;
        let mut new = NewVersion {
            id: Some(id),
            headers: self.headers,
            metadata: self.metadata,
            tags: self.marks.tags.unwrap_or_default(),
            retention: self.marks.retention,
            legal_hold: self.marks.legal_hold,
            storage_class: self.marks.storage_class,
            copies: received.copies,
            acl: self.owner.acl_bytes(),
            ..NewVersion::new(received.size, ETag::Version, DigestSet::ABSENT, Vec::new())
        };
        match sealed {
            None => {
                new.etag = clear.md5().map_or(ETag::Version, ETag::Md5);
                new.digests = clear;
                new.checksum.clone_from(&checksum);
            }
            Some((record, etag)) => {
                new.etag = etag;
                new.checksum = checksum.as_ref().map(encryption::named);
                new.encryption = Some(record);
            }
        }
        let (shared, caller, owner, bucket, key, condition, held) = (
            self.shared,
            self.caller,
            self.owner,
            self.bucket,
            self.key,
            self.condition,
            received.held,
        );
        run_to_completion(async move {
            let principal = caller.to_string();
            let (actor, extra) = (owner.actor(&principal), held.extra());
            let tree = &shared.tree;
            // Boxed, or the task would be five times as large, and copied as a whole when it begins.
            let published = tree.publish(&actor, &bucket, &key, new, &condition, &extra);
            let outcome = Box::pin(published).await;
            held.settle(&shared, &outcome).await;
            let mut version = outcome?.version;
            // The writer knows what it wrote, sealed or not.
            version.digests = clear;
            version.checksum = checksum;
            let info = version_info(&bucket, owner.owner, &version);
            with_expiry(info, &bucket, key.as_str(), &version)
        })
        .await
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({})", self.bucket.path(self.key.as_str()))
    }
}

/// Runs a commit in a separate task, so that a client that disconnects cannot interrupt it between
/// the journal and the steps that must follow.
///
/// The future is boxed immediately: it is large, and each of the futures around it would copy it.
pub(crate) fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> impl Future<Output = Result<T>> + Send {
    let task = tokio::spawn(Box::pin(work).in_current_span());
    async {
        task.await.unwrap_or_else(|error| {
            Err(Error::with_source(
                ErrorKind::Internal,
                "a commit ended early",
                error,
            ))
        })
    }
}
