//! Adding, replacing and removing disks by command, and the names that people use for disks.
//!
//! [`Membership`] makes a disk a member of the pool. This module inspects the folder, remembers it
//! and names it. The folder is remembered before it is formatted, so that the next start finds a
//! disk that was just made.
//!
//! # Cancellation
//! Each change is a task of its own: a client that disconnects leaves no change half done.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dewar_disks::pool::{FolderProbe, inspect};
use dewar_disks::upkeep::Decision;
use dewar_engine::host::{ConfiguredFolders, PoolStateFile, open_disk};
use dewar_engine::{DiskRefusal, Engine, Folder, FolderContent, LiveFolders, Membership};
use dewar_env::{Disk, DiskState};
use dewar_store::Store;
use dewar_types::{DiskId, Error, ErrorKind};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::catalog::{SETTLE, UNSETTLED};
use crate::disks::{DiskAdded, DiskReadmitted, DiskRemoved, RemainingFilesInfo};
use crate::upkeep_admin::why_read_only;
use crate::{AdminError, Failure, Result, amount};

/// Fewest digits of an id that name a disk. A shorter text is a number.
pub const ID_DIGITS_MIN: usize = 4;

/// Digits of an id that are shown.
const ID_DIGITS: usize = 8;

/// Time after which the content of a removed disk is counted again.
const HELD_FRESH: Duration = Duration::from_secs(20);

/// Checks whether a folder can get a new disk beside the other folders. Returns warnings, or the reason
/// why it cannot.
type FolderCheck =
    dyn Fn(&[PathBuf], &Path) -> std::result::Result<Vec<String>, String> + Send + Sync;

/// The facts about disks and pools that the configuration contains.
pub struct DiskConfig {
    /// The folders of all pools, each with the number of its pool.
    pub folders: Vec<(PathBuf, u16)>,
    /// The names of the pools by their numbers.
    pub pools: BTreeMap<u16, String>,
    /// The time after which a disk that does not answer counts as hung.
    pub disk_deadline: Duration,
    /// Checks the folder of a new disk.
    pub check_folder: Box<FolderCheck>,
}

/// The parts that know about disks.
#[derive(Clone)]
pub struct DiskChanges {
    pub(crate) config: Arc<DiskConfig>,
    pub(crate) store: Store,
    pub(crate) membership: Arc<Membership>,
    pub(crate) folders: Arc<LiveFolders>,
    pub(crate) configured: Arc<ConfiguredFolders>,
    pub(crate) roster: Arc<PoolStateFile>,
    /// The content of removed disks, and the times of the counts.
    held: Arc<Mutex<BTreeMap<DiskId, (RemainingFilesInfo, Instant)>>>,
}

impl DiskChanges {
    /// Changes of the disks of an open store, which are in `folders`. `roster` remembers the folders.
    #[must_use]
    pub fn new(
        config: DiskConfig,
        engine: &Engine,
        folders: Arc<LiveFolders>,
        roster: Arc<PoolStateFile>,
    ) -> Self {
        let paths = config.folders.iter().map(|(path, _)| path.clone());
        let configured = ConfiguredFolders::new(paths.collect(), config.disk_deadline);
        Self {
            config: Arc::new(config),
            store: engine.store().clone(),
            membership: Arc::clone(engine.membership()),
            folders,
            configured: Arc::new(configured),
            roster,
            held: Arc::default(),
        }
    }

    /// From now on, looks for disks that come, go and return.
    pub async fn keep_looking(&self, engine: &Engine) {
        let observer = Arc::clone(&self.configured) as _;
        engine
            .keep_looking(Arc::clone(&self.folders), observer)
            .await;
    }

    /// Makes a folder a disk of the pool. If another disk is named, it is replaced.
    pub(crate) async fn add(
        &self,
        folder: &str,
        replaces: Option<&str>,
        pool: Option<&str>,
    ) -> Result<DiskAdded> {
        let (changes, folder) = (self.clone(), PathBuf::from(folder));
        let replaces = replaces.map(str::to_owned);
        let pool = self.pool_for(&folder, pool, replaces.is_some())?;
        in_background(async move { changes.add_folder(&folder, replaces.as_deref(), pool).await })
            .await
            .map_err(|error| self.spelled(error))
    }

    /// The number of the pool of a new disk: the named one, otherwise the one for which the
    /// configuration names the folder. `None` means the pool of the replaced disk.
    fn pool_for(&self, folder: &Path, named: Option<&str>, replaces: bool) -> Result<Option<u16>> {
        if let Some(name) = named {
            let mut pools = self.config.pools.iter();
            let pool = pools.find(|(_, known)| *known == name).ok_or_else(|| {
                let message = format!("the configuration has no pool {name}");
                AdminError::new(Failure::NotFound, message)
            })?;
            return Ok(Some(*pool.0));
        }
        if replaces {
            return Ok(None);
        }
        let mut configured = self.config.folders.iter();
        let here = configured.find(|(known, _)| known == folder);
        Ok(here.map(|(_, pool)| *pool))
    }

    async fn add_folder(
        &self,
        folder: &Path,
        replaces: Option<&str>,
        pool: Option<u16>,
    ) -> Result<DiskAdded> {
        let warnings = self.check_place(folder)?;
        let disk = open_disk(folder, self.config.disk_deadline).await?;
        if matches!(disk.state(), DiskState::ReadOnly { .. }) {
            let why = why_read_only(folder);
            let message = format!("{} cannot be written: {why}", folder.display());
            return Err(AdminError::new(Failure::Unavailable, message));
        }
        let old = match replaces {
            Some(old) => Some(self.replaced(old, folder, &*disk).await?),
            None => None,
        };
        self.offer_back(folder, &*disk).await?;
        if let Some(old) = old {
            self.check_single(old, folder)?;
            self.check_settled(Some(old)).await?;
        }
        let pool = match (pool, old) {
            // Where nothing on it is known any more.
            (None, Some(old)) if self.store.disks().pool_of_disk(old).await?.is_none() => {
                self.roster.pool_of(old)
            }
            (pool, _) => pool,
        };
        self.membership.examine(&*disk, old, pool).await?;
        self.roster.reserve(folder, pool.unwrap_or(0))?;
        let added = self.membership.add_to(pool, &disk, old).await;
        // Also after an error: it may be a disk of the pool by now.
        let label = folder.display().to_string();
        let number = self.folders.add(Folder::look_again(label, Ok(disk)).await);
        self.configured.set(number, folder);
        self.note()?;
        let id = added?;
        let numbers = self.roster.numbers();
        Ok(DiskAdded {
            number: numbers.get(&id).copied(),
            id: id.to_string(),
            path: folder.display().to_string(),
            replaces: old.map(|old| old.to_string()),
            replaces_number: old.and_then(|old| numbers.get(&old).copied()),
            removed: old.is_some_and(|old| self.membership.removed().contains(&old)),
            in_configuration: self.is_configured(folder),
            warnings,
        })
    }

    fn is_configured(&self, folder: &Path) -> bool {
        let mut configured = self.config.folders.iter();
        configured.any(|(known, _)| known == folder)
    }

    /// Refuses to empty a disk while it may have blobs that the catalog does not name, because only
    /// named blobs are moved or rebuilt. An unreadable disk may be removed, because none of its
    /// data could be read anyway.
    pub(crate) async fn check_settled(&self, disk: Option<DiskId>) -> Result<()> {
        let is_gone = disk.is_some_and(|disk| self.membership.is_dead(disk));
        if is_gone || self.store.disks().rebuilt().await?.is_none() {
            return Ok(());
        }
        let message = format!(
            "{UNSETTLED}, and shards of such blobs would be left behind on this disk. First {SETTLE}. A disk \
             that is gone or cannot be read any more can be replaced or removed all the same"
        );
        Err(AdminError::new(Failure::InUse, message))
    }

    /// Refuses a second replacement for a disk that another one is replacing already.
    fn check_single(&self, old: DiskId, folder: &Path) -> Result<()> {
        if self.store.disks().decision(old) != Some(Decision::Replace) {
            return Ok(());
        }
        let (mut taking, mut goes_on) = (None, false);
        self.folders.each(|live| {
            if let (FolderContent::Disk { identity, disk }, None) = (&live.content, &live.refused)
                && identity.replaces == Some(old)
                && disk.state().readable()
            {
                goes_on |= Path::new(&live.label) == folder;
                taking = Some((identity.disk, live.label.clone()));
            }
        });
        let Some((new, label)) = taking.filter(|_| !goes_on) else {
            return Ok(());
        };
        let numbers = self.roster.numbers();
        let name = |disk: DiskId| {
            let number = numbers.get(&disk).map(u32::to_string);
            number.unwrap_or_else(|| disk.to_string())
        };
        let (old, new) = (name(old), name(new));
        let message = format!(
            "disk {old} is being replaced already, by disk {new} in {label}: that goes on by itself, and \
             `dewar disk list` shows how far it is. `dewar disk keep {old}` stops it; then it can be \
             replaced by another"
        );
        Err(AdminError::new(Failure::InUse, message))
    }

    /// Refuses a removed disk as a new one, and reports its content.
    async fn offer_back(&self, folder: &Path, disk: &dyn Disk) -> Result<()> {
        let FolderProbe::Disk(identity) = inspect(disk).await? else {
            return Ok(());
        };
        let label = folder.display().to_string();
        let Some(refusal @ DiskRefusal::Removed) = self.membership.refusal(&label, &identity)
        else {
            return Ok(());
        };
        let held = self.holds(identity.disk, disk).await?;
        let sentence = refusal.sentence(&label, identity.dewar);
        let message = format!("{sentence}. {}", held_text(&held));
        Err(AdminError::new(Failure::Invalid, message))
    }

    /// Refuses folders that are inside others or have content that a disk must not have. Returns
    /// warnings otherwise.
    fn check_place(&self, folder: &Path) -> Result<Vec<String>> {
        if !folder.is_absolute() {
            let message = format!("{} is no path from the root", folder.display());
            return Err(AdminError::new(Failure::Invalid, message));
        }
        if !folder.is_dir() {
            let message = format!("there is no folder {}", folder.display());
            return Err(AdminError::new(Failure::NotFound, message));
        }
        let mut others = Vec::new();
        self.folders
            .each(|live| others.push(PathBuf::from(&live.label)));
        others.retain(|other| other != folder);
        let checked = (self.config.check_folder)(&others, folder);
        checked.map_err(|why| AdminError::new(Failure::Exists, why))
    }

    /// The disk whose place a new one in `folder` is to take.
    async fn replaced(&self, old: &str, folder: &Path, new: &dyn Disk) -> Result<DiskId> {
        if Path::new(old) != folder {
            return self.find(old).await;
        }
        // In the same folder: the disk that was there before.
        let here = match inspect(new).await? {
            FolderProbe::Disk(identity) => Some(identity),
            FolderProbe::Blank | FolderProbe::Absent(_) => None,
        };
        let before = match here {
            Some(identity) => identity.replaces,
            None => self.roster.at(folder),
        };
        before.ok_or_else(|| {
            let message = format!("no disk of this pool was in {old} before");
            AdminError::new(Failure::NotFound, message)
        })
    }

    /// Removes a disk, or forgets a folder that never had one.
    pub(crate) async fn remove(&self, named: &str) -> Result<DiskRemoved> {
        let found = self.find(named).await;
        if let Err(error) = &found
            && error.kind == Failure::NotFound
            && self.roster.forget(Path::new(named))?
        {
            return Ok(DiskRemoved {
                number: None,
                id: None,
                path: Some(named.to_owned()),
                shards: 0,
                bytes: 0,
                left_behind: false,
                short_of: 0,
                ledger: None,
            });
        }
        let (changes, id) = (self.clone(), found?);
        self.check_settled(Some(id)).await?;
        in_background(async move {
            let lines = changes.store.disks().disk_lines().await?;
            let line = lines.iter().find(|line| line.disk == id);
            let removed = changes.membership.remove(id).await;
            changes.note()?;
            removed.map_err(|error| match error.kind() {
                ErrorKind::Conflict => AdminError::new(Failure::InUse, error.message()),
                _ => error.into(),
            })?;
            let folder = changes.roster.folder_of(id);
            Ok(DiskRemoved {
                number: changes.roster.numbers().get(&id).copied(),
                id: Some(id.to_string()),
                path: folder.map(|folder| folder.display().to_string()),
                shards: line.map_or(0, |line| line.shards),
                bytes: line.map_or(0, |line| line.bytes),
                left_behind: changes.removed_disk(id).is_some(),
                short_of: changes.membership.short_of(),
                ledger: None,
            })
        })
        .await
        .map_err(|error| self.spelled(error))
    }

    /// The same error with disks named by their folders.
    pub(crate) fn spelled(&self, error: AdminError) -> AdminError {
        AdminError::new(error.kind, self.roster.spell(&error.message))
    }

    /// Takes a removed disk back.
    pub(crate) async fn readmit(&self, named: &str) -> Result<DiskReadmitted> {
        let folder = match Path::new(named).is_dir() {
            true => self.known_as(Path::new(named)),
            false => {
                let id = self.find(named).await?;
                self.folder_with(id).ok_or_else(|| {
                    let message = format!(
                        "disk {named} is in none of the folders that are known: mount it, or name its \
                         folder"
                    );
                    AdminError::new(Failure::NotFound, message)
                })?
            }
        };
        let changes = self.clone();
        in_background(async move { changes.readmit_folder(&folder).await }).await
    }

    async fn readmit_folder(&self, folder: &Path) -> Result<DiskReadmitted> {
        let mut known = false;
        self.folders
            .each(|live| known |= Path::new(&live.label) == folder);
        let warnings = match known {
            true => Vec::new(),
            false => self.check_place(folder)?,
        };
        let disk = open_disk(folder, self.config.disk_deadline).await?;
        let held = match inspect(&*disk).await? {
            FolderProbe::Disk(identity) if self.membership.removed().contains(&identity.disk) => {
                Some(self.holds(identity.disk, &*disk).await?)
            }
            _ => None,
        };
        let back = self.membership.readmit(&disk).await;
        // Also after an error: it may be a disk of the pool by now.
        let label = folder.display().to_string();
        let is_ours = match inspect(&*disk).await {
            Ok(FolderProbe::Disk(identity)) => self.membership.refusal(&label, &identity).is_none(),
            _ => false,
        };
        if is_ours {
            let folder_now = Folder::look_again(label.clone(), Ok(disk)).await;
            let number = self.folders.add(folder_now);
            self.configured.set(number, folder);
        }
        self.note()?;
        let id = back?;
        Ok(DiskReadmitted {
            number: self.roster.numbers().get(&id).copied(),
            id: id.to_string(),
            path: label,
            held,
            in_configuration: self.is_configured(folder),
            warnings,
        })
    }

    /// The name of a folder with more than one path, such as a relative one in the configuration.
    fn known_as(&self, folder: &Path) -> PathBuf {
        let mut known = None;
        let place = folder.canonicalize().ok();
        self.folders.each(|live| {
            let label = Path::new(&live.label);
            if place.is_some() && label.canonicalize().ok() == place {
                known = Some(label.to_path_buf());
            }
        });
        known.unwrap_or_else(|| folder.to_path_buf())
    }

    /// The folder that holds a disk now, used or not.
    fn folder_with(&self, id: DiskId) -> Option<PathBuf> {
        let mut here = None;
        self.folders.each(|folder| {
            if let FolderContent::Disk { identity, disk } = &folder.content
                && identity.disk == id
                && disk.state().readable()
            {
                here = Some(PathBuf::from(&folder.label));
            }
        });
        here
    }

    /// A removed disk that is in one of the folders and can be read.
    pub(crate) fn removed_disk(&self, id: DiskId) -> Option<Arc<dyn Disk>> {
        let mut here = None;
        self.folders.each(|folder| {
            if let (FolderContent::Disk { identity, disk }, Some(DiskRefusal::Removed)) =
                (&folder.content, &folder.refused)
                && identity.disk == id
                && disk.state().readable()
            {
                here = Some(Arc::clone(disk));
            }
        });
        here
    }

    /// Counts the content of removed disks that are present, unless that was done recently.
    pub(crate) async fn look_at_removed(&self) {
        let mut there = Vec::new();
        for id in self.membership.removed() {
            there.extend(self.removed_disk(id).map(|disk| (id, disk)));
        }
        self.held
            .lock()
            .retain(|id, _| there.iter().any(|(other, _)| other == id));
        for (id, disk) in there {
            let fresh = |(_, at): &(RemainingFilesInfo, Instant)| at.elapsed() < HELD_FRESH;
            if self.held.lock().get(&id).is_some_and(fresh) {
                continue;
            }
            match self.holds(id, &*disk).await {
                Ok(found) => {
                    let now = (found, Instant::now());
                    self.held.lock().insert(id, now);
                }
                Err(error) => {
                    tracing::info!(disk = disk.label(), %error, "what a removed disk has is not known");
                }
            }
        }
    }

    /// The content of a removed disk.
    async fn holds(&self, id: DiskId, disk: &dyn Disk) -> Result<RemainingFilesInfo> {
        let unsettled = self.store.disks().rebuilt().await?.is_some();
        let found = self.store.disks().holdings(id, disk).await?;
        Ok(RemainingFilesInfo {
            shards: found.shards,
            lacking: found.lacking,
            lacking_bytes: found.lacking_bytes,
            unreadable: found.unreadable,
            unsettled,
        })
    }

    /// The content of a removed disk at the last count.
    pub(crate) fn held(&self, id: DiskId) -> Option<RemainingFilesInfo> {
        self.held.lock().get(&id).map(|(held, _)| *held)
    }

    /// Each folder and the state of its disk, except for absent disks that were removed, and for
    /// folders whose disks are in another folder now.
    pub fn states(&self) -> Vec<(String, &'static str)> {
        let removed = self.membership.removed();
        let mut states = self.folders.states();
        states.retain(|(path, state)| {
            let path = Path::new(path);
            let was = self.roster.at(path);
            let needless = self.roster.is_left(path) || was.is_some_and(|id| removed.contains(&id));
            *state != "missing" || !needless
        });
        states
    }

    /// Missing disks of the pool with unknown folders. These are the disks without a folder in the
    /// roster, if they outnumber the folders without a known disk.
    pub fn nowhere(&self) -> Vec<DiskId> {
        let mut missing = self.membership.unfound();
        missing.retain(|id| self.roster.folder_of(*id).is_none());
        let unknown = self.states().into_iter().filter(|(path, state)| {
            matches!(*state, "missing" | "blank") && self.roster.at(Path::new(path)).is_none()
        });
        if missing.len() <= unknown.count() {
            missing.clear();
        }
        missing
    }

    /// The name of a disk whose folder is not known.
    pub(crate) fn nowhere_name(id: DiskId) -> String {
        let id = id.to_string();
        let short = id.get(..ID_DIGITS).unwrap_or(&id);
        format!("{short}, in no known folder")
    }

    /// The same, with the decisions about the disks.
    pub fn told_states(&self) -> Vec<(String, &'static str)> {
        let mut states = self.states();
        self.folders.each(|folder| {
            let id = match (&folder.content, &folder.refused) {
                (FolderContent::Disk { identity, .. }, None) => Some(identity.disk),
                _ => None,
            };
            let of_it = |known: &&mut (String, &'static str)| known.0 == folder.label;
            if let Some((_, state)) = states.iter_mut().find(of_it) {
                *state = self.decided(folder, id, state);
            }
        });
        let nowhere = self.nowhere().into_iter();
        states.extend(nowhere.map(|id| (Self::nowhere_name(id), "missing")));
        states
    }

    /// The word for the state of a disk, with the decision about it.
    pub(crate) fn decided(
        &self,
        folder: &Folder,
        id: Option<DiskId>,
        state: &'static str,
    ) -> &'static str {
        match id.and_then(|id| self.store.disks().decision(id)) {
            Some(Decision::Replace) if folder.refused.is_none() => "replacing",
            Some(Decision::Drain) if state == "online" => "draining",
            _ if state == "online" && id.is_some_and(|id| self.store.disks().is_returning(id)) => {
                "returning"
            }
            _ => state,
        }
    }

    /// Remembers which disk is where.
    pub fn note(&self) -> Result<()> {
        let mut folders = Vec::new();
        let mut pools = BTreeMap::new();
        self.folders.each(|folder| {
            if let (FolderContent::Disk { identity, .. }, None) = (&folder.content, &folder.refused)
            {
                pools.insert(identity.disk, identity.pool);
            }
            let id = match (&folder.content, &folder.refused) {
                (FolderContent::Disk { identity, .. }, None) => Some(identity.disk),
                _ => None,
            };
            folders.push((PathBuf::from(&folder.label), id));
        });
        self.roster.note(&folders, &self.membership.removed())?;
        Ok(self.roster.note_pools(&pools)?)
    }

    /// The disk with this folder, number, id or beginning of an id.
    pub(crate) async fn find(&self, named: &str) -> Result<DiskId> {
        let wanted = match named.trim_end_matches('/') {
            "" => named,
            wanted => wanted,
        };
        let mut here = None;
        self.folders.each(|folder| {
            if let (FolderContent::Disk { identity, .. }, None) = (&folder.content, &folder.refused)
                && folder.label.trim_end_matches('/') == wanted
            {
                here = Some(identity.disk);
            }
        });
        if let Some(here) = here.or_else(|| self.roster.at(Path::new(wanted))) {
            return Ok(here);
        }
        if wanted.len() < ID_DIGITS_MIN
            && let Some(id) = wanted.parse().ok().and_then(|n| self.roster.by_number(n))
        {
            return Ok(id);
        }
        let id = wanted.to_ascii_lowercase();
        let mut known: std::collections::BTreeSet<DiskId> = self.membership.removed();
        known.extend(
            self.store
                .disks()
                .disk_lines()
                .await?
                .iter()
                .map(|line| line.disk),
        );
        known.extend(self.roster.numbers().keys());
        let mut found = known
            .into_iter()
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

/// The gain from taking a removed disk back; empty when nothing is on it.
pub(crate) fn held_text(held: &RemainingFilesInfo) -> String {
    match held.lacking {
        0 if held.unsettled => format!(
            "{} shards are on it, and the pool has all that its catalog names of them, which may not be all: \
             keep it until `dewar catalog rebuild` has looked at it",
            held.shards
        ),
        0 => format!(
            "{} shards are on it, and the pool has all that it needs of them",
            held.shards
        ),
        lacking => format!(
            "{} shards are on it, and {lacking} of them ({}) THE POOL HAS NOWHERE ELSE, {}",
            held.shards,
            amount(held.lacking_bytes),
            match held.unreadable {
                0 => "none of what cannot be read now".to_owned(),
                blobs => format!("of {blobs} blobs that cannot be read now"),
            }
        ),
    }
}

async fn in_background<T: Send + 'static>(
    change: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(change).await.unwrap_or_else(|error| {
        let message = "a change of the disks ended early";
        Err(Error::with_source(ErrorKind::Internal, message, error).into())
    })
}
