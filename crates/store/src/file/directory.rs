//! Looking at names, and directories: what is there, what is in them, making and removing them.

use dewar_auth::{Action, Caller, Details};
use dewar_catalog::record::{DirRecord, FileRecord};
use dewar_namespace::{
    Bucket, DeleteTarget, DirOptions, Hierarchy, ListQuery, Listed, ResolvedNode,
};
use dewar_types::{Error, ErrorKind, ObjectKey, Result};

use crate::api::{BucketRef, DeleteRequest, ObjectRef, WriteCondition};
use crate::authorize::{AccessFacts, actor};
use crate::info::object_info;
use crate::limits::PAGE_ITEMS_MAX;
use crate::listing_limits::GATE_RETRY_AFTER;
use crate::{Inner, Store};

use super::{DirEntry, DirPage, MakeDirRequest, Node, NodeAttributes, ReadDirRequest};

/// What a directory has that was only made by the names below it.
pub(crate) const DIRECTORY_MODE: u32 = 0o755;

impl Store {
    /// Looks a name up. A key without a slash at its end means either, a directory first.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn stat(&self, caller: &Caller, name: &ObjectRef) -> Result<Node> {
        let (bucket, node) = self.inner.authorized_node(caller, name).await?;
        match (node.file(), node.directory()) {
            (_, Some(directory)) => Ok(directory_node(directory)),
            (Some(file), None) => Ok(file_node(&bucket, file)),
            (None, None) => Err(not_found(&bucket, name.key.as_str())),
        }
    }

    /// A bucket, seen as a directory.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn stat_bucket(&self, caller: &Caller, bucket: &BucketRef) -> Result<Node> {
        let inner = &self.inner;
        let details = Details {
            stat: true,
            ..inner.details()
        };
        let found = inner
            .authorize_bucket_with(caller, Action::ListBucket, bucket, None, &details)
            .await?;
        Ok(directory_node(&found.record))
    }

    /// A page of what is in a directory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotADirectory`], [`ErrorKind::Denied`],
    /// [`ErrorKind::NoSuchBucket`].
    pub async fn read_dir(&self, caller: &Caller, request: ReadDirRequest) -> Result<DirPage> {
        let inner = &self.inner;
        let prefix = match request.directory.as_str() {
            "" => String::new(),
            directory => format!("{directory}/"),
        };
        let details = Details {
            prefix: Some(&prefix),
            delimiter: Some("/"),
            ..inner.details()
        };
        let bucket = inner
            .authorize_bucket_with(caller, Action::ListBucket, &request.bucket, None, &details)
            .await?;
        if !prefix.is_empty() && request.after.is_none() {
            let key = ObjectKey::new(&request.directory)?;
            let node = inner.tree.find_node(&bucket, &key).await?;
            if node.directory().is_none() {
                return Err(no_directory(&bucket, &key, node.file()));
            }
        }
        let query = ListQuery {
            prefix: &prefix,
            delimiter: Some("/"),
            after: request.after.as_deref(),
            max: request.max.clamp(1, PAGE_ITEMS_MAX),
            explicit_dirs: true,
        };
        let listing = loop {
            let gate = inner.listings.gate(caller);
            let listing = inner.tree.list_within(&bucket, query, gate.budget()).await;
            match listing {
                // Once it has begun it waits: its client would take what came for the whole.
                Err(error)
                    if query.after.is_some() && matches!(error.kind(), ErrorKind::Busy(_)) =>
                {
                    tokio::time::sleep(GATE_RETRY_AFTER).await;
                }
                listing => break listing?,
            }
        };
        let mut page = DirPage {
            next: listing.next,
            ..DirPage::default()
        };
        for item in listing.items {
            let name = item.name()[prefix.len()..].trim_end_matches('/').to_owned();
            // Keys that end in a slash or have two in a row: there is no name for them here.
            if name.is_empty() {
                continue;
            }
            let node = match item {
                Listed::File { file, .. } => file_node(&bucket, &file),
                Listed::Prefix { dir: Some(dir), .. } => directory_node(&dir),
                Listed::Prefix { dir: None, .. } => continue,
            };
            // A file with a directory's name comes right before it, unless other names lie between.
            if let Some(DirEntry { name: before, .. }) = page.entries.last()
                && *before == name
            {
                page.entries.pop();
            }
            page.entries.push(DirEntry { name, node });
        }
        Ok(page)
    }

    /// Makes a directory that stays when nothing is in it.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] where a file or directory has the name, unless the request allows
    /// an existing directory,
    /// [`ErrorKind::NotFound`] where a directory above is missing and is not to be made,
    /// [`ErrorKind::NotADirectory`] where one above is a file; [`ErrorKind::Denied`],
    /// [`ErrorKind::NoSuchBucket`].
    pub async fn make_dir(&self, caller: &Caller, request: MakeDirRequest) -> Result<()> {
        let inner = &self.inner;
        let key = &request.directory.key;
        let named = format!("{key}/");
        let bucket = inner
            .authorize_bucket(
                caller,
                Action::PutObject,
                &request.directory.bucket,
                Some(&named),
            )
            .await?;
        let options = DirOptions {
            group: None,
            mode: request.mode & 0o7777,
            make_parents: request.parents,
            existing: request.existing,
            hierarchy: Hierarchy::Strict,
        };
        let principal = caller.to_string();
        let actor = actor(caller, &principal);
        let made = inner.tree.make_dir(&actor, &bucket, key, options).await;
        made.map(|_| ())
    }

    /// Removes a file, in one batch. In a bucket that keeps versions, a delete marker hides it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::IsADirectory`], [`ErrorKind::Locked`],
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn remove_file(&self, caller: &Caller, file: &ObjectRef) -> Result<()> {
        let inner = &self.inner;
        let bucket = inner.bucket_of(caller, &file.bucket).await?;
        let node = inner.tree.find_node(&bucket, &file.key).await?;
        let (key, details) = (file.key.as_str(), inner.details());
        let (action, named) = (Action::DeleteObject, Some(key));
        if node.file().is_none() || node.directory().is_some() {
            // A caller who may remove it, or list it, may know what is there.
            let may = inner.authorize_optional(caller, action, &bucket, named, &details);
            if node.directory().is_some() {
                may.or_else(|_| inner.authorize_directory(caller, &bucket, key, &details))?;
                let message = format!("{} is a directory", bucket.path(key));
                return Err(Error::new(ErrorKind::IsADirectory, message));
            }
            may.or_else(|_| inner.authorize_object(caller, action, &bucket, key, None, &details))?;
            return Err(not_found(&bucket, key));
        }
        inner.authorize_in_bucket(caller, action, &bucket, named, &details)?;
        let doomed = DeleteTarget {
            found: Some(node.into_name()),
            ..DeleteTarget::key(file.key.clone())
        };
        let principal = caller.to_string();
        let actor = actor(caller, &principal);
        let removed = inner.tree.delete(&actor, &bucket, &doomed, false).await?;
        match removed.version.is_some() || removed.marker.is_some() {
            true => Ok(()),
            false => Err(not_found(&bucket, key)),
        }
    }

    /// Removes a directory in which nothing is, or nothing but the empty object with its name and a slash
    /// by which S3 clients keep one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotADirectory`], [`ErrorKind::NotEmpty`],
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn remove_dir(&self, caller: &Caller, directory: &ObjectRef) -> Result<()> {
        let inner = &self.inner;
        let key = &directory.key;
        let named = format!("{key}/");
        let bucket = inner
            .authorize_bucket(
                caller,
                Action::DeleteObject,
                &directory.bucket,
                Some(&named),
            )
            .await?;
        let principal = caller.to_string();
        let actor = actor(caller, &principal);
        match inner.tree.remove_dir(&actor, &bucket, key).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let file = inner.tree.lookup(&bucket, key).await?;
                return Err(no_directory(&bucket, key, file.as_ref()));
            }
            Err(error)
                if error.kind() == ErrorKind::NotEmpty
                    && inner.is_only_marked(&bucket, &named).await? => {}
            removed => return removed,
        }
        let marker = DeleteRequest {
            object: ObjectRef {
                bucket: directory.bucket.clone(),
                key: ObjectKey::new(&named)?,
            },
            version: None,
            condition: WriteCondition {
                if_size: Some(0),
                ..WriteCondition::default()
            },
            bypass: false,
        };
        self.delete(caller, marker).await?;
        match inner.tree.remove_dir(&actor, &bucket, key).await {
            // It went with its last object.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

impl Inner {
    /// What has a name, for a caller who may look at it, or may know that nothing has it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub(super) async fn authorized_node(
        &self,
        caller: &Caller,
        name: &ObjectRef,
    ) -> Result<(Bucket, ResolvedNode)> {
        let bucket = self.bucket_of(caller, &name.bucket).await?;
        let details = Details {
            stat: true,
            ..self.details()
        };
        let node = self.tree.find_node(&bucket, &name.key).await?;
        let key = name.key.as_str();
        if node.directory().is_some() {
            self.authorize_directory(caller, &bucket, key, &details)?;
        } else {
            let facts = node.file().map(AccessFacts::of).transpose()?;
            let action = Action::GetObject;
            self.authorize_object(caller, action, &bucket, key, facts.as_ref(), &details)?;
        }
        Ok((bucket, node))
    }

    /// Whether all that is in a directory is an empty object with the directory's own name.
    async fn is_only_marked(&self, bucket: &Bucket, named: &str) -> Result<bool> {
        let query = ListQuery {
            prefix: named,
            delimiter: Some("/"),
            after: None,
            max: 2,
            explicit_dirs: true,
        };
        let listing = self.tree.list(bucket, query).await?;
        Ok(match &listing.items[..] {
            [Listed::File { key, file }] if listing.next.is_none() => {
                key == named && file.current.size == 0
            }
            _ => false,
        })
    }
}

impl Inner {
    /// Lets a caller look at a directory who may list what is in it.
    pub(super) fn authorize_directory(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        key: &str,
        details: &Details<'_>,
    ) -> Result<()> {
        let prefix = format!("{key}/");
        let details = Details {
            prefix: Some(&prefix),
            delimiter: Some("/"),
            ..*details
        };
        self.authorize_in_bucket(caller, Action::ListBucket, bucket, None, &details)
    }
}

/// The error for a name that is no directory.
pub(super) fn no_directory(bucket: &Bucket, key: &ObjectKey, file: Option<&FileRecord>) -> Error {
    match file {
        Some(_) => {
            let message = format!("{} is no directory", bucket.path(key.as_str()));
            Error::new(ErrorKind::NotADirectory, message)
        }
        None => not_found(bucket, key.as_str()),
    }
}

pub(super) fn not_found(bucket: &Bucket, key: &str) -> Error {
    let message = format!("{} does not exist", bucket.path(key));
    Error::new(ErrorKind::NotFound, message)
}

pub(super) fn file_node(bucket: &Bucket, file: &FileRecord) -> Node {
    Node::File(
        NodeAttributes::from(&file.attributes),
        Box::new(object_info(bucket, file)),
    )
}

fn directory_node(directory: &DirRecord) -> Node {
    let mut attributes = NodeAttributes::from(&directory.attributes);
    if attributes.mode == 0 {
        attributes.mode = DIRECTORY_MODE;
    }
    Node::Directory(attributes)
}
