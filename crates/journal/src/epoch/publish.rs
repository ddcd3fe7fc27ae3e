//! Writing an epoch's record to the members.
//!
//! The record is replaced as a whole, which needs space for a second one for a moment. On a device
//! that is completely full, perhaps with other people's files, this would fail. The journal could
//! then not be opened, and nothing could be deleted. Each member therefore keeps a small file of
//! zeros, made while there is space. It is removed before the write and made again afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dewar_env::{CreateOptions, Disk, DiskError, DiskErrorKind, DiskState};
use dewar_types::{DiskId, Error, ErrorKind};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::{EPOCH_PATH, count};

/// The file that is given up for a record on a full disk.
const BALLAST_PATH: &str = "journal/ballast";

/// Its bytes: several records, and what a file system needs around them.
const BALLAST_BYTES: u64 = 128 << 10;

/// Looks at a member, one a second, between two tries to make it on a disk without room.
const BALLAST_REST: u32 = 300;

/// It need not be made.
const THERE: u32 = u32::MAX;

/// The folder of both.
const FOLDER: &str = "journal";

/// How long to wait for further members once enough have the record.
const STRAGGLERS_MAX: Duration = Duration::from_millis(200);

/// A disk that belongs to the journal, whether it holds records or not.
///
/// A write of its record that was given up when its time was over may still happen and replace a
/// newer record. Until that is out of the question the disk does not count: while a write is open
/// its disk is [`DiskState::Hung`] or, if it went away meanwhile, [`DiskState::Missing`], and neither
/// is written to. When it can be written again every open write has ended, so whatever is written
/// from then on is newer and stays.
#[derive(Debug)]
pub(crate) struct JournalMember {
    pub(crate) id: DiskId,
    pub(crate) disk: Arc<dyn Disk>,
    /// Epoch records of one disk are written one after the other, in the order of their arrival.
    writing: tokio::sync::Mutex<()>,
    /// Earlier open handles of the same disk through which a write was given up. The state of
    /// [`Self::disk`] does not show how that write ended.
    open: Mutex<Vec<Arc<dyn Disk>>>,
    /// Whether a write through [`Self::disk`] was given up and has not ended yet, as far as is
    /// known.
    gave_up: AtomicBool,
    /// Remaining checks of the member until its ballast is made; [`THERE`] when it exists, as far
    /// as is known.
    ballast_due: AtomicU32,
}

impl JournalMember {
    pub(crate) fn new(id: DiskId, disk: Arc<dyn Disk>) -> Arc<Self> {
        Self::opened(id, disk, Vec::new())
    }

    /// The same member on its disk as that was opened anew.
    pub(crate) fn succeed(&self, disk: Arc<dyn Disk>) -> Arc<Self> {
        let mut open = self.open.lock().clone();
        if self.gave_up.load(Ordering::Acquire) {
            open.push(Arc::clone(&self.disk));
        }
        Self::opened(self.id, disk, open)
    }

    fn opened(id: DiskId, disk: Arc<dyn Disk>, open: Vec<Arc<dyn Disk>>) -> Arc<Self> {
        Arc::new(Self {
            id,
            disk,
            writing: tokio::sync::Mutex::default(),
            open: Mutex::new(open),
            gave_up: AtomicBool::new(false),
            ballast_due: AtomicU32::new(0),
        })
    }

    /// Whether a record written now would count.
    pub(crate) fn countable(&self) -> bool {
        self.disk.state().writable() && !self.is_doubtful()
    }

    /// Whether a write may still be open.
    fn is_doubtful(&self) -> bool {
        let mut open = self.open.lock();
        open.retain(|disk| matches!(disk.state(), DiskState::Hung | DiskState::Missing));
        !open.is_empty()
    }

    async fn write(&self, content: Bytes) -> Result<(), DiskError> {
        let _turn = self.writing.lock().await;
        if self.is_doubtful() {
            let label = self.disk.label();
            let kind = DiskErrorKind::TimedOut;
            return Err(DiskError::new(kind, "replace", label, EPOCH_PATH));
        }
        if self.disk.state().writable() {
            self.gave_up.store(false, Ordering::Release);
        }
        let mut written = self.disk.replace_file(EPOCH_PATH, content.clone()).await;
        if let Err(error) = &written
            && error.kind() == DiskErrorKind::Full
            && self.drop_ballast().await
        {
            written = self.disk.replace_file(EPOCH_PATH, content).await;
        }
        if let Err(error) = &written
            && error.kind() == DiskErrorKind::TimedOut
        {
            self.gave_up.store(true, Ordering::Release);
        }
        written
    }

    /// Gives the ballast up; whether there was any.
    async fn drop_ballast(&self) -> bool {
        self.ballast_due.store(0, Ordering::Relaxed);
        let dropped = self.disk.remove(BALLAST_PATH).await.is_ok()
            && self.disk.sync_dir(FOLDER).await.is_ok();
        if dropped {
            dewar_env::coverage_mark("an epoch was written in the room of the ballast");
            tracing::info!(
                disk = self.disk.label(),
                "the disk is full; the reserve for this case is used"
            );
        }
        dropped
    }

    /// Whether the ballast should be made now; told once, and again a while after that has failed.
    pub(crate) fn lacks_ballast(&self) -> bool {
        let due = self.ballast_due.load(Ordering::Relaxed);
        if due == THERE || !self.countable() {
            return false;
        }
        let next = due.checked_sub(1).unwrap_or(THERE);
        self.ballast_due.store(next, Ordering::Relaxed);
        due == 0
    }

    /// Makes the ballast, if there is room; without it all works but on a full disk.
    pub(crate) async fn take_ballast(&self) {
        let options = CreateOptions {
            zeroed_bytes: BALLAST_BYTES,
            direct: false,
        };
        match self.disk.create(BALLAST_PATH, options).await {
            Ok(_) => {
                // Not durable, it is made again by the next process.
                let _ = self.disk.sync_dir(FOLDER).await;
            }
            Err(error) if error.kind() == DiskErrorKind::Exists => {}
            Err(_) => {
                // What was begun of it takes room.
                let _ = self.disk.remove(BALLAST_PATH).await;
                self.ballast_due.store(BALLAST_REST, Ordering::Relaxed);
            }
        }
    }
}

/// What to write and whom it must reach.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) content: Bytes,
    /// Lists of members, each with the m it was made for: more than m of each must have it.
    pub(crate) lists: Vec<(Vec<DiskId>, usize)>,
}

impl Publication {
    fn reached(&self, done: &[DiskId]) -> bool {
        let everywhere = dewar_env::safeguard("epochs on more than m members");
        let least = |m: usize| if everywhere { m } else { 0 };
        self.lists
            .iter()
            .all(|(list, m)| count(list, done) > least(*m))
    }
}

/// Writes the record to all members that can be written and returns when enough have it and the
/// others have answered or had a little time to. Their writes go on in the background.
///
/// # Errors
/// [`ErrorKind::Unavailable`] if it did not become durable on enough members. It may be on some.
pub(crate) async fn publish(
    runtime: &Handle,
    members: &[Arc<JournalMember>],
    publication: &Publication,
) -> Result<(), Error> {
    let (report, mut reports) = mpsc::unbounded_channel();
    for member in members.iter().filter(|member| member.countable()) {
        let (member, report) = (Arc::clone(member), report.clone());
        let content = publication.content.clone();
        runtime.spawn(async move {
            let written = member.write(content).await;
            // Nobody waits for a straggler any more.
            let _ = report.send((member.id, written));
        });
    }
    drop(report);

    let mut done = Vec::new();
    let doubtful = members.iter().filter(|member| member.is_doubtful());
    let mut failed: Vec<String> = doubtful
        .map(|member| {
            let disk = member.disk.label();
            format!("a write to {disk} was given up, and may still be under way")
        })
        .collect();
    loop {
        let next = if publication.reached(&done) {
            match tokio::time::timeout(STRAGGLERS_MAX, reports.recv()).await {
                Ok(next) => next,
                Err(_) => return Ok(()),
            }
        } else {
            reports.recv().await
        };
        match next {
            Some((id, Ok(()))) => done.push(id),
            Some((_, Err(error))) => failed.push(error.to_string()),
            None => break,
        }
    }
    if publication.reached(&done) {
        return Ok(());
    }
    let lists: Vec<String> = publication
        .lists
        .iter()
        .map(|(list, m)| {
            format!(
                "{} of {} members, more than {m} needed",
                count(list, &done),
                list.len()
            )
        })
        .collect();
    Err(Error::new(
        ErrorKind::Unavailable,
        format!(
            "the journal's epoch reached {}{}{}",
            lists.join("; "),
            if failed.is_empty() { "" } else { "; " },
            failed.join("; ")
        ),
    ))
}
