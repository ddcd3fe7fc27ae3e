//! What administrators ask of a store's upkeep: disks, scrub, ledger, fsck.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dewar_data::pool::Pool;
use dewar_env::DiskState;
use dewar_store::Store;
use dewar_store::engine::LiveFolders;
use dewar_store::upkeep::{Decision, Ledger, LedgerDepth};
use dewar_types::{DiskId, Timestamp};
use parking_lot::Mutex;

use super::admin::rfc3339;
use crate::admin::{
    AdminError, DangerInfo, DiskAction, DiskInfo, Failure, FsckInfo, LedgerInfo, LedgerLineInfo,
    RepairInfo,
};

type Result<T> = std::result::Result<T, AdminError>;

/// Digits of an id that name a disk at least.
const ID_DIGITS_MIN: usize = 4;

/// Looks after one store's disks for administrators.
pub(super) struct UpkeepAdmin {
    store: Store,
    pool: Arc<Pool>,
    folders: Arc<LiveFolders>,
    /// The last check of everything, or the one under way.
    fsck: Arc<Mutex<Option<Check>>>,
}

struct Check {
    read: Arc<AtomicU64>,
    outcome: Option<Result<LedgerInfo>>,
}

impl UpkeepAdmin {
    pub(super) fn new(store: Store, pool: Arc<Pool>, folders: Arc<LiveFolders>) -> Self {
        Self {
            store,
            pool,
            folders,
            fsck: Arc::default(),
        }
    }

    pub(super) fn repair(&self) -> RepairInfo {
        let status = self.store.repair_status();
        RepairInfo {
            repaired: status.repaired,
            laid_out: status.laid_out,
            bytes: status.bytes,
            failed: status.failed,
            waiting: status.waiting,
        }
    }

    /// The ledger as far as the records tell it.
    pub(super) async fn ledger(&self) -> Result<LedgerInfo> {
        let read = AtomicU64::new(0);
        let counted = self.store.ledger(LedgerDepth::default(), &read).await?;
        Ok(ledger_info(&counted))
    }

    pub(super) async fn disk_list(&self) -> Result<Vec<DiskInfo>> {
        let scrubs = self.store.scrub_status();
        let mut disks = Vec::new();
        for line in self.store.disk_lines().await? {
            let scrub = scrubs.iter().find(|(disk, _)| *disk == line.disk);
            let scrub = scrub.map(|(_, status)| *status).unwrap_or_default();
            let state = match (line.decision, line.state) {
                (Some(Decision::Remove), _) => "removed",
                (_, None | Some(DiskState::Missing)) => "missing",
                (_, Some(DiskState::Hung)) => "hung",
                (_, Some(DiskState::Poisoned)) => "failed",
                (_, Some(DiskState::ReadOnly { .. })) => "read-only",
                (Some(Decision::Drain), _) => "draining",
                (None, Some(DiskState::Online { .. })) => "online",
            };
            disks.push(DiskInfo {
                id: Some(line.disk.to_string()),
                path: line.label,
                state: state.to_owned(),
                shards: line.shards,
                bytes: line.bytes,
                bad_shards: line.bad,
                total_bytes: line.space.map(|(total, _)| total),
                available_bytes: line.space.map(|(_, available)| available),
                scrubbed: scrub.last.map(|(_, ended)| rfc3339(ended)),
                scrub_began: scrub.began.map(rfc3339),
                scrub_bytes: scrub.bytes,
            });
        }
        // Folders that hold no disk of the pool, in the order of the configuration.
        for (path, state) in self.folders.states() {
            if !disks.iter().any(|disk| disk.path.as_ref() == Some(&path)) {
                disks.push(DiskInfo {
                    id: None,
                    path: Some(path),
                    state: state.to_owned(),
                    shards: 0,
                    bytes: 0,
                    bad_shards: 0,
                    total_bytes: None,
                    available_bytes: None,
                    scrubbed: None,
                    scrub_began: None,
                    scrub_bytes: 0,
                });
            }
        }
        disks.sort_by(|a, b| (a.path.is_none(), &a.path).cmp(&(b.path.is_none(), &b.path)));
        Ok(disks)
    }

    pub(super) async fn disk_decide(&self, disk: &str, action: DiskAction) -> Result<()> {
        let disk = self.find(disk).await?;
        let decision = match action {
            DiskAction::Drain => Some(Decision::Drain),
            DiskAction::Keep => None,
            DiskAction::Remove => Some(Decision::Remove),
        };
        let decided = self.store.decide(disk, decision).await;
        decided.map_err(|error| match error.kind() {
            dewar_types::ErrorKind::Conflict => AdminError::new(Failure::InUse, error.message()),
            _ => error.into(),
        })
    }

    pub(super) async fn scrub(&self, disk: Option<&str>) -> Result<()> {
        let disks = match disk {
            Some(disk) => vec![self.find(disk).await?],
            None => self.pool.members().map(|member| member.id).collect(),
        };
        for disk in disks {
            self.store.scrub_now(disk).await?;
        }
        Ok(())
    }

    pub(super) fn fsck_start(&self, deep: bool) {
        let mut fsck = self.fsck.lock();
        if fsck.as_ref().is_some_and(|check| check.outcome.is_none()) {
            return;
        }
        let read = Arc::new(AtomicU64::new(0));
        *fsck = Some(Check {
            read: Arc::clone(&read),
            outcome: None,
        });
        drop(fsck);
        let (store, fsck) = (self.store.clone(), Arc::clone(&self.fsck));
        tokio::spawn(async move {
            let depth = LedgerDepth {
                objects: true,
                read: deep,
            };
            let counted = store.ledger(depth, &read).await;
            let outcome = counted.map(|ledger| ledger_info(&ledger));
            if let Some(check) = &mut *fsck.lock() {
                check.outcome = Some(outcome.map_err(AdminError::from));
            }
        });
    }

    pub(super) fn fsck(&self) -> FsckInfo {
        let fsck = self.fsck.lock();
        let Some(check) = &*fsck else {
            return FsckInfo::default();
        };
        let (ledger, error) = match &check.outcome {
            Some(Ok(ledger)) => (Some(ledger.clone()), None),
            Some(Err(error)) => (None, Some(error.message.clone())),
            None => (None, None),
        };
        FsckInfo {
            running: check.outcome.is_none(),
            blobs_read: check.read.load(Ordering::Relaxed),
            ledger,
            error,
        }
    }

    /// The disk that a folder, an id or the beginning of one means.
    async fn find(&self, named: &str) -> Result<DiskId> {
        let wanted = named.trim_end_matches('/');
        if let Some(member) = self
            .pool
            .members()
            .find(|member| member.disk.label().trim_end_matches('/') == wanted)
        {
            return Ok(member.id);
        }
        let id = wanted.to_ascii_lowercase();
        let lines = self.store.disk_lines().await?;
        let mut found = lines
            .iter()
            .map(|line| line.disk)
            .filter(|disk| id.len() >= ID_DIGITS_MIN && disk.to_string().starts_with(&id));
        match (found.next(), found.next()) {
            (Some(disk), None) => Ok(disk),
            (Some(_), Some(_)) => Err(AdminError::new(
                Failure::Invalid,
                format!("more than one disk has an id that begins with {named}"),
            )),
            (None, _) => Err(AdminError::new(
                Failure::NotFound,
                format!("there is no disk {named}: `dewar disk list` names them all"),
            )),
        }
    }
}

fn ledger_info(ledger: &Ledger) -> LedgerInfo {
    let time = |time: Option<Timestamp>| time.map(rfc3339);
    LedgerInfo {
        counted: rfc3339(ledger.counted),
        full: ledger.full,
        lines: ledger
            .lines
            .iter()
            .map(|(margin, line)| LedgerLineInfo {
                failures_left: *margin,
                blobs: line.blobs,
                bytes: line.bytes,
                objects: line.objects,
                proven: time(line.proven),
            })
            .collect(),
        catalog: ledger.catalog,
        journal_only_bytes: ledger.unsealed_bytes,
        at_risk: ledger
            .at_risk
            .iter()
            .map(|danger| DangerInfo {
                failures_left: danger.margin,
                path: danger.path.clone(),
            })
            .collect(),
        more: ledger.more,
        found_bad: ledger.found_bad,
    }
}
