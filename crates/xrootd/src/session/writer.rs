//! A file that is being written: one task owns it, and does what comes in the order in which it
//! came.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use dewar_store::api::ObjectInfo;
use dewar_store::file::{Paged, Revision, Snapshot};
use dewar_types::{ByteRange, Error, UserId};
use dewar_xrootd_proto::ErrorCode;
use dewar_xrootd_proto::limits::BAD_PAGES_PER_FILE_MAX;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::Share;
use crate::connection::{Asked, Outlet};
use crate::error::{Answer, Refusal};

/// What the task is asked to do.
enum Op {
    Data {
        offset: u64,
        bytes: Paged,
        share: Share,
        ending: Arc<Ending>,
    },
    Done(Arc<Ending>),
    Put(u64, Bytes, oneshot::Sender<Answer<()>>),
    Read(ByteRange, oneshot::Sender<Answer<Bytes>>),
    Truncate(u64, oneshot::Sender<Answer<()>>),
    Sync(oneshot::Sender<Answer<()>>),
    Checkpoint(Turn, oneshot::Sender<Answer<u64>>),
    Commit(Option<u64>, oneshot::Sender<Answer<ObjectInfo>>),
}

/// What becomes of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The file as it is now is remembered.
    Begin,
    /// What was changed since then stays.
    Commit,
    /// Nothing becomes of it; how many bytes were written since then.
    Query,
    /// What was changed since then is undone.
    Rollback,
}

/// A file open for writing.
pub(crate) struct Writer {
    /// As it was opened, for messages.
    pub(crate) path: String,
    /// Bytes that the client said there would be.
    pub(crate) announced: Option<u64>,
    /// Permission bits that it will have.
    pub(crate) permissions: u32,
    /// Whose it will be.
    pub(crate) owner: UserId,
    /// Bytes of the file as it is now.
    size: Arc<AtomicU64>,
    /// Whether there is a checkpoint.
    marked: Arc<AtomicBool>,
    ops: mpsc::UnboundedSender<Op>,
    /// Pages that came damaged and did not come again: where they begin, and their bytes.
    bad: Mutex<BTreeMap<u64, usize>>,
}

/// How a write ends: answered when all of its parts are done, with the first failure among them.
pub(crate) struct Ending {
    outlet: Outlet,
    asked: Asked,
    /// What is sent when all went well.
    success: Mutex<Vec<Bytes>>,
    state: Mutex<(usize, Option<Refusal>)>,
}

impl Ending {
    /// Of a write in so many parts.
    pub(crate) fn new(outlet: Outlet, asked: Asked, parts: usize) -> Arc<Self> {
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
    pub(crate) fn fail(&self, refusal: Refusal) {
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
        revision: Revision,
        path: String,
        announced: Option<u64>,
        owner: UserId,
    ) -> Arc<Self> {
        let permissions = revision.permissions();
        let (ops, work) = mpsc::unbounded_channel();
        let size = Arc::new(AtomicU64::new(revision.size()));
        let marked = Arc::new(AtomicBool::new(false));
        let task = Task {
            revision,
            failed: None,
            path: path.clone(),
            size: Arc::clone(&size),
            marked: Arc::clone(&marked),
            checkpoint: None,
        };
        tokio::spawn(task.run(work));
        Arc::new(Self {
            path,
            announced,
            permissions,
            owner,
            size,
            marked,
            ops,
            bad: Mutex::default(),
        })
    }

    /// Bytes of the file as it is now.
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Relaxed)
    }

    /// Writes bytes. The number of those that wait is bounded by the room they hold.
    pub(crate) fn write(&self, offset: u64, bytes: Paged, share: Share, ending: &Arc<Ending>) {
        let ending = Arc::clone(ending);
        // The task ends only when all who could send have gone.
        let _ = self.ops.send(Op::Data {
            offset,
            bytes,
            share,
            ending,
        });
    }

    /// Writes bytes and waits for the disks to have taken them.
    pub(crate) async fn put(&self, offset: u64, bytes: Bytes) -> Answer<()> {
        self.ask(|tell| Op::Put(offset, bytes, tell)).await
    }

    /// All bytes of a part were written.
    pub(crate) fn part_done(&self, ending: Arc<Ending>) {
        let _ = self.ops.send(Op::Done(ending));
    }

    /// Reads what the file is now.
    pub(crate) async fn read(&self, range: ByteRange) -> Answer<Bytes> {
        self.ask(|tell| Op::Read(range, tell)).await
    }

    pub(crate) async fn truncate(&self, size: u64) -> Answer<()> {
        self.ask(|tell| Op::Truncate(size, tell)).await
    }

    /// Waits for what was written before.
    pub(crate) async fn sync(&self) -> Answer<()> {
        self.ask(Op::Sync).await
    }

    /// Whether changes are part of a checkpoint.
    pub(crate) fn has_checkpoint(&self) -> bool {
        self.marked.load(Relaxed)
    }

    /// Turns a checkpoint; bytes written since it began.
    ///
    /// # Errors
    /// There is one already, or none.
    pub(crate) async fn checkpoint(&self, turn: Turn) -> Answer<u64> {
        self.ask(|tell| Op::Checkpoint(turn, tell)).await
    }

    /// Makes the file what was written, if its size is `size`. A checkpoint that was not committed
    /// is undone.
    pub(crate) async fn commit(&self, size: Option<u64>) -> Answer<ObjectInfo> {
        let bad = self.bad.lock().len();
        if bad > 0 {
            let message = format!(
                "Unable to close {}; {bad} uncorrected checksum errors",
                self.path
            );
            return Err(Refusal::new(ErrorCode::ChkSumErr, message));
        }
        self.ask(|tell| Op::Commit(size, tell)).await
    }

    async fn ask<T>(&self, op: impl FnOnce(oneshot::Sender<Answer<T>>) -> Op) -> Answer<T> {
        let (tell, told) = oneshot::channel();
        let gone = || {
            let message = format!("{} is closed already", self.path);
            Refusal::new(ErrorCode::FileNotOpen, message)
        };
        self.ops.send(op(tell)).map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }

    /// A page came damaged.
    ///
    /// # Errors
    /// Too many did.
    pub(crate) fn page_is_bad(&self, offset: u64, len: usize) -> Answer<()> {
        let mut bad = self.bad.lock();
        if bad.len() >= BAD_PAGES_PER_FILE_MAX && !bad.contains_key(&offset) {
            let message = format!("Unable to write {}; too many checksum errors", self.path);
            return Err(Refusal::new(ErrorCode::TooManyErrs, message));
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

struct Task {
    revision: Revision,
    /// What failed first: the file is not what was written to it, and never will be.
    failed: Option<String>,
    path: String,
    size: Arc<AtomicU64>,
    marked: Arc<AtomicBool>,
    checkpoint: Option<Snapshot>,
}

impl Task {
    async fn run(mut self, mut work: mpsc::UnboundedReceiver<Op>) {
        while let Some(op) = work.recv().await {
            match op {
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
                    let _ = tell.send(self.write(offset, bytes.into()).await);
                }
                Op::Read(range, tell) => {
                    let bytes = match self.sound() {
                        Ok(()) => self.revision.read(range).await,
                        Err(refusal) => {
                            let _ = tell.send(Err(refusal));
                            continue;
                        }
                    };
                    let _ = tell.send(bytes.map_err(|error| self.refusal(&error, "read")));
                }
                Op::Truncate(size, tell) => {
                    let cut = self.revision.truncate(size);
                    self.size.store(self.revision.size(), Relaxed);
                    let _ = tell.send(cut.map_err(|error| self.refusal(&error, "truncate")));
                }
                Op::Sync(tell) => {
                    let _ = tell.send(self.sound());
                }
                Op::Checkpoint(turn, tell) => {
                    let _ = tell.send(self.turn(turn));
                }
                Op::Commit(size, tell) => {
                    self.undo();
                    let outcome = match self.sound() {
                        Ok(()) => {
                            let path = self.path;
                            let done = self.revision.commit(size).await;
                            done.map_err(|error| Refusal::of(&error, "close", &path))
                        }
                        Err(refusal) => Err(refusal),
                    };
                    let _ = tell.send(outcome);
                    return;
                }
            }
        }
    }

    fn turn(&mut self, turn: Turn) -> Answer<u64> {
        self.sound()?;
        let none = || {
            let message = format!("There is no checkpoint of {}", self.path);
            Refusal::new(ErrorCode::InvalidRequest, message)
        };
        let used = match (turn, &self.checkpoint) {
            (Turn::Begin, None) => {
                self.checkpoint = Some(self.revision.snapshot());
                0
            }
            (Turn::Begin, Some(_)) => {
                let message = format!("There is a checkpoint of {} already", self.path);
                return Err(Refusal::new(ErrorCode::InvalidRequest, message));
            }
            // That there is none is said by its size.
            (Turn::Query, None) => 0,
            (_, None) => return Err(none()),
            (_, Some(snapshot)) => self.revision.written_since(snapshot),
        };
        match turn {
            Turn::Begin | Turn::Query => {}
            Turn::Commit => self.checkpoint = None,
            Turn::Rollback => self.undo(),
        }
        self.marked.store(self.checkpoint.is_some(), Relaxed);
        Ok(used)
    }

    fn undo(&mut self) {
        if let Some(snapshot) = self.checkpoint.take() {
            self.revision.restore(snapshot);
            self.size.store(self.revision.size(), Relaxed);
        }
    }

    async fn write(&mut self, offset: u64, bytes: Paged) -> Answer<()> {
        self.sound()?;
        let written = self.revision.write_paged(offset, bytes).await;
        self.size.store(self.revision.size(), Relaxed);
        written.map_err(|error| {
            self.failed = Some(error.to_string());
            self.refusal(&error, "write")
        })
    }

    fn sound(&self) -> Answer<()> {
        match &self.failed {
            None => Ok(()),
            Some(why) => {
                let message = format!("Unable to close {}; a write failed: {why}", self.path);
                Err(Refusal::new(ErrorCode::IoError, message))
            }
        }
    }

    fn refusal(&self, error: &Error, doing: &str) -> Refusal {
        Refusal::of(error, doing, &self.path)
    }
}
