//! Redundancy: the ledger, checks and scrubs.

use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec, Done};
use crate::context::AdminContext;
use crate::error::Result;
use crate::progress::Progress;

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<ScrubStart>(),
    CommandEntry::of::<ScrubList>(),
    CommandEntry::of::<FsckStart>(),
    CommandEntry::of::<FsckStatus>(),
    CommandEntry::of::<FsckMore>(),
];

/// Scrubs now.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubStart {
    /// Only this disk.
    pub disk: Option<String>,
}

/// Asks how the scrubs fare.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubList {}

/// Starts a check of everything, or joins a running one. The request fails with "in use" if the
/// running check is not deep and this one is to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FsckStart {
    /// Read every shard from its medium first.
    pub deep: bool,
}

/// Asks how the check fares.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FsckStatus {}

/// Asks for a further page of the objects at risk that the last check found.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FsckMore {
    /// The page, from 0 on, in order. The last one can be requested again.
    pub page: u64,
}

/// The redundancy ledger: amounts of data by the number of disk failures that they survive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerInfo {
    /// When it was counted, RFC 3339 in UTC.
    pub counted: String,
    /// Failures that the catalog is to survive. It is the number of the safest pool's layout.
    pub full: i32,
    /// From the most endangered on.
    pub lines: Vec<LedgerLineInfo>,
    /// Failures that the catalog survives now; negative if a part of it can be read from no disk.
    pub catalog: i32,
    /// Pieces of the catalog index that no disk has right.
    #[serde(default)]
    pub catalog_lost: u64,
    /// Whether the catalog was restored or rebuilt, and it is not decided yet whether blobs without
    /// a name are salvaged or given up. These blobs are in no line.
    #[serde(default)]
    pub unsettled: bool,
    /// The reason why the check could not read everything. The counts cover the part that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Bytes of small objects that are only in the journal. They are as safe as the journal.
    pub journal_only_bytes: u64,
    /// Blobs without a name that are about to be removed. They are in no line.
    #[serde(default)]
    pub freeing_blobs: u64,
    /// Their content in bytes.
    #[serde(default)]
    pub freeing_bytes: u64,
    /// Objects below full redundancy, the worst first; only from `fsck`, and only the first ones if
    /// there are very many.
    pub at_risk: Vec<DangerInfo>,
    /// Whether there are more of them: pages of [`AtRiskInfo`] name those.
    pub more: bool,
    /// Shards, pieces of the catalog index and files of the journal, read and found bad; only from `fsck --deep`.
    pub found_bad: u64,
}

/// A line of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerLineInfo {
    /// Failures left; negative: it cannot be read now.
    pub failures_left: i32,
    /// Large objects or parts of them, and segments of small ones.
    pub blobs: u64,
    /// Their content in bytes.
    pub bytes: u64,
    /// Of the blobs, those that survive fewer failures than the layouts of their pools are to
    /// survive.
    #[serde(default)]
    pub lacking: u64,
    /// Objects; only from `fsck`.
    pub objects: Option<u64>,
    /// All of it was written, or read and found good, at this time or later.
    pub proven: Option<String>,
}

/// An object that is less safe than it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DangerInfo {
    /// Failures left; negative: it cannot be read now.
    pub failures_left: i32,
    /// Its path.
    pub path: String,
}

/// The status of repair, and its work since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairInfo {
    /// Blobs put right.
    pub repaired: u64,
    /// Blobs that were rewritten in another layout.
    pub laid_out: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Repairs that failed; they are tried again.
    pub failed: u64,
    /// Blobs that waited for repair at the last pass over all records, including those with a
    /// failed repair.
    pub waiting: u64,
    /// Of these, those whose repair failed and is tried again later.
    #[serde(default)]
    pub resting: u64,
}

/// How a check of everything fares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsckInfo {
    /// Whether it is still under way.
    pub running: bool,
    /// Blobs read so far; only with `--deep`.
    pub blobs_read: u64,
    /// The result of the check.
    pub ledger: Option<LedgerInfo>,
    /// Why it could not be finished.
    pub error: Option<String>,
    /// How far it is, while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// A page of the objects at risk that a check did not list at first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtRiskInfo {
    /// Objects below full redundancy, the worst first; there may be none on a page.
    pub at_risk: Vec<DangerInfo>,
    /// Whether a page follows.
    pub more: bool,
}

/// The scrub of a disk: under way or due, or the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubInfo {
    /// The disk's id in 32 hexadecimal digits.
    pub id: String,
    /// The disk's number.
    pub number: Option<u32>,
    /// Its folder.
    pub path: String,
    /// Whether it can be read now.
    pub readable: bool,
    /// When the pass under way was asked for, RFC 3339 in UTC.
    pub began: Option<String>,
    /// When the last complete pass ended.
    pub ended: Option<String>,
    /// Shards read in the pass, since the start of the server.
    pub shards: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the file system in use: about what a pass reads.
    pub used_bytes: Option<u64>,
    /// Shards that the scrub found bad since the start of the server.
    pub bad: u64,
    /// How far it is, while it is due or under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

impl AdminCommand for ScrubStart {
    const SPEC: CommandSpec = CommandSpec::changes("scrub", "admin:scrub").replies_done();
    type Reply = Done;

    fn target(&self) -> String {
        self.disk.clone().unwrap_or_default()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let disks = match &self.disk {
            Some(disk) => vec![admin.changes.find(disk).await?],
            None => admin.pool.members().map(|member| member.id).collect(),
        };
        for disk in disks {
            admin.store.disks().scrub_now(disk).await?;
        }
        Ok(Done::Done)
    }
}

impl AdminCommand for ScrubList {
    const SPEC: CommandSpec =
        CommandSpec::reads("scrub_status", "admin:scrub-status").replies("scrubs");
    type Reply = Vec<ScrubInfo>;

    async fn run(self, admin: &AdminContext) -> Result<Vec<ScrubInfo>> {
        admin.upkeep.scrubs().await
    }
}

impl AdminCommand for FsckStart {
    const SPEC: CommandSpec = CommandSpec::changes("fsck_start", "admin:fsck").replies_done();
    type Reply = Done;

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        admin.upkeep.fsck_start(self.deep)?;
        Ok(Done::Done)
    }
}

impl AdminCommand for FsckStatus {
    const SPEC: CommandSpec = CommandSpec::reads("fsck", "admin:fsck-status");
    type Reply = FsckInfo;

    async fn run(self, admin: &AdminContext) -> Result<FsckInfo> {
        Ok(admin.upkeep.fsck())
    }
}

impl AdminCommand for FsckMore {
    const SPEC: CommandSpec =
        CommandSpec::reads("fsck_more", "admin:fsck-status").replies("at_risk");
    type Reply = AtRiskInfo;

    async fn run(self, admin: &AdminContext) -> Result<AtRiskInfo> {
        admin.upkeep.fsck_more(self.page).await
    }
}
