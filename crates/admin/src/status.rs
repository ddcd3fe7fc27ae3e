//! How a server fares.

use std::sync::Arc;

use dewar_env::worker::WorkerState;
use dewar_journal::JournalState;
use dewar_store::Store;
use dewar_types::Timestamp;
use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec};
use crate::context::AdminContext;
use crate::error::{AdminError, Failure, Result};
use crate::pool_figures::PoolFigures;
use crate::progress::{Progress, ProgressUnit};
use crate::upkeep::{LedgerInfo, RepairInfo};

/// Most owners of open uploads that are named.
const OWNERS_MAX: usize = 10;

pub(crate) const COMMANDS: &[CommandEntry] = &[CommandEntry::of::<StatusRequest>()];

/// Asks how the server fares.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusRequest {}

/// How a server fares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it began to serve.
    pub uptime_seconds: u64,
    /// Its zone.
    pub zone: u16,
    /// Its pool.
    pub pool: PoolStatus,
    /// The redundancy ledger: amounts of data by the number of failures that they survive.
    pub ledger: LedgerInfo,
    /// The status of repair.
    pub repair: RepairInfo,
    /// Its doors.
    pub doors: Vec<DoorStatus>,
    /// The problems of services that doors depend on.
    #[serde(default)]
    pub troubles: Vec<HealthIssue>,
    /// Third-party copies from and to other servers that are under way.
    pub copies: u64,
    /// Uploads in parts that are not completed yet.
    #[serde(default)]
    pub uploads: OpenUploads,
    /// Long work that is under way: backups, checks, scrubs, drains and repairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<Progress>,
}

/// Uploads in parts that are not completed yet, and whose they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenUploads {
    /// How many there are in all.
    pub uploads: u64,
    /// The size of their parts in bytes.
    pub bytes: u64,
    /// The owners of most of these bytes, at most ten.
    pub owners: Vec<UploadOwner>,
    /// How many further owners there are.
    pub further_owners: u64,
}

/// The open uploads of one owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadOwner {
    /// The account, `[TENANT:]NAME`, or its id where it was removed.
    pub owner: String,
    /// How many.
    pub uploads: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds since the oldest of them began, as far as it was looked for.
    pub oldest_seconds: Option<u64>,
}

/// How the pools fare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// The main pool.
    #[serde(flatten)]
    pub main: PoolInfo,
    /// The further pools.
    #[serde(default)]
    pub further: Vec<PoolInfo>,
    /// The disks of all pools in the order of the configuration.
    pub disks: Vec<DiskStatus>,
    /// Notes for the administrator, as sentences.
    pub notes: Vec<String>,
}

/// How a pool fares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolInfo {
    /// Its name.
    pub name: String,
    /// Layout of new objects while every disk is there.
    pub layout: String,
    /// Its disks that may still be lost without losing data.
    pub margin: u32,
    /// Whether it takes new objects.
    pub writable: bool,
    /// Bytes of the file systems of its disks. Folders on one device each count the whole device.
    pub total_bytes: u64,
    /// Free bytes, before the share for parity is subtracted.
    pub available_bytes: u64,
}

/// How a disk fares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// The disk's number, which people use as its name.
    pub number: Option<u32>,
    /// Its folder.
    pub path: String,
    /// The name of its pool.
    #[serde(default)]
    pub pool: String,
    /// As [`DiskInfo::state`].
    pub state: String,
    /// More about that.
    pub detail: Option<String>,
    /// Shards that are still on a disk that is being emptied.
    #[serde(default)]
    pub shards_left: Option<u64>,
    /// Their bytes.
    #[serde(default)]
    pub bytes_left: Option<u64>,
    /// The id of a missing disk with an unknown folder; `path` is no folder then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// The address of a door.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorStatus {
    /// `s3`, `metrics` …
    pub name: String,
    /// Its URL, without a slash at the end.
    pub endpoint: String,
}

/// A problem, worded for the administrator of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthIssue {
    /// The problem, as a sentence without a full stop.
    pub what: String,
    /// The action to take.
    pub advice: String,
}

/// The doors of a server.
#[derive(Clone)]
pub struct Doors {
    /// The addresses of the doors.
    pub list: Vec<DoorStatus>,
    /// Returns the current problems of services that the doors depend on. Must not block.
    pub troubles: Arc<dyn Fn() -> Vec<HealthIssue> + Send + Sync>,
}

impl Default for Doors {
    /// None.
    fn default() -> Self {
        Self {
            list: Vec::new(),
            troubles: Arc::new(Vec::new),
        }
    }
}

impl AdminCommand for StatusRequest {
    const SPEC: CommandSpec = CommandSpec::reads("status", "admin:status");
    type Reply = Status;

    async fn run(self, admin: &AdminContext) -> Result<Status> {
        let running = admin.env.clock.elapsed().saturating_sub(admin.started);
        let repair = admin.upkeep.repair();
        let pool = pools(admin).await?;
        Ok(Status {
            work: work(admin, &repair, &pool.disks).await?,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: running.as_secs(),
            zone: admin.zone,
            pool,
            ledger: admin.upkeep.ledger().await?,
            repair,
            doors: admin.doors.list.clone(),
            troubles: troubles(admin),
            copies: u64::try_from(admin.transfers.figures().active).unwrap_or(u64::MAX),
            uploads: open_uploads(&admin.store, admin.env.clock.now()).await?,
        })
    }
}

/// The problems of services that the doors depend on, and paused workers.
fn troubles(admin: &AdminContext) -> Vec<HealthIssue> {
    let mut troubles = (admin.doors.troubles)();
    let reports = admin.workers.reports().into_iter();
    let paused = reports.filter(|worker| worker.state == WorkerState::Paused);
    troubles.extend(paused.map(|worker| HealthIssue {
        what: format!("the worker {} is paused", worker.name),
        advice: format!("dewar worker resume {}", worker.name),
    }));
    troubles
}

/// The main pool, and the further ones.
async fn pools(admin: &AdminContext) -> Result<PoolStatus> {
    let figures = admin.changes.pools(&admin.pool, &admin.journal);
    let notes = notes(admin, &figures);
    let mut pools = figures.into_iter().map(|pool| PoolInfo {
        name: pool.name,
        layout: pool.layout.to_string(),
        margin: u32::try_from(pool.margin).unwrap_or(0),
        writable: pool.writable,
        total_bytes: pool.total_bytes,
        available_bytes: pool.available_bytes,
    });
    let main = pools
        .next()
        .ok_or_else(|| AdminError::new(Failure::Unavailable, "there is no pool"))?;
    Ok(PoolStatus {
        main,
        further: pools.collect(),
        disks: admin.upkeep.disk_progress().await?,
        notes,
    })
}

/// Long work that is under way.
async fn work(
    admin: &AdminContext,
    repair: &RepairInfo,
    disks: &[DiskStatus],
) -> Result<Vec<Progress>> {
    let mut work: Vec<Progress> = admin.backups.status().progress.into_iter().collect();
    work.extend(admin.upkeep.fsck().progress);
    let scrubs = admin.upkeep.scrubs().await?;
    work.extend(scrubs.into_iter().filter_map(|scrub| scrub.progress));
    work.extend(
        disks
            .iter()
            .filter_map(|disk| admin.upkeep.drain_progress(disk)),
    );
    if repair.waiting > 0 {
        work.push(Progress {
            what: "repair since the start of the server".to_owned(),
            done: repair.repaired,
            total: Some(repair.repaired + repair.waiting),
            unit: ProgressUnit::Blobs,
            started: None,
            errors: repair.failed,
        });
    }
    Ok(work)
}

fn notes(admin: &AdminContext, pools: &[PoolFigures]) -> Vec<String> {
    let mut notes = Vec::new();
    match &admin.journal.status().state {
        JournalState::Running => {}
        JournalState::Changing => notes.push("the journal is changing its disks".to_owned()),
        JournalState::Stalled(why) => notes.push(format!("writes wait: {why}")),
        JournalState::ReadOnly => notes.push("the journal is open for reading only".to_owned()),
        JournalState::Closed => notes.push("the journal is closed".to_owned()),
    }
    for (n, pool) in pools.iter().enumerate() {
        let (layout, live) = (pool.layout, pool.live);
        let (of, into) = match n {
            0 => (String::new(), String::new()),
            _ => (
                format!(" of the pool {}", pool.name),
                format!(" into the pool {}", pool.name),
            ),
        };
        match (&pool.now, layout.narrowed_to(live)) {
            (Ok(now), _) if *now == layout => {}
            (Ok(now), _) => notes.push(format!(
                "new objects{of} are written as {now}, not {layout}"
            )),
            (Err(_), None) => notes.push(format!(
                "only {live} disks{of} can be written: writes{into} are refused"
            )),
            (Err(full), Some(_)) => notes.push(format!(
                "the disks{of} are full ({}): writes{into} are refused, deletes are not",
                full.message()
            )),
        }
    }
    if let Some(why) = admin.audit.failing() {
        notes.push(format!("the audit log cannot be written: {why}"));
    }
    notes
}

/// The owners of open uploads, by bytes in descending order.
async fn open_uploads(store: &Store, now: Timestamp) -> Result<OpenUploads> {
    let all = store.upload_usage().await?;
    let mut open = OpenUploads {
        uploads: all.iter().map(|usage| usage.uploads).sum(),
        bytes: all.iter().map(|usage| usage.bytes).sum(),
        owners: Vec::new(),
        further_owners: all.len().saturating_sub(OWNERS_MAX) as u64,
    };
    for usage in all.into_iter().take(OWNERS_MAX) {
        let name = store.account_called(usage.owner).await?;
        let age = |began: Timestamp| now.0.saturating_sub(began.0) / 1_000_000_000;
        open.owners.push(UploadOwner {
            owner: name.unwrap_or_else(|| usage.owner.to_string()),
            uploads: usage.uploads,
            bytes: usage.bytes,
            oldest_seconds: usage.oldest.map(age),
        });
    }
    Ok(open)
}
