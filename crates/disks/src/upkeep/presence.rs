//! Presence: whether the folder of shards on each disk is still the one with all shards of the
//! records.
//!
//! Somebody may remove or move `blobs` away while it is in use. Then nothing fails at first: open
//! files can be read, and new ones make a new folder. But the old shards are gone. So the folder
//! has an *anchor*, a file which says that all shards of the records were here. It is kept open and
//! checked every few seconds, which costs a system call. Without it the disk is in *doubt*: its
//! shards count as missing until all have been looked up by name (none is read). Missing ones are
//! recorded as bad, for repair. When a complete search finds nothing new, the anchor is written
//! (again).
//!
//! A disk that has a folder but never had an anchor comes from an earlier version. It is searched
//! in the same way, and its shards count meanwhile.
//!
//! # Crash cases
//! Findings are in the catalog before the anchor is written. The file [`DOUBTED`] keeps the doubt
//! over a restart if the folder has been made again since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::blob::{KnownBadShards, ShardListing};
use crate::pool::Member;
use dewar_env::worker::{PauseGate, WorkOutcome, Worker};
use dewar_env::{Access, CreateOptions, Disk, DiskError, DiskErrorKind, DiskFile, DiskState};
use dewar_types::{BlobId, DiskId, Result};
use futures_util::{StreamExt, stream};
use tokio::time::Instant;

use super::blob_index::Encoding;
use super::disk_tasks::DiskTasks;
use super::gc_queue::GcQueue;
use crate::disks::{Disks, SharedDisks};

/// The folder of shards.
pub(super) const FOLDER: &str = "blobs";

/// Says that all that should be in the folder was there.
const ANCHOR: &str = "blobs/anchor";

/// Says that this has to be seen first.
pub(super) const DOUBTED: &str = "blobs/doubted";

/// How often the anchors are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Longest time that a decision waits until the content of all disks is known.
const KNOWN_PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked meanwhile.
const KNOWN_PAUSE: Duration = Duration::from_millis(100);

/// Records read in one scan.
const PAGE: usize = 512;

/// Findings that are noted at a time: they share syncs.
const NOTES: usize = 64;

/// The state of the folder of shards on a disk.
#[derive(Debug)]
pub(super) struct Presence {
    disk: Arc<dyn Disk>,
    /// Absences of the disk so far. After a further one everything is checked again.
    returns: u32,
    known: FolderCheck,
}

#[derive(Debug)]
enum FolderCheck {
    /// The anchor is there.
    Anchored(Arc<dyn DiskFile>),
    /// All was there, and no anchor could be put.
    Seen,
    /// It has to be looked for.
    Doubted {
        /// Whether nothing of it counts meanwhile.
        gone: bool,
    },
}

impl Presence {
    fn is_of(&self, member: &Member, returns: u32) -> bool {
        Arc::ptr_eq(&self.disk, &member.disk) && self.returns == returns
    }
}

/// Checks the anchors and the tokens of the disks.
pub(crate) struct PresenceWorker {
    disks: SharedDisks,
    /// The last error that was logged about each disk, so that it is logged once.
    logged: BTreeMap<DiskId, String>,
}

impl Worker for PresenceWorker {
    const NAME: &'static str = "presence";
    const LOOK_EVERY: Duration = LOOK_EVERY;

    /// Ends when no disk is being searched, and no token is being written.
    async fn work(&mut self, gate: &PauseGate) -> Result<WorkOutcome> {
        let disks = &self.disks;
        let mut searches = DiskTasks::new();
        let mut changes = DiskTasks::new();
        loop {
            for member in disks.blobs.pool().members() {
                if gate.is_closed() {
                    break;
                }
                let id = member.id;
                let doubted = !searches.runs_on(id) && disks.look_for_anchor(&member).await;
                if let Err(error) = disks.look_at_token(&member).await {
                    let disk = member.disk.label();
                    tracing::debug!(disk, %error, "the token of a disk is not known yet");
                }
                if doubted {
                    let member = member.clone();
                    let search = async move { disks.settle_doubt(&member, gate).await };
                    searches.start(id, search);
                }
                if !changes.runs_on(id) && disks.token_is_due(&member) {
                    changes.start(id, async move { disks.change_token(&member).await });
                }
            }
            if searches.is_empty() && changes.is_empty() {
                return Ok(WorkOutcome::Idle);
            }
            let looking = tokio::time::sleep(LOOK_EVERY);
            tokio::pin!(looking);
            loop {
                tokio::select! {
                    biased;
                    Some((disk, result)) = searches.next() => {
                        let logged = self.logged.entry(disk).or_default();
                        let error = result.err().map(|error| error.to_string()).unwrap_or_default();
                        if !error.is_empty() && *logged != error {
                            let folder = disks.folder_of(disk);
                            tracing::info!(folder, %disk, error, "the content of a disk cannot be read yet");
                        }
                        *logged = error;
                    }
                    Some((disk, result)) = changes.next() => {
                        if let Err(error) = result {
                            let folder = disks.folder_of(disk);
                            tracing::debug!(folder, %disk, %error, "a disk keeps its token for now");
                        }
                    }
                    () = &mut looking => break,
                }
            }
        }
    }
}

impl PresenceWorker {
    pub(crate) const fn new(disks: SharedDisks) -> Self {
        Self {
            disks,
            logged: BTreeMap::new(),
        }
    }
}

impl Disks {
    /// Disks whose folder of shards was lost. Their remaining shards are being looked up.
    #[must_use]
    pub fn lost_shard_dirs(&self) -> BTreeSet<DiskId> {
        let presence = self.upkeep.presence.lock();
        let gone = |known: &Presence| matches!(known.known, FolderCheck::Doubted { gone: true });
        let lost_shard_dirs = presence.iter().filter(|(_, known)| gone(known));
        lost_shard_dirs.map(|(disk, _)| *disk).collect()
    }

    /// Checks the anchor and the token of disks that were not checked yet, for a ledger that is
    /// requested before the workers have done so, or while none run.
    pub(super) async fn look_for_anchors(&self) {
        for member in self.blobs.pool().members() {
            let known = self.upkeep.presence.lock().contains_key(&member.id);
            if !known {
                self.look_for_anchor(&member).await;
            }
            if let Err(error) = self.look_at_token(&member).await {
                let disk = member.disk.label();
                tracing::debug!(disk, %error, "the token of a disk is not known yet");
            }
        }
    }

    /// Waits for a while until the content of each disk is known, which takes moments after a start
    /// that follows a crash. Returns the disks whose content is still unknown.
    pub(super) async fn wait_until_known(&self) -> BTreeSet<DiskId> {
        let began = Instant::now();
        loop {
            let mut unknown = self.not_compared();
            unknown.extend(self.lost_shard_dirs());
            if unknown.is_empty() || began.elapsed() >= KNOWN_PATIENCE {
                return unknown;
            }
            tokio::time::sleep(KNOWN_PAUSE).await;
        }
    }

    /// Checks the anchor of a disk; returns whether its content is in doubt.
    async fn look_for_anchor(&self, member: &Member) -> bool {
        let (DiskState::Online { returns } | DiskState::ReadOnly { returns }) = member.disk.state()
        else {
            return false;
        };
        let file = {
            let presence = self.upkeep.presence.lock();
            match presence.get(&member.id) {
                Some(known) if known.is_of(member, returns) => match &known.known {
                    FolderCheck::Anchored(file) => Some(Arc::clone(file)),
                    FolderCheck::Seen => return false,
                    FolderCheck::Doubted { .. } => return true,
                },
                _ => None,
            }
        };
        let known = match file {
            Some(file) => match file.is_in_place().await {
                Ok(false) => {
                    let disk = member.disk.label();
                    tracing::warn!(
                        disk,
                        "somebody removed the folder of shards or its anchor: what should be in it \
                         counts no more until it has been found"
                    );
                    dewar_env::coverage_mark("the folder of shards was lost while it ran");
                    FolderCheck::Doubted { gone: true }
                }
                // What cannot be looked at now is no news.
                Ok(true) | Err(_) => return false,
            },
            None => match first_look(&*member.disk).await {
                // It went away in doubt: that the folder is there says nothing.
                Ok(FolderCheck::Doubted { gone }) => FolderCheck::Doubted {
                    gone: gone || self.lost_shard_dirs().contains(&member.id),
                },
                Ok(known) => known,
                Err(_) => return false,
            },
        };
        let doubted = matches!(known, FolderCheck::Doubted { .. });
        if matches!(known, FolderCheck::Doubted { gone: true }) {
            self.upkeep.wake();
        }
        self.know(member, returns, known);
        doubted
    }

    fn know(&self, member: &Member, returns: u32, known: FolderCheck) {
        let presence = Presence {
            disk: Arc::clone(&member.disk),
            returns,
            known,
        };
        self.upkeep.presence.lock().insert(member.id, presence);
    }

    /// Looks up all shards that should be on a disk, until no more missing ones are found. Then
    /// writes the anchor.
    async fn settle_doubt(&self, member: &Member, gate: &PauseGate) -> Result<()> {
        let (DiskState::Online { returns } | DiskState::ReadOnly { returns }) = member.disk.state()
        else {
            return Ok(());
        };
        let lost_shard_dirs = self.lost_shard_dirs().contains(&member.id);
        // A new token, below, would make an old copy of a disk look like what it should be.
        if lost_shard_dirs && !self.token_compared(member, returns) {
            return Ok(());
        }
        let mut lost = 0;
        loop {
            // Without room for it, or the right to make it, the doubt does not survive a restart.
            let mark = match lost_shard_dirs {
                true => put(&*member.disk, DOUBTED).await.ok(),
                false => None,
            };
            gate.pass().await;
            let found = self.note_absent(member, BlobId(0)).await?;
            lost += found;
            let stayed = match &mark {
                Some(mark) => mark.is_in_place().await?,
                None => true,
            };
            if found == 0 && stayed {
                break;
            }
            // It may still be going on.
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if lost > 0 {
            let disk = member.disk.label();
            tracing::warn!(
                disk,
                lost,
                "shards are gone from a disk; they are written again"
            );
        }
        // Its token may have gone with the folder, and is to be there when the anchor says that all is well.
        if lost_shard_dirs && let Err(error) = self.change_token(member).await {
            tracing::debug!(%error, "a disk has no token yet");
        }
        let known = match put(&*member.disk, ANCHOR).await {
            Ok(anchor) => {
                if let Err(error) = take_off(&*member.disk, DOUBTED).await {
                    tracing::debug!(%error, "a disk will be looked at once more");
                }
                FolderCheck::Anchored(anchor)
            }
            Err(error) => {
                tracing::debug!(%error, "no anchor could be put");
                FolderCheck::Seen
            }
        };
        self.know(member, returns, known);
        self.upkeep.wake();
        Ok(())
    }

    /// Records missing shards of a disk, of blobs from one on. Returns the number of those that
    /// were not known before.
    pub(super) async fn note_absent(&self, member: &Member, mut from: BlobId) -> Result<u64> {
        let mut listed = ShardListing::default();
        let mut found = 0;
        let mut freeing = GcQueue::default();
        loop {
            let page = self.table.encodings(from, PAGE).await?;
            let findings = self.findings_of(&page.encodings).await?;
            let none = KnownBadShards::default();
            let mut absent: Vec<(Encoding, usize)> = Vec::new();
            for encoding in &page.encodings {
                let record = &encoding.record;
                let known = findings.get(&record.id).unwrap_or(&none).bad();
                if let Some(shard) = self.blobs.absent(member, record, &mut listed).await?
                    && !known.contains(shard)
                    && !freeing.holds_now(&self.catalog, record.id).await?
                {
                    absent.push((encoding.clone(), shard));
                }
            }
            let noting = stream::iter(absent).map(async |(encoding, shard)| {
                // It may have been freed, or laid out anew, while it was looked for.
                let same =
                    self.table.encoding(encoding.record.id).await?.as_ref() == Some(&encoding);
                if same {
                    let now = self.env.clock.now();
                    self.table.note(&encoding, shard, now).await?;
                }
                Ok::<_, dewar_types::Error>(u64::from(same))
            });
            let mut noting = std::pin::pin!(noting.buffer_unordered(NOTES));
            while let Some(noted) = noting.next().await {
                found += noted?;
            }
            match page.next {
                Some(next) => from = next,
                None => break,
            }
        }
        if found > 0 {
            self.upkeep.queued();
        }
        Ok(found)
    }
}

/// The first check of a disk's own files.
async fn first_look(disk: &dyn Disk) -> Result<FolderCheck, DiskError> {
    let is_there = |opened: Result<Arc<dyn DiskFile>, DiskError>| match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == DiskErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    if is_there(disk.open(DOUBTED, Access::Read).await)?.is_some() {
        return Ok(FolderCheck::Doubted { gone: true });
    }
    if let Some(anchor) = is_there(disk.open(ANCHOR, Access::Read).await)? {
        return Ok(FolderCheck::Anchored(anchor));
    }
    let top = disk.list("").await?;
    let folder = top.iter().any(|entry| entry.is_dir && entry.name == FOLDER);
    Ok(FolderCheck::Doubted { gone: !folder })
}

/// An empty file of this name, durable; it may be there already.
async fn put(disk: &dyn Disk, path: &str) -> Result<Arc<dyn DiskFile>, DiskError> {
    let file = match disk.create(path, CreateOptions::default()).await {
        Err(error) if error.kind() == DiskErrorKind::Exists => {
            disk.open(path, Access::Read).await?
        }
        made => made?,
    };
    disk.sync_dir(FOLDER).await?;
    Ok(file)
}

/// Removes a file durably, if it exists.
async fn take_off(disk: &dyn Disk, path: &str) -> Result<(), DiskError> {
    match disk.remove(path).await {
        Err(error) if error.kind() == DiskErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => disk.sync_dir(FOLDER).await,
    }
}
