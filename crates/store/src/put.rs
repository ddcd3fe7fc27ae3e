//! Putting an object.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use dewar_auth::{Action, Caller};
use dewar_checksum::Algorithm;
use dewar_meta::ns::record::{ETag, SystemHeaders};
use dewar_meta::ns::{Bucket, Condition, NewVersion};
use dewar_types::{Error, ErrorKind, ObjectKey, Result};
use tracing::Instrument as _;

use crate::admit::actor;
use crate::api::{Expect, ObjectInfo, PutRequest};
use crate::content::Incoming;
use crate::info::{full_checksum, headers, version_info, write_condition};
use crate::limits::OBJECT_BYTES_MAX;
use crate::{Shared, Store};

/// An object on its way in. Nothing of it can be seen before [`Upload::commit`]; dropped, it was
/// never there.
pub struct Upload {
    shared: Shared,
    caller: Caller,
    bucket: Bucket,
    key: ObjectKey,
    headers: SystemHeaders,
    metadata: BTreeMap<String, String>,
    checksum: Option<Algorithm>,
    condition: Condition,
    incoming: Incoming,
}

impl Store {
    /// Begins to put an object. A condition that fails now fails before bytes are taken; it is
    /// judged again when the object gets its name.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::Precondition`],
    /// [`ErrorKind::TooLarge`], [`ErrorKind::NoSpace`], [`ErrorKind::Unavailable`].
    pub async fn put(&self, caller: &Caller, request: PutRequest) -> Result<Upload> {
        let shared = &self.inner;
        let key = request.object.key;
        let bucket = shared
            .admit(
                caller,
                Action::PutObject,
                &request.object.bucket,
                Some(key.as_str()),
            )
            .await?;
        if let Some(size) = request.size.filter(|size| *size > OBJECT_BYTES_MAX) {
            let path = bucket.path(key.as_str());
            let message = format!("{path}: {size} bytes, {OBJECT_BYTES_MAX} are allowed");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let condition = write_condition(&request.condition);
        let path = bucket.path(key.as_str());
        if !condition.is_none() {
            let current = shared.tree.lookup(&bucket, &key).await?;
            condition.check_write(&path, current.as_ref().map(|found| &found.file.current))?;
        }
        let want = match request.checksum {
            Some(algorithm) => request.want.with(algorithm),
            None => request.want,
        };
        let owner = caller.user_id().0;
        let incoming = Incoming::new(shared, want, request.size, path, owner).await?;
        Ok(Upload {
            shared: Shared::clone(shared),
            caller: caller.clone(),
            bucket,
            key,
            headers: headers(&request.attributes)?,
            metadata: request.attributes.user,
            checksum: request.checksum,
            condition,
            incoming,
        })
    }
}

impl Upload {
    /// Takes the next bytes; waits while the disks are behind.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], [`ErrorKind::NoSpace`], [`ErrorKind::Unavailable`].
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.incoming.write(bytes).await
    }

    /// The body is complete: makes it durable and gives it its name, if it is what `expect` says.
    ///
    /// # Errors
    /// [`ErrorKind::IncompleteBody`], [`ErrorKind::ChecksumMismatch`], [`ErrorKind::Precondition`],
    /// [`ErrorKind::Conflict`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NoSpace`],
    /// [`ErrorKind::Unavailable`]; the name is as it was.
    pub async fn commit(self, expect: Expect) -> Result<ObjectInfo> {
        let id = self.incoming.version();
        let received = self.incoming.finish(&expect).await?;
        let etag = received.digests.md5().map_or(ETag::Version, ETag::Md5);
        let new = NewVersion {
            id: Some(id),
            headers: self.headers,
            metadata: self.metadata,
            checksum: full_checksum(self.checksum),
            copies: received.copies,
            ..NewVersion::new(received.size, etag, received.digests, Vec::new())
        };
        let (shared, caller, bucket, key, condition, held) = (
            self.shared,
            self.caller,
            self.bucket,
            self.key,
            self.condition,
            received.held,
        );
        uncut(async move {
            let principal = caller.to_string();
            let outcome = shared
                .tree
                .publish(
                    &actor(&caller, &principal),
                    &bucket,
                    &key,
                    new,
                    &condition,
                    &held.extra(),
                )
                .await;
            held.settle(&shared, &outcome).await;
            outcome.map(|published| version_info(caller.user_id(), &published.version))
        })
        .await
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({})", self.bucket.path(self.key.as_str()))
    }
}

/// Runs a commit in a task of its own, so that a client that goes away does not cut it between
/// the journal and what must follow.
pub(crate) async fn uncut<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(work.in_current_span())
        .await
        .unwrap_or_else(|error| {
            Err(Error::with_source(
                ErrorKind::Internal,
                "a commit ended early",
                error,
            ))
        })
}
