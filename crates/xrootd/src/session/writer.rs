//! A file that is being written. One task owns it, and processes its requests in the order of their
//! arrival.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use dewar_store::api::{ExpectedContent, ObjectInfo, WriteRequest};
use dewar_store::file::{AttributeChange, ChecksummedBytes};
use dewar_store::{ContentWriter, Snapshot};
use dewar_types::{ByteRange, Error, ErrorKind};
use dewar_xrootd_proto::ErrorCode;
use dewar_xrootd_proto::limits::BAD_PAGES_PER_FILE_MAX;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::{BufferReservation, FileLease, FileOwner};
use crate::connection::{PendingRequest, ReplyWriter};
use crate::error::{ErrorReply, VerbResult};
use crate::limits::{FILE_LATER, GROWTH_TIME, OPS_MAX, TAKE_OVER_TIME};

/// Extended attributes of a file.
pub(crate) type ExtendedAttributes = BTreeMap<String, Bytes>;

/// What the task is asked to do.
enum Op {
    Data {
        offset: u64,
        bytes: ChecksummedBytes,
        share: BufferReservation,
        ending: Arc<WriteCompletion>,
    },
    Done(Arc<WriteCompletion>),
    Put(u64, ChecksummedBytes, oneshot::Sender<VerbResult<()>>),
    Read(ByteRange, oneshot::Sender<VerbResult<Bytes>>),
    Truncate(u64, oneshot::Sender<VerbResult<()>>),
    Sync(oneshot::Sender<VerbResult<()>>),
    Attributes(
        AttributeChange,
        oneshot::Sender<Result<ExtendedAttributes, Error>>,
    ),
    Checkpoint(CheckpointAction, oneshot::Sender<VerbResult<u64>>),
    GoesOn,
    Commit(Option<u64>, oneshot::Sender<VerbResult<ObjectInfo>>),
}

/// What becomes of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckpointAction {
    /// The file as it is now is remembered.
    Begin,
    /// Keeps the changes since the beginning of the checkpoint.
    Commit,
    /// Nothing becomes of it; how many bytes were written since then.
    Query,
    /// Nothing becomes of it; there must be one.
    Keep,
    /// Undoes the changes since the beginning of the checkpoint.
    Rollback,
}

/// A file open for writing.
pub(crate) struct Writer {
    /// As it was opened, for messages.
    pub(crate) path: String,
    /// What was asked for when it was opened.
    pub(crate) asked: WriteRequest,
    /// Bytes that the client said there would be.
    pub(crate) announced: Option<u64>,
    /// Permission bits that it will have.
    pub(crate) permissions: u32,
    /// Who opened it, and whose it will be.
    pub(crate) owner: FileOwner,
    /// Its client began anew over another connection and will not go on with this one.
    pub(crate) given_up: AtomicBool,
    /// Whether its client removed the name meanwhile; the file is then discarded.
    removed: AtomicBool,
    /// Bytes of the file as it is now.
    size: Arc<AtomicU64>,
    ops: mpsc::Sender<Op>,
    /// Writes whose bytes are still coming.
    coming: watch::Sender<PendingWrites>,
    /// Pages that arrived damaged and were not sent again: start and length in bytes.
    bad: Mutex<BTreeMap<u64, usize>>,
}

/// Writes whose bytes are still coming from clients.
#[derive(Clone, Copy, Debug, Default)]
struct PendingWrites {
    now: usize,
    /// Writes whose client went before all of their bytes were there.
    broken_off: u64,
}

/// A change that is coming: a close waits for it, and who goes on over another connection.
pub(crate) struct PendingWrite {
    pub(crate) writer: Arc<Writer>,
    whole: bool,
}

impl PendingWrite {
    /// Everything came: what it is made of stands in the file's queue, its end too.
    pub(crate) fn came(mut self) {
        self.whole = true;
    }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        let broken_off = u64::from(!self.whole);
        self.writer.coming.send_modify(|coming| {
            coming.now -= 1;
            coming.broken_off += broken_off;
        });
    }
}

/// What becomes of something that has its place in the file's queue.
pub(crate) struct QueuedOp<T>(VerbResult<oneshot::Receiver<VerbResult<T>>>, Arc<Writer>);

impl<T> QueuedOp<T> {
    /// Waits for it.
    pub(crate) async fn wait(self) -> VerbResult<T> {
        let Self(told, writer) = self;
        told?.await.map_err(|_| writer.gone())?
    }
}

/// How a write ends: answered when all of its parts are done, with the first failure among them.
pub(crate) struct WriteCompletion {
    outlet: ReplyWriter,
    asked: PendingRequest,
    /// The answer that is sent after success.
    success: Mutex<Vec<Bytes>>,
    state: Mutex<(usize, Option<ErrorReply>)>,
}

impl WriteCompletion {
    /// Of a write in so many parts.
    pub(crate) fn new(outlet: ReplyWriter, asked: PendingRequest, parts: usize) -> Arc<Self> {
        Arc::new(Self {
            outlet,
            asked,
            success: Mutex::default(),
            state: Mutex::new((parts, None)),
        })
    }

    /// What to say when all went well.
    pub(crate) fn on_success(&self, answer: Vec<Bytes>) {
        *self.success.lock() = answer;
    }

    /// Something failed.
    pub(crate) fn fail(&self, refusal: ErrorReply) {
        self.state.lock().1.get_or_insert(refusal);
    }

    /// A part is done; the last one answers.
    pub(crate) async fn part_done(&self) {
        let refusal = {
            let mut state = self.state.lock();
            state.0 = state.0.saturating_sub(1);
            if state.0 > 0 {
                return;
            }
            state.1.take()
        };
        self.asked.measure.answered(refusal.as_ref());
        match refusal {
            Some(refusal) => self.outlet.refuse(self.asked.stream, &refusal).await,
            None => {
                let answer = std::mem::take(&mut *self.success.lock());
                self.outlet.send(answer, None).await;
            }
        }
    }
}

impl Writer {
    /// Starts the task. It ends when this is dropped, and what was not committed was never there.
    pub(crate) fn start(
        (content, lease): (ContentWriter, FileLease),
        path: String,
        asked: WriteRequest,
        announced: Option<u64>,
        owner: FileOwner,
    ) -> Arc<Self> {
        let permissions = content.permissions();
        let (ops, work) = mpsc::channel(OPS_MAX);
        let size = Arc::new(AtomicU64::new(content.size()));
        let task = Task {
            content,
            lease,
            failed: None,
            path: path.clone(),
            size: Arc::clone(&size),
            checkpoint: None,
            turned: None,
            may_repeat: None,
        };
        tokio::spawn(task.run(work));
        Arc::new(Self {
            path,
            asked,
            announced,
            permissions,
            owner,
            given_up: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            size,
            ops,
            coming: watch::Sender::default(),
            bad: Mutex::default(),
        })
    }

    /// Bytes of the file as it is now.
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    /// Its name is removed: it can be written on and closed, and then it was never there.
    pub(crate) fn remove(&self) {
        self.removed.store(true, Relaxed);
    }

    /// See [`Self::remove`].
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Relaxed)
    }

    /// A write begins to come. Who takes files out must not do so meanwhile, or a close could miss it.
    pub(crate) fn begin(self: &Arc<Self>) -> PendingWrite {
        self.coming.send_modify(|coming| coming.now += 1);
        PendingWrite {
            writer: Arc::clone(self),
            whole: false,
        }
    }

    /// Writes bytes, behind everything that came before. What waits is bounded by the room that it
    /// holds, and by its number: beyond, this waits.
    pub(crate) async fn write(
        &self,
        offset: u64,
        bytes: ChecksummedBytes,
        share: BufferReservation,
        ending: &Arc<WriteCompletion>,
    ) {
        let op = Op::Data {
            offset,
            bytes,
            share,
            ending: Arc::clone(ending),
        };
        if self.ops.send(op).await.is_err() {
            ending.fail(self.gone());
        }
    }

    /// Writes bytes and waits for the disks to have taken them.
    pub(crate) async fn put(&self, offset: u64, bytes: ChecksummedBytes) -> VerbResult<()> {
        self.ask(|tell| Op::Put(offset, bytes, tell)).await
    }

    /// All bytes of a part were written.
    pub(crate) async fn part_done(&self, ending: Arc<WriteCompletion>) {
        if let Err(mpsc::error::SendError(Op::Done(ending))) = self.ops.send(Op::Done(ending)).await
        {
            ending.fail(self.gone());
            ending.part_done().await;
        }
    }

    /// Reads what the file is now.
    pub(crate) async fn read(&self, range: ByteRange) -> VerbResult<Bytes> {
        self.ask(|tell| Op::Read(range, tell)).await
    }

    /// Changes the attributes that the file will have, all or none, and says which these are then.
    ///
    /// # Errors
    /// As [`ContentWriter::change_attributes`] in the inner one.
    pub(crate) async fn attributes(
        &self,
        change: AttributeChange,
    ) -> VerbResult<Result<ExtendedAttributes, Error>> {
        let (tell, told) = oneshot::channel();
        let placed = self.ops.send(Op::Attributes(change, tell)).await;
        placed.map_err(|_| self.gone())?;
        told.await.map_err(|_| self.gone())
    }

    /// Takes its place in the file's queue; what becomes of it is told later.
    pub(crate) async fn truncate(self: &Arc<Self>, size: u64) -> QueuedOp<()> {
        self.place(|tell| Op::Truncate(size, tell)).await
    }

    /// The same: what was written before.
    pub(crate) async fn sync(self: &Arc<Self>) -> QueuedOp<()> {
        self.place(Op::Sync).await
    }

    /// The same: turns a checkpoint; told are the bytes written since it began, or that there is one
    /// already, or none.
    pub(crate) async fn checkpoint(self: &Arc<Self>, turn: CheckpointAction) -> QueuedOp<u64> {
        self.place(|tell| Op::Checkpoint(turn, tell)).await
    }

    /// The client goes on over another connection: it does not know whether what it asked for last was done.
    ///
    /// # Errors
    /// It is closed.
    pub(crate) async fn goes_on(&self) -> VerbResult<()> {
        let placed = self.ops.send(Op::GoesOn).await;
        placed.map_err(|_| self.gone())
    }

    /// Waits for the writes that come on other connections. No new ones may begin.
    ///
    /// # Errors
    /// One of them broke off meanwhile: a close cannot say of it that it is there.
    async fn all_came(&self) -> VerbResult<()> {
        let mut coming = self.coming.subscribe();
        let before = coming.borrow_and_update().broken_off;
        // The sender is this file's own.
        let now = coming.wait_for(|coming| coming.now == 0).await;
        match now.is_ok_and(|now| now.broken_off == before) {
            true => Ok(()),
            false => {
                let message = format!("Unable to close {}; a write broke off", self.path);
                Err(ErrorReply::new(ErrorCode::IoError, message))
            }
        }
    }

    /// Waits for what a connection that has ended still brings. False if that takes too long.
    pub(crate) async fn rests(&self) -> bool {
        let mut coming = self.coming.subscribe();
        let quiet = coming.wait_for(|coming| coming.now == 0);
        matches!(timeout(TAKE_OVER_TIME, quiet).await, Ok(Ok(_)))
    }

    /// Makes the file what was written, if its size is `size`. A checkpoint that was not committed
    /// is undone. Writes that began to come before are waited for.
    ///
    /// # Errors
    /// One of them broke off, a page came damaged, or it cannot be stored.
    pub(crate) async fn commit(&self, size: Option<u64>) -> VerbResult<ObjectInfo> {
        self.all_came().await?;
        let bad = self.bad.lock().len();
        if bad > 0 {
            let message = format!(
                "Unable to close {}; {bad} uncorrected checksum errors",
                self.path
            );
            return Err(ErrorReply::new(ErrorCode::ChkSumErr, message));
        }
        self.ask(|tell| Op::Commit(size, tell)).await
    }

    async fn ask<T>(&self, op: impl FnOnce(oneshot::Sender<VerbResult<T>>) -> Op) -> VerbResult<T> {
        let (tell, told) = oneshot::channel();
        self.ops.send(op(tell)).await.map_err(|_| self.gone())?;
        told.await.map_err(|_| self.gone())?
    }

    async fn place<T>(
        self: &Arc<Self>,
        op: impl FnOnce(oneshot::Sender<VerbResult<T>>) -> Op,
    ) -> QueuedOp<T> {
        let (tell, told) = oneshot::channel();
        let placed = self.ops.send(op(tell)).await;
        let told = placed.map(|()| told).map_err(|_| self.gone());
        QueuedOp(told, Arc::clone(self))
    }

    fn gone(&self) -> ErrorReply {
        closed(&self.path)
    }

    /// A page came damaged.
    ///
    /// # Errors
    /// Too many did.
    pub(crate) fn page_is_bad(&self, offset: u64, len: usize) -> VerbResult<()> {
        let mut bad = self.bad.lock();
        if bad.len() >= BAD_PAGES_PER_FILE_MAX && !bad.contains_key(&offset) {
            let message = format!("Unable to write {}; too many checksum errors", self.path);
            return Err(ErrorReply::new(ErrorCode::TooManyErrs, message));
        }
        bad.insert(offset, len);
        Ok(())
    }

    /// A page came as it should.
    pub(crate) fn page_is_good(&self, offset: u64, len: usize) {
        let mut bad = self.bad.lock();
        if bad.is_empty() {
            return;
        }
        if bad.get(&offset).is_some_and(|missing| *missing <= len) {
            bad.remove(&offset);
        }
    }
}

fn closed(path: &str) -> ErrorReply {
    let message = format!("{path} is closed already");
    ErrorReply::new(ErrorCode::FileNotOpen, message)
}

struct Task {
    content: ContentWriter,
    /// The memory that the content and its checkpoint hold.
    lease: FileLease,
    /// The first error. The file does not have the written content, and never will.
    failed: Option<(ErrorCode, String)>,
    path: String,
    size: Arc<AtomicU64>,
    checkpoint: Option<Snapshot>,
    /// The last operation on a checkpoint, if nothing was written since.
    turned: Option<CheckpointAction>,
    /// The last operation from before the connection broke. A client without an answer sends it
    /// again, possibly after earlier writes that were not answered either.
    may_repeat: Option<CheckpointAction>,
}

impl Task {
    async fn run(mut self, mut work: mpsc::Receiver<Op>) {
        while let Some(op) = work.recv().await {
            if let Op::Data { .. } | Op::Put(..) | Op::Truncate(..) = op {
                self.turned = None;
                // What is written once more would have to be undone once more.
                self.may_repeat
                    .take_if(|turn| *turn == CheckpointAction::Rollback);
            }
            match op {
                Op::GoesOn => self.may_repeat = self.turned.or(self.may_repeat),
                Op::Data {
                    offset,
                    bytes,
                    share,
                    ending,
                } => {
                    if let Err(refusal) = self.write(offset, bytes).await {
                        ending.fail(refusal);
                    }
                    drop(share);
                }
                Op::Done(ending) => ending.part_done().await,
                Op::Put(offset, bytes, tell) => {
                    let _ = tell.send(self.write(offset, bytes).await);
                }
                Op::Read(range, tell) => {
                    let bytes = match self.sound() {
                        Ok(()) => self.content.read_back(range).await,
                        Err(refusal) => {
                            let _ = tell.send(Err(refusal));
                            continue;
                        }
                    };
                    let _ = tell.send(bytes.map_err(|error| self.refusal(&error, "read")));
                }
                Op::Truncate(size, tell) => {
                    let cut = self.content.truncate(size);
                    self.size.store(self.content.size(), Relaxed);
                    let _ = tell.send(cut.map_err(|error| self.refusal(&error, "truncate")));
                }
                Op::Sync(tell) => {
                    let _ = tell.send(self.sound());
                }
                Op::Attributes(change, tell) => {
                    let changed = self.change_attributes(&change).await;
                    let _ = tell.send(changed);
                }
                Op::Checkpoint(turn, tell) => {
                    let mut outcome = self.turn(turn);
                    // The memory of a checkpoint that has just begun.
                    if let Err(refusal) = self.account_for_memory(0).await {
                        (self.checkpoint, self.turned) = (None, None);
                        outcome = Err(refusal);
                    }
                    let _ = tell.send(outcome);
                }
                Op::Commit(size, tell) => {
                    self.undo();
                    let path = self.path.clone();
                    let outcome = match self.sound() {
                        Ok(()) => {
                            let done = self.content.commit(ExpectedContent::of_size(size)).await;
                            done.map_err(|error| ErrorReply::of(&error, "close", &path))
                        }
                        Err(refusal) => {
                            // What it has reserved is free before the answer.
                            drop(self.content);
                            Err(refusal)
                        }
                    };
                    // Whoever hears of the close may open the next file.
                    drop(self.lease);
                    let _ = tell.send(outcome);
                    return too_late(work, &path).await;
                }
            }
        }
    }

    fn turn(&mut self, turn: CheckpointAction) -> VerbResult<u64> {
        self.sound()?;
        let turns = matches!(
            turn,
            CheckpointAction::Begin | CheckpointAction::Commit | CheckpointAction::Rollback
        );
        if turns && self.may_repeat.take() == Some(turn) {
            self.turned = Some(turn);
            return Ok(0);
        }
        let none = || {
            let message = format!("There is no checkpoint of {}", self.path);
            ErrorReply::new(ErrorCode::InvalidRequest, message)
        };
        let used = match (turn, &self.checkpoint) {
            (CheckpointAction::Begin, None) => {
                self.checkpoint = Some(self.content.snapshot());
                0
            }
            (CheckpointAction::Begin, Some(_)) => {
                let message = format!("There is a checkpoint of {} already", self.path);
                return Err(ErrorReply::new(ErrorCode::InvalidRequest, message));
            }
            // That there is none is said by its size.
            (CheckpointAction::Query, None) => 0,
            (_, None) => return Err(none()),
            (_, Some(snapshot)) => self.content.written_since(snapshot),
        };
        match turn {
            CheckpointAction::Begin | CheckpointAction::Query | CheckpointAction::Keep => {}
            CheckpointAction::Commit => self.checkpoint = None,
            CheckpointAction::Rollback => self.undo(),
        }
        if turns {
            self.turned = Some(turn);
        }
        Ok(used)
    }

    fn undo(&mut self) {
        if let Some(snapshot) = self.checkpoint.take() {
            self.content.restore(snapshot);
            self.size.store(self.content.size(), Relaxed);
        }
    }

    async fn write(&mut self, offset: u64, bytes: ChecksummedBytes) -> VerbResult<()> {
        self.sound()?;
        let written = self.content.write_at(offset, bytes).await;
        self.size.store(self.content.size(), Relaxed);
        written.map_err(|error| {
            // Whoever looks at the close only shall see this too.
            let code = match error.kind() {
                ErrorKind::Quota => ErrorCode::OverQuota,
                _ => ErrorCode::IoError,
            };
            self.failed = Some((code, error.to_string()));
            self.refusal(&error, "write")
        })?;
        self.account_for_memory(0).await.inspect_err(|refusal| {
            self.failed = Some((ErrorCode::IoError, refusal.message.clone()));
        })
    }

    /// Makes the lease as large as what is held and `more` bytes. What a file will hold is foreseen at its open, so
    /// this waits only for one that became larger than announced, or was written in many pieces.
    ///
    /// # Errors
    /// Too little memory is free.
    async fn account_for_memory(&mut self, more: usize) -> VerbResult<()> {
        let checkpoint = self.checkpoint.as_ref().map_or(0, Snapshot::memory_bytes);
        let bytes = self.content.memory_bytes() + checkpoint + more;
        let grown = self.lease.grow(bytes, GROWTH_TIME).await;
        grown.map_err(|_| {
            let path = &self.path;
            let message =
                format!("Unable to write {path}; too little memory is free for open files");
            ErrorReply::new(ErrorCode::Overloaded, message)
        })
    }

    async fn change_attributes(
        &mut self,
        change: &AttributeChange,
    ) -> Result<ExtendedAttributes, Error> {
        let added = change.set.iter();
        let added: usize = added.map(|(name, value)| name.len() + value.len()).sum();
        self.account_for_memory(added)
            .await
            .map_err(|refusal| Error::new(ErrorKind::Busy(FILE_LATER), refusal.message))?;
        self.content.change_attributes(change)?;
        Ok(self.content.extended_attributes())
    }

    fn sound(&self) -> VerbResult<()> {
        match &self.failed {
            None => Ok(()),
            Some((code, why)) => {
                let message = format!("Unable to close {}; a write failed: {why}", self.path);
                Err(ErrorReply::new(*code, message))
            }
        }
    }

    fn refusal(&self, error: &Error, doing: &str) -> ErrorReply {
        ErrorReply::of(error, doing, &self.path)
    }
}

/// Answers what comes behind a close.
async fn too_late(mut work: mpsc::Receiver<Op>, path: &str) {
    work.close();
    while let Some(op) = work.recv().await {
        match op {
            Op::Data { ending, .. } => ending.fail(closed(path)),
            Op::Done(ending) => {
                ending.fail(closed(path));
                ending.part_done().await;
            }
            // Who asked finds that nobody answers.
            Op::Put(..)
            | Op::Read(..)
            | Op::Truncate(..)
            | Op::Sync(_)
            | Op::Attributes(..)
            | Op::Checkpoint(..)
            | Op::GoesOn
            | Op::Commit(..) => {}
        }
    }
}
