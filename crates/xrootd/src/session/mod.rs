//! A session: the identity of a client, its open files, and the connections that are bound to it.
//!
//! It lives as long as its first connection. Handles are numbers of the session's own, so no other
//! session can name them.

mod budget;
pub(crate) mod id;
mod interrupted_files;
mod open_files;
mod ordering;
pub(crate) mod writer;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use dewar_types::{Timestamp, UserId};
use dewar_xrootd_proto::{ErrorCode, FileHandle, SessionId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) use budget::{Budget, BufferReservation};
pub(crate) use interrupted_files::{
    ClientFileKey, FileOwner, InterruptedFile, InterruptedFiles, InterruptedRead,
};
pub(crate) use open_files::{FileLease, LeasedFile, OpenFiles, Shortage};
pub(crate) use ordering::{NameOpOrder, NameOpTicket};
pub(crate) use writer::Writer;

use crate::callers::{Peer, Proof};
use crate::connection::ReplyWriter;
use crate::door::Door;
use crate::error::{ErrorReply, VerbResult};
use crate::limits::{BOUND_MAX, IN_BYTES_MAX, PIECE_BYTES_LEAST};
use crate::tpc::copy::Copy;
use crate::tpc::keys::KeyGuard;

/// An open file.
#[derive(Clone)]
pub(crate) enum Handle {
    /// For reading.
    Reader(Arc<Reader>),
    /// For writing, and for reading the present content meanwhile.
    Writer(Arc<Writer>),
    /// Fetched by this server.
    Copy(Arc<Copy>),
}

/// A file open for reading.
pub(crate) struct Reader {
    pub(crate) file: Arc<LeasedFile>,
    /// As it was opened, for messages.
    pub(crate) path: String,
    /// Who opened it.
    pub(crate) owner: FileOwner,
    /// The key that was left for a destination; it ends with this.
    pub(crate) left: Option<KeyGuard>,
    /// Its client said over another connection that this one broke, and reads on there.
    pub(crate) went_on: AtomicBool,
}

/// What a client says of itself at its login, before any proof.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientInfo {
    /// Its user and process, as third-party copies name clients: `user.pid`.
    pub(crate) name: String,
    /// Its host.
    pub(crate) host: Option<String>,
    /// It is of the reference implementation, whose clients open files anew when their connection breaks.
    pub(crate) comes_again: bool,
    /// Why it could not log in. Such a session is nobody's: clients show the error of a request, not that of
    /// a login, so each request is refused with this reason.
    pub(crate) refused: Option<String>,
}

/// A session.
pub(crate) struct Session {
    id: SessionId,
    /// None for a client that may only open files by a key.
    proof: Option<Proof>,
    claimed: ClientInfo,
    peer: Peer,
    files_max: usize,
    handles: Mutex<BTreeMap<u32, Handle>>,
    next: AtomicU32,
    /// Whether no more files may be opened. Changed and read under the lock of the handles.
    over: AtomicBool,
    /// The reply writers by number: 0 is the first connection's.
    outlets: Mutex<[Option<ReplyWriter>; BOUND_MAX + 1]>,
    /// Room for what is written and the disks have not taken.
    pub(crate) room: Budget,
    /// What changes names.
    pub(crate) names: Arc<NameOpOrder>,
    /// Bytes are cloned by one request at a time.
    pub(crate) clones: tokio::sync::Mutex<()>,
    /// Start of the session that the client says it had before this one, if this server knows
    /// nothing of it.
    former: OnceLock<Timestamp>,
    /// Files were closed.
    closed: Notify,
    /// Ends the session's connections.
    cut: CancellationToken,
}

impl Session {
    pub(crate) fn new(
        id: SessionId,
        (proof, claimed): (Option<Proof>, ClientInfo),
        peer: Peer,
        door: &Door,
        outlet: &ReplyWriter,
        cut: &CancellationToken,
    ) -> Arc<Self> {
        let mut outlets: [Option<ReplyWriter>; BOUND_MAX + 1] = Default::default();
        outlets[0] = Some(outlet.clone());
        Arc::new(Self {
            id,
            proof,
            claimed,
            peer,
            files_max: door.config.limits.files_max,
            handles: Mutex::default(),
            // 0 would be as good, but clients print it as if there was none.
            next: AtomicU32::new(1),
            over: AtomicBool::new(false),
            outlets: Mutex::new(outlets),
            room: Budget::new(IN_BYTES_MAX, PIECE_BYTES_LEAST, Arc::clone(&door.room_in)),
            names: Arc::default(),
            clones: tokio::sync::Mutex::default(),
            former: OnceLock::new(),
            closed: Notify::new(),
            cut: cut.clone(),
        })
    }

    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) fn proof(&self) -> Option<&Proof> {
        self.proof.as_ref()
    }

    pub(crate) fn claimed(&self) -> &ClientInfo {
        &self.claimed
    }

    /// The client had another session before, which began then and of which this server knows nothing.
    pub(crate) fn had_before(&self, began: Timestamp) {
        let _ = self.former.set(began);
    }

    /// See [`Self::had_before`].
    pub(crate) fn former(&self) -> Option<Timestamp> {
        self.former.get().copied()
    }

    /// What this client is writing under that path.
    pub(crate) fn writing(&self, path: &str) -> Option<Arc<Writer>> {
        let handles = self.handles.lock();
        handles.values().find_map(|handle| match handle {
            Handle::Writer(writer) if writer.path == path && !writer.is_removed() => {
                Some(Arc::clone(writer))
            }
            _ => None,
        })
    }

    /// A change begins to come of what this user is writing under that path, if it is; as [`Self::begin`].
    pub(crate) fn begin_at(&self, path: &str, owner: UserId) -> Option<writer::PendingWrite> {
        let handles = self.handles.lock();
        let writer = handles.values().find_map(|handle| match handle {
            Handle::Writer(writer)
                if writer.path == path && writer.owner.account == owner && !writer.is_removed() =>
            {
                Some(writer)
            }
            _ => None,
        });
        let begun = writer.map(Writer::begin);
        drop(handles);
        begun
    }

    /// A file that is open for reading under that path.
    pub(crate) fn reader_of(&self, path: &str) -> Option<Arc<Reader>> {
        self.handles
            .lock()
            .values()
            .find_map(|handle| match handle {
                Handle::Reader(reader) if reader.path == path => Some(Arc::clone(reader)),
                _ => None,
            })
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Takes a file in.
    ///
    /// # Errors
    /// Too many are open, or the session is over.
    pub(crate) fn admit(&self, handle: Handle) -> VerbResult<FileHandle> {
        let mut handles = self.handles.lock();
        if self.over.load(Relaxed) {
            let message = "The session is over";
            return Err(ErrorReply::new(ErrorCode::Cancelled, message));
        }
        if handles.len() >= self.files_max {
            let message = format!("{} files are open, more are not allowed", handles.len());
            return Err(ErrorReply::new(ErrorCode::NoMemory, message));
        }
        loop {
            let number = self.next.fetch_add(1, Relaxed);
            if number != 0 && !handles.contains_key(&number) {
                handles.insert(number, handle);
                return Ok(FileHandle::new(number));
            }
        }
    }

    /// An open file.
    ///
    /// # Errors
    /// 3004 for what is none.
    pub(crate) fn handle(&self, handle: FileHandle, doing: &str) -> VerbResult<Handle> {
        let found = self.handles.lock().get(&handle.number()).cloned();
        found.ok_or_else(|| not_open(doing))
    }

    /// A file that is open for writing.
    ///
    /// # Errors
    /// 3004 for what is none, or is open for reading.
    pub(crate) fn writer(&self, handle: FileHandle, doing: &str) -> VerbResult<Arc<Writer>> {
        writer_of(self.handle(handle, doing)?, doing)
    }

    /// A change of a file begins to come; a close that takes the file out later waits for it.
    ///
    /// # Errors
    /// As [`Self::writer`].
    pub(crate) fn begin(
        &self,
        handle: FileHandle,
        doing: &str,
    ) -> VerbResult<writer::PendingWrite> {
        let handles = self.handles.lock();
        let found = handles.get(&handle.number()).cloned();
        let writer = writer_of(found.ok_or_else(|| not_open(doing))?, doing)?;
        let begun = writer.begin();
        drop(handles);
        Ok(begun)
    }

    /// Takes a file out.
    ///
    /// # Errors
    /// 3004 for what is none.
    pub(crate) fn release(&self, handle: FileHandle) -> VerbResult<Handle> {
        let found = self.handles.lock().remove(&handle.number());
        self.closed.notify_waiters();
        found.ok_or_else(|| not_open("close"))
    }

    /// Returns when no file is open.
    pub(crate) async fn all_closed(&self) {
        loop {
            let closed = self.closed.notified();
            if self.handles.lock().is_empty() {
                return;
            }
            closed.await;
        }
    }

    /// The way out of a number.
    pub(crate) fn outlet(&self, number: u8) -> Option<ReplyWriter> {
        self.outlets.lock().get(usize::from(number))?.clone()
    }

    /// Binds a connection; it ends with the session.
    pub(crate) fn bind(&self, outlet: &ReplyWriter, cut: &CancellationToken) -> Option<u8> {
        if self.cut.is_cancelled() {
            return None;
        }
        let mut outlets = self.outlets.lock();
        let free = outlets.iter().position(Option::is_none)?;
        outlets[free] = Some(outlet.clone());
        drop(outlets);
        let (session, bound) = (self.cut.clone(), cut.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = bound.cancelled() => {}
                () = session.cancelled() => bound.cancel(),
            }
        });
        u8::try_from(free).ok()
    }

    /// A bound connection has ended.
    pub(crate) fn unbind(&self, outlet: &ReplyWriter) {
        for bound in self.outlets.lock().iter_mut() {
            if bound.as_ref().is_some_and(|bound| bound.is(outlet)) {
                *bound = None;
            }
        }
    }

    /// Whose a file is that this client has open.
    pub(crate) fn whose(&self, path: &str, owner: &FileOwner) -> ClientFileKey {
        ClientFileKey {
            path: path.to_owned(),
            owner: owner.clone(),
            client: self.claimed.clone(),
            address: self.peer.client.ip().to_canonical(),
        }
    }

    /// What it reads under that name.
    pub(crate) fn reads(&self, whose: &ClientFileKey) -> Vec<Arc<Reader>> {
        let handles = self.handles.lock();
        let readers = handles.values().filter_map(|handle| match handle {
            Handle::Reader(reader) if !reader.went_on.load(Relaxed) => Some(reader),
            Handle::Reader(_) | Handle::Writer(_) | Handle::Copy(_) => None,
        });
        readers
            .filter(|reader| self.whose(&reader.path, &reader.owner) == *whose)
            .map(Arc::clone)
            .collect()
    }

    /// Nobody goes on with what is being written under that name.
    pub(crate) fn give_up(&self, whose: &ClientFileKey) {
        for handle in self.handles.lock().values() {
            if let Handle::Writer(writer) = handle
                && self.whose(&writer.path, &writer.owner) == *whose
            {
                writer.given_up.store(true, Relaxed);
            }
        }
    }

    /// That one, if it is open here.
    pub(crate) fn upload(&self, whose: &ClientFileKey) -> Option<Arc<Writer>> {
        let handles = self.handles.lock();
        handles.values().find_map(|handle| match handle {
            Handle::Writer(writer)
                if !writer.given_up.load(Relaxed)
                    && !writer.is_removed()
                    && self.whose(&writer.path, &writer.owner) == *whose =>
            {
                Some(Arc::clone(writer))
            }
            Handle::Writer(_) | Handle::Reader(_) | Handle::Copy(_) => None,
        })
    }

    /// Parks the open files, so that the client can continue over another connection.
    pub(crate) fn park_files(&self, interrupted: &InterruptedFiles) {
        // At one moment: who looks for one here and then there must not miss it.
        let mut handles = self.handles.lock();
        self.over.store(true, Relaxed);
        handles.retain(|_, handle| match handle {
            Handle::Writer(writer) if self.claimed.comes_again => {
                if !writer.given_up.load(Relaxed) && !writer.is_removed() {
                    let whose = self.whose(&writer.path, &writer.owner);
                    interrupted.park(whose, InterruptedFile::Upload(Arc::clone(writer)));
                }
                false
            }
            Handle::Reader(reader) if reader.left.is_none() && self.claimed.comes_again => {
                if !reader.went_on.load(Relaxed) {
                    let whose = self.whose(&reader.path, &reader.owner);
                    let read = (reader.file.info.version, Some(Arc::clone(&reader.file)));
                    interrupted.park(whose, InterruptedFile::Read(read));
                }
                false
            }
            Handle::Reader(_) | Handle::Writer(_) | Handle::Copy(_) => true,
        });
    }

    /// The session is over: what is open is closed, and what was being written was never there.
    pub(crate) fn end(&self) {
        self.cut.cancel();
        self.finish();
    }

    /// The same, but what was answered still leaves; its first connection cuts it then.
    pub(crate) fn finish(&self) {
        let mut handles = self.handles.lock();
        self.over.store(true, Relaxed);
        handles.clear();
        drop(handles);
        self.closed.notify_waiters();
        *self.outlets.lock() = Default::default();
    }
}

fn writer_of(handle: Handle, doing: &str) -> VerbResult<Arc<Writer>> {
    match handle {
        Handle::Writer(writer) => Ok(writer),
        Handle::Copy(copy) => Err(copied(doing, &copy)),
        Handle::Reader(reader) => {
            let message = format!("Unable to {doing} {}; it is open for reading", reader.path);
            Err(ErrorReply::new(ErrorCode::FileNotOpen, message))
        }
    }
}

/// For what cannot be done with a file that this server fetches itself.
pub(crate) fn copied(doing: &str, copy: &Copy) -> ErrorReply {
    let path = &copy.writer.path;
    let message = format!("Unable to {doing} {path}; it comes by a third-party copy");
    ErrorReply::new(ErrorCode::InvalidRequest, message)
}

fn not_open(doing: &str) -> ErrorReply {
    let message = format!("{doing} does not refer to an open file");
    ErrorReply::new(ErrorCode::FileNotOpen, message)
}
