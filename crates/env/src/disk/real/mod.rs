//! A folder of a file system as a [`Disk`].
//!
//! Every disk has its own threads and bounded queues. A hung disk therefore blocks no other
//! disk, and a long sync blocks no read. An operation that is not done within the deadline fails
//! with [`DiskErrorKind::TimedOut`]. If a thread is stuck in it, the disk is [`DiskState::Hung`]
//! and fails everything at once. This ends when the thread comes back, or, for a stuck read, when a
//! read of the device succeeds.
//!
//! All names are looked up from the folder's descriptor. Once a second, and before anything is
//! reported as durable, the folder's path must still lead to the same folder (device and inode)
//! with the identity file in it. Otherwise the disk is [`DiskState::Missing`], for open descriptors
//! too. The name of a file must also still lead to it when something in it is reported as durable.
//! A file that was removed still takes writes, but they are lost. The folder itself is never made.
//! When it is there again, the disk returns. Open files may then fail with `Io` if the device was
//! gone in between, so open them again after a return.
//!
//! A failed sync poisons the disk: Linux reports the loss once and then shows pages as clean that
//! never reached the medium.
//!
//! A folder that takes no writes ([`DiskState::ReadOnly`]) is noticed at opening, by a refused
//! write, or by the periodic check. The same checks notice when it takes writes again.
//!
//! Cancellation: a dropped future leaves its operation queued or running; it may still happen.
//! Needs a tokio runtime with timers, whose clock is not paused.

mod buffer;
mod dir_lock;
mod dir_ops;
mod file;
mod health;
mod io_queue;
#[cfg(test)]
mod tests;
mod watcher;

pub use io_queue::IoClass;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use self::dir_ops::{Folder, is_refusal};
use self::file::RealFile;
use self::health::Health;
use self::io_queue::{IoQueue, NoResult};
use super::error::is_want_of_descriptors;
use super::{DIRECT_BYTES, Result, path as paths};
use crate::{
    Access, BoxFuture, CreateOptions, DirEntry, Disk, DiskError, DiskErrorKind, DiskFile,
    DiskState, Space,
};

/// How a folder is used.
#[derive(Clone, Debug)]
pub struct RealDiskConfig {
    /// How long an operation may wait and run.
    pub deadline: Duration,
    /// Maximum number of threads of each of the four queues: reads, writes and names, durable
    /// writes, syncs. They are started on demand.
    pub threads: usize,
    /// Operations that may wait in each queue; more fail with `Busy`.
    pub queue_len: usize,
    /// How often the folder is looked at.
    pub check_every: Duration,
    /// The name of the identity file. After it was seen, a folder without it counts as missing.
    pub identity: Option<String>,
    /// Whether no other process may use the folder so meanwhile.
    pub exclusive: bool,
}

impl Default for RealDiskConfig {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            threads: 4,
            queue_len: 1024,
            check_every: Duration::from_secs(1),
            identity: None,
            exclusive: false,
        }
    }
}

/// A folder on a device of this machine; see the module. Clones are the same disk.
#[derive(Clone)]
pub struct RealDisk {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    label: String,
    deadline: Duration,
    folder: Folder,
    health: Arc<Health>,
    lanes: IoQueues,
}

struct IoQueues {
    reads: Arc<IoQueue>,
    writes: Arc<IoQueue>,
    durable: Arc<IoQueue>,
    syncs: Arc<IoQueue>,
    /// Checks whether the folder still exists: one separate thread that may get stuck.
    checks: Arc<IoQueue>,
}

impl IoQueues {
    fn all(&self) -> [&Arc<IoQueue>; 5] {
        [
            &self.reads,
            &self.writes,
            &self.durable,
            &self.syncs,
            &self.checks,
        ]
    }
}

/// An operation: its name for messages and the path it is about.
#[derive(Clone, Debug)]
struct Call {
    name: &'static str,
    path: String,
}

/// What becomes of the disk when an operation fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FailureEffect {
    /// Works on a poisoned disk.
    Read,
    /// A change that is durable later.
    Write,
    /// A change followed by a sync. A failed change does no harm; a failed sync poisons the disk.
    Complete,
    /// A sync or durable write. Its failure poisons the disk, and it counts only if the folder is
    /// still in its place.
    Durable,
}

impl RealDisk {
    /// Opens a folder that must exist.
    ///
    /// # Errors
    /// `Missing` without the folder, `InUse` while another process has locked it, `Refused` without
    /// permission for it, `TimedOut` if the device does not answer.
    pub async fn open(path: impl Into<PathBuf>, config: RealDiskConfig) -> Result<Self> {
        let path: PathBuf = path.into();
        let label = path.display().to_string();
        let call = Call {
            name: "open",
            path: String::new(),
        };
        if let Some(identity) = &config.identity {
            paths::check_file(identity)
                .map_err(|kind| DiskError::new(kind, call.name, label.as_str(), identity))?;
        }
        let health = Arc::new(Health::default());
        let lane = |name: &str, threads| {
            let name = format!("{name} {}", short(&path));
            IoQueue::new(name, threads, config.queue_len.max(1), Arc::clone(&health))
        };
        let threads = config.threads.max(1);
        let lanes = IoQueues {
            reads: lane("rd", threads),
            writes: lane("wr", threads),
            durable: lane("jr", threads),
            syncs: lane("sy", threads),
            checks: lane("ck", 1),
        };
        let (identity, exclusive) = (config.identity.clone(), config.exclusive);
        let opening = lanes.checks.run(config.deadline, {
            let path = path.clone();
            move || {
                let folder = Folder::open(path, identity, exclusive)?;
                let read_only = folder.refuses_writes();
                Ok::<_, io::Error>((folder, read_only))
            }
        });
        let (folder, read_only) = match opening.await {
            Ok(Ok(folder)) => folder,
            Ok(Err(error)) => return Err(opening_error(error, &label)),
            Err(why) => return Err(DiskError::new(why.kind(), call.name, label, "")),
        };
        let inner = Arc::new(Inner {
            label,
            deadline: config.deadline,
            folder,
            health,
            lanes,
        });
        if read_only {
            inner.note_read_only();
        }
        watcher::start(&inner, config.check_every);
        Ok(Self { inner })
    }
}

impl Inner {
    /// Runs a blocking operation on a thread of `lane`.
    async fn run<T, F>(
        self: &Arc<Self>,
        lane: &Arc<IoQueue>,
        duty: FailureEffect,
        call: Call,
        operation: F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> io::Result<T> + Send + 'static,
    {
        self.admit(duty, &call)?;
        let inner = Arc::clone(self);
        let done = lane.run(self.deadline, move || inner.carry_out(duty, operation));
        match done.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Failure::Kind(kind))) => Err(self.error(kind, &call)),
            Ok(Err(Failure::Os(error))) => Err(DiskError::from_io(
                error,
                call.name,
                &*self.label,
                call.path,
            )),
            Err(why) => Err(self.error(why.kind(), &call)),
        }
    }

    /// On a thread of a lane.
    fn carry_out<T, F>(&self, duty: FailureEffect, operation: F) -> Result<T, Failure>
    where
        F: FnOnce(&Self) -> io::Result<T>,
    {
        // It may have waited long.
        if self.health.state() == DiskState::Missing {
            return Err(Failure::Kind(DiskErrorKind::Missing));
        }
        let result = operation(self);
        match (&result, duty) {
            (Err(error), FailureEffect::Durable) if is_device_failure(error) => {
                self.health.poison()
            }
            (
                Err(error),
                FailureEffect::Write | FailureEffect::Complete | FailureEffect::Durable,
            ) if is_refusal(error) => {
                // One file of another owner does not make a disk read-only.
                let whole = error.kind() == io::ErrorKind::ReadOnlyFilesystem;
                if whole || self.folder.refuses_writes() {
                    self.note_read_only();
                }
            }
            (Ok(_), FailureEffect::Durable | FailureEffect::Complete)
                if !self.folder.is_in_place() =>
            {
                self.health.set_missing(true);
                return Err(Failure::Kind(DiskErrorKind::Missing));
            }
            _ => {}
        }
        result.map_err(Failure::Os)
    }

    fn admit(&self, duty: FailureEffect, call: &Call) -> Result<()> {
        match self.health.state() {
            DiskState::Missing => Err(self.error(DiskErrorKind::Missing, call)),
            DiskState::Hung => Err(self.error(DiskErrorKind::TimedOut, call)),
            DiskState::Poisoned if duty != FailureEffect::Read => {
                Err(self.error(DiskErrorKind::Poisoned, call))
            }
            DiskState::ReadOnly { .. } if duty != FailureEffect::Read => {
                Err(self.error(DiskErrorKind::Refused, call))
            }
            _ => Ok(()),
        }
    }

    fn note_read_only(&self) {
        if self.health.set_read_only(true) {
            tracing::warn!(
                disk = self.label,
                "the disk cannot be written: its file system is read-only, or the right is missing"
            );
        }
    }

    fn error(&self, kind: DiskErrorKind, call: &Call) -> DiskError {
        DiskError::new(kind, call.name, self.label.as_str(), call.path.as_str())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for lane in self.lanes.all() {
            lane.stop();
        }
    }
}

enum Failure {
    Os(io::Error),
    Kind(DiskErrorKind),
}

impl RealDisk {
    /// Looks at the path, then runs.
    async fn named<T, F>(
        &self,
        lane: &Arc<IoQueue>,
        duty: FailureEffect,
        call: Call,
        operation: F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Inner, &str) -> io::Result<T> + Send + 'static,
    {
        paths::check_file(&call.path).map_err(|kind| self.inner.error(kind, &call))?;
        let path = call.path.clone();
        self.inner
            .run(lane, duty, call, move |inner| operation(inner, &path))
            .await
    }

    async fn in_dir<T, F>(
        &self,
        lane: &Arc<IoQueue>,
        duty: FailureEffect,
        call: Call,
        operation: F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Inner, &str) -> io::Result<T> + Send + 'static,
    {
        paths::check_dir(&call.path).map_err(|kind| self.inner.error(kind, &call))?;
        let path = call.path.clone();
        self.inner
            .run(lane, duty, call, move |inner| operation(inner, &path))
            .await
    }

    async fn make(&self, path: &str, options: CreateOptions) -> Result<Arc<dyn DiskFile>> {
        let lanes = &self.inner.lanes;
        let call = call("create", path);
        if options.direct && !options.zeroed_bytes.is_multiple_of(DIRECT_BYTES) {
            return Err(self.inner.error(DiskErrorKind::Invalid, &call));
        }
        let opened = self.named(
            &lanes.writes,
            FailureEffect::Write,
            call,
            move |inner, path| inner.folder.create(path, options.direct),
        );
        let file = RealFile::new(&self.inner, opened.await?, path);
        if options.zeroed_bytes > 0
            && let Err(error) = file.zero_fill(options.zeroed_bytes).await
        {
            // Half a file helps nobody; the first error tells more than a second.
            let _ = self.remove(path).await;
            return Err(error);
        }
        Ok(Arc::new(file))
    }
}

impl Disk for RealDisk {
    fn label(&self) -> &str {
        &self.inner.label
    }

    fn state(&self) -> DiskState {
        self.inner.health.state()
    }

    fn watch(&self) -> watch::Receiver<DiskState> {
        self.inner.health.watch()
    }

    fn space(&self) -> BoxFuture<'_, Result<Space>> {
        let lane = &self.inner.lanes.reads;
        let call = call("ask the space of", "");
        Box::pin(self.in_dir(lane, FailureEffect::Read, call, |inner, _| {
            inner.folder.space()
        }))
    }

    fn create<'a>(
        &'a self,
        path: &'a str,
        options: CreateOptions,
    ) -> BoxFuture<'a, Result<Arc<dyn DiskFile>>> {
        Box::pin(self.make(path, options))
    }

    fn create_whole<'a>(
        &'a self,
        path: &'a str,
        pieces: Vec<(u64, Vec<Bytes>)>,
    ) -> BoxFuture<'a, Result<()>> {
        let lane = &self.inner.lanes.syncs;
        let call = call("create", path);
        Box::pin(
            self.named(lane, FailureEffect::Complete, call, move |inner, path| {
                let opened = inner.folder.create(path, false)?;
                opened.complete(&pieces, &inner.health)?;
                let synced = inner.folder.sync_dir(paths::parent(path));
                synced.inspect_err(|error| {
                    // Not when the folder was removed behind our back.
                    if is_device_failure(error) {
                        inner.health.poison();
                    }
                })?;
                inner.folder.check_place(path, &opened.fd)
            }),
        )
    }

    fn open<'a>(
        &'a self,
        path: &'a str,
        access: Access,
    ) -> BoxFuture<'a, Result<Arc<dyn DiskFile>>> {
        Box::pin(async move {
            // What opens for writing may be told so by a poisoned disk when it writes.
            let lane = &self.inner.lanes.reads;
            let call = call("open", path);
            let opened = self.named(lane, FailureEffect::Read, call, move |inner, path| {
                inner.folder.open_file(path, access)
            });
            let file = RealFile::new(&self.inner, opened.await?, path);
            Ok(Arc::new(file) as Arc<dyn DiskFile>)
        })
    }

    fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>> {
        let lane = &self.inner.lanes.writes;
        let call = call("remove", path);
        Box::pin(self.named(lane, FailureEffect::Write, call, |inner, path| {
            inner.folder.remove(path)
        }))
    }

    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let lane = &self.inner.lanes.writes;
            paths::check_file(to).map_err(|kind| self.inner.error(kind, &call("rename", to)))?;
            let to = to.to_owned();
            self.named(
                lane,
                FailureEffect::Write,
                call("rename", from),
                move |inner, from| inner.folder.rename(from, &to),
            )
            .await
        })
    }

    fn list<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, Result<Vec<DirEntry>>> {
        let lane = &self.inner.lanes.reads;
        let call = call("list", dir);
        Box::pin(self.in_dir(lane, FailureEffect::Read, call, |inner, dir| {
            inner.folder.list(dir)
        }))
    }

    fn sync_dir<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, Result<()>> {
        let lane = &self.inner.lanes.syncs;
        let call = call("sync", dir);
        Box::pin(
            self.in_dir(lane, FailureEffect::Durable, call, |inner, dir| {
                inner.folder.sync_dir(dir)
            }),
        )
    }

    fn read_file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes>> {
        Box::pin(async move {
            let lane = &self.inner.lanes.reads;
            let read = self.named(
                lane,
                FailureEffect::Read,
                call("read", path),
                |inner, path| inner.folder.read_file(path),
            );
            let content = read.await?;
            content.ok_or_else(|| {
                self.inner
                    .error(DiskErrorKind::Invalid, &call("read", path))
            })
        })
    }

    fn replace_file<'a>(&'a self, path: &'a str, content: Bytes) -> BoxFuture<'a, Result<()>> {
        let lane = &self.inner.lanes.syncs;
        let call = call("replace", path);
        Box::pin(
            self.named(lane, FailureEffect::Durable, call, move |inner, path| {
                inner.folder.replace_file(path, &content)
            }),
        )
    }
}

impl fmt::Debug for RealDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RealDisk({}, {:?})", self.inner.label, self.state())
    }
}

impl NoResult {
    fn kind(self) -> DiskErrorKind {
        match self {
            Self::Busy => DiskErrorKind::Busy,
            Self::TimedOut => DiskErrorKind::TimedOut,
            Self::NoThread => DiskErrorKind::Io,
        }
    }
}

fn call(name: &'static str, path: &str) -> Call {
    Call {
        name,
        path: path.to_owned(),
    }
}

/// Errors of a promise of durability after which nothing on the disk can be trusted; the others
/// say that nothing was begun.
fn is_device_failure(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    if is_want_of_descriptors(error) {
        return false;
    }
    !matches!(
        error.kind(),
        K::NotFound
            | K::StorageFull
            | K::QuotaExceeded
            | K::PermissionDenied
            | K::ReadOnlyFilesystem
            | K::InvalidInput
            | K::NotADirectory
            | K::IsADirectory
            | K::FileTooLarge
    )
}

fn opening_error(error: io::Error, label: &str) -> DiskError {
    use io::ErrorKind as K;
    if matches!(error.kind(), K::NotFound | K::NotADirectory) {
        return DiskError::new(DiskErrorKind::Missing, "open", label, "");
    }
    if error.kind() == K::ResourceBusy {
        return DiskError::new(DiskErrorKind::InUse, "open", label, "");
    }
    DiskError::from_io(error, "open", label, "")
}

/// The last characters of a path, for names of threads (15 bytes in Linux).
fn short(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let skip = name.chars().count().saturating_sub(12);
    name.chars().skip(skip).collect()
}
