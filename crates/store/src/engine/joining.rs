//! Disks that appear while the store is open.
//!
//! A folder that was absent or blank at the opening, and one whose disk has gone and may be mounted at
//! another device now, is looked at every few seconds. When it has the identity of a disk of this
//! pool that is not there, the disk joins: first the pool, so that blobs on it are read, new ones
//! written to it and leftovers swept; then the journal, which brings its epoch up to date there
//! and may make it a holder; then the index, which trusts of its runs those that are current.
//!
//! What is on the disk was true when it went away and may be stale by now. Nothing here believes it
//! unasked: blobs are read by what their records say, journal and index go by epoch and manifest.
//! Nothing is written to a folder before its identity was read.
//!
//! # Crash cases
//! None of its own: a crash in the middle finds the disk at the next opening.
//!
//! # Cancellation
//! The tasks end with the engine, at any point.

use std::sync::Arc;
use std::time::Duration;

use dewar_data::pool::{DewarId, Found, Identity, Member, Pool, inspect};
use dewar_env::{BoxFuture, Disk, DiskState};
use dewar_journal::Journal;
use dewar_meta::index::runs::RunIndex;
use dewar_types::{Error, ErrorKind, Result};
use parking_lot::RwLock;
use tokio::task::JoinSet;

use super::Engine;
use super::folders::{Content, Folder, Folders};

/// How often a folder without its disk is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Opens configured folders anew.
pub trait Outlook: Send + Sync + 'static {
    /// What is in the folder with this number, counted from 0 in the order of [`Folders::all`].
    /// Changes nothing.
    fn look(&self, folder: usize) -> BoxFuture<'_, Folder>;
}

/// The configured folders while the store is open.
#[derive(Debug)]
pub struct LiveFolders {
    all: Vec<RwLock<Folder>>,
}

impl LiveFolders {
    /// The folders as they were found for the opening.
    #[must_use]
    pub fn new(folders: Folders) -> Arc<Self> {
        let all = folders.all.into_iter().map(RwLock::new).collect();
        Arc::new(Self { all })
    }

    /// Label and state of each, as administrators see it.
    #[must_use]
    pub fn states(&self) -> Vec<(String, &'static str)> {
        let folders = self.all.iter();
        folders.map(|folder| folder.read().state()).collect()
    }
}

/// Ends the tasks when it is dropped.
#[derive(Debug)]
pub(super) struct Looking {
    _tasks: JoinSet<()>,
}

impl Engine {
    /// Looks for the disks that were not there when it was opened, until it is closed or dropped.
    pub async fn keep_looking(&self, folders: Arc<LiveFolders>, outlook: Arc<dyn Outlook>) {
        let joiner = Arc::new(Joiner {
            dewar: self.pool.dewar(),
            pool: Arc::clone(&self.pool),
            journal: self.journal.clone(),
            index: Arc::clone(&self.index),
            turn: tokio::sync::Mutex::default(),
            folders,
            outlook,
        });
        let mut tasks = JoinSet::new();
        // Each on its own, so that a mount that hangs keeps none of the others.
        for n in 0..joiner.folders.all.len() {
            tasks.spawn(Arc::clone(&joiner).watch(n));
        }
        *self.looking.lock().await = Some(Looking { _tasks: tasks });
    }
}

struct Joiner {
    dewar: DewarId,
    pool: Arc<Pool>,
    journal: Journal,
    index: Arc<RunIndex>,
    /// One disk at a time: the index is given whole lists.
    turn: tokio::sync::Mutex<()>,
    folders: Arc<LiveFolders>,
    outlook: Arc<dyn Outlook>,
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
                    let disk = &self.folders.all[n].read().label;
                    tracing::warn!(disk, error, "a disk cannot join");
                    said = error;
                }
            }
        }
    }

    /// Looks at a folder that has no disk and lets the one that is found there join.
    async fn look(&self, n: usize) -> Result<()> {
        let folder = match self.known(n) {
            Known::There => return Ok(()),
            Known::Blank(disk) => match inspect(&*disk).await? {
                Found::Disk(identity) => Content::Disk { disk, identity },
                Found::Blank | Found::Absent(_) => return Ok(()),
            },
            Known::Gone => self.outlook.look(n).await.content,
        };
        let Content::Disk { disk, identity } = folder else {
            // Absent or blank, as it was; how it is called may differ.
            let mut known = self.folders.all[n].write();
            if !matches!(known.content, Content::Disk { .. }) {
                known.content = folder;
            }
            return Ok(());
        };
        self.join(&disk, &identity).await?;
        self.folders.all[n].write().content = Content::Disk { disk, identity };
        Ok(())
    }

    fn known(&self, n: usize) -> Known {
        match &self.folders.all[n].read().content {
            Content::Disk { disk, .. } if disk.state() != DiskState::Missing => Known::There,
            Content::Disk { .. } | Content::Absent(_) => Known::Gone,
            Content::Blank { disk } if disk.state().readable() => Known::Blank(Arc::clone(disk)),
            Content::Blank { .. } => Known::Gone,
        }
    }

    async fn join(&self, disk: &Arc<dyn Disk>, identity: &Identity) -> Result<()> {
        if identity.dewar != self.dewar || identity.pool != self.pool.number() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "{} is a disk of pool {} of another Dewar ({}); this one is {}",
                    disk.label(),
                    identity.pool,
                    identity.dewar,
                    self.dewar
                ),
            ));
        }
        let _turn = self.turn.lock().await;
        // The state that the folder is known by may be older than the look.
        self.pool.join(Member {
            id: identity.disk,
            disk: Arc::clone(disk),
        })?;
        self.journal.attach(identity.disk, Arc::clone(disk));
        tracing::info!(disk = disk.label(), id = %identity.disk, "a disk joins");
        let all = self.pool.members().map(|member| (member.id, member.disk));
        if let Err(error) = self.index.set_disks(all.collect()).await {
            tracing::warn!(%error, "the catalog index has fewer copies than it should");
        }
        Ok(())
    }
}

enum Known {
    There,
    /// A folder without an identity, which may get one.
    Blank(Arc<dyn Disk>),
    /// What is there now has to be opened anew.
    Gone,
}
