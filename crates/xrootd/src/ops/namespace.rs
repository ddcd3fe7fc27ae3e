//! Names: looking up, making, removing and renaming them.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use dewar_store::api::{Emptiness, Overwrite, RenameNodeRequest};
use dewar_store::file::{MakeDirRequest, Node, NodeAttributes};
use dewar_types::{EntryId, Error, ErrorKind, Timestamp, UserId};
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
        extended: false,
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
        let room = context.door.store.usable_space();
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
    // A directory that is there is what was wanted; a file is not.
    let outcome = match &path.place {
        PathTarget::Root => Ok(()),
        PathTarget::Bucket(bucket) => match store.create_bucket(&caller, bucket).await {
            Err(error) if error.kind() == ErrorKind::AlreadyOwned => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let there = store.stat_bucket(&caller, bucket).await;
                there.map(drop).map_err(|_| error)
            }
            made => made.map(drop),
        },
        PathTarget::Object(object) => {
            let request = MakeDirRequest {
                directory: object.clone(),
                mode: u32::from(mode),
                parents,
                existing: true,
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
    outcome.map_err(failed("mkdir", &path))?;
    context.ok(Bytes::new()).await;
    Ok(())
}

/// Removes a file, or a directory in which nothing is: clients rely on the latter.
pub(super) async fn rm(context: &Context, sent: &str) -> VerbResult<()> {
    let path = context.path(sent)?;
    let object = path.object("rm")?;
    let caller = context.caller(&path).await?;
    let store = &context.door.store;
    let upload = context.removes.as_ref();
    let upload = upload.filter(|writer| writer.owner.account == caller.account());
    let kind = |removed: &Result<(), Error>| removed.as_ref().err().map(Error::kind);
    let mut removed = store.remove_file(&caller, object).await;
    if let Some(ErrorKind::IsADirectory | ErrorKind::NotFound) = kind(&removed) {
        // What is in it may be on its way out.
        context.wait_for_turn().await;
        removed = store.remove_file(&caller, object).await;
    }
    let has_left = |turn: &NameOpTicket| turn.has_left(&path.shown);
    match kind(&removed) {
        None => {
            if let Some(turn) = &context.turn {
                turn.removed(&path.shown);
            }
        }
        Some(ErrorKind::IsADirectory) => store
            .remove_dir(&caller, object)
            .await
            .map_err(failed("rm", &path))?,
        // It went with its last file, which this client removed.
        Some(ErrorKind::NotFound)
            if upload.is_some() || context.turn.as_ref().is_some_and(has_left) => {}
        Some(_) => removed.map_err(failed("rm", &path))?,
    }
    if let Some(writer) = upload {
        writer.remove();
    }
    context.ok(Bytes::new()).await;
    Ok(())
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
    let caller = context.caller(&source).await?;
    context.wait_for_turn().await;
    let request = RenameNodeRequest {
        source: old.clone(),
        target: new.clone(),
        overwrite: Overwrite::Files,
    };
    let renamed = context.door.store.rename_node(&caller, request).await;
    renamed.map_err(|error| match error.kind() {
        // These say something about the target.
        ErrorKind::IsADirectory | ErrorKind::NotADirectory => failed("mv to", &target)(error),
        _ => failed("mv", &source)(error),
    })?;
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
