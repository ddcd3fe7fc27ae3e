//! Admin requests about upkeep: disks, scrub, ledger, fsck.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dewar_disks::pool::{FolderProbe, IDENTITY_FILE, Identity, Pool, inspect};
use dewar_disks::upkeep::{Decision, DiskLine, Ledger, ObjectAtRisk, ScrubPass};
use dewar_engine::{DiskRefusal, FolderContent};
use dewar_env::{Disk, DiskState, Env, Space};
use dewar_store::Store;
use dewar_store::{LedgerDepth, UnderReplicated};
use dewar_types::{DiskId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;

use crate::disk_advice::disk_advice;
use crate::disk_changes::{DiskChanges, held_text};
use crate::disks::{DiskAction, DiskDecided, DiskInfo, FULL, NO_IDENTITY, NO_RIGHT, NOWHERE};
use crate::progress::{Progress, ProgressUnit};
use crate::status::DiskStatus;
use crate::time_text::rfc3339;
use crate::upkeep::{
    AtRiskInfo, DangerInfo, FsckInfo, LedgerInfo, LedgerLineInfo, RepairInfo, ScrubInfo,
};
use crate::{AdminError, Failure, Result};

/// Looks after one store's disks for administrators.
pub struct UpkeepAdmin {
    store: Store,
    pool: Arc<Pool>,
    changes: DiskChanges,
    /// The last check of everything, or the one under way.
    fsck: Arc<Mutex<Option<RunningCheck>>>,
    env: Env,
    /// By the folders of disks that are being emptied: what was on them at first.
    drains: Mutex<BTreeMap<String, DrainStart>>,
}

/// The beginning of a drain, as far as this process has seen it.
struct DrainStart {
    bytes: u64,
    started: Option<String>,
}

struct RunningCheck {
    deep: bool,
    started: String,
    read: Arc<AtomicU64>,
    outcome: Option<Result<LedgerInfo>>,
    /// Objects at risk that the outcome does not name.
    rest: Arc<AsyncMutex<RemainingAtRisk>>,
}

/// See [`RunningCheck::rest`].
#[derive(Default)]
struct RemainingAtRisk {
    at_risk: Option<UnderReplicated>,
    /// The page that was handed out last, and how many there were.
    last: AtRiskInfo,
    pages: u64,
}

/// Objects at risk on a page.
const PAGE: usize = 5000;

/// How long a disk that is in use may take to say who it is.
const FLAW_PATIENCE: Duration = Duration::from_secs(2);

/// The message about a disk that takes longer.
const HANGS: &str = "it has not answered for two seconds: the kernel's log may say why";

impl UpkeepAdmin {
    /// Upkeep of an open store and its pool.
    pub fn new(env: Env, pool: Arc<Pool>, changes: DiskChanges) -> Self {
        Self {
            env,
            drains: Mutex::default(),
            store: changes.store.clone(),
            pool,
            changes,
            fsck: Arc::default(),
        }
    }

    pub(crate) fn repair(&self) -> RepairInfo {
        let status = self.store.disks().repair_status();
        RepairInfo {
            repaired: status.repaired,
            laid_out: status.laid_out,
            bytes: status.bytes,
            failed: status.failed,
            waiting: status.waiting + status.resting,
            resting: status.resting,
        }
    }

    /// The ledger as far as the records tell it.
    pub(crate) async fn ledger(&self) -> Result<LedgerInfo> {
        let read = AtomicU64::new(0);
        let counted = self.store.ledger(LedgerDepth::default(), &read).await?;
        Ok(ledger_info(&counted))
    }

    /// The folders and the states of their disks, without absent disks that were removed.
    async fn disk_states(&self) -> Vec<DiskStatus> {
        self.changes.look_at_removed().await;
        let numbers = self.changes.roster.numbers();
        let shown = self.changes.states();
        let (hollow, room) = (self.store.disks().lost_shard_dirs(), self.store.space());
        let unverified = self.store.disks().unverified();
        let is_full = |space: &Space| space.available <= space.reserve();
        let mut states = Vec::new();
        let flaws = self.flaws().await;
        self.changes.folders.each(|folder| {
            let (path, state) = folder.state();
            if !shown.iter().any(|(known, _)| *known == path) {
                return;
            }
            let was = self.changes.roster.at(Path::new(&path));
            let (id, detail) = match (&folder.content, &folder.refused) {
                (FolderContent::Disk { identity, .. }, Some(DiskRefusal::Removed)) => {
                    let held = self.changes.held(identity.disk);
                    (Some(identity.disk), held.map(|held| held_text(&held)))
                }
                (FolderContent::Disk { identity, .. }, Some(refusal)) => {
                    let dewar = self.pool.dewar();
                    (Some(identity.disk), Some(refusal.sentence(&path, dewar)))
                }
                (FolderContent::Disk { identity, .. }, None) => (Some(identity.disk), None),
                (FolderContent::Blank { .. }, _) => (was, None),
                (FolderContent::Absent(error), _) => (was, Some(error.to_string())),
            };
            let detail = match state {
                "read-only" => Some(why_read_only(Path::new(&path))),
                "missing" | "blank" => Some(why_missing(Path::new(&path))),
                "online" if id.and_then(|id| room.get(&id)).is_some_and(is_full) => {
                    Some(FULL.to_owned())
                }
                "online" if id.is_some_and(|id| hollow.contains(&id)) => Some(HOLLOW.to_owned()),
                "online" if id.is_some_and(|id| unverified.contains(&id)) => {
                    Some(IN_DOUBT.to_owned())
                }
                "online" if flaws.contains_key(&path) => flaws.get(&path).cloned(),
                _ => detail,
            };
            let state = match &detail {
                // Nobody would mount anything on it.
                Some(detail) if state == "blank" && detail.starts_with(NO_IDENTITY) => "missing",
                _ => state,
            };
            let state = self.changes.decided(folder, id, state);
            let pool = match (&folder.content, id) {
                (FolderContent::Disk { identity, .. }, _) => Some(identity.pool),
                (_, Some(id)) => self.changes.roster.pool_of(id),
                _ => None,
            };
            states.push(DiskStatus {
                pool: self.changes.pool_name(pool.unwrap_or(folder.pool)),
                number: id.and_then(|id| numbers.get(&id).copied()),
                path,
                state: state.to_owned(),
                detail,
                ..DiskStatus::default()
            });
        });
        states.extend(self.changes.nowhere().into_iter().map(|id| DiskStatus {
            number: numbers.get(&id).copied(),
            path: DiskChanges::nowhere_name(id),
            pool: self.pool_of(id).unwrap_or_default(),
            state: "missing".to_owned(),
            detail: Some(NOWHERE.to_owned()),
            id: Some(id.to_string()),
            ..DiskStatus::default()
        }));
        states
    }

    /// Problems of folders whose disks are in use nevertheless. Without this check they would
    /// appear only at the next start or at the first access.
    async fn flaws(&self) -> BTreeMap<String, String> {
        // Each by itself, since any may hang.
        let mut looks = JoinSet::new();
        self.changes.folders.each(|folder| {
            if let (FolderContent::Disk { identity, disk }, None) =
                (&folder.content, &folder.refused)
                && disk.state().readable()
            {
                let (label, id, disk) = (folder.label.clone(), identity.disk, Arc::clone(disk));
                looks.spawn(async move {
                    let look = flaw(&label, id, &*disk);
                    let flaw = tokio::time::timeout(FLAW_PATIENCE, look).await;
                    let flaw = flaw.unwrap_or_else(|_| Some(HANGS.to_owned()));
                    Some((label, flaw?))
                });
            }
        });
        looks.join_all().await.into_iter().flatten().collect()
    }

    /// The same, with the data left on disks that are being emptied.
    pub(crate) async fn disk_progress(&self) -> Result<Vec<DiskStatus>> {
        let mut states = self.disk_states().await;
        let emptied = |disk: &DiskStatus| matches!(&*disk.state, "draining" | "replacing");
        if !states.iter().any(emptied) {
            return Ok(states);
        }
        let numbers = self.changes.roster.numbers();
        for line in self.store.disks().disk_lines().await? {
            let number = numbers.get(&line.disk).copied();
            let of_line =
                |disk: &&mut DiskStatus| number.is_some() && disk.number == number && emptied(disk);
            for disk in states.iter_mut().filter(of_line) {
                disk.shards_left = Some(line.shards);
                disk.bytes_left = Some(line.bytes);
            }
        }
        Ok(states)
    }

    /// How far a disk is emptied. A drain that began before this process counts from its first look.
    pub(crate) fn drain_progress(&self, disk: &DiskStatus) -> Option<Progress> {
        let left = disk.bytes_left.filter(|_| disk.shards_left > Some(0))?;
        let mut drains = self.drains.lock();
        let start = drains.entry(disk.path.clone()).or_insert(DrainStart {
            bytes: left,
            started: None,
        });
        start.bytes = start.bytes.max(left);
        let kind = match &*disk.state {
            "replacing" => "replacement",
            _ => "drain",
        };
        Some(Progress {
            what: format!("{kind} of {}", disk.path),
            done: start.bytes - left,
            total: Some(start.bytes),
            unit: ProgressUnit::Bytes,
            started: start.started.clone(),
            errors: 0,
        })
    }

    /// The name of the pool of a disk, if it is known.
    fn pool_of(&self, disk: DiskId) -> Option<String> {
        let here = self.pool.member(disk).map(|member| member.pool);
        let number = here.or_else(|| self.changes.roster.pool_of(disk))?;
        Some(self.changes.pool_name(number))
    }

    pub(crate) async fn disk_list(&self) -> Result<Vec<DiskInfo>> {
        // Disks may have joined since.
        self.changes.note()?;
        let roster = &self.changes.roster;
        let (numbers, scrubs) = (roster.numbers(), self.store.disks().scrub_status());
        let folders = self.disk_states().await;
        let mut disks = Vec::new();
        for line in self.store.disks().disk_lines().await? {
            let scrub = scrubs.iter().find(|(disk, _)| *disk == line.disk);
            let scrub = scrub.map(|(_, status)| *status).unwrap_or_default();
            let rot = self.store.disks().corruptions_found(line.disk).await?;
            let known = || {
                let folder = roster.folder_of(line.disk)?;
                Some(folder.display().to_string())
            };
            let mut disk = DiskInfo {
                number: numbers.get(&line.disk).copied(),
                id: Some(line.disk.to_string()),
                path: line.label.clone().or_else(known),
                pool: self.pool_of(line.disk),
                state: disk_state(&line).to_owned(),
                shards: line.shards,
                bytes: line.bytes,
                bad_shards: line.bad,
                rot_found: rot.shards,
                rot_last: rot.last.map(rfc3339),
                total_bytes: line.space.map(|(total, _)| total),
                available_bytes: line.space.map(|(_, available)| available),
                scrubbed: scrub.last.map(|(_, ended)| rfc3339(ended)),
                scrub_began: scrub.began.map(rfc3339),
                scrub_bytes: scrub.bytes,
                advice: None,
                holds: None,
            };
            let is_gone = disk.state == "removed" && self.changes.removed_disk(line.disk).is_none();
            if disk.state == "removed" && disk.path.is_some() {
                disk.holds = self.changes.held(line.disk);
            }
            let folder = folders.iter().find(|folder| {
                disk.path.as_ref() == Some(&folder.path) && folder.number == disk.number
            });
            disk.advice = disk_advice(
                &disk.state,
                // Of one that was removed and is gone nothing is expected.
                disk.path.as_deref().filter(|_| !is_gone),
                disk.number,
                disk.id.as_deref(),
                match (&disk.path, &*disk.state) {
                    (None, "missing") => Some(NOWHERE),
                    _ => folder.and_then(|folder| folder.detail.as_deref()),
                },
            );
            disks.push(disk);
        }
        // Folders that hold no disk of the pool, in the order of the configuration.
        for folder in folders {
            if let Some(id) = &folder.id {
                // One that has shards was listed by them.
                if !disks.iter().any(|disk| disk.id.as_ref() == Some(id)) {
                    let detail = folder.detail.as_deref();
                    disks.push(DiskInfo {
                        number: folder.number,
                        advice: disk_advice("missing", None, folder.number, Some(id), detail),
                        id: Some(id.clone()),
                        state: folder.state,
                        ..DiskInfo::default()
                    });
                }
                continue;
            }
            let listed = |disk: &DiskInfo| {
                disk.path.as_ref() == Some(&folder.path)
                    && (disk.number == folder.number || disk.state == folder.state)
            };
            if disks.iter().any(listed) {
                continue;
            }
            let advice = disk_advice(
                &folder.state,
                Some(&folder.path),
                folder.number,
                None,
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

    pub(crate) async fn disk_decide(
        &self,
        named: &str,
        action: DiskAction,
        narrower: bool,
    ) -> Result<DiskDecided> {
        let disk = self.changes.find(named).await?;
        let mut decided = self.about(disk, action).await?;
        match action {
            DiskAction::Drain => {
                self.changes.check_settled(None).await?;
                if self.store.disks().decision(disk).is_none() {
                    decided.narrower = self.check_drain(disk, &decided.path, narrower).await?;
                }
                self.decide(disk, Some(Decision::Drain)).await?;
                let start = DrainStart {
                    bytes: decided.bytes,
                    started: Some(rfc3339(self.env.clock.now())),
                };
                self.drains.lock().insert(decided.path.clone(), start);
            }
            DiskAction::Keep => self.decide(disk, None).await?,
        }
        Ok(decided)
    }

    async fn decide(&self, disk: DiskId, decision: Option<Decision>) -> Result<()> {
        let decided = self.store.decide(disk, decision).await;
        decided.map_err(|error| self.changes.spelled(error.into()))
    }

    /// A disk as it is before something is decided about it.
    async fn about(&self, disk: DiskId, action: DiskAction) -> Result<DiskDecided> {
        let lines = self.store.disks().disk_lines().await?;
        let line = lines.into_iter().find(|line| line.disk == disk);
        let roster = &self.changes.roster;
        let last = || Some(roster.folder_of(disk)?.display().to_string());
        let label = line.as_ref().and_then(|line| line.label.clone());
        Ok(DiskDecided {
            action,
            number: roster.numbers().get(&disk).copied(),
            path: label.or_else(last).unwrap_or_else(|| disk.to_string()),
            shards: line.as_ref().map_or(0, |line| line.shards),
            bytes: line.as_ref().map_or(0, |line| line.bytes),
            narrower: None,
        })
    }

    /// Checks whether the data on a disk can be moved in its layout. If not, and that was agreed
    /// to, returns the layout in which it is rewritten.
    async fn check_drain(&self, disk: DiskId, path: &str, agreed: bool) -> Result<Option<String>> {
        let refuse = |message| Err(AdminError::new(Failure::InUse, message));
        let pool = self.store.disks().pool_of_disk(disk).await?;
        let pool = pool.unwrap_or(self.pool.number());
        let layout = self.pool.layout_of(pool).unwrap_or(self.pool.layout());
        match self.store.disks().layouts_without(pool, disk) {
            (_, None) => refuse(format!(
                "without {path} fewer than {} disks take data: add a disk first (`dewar disk add`)",
                layout.m + 1
            )),
            (Some(now), Some(then)) if then.k < now.k => {
                let then = then.to_string();
                if agreed {
                    return Ok(Some(then));
                }
                refuse(format!(
                    "no disk is spare to take what is on {path}: it could only be emptied by writing all \
                     blobs anew as {then} instead of {now}, which takes more room. Add a disk first \
                     (`dewar disk add FOLDER`) or put one in its place (`dewar disk replace`); with \
                     --narrower it is done all the same"
                ))
            }
            _ => Ok(None),
        }
    }

    /// Begins a check, or joins the one under way if that looks as closely.
    pub(crate) fn fsck_start(&self, deep: bool) -> Result<()> {
        let mut fsck = self.fsck.lock();
        if let Some(check) = fsck.as_ref().filter(|check| check.outcome.is_none()) {
            if deep && !check.deep {
                let message =
                    "a check that does not read everything is under way: try again when it is over";
                return Err(AdminError::new(Failure::InUse, message));
            }
            return Ok(());
        }
        let read = Arc::new(AtomicU64::new(0));
        *fsck = Some(RunningCheck {
            deep,
            started: rfc3339(self.env.clock.now()),
            read: Arc::clone(&read),
            outcome: None,
            rest: Arc::default(),
        });
        drop(fsck);
        let (store, fsck) = (self.store.clone(), Arc::clone(&self.fsck));
        let membership = Arc::clone(&self.changes.membership);
        tokio::spawn(async move {
            let depth = LedgerDepth {
                objects: true,
                read: deep,
            };
            let counted = async {
                let verified = match deep {
                    true => membership.verify_catalog().await,
                    false => Ok(0),
                };
                let (mut ledger, rest) = store.check(depth, &read).await?;
                match verified {
                    Ok(wrong) => ledger.found_bad += wrong,
                    Err(error) => {
                        ledger.found_bad += ledger.catalog_lost;
                        ledger.unread.get_or_insert(error.to_string());
                    }
                }
                Ok::<_, dewar_types::Error>((ledger, rest))
            };
            let (outcome, at_risk) = match counted.await {
                Ok((ledger, rest)) => (Ok(ledger_info(&ledger)), Some(rest)),
                Err(error) => (Err(AdminError::from(error)), None),
            };
            let more = outcome
                .as_ref()
                .is_ok_and(|ledger: &LedgerInfo| ledger.more);
            if let Some(check) = &mut *fsck.lock() {
                check.outcome = Some(outcome);
                check.rest = Arc::new(AsyncMutex::new(RemainingAtRisk {
                    at_risk: at_risk.filter(|rest| more && !rest.is_over()),
                    ..RemainingAtRisk::default()
                }));
            }
        });
        Ok(())
    }

    /// A page of the objects at risk that the last check did not list at first.
    pub(crate) async fn fsck_more(&self, page: u64) -> Result<AtRiskInfo> {
        let rest = self.fsck.lock().as_ref().map(|c| Arc::clone(&c.rest));
        let rest = rest.unwrap_or_default();
        let mut rest = rest.lock().await;
        if page.checked_add(1) == Some(rest.pages) {
            // The reply to the one who asked first may have been lost.
            return Ok(rest.last.clone());
        }
        if page != rest.pages {
            let message = "somebody else has pages of the same check, or began another: begin anew";
            return Err(AdminError::new(Failure::InUse, message));
        }
        let mut now = AtRiskInfo::default();
        if let Some(at_risk) = &mut rest.at_risk {
            now.at_risk = at_risk.next(PAGE).await?.iter().map(danger_info).collect();
            now.more = !at_risk.is_over();
        }
        if !now.more {
            rest.at_risk = None;
        }
        rest.last = now.clone();
        rest.pages += 1;
        Ok(now)
    }

    /// How the scrubs fare.
    pub(crate) async fn scrubs(&self) -> Result<Vec<ScrubInfo>> {
        let numbers = self.changes.roster.numbers();
        let space = self.store.space();
        let mut scrubs = Vec::new();
        for pass in self.store.disks().scrub_passes().await? {
            let ScrubPass {
                disk,
                readable,
                status,
            } = pass;
            let member = self.pool.member(disk);
            let used = |space: &Space| space.total.saturating_sub(space.available);
            let path = member.map_or_else(String::new, |m| m.disk.label().to_owned());
            let progress = |began| Progress {
                what: format!("scrub of {path}"),
                done: status.bytes,
                total: space.get(&disk).map(|space| used(space).max(status.bytes)),
                unit: ProgressUnit::Bytes,
                started: Some(rfc3339(began)),
                errors: status.bad,
            };
            scrubs.push(ScrubInfo {
                progress: status.began.filter(|_| readable).map(progress),
                id: disk.to_string(),
                number: numbers.get(&disk).copied(),
                path,
                readable,
                began: status.began.map(rfc3339),
                ended: status.last.map(|(_, ended)| rfc3339(ended)),
                shards: status.shards,
                bytes: status.bytes,
                used_bytes: space.get(&disk).map(used),
                bad: status.bad,
            });
        }
        scrubs.sort_by_key(|scrub| (scrub.number.is_none(), scrub.number));
        Ok(scrubs)
    }

    pub(crate) fn fsck(&self) -> FsckInfo {
        let fsck = self.fsck.lock();
        let Some(check) = &*fsck else {
            return FsckInfo::default();
        };
        let (ledger, error) = match &check.outcome {
            Some(Ok(ledger)) => (Some(ledger.clone()), None),
            Some(Err(error)) => (None, Some(error.message.clone())),
            None => (None, None),
        };
        let running = check.outcome.is_none();
        let blobs_read = check.read.load(Ordering::Relaxed);
        let progress = || Progress {
            what: if check.deep { "deep check" } else { "check" }.to_owned(),
            done: blobs_read,
            total: None,
            unit: ProgressUnit::Blobs,
            started: Some(check.started.clone()),
            errors: 0,
        };
        FsckInfo {
            running,
            blobs_read,
            ledger,
            error,
            progress: running.then(progress),
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

/// The problem of a disk whose folder of shards was lost.
const HOLLOW: &str = "somebody removed or replaced its folder `blobs`: what it held is looked for, and \
                      what is gone is written again (find out who it was)";

/// The problem of a disk that was replaced by an old copy of itself.
const IN_DOUBT: &str = "it is an old copy of itself, or its file `blobs/token` is damaged: what is on it \
                        counts again as it is read, and what is gone is written again";

/// Why a disk is not in its folder.
fn why_missing(folder: &Path) -> String {
    let why = match std::fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => "the folder is there and empty: nothing is mounted on it",
        Ok(false) if folder.join(IDENTITY_FILE).exists() => {
            let identity = folder.join(IDENTITY_FILE);
            match std::fs::File::open(&identity) {
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    return without_right(&identity, folder);
                }
                Ok(file) => match read_identity(file) {
                    Err(why) => return format!("{NO_IDENTITY}is damaged: {why}"),
                    Ok(_) => "a disk is in the folder again, and is being looked at",
                },
                Err(error) => return format!("{NO_IDENTITY}cannot be read: {error}"),
            }
        }
        Ok(false) => {
            let there = DATA.iter().filter(|name| folder.join(name).is_dir());
            let there: Vec<String> = there.map(|name| format!("`{name}`")).collect();
            match there.is_empty() {
                true => {
                    "the folder is there with files in it, but none of them is a disk's: another device is \
                     mounted on it, or none"
                }
                false => {
                    return format!(
                        "{NO_IDENTITY}is gone, and its data are there ({})",
                        there.join(", ")
                    );
                }
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "there is no such folder",
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return without_right(folder, folder);
        }
        Err(error) => return format!("the folder cannot be read: {error}"),
    };
    why.to_owned()
}

/// The folders of a disk's data.
const DATA: [&str; 3] = ["blobs", "index", "journal"];

/// Longer than any identity file.
const IDENTITY_BYTES_MAX: u64 = 4097;

/// Reads an identity file.
fn read_identity(file: std::fs::File) -> std::result::Result<Identity, String> {
    let mut bytes = Vec::new();
    let mut some = file.take(IDENTITY_BYTES_MAX);
    some.read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    Identity::parse(&bytes).map_err(|error| error.to_string())
}

/// The reason why this process may not use a folder or a file in it, and the command on `folder`
/// that helps.
fn without_right(path: &Path, folder: &Path) -> String {
    match whose(path, folder) {
        Some(why) => format!("{NO_RIGHT}{why}"),
        None => format!(
            "{NO_RIGHT}the operating system forbids it (a folder above, or its security module)"
        ),
    }
}

/// The owner or mode of a path that denies access to this process, and the command on `folder` that
/// gives access again; `None` when these allow access.
fn whose(path: &Path, folder: &Path) -> Option<String> {
    let user = rustix::process::geteuid().as_raw();
    let shown = folder.display();
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) => return Some(format!("it cannot be looked at: {error}")),
    };
    let needed = if found.is_dir() { 0o700 } else { 0o600 };
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if user != 0 && owner != user {
        return Some(format!(
            "it belongs to user {owner}, and this process runs as user {user}: `chown -R {user} {shown}`"
        ));
    }
    (mode & needed != needed)
        .then(|| format!("its mode {mode:o} forbids it: `chmod -R u+rwX {shown}`"))
}

/// The problem of a disk that is in use in `folder`.
async fn flaw(folder: &str, id: DiskId, disk: &dyn Disk) -> Option<String> {
    let identity = match inspect(disk).await {
        Ok(FolderProbe::Disk(identity)) if identity.disk == id => None,
        Ok(FolderProbe::Absent(_)) => None,
        Ok(FolderProbe::Disk(_)) => Some("its file `dewar-disk` is another disk's".to_owned()),
        Ok(FolderProbe::Blank) => Some("its file `dewar-disk` is gone".to_owned()),
        Err(error) => Some(format!("its file `dewar-disk` is damaged: {error}")),
    };
    if let Some(flaw) = identity {
        return Some(format!(
            "{flaw}. It is in use until the next start, and would not be known then: put the file back \
             from a copy, or `dewar disk replace` it"
        ));
    }
    without_right_in(folder)
}

/// The reason why this process may not use the files in a disk's folder, and the command that
/// helps.
fn without_right_in(folder: &str) -> Option<String> {
    let folder = Path::new(folder);
    DATA.into_iter().find_map(|name| {
        let inside = folder.join(name);
        // What is not there is told by those who look for it.
        let why = inside.exists().then(|| whose(&inside, folder)).flatten()?;
        Some(format!(
            "its folder `{name}` cannot be used by this process: {why}"
        ))
    })
}

/// The reason why this process cannot write to a folder.
pub(crate) fn why_read_only(folder: &Path) -> String {
    let read_only = rustix::fs::statvfs(folder)
        .is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    if read_only {
        return "its file system is mounted read-only: when the kernel's log says why and that is mended, \
                `mount -o remount,rw`"
            .to_owned();
    }
    // What is mounted twice, or was shut off by the kernel after an error, does not show it.
    whose(folder, folder).unwrap_or_else(|| {
        "owner and mode let it, but its file system takes nothing: the kernel's log says why. Check and \
         mount it anew; one that turns read-only again is failing"
            .to_owned()
    })
}

fn danger_info(danger: &ObjectAtRisk) -> DangerInfo {
    DangerInfo {
        failures_left: danger.margin,
        path: danger.path.clone(),
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
                lacking: line.lacking,
                objects: line.objects,
                proven: time(line.proven),
            })
            .collect(),
        catalog: ledger.catalog,
        catalog_lost: ledger.catalog_lost,
        unsettled: ledger.unsettled,
        unread: ledger.unread.clone(),
        journal_only_bytes: ledger.unsealed_bytes,
        freeing_blobs: ledger.freeing.blobs,
        freeing_bytes: ledger.freeing.bytes,
        at_risk: ledger.at_risk.iter().map(danger_info).collect(),
        more: ledger.more,
        found_bad: ledger.found_bad,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn who_may_not_use_a_folder_is_told_the_command_that_helps() {
        let folder = tempfile::tempdir().expect("made");
        let path = folder.path();
        let mode = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, permissions).expect("set");
        };
        mode(0o555);
        let command = format!(
            "its mode 555 forbids it: `chmod -R u+rwX {}`",
            path.display()
        );
        assert_eq!(whose(path, path), Some(command));
        mode(0o755);
        // A folder in it is looked at, too.
        let blobs = path.join("blobs");
        std::fs::create_dir(&blobs).expect("made");
        let label = path.display().to_string();
        assert_eq!(without_right_in(&label), None);
        let sealed = std::fs::Permissions::from_mode(0o500);
        std::fs::set_permissions(&blobs, sealed).expect("set");
        let said = without_right_in(&label).expect("told");
        assert!(
            said.contains("`blobs`") && said.contains("chmod -R u+rwX"),
            "{said}"
        );
        std::fs::remove_dir(&blobs).expect("removed");
        // A file system that the kernel has shut off is nobody's right.
        assert_eq!(whose(path, path), None);
        assert!(why_read_only(path).contains("its file system takes nothing"));
        assert!(why_missing(path).contains("nothing is mounted on it"));
        assert_eq!(why_missing(&path.join("none")), "there is no such folder");
        // A disk's data without its identity, and with a damaged one.
        std::fs::write(path.join("file"), "x").expect("written");
        assert!(why_missing(path).contains("none of them is a disk's"));
        std::fs::create_dir(&blobs).expect("made");
        let gone = why_missing(path);
        assert!(
            gone.starts_with(NO_IDENTITY)
                && gone.contains("gone, and its data are there (`blobs`)"),
            "{gone}"
        );
        std::fs::write(path.join(IDENTITY_FILE), "x").expect("written");
        let damaged = why_missing(path);
        assert!(
            damaged.starts_with(NO_IDENTITY) && damaged.contains("damaged"),
            "{damaged}"
        );
    }
}
