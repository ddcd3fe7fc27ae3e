//! Disks that appear while the store is open.
//!
//! Some folders are inspected every few seconds: folders that were absent or blank at the opening,
//! and folders whose disk has gone and may be mounted at another device now. If a folder has the
//! identity of an absent disk of this pool, the disk joins in three steps. First the pool: blobs on
//! the disk are read, new ones are written to it, and leftovers are swept. Then the journal: it
//! brings the disk's epoch up to date and may make it a replica. Then the index: it uses the runs
//! on the disk that are current.
//!
//! The content of the disk was correct when the disk went away and may be stale by now. Nothing is
//! used unchecked: blobs are read as their records say, journal and index go by epoch and manifest.
//! Nothing is written to a folder before its identity was read.
//!
//! # Crash cases
//! None of its own: after a crash in the middle, the next opening finds the disk.
//!
//! # Cancellation
//! The tasks end with the engine, at any point.

use std::sync::Arc;
use std::time::Duration;

use dewar_disks::pool::{FolderProbe, inspect};
use dewar_env::{BoxFuture, Disk, DiskState};
use dewar_types::Result;
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::Engine;
use super::folders::{Folder, FolderContent, Folders};
use super::membership::Membership;

/// Interval of checks of a folder without its disk.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Interval of reading all copies of the index and the journal. Without it, damage in unread copies
/// would stay undetected until the last good copy fails.
const VERIFY_EVERY: Duration = Duration::from_secs(24 * 3600);

/// How often pieces of the index are looked for again that no disk had.
const RETRY_EVERY: Duration = Duration::from_secs(60);

/// When they are read for the first time.
const VERIFY_AFTER: Duration = Duration::from_secs(3600);

/// Opens configured folders again.
pub trait DiskObserver: Send + Sync + 'static {
    /// The content of the folder with this number, counted from 0 in the order of [`Folders::all`]
    /// and then of [`LiveFolders::add`]. Changes nothing.
    fn look(&self, folder: usize) -> BoxFuture<'_, Folder>;
}

/// The folders of the pool while the store is open.
#[derive(Debug)]
pub struct LiveFolders {
    all: RwLock<Vec<Folder>>,
    added: Notify,
    membership: Arc<Membership>,
}

impl LiveFolders {
    /// The folders as they were found for the opening of this engine.
    #[must_use]
    pub fn new(folders: Folders, engine: &Engine) -> Arc<Self> {
        let folders = Self {
            all: RwLock::new(folders.all),
            added: Notify::new(),
            membership: Arc::clone(&engine.membership),
        };
        Arc::new(folders)
    }

    /// Adds a folder and returns its number. A folder of the same label is replaced.
    pub fn add(&self, folder: Folder) -> usize {
        let mut all = self.all.write();
        let number = match all.iter().position(|known| known.label == folder.label) {
            Some(number) => {
                all[number] = folder;
                number
            }
            None => {
                all.push(folder);
                all.len() - 1
            }
        };
        self.added.notify_one();
        number
    }

    /// Calls `look` with each folder and the current knowledge about its disk.
    pub fn each(&self, mut look: impl FnMut(&Folder)) {
        let mut all = self.all.write();
        for folder in &mut *all {
            folder.refused = match &folder.content {
                FolderContent::Disk { disk, identity } => {
                    self.membership.refusal(disk.label(), identity)
                }
                _ => None,
            };
            look(folder);
        }
    }

    /// Label and state of each, as administrators see it.
    #[must_use]
    pub fn states(&self) -> Vec<(String, &'static str)> {
        let mut states = Vec::new();
        self.each(|folder| states.push(folder.state()));
        states
    }

    fn len(&self) -> usize {
        self.all.read().len()
    }

    fn label(&self, n: usize) -> String {
        self.all.read()[n].label.clone()
    }
}

/// Ends the tasks when it is dropped.
#[derive(Debug)]
pub(super) struct WatchTasks {
    _tasks: JoinSet<()>,
}

/// Continues changes of the pool's disks that were begun, until it is dropped.
pub(super) fn settle(membership: &Arc<Membership>) -> WatchTasks {
    let (membership, verifying, retrying) = (
        Arc::clone(membership),
        Arc::clone(membership),
        Arc::clone(membership),
    );
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        // What was said last, so that it is said once.
        let mut said = String::new();
        loop {
            // From before the look, so that nothing is missed.
            let changed = membership.disks_changed();
            if let Err(error) = membership.settle().await {
                let error = error.to_string();
                if error != said {
                    tracing::warn!(error, "a change of the disks does not go on; trying again");
                    said = error;
                }
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    });
    tasks.spawn(async move {
        // Soon after the start, or a server that is restarted every night would never do it.
        let mut pause = VERIFY_AFTER;
        loop {
            tokio::time::sleep(pause).await;
            pause = VERIFY_EVERY;
            match verifying.verify_catalog().await {
                Ok(0) => {}
                Ok(wrong) => tracing::warn!(
                    wrong,
                    "pieces of the catalog index, or files of the journal, were wrong on a disk, and are mended"
                ),
                Err(error) => {
                    tracing::warn!(%error, "the copies of the catalog cannot be verified");
                }
            }
        }
    });
    tasks.spawn(async move {
        loop {
            tokio::time::sleep(RETRY_EVERY).await;
            retrying.retry_lost().await;
        }
    });
    WatchTasks { _tasks: tasks }
}

impl Engine {
    /// Looks for the disks that were absent at the opening, until it is closed or dropped.
    pub async fn keep_looking(&self, folders: Arc<LiveFolders>, outlook: Arc<dyn DiskObserver>) {
        let joiner = Arc::new(Joiner {
            membership: Arc::clone(&self.membership),
            folders,
            outlook,
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // Each on its own, so that a mount that hangs keeps none of the others.
            let mut watches = JoinSet::new();
            loop {
                for n in watches.len()..joiner.folders.len() {
                    watches.spawn(Arc::clone(&joiner).watch(n));
                }
                joiner.folders.added.notified().await;
            }
        });
        *self.looking.lock().await = Some(WatchTasks { _tasks: tasks });
    }
}

struct Joiner {
    membership: Arc<Membership>,
    folders: Arc<LiveFolders>,
    outlook: Arc<dyn DiskObserver>,
}

impl Joiner {
    async fn watch(self: Arc<Self>, n: usize) {
        // What was said last, so that it is said once.
        let mut said = String::new();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if let Err(error) = self.look(n).await {
                let error = error.to_string();
                if error != said {
                    let disk = self.folders.label(n);
                    tracing::warn!(disk, error, "a disk cannot join");
                    said = error;
                }
            }
        }
    }

    /// Inspects a folder that has no disk in use. A disk that is found there joins.
    async fn look(&self, n: usize) -> Result<()> {
        let content = match self.known(n) {
            FolderStatus::There => return Ok(()),
            FolderStatus::Readable(disk) => match inspect(&*disk).await? {
                FolderProbe::Disk(identity) => FolderContent::Disk { disk, identity },
                FolderProbe::Blank => FolderContent::Blank { disk },
                FolderProbe::Absent(_) => return Ok(()),
            },
            FolderStatus::Gone => self.outlook.look(n).await.content,
        };
        let joined = match &content {
            FolderContent::Disk { disk, identity } => self.membership.join(disk, identity).await,
            FolderContent::Blank { .. } | FolderContent::Absent(_) => Ok(()),
        };
        // By command it may have joined meanwhile, and then that is known.
        if !matches!(self.known(n), FolderStatus::There) {
            self.folders.all.write()[n].content = content;
        }
        joined
    }

    fn known(&self, n: usize) -> FolderStatus {
        let all = self.folders.all.read();
        match &all[n].content {
            FolderContent::Disk { disk, .. } if disk.state() == DiskState::Missing => {
                FolderStatus::Gone
            }
            FolderContent::Disk { disk, identity }
                if self.membership.uses(disk.label(), identity) =>
            {
                FolderStatus::There
            }
            FolderContent::Disk { disk, .. } | FolderContent::Blank { disk }
                if disk.state().readable() =>
            {
                FolderStatus::Readable(Arc::clone(disk))
            }
            _ => FolderStatus::Gone,
        }
    }
}

enum FolderStatus {
    There,
    /// A folder without an identity, which may get one, or with an unused one, which may change.
    Readable(Arc<dyn Disk>),
    /// The folder must be opened again.
    Gone,
}
