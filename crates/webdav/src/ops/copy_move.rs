//! COPY and MOVE.
//!
//! Within a bucket a MOVE is one transaction, which also removes what it replaces. To another bucket,
//! content is copied, sharing its bytes, and then removed. A directory that a copy replaces has another
//! name until the copy is complete.

use std::sync::Arc;

use dewar_http_front::{Answer, empty_answer};
use dewar_store::api::{
    CopyRequest, Hierarchy, ObjectRef, Overwrite, ReadCondition, RenameNodeRequest,
    VersionAttributes, WriteCondition,
};
use dewar_store::file::{CopyTreeRequest, Node, PathTarget, TreeReport};
use dewar_types::{Error, ErrorKind, ObjectKey};
use http::StatusCode;

use super::delete::remove;
use super::lock::{ADDED, REMOVED, REPLACED, remove_locks, require_locks};
use super::multistatus::failures_answer;
use super::propfind::lookup;
use super::put::archive_metadata;
use super::third_party;
use crate::context::{Depth, RequestContext};
use crate::destination::{CopyEnds, Destination, destination_missing, header_once};
use crate::error::{DavError, Result};
use crate::front::WebDav;
use crate::resource_path::ResourcePath;

/// Characters of its name that the name of a replaced directory keeps until it is removed.
const ASIDE_NAME_CHARS: usize = 48;

/// Both ends of a COPY or MOVE within this service.
struct LocalCopy {
    source: ObjectRef,
    target: ObjectRef,
    node: Node,
    /// What is at the target now.
    replaced: Option<Node>,
    overwrites: bool,
}

pub(super) async fn copy(front: &Arc<WebDav>, context: &mut RequestContext) -> Result<Answer> {
    let own = front.own_urls(context);
    let head = Arc::clone(&context.head);
    let path = match CopyEnds::of(&head, &own)? {
        CopyEnds::To(path) => path.seen_by(&context.caller),
        CopyEnds::From(path) => {
            let source = path.seen_by(&context.caller);
            std::mem::replace(&mut context.path, source)
        }
        CopyEnds::ToRemote(target) => return third_party::push(front, context, target).await,
        CopyEnds::FromRemote(source) => return third_party::pull(front, context, source).await,
    };
    let context = &*context;
    let depth = context.depth()?;
    if depth == Depth::One {
        let words = "The header Depth of a COPY is 0 or infinity.";
        return Err(DavError::new(StatusCode::BAD_REQUEST, words));
    }
    let found = LocalCopy::find(front, context, &path).await;
    if third_party::is_asked_for(context.headers()) {
        let ends = match found {
            Ok(ends) => ends,
            Err(refusal) => return third_party::refuse(refusal),
        };
        let clock = Arc::clone(&front.env.clock);
        let (front, context) = (Arc::clone(front), context.without_body());
        let copy = completed(async move { ends.run(&front, &context, depth).await });
        return third_party::local(clock, copy).await;
    }
    let ends = found?;
    let (front, context) = (Arc::clone(front), context.without_body());
    completed(async move {
        let report = ends.run(&front, &context, depth).await?;
        Ok(ends.answer(&report))
    })
    .await
}

/// Runs a change to its end, also if the client is gone: half of it would leave what it replaces under
/// another name.
///
/// # Errors
/// Those of the change; 500 if it panics.
async fn completed<T: Send + 'static>(
    change: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(change).await.unwrap_or_else(|_| {
        let words = "The server has a defect.";
        Err(DavError::new(StatusCode::INTERNAL_SERVER_ERROR, words))
    })
}

pub(super) async fn rename(front: &Arc<WebDav>, context: &RequestContext) -> Result<Answer> {
    let own = front.own_urls(context);
    let target = header_once(&context.head, "destination")?;
    let target = target.ok_or_else(destination_missing)?;
    let path = match Destination::parse(target, &own)? {
        Destination::Local(path) => path.seen_by(&context.caller),
        Destination::Remote => {
            let words = "A MOVE to another service is not possible: copy it and remove it.";
            return Err(DavError::new(StatusCode::BAD_GATEWAY, words));
        }
    };
    let ends = LocalCopy::find(front, context, &path).await?;
    if matches!(ends.node, Node::Directory(_)) && context.depth()? != Depth::Infinity {
        let words = "The header Depth of a MOVE of a directory is infinity.";
        return Err(DavError::new(StatusCode::BAD_REQUEST, words));
    }
    require_locks(front, context, &ends.source, REMOVED).await?;
    ends.require_target_locks(front, context).await?;
    let (front, context) = (Arc::clone(front), context.without_body());
    completed(async move {
        let report = ends.rename(&front, &context).await?;
        if report.failed == 0 {
            // RFC 4918 section 7.5: locks do not move.
            remove_locks(&front, &context, &ends.source).await;
            if let Some(Node::Directory(_)) = ends.replaced {
                // Those of what is gone.
                remove_locks(&front, &context, &ends.target).await;
            }
        }
        Ok(ends.answer(&report))
    })
    .await
}

async fn rename_node(
    front: &Arc<WebDav>,
    context: &RequestContext,
    source: &ObjectRef,
    target: &ObjectRef,
    overwrite: Overwrite,
) -> Result<()> {
    let request = RenameNodeRequest {
        source: source.clone(),
        target: target.clone(),
        overwrite,
    };
    let renamed = front.store.rename_node(&context.caller, request).await;
    // Object lock, versions and quotas forbid it: the words say which.
    renamed.map_err(|error| {
        refused_target(error).with_status_for(&[ErrorKind::Unsupported], StatusCode::FORBIDDEN)
    })
}

/// The refusal when the name of the target has been taken, or what is above it is missing.
fn refused_target(error: dewar_types::Error) -> DavError {
    DavError::from(error)
        .with_status_for(&[ErrorKind::AlreadyExists], StatusCode::PRECONDITION_FAILED)
        .with_status_for(&[ErrorKind::InvalidArgument], StatusCode::FORBIDDEN)
}

impl LocalCopy {
    /// Looks both ends up.
    ///
    /// # Errors
    /// 403 for buckets and for a target that is the source or in it, 404 without a source, 409 without
    /// the directory above the target, 412 for an existing target that must not be replaced.
    async fn find(
        front: &Arc<WebDav>,
        context: &RequestContext,
        path: &ResourcePath,
    ) -> Result<Self> {
        let overwrites = context.overwrites()?;
        let forbidden = |words: &'static str| DavError::new(StatusCode::FORBIDDEN, words);
        let (Some(source), Some(target)) = (context.path.object(), path.object()) else {
            let words = "Permission denied: buckets can be neither copied nor moved.";
            return Err(forbidden(words));
        };
        let node = lookup(front, context).await?;
        if source == target {
            return Err(forbidden("Source and destination are the same."));
        }
        let is_directory = matches!(node, Node::Directory(_));
        let within = |inner: &ObjectRef, outer: &ObjectRef| {
            let rest = inner.key.as_str().strip_prefix(outer.key.as_str());
            inner.bucket == outer.bucket && rest.is_some_and(|rest| rest.starts_with('/'))
        };
        if is_directory && within(target, source) {
            return Err(forbidden("A directory cannot be placed in itself."));
        }
        if within(source, target) {
            return Err(forbidden(
                "A directory cannot be replaced by what is in it.",
            ));
        }
        check_parent(front, context, path).await?;
        let replaced = match front.store.stat(&context.caller, target).await {
            Ok(node) => Some(node),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            // A caller who may write and not look: the change itself decides.
            Err(error) if error.kind() == ErrorKind::Denied => None,
            Err(error) => return Err(error.into()),
        };
        if replaced.is_some() && !overwrites {
            let words = "The destination exists, and the request does not overwrite it.";
            return Err(DavError::new(StatusCode::PRECONDITION_FAILED, words));
        }
        Ok(Self {
            source: source.clone(),
            target: target.clone(),
            node,
            replaced,
            overwrites,
        })
    }

    /// Copies the source with all that belongs to it.
    async fn run(
        &self,
        front: &Arc<WebDav>,
        context: &RequestContext,
        depth: Depth,
    ) -> Result<TreeReport> {
        self.require_target_locks(front, context).await?;
        let aside = self.set_target_aside(front, context).await?;
        let report = self.copy(front, context, depth).await;
        self.settle_target(front, context, aside, report).await
    }

    /// Checks the locks of the target.
    async fn require_target_locks(
        &self,
        front: &Arc<WebDav>,
        context: &RequestContext,
    ) -> Result<()> {
        let scope = match self.replaced {
            Some(_) => REPLACED,
            None => ADDED,
        };
        require_locks(front, context, &self.target, scope).await
    }

    /// Renames what is at the target, unless a file is to replace a file, so that it is removed only
    /// after the change has succeeded. Returns its name until then.
    ///
    /// # Errors
    /// Those of the rename: nothing was changed then.
    async fn set_target_aside(
        &self,
        front: &Arc<WebDav>,
        context: &RequestContext,
    ) -> Result<Option<ObjectRef>> {
        let replaces_file = matches!(self.replaced, Some(Node::File(..)));
        if self.replaced.is_none() || replaces_file && matches!(self.node, Node::File(..)) {
            return Ok(None);
        }
        if matches!(self.replaced, Some(Node::Directory(_))) {
            let (store, caller) = (&front.store, &context.caller);
            store.require_no_spaces(caller, &self.target).await?;
        }
        if !front.config.recursive_delete && matches!(self.replaced, Some(Node::Directory(_))) {
            // The directory goes only if it is empty.
            remove(front, context, &self.target).await?;
            return Ok(None);
        }
        let mut random = [0; 8];
        front.env.rng.fill(&mut random);
        let (above, name) = match self.target.key.as_str().rsplit_once('/') {
            Some((above, name)) => (format!("{above}/"), name),
            None => (String::new(), self.target.key.as_str()),
        };
        // The name may be as long as a name can be.
        let name: String = name.chars().take(ASIDE_NAME_CHARS).collect();
        let key = format!("{above}.{name}.replaced-{}", dewar_sigv4::hex(&random));
        let aside = ObjectRef {
            bucket: self.target.bucket.clone(),
            key: ObjectKey::new(&key).map_err(Error::from)?,
        };
        rename_node(front, context, &self.target, &aside, Overwrite::Never).await?;
        Ok(Some(aside))
    }

    /// Removes what was at the target if the change succeeded, and otherwise gives it its name back.
    async fn settle_target(
        &self,
        front: &Arc<WebDav>,
        context: &RequestContext,
        aside: Option<ObjectRef>,
        changed: Result<TreeReport>,
    ) -> Result<TreeReport> {
        let Some(aside) = aside else {
            return changed;
        };
        match changed {
            Ok(report) => {
                // What was replaced stays if a part of the change failed.
                let is_gone = report.failed == 0
                    && matches!(remove(front, context, &aside).await, Ok(left) if left.failed == 0);
                if !is_gone {
                    let (path, left) = (&context.path.text, &aside.key);
                    tracing::warn!(path, %left, "what was replaced is kept under another name");
                }
                Ok(report)
            }
            Err(refusal) => {
                let target = &self.target;
                let back = rename_node(front, context, &aside, target, Overwrite::Never).await;
                if let Err(error) = back {
                    let left = &aside.key;
                    tracing::error!(%left, %error, "what was to be replaced did not get its name back");
                }
                Err(refusal)
            }
        }
    }

    /// Moves the source: by a rename within the bucket, else by copies.
    async fn rename(&self, front: &Arc<WebDav>, context: &RequestContext) -> Result<TreeReport> {
        let (source, target) = (&self.source, &self.target);
        if source.bucket == target.bucket {
            let overwrite = match self.overwrites {
                true if front.config.recursive_delete => Overwrite::Everything,
                true => {
                    self.remove_empty_target(front, context).await?;
                    Overwrite::EmptyDirectories
                }
                false => Overwrite::Never,
            };
            match rename_node(front, context, source, target, overwrite).await {
                Err(refusal) if refusal.is_cross_device() => {}
                renamed => return renamed.map(|()| TreeReport::default()),
            }
        }
        let both = (&self.node, &self.replaced);
        let aside = match both {
            // An earlier try may have moved a part of the source there, which has no other copy.
            (Node::Directory(_), Some(Node::Directory(_))) => None,
            _ => self.set_target_aside(front, context).await?,
        };
        let moved = self.move_by_copy(front, context).await;
        self.settle_target(front, context, aside, moved).await
    }

    /// Removes a directory that is in the way of a file, if it is empty.
    async fn remove_empty_target(
        &self,
        front: &Arc<WebDav>,
        context: &RequestContext,
    ) -> Result<()> {
        if let (Node::File(..), Some(Node::Directory(_))) = (&self.node, &self.replaced) {
            let (store, caller) = (&front.store, &context.caller);
            store.remove_dir(caller, &self.target).await?;
        }
        Ok(())
    }

    /// Moves the source to another bucket: what was copied is removed.
    async fn move_by_copy(
        &self,
        front: &Arc<WebDav>,
        context: &RequestContext,
    ) -> Result<TreeReport> {
        let (source, target) = (&self.source, &self.target);
        let (store, caller) = (&front.store, &context.caller);
        let (source, target) = (source.clone(), target.clone());
        if let Node::File(..) = self.node {
            let moved = store.move_file(caller, source, target, self.overwrites);
            moved.await.map_err(refused_target)?;
            return Ok(TreeReport::default());
        }
        let request = CopyTreeRequest {
            source,
            target,
            overwrite: self.overwrites,
        };
        let moved = store.move_tree(caller, request).await;
        moved.map_err(refused_target)
    }

    /// Copies the source, in a directory also what is in it if the depth is infinite.
    async fn copy(
        &self,
        front: &Arc<WebDav>,
        context: &RequestContext,
        depth: Depth,
    ) -> Result<TreeReport> {
        let (store, caller) = (&front.store, &context.caller);
        let (source, target) = (self.source.clone(), self.target.clone());
        if let Node::Directory(_) = self.node {
            if depth == Depth::Zero {
                let copied = store.copy_dir(caller, &source, &target).await;
                copied.map_err(refused_target)?;
                return Ok(TreeReport::default());
            }
            let request = CopyTreeRequest {
                source,
                target,
                overwrite: self.overwrites,
            };
            return store
                .copy_tree(caller, request)
                .await
                .map_err(refused_target);
        }
        let request = CopyRequest {
            source,
            source_version: None,
            source_condition: ReadCondition::default(),
            target,
            attributes: VersionAttributes {
                archive_metadata: archive_metadata(context.headers())?,
                ..VersionAttributes::default()
            },
            replace_headers: false,
            checksum: None,
            condition: match self.overwrites {
                true => WriteCondition::NONE,
                false => WriteCondition::absent(),
            },
            hierarchy: Hierarchy::Strict,
            source_key: None,
            encryption: None,
            acl: None,
        };
        store.copy(caller, request).await.map_err(refused_target)?;
        Ok(TreeReport::default())
    }

    /// The answer: 201 for a new name, 204 for one that had something, 207 if a part failed.
    fn answer(&self, report: &TreeReport) -> Answer {
        if report.failed > 0 {
            return failures_answer(&self.source.bucket, report);
        }
        empty_answer(match self.replaced {
            Some(_) => StatusCode::NO_CONTENT,
            None => StatusCode::CREATED,
        })
    }
}

/// Refuses a target whose parent is missing, as RFC 4918 has it.
///
/// # Errors
/// 409.
pub(super) async fn check_parent(
    front: &Arc<WebDav>,
    context: &RequestContext,
    path: &ResourcePath,
) -> Result<()> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    let (store, caller) = (&front.store, &context.caller);
    let found = match PathTarget::parse(parent)? {
        PathTarget::Root => return Ok(()),
        PathTarget::Bucket(bucket) => store.stat_bucket(caller, &bucket).await,
        PathTarget::Object(object) => store.stat(caller, &object).await,
    };
    let conflict = || {
        let words = "The directory above the destination does not exist.";
        DavError::new(StatusCode::CONFLICT, words)
    };
    match found {
        Ok(Node::Directory(_)) => Ok(()),
        Ok(Node::File(..)) => Err(conflict()),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NoSuchBucket => Err(conflict()),
            // A caller who may write below it and not list it.
            ErrorKind::Denied => Ok(()),
            _ => Err(error.into()),
        },
    }
}
