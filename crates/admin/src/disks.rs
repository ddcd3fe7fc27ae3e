//! The disks of the pools.

use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec};
use crate::context::AdminContext;
use crate::error::Result;
use crate::upkeep::LedgerInfo;

/// The message about a disk without free space.
pub const FULL: &str = "it is full, and takes no new data until there is room";

/// The start of the detail of a complete disk that this process may not access.
pub const NO_RIGHT: &str = "this process may not use it: ";

/// The start of the detail of a disk with folder and data, but without a valid identity file.
pub const NO_IDENTITY: &str = "its file `dewar-disk` ";

/// The detail of a missing disk whose folder is not known.
pub const NOWHERE: &str = "it is in no folder that this server knows";

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<DiskList>(),
    CommandEntry::of::<DiskDecide>(),
    CommandEntry::of::<DiskAdd>(),
    CommandEntry::of::<DiskRemove>(),
    CommandEntry::of::<DiskReadmit>(),
];

/// Lists the disks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskList {}

/// Decides about a disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskDecide {
    /// Its number, its folder, its id, or the first digits of it.
    pub disk: String,
    /// The decision.
    pub action: DiskAction,
    /// Whether to drain it even if its data can only be rewritten in a narrower layout.
    #[serde(default)]
    pub narrower: bool,
}

/// Makes a blank folder a disk of the pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskAdd {
    /// The folder, from the root.
    pub folder: String,
    /// The disk to be replaced: its number, folder, id, or the first digits of it.
    pub replaces: Option<String>,
    /// The name of the pool that it is to be a disk of.
    #[serde(default)]
    pub pool: Option<String>,
}

/// Removes a disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskRemove {
    /// Its number, its folder, its id, or the first digits of it.
    pub disk: String,
}

/// Takes a removed disk back.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskReadmit {
    /// Its folder; if the folder is known, also its number, its id or the first digits of it.
    pub disk: String,
}

/// A decision about a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskAction {
    /// Move its shards to others while it can be read.
    Drain,
    /// Take a decision to drain it back.
    Keep,
}

/// A disk, its content, and the progress of its scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskInfo {
    /// The disk's number, which people use as its name. Numbers are given once, in the order of
    /// appearance.
    pub number: Option<u32>,
    /// Its id in 32 hexadecimal digits; `None` for a folder without a disk of this pool.
    pub id: Option<String>,
    /// Its present or last folder; `None` for a disk that only records name.
    pub path: Option<String>,
    /// The name of its pool; `None` for a folder that holds no disk.
    #[serde(default)]
    pub pool: Option<String>,
    /// `online`, `read-only`, `missing`, `hung`, `failed`, `blank`, `draining`, `replacing`,
    /// `removed`, `returning`, `foreign`, `copy`.
    pub state: String,
    /// Shards of objects that are placed on it.
    pub shards: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of the shards, those known to be bad.
    pub bad_shards: u64,
    /// Size of its file system in bytes.
    pub total_bytes: Option<u64>,
    /// Bytes that may still be written there.
    pub available_bytes: Option<u64>,
    /// Shards found bad by scrub or `fsck --deep` since it joined the pool, mended or not.
    #[serde(default)]
    pub rot_found: u64,
    /// When the last of them was found, RFC 3339 in UTC.
    #[serde(default)]
    pub rot_last: Option<String>,
    /// When the last complete scrub, or `fsck --deep`, ended, RFC 3339 in UTC.
    pub scrubbed: Option<String>,
    /// When the scrub under way began.
    pub scrub_began: Option<String>,
    /// Bytes that it has read so far.
    pub scrub_bytes: u64,
    /// The problem with the disk and the action to take; `None` if it has none.
    pub advice: Option<String>,
    /// The content of a removed disk whose folder is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<RemainingFilesInfo>,
}

/// The content of a removed disk, by the names of its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemainingFilesInfo {
    /// Shards.
    pub shards: u64,
    /// Of those, the ones that the pool has nowhere else now.
    pub lacking: u64,
    /// Their bytes.
    pub lacking_bytes: u64,
    /// Blobs with such a shard that cannot be read now.
    pub unreadable: u64,
    /// Whether there may be blobs that the catalog does not name. Their shards are not counted
    /// here.
    #[serde(default)]
    pub unsettled: bool,
}

/// A disk that was just removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskRemoved {
    /// The disk's number.
    pub number: Option<u32>,
    /// Its id in 32 hexadecimal digits; `None` for a folder in which no disk was ever seen.
    pub id: Option<String>,
    /// Its folder, or where it was last.
    pub path: Option<String>,
    /// Shards that were placed on it, and are rebuilt on other disks.
    pub shards: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The files are still there: its folder is left as it is.
    pub left_behind: bool,
    /// Further disks that the journal needs. With fewer than 2m+1 disks, where m is the number of
    /// failures to be survived, the journal cannot be written after m failures.
    pub short_of: usize,
    /// The redundancy ledger without the disk; `None` where a folder was forgotten.
    #[serde(default)]
    pub ledger: Option<LedgerInfo>,
}

/// A removed disk that was just taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskReadmitted {
    /// The disk's number.
    pub number: Option<u32>,
    /// Its id in 32 hexadecimal digits.
    pub id: String,
    /// Its folder.
    pub path: String,
    /// The content of the disk when it came; `None` when it was being taken back already.
    pub held: Option<RemainingFilesInfo>,
    /// Whether the configuration names the folder too.
    pub in_configuration: bool,
    /// Warnings about the disk.
    pub warnings: Vec<String>,
}

/// A decision about a disk, and its consequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskDecided {
    /// The decision.
    pub action: DiskAction,
    /// The disk's number.
    pub number: Option<u32>,
    /// Its folder, or where it was last.
    pub path: String,
    /// Shards on it: to be moved.
    pub shards: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The layout that these are written in, if it is narrower than before.
    pub narrower: Option<String>,
}

/// A disk that was just added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskAdded {
    /// The disk's number.
    pub number: Option<u32>,
    /// Its id in 32 hexadecimal digits.
    pub id: String,
    /// Its folder.
    pub path: String,
    /// The id of the disk whose place it takes.
    pub replaces: Option<String>,
    /// That disk's number.
    pub replaces_number: Option<u32>,
    /// That disk has been removed already.
    pub removed: bool,
    /// Whether the configuration names the folder too.
    pub in_configuration: bool,
    /// Warnings about the disk.
    pub warnings: Vec<String>,
}

impl AdminCommand for DiskList {
    const SPEC: CommandSpec = CommandSpec::reads("disk_list", "admin:disk-list").replies("disks");
    type Reply = Vec<DiskInfo>;

    async fn run(self, admin: &AdminContext) -> Result<Vec<DiskInfo>> {
        admin.upkeep.disk_list().await
    }
}

impl AdminCommand for DiskDecide {
    const SPEC: CommandSpec =
        CommandSpec::changes("disk_decide", "admin:disk-decide").replies("disk_decided");
    type Reply = DiskDecided;

    fn target(&self) -> String {
        format!("{}: {:?}", self.disk, self.action)
    }

    async fn run(self, admin: &AdminContext) -> Result<DiskDecided> {
        let decided = admin
            .upkeep
            .disk_decide(&self.disk, self.action, self.narrower);
        decided.await
    }
}

impl AdminCommand for DiskAdd {
    const SPEC: CommandSpec =
        CommandSpec::changes("disk_add", "admin:disk-add").replies("disk_added");
    type Reply = DiskAdded;

    fn target(&self) -> String {
        self.folder.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<DiskAdded> {
        let (replaces, pool) = (self.replaces.as_deref(), self.pool.as_deref());
        admin.changes.add(&self.folder, replaces, pool).await
    }
}

impl AdminCommand for DiskRemove {
    const SPEC: CommandSpec =
        CommandSpec::changes("disk_remove", "admin:disk-remove").replies("disk_removed");
    type Reply = DiskRemoved;

    fn target(&self) -> String {
        self.disk.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<DiskRemoved> {
        let mut removed = admin.changes.remove(&self.disk).await?;
        if removed.id.is_some() {
            removed.ledger = Some(admin.upkeep.ledger().await?);
        }
        Ok(removed)
    }
}

impl AdminCommand for DiskReadmit {
    const SPEC: CommandSpec =
        CommandSpec::changes("disk_readmit", "admin:disk-readmit").replies("disk_readmitted");
    type Reply = DiskReadmitted;

    fn target(&self) -> String {
        self.disk.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<DiskReadmitted> {
        admin.changes.readmit(&self.disk).await
    }
}
