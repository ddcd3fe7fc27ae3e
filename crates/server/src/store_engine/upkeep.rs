//! What administrators ask of a store's upkeep: disks, scrub, ledger, fsck.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dewar_data::pool::Pool;
use dewar_env::DiskState;
use dewar_store::Store;
use dewar_store::engine::{Content, Refusal};
use dewar_store::upkeep::{Decision, DiskLine, Ledger, LedgerDepth};
use dewar_types::Timestamp;
use parking_lot::Mutex;

use super::admin::rfc3339;
use super::changes::{DiskChanges, held_text};
use crate::admin::{
    AdminError, DangerInfo, DiskAction, DiskAdded, DiskInfo, DiskReadmitted, DiskRemoved, DiskStatus,
    FsckInfo, LedgerInfo, LedgerLineInfo, RepairInfo,
};
use crate::cli::status;

type Result<T> = std::result::Result<T, AdminError>;

/// Looks after one store's disks for administrators.
pub(super) struct UpkeepAdmin {
    store: Store,
    pool: Arc<Pool>,
    changes: DiskChanges,
    /// The last check of everything, or the one under way.
    fsck: Arc<Mutex<Option<Check>>>,
}

struct Check {
    read: Arc<AtomicU64>,
    outcome: Option<Result<LedgerInfo>>,
}

impl UpkeepAdmin {
    pub(super) fn new(store: Store, pool: Arc<Pool>, changes: DiskChanges) -> Self {
        Self {
            store,
            pool,
            changes,
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

    /// The folders and how their disks are; without those whose disks were removed and are gone.
    pub(super) async fn disk_states(&self) -> Vec<DiskStatus> {
        self.changes.look_at_removed().await;
        let numbers = self.changes.roster.numbers();
        let shown = self.changes.states();
        let mut states = Vec::new();
        self.changes.folders.each(|folder| {
            let (path, state) = folder.state();
            if !shown.iter().any(|(known, _)| *known == path) {
                return;
            }
            let was = self.changes.roster.at(Path::new(&path));
            let (id, detail) = match (&folder.content, &folder.refused) {
                (Content::Disk { identity, .. }, Some(Refusal::Removed)) => {
                    let held = self.changes.held(identity.disk);
                    (Some(identity.disk), held.map(|held| held_text(&held)))
                }
                (Content::Disk { identity, .. }, Some(refusal)) => {
                    let dewar = self.pool.dewar();
                    (Some(identity.disk), Some(refusal.sentence(&path, dewar)))
                }
                (Content::Disk { identity, .. }, None) => (Some(identity.disk), None),
                (Content::Blank { .. }, _) => (was, None),
                (Content::Absent(error), _) => (was, Some(error.to_string())),
            };
            let detail = match state {
                "read-only" => Some(why_read_only(Path::new(&path))),
                _ => detail,
            };
            let state = match id.and_then(|id| self.store.decision(id)) {
                Some(Decision::Replace) if folder.refused.is_none() => "replacing",
                _ if state == "online" && id.is_some_and(|id| self.store.is_returning(id)) => {
                    "returning"
                }
                _ => state,
            };
            states.push(DiskStatus {
                number: id.and_then(|id| numbers.get(&id).copied()),
                path,
                state: state.to_owned(),
                detail,
            });
        });
        states
    }

    pub(super) async fn disk_list(&self) -> Result<Vec<DiskInfo>> {
        // Disks may have joined since.
        self.changes.note()?;
        let roster = &self.changes.roster;
        let (numbers, scrubs) = (roster.numbers(), self.store.scrub_status());
        let folders = self.disk_states().await;
        let mut disks = Vec::new();
        for line in self.store.disk_lines().await? {
            let scrub = scrubs.iter().find(|(disk, _)| *disk == line.disk);
            let scrub = scrub.map(|(_, status)| *status).unwrap_or_default();
            let known = || {
                let folder = roster.folder_of(line.disk)?;
                Some(folder.display().to_string())
            };
            let mut disk = DiskInfo {
                number: numbers.get(&line.disk).copied(),
                id: Some(line.disk.to_string()),
                path: line.label.clone().or_else(known),
                state: disk_state(&line).to_owned(),
                shards: line.shards,
                bytes: line.bytes,
                bad_shards: line.bad,
                total_bytes: line.space.map(|(total, _)| total),
                available_bytes: line.space.map(|(_, available)| available),
                scrubbed: scrub.last.map(|(_, ended)| rfc3339(ended)),
                scrub_began: scrub.began.map(rfc3339),
                scrub_bytes: scrub.bytes,
                advice: None,
                holds: None,
            };
            if disk.state == "removed" && disk.path.is_some() {
                disk.holds = self.changes.held(line.disk);
            }
            let folder = folders.iter().find(|folder| {
                disk.path.as_ref() == Some(&folder.path) && folder.number == disk.number
            });
            disk.advice = status::advice(
                &disk.state,
                disk.path.as_deref(),
                disk.number,
                folder.and_then(|folder| folder.detail.as_deref()),
            );
            disks.push(disk);
        }
        // Folders that hold no disk of the pool, in the order of the configuration.
        for folder in folders {
            let listed = |disk: &DiskInfo| {
                disk.path.as_ref() == Some(&folder.path)
                    && (disk.number == folder.number || disk.state == folder.state)
            };
            if disks.iter().any(listed) {
                continue;
            }
            let advice = status::advice(
                &folder.state,
                Some(&folder.path),
                folder.number,
                folder.detail.as_deref(),
            );
            let id = folder.number.and_then(|number| roster.by_number(number));
            disks.push(DiskInfo {
                holds: match &*folder.state {
                    "removed" => id.and_then(|id| self.changes.held(id)),
                    _ => None,
                },
                number: folder.number,
                path: Some(folder.path),
                state: folder.state,
                advice,
                ..DiskInfo::default()
            });
        }
        let place = |disk: &DiskInfo| (disk.number.is_none(), disk.number, disk.path.clone());
        disks.sort_by_key(place);
        Ok(disks)
    }

    pub(super) async fn disk_add(&self, folder: &str, replaces: Option<&str>) -> Result<DiskAdded> {
        self.changes.add(folder, replaces).await
    }

    pub(super) async fn disk_decide(&self, disk: &str, action: DiskAction) -> Result<()> {
        let decision = match action {
            DiskAction::Drain => Some(Decision::Drain),
            DiskAction::Keep => None,
        };
        let disk = self.changes.find(disk).await?;
        Ok(self.store.decide(disk, decision).await?)
    }

    pub(super) async fn disk_remove(&self, disk: &str) -> Result<DiskRemoved> {
        self.changes.remove(disk).await
    }

    pub(super) async fn disk_readmit(&self, disk: &str) -> Result<DiskReadmitted> {
        self.changes.readmit(disk).await
    }

    pub(super) async fn scrub(&self, disk: Option<&str>) -> Result<()> {
        let disks = match disk {
            Some(disk) => vec![self.changes.find(disk).await?],
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
}

fn disk_state(line: &DiskLine) -> &'static str {
    match (line.decision, line.state) {
        (Some(Decision::Remove), _) => "removed",
        (Some(Decision::Replace), _) => "replacing",
        (_, None | Some(DiskState::Missing)) => "missing",
        (_, Some(DiskState::Hung)) => "hung",
        (_, Some(DiskState::Poisoned)) => "failed",
        (_, Some(DiskState::ReadOnly { .. })) => "read-only",
        (Some(Decision::Drain), _) => "draining",
        (None, Some(DiskState::Online { .. })) if line.returning => "returning",
        (None, Some(DiskState::Online { .. })) => "online",
    }
}

/// What keeps this process from writing to a folder.
fn why_read_only(folder: &Path) -> String {
    let read_only = rustix::fs::statvfs(folder)
        .is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    if read_only {
        return "its file system is mounted read-only".to_owned();
    }
    let user = rustix::process::geteuid().as_raw();
    match std::fs::metadata(folder) {
        Ok(found) if found.uid() != user => format!(
            "it belongs to user {}, and this process runs as user {user}",
            found.uid()
        ),
        Ok(found) => format!("its mode {:o} forbids it", found.mode() & 0o7777),
        Err(error) => format!("it cannot be looked at: {error}"),
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
