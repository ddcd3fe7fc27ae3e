//! PROPFIND.
//!
//! The answer is written while it is sent: a page of names is in memory, and a piece of the document.
//! An error after the head breaks the connection off, so that no client takes a part for the whole.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use dewar_auth::Caller;
use dewar_http_front::Answer;
use dewar_store::api::{BucketRef, ObjectRef};
use dewar_store::file::{
    DirEntry, DirPage, LockScope, Node, NodeAttributes, PathTarget, ReadDirRequest,
};
use dewar_types::{BucketName, EntryId, Error, ErrorKind, ObjectKey, Timestamp, UserId};
use futures_util::{StreamExt as _, stream};
use http::StatusCode;

use super::browse::require_user;
use super::lock::push_active_lock;
use super::multistatus::{BEGIN, END, push_resource_status, streamed_answer, whole_answer};
use super::property::{PropertySelection, QuotaValues, Resource, dead_properties};
use crate::context::{Depth, RequestContext};
use crate::error::{DavError, Result, status_of};
use crate::front::WebDav;
use crate::limits::{
    DOCUMENT_BYTES_MAX, LIST_PAGE, PROPERTIES_MAX, PROPERTY_NAME_BYTES_MAX, WALK_DEPTH_MAX,
};
use crate::resource_path::has_path;
use crate::xml::{DAV, XmlElement, XmlName, push_href_element};

/// Bytes of the document that are sent at once, about.
const PIECE_BYTES: usize = 64 * 1024;

pub(super) async fn call(front: &Arc<WebDav>, context: &mut RequestContext) -> Result<Answer> {
    let depth = context.depth()?;
    let document = context.document(DOCUMENT_BYTES_MAX).await?;
    let selection = selection_of(&document)?;
    let node = lookup(front, context).await?;
    let is_directory = matches!(node, Node::Directory(_));
    if is_directory && depth == Depth::Infinity && !front.config.propfind_infinity {
        let words = "A PROPFIND of infinite depth is not allowed here.";
        let refusal = DavError::new(StatusCode::FORBIDDEN, words);
        return Err(refusal.precondition("propfind-finite-depth"));
    }
    let mut walk = Walk {
        front: Arc::clone(front),
        caller: context.caller.clone(),
        is_deep: depth == Depth::Infinity,
        with_locks: selection.has_locks() && front.store.has_locks(),
        open: Vec::new(),
        selection,
    };
    let path = &context.path;
    let mut text = String::from(BEGIN);
    let all = !matches!(walk.selection, PropertySelection::Named(_));
    let with_quota = is_directory && (walk.selection.names_quota() || all && depth == Depth::Zero);
    walk.push_response(&mut text, &path.text, &path.target, &node, with_quota)
        .await?;
    if is_directory && depth != Depth::Zero {
        walk.enter(path.text.clone(), path.target.clone());
    }
    // The first page is read before the head is sent, so that its errors have a status.
    walk.fill(&mut text).await?;
    if walk.open.is_empty() {
        text.push_str(END);
        return Ok(whole_answer(text));
    }
    let first = stream::iter([Ok(Bytes::from(text))]);
    let rest = stream::unfold(Some(walk), |walk| async {
        let mut walk = walk?;
        let mut text = String::new();
        if let Err(error) = walk.fill(&mut text).await {
            tracing::error!(%error, "a listing was cut short");
            return Some((Err(error), None));
        }
        if walk.open.is_empty() {
            text.push_str(END);
            return Some((Ok(Bytes::from(text)), None));
        }
        Some((Ok(Bytes::from(text)), Some(walk)))
    });

    Ok(streamed_answer(first.chain(rest)))
}

/// What the path of a request leads to.
pub(super) async fn lookup(front: &Arc<WebDav>, context: &RequestContext) -> Result<Node> {
    let (store, caller) = (&front.store, &context.caller);
    Ok(match &context.path.target {
        PathTarget::Root => {
            require_user(context)?;
            pseudo_directory(UserId(0), Timestamp(0))
        }
        PathTarget::Bucket(bucket) => store.stat_bucket(caller, bucket).await?,
        PathTarget::Object(object) => store.stat(caller, object).await?,
    })
}

/// The root, or a bucket in it.
fn pseudo_directory(owner: UserId, modified: Timestamp) -> Node {
    Node::Directory(NodeAttributes {
        id: EntryId(1),
        owner,
        mode: 0o755,
        modified,
        changed: modified,
        extended: false,
    })
}

/// The properties that a document asks for; all of them without a document.
fn selection_of(document: &[u8]) -> Result<PropertySelection> {
    if document.is_empty() {
        return Ok(PropertySelection::All(Vec::new()));
    }
    let refused = |words: &'static str| DavError::new(StatusCode::BAD_REQUEST, words);
    let root = XmlElement::parse(document)?;
    if !root.name.is(DAV, "propfind") {
        return Err(refused("The document is no propfind."));
    }
    let (all, names, named) = (root.dav("allprop"), root.dav("propname"), root.dav("prop"));
    match (all, names, named) {
        (Some(_), None, None) => {
            let include = root.dav("include").map(names_in).transpose()?;
            Ok(PropertySelection::All(include.unwrap_or_default()))
        }
        (None, Some(_), None) => Ok(PropertySelection::Names),
        (None, None, Some(named)) => Ok(PropertySelection::Named(names_in(named)?)),
        _ => Err(refused("A propfind has one of allprop, propname and prop.")),
    }
}

/// The names of the elements in an element, each once.
fn names_in(element: &XmlElement) -> Result<Vec<XmlName>> {
    let mut names: Vec<XmlName> = Vec::new();
    for XmlElement { name, .. } in element.elements() {
        check_name(name)?;
        if names.contains(name) {
            continue;
        }
        if names.len() == PROPERTIES_MAX {
            let words = format!("The request names more than {PROPERTIES_MAX} properties.");
            return Err(DavError::new(StatusCode::BAD_REQUEST, words));
        }
        names.push(name.clone());
    }
    Ok(names)
}

/// Refuses the name of a property that is too long.
///
/// # Errors
/// 400.
pub(super) fn check_name(name: &XmlName) -> Result<()> {
    if name.namespace.len() + name.local.len() <= PROPERTY_NAME_BYTES_MAX {
        return Ok(());
    }
    let words = "The name of a property is too long.";
    Err(DavError::new(StatusCode::BAD_REQUEST, words))
}

/// A directory whose names are being listed.
struct OpenDirectory {
    path: String,
    target: PathTarget,
    /// Names that were read and are not written yet.
    entries: VecDeque<DirEntry>,
    /// Whether names follow those read so far, and after which one.
    next: Option<Option<String>>,
}

/// A walk through one directory, or through all below it.
struct Walk {
    front: Arc<WebDav>,
    caller: Caller,
    selection: PropertySelection,
    is_deep: bool,
    /// Whether the locks of each name are looked up. Usually there is none at all.
    with_locks: bool,
    /// From the directory of the request to the one that is being listed.
    open: Vec<OpenDirectory>,
}

impl Walk {
    fn enter(&mut self, path: String, target: PathTarget) {
        self.open.push(OpenDirectory {
            path,
            target,
            entries: VecDeque::new(),
            next: Some(None),
        });
    }

    /// Appends the next piece of the document. At the end no directory is open any more.
    async fn fill(&mut self, out: &mut String) -> dewar_types::Result<()> {
        let full = out.len() + PIECE_BYTES;
        while out.len() < full {
            let depth = self.open.len();
            let Some(directory) = self.open.last_mut() else {
                return Ok(());
            };
            if let Some(entry) = directory.entries.pop_front() {
                let path = joined(&directory.path, &entry.name);
                let target = below(&directory.target, &entry.name);
                // A key that is too long has no path.
                let Ok(target) = target else {
                    continue;
                };
                let is_directory = matches!(entry.node, Node::Directory(_));
                let with_quota = is_directory && self.selection.names_quota();
                self.push_response(out, &path, &target, &entry.node, with_quota)
                    .await?;
                if is_directory && self.is_deep && depth < WALK_DEPTH_MAX {
                    self.enter(path, target);
                }
                continue;
            }
            let Some(after) = directory.next.take() else {
                self.open.pop();
                continue;
            };
            let page = read_page(
                &self.front,
                &self.caller,
                &directory.target,
                after,
                LIST_PAGE,
            );
            match page.await {
                Ok(page) => {
                    directory.next = page.next.map(Some);
                    directory.entries = page.entries.into();
                    directory.entries.retain(|entry| has_path(&entry.name));
                }
                // It went meanwhile.
                Err(error) if depth > 1 && error.kind() == ErrorKind::NotFound => {}
                Err(error) if depth > 1 && error.kind() == ErrorKind::Denied => {
                    let status = status_of(error.kind());
                    push_resource_status(out, &directory.path, true, status);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Appends the properties of a file or directory.
    async fn push_response(
        &self,
        out: &mut String,
        path: &str,
        target: &PathTarget,
        node: &Node,
        with_quota: bool,
    ) -> dewar_types::Result<()> {
        let mut dead = BTreeMap::new();
        if let PathTarget::Object(object) = target
            && node.attributes().extended
            && self.selection.has_dead()
        {
            let read = self.front.store.extended_attributes(&self.caller, object);
            match read.await {
                Ok(attributes) => dead = dead_properties(attributes),
                // It is gone, or the caller may list it and not read it.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Denied) => {}
                Err(error) => return Err(error),
            }
        }
        let mut locks = None;
        if let PathTarget::Object(object) = target {
            let mut text = String::new();
            if self.with_locks {
                let scope = LockScope::default();
                let found = self.front.store.locks(&self.caller, object, scope).await?;
                let now = self.front.env.clock.now();
                for lock in &found {
                    push_active_lock(&mut text, object, lock, now);
                }
            }
            locks = Some(text);
        }
        let quota = match with_quota {
            true => self.quota_at(target).await?,
            false => None,
        };
        let resource = Resource {
            path,
            node,
            quota,
            locks,
            dead,
        };
        out.push_str("<D:response>");
        push_href_element(out, path, matches!(node, Node::Directory(_)));
        self.selection.push_propstats(out, &resource);
        out.push_str("</D:response>\n");
        Ok(())
    }

    /// The bytes that the innermost quota of a directory counts and leaves, or without a quota its
    /// bucket's usage and the free space of the disks. Above the buckets, those of the disks, which
    /// XRootD tells too. `None` for callers who may not list the bucket.
    async fn quota_at(&self, target: &PathTarget) -> dewar_types::Result<Option<QuotaValues>> {
        let store = &self.front.store;
        let space = store.usable_space();
        let (bucket, key) = match target {
            PathTarget::Root => {
                return Ok(Some(QuotaValues {
                    used: space.used(),
                    available: space.free,
                }));
            }
            PathTarget::Bucket(bucket) => (bucket, None),
            PathTarget::Object(object) => (&object.bucket, Some(&object.key)),
        };
        let free = space.free;
        let values = match store.quota_at(&self.caller, bucket, key).await {
            Ok(Some(state)) => {
                let (max, used) = (state.quota.max_bytes, state.usage.bytes);
                let left = max.map(|max| max.saturating_sub(used));
                Ok(QuotaValues {
                    used,
                    available: left.map_or(free, |left| left.min(free)),
                })
            }
            Ok(None) => {
                let usage = store.bucket_usage(&self.caller, bucket).await;
                usage.map(|usage| QuotaValues {
                    used: usage.bytes,
                    available: free,
                })
            }
            Err(error) => Err(error),
        };
        match values {
            Ok(values) => Ok(Some(values)),
            Err(error) if error.kind() == ErrorKind::Denied => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A page of names in a directory, in a bucket or above the buckets.
pub(super) async fn read_page(
    front: &Arc<WebDav>,
    caller: &Caller,
    target: &PathTarget,
    after: Option<String>,
    max: usize,
) -> dewar_types::Result<DirPage> {
    let (bucket, directory) = match target {
        PathTarget::Root => {
            let after = after.and_then(|name| BucketName::new(&name).ok());
            let page = front.store.list_buckets(caller, after, max).await?;
            let entries = page.buckets.into_iter().map(|bucket| DirEntry {
                name: bucket.name.to_string(),
                node: pseudo_directory(bucket.owner, bucket.created),
            });
            return Ok(DirPage {
                entries: entries.collect(),
                next: page.next.map(|name| name.to_string()),
            });
        }
        PathTarget::Bucket(bucket) => (bucket, String::new()),
        PathTarget::Object(object) => (&object.bucket, object.key.as_str().to_owned()),
    };
    let request = ReadDirRequest {
        bucket: bucket.clone(),
        directory,
        after,
        max,
    };
    front.store.read_dir(caller, request).await
}

/// The path of a name in a directory.
pub(super) fn joined(path: &str, name: &str) -> String {
    format!("{}/{name}", path.trim_end_matches('/'))
}

/// The target of a name in a directory.
fn below(target: &PathTarget, name: &str) -> dewar_types::Result<PathTarget> {
    let object = |bucket: &BucketRef, key: &str| {
        Ok::<_, Error>(PathTarget::Object(ObjectRef {
            bucket: bucket.clone(),
            key: ObjectKey::new(key)?,
        }))
    };
    match target {
        PathTarget::Root => Ok(PathTarget::Bucket(BucketRef::own(BucketName::new(name)?))),
        PathTarget::Bucket(bucket) => object(bucket, name),
        PathTarget::Object(directory) => {
            object(&directory.bucket, &format!("{}/{name}", directory.key))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(body: &str) -> Option<PropertySelection> {
        let text = format!("<D:propfind xmlns:D='DAV:'>{body}</D:propfind>");
        selection_of(text.as_bytes()).ok()
    }

    #[test]
    fn documents_select_properties() {
        let length = XmlName::new("DAV:", "getcontentlength");
        let other = XmlName::new("urn:x", "y");
        assert_eq!(selection_of(b"").ok(), Some(PropertySelection::All(vec![])));
        assert_eq!(
            selection("<D:prop><D:getcontentlength/><y xmlns='urn:x'/><y xmlns='urn:x'/></D:prop>"),
            Some(PropertySelection::Named(vec![length.clone(), other]))
        );
        assert_eq!(
            selection("<D:allprop/><D:include><D:getcontentlength/></D:include>"),
            Some(PropertySelection::All(vec![length]))
        );
        assert_eq!(selection("<D:propname/>"), Some(PropertySelection::Names));
        for refused in ["", "<D:allprop/><D:propname/>", "<prop/>"] {
            assert_eq!(selection(refused), None, "{refused}");
        }
        let many: String = (0..=PROPERTIES_MAX).map(|n| format!("<p{n}/>")).collect();
        assert_eq!(selection(&format!("<D:prop>{many}</D:prop>")), None);
        assert!(selection_of(b"<D:propertyupdate xmlns:D='DAV:'/>").is_err());
    }
}
