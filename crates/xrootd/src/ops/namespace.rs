//! Names: looking up, making, removing and renaming them.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use dewar_store::api::{DeleteRequest, Emptiness, ObjectRef, RenameRequest, WriteCondition};
use dewar_store::file::{MakeDirRequest, Node, NodeAttributes};
use dewar_types::{EntryId, Error, ErrorKind, ObjectKey, Timestamp, UserId};
use dewar_xrootd_proto::options::{mkdir as bits, stat as stat_bits};
use dewar_xrootd_proto::reply::StatFlags;
use dewar_xrootd_proto::{ErrorCode, Request};

use super::stat_format::stat_text;
use super::{Context, failed};
use crate::door::Door;
use crate::error::{ErrorReply, VerbResult};
use crate::limits::LIST_PATHS_MAX;
use crate::path::{PathTarget, WirePath};
use crate::session::{NameOpTicket, Session, Writer};

/// What is above all buckets.
pub(super) fn root() -> Node {
    Node::Directory(NodeAttributes {
        id: EntryId(1),
        owner: UserId(0),
        mode: 0o755,
        modified: Timestamp(0),
        changed: Timestamp(0),
    })
}

/// What a path leads to.
pub(super) async fn stat_path(context: &Context, path: &WirePath, doing: &str) -> VerbResult<Node> {
    let caller = context.caller(path).await?;
    let store = &context.door.store;
    let found = match &path.place {
        PathTarget::Root => return Ok(root()),
        PathTarget::Bucket(bucket) => store.stat_bucket(&caller, bucket).await,
        PathTarget::Object(object) => store.stat(&caller, object).await,
    };
    found.map_err(failed(doing, path))
}

pub(super) async fn stat(context: &Context, sent: &str, options: u8) -> VerbResult<()> {
    let path = context.path(sent)?;
    if options & stat_bits::VFS != 0 {
        may_look(context, &path).await?;
        let room = super::query::room(context);
        let free = room.free >> 20;
        let used = match room.total {
            0 => 0,
            total => room.used().saturating_mul(100) / total,
        };
        context.text(&format!("1 {free} {used} 0 0 0")).await;
        return Ok(());
    }
    let node = stat_path(context, &path, "stat").await?;
    context.text(&stat_text(&node)).await;
    Ok(())
}

/// Whether this client is writing under a name that nobody sees yet.
async fn writes_there(context: &Context, path: &WirePath) -> VerbResult<bool> {
    let Some(writer) = context.session.writing(&path.shown) else {
        return Ok(false);
    };
    let caller = context.caller(path).await?;
    Ok(writer.owner.account == caller.account())
}

/// What a client is writing under the name that a request removes, at the moment when it comes: what is
/// begun later is not meant.
pub(crate) fn removes(door: &Door, session: &Session, request: &Request) -> Option<Arc<Writer>> {
    let Request::Rm { path } = request else {
        return None;
    };
    let path = WirePath::parse(path, &door.config.translations).ok()?;
    session.writing(&path.shown)
}

/// Refuses who may not list anything there. That there is nothing yet is no refusal.
async fn may_look(context: &Context, path: &WirePath) -> VerbResult<()> {
    let caller = context.caller(path).await?;
    let store = &context.door.store;
    let looked = match &path.place {
        PathTarget::Root => store.list_buckets(&caller, None, 1).await.map(|_| ()),
        PathTarget::Bucket(bucket) => store.stat_bucket(&caller, bucket).await.map(|_| ()),
        PathTarget::Object(object) => match store.stat(&caller, object).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            found => found.map(|_| ()),
        },
    };
    looked.map_err(failed("stat", path))
}

/// One byte for each path.
pub(super) async fn statx(context: &Context, paths: Vec<String>) -> VerbResult<()> {
    if paths.len() > LIST_PATHS_MAX {
        let message = format!("more than {LIST_PATHS_MAX} paths");
        return Err(ErrorReply::new(ErrorCode::ArgTooLong, message));
    }
    let mut flags = Vec::with_capacity(paths.len());
    for sent in paths {
        let path = context.path(&sent)?;
        let kind = match stat_path(context, &path, "stat").await? {
            Node::File(..) => StatFlags::default(),
            Node::Directory(_) => StatFlags::DIRECTORY,
        };
        flags.push(kind.0 as u8);
    }
    context.ok(Bytes::from(flags)).await;
    Ok(())
}

pub(super) async fn mkdir(context: &Context, sent: &str, options: u8, mode: u16) -> VerbResult<()> {
    let path = context.path(sent)?;
    let caller = context.caller(&path).await?;
    let store = &context.door.store;
    let parents = options & bits::PATH != 0;
    let outcome = match &path.place {
        PathTarget::Root => Ok(()),
        PathTarget::Bucket(bucket) => store.create_bucket(&caller, bucket).await.map(|_| ()),
        PathTarget::Object(object) => {
            let request = MakeDirRequest {
                directory: object.clone(),
                mode: u32::from(mode),
                parents,
            };
            let made = store.make_dir(&caller, request.clone()).await;
            match made {
                // The first directory of a path is a bucket.
                Err(error) if parents && error.kind() == ErrorKind::NoSuchBucket => {
                    store
                        .create_bucket(&caller, &object.bucket)
                        .await
                        .map_err(failed("mkdir", &path))?;
                    store.make_dir(&caller, request).await
                }
                made => made,
            }
        }
    };
    match outcome {
        // A directory that is there is what was wanted; a file is not.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::AlreadyExists | ErrorKind::AlreadyOwned
            ) && matches!(
                stat_path(context, &path, "mkdir").await,
                Ok(Node::Directory(_))
            ) => {}
        outcome => outcome.map_err(failed("mkdir", &path))?,
    }
    context.ok(Bytes::new()).await;
    Ok(())
}

/// Removes a file, or a directory in which nothing is: clients rely on the latter.
pub(super) async fn rm(context: &Context, sent: &str) -> VerbResult<()> {
    let path = context.path(sent)?;
    let object = path.object("rm")?;
    let caller = context.caller(&path).await?;
    let store = &context.door.store;
    let request = DeleteRequest {
        object: object.clone(),
        version: None,
        condition: WriteCondition::default(),
        bypass: false,
    };
    let upload = context.removes.as_ref();
    let upload = upload.filter(|writer| writer.owner.account == caller.account());
    let mut found = store.stat(&caller, object).await;
    let is_file = matches!(&found, Ok(Node::File(..)));
    let is_gone = |found: &Result<Node, Error>| {
        let error = found.as_ref().err();
        error.is_some_and(|error| error.kind() == ErrorKind::NotFound)
    };
    if !is_file && (found.is_ok() || is_gone(&found)) {
        // What is in it may be on its way out.
        context.wait_for_turn().await;
        found = store.stat(&caller, object).await;
    }
    let has_left = |turn: &NameOpTicket| turn.has_left(&path.shown);
    match found {
        Ok(Node::Directory(_)) => store
            .remove_dir(&caller, object)
            .await
            .map_err(failed("rm", &path))?,
        Ok(Node::File(..)) => {
            let deleted = store.delete(&caller, request).await;
            if !deleted.map_err(failed("rm", &path))?.existed {
                return Err(gone("rm", &path));
            }
            if let Some(turn) = &context.turn {
                turn.removed(&path.shown);
            }
        }
        // It went with its last file, which this client removed.
        Err(error)
            if error.kind() == ErrorKind::NotFound
                && (upload.is_some() || context.turn.as_ref().is_some_and(has_left)) => {}
        // Who may remove may not always look.
        Err(error) if error.kind() == ErrorKind::Denied => {
            let deleted = store.delete(&caller, request).await;
            if !deleted.map_err(failed("rm", &path))?.existed {
                return Err(gone("rm", &path));
            }
        }
        Err(error) => return Err(failed("rm", &path)(error)),
    }
    if let Some(writer) = upload {
        writer.remove();
    }
    context.ok(Bytes::new()).await;
    Ok(())
}

fn gone(doing: &str, path: &WirePath) -> ErrorReply {
    let message = format!(
        "Unable to {doing} {}; no such file or directory",
        path.shown
    );
    ErrorReply::new(ErrorCode::NotFound, message)
}

pub(super) async fn rmdir(context: &Context, sent: &str) -> VerbResult<()> {
    let path = context.path(sent)?;
    let caller = context.caller(&path).await?;
    let store = &context.door.store;
    context.wait_for_turn().await;
    let removed = match &path.place {
        PathTarget::Root => {
            let message = "Unable to rmdir /; it is the root";
            return Err(ErrorReply::new(ErrorCode::NotAuthorized, message));
        }
        PathTarget::Bucket(bucket) => store.delete_bucket(&caller, bucket, Emptiness::Bare).await,
        PathTarget::Object(object) => match store.remove_dir(&caller, object).await {
            // A directory that only its last file kept is gone with that; clients that remove trees
            // come for it all the same, and other servers take no offence either.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        },
    };
    removed.map_err(failed("rmdir", &path))?;
    context.ok(Bytes::new()).await;
    Ok(())
}

pub(super) async fn mv(context: &Context, from: &str, to: &str) -> VerbResult<()> {
    let (source, target) = (context.path(from)?, context.path(to)?);
    let (old, new) = (source.object("mv")?, target.object("mv")?);
    if old.bucket != new.bucket {
        let message = format!(
            "Unable to mv {}; {} is in another bucket",
            source.shown, target.shown
        );
        return Err(ErrorReply::new(ErrorCode::Unsupported, message));
    }
    let caller = context.caller(&source).await?;
    let store = &context.door.store;
    context.wait_for_turn().await;
    let directory = |key: &ObjectKey| {
        ObjectKey::new(&format!("{key}/"))
            .map_err(|error| ErrorReply::new(ErrorCode::ArgTooLong, error.to_string()))
    };
    let moved = store
        .stat(&caller, old)
        .await
        .map_err(failed("mv", &source))?;
    let there = store.stat(&caller, new).await;
    let (old_key, new_key) = match (&moved, &there) {
        (Node::Directory(_), Ok(Node::File(..))) => {
            let message = format!(
                "Unable to mv {}; {} is not a directory",
                source.shown, target.shown
            );
            return Err(ErrorReply::new(ErrorCode::FsError, message));
        }
        (Node::Directory(_), _) => (directory(&old.key)?, directory(&new.key)?),
        (Node::File(..), Ok(Node::Directory(_))) => {
            let message = format!(
                "Unable to mv {}; {} is a directory",
                source.shown, target.shown
            );
            return Err(ErrorReply::new(ErrorCode::IsDirectory, message));
        }
        (Node::File(..), _) => (old.key.clone(), new.key.clone()),
    };
    let request = RenameRequest {
        source: ObjectRef {
            bucket: old.bucket.clone(),
            key: old_key,
        },
        source_condition: WriteCondition::default(),
        target: new_key,
        condition: WriteCondition::default(),
    };
    let renamed = store.rename(&caller, request).await;
    renamed.map_err(failed("mv", &source))?;
    context.ok(Bytes::new()).await;
    Ok(())
}

/// Where a path is: here, as this client reached it.
pub(super) async fn locate(context: &Context, sent: &str) -> VerbResult<()> {
    // A star before a path asks for servers that could have it.
    if !sent.starts_with('*') {
        let path = context.path(sent)?;
        if let Err(refusal) = stat_path(context, &path, "locate").await
            && !(refusal.code == ErrorCode::NotFound && writes_there(context, &path).await?)
        {
            return Err(refusal);
        }
    }
    let server = context.peer.server;
    let address = match server.ip().to_canonical() {
        IpAddr::V4(address) => format!("[::{address}]:{}", server.port()),
        IpAddr::V6(address) => format!("[{address}]:{}", server.port()),
    };
    context.text(&format!("Sw{address}")).await;
    Ok(())
}
