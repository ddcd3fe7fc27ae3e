//! Renaming an object or a directory.

use dewar_auth::{Action, Caller, Details};
use dewar_namespace::RenameOptions;
use dewar_types::{Error, ErrorKind, ObjectKey, Result};

use crate::Store;
use crate::access::policies_tell_keys_apart;
use crate::api::{RenameRequest, WriteCondition};
use crate::authorize::actor;
use crate::info::write_condition;

impl Store {
    /// Gives an object another key in its bucket, in one batch. A source that ends in `/` and is no
    /// object is a directory. It is renamed with its content, independently of its size.
    ///
    /// # Errors
    /// - [`dewar_types::ErrorKind::Denied`], [`dewar_types::ErrorKind::NoSuchBucket`],
    ///   [`dewar_types::ErrorKind::NotFound`].
    /// - [`dewar_types::ErrorKind::Precondition`], also for conditions on a directory, which has
    ///   neither ETag nor date. The condition that the target does not exist is allowed.
    /// - For directories also [`dewar_types::ErrorKind::AlreadyExists`],
    ///   [`dewar_types::ErrorKind::NotEmpty`], and [`dewar_types::ErrorKind::InvalidArgument`] for
    ///   a target below the source.
    pub async fn rename(&self, caller: &Caller, request: RenameRequest) -> Result<()> {
        let inner = &self.inner;
        let source = &request.source.key;
        let bucket = inner
            .authorize_bucket(
                caller,
                Action::RenameObject,
                &request.source.bucket,
                Some(source.as_str()),
            )
            .await?;
        let details = Details {
            creates: Some(true),
            ..inner.details()
        };
        for (action, key) in [
            (Action::DeleteObject, source),
            (Action::PutObject, &request.target),
        ] {
            inner.authorize_in_bucket(caller, action, &bucket, Some(key.as_str()), &details)?;
        }
        let condition = inner
            .write_condition(caller, &bucket, &request.target, &request.condition)
            .await?;
        let principal = caller.to_string();
        let actor = actor(caller, &principal);
        if let Some(directory) = source.as_str().strip_suffix('/')
            && inner.tree.lookup(&bucket, source).await?.is_none()
        {
            // Names would be carried out of what a statement denies, or into what it allows.
            if policies_tell_keys_apart(caller, &bucket)? {
                let message =
                    "a policy tells names in the bucket apart, so directories keep theirs";
                let path = bucket.path(source.as_str());
                inner
                    .authorizer
                    .record_refusal(caller, Action::RenameObject, path, message);
                return Err(Error::new(ErrorKind::Denied, message));
            }
            let free = WriteCondition {
                if_absent: request.condition.if_absent,
                ..WriteCondition::default()
            };
            if request.source_condition != WriteCondition::default() || request.condition != free {
                let message = "a directory has neither an ETag nor a date to be judged by";
                return Err(Error::new(ErrorKind::Precondition, message));
            }
            let target = request.target.as_str();
            let target = target.strip_suffix('/').unwrap_or(target);
            let (from, to) = (ObjectKey::new(directory)?, ObjectKey::new(target)?);
            let options = RenameOptions {
                make_parents: true,
                ..RenameOptions::default()
            };
            return inner
                .tree
                .rename_dir(&actor, (&bucket, &from), (&bucket, &to), options)
                .await;
        }
        // A file would be carried out of what a statement denies to read. This is asked as for its
        // attributes, so tokens that may modify both names still do.
        inner.authorize_comparison(caller, &bucket, source).await?;
        inner
            .tree
            .rename_file(
                &actor,
                (&bucket, source),
                (&bucket, &request.target),
                (&write_condition(&request.source_condition), &condition),
            )
            .await
            .map(|_| ())
    }
}
