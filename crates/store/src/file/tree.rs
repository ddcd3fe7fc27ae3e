//! Copying and removing directories with their content.
//!
//! A directory is removed in one step where that is possible. Otherwise both verbs walk it depth first,
//! page by page, and hold no more than a page for each directory on the way down. Each name is authorized and changed by itself, so they are not atomic.
//! A verb that was interrupted, or had failures, is repeated: removing goes on with what is left, and
//! copying without `overwrite` reports the names that exist already.

use std::collections::VecDeque;

use dewar_auth::{Action, Caller, Details};
use dewar_catalog::record::DirRecord;
use dewar_namespace::{Bucket, ETagMatch, Hierarchy, ListQuery, Listed, Listing};
use dewar_types::{Error, ErrorKind, ObjectKey, Result};

use crate::access::policies_tell_keys_apart;
use crate::api::{
    BucketRef, CopyRequest, DeleteItem, DeleteRequest, ObjectRef, ReadCondition, VersionAttributes,
    WriteCondition,
};
use crate::authorize::actor;
use crate::limits::{TREE_FAILURES_MAX, TREE_PAGE, TREE_WALK_LATER};
use crate::listing_limits::GATE_RETRY_AFTER;
use crate::{Inner, Store};
use dewar_auth::fair_share::{ShareOwner, SharePermit};

use super::{AttributeChange, CopyTreeRequest, MakeDirRequest, Node, TreeReport};

/// A directory on the way down.
struct OpenDirectory {
    /// Its key with a slash at the end.
    prefix: String,
    /// Its permission bits, if it was made on request and stays when it is empty.
    made: Option<u32>,
    items: VecDeque<Listed>,
    /// Whether names follow those read so far, and after which one.
    next: Option<Option<String>>,
}

/// A step of a walk.
enum TreeStep {
    File(String),
    /// A directory begins. It has permission bits if it was made on request.
    Enter(String, Option<u32>),
    /// All names of the directory came.
    Leave(String, Option<u32>),
}

/// A walk through a directory.
struct TreeWalk<'a> {
    inner: &'a Inner,
    caller: &'a Caller,
    bucket: Bucket,
    open: Vec<OpenDirectory>,
    _permit: SharePermit,
}

impl<'a> TreeWalk<'a> {
    /// Begins a walk for a caller who may list the directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotADirectory`], [`ErrorKind::Denied`],
    /// [`ErrorKind::Busy`] when the caller's share of walks is used up.
    async fn begin(inner: &'a Inner, caller: &'a Caller, directory: &ObjectRef) -> Result<Self> {
        let prefix = format!("{}/", directory.key);
        let details = Details {
            prefix: Some(&prefix),
            ..inner.details()
        };
        let bucket = inner
            .authorize_bucket_with(
                caller,
                Action::ListBucket,
                &directory.bucket,
                None,
                &details,
            )
            .await?;
        let node = inner.tree.find_node(&bucket, &directory.key).await?;
        let Some(record) = node.directory() else {
            return Err(super::directory::no_directory(
                &bucket,
                &directory.key,
                node.file(),
            ));
        };
        let made = lasting(record);
        let permit = inner
            .tree_walks
            .take(&ShareOwner::of(caller))
            .ok_or_else(|| {
                let message = "too many directories are being copied or removed";
                Error::new(ErrorKind::Busy(TREE_WALK_LATER), message)
            })?;
        let mut walk = Self {
            inner,
            caller,
            bucket,
            open: Vec::new(),
            _permit: permit,
        };
        walk.enter(prefix, made);
        Ok(walk)
    }

    fn enter(&mut self, prefix: String, made: Option<u32>) {
        self.open.push(OpenDirectory {
            prefix,
            made,
            items: VecDeque::new(),
            next: Some(None),
        });
    }

    /// The next step; `None` at the end.
    async fn next(&mut self) -> Result<Option<TreeStep>> {
        while let Some(directory) = self.open.last_mut() {
            match directory.items.pop_front() {
                Some(Listed::File { key, .. }) => return Ok(Some(TreeStep::File(key))),
                Some(Listed::Prefix { prefix, dir }) => {
                    let made = dir.as_ref().and_then(lasting);
                    self.enter(prefix.clone(), made);
                    return Ok(Some(TreeStep::Enter(prefix, made)));
                }
                None => {}
            }
            let Some(after) = directory.next.take() else {
                let left = self.open.pop();
                return Ok(left.map(|left| TreeStep::Leave(left.prefix, left.made)));
            };
            let query = ListQuery {
                prefix: &directory.prefix,
                delimiter: Some("/"),
                after: after.as_deref(),
                max: TREE_PAGE,
                explicit_dirs: true,
            };
            let listing = page(self.inner, self.caller, &self.bucket, query).await?;
            directory.next = listing.next.map(Some);
            directory.items = listing.items.into();
        }
        Ok(None)
    }
}

/// A page of names. It waits while the account runs too many expensive listings.
async fn page(
    inner: &Inner,
    caller: &Caller,
    bucket: &Bucket,
    query: ListQuery<'_>,
) -> Result<Listing> {
    loop {
        let gate = inner.listings.gate(caller);
        match inner.tree.list_within(bucket, query, gate.budget()).await {
            Err(error) if matches!(error.kind(), ErrorKind::Busy(_)) => {
                tokio::time::sleep(GATE_RETRY_AFTER).await;
            }
            listing => return listing,
        }
    }
}

/// The permission bits of a directory that was made on request.
fn lasting(record: &DirRecord) -> Option<u32> {
    (!record.implicit).then_some(record.attributes.mode)
}

impl TreeReport {
    fn add(&mut self, key: &str, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.done += 1,
            Err(error) => {
                self.failed += 1;
                if self.failures.len() < TREE_FAILURES_MAX {
                    self.failures.push((key.to_owned(), error));
                }
            }
        }
    }
}

impl Store {
    /// Removes a directory with all that is in it. The caller needs the right to list the directory, and
    /// to delete each name.
    ///
    /// It goes in one step, and a worker frees its content. In some cases the names go one by one. One
    /// case is a policy that tells names in the bucket apart, or lets the caller delete only a part.
    /// Others are a bucket that has object lock or keeps versions, and a directory with a quota at or
    /// below the path. Delete markers hide the files in a bucket that keeps versions.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotADirectory`], [`ErrorKind::Denied`],
    /// [`ErrorKind::NoSuchBucket`]; [`ErrorKind::NotEmpty`] if a space is at or below it;
    /// [`ErrorKind::Busy`] when the caller removes or copies as many directories as it may. Names that
    /// could not be removed are in the report.
    pub async fn remove_tree(&self, caller: &Caller, directory: &ObjectRef) -> Result<TreeReport> {
        if self.detach_tree(caller, directory).await? {
            return Ok(TreeReport {
                done: 1,
                ..TreeReport::default()
            });
        }
        let bucket = &directory.bucket;
        let mut walk = TreeWalk::begin(&self.inner, caller, directory).await?;
        self.inner
            .refuse_spaces_within(&walk.bucket, &directory.key)?;
        let mut report = TreeReport::default();
        let mut files = Vec::new();
        while let Some(step) = walk.next().await? {
            match step {
                TreeStep::File(key) => {
                    files.push(key);
                    if files.len() < TREE_PAGE {
                        continue;
                    }
                    self.remove_files(caller, bucket, &mut files, &mut report)
                        .await?;
                }
                TreeStep::Enter(..) => {}
                TreeStep::Leave(prefix, made) => {
                    self.remove_files(caller, bucket, &mut files, &mut report)
                        .await?;
                    // Other directories go with the last name in them.
                    if made.is_some() {
                        let directory = object(bucket, trimmed(&prefix))?;
                        let removed = self.remove_dir(caller, &directory).await;
                        report.add(&prefix, removed);
                    }
                }
            }
        }
        Ok(report)
    }

    /// Removes a directory with all that is in it in one step, and says whether that was possible.
    async fn detach_tree(&self, caller: &Caller, directory: &ObjectRef) -> Result<bool> {
        let inner = &self.inner;
        let key = &directory.key;
        let bucket = inner.bucket_of(caller, &directory.bucket).await?;
        if !inner.may_remove_tree(caller, &bucket, key)? {
            return Ok(false);
        }
        let principal = caller.to_string();
        let actor = actor(caller, &principal);
        match inner.tree.detach_dir(&actor, &bucket, key).await {
            Ok(()) => Ok(true),
            // The walk finds out what is there instead, or removes what it may.
            Err(error) => match error.kind() {
                ErrorKind::NotFound | ErrorKind::Unsupported => Ok(false),
                _ => Err(error),
            },
        }
    }

    async fn remove_files(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        keys: &mut Vec<String>,
        report: &mut TreeReport,
    ) -> Result<()> {
        let keys = std::mem::take(keys);
        if keys.is_empty() {
            return Ok(());
        }
        let items = keys.iter().map(|key| {
            Ok(DeleteItem {
                key: ObjectKey::new(key)?,
                version: None,
                condition: WriteCondition::NONE,
            })
        });
        let items = items.collect::<Result<_>>()?;
        let removed = self.delete_many(caller, bucket, items, false).await?;
        for (key, outcome) in keys.iter().zip(removed) {
            report.add(key, outcome.map(drop));
        }
        Ok(())
    }

    /// Copies a directory with all that is in it, extended attributes included. The bytes of files are
    /// shared if they stay in their pool. The caller needs the right to list the source, and the rights of [`Store::copy`] for
    /// each file. The directory above the target must exist.
    ///
    /// # Errors
    /// As [`Store::remove_tree`]; those of making the target directory;
    /// [`ErrorKind::InvalidArgument`] for a target in the source. Names that could not be copied are
    /// in the report.
    pub async fn copy_tree(&self, caller: &Caller, request: CopyTreeRequest) -> Result<TreeReport> {
        self.transfer_tree(caller, request, false).await
    }

    /// Copies a directory with all that is in it to another bucket, and removes each name as soon as
    /// it is copied. A file that was replaced after its copy, and a directory that got a new name,
    /// stay and are in the report. A repetition with `overwrite` goes on with what is left.
    ///
    /// # Errors
    /// As [`Store::copy_tree`]. The caller needs the right to delete each name, too.
    pub async fn move_tree(&self, caller: &Caller, request: CopyTreeRequest) -> Result<TreeReport> {
        self.transfer_tree(caller, request, true).await
    }

    async fn transfer_tree(
        &self,
        caller: &Caller,
        request: CopyTreeRequest,
        removes: bool,
    ) -> Result<TreeReport> {
        let (source, target) = (&request.source, &request.target);
        let mut walk = TreeWalk::begin(&self.inner, caller, source).await?;
        if removes {
            self.inner.refuse_spaces_within(&walk.bucket, &source.key)?;
        }
        let inside = format!("{}/", target.key);
        let from = format!("{}/", source.key);
        let to = self.inner.bucket_of(caller, &target.bucket).await?;
        if walk.bucket.id == to.id && inside.starts_with(&from) {
            let message = format!("{} cannot be copied into itself", source.key);
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let top = walk.open.first().and_then(|top| top.made);
        self.copy_directory(caller, source, target, top).await?;
        let mut report = TreeReport {
            done: 1,
            ..TreeReport::default()
        };
        while let Some(step) = walk.next().await? {
            let (key, made) = match &step {
                TreeStep::File(key) => (key, None),
                TreeStep::Enter(key, Some(mode)) => (key, Some(*mode)),
                TreeStep::Leave(prefix, Some(_)) if removes => {
                    let directory = object(&source.bucket, trimmed(prefix))?;
                    if let Err(error) = self.remove_dir(caller, &directory).await {
                        report.add(prefix, Err(error));
                    }
                    continue;
                }
                TreeStep::Enter(_, None) | TreeStep::Leave(..) => continue,
            };
            let to = format!("{inside}{}", key.strip_prefix(&from).unwrap_or(key));
            let copied = match made {
                Some(mode) => {
                    let ends = (
                        object(&source.bucket, trimmed(key)),
                        object(&target.bucket, trimmed(&to)),
                    );
                    match ends {
                        (Ok(from), Ok(to)) => {
                            self.copy_directory(caller, &from, &to, Some(mode)).await
                        }
                        (Err(error), _) | (_, Err(error)) => Err(error),
                    }
                }
                None => match (object(&source.bucket, key), object(&target.bucket, &to)) {
                    (Ok(from), Ok(to)) if removes => {
                        self.move_file(caller, from, to, request.overwrite).await
                    }
                    (Ok(from), Ok(to)) => {
                        let any = ReadCondition::default();
                        self.copy_file(caller, from, to, any, request.overwrite)
                            .await
                    }
                    (Err(error), _) | (_, Err(error)) => Err(error),
                },
            };
            report.add(key, copied);
        }
        Ok(report)
    }

    /// Copies a directory without its content. One that exists at the target stays, and gets the
    /// extended attributes. The directory above the target must exist.
    ///
    /// # Errors
    /// Those of [`Store::extended_attributes`] for the source; those of [`Store::make_dir`] and
    /// [`Store::change_attributes`] for the target.
    pub async fn copy_dir(
        &self,
        caller: &Caller,
        source: &ObjectRef,
        target: &ObjectRef,
    ) -> Result<()> {
        self.copy_directory(caller, source, target, None).await
    }

    async fn copy_directory(
        &self,
        caller: &Caller,
        source: &ObjectRef,
        target: &ObjectRef,
        mode: Option<u32>,
    ) -> Result<()> {
        let attributes = self.extended_attributes(caller, source).await?;
        let request = MakeDirRequest {
            directory: target.clone(),
            mode: mode.unwrap_or(super::directory::DIRECTORY_MODE),
            parents: false,
            existing: true,
        };
        self.make_dir(caller, request).await?;
        if attributes.is_empty() {
            return Ok(());
        }
        let change = AttributeChange {
            set: attributes.into_iter().collect(),
            ..AttributeChange::default()
        };
        self.change_attributes(caller, target, change).await
    }

    /// Copies a file, by preference within its pool, and removes it if nobody replaced it meanwhile.
    ///
    /// # Errors
    /// Those of [`Store::stat`], [`Store::copy`] and [`Store::delete`]; [`ErrorKind::IsADirectory`];
    /// [`ErrorKind::AlreadyExists`] for a target that must not be replaced. [`ErrorKind::Precondition`]
    /// when the file was replaced: the target may have its earlier content then.
    pub async fn move_file(
        &self,
        caller: &Caller,
        from: ObjectRef,
        to: ObjectRef,
        overwrite: bool,
    ) -> Result<()> {
        let Node::File(_, info) = self.stat(caller, &from).await? else {
            let message = format!("{} is a directory", from.key);
            return Err(Error::new(ErrorKind::IsADirectory, message));
        };
        let buckets = (
            self.inner.bucket_of(caller, &from.bucket).await?,
            self.inner.bucket_of(caller, &to.bucket).await?,
        );
        if buckets.0.id == buckets.1.id && from.key == to.key {
            let message = format!("{} cannot be moved to itself", from.key);
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let same = ETagMatch::Is(info.etag);
        let unchanged = ReadCondition {
            if_match: vec![same.clone()],
            ..ReadCondition::default()
        };
        self.copy_file(caller, from.clone(), to, unchanged, overwrite)
            .await?;
        let removal = DeleteRequest {
            object: from,
            version: None,
            condition: WriteCondition {
                if_match: vec![same],
                ..WriteCondition::NONE
            },
            bypass: false,
        };
        self.delete(caller, removal).await.map(drop)
    }

    /// Whether a file still is one of those that a condition names. Without a condition it is.
    async fn is_unchanged(
        &self,
        caller: &Caller,
        file: &ObjectRef,
        condition: &ReadCondition,
    ) -> Result<bool> {
        if condition.if_match.is_empty() {
            return Ok(true);
        }
        match self.stat(caller, file).await {
            Ok(Node::File(_, info)) => Ok(condition.if_match.contains(&ETagMatch::Is(info.etag))),
            Ok(Node::Directory(_)) => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn copy_file(
        &self,
        caller: &Caller,
        from: ObjectRef,
        to: ObjectRef,
        source_condition: ReadCondition,
        overwrite: bool,
    ) -> Result<()> {
        let condition = match overwrite {
            true => WriteCondition::NONE,
            false => WriteCondition::absent(),
        };
        let exists = to.key.to_string();
        let (source, unchanged) = (from.clone(), source_condition.clone());
        let copy = CopyRequest {
            source: from,
            source_version: None,
            source_condition,
            target: to,
            attributes: VersionAttributes::default(),
            replace_headers: false,
            checksum: None,
            condition,
            hierarchy: Hierarchy::Strict,
            source_key: None,
            encryption: None,
            acl: None,
        };
        match self.copy(caller, copy).await {
            Err(error)
                if error.kind() == ErrorKind::Precondition
                    && !overwrite
                    && self.is_unchanged(caller, &source, &unchanged).await? =>
            {
                let message = format!("{exists} exists");
                Err(Error::with_source(ErrorKind::AlreadyExists, message, error))
            }
            copied => copied.map(drop),
        }
    }
}

impl Inner {
    /// Whether a caller may remove a directory in one step. A refusal is not recorded, because the names
    /// in it are then asked for one by one.
    fn may_remove_tree(&self, caller: &Caller, bucket: &Bucket, key: &ObjectKey) -> Result<bool> {
        if policies_tell_keys_apart(caller, bucket)? {
            return Ok(false);
        }
        let prefix = format!("{key}/");
        let listing = Details {
            prefix: Some(&prefix),
            ..self.details()
        };
        let (named, details) = (Some(prefix.as_str()), self.details());
        let may = |action, named, details| {
            self.authorize_optional(caller, action, bucket, named, details)
                .is_ok()
        };
        Ok(may(Action::ListBucket, None, &listing) && may(Action::DeleteObject, named, &details))
    }
}

fn trimmed(prefix: &str) -> &str {
    prefix.strip_suffix('/').unwrap_or(prefix)
}

fn object(bucket: &BucketRef, key: &str) -> Result<ObjectRef> {
    Ok(ObjectRef {
        bucket: bucket.clone(),
        key: ObjectKey::new(key)?,
    })
}
