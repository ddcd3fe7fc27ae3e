//! Beginning to write an object or a file.

use dewar_auth::{Action, Caller, Details};
use dewar_namespace::{Bucket, Hierarchy, ResolvedName};
use dewar_types::{Error, ErrorKind, ObjectKey, Result};
use tracing::Instrument as _;

use crate::api::{BucketRef, GetRequest, ObjectRef, WriteCondition, WriteMode, WriteRequest};
use crate::authorize::pairs;
use crate::content_writer::{ContentWriter, too_large};
use crate::limits::OBJECT_BYTES_MAX;
use crate::{Inner, Store};

/// A write that its caller may begin.
pub(crate) struct AuthorizedWrite {
    pub(crate) bucket: Bucket,
    /// The name as it was looked up, if that was needed.
    pub(crate) found: Option<ResolvedName>,
    /// What must still hold when the version gets the name.
    pub(crate) condition: WriteCondition,
}

impl Store {
    /// Begins to write an object or a file. A condition that fails now is reported before bytes are
    /// accepted. It is checked again when the version gets its name. Missing directories above it are
    /// made then.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::Precondition`],
    /// [`ErrorKind::AlreadyExists`] or [`ErrorKind::NotFound`] as [`WriteMode`] says,
    /// [`ErrorKind::TooLarge`], [`ErrorKind::Quota`], [`ErrorKind::NoSpace`],
    /// [`ErrorKind::Unavailable`]; in a hierarchy also [`ErrorKind::IsADirectory`] and
    /// [`ErrorKind::NotADirectory`]; [`ErrorKind::Unsupported`] for a change of encrypted content.
    pub async fn write(&self, caller: &Caller, request: WriteRequest) -> Result<ContentWriter> {
        let bucket = self.inner.authorize_put(caller, &request).await?;
        self.write_authorized(caller, bucket, request).await
    }

    /// The same in a bucket where the caller may write it, with these attributes.
    pub(crate) async fn write_authorized(
        &self,
        caller: &Caller,
        bucket: Bucket,
        request: WriteRequest,
    ) -> Result<ContentWriter> {
        let write = self.inner.judge_request(caller, bucket, &request).await?;
        self.begin_write(caller, write, request).await
    }

    /// Whether [`Store::write`] would let this caller begin now. Nothing is opened or reserved.
    ///
    /// # Errors
    /// As [`Store::write`], apart from those of quotas and disks.
    pub async fn authorize_write(&self, caller: &Caller, request: &WriteRequest) -> Result<()> {
        let inner = &self.inner;
        let bucket = inner.authorize_put(caller, request).await?;
        let write = inner.judge_request(caller, bucket, request).await?;
        if let (WriteMode::Update, Some(found)) = (request.mode, write.found) {
            let whole = current_version(&write.bucket, &request.object.key);
            inner
                .find_in(caller, &write.bucket, &whole, found, false)
                .await?;
        }
        Ok(())
    }
}

/// A request for all of the current version.
pub(crate) fn current_version(bucket: &Bucket, key: &ObjectKey) -> GetRequest {
    GetRequest::whole(ObjectRef {
        bucket: BucketRef {
            tenant: Some(bucket.tenant.name.clone()),
            name: bucket.name.clone(),
        },
        key: key.clone(),
    })
}

impl Inner {
    /// The bucket, for a caller who may write the object there, with these attributes.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`]; errors in the attributes.
    async fn authorize_put(&self, caller: &Caller, request: &WriteRequest) -> Result<Bucket> {
        let tags = request.attributes.tags.as_ref().map(pairs);
        let details = Details {
            creates: Some(true),
            tags: tags.as_deref(),
            ..self.details()
        };
        let (object, attributes) = (&request.object, &request.attributes);
        let (action, key) = (Action::PutObject, Some(object.key.as_str()));
        let bucket = self
            .authorize_bucket_with(caller, action, &object.bucket, key, &details)
            .await?;
        self.check_version_attributes(caller, &bucket, &object.key, attributes, &details)?;
        Ok(bucket)
    }

    /// Judges what has the name of a write, and what must be there.
    ///
    /// # Errors
    /// As [`Store::write`].
    async fn judge_request(
        &self,
        caller: &Caller,
        bucket: Bucket,
        request: &WriteRequest,
    ) -> Result<AuthorizedWrite> {
        let (key, asked) = (&request.object.key, &request.condition);
        let path = bucket.path(key.as_str());
        if let Some(size) = request.size.filter(|size| *size > OBJECT_BYTES_MAX) {
            return Err(too_large(&path, size));
        }
        let (condition, found) = match request.hierarchy {
            Hierarchy::Flat => {
                let sized = request.size.is_some();
                self.write_target(caller, &bucket, key, asked, sized)
                    .await?
            }
            Hierarchy::Strict => {
                let node = self.tree.find_node(&bucket, key).await?;
                let refused = |kind, what: &str| Err(Error::new(kind, format!("{path} {what}")));
                match (request.mode, node.file()) {
                    _ if node.directory().is_some() => {
                        return refused(ErrorKind::IsADirectory, "is a directory");
                    }
                    (WriteMode::New, Some(_)) => {
                        return refused(ErrorKind::AlreadyExists, "exists");
                    }
                    (WriteMode::Update, None) => {
                        return refused(ErrorKind::NotFound, "does not exist");
                    }
                    (_, None) => {
                        self.tree.check_above(node.name()).await?;
                    }
                    (_, Some(_)) => {}
                }
                let condition = match request.mode {
                    WriteMode::New => WriteCondition::absent(),
                    WriteMode::Replace | WriteMode::Update => {
                        self.judge_write(caller, &bucket, key, asked, node.file())?
                    }
                };
                (condition, Some(node.into_name()))
            }
        };
        if let Some(found) = &found {
            condition.check(&path, found.file().map(|file| &file.current))?;
        }
        Ok(AuthorizedWrite {
            bucket,
            found,
            condition,
        })
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
