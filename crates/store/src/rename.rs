//! Renaming an object or a directory.

use dewar_auth::{Action, Caller, Details};
use dewar_namespace::{Bucket, Hierarchy, NameRef, RenameOptions, ReplaceRule};
use dewar_types::{Error, ErrorKind, ObjectKey, Result};

use crate::access::policies_tell_keys_apart;
use crate::api::{Overwrite, RenameNodeRequest, RenameRequest, WriteCondition};
use crate::authorize::actor;
use crate::{Inner, Store};

impl Store {
    /// Gives an object another key in its bucket, in one batch. A source that ends in `/` and is no
    /// object is a directory. It is renamed with its content, independently of its size.
    ///
    /// # Errors
    /// - [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotFound`].
    /// - [`ErrorKind::Precondition`], also for conditions on a directory, which has neither ETag nor
    ///   date. The condition that the target does not exist is allowed.
    /// - For directories also [`ErrorKind::AlreadyExists`], [`ErrorKind::NotEmpty`], and
    ///   [`ErrorKind::InvalidArgument`] for a target below the source.
    pub async fn rename(&self, caller: &Caller, request: RenameRequest) -> Result<()> {
        let inner = &self.inner;
        let (source, to) = (&request.source.key, &request.target);
        let bucket = inner.bucket_of(caller, &request.source.bucket).await?;
        inner.authorize_rename(caller, &bucket, source, to)?;
        let (condition, there) = inner
            .write_target(caller, &bucket, to, &request.condition, false)
            .await?;
        let found = inner.tree.find_name(&bucket, source).await?;
        let principal = caller.to_string();
        let actor = actor(caller, &principal);
        if let Some(directory) = source.as_str().strip_suffix('/')
            && found.file().is_none()
        {
            inner.authorize_directory_rename(caller, &bucket, source)?;
            let asked = &request.condition;
            let free = asked.is_none() || *asked == WriteCondition::absent();
            if !request.source_condition.is_none() || !free {
                let message = "a directory has neither an ETag nor a date to be judged by";
                return Err(Error::new(ErrorKind::Precondition, message));
            }
            let target = to.as_str();
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
        inner.authorize_comparison(caller, &bucket, source, found.file())?;
        let (from, to) = (
            NameRef::new(&bucket, source, Some(found)),
            NameRef::new(&bucket, to, there),
        );
        let conditions = (&request.source_condition, &condition);
        inner
            .tree
            .rename_file(&actor, from, to, conditions, Hierarchy::Flat)
            .await
            .map(|_| ())
    }

    /// Renames a file or a directory by the rules of a hierarchy, in one batch. Missing directories
    /// above the target are made. With [`Overwrite::Everything`], a directory at the target is removed in
    /// the same batch, and its content is freed later. Content does not move between buckets: copy it with
    /// [`Store::copy_tree`] or [`Store::copy`], then remove it.
    ///
    /// # Errors
    /// - [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotFound`].
    /// - [`ErrorKind::IsADirectory`] for a file onto a directory.
    /// - [`ErrorKind::NotADirectory`] for a directory onto a file, and for a file above the target.
    /// - [`ErrorKind::AlreadyExists`] and [`ErrorKind::NotEmpty`] as [`Overwrite`] says. `NotEmpty` also
    ///   if a space is at or below a directory that would be replaced.
    /// - [`ErrorKind::InvalidArgument`] for a target below the source.
    /// - [`ErrorKind::Unsupported`] for another bucket or space ([`crate::api::CrossDeviceError`]), in a bucket with object lock, and where
    ///   something would be replaced whose versions are kept or that contains a space.
    pub async fn rename_node(&self, caller: &Caller, request: RenameNodeRequest) -> Result<()> {
        let inner = &self.inner;
        let (source, target) = (&request.source.key, &request.target.key);
        let bucket = inner.bucket_of(caller, &request.source.bucket).await?;
        if request.source.bucket != request.target.bucket {
            let (from, to) = (bucket.path(source.as_str()), &request.target.bucket.name);
            let message = format!("{from} cannot be moved to the bucket {to}; copy it");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let node = inner.tree.find_node(&bucket, source).await?;
        let principal = caller.to_string();
        let actor = actor(caller, &principal);
        if node.directory().is_some() {
            let named = |key: &ObjectKey| ObjectKey::new(&format!("{key}/"));
            let (from, to) = (named(source)?, named(target)?);
            inner.authorize_rename(caller, &bucket, &from, &to)?;
            inner.authorize_directory_rename(caller, &bucket, &from)?;
            let none = WriteCondition::NONE;
            inner
                .write_target(caller, &bucket, &to, &none, false)
                .await?;
            let replaces = match request.overwrite {
                Overwrite::Never | Overwrite::Files => ReplaceRule::Nothing,
                Overwrite::EmptyDirectories => ReplaceRule::EmptyDirectory,
                Overwrite::Everything => {
                    inner.authorize_replacement(caller, &bucket, target).await?
                }
            };
            let options = RenameOptions {
                make_parents: true,
                replaces,
                hierarchy: Hierarchy::Strict,
            };
            return inner
                .tree
                .rename_dir(&actor, (&bucket, source), (&bucket, target), options)
                .await;
        }
        if node.file().is_none() {
            let key = source.as_str();
            let details = inner.details();
            inner.authorize_object(caller, Action::GetObject, &bucket, key, None, &details)?;
            let message = format!("{} does not exist", bucket.path(key));
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        inner.authorize_rename(caller, &bucket, source, target)?;
        inner.authorize_comparison(caller, &bucket, source, node.file())?;
        let mut replaces_tree = false;
        if request.overwrite == Overwrite::Everything {
            let old = inner.tree.find_node(&bucket, target).await?;
            replaces_tree = old.directory().is_some();
            if replaces_tree {
                inner.authorize_tree_removal(caller, &bucket, target)?;
                inner.refuse_spaces_within(&bucket, target)?;
            }
        }
        let asked = match request.overwrite {
            Overwrite::Never => WriteCondition::absent(),
            Overwrite::Files | Overwrite::EmptyDirectories | Overwrite::Everything => {
                WriteCondition::NONE
            }
        };
        let (condition, there) = inner
            .write_target(caller, &bucket, target, &asked, false)
            .await?;
        let (from, to) = (
            NameRef::new(&bucket, source, Some(node.into_name())),
            NameRef::new(&bucket, target, there),
        );
        let conditions = (&WriteCondition::NONE, &condition);
        let tree = &inner.tree;
        let renamed = match replaces_tree {
            true => tree.rename_file_over(&actor, from, to, conditions).await,
            false => {
                let rules = Hierarchy::Strict;
                tree.rename_file(&actor, from, to, conditions, rules).await
            }
        };
        match renamed {
            Err(error) if error.kind() == ErrorKind::Precondition => {
                let message = format!("{} exists", bucket.path(target.as_str()));
                Err(Error::with_source(ErrorKind::AlreadyExists, message, error))
            }
            renamed => renamed.map(drop),
        }
    }
}

impl Inner {
    /// Checks whether a caller may give a name another key.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    fn authorize_rename(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        source: &ObjectKey,
        target: &ObjectKey,
    ) -> Result<()> {
        let details = Details {
            creates: Some(true),
            ..self.details()
        };
        for (action, key, details) in [
            (Action::RenameObject, source, self.details()),
            (Action::DeleteObject, source, details),
            (Action::PutObject, target, details),
        ] {
            self.authorize_in_bucket(caller, action, bucket, Some(key.as_str()), &details)?;
        }
        Ok(())
    }

    /// Checks whether a directory may take the place of what has a name, and gives what it may replace.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; those of reading the catalog.
    async fn authorize_replacement(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        target: &ObjectKey,
    ) -> Result<ReplaceRule> {
        let old = self.tree.find_node(bucket, target).await?;
        let (directory, file) = (old.directory().is_some(), old.file().is_some());
        if directory {
            self.authorize_tree_removal(caller, bucket, target)?;
            self.refuse_spaces_within(bucket, target)?;
        }
        if file {
            let (named, details) = (Some(target.as_str()), self.details());
            self.authorize_in_bucket(caller, Action::DeleteObject, bucket, named, &details)?;
        }
        // Something else may have the name by the time of the rename.
        Ok(match (directory, file) {
            (true, true) => ReplaceRule::Everything,
            (true, false) => ReplaceRule::Directory,
            (false, true) => ReplaceRule::File,
            (false, false) => ReplaceRule::Nothing,
        })
    }

    /// Checks whether a directory with all that is in it may be removed in one step for a caller, who
    /// needs the right to list it and to delete all names in it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], also if policies tell the names apart.
    pub(crate) fn authorize_tree_removal(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        directory: &ObjectKey,
    ) -> Result<()> {
        let prefix = format!("{directory}/");
        let listing = Details {
            prefix: Some(&prefix),
            ..self.details()
        };
        self.authorize_in_bucket(caller, Action::ListBucket, bucket, None, &listing)?;
        let (named, details) = (Some(prefix.as_str()), self.details());
        self.authorize_in_bucket(caller, Action::DeleteObject, bucket, named, &details)?;
        if policies_tell_keys_apart(caller, bucket)? {
            let message = "a policy tells names in the bucket apart, so they go one by one";
            let path = bucket.path(&prefix);
            self.authorizer
                .record_refusal(caller, Action::DeleteObject, path, message);
            return Err(Error::new(ErrorKind::Denied, message));
        }
        Ok(())
    }

    /// Checks whether directories may be renamed for a caller: names would be carried out of what a
    /// statement denies, or into what it allows.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    fn authorize_directory_rename(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        source: &ObjectKey,
    ) -> Result<()> {
        if !policies_tell_keys_apart(caller, bucket)? {
            return Ok(());
        }
        let message = "a policy tells names in the bucket apart, so directories keep theirs";
        let path = bucket.path(source.as_str());
        self.authorizer
            .record_refusal(caller, Action::RenameObject, path, message);
        Err(Error::new(ErrorKind::Denied, message))
    }
}
