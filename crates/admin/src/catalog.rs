//! Backups of the catalog, and how the catalog is restored or rebuilt.

use std::path::PathBuf;
use std::sync::Arc;

use dewar_env::WorkProgress;
use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec, Done};
use crate::context::AdminContext;
use crate::error::Result;
use crate::progress::Progress;

/// The message about a restored or rebuilt catalog whose missing objects nobody has looked for.
pub const UNSETTLED: &str = "the catalog was restored or rebuilt, and there may be blobs on the disks that it does not name";

/// The advice about it.
pub const SETTLE: &str = "stop the server, and `dewar catalog rebuild` puts back what is there; \
     `dewar catalog rebuild --discard-unnamed` gives it up";

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<BackupStart>(),
    CommandEntry::of::<BackupStatus>(),
];

/// Begins to back the catalog up, unless that is under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupStart {
    /// The folder, an absolute path.
    pub target: String,
    /// So many backups stay in it.
    pub keep: u32,
}

/// Asks how the backup fares.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupStatus {}

/// How a backup fares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupInfo {
    /// Whether it is still under way.
    pub running: bool,
    /// Bytes copied so far.
    pub copied_bytes: u64,
    /// The finished backup.
    pub taken: Option<BackupTakenInfo>,
    /// Why it could not be taken.
    pub error: Option<String>,
    /// How far it is, while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// A backup that was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupTakenInfo {
    /// Its name in the folder.
    pub name: String,
    /// The last batch in it.
    pub upto: u64,
    /// Files of the catalog's index in it.
    pub runs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of the files, those that were copied.
    pub copied_runs: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Bytes of small objects that are in the journal only.
    pub unsealed_bytes: u64,
    /// Older backups that were removed.
    pub removed: u64,
}

/// How the catalog is to be rebuilt.
#[derive(Clone, Debug, Default)]
pub struct RebuildRequest {
    /// Only say what would be done.
    pub dry_run: bool,
    /// Take a catalog that lacks something.
    pub accept_loss: bool,
    /// Whether blobs that the catalog does not name are given up. Nothing is searched then.
    pub discard_unnamed: bool,
    /// The file to write every finding to.
    pub report: Option<PathBuf>,
    /// Counts the blobs that were inspected.
    pub progress: Arc<WorkProgress>,
}

/// How a backup is to be restored.
#[derive(Clone, Debug, Default)]
pub struct RestoreRequest {
    /// The folder of backups.
    pub source: PathBuf,
    /// The backup to restore; the newest if not given.
    pub backup: Option<String>,
    /// Only read and judge it.
    pub dry_run: bool,
    /// Give a catalog up that could be had without loss.
    pub force: bool,
    /// Put back what the backup does not know.
    pub salvage: bool,
    /// The file to write every finding to.
    pub report: Option<PathBuf>,
    /// Counts the blobs that were inspected.
    pub progress: Arc<WorkProgress>,
}

/// The result of a rebuild or a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CatalogInfo {
    /// The source of the catalog: `exact`, `part of the journal`, `index`, `blobs` or `backup`.
    pub made_of: String,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Whether an interrupted attempt was continued. The result then covers both.
    pub gone_on: bool,
    /// The end of the attempt that is reported, RFC 3339 in UTC, if there was nothing left to do
    /// and nothing was inspected now. `None` when it ended now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_before: Option<String>,
    /// Whether objects that the catalog does not know are put back; otherwise they are only counted.
    pub placed: bool,
    /// The last batch of the catalog that is complete on the disks, so that no backup is needed.
    /// Only from inspecting a backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub here_upto: Option<u64>,
    /// The last batch that is known; `None` when it is none.
    pub upto: Option<u64>,
    /// The state of the journal before.
    pub journal: String,
    /// The state of the index before.
    pub index: String,
    /// Pieces of the index that were mended.
    pub mended: u64,
    /// Entries of the index.
    pub entries: u64,
    /// The backup.
    pub backup: Option<String>,
    /// When its catalog was so, RFC 3339 in UTC.
    pub backup_taken: Option<String>,
    /// The last batch that the journal added to the backup; `None` when it does not continue the
    /// backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed_upto: Option<u64>,
    /// The moment up to which the catalog is exact, RFC 3339 in UTC. `None` when everything
    /// acknowledged is in it, or when that moment is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_until: Option<String>,
    /// The result of the search through the blobs; `None` when they were not searched.
    pub blobs: Option<BlobsInfo>,
    /// Whether everything could be inspected. Blobs without a name may be deleted from now on.
    pub settled: bool,
    /// The file with every finding.
    pub report: Option<PathBuf>,
    /// Facts that a catalog made in this way cannot know.
    pub unknown: Vec<String>,
}

/// The result of a search through the blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlobsInfo {
    /// Blobs that were inspected.
    pub looked_at: u64,
    /// Of these, named by the catalog already.
    pub named: u64,
    /// Of these, leftovers.
    pub leftover: u64,
    /// Objects put back under their paths.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Older contents of paths, kept in a bucket of their own.
    pub kept: u64,
    /// Bytes of these.
    pub kept_bytes: u64,
    /// Parts of uploads.
    pub parts: u64,
    /// Of the objects, those joined from parts.
    pub joined: u64,
    /// Uploads that stay open.
    pub open_uploads: u64,
    /// Blobs of which too few shards are there.
    pub too_few_shards: u64,
    /// Contents that do not say whose they are.
    pub nameless: u64,
    /// Stretches of segments that cannot be read.
    pub unreadable: u64,
    /// Blobs that are elsewhere than the catalog thought.
    pub moved: u64,
    /// Blobs that the catalog names and that cannot be read.
    pub gone: u64,
    /// Blobs that the catalog names and that lack shards.
    pub degraded: u64,
    /// Disks or folders that could not be inspected.
    pub unread: u64,
    /// Users of whom only the number is known.
    pub users: u64,
    /// Buckets that were made.
    pub buckets: u64,
}

impl BlobsInfo {
    /// Adds the work of all attempts. `places` says whether this attempt puts objects back, so that
    /// the count of those is taken over too.
    pub fn set_done(&mut self, done: &Self, places: bool) {
        self.moved = done.moved;
        if places {
            self.objects = done.objects;
            self.bytes = done.bytes;
            self.kept = done.kept;
            self.kept_bytes = done.kept_bytes;
            self.parts = done.parts;
            self.joined = done.joined;
            self.users = done.users;
            self.buckets = done.buckets;
        }
    }
}

impl AdminCommand for BackupStart {
    const SPEC: CommandSpec = CommandSpec::changes("backup_start", "admin:backup").replies_done();
    type Reply = Done;

    fn target(&self) -> String {
        self.target.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        admin.backups.start(&self.target, self.keep).await?;
        Ok(Done::Done)
    }
}

impl AdminCommand for BackupStatus {
    const SPEC: CommandSpec = CommandSpec::reads("backup", "admin:backup-status");
    type Reply = BackupInfo;

    async fn run(self, admin: &AdminContext) -> Result<BackupInfo> {
        Ok(admin.backups.status())
    }
}
