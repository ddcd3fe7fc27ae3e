//! Requests about disks and redundancy, and their replies.

use serde::{Deserialize, Serialize};

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

/// The message about a disk without free space.
pub const FULL: &str = "it is full, and takes no new data until there is room";

/// The start of the detail of a complete disk that this process may not access.
pub const NO_RIGHT: &str = "this process may not use it: ";

/// The start of the detail of a disk with folder and data, but without a valid identity file.
pub const NO_IDENTITY: &str = "its file `dewar-disk` ";

/// The detail of a missing disk whose folder is not known.
pub const NOWHERE: &str = "it is in no folder that this server knows";

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
}
