//! Opening and closing files, and requests on open files other than reading and writing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::Caller;
use dewar_checksum::AlgorithmSet;
use dewar_env::BoxFuture;
use dewar_store::ContentReader;
use dewar_store::api::{ExpectedContent, GetRequest, WriteMode, WriteRequest};
use dewar_xrootd_proto::options::{open as bits, open_more};
use dewar_xrootd_proto::reply::{CheckpointSpace, OpenReply};
use dewar_xrootd_proto::request::{Checkpoint, HandleOrPath, Open};
use dewar_xrootd_proto::{ErrorCode, FileHandle, Request};

use super::stat_format::{CHECKSUMS, file_flags, pending_text, text};
use super::{Context, clone, failed, third_party};
use crate::error::{ErrorReply, VerbResult};
use crate::limits::{FILE_LATER, OPEN_LATER};
use crate::path::{PathTarget, WirePath};
use crate::session::writer::{CheckpointAction, QueuedOp};
use crate::session::{
    ClientFileKey, FileOwner, Handle, InterruptedFile, LeasedFile, Reader, Session, Shortage,
    Writer,
};
use crate::tpc::fair_share::ShareOwner;

pub(super) async fn open(context: &Context, open: Open) -> VerbResult<()> {
    if context.stopping {
        return Err(ErrorReply::later(OPEN_LATER, "the server stops"));
    }
    let path = context.path(&open.path)?;
    let want_stat =
        open.options & bits::RETSTAT != 0 || open.options_more & open_more::RETSTATX != 0;
    let (handle, stat) = if open.writes() {
        open_for_writing(context, &open, &path).await?
    } else {
        open_for_reading(context, &open, &path).await?
    };
    let reply = OpenReply {
        handle,
        stat: want_stat.then_some(stat),
    };
    context.ok(reply.encode()).await;
    Ok(())
}

/// Has the client ask again for a file, because its account or all of them hold too much.
fn file_later(shortage: Shortage, path: &WirePath) -> ErrorReply {
    let why = match shortage {
        Shortage::Writers(count) => {
            format!(
                "{}: the account writes {count} files, more are not allowed",
                path.shown
            )
        }
        Shortage::Memory => format!("{}: too little memory is free for open files", path.shown),
    };
    ErrorReply::later(FILE_LATER, &why)
}

async fn open_for_reading(
    context: &Context,
    open: &Open,
    path: &WirePath,
) -> VerbResult<(FileHandle, String)> {
    let object = path.object("open")?;
    let third_party = third_party::reading(context, path).await?;
    let caller = third_party.caller.clone();
    let store = &context.door.store;
    let opened = store.open_file(&caller, GetRequest::whole(object.clone()));
    let file = opened.await.map_err(failed("open", path))?;
    let left = third_party.leave(context).await?;
    let open_files = &context.door.open_files;
    let lease = open_files.reader(&ShareOwner::of(&caller), file.memory_bytes());
    let lease = lease.map_err(|shortage| file_later(shortage, path))?;
    let mut file = Arc::new(LeasedFile::new(file, lease));
    let mut reads_on = None;
    if is_anew(open) && context.session.claimed().comes_again {
        let whose = context.session.whose(&path.shown, &FileOwner::of(&caller));
        file = version_before_reconnect(context, path, &whose, file)?;
        reads_on = Some((whose, file.info.version));
    }
    let stat = text(
        &file.attributes,
        file_flags(),
        file.info.size,
        file.info.content_modified(),
    );
    let handle = context.session.admit(Handle::Reader(Arc::new(Reader {
        file,
        path: path.shown.clone(),
        owner: FileOwner::of(&caller),
        left,
        went_on: AtomicBool::new(false),
    })))?;
    if let Some((whose, version)) = reads_on {
        context.door.forget_read(&whose, version, &context.session);
    }
    Ok((handle, stat))
}

/// Whether a client opens a file by itself whose connection broke, to go on where it was: when somebody asks for
/// a file, clients of the reference implementation want both.
fn is_anew(open: &Open) -> bool {
    open.options & (bits::ASYNC | bits::RETSTAT) == 0
}

/// The version that a client had before its connection broke: without a word to who uses it, it reads on where it
/// was.
///
/// # Errors
/// 3003 where it is known to have been another, and is gone.
fn version_before_reconnect(
    context: &Context,
    path: &WirePath,
    whose: &ClientFileKey,
    now: Arc<LeasedFile>,
) -> VerbResult<Arc<LeasedFile>> {
    let before = context.door.interrupted_reads(whose, &context.session);
    let version = now.info.version;
    let is_another = match &before[..] {
        [] => may_be_replaced(context, &now),
        before => before.iter().any(|(before, _)| *before != version),
    };
    if !is_another {
        return Ok(now);
    }
    let [first, rest @ ..] = &before[..] else {
        return Err(read_anew(path));
    };
    // Of several files of this client nobody knows which is meant.
    if rest.iter().all(|(version, _)| *version == first.0) {
        if let Some(file) = before.iter().find_map(|(_, file)| file.clone()) {
            return Ok(file);
        }
        context.door.forget_read(whose, first.0, &context.session);
    }
    Err(read_anew(path))
}

fn read_anew(path: &WirePath) -> ErrorReply {
    let message = format!(
        "Unable to open {}; it was replaced while the connection was broken: read it anew",
        path.shown
    );
    ErrorReply::new(ErrorCode::FileLocked, message)
}

/// Whether a version may not be the one that a client had open whose session began at a server that does not run any
/// more: it is younger than this one, or took the place of another since that session began. Other clients lost no
/// connection: their process was forked, or another server sent them.
fn may_be_replaced(context: &Context, now: &ContentReader) -> bool {
    let since = context.door.since;
    let former = context.session.former();
    former.filter(|began| *began < since).is_some_and(|began| {
        // What was renamed is older than its name.
        let changed = now.info.modified.max(now.attributes.changed);
        now.info.modified >= since || (now.info.replaces && changed >= began)
    })
}

async fn open_for_writing(
    context: &Context,
    open: &Open,
    path: &WirePath,
) -> VerbResult<(FileHandle, String)> {
    let object = path.object("open")?;
    let caller = context.caller(path).await?;
    let mode = if open.options & bits::NEW != 0 {
        WriteMode::New
    } else if open.options & bits::DELETE != 0 {
        WriteMode::Replace
    } else {
        WriteMode::Update
    };
    if path.of_directory {
        let message = format!("Unable to open {}/; is a directory", path.shown);
        return Err(ErrorReply::new(ErrorCode::IsDirectory, message));
    }
    let whose = context.session.whose(&path.shown, &FileOwner::of(&caller));
    if mode == WriteMode::Update && is_anew(open) && whose.client.comes_again {
        return resume(context, path, &caller, &whose).await;
    }
    let fetch = third_party::writing(context, path)?;
    let cgi = path.cgi();
    let announced = cgi.get("oss.asize").and_then(|size| size.parse().ok());
    let wanted = cgi.get("cks.type").unwrap_or_default();
    let want = CHECKSUMS
        .iter()
        .filter(|(name, _)| wanted.split(',').any(|its| its.eq_ignore_ascii_case(name)))
        .fold(AlgorithmSet::EMPTY, |set, (_, algorithm)| {
            set.with(*algorithm)
        });
    // Who makes a file can always read and write it.
    let permissions = u32::from(open.mode & 0o777 | 0o600);
    let write = WriteRequest {
        size: announced.filter(|_| mode != WriteMode::Update),
        want,
        permissions,
        ..WriteRequest::file(object.clone(), mode)
    };
    let store = &context.door.store;
    // Before anything is held.
    let foreseen = store.writer_memory_bytes(write.size);
    let lease = context
        .door
        .open_files
        .writer(&ShareOwner::of(&caller), foreseen);
    let mut lease = lease.map_err(|shortage| file_later(shortage, path))?;
    let content = store.write(&caller, write.clone()).await;
    let content = content.map_err(failed("open", path))?;
    if let Some(fetch) = &fetch {
        third_party::judge(context, path, fetch).await?;
    }
    // What is revised may lie in many pieces.
    let grown = lease.grow(content.memory_bytes(), Duration::ZERO).await;
    grown.map_err(|shortage| file_later(shortage, path))?;
    let owner = FileOwner::of(&caller);
    let held = (content, lease);
    let writer = Writer::start(held, path.shown.clone(), write, announced, owner);
    if open.options_more & open_more::DUP != 0 {
        clone::whole(&context.session, open.template, &writer).await?;
    }
    let stat = pending_text(&writer, context.door.env.clock.now());
    context.door.writes_anew(&whose, &context.session);
    let handle = context.session.admit(match fetch {
        Some(fetch) => Handle::Copy(third_party::copy(context, &caller, fetch, writer).await),
        None => Handle::Writer(writer),
    })?;
    Ok((handle, stat))
}

/// Gives a client whose connection broke the upload with which it goes on.
///
/// # Errors
/// 3003 where there is none: what was written is gone then, and the file would be a mixture of it and of what
/// was there before. As for any file, if this client may not write it any more.
async fn resume(
    context: &Context,
    path: &WirePath,
    caller: &Caller,
    whose: &ClientFileKey,
) -> VerbResult<(FileHandle, String)> {
    let gone = || {
        let message = format!(
            "Unable to open {}; what was written before the connection broke is gone: write it anew",
            path.shown
        );
        ErrorReply::new(ErrorCode::FileLocked, message)
    };
    let found = context.door.upload_of(whose, &context.session);
    let asked = found.ok_or_else(gone)?.asked.clone();
    // With what it shows now, and before anything becomes of who has it open.
    let allowed = context.door.store.authorize_write(caller, &asked);
    allowed.await.map_err(failed("open", path))?;
    let found = context.door.upload_at_rest(whose, &context.session).await;
    let writer = found.ok_or_else(gone)?;
    let interrupted = &context.door.interrupted;
    // Without a pause up to the session: what it has it leaves when it ends.
    if !interrupted.claim(&writer) {
        return Err(gone());
    }
    let admitted = context.session.admit(Handle::Writer(Arc::clone(&writer)));
    let handle = admitted.inspect_err(|_| {
        let upload = InterruptedFile::Upload(Arc::clone(&writer));
        interrupted.park(whose.clone(), upload);
    })?;
    // Before the client learns how to name it.
    let told = writer.goes_on().await;
    told.inspect_err(|_| drop(context.session.release(handle)))?;
    tracing::debug!(path = path.shown, client = %context.peer.client, "an upload goes on");
    let stat = pending_text(&writer, context.door.env.clock.now());
    Ok((handle, stat))
}

/// What becomes of a change of an open file that has its place: the answer's body.
pub(crate) type QueuedChange = BoxFuture<'static, VerbResult<Bytes>>;

/// Gives what changes an open file its place among what was sent before and what comes next, if a
/// request is that: a truncate that overtook a write would not cut what it should.
pub(crate) async fn enqueue_change(
    session: &Arc<Session>,
    request: &Request,
) -> Option<QueuedChange> {
    match request {
        Request::Close { handle } => Some(close(Arc::clone(session), *handle)),
        Request::Sync { handle } => match session.writer(*handle, "sync") {
            Ok(writer) => Some(done(writer.sync().await)),
            // There is nothing to wait for, or another file to be fetched.
            Err(_) => None,
        },
        Request::Truncate {
            target: HandleOrPath::Handle(handle),
            size,
        } => Some(
            match length(*size).and_then(|size| Ok((session.begin(*handle, "truncate")?, size))) {
                Ok((change, size)) => {
                    let told = change.writer.truncate(size).await;
                    change.came();
                    done(told)
                }
                Err(refusal) => Box::pin(std::future::ready(Err(refusal))),
            },
        ),
        Request::Clone { handle, items } => Some(clone::enqueue_change(session, *handle, items)),
        Request::Chkpoint { handle, action } => Some(checkpoint(session, *handle, action).await),
        _ => None,
    }
}

fn done(told: QueuedOp<()>) -> QueuedChange {
    Box::pin(async move { told.wait().await.map(|()| Bytes::new()) })
}

/// What was written before is waited for. Its turn comes with that of reads that were sent before it,
/// which find the file by its handle.
fn close(session: Arc<Session>, handle: FileHandle) -> QueuedChange {
    Box::pin(async move {
        match session.release(handle)? {
            Handle::Writer(writer) if writer.is_removed() => {}
            Handle::Writer(writer) => {
                writer.commit(writer.announced).await?;
            }
            Handle::Copy(copy) => copy.commit().await?,
            Handle::Reader(_) => {}
        }
        Ok(Bytes::new())
    })
}

/// Waits for what was written; the connection did for files that clients write. It becomes durable
/// with the version, when the file is closed.
pub(super) async fn sync(context: &Context, handle: FileHandle) -> VerbResult<()> {
    match context.session.handle(handle, "sync")? {
        Handle::Copy(copy) => return third_party::sync(context, copy).await,
        Handle::Writer(_) | Handle::Reader(_) => {}
    }
    context.ok(Bytes::new()).await;
    Ok(())
}

fn length(size: i64) -> VerbResult<u64> {
    u64::try_from(size)
        .map_err(|_| ErrorReply::new(ErrorCode::ArgInvalid, "Truncate size is negative"))
}

/// Of what a path names.
pub(super) async fn truncate(context: &Context, sent: &str, size: i64) -> VerbResult<()> {
    let size = length(size)?;
    let path = context.path(sent)?;
    let object = path.object("truncate")?;
    let caller = context.caller(&path).await?;
    // What this client writes there is as long as it says, and not what others see yet.
    if let Some(change) = context.session.begin_at(&path.shown, caller.account()) {
        let told = change.writer.truncate(size).await;
        change.came();
        told.wait().await?;
        context.ok(Bytes::new()).await;
        return Ok(());
    }
    let write = WriteRequest::file(object.clone(), WriteMode::Update);
    let content = context.door.store.write(&caller, write).await;
    let mut content = content.map_err(failed("truncate", &path))?;
    content.truncate(size).map_err(failed("truncate", &path))?;
    let done = content.commit(ExpectedContent::default()).await;
    done.map_err(failed("truncate", &path))?;
    context.ok(Bytes::new()).await;
    Ok(())
}

/// Changes that come about together or not at all. They are seen with the version, when the file is
/// closed; until then they can be undone. There is no limit to how much may change.
async fn checkpoint(session: &Session, handle: FileHandle, action: &Checkpoint) -> QueuedChange {
    let turn = match action {
        Checkpoint::Begin => CheckpointAction::Begin,
        Checkpoint::Commit => CheckpointAction::Commit,
        Checkpoint::Query => CheckpointAction::Query,
        Checkpoint::Rollback => CheckpointAction::Rollback,
        // The connection took it itself.
        Checkpoint::Execute(_) => {
            let refusal = ErrorReply::new(ErrorCode::InvalidRequest, "Invalid request");
            return Box::pin(std::future::ready(Err(refusal)));
        }
    };
    let change = match session.begin(handle, "checkpoint") {
        Ok(change) => change,
        Err(refusal) => return Box::pin(std::future::ready(Err(refusal))),
    };
    let told = change.writer.checkpoint(turn).await;
    change.came();
    Box::pin(async move {
        let used = told.wait().await?;
        Ok(match turn {
            CheckpointAction::Query => CheckpointSpace {
                max: u32::MAX,
                used: u32::try_from(used).unwrap_or(u32::MAX),
            }
            .encode(),
            CheckpointAction::Begin
            | CheckpointAction::Commit
            | CheckpointAction::Keep
            | CheckpointAction::Rollback => Bytes::new(),
        })
    })
}

pub(super) async fn stat(context: &Context, handle: FileHandle) -> VerbResult<()> {
    let line = match context.session.handle(handle, "stat")? {
        Handle::Reader(reader) => {
            let info = &reader.file.info;
            text(
                &reader.file.attributes,
                file_flags(),
                info.size,
                info.content_modified(),
            )
        }
        Handle::Writer(writer) => pending_text(&writer, context.door.env.clock.now()),
        Handle::Copy(copy) => pending_text(&copy.writer, context.door.env.clock.now()),
    };
    context.text(&line).await;
    Ok(())
}

/// Whether a path means the root or a bucket.
pub(super) fn is_above_objects(path: &WirePath) -> bool {
    matches!(path.place, PathTarget::Root | PathTarget::Bucket(_))
}
