//! Adding, replacing and removing disks by command, and how people name disks.
//!
//! What makes a disk belong to the pool is [`Membership`]'s; here a folder is looked at, remembered
//! (before it is formatted, so that the next start finds a disk that was just made) and named.
//!
//! # Cancellation
//! Each change is a task of its own: a client that goes away leaves none of them half done.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dewar_data::pool::{Found, inspect};
use dewar_env::Disk;
use dewar_store::Store;
use dewar_store::engine::{Content, Folder, LiveFolders, Membership};
use dewar_types::{DiskId, Error, ErrorKind};

use super::disks::{Configured, open};
use super::roster::Roster;
use crate::admin::{AdminError, DiskAdded, Failure};
use crate::config::Config;
use crate::config::check::{Severity, findings};

type Result<T> = std::result::Result<T, AdminError>;

/// Digits of an id that name a disk at least; what is shorter is a number.
const ID_DIGITS_MIN: usize = 4;

/// The parts that know about disks.
#[derive(Clone)]
pub(super) struct DiskChanges {
    pub(super) config: Config,
    pub(super) store: Store,
    pub(super) membership: Arc<Membership>,
    pub(super) folders: Arc<LiveFolders>,
    pub(super) configured: Arc<Configured>,
    pub(super) roster: Arc<Roster>,
}

impl DiskChanges {
    /// Makes a folder a disk of the pool, in the place of another one if that is named.
    pub(super) async fn add(&self, folder: &str, replaces: Option<&str>) -> Result<DiskAdded> {
        let (changes, folder) = (self.clone(), PathBuf::from(folder));
        let replaces = replaces.map(str::to_owned);
        in_background(async move { changes.add_folder(&folder, replaces.as_deref()).await })
            .await
            .map_err(|error| self.spelled(error))
    }

    async fn add_folder(&self, folder: &Path, replaces: Option<&str>) -> Result<DiskAdded> {
        let warnings = self.check_place(folder)?;
        let disk = open(folder, self.config.pool.disk_deadline).await?;
        let old = match replaces {
            Some(old) => Some(self.replaced(old, folder, &*disk).await?),
            None => None,
        };
        self.membership.examine(&*disk, old).await?;
        self.roster.reserve(folder)?;
        let added = self.membership.add(&disk, old).await;
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
            in_configuration: self.config.pool.disks.iter().any(|known| known == folder),
            warnings,
        })
    }

    /// Refuses folders that lie within others or hold what no disk should; warnings otherwise.
    fn check_place(&self, folder: &Path) -> Result<Vec<String>> {
        if !folder.is_absolute() {
            let message = format!("{} is no path from the root", folder.display());
            return Err(AdminError::new(Failure::Invalid, message));
        }
        if !folder.is_dir() {
            let message = format!("there is no folder {}", folder.display());
            return Err(AdminError::new(Failure::NotFound, message));
        }
        let mut known = Vec::new();
        self.folders
            .each(|live| known.push(PathBuf::from(&live.label)));
        let mut before = self.config.clone();
        before.pool.disks = known.clone();
        before.pool.disks.retain(|other| other != folder);
        let mut after = before.clone();
        after.pool.disks.push(folder.to_path_buf());
        let before = findings(&before);
        let new = findings(&after);
        let mut new: Vec<_> = new
            .iter()
            .filter(|finding| !before.contains(finding))
            .collect();
        new.retain(|finding| finding.key != "pool.layout");
        if let Some(error) = new
            .iter()
            .find(|finding| finding.severity == Severity::Error)
        {
            return Err(AdminError::new(Failure::Exists, error.message.clone()));
        }
        Ok(new
            .into_iter()
            .map(|finding| finding.message.clone())
            .collect())
    }

    /// The disk whose place a new one in `folder` is to take.
    async fn replaced(&self, old: &str, folder: &Path, new: &dyn Disk) -> Result<DiskId> {
        if Path::new(old) != folder {
            return self.find(old).await;
        }
        // In the same folder: the disk that was there before.
        let here = match inspect(new).await? {
            Found::Disk(identity) => Some(identity),
            Found::Blank | Found::Absent(_) => None,
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
    pub(super) async fn remove(&self, named: &str) -> Result<()> {
        let found = self.find(named).await;
        if let Err(error) = &found
            && error.kind == Failure::NotFound
            && self.roster.forget(Path::new(named))?
        {
            return Ok(());
        }
        let (changes, id) = (self.clone(), found?);
        in_background(async move {
            let removed = changes.membership.remove(id).await;
            changes.note()?;
            removed.map_err(|error| match error.kind() {
                ErrorKind::Conflict => AdminError::new(Failure::InUse, error.message()),
                _ => error.into(),
            })
        })
        .await
        .map_err(|error| self.spelled(error))
    }

    /// The same error with disks named by their folders.
    pub(super) fn spelled(&self, error: AdminError) -> AdminError {
        AdminError::new(error.kind, self.roster.spell(&error.message))
    }

    /// Each folder and how its disk is, but for those whose disks were removed and are gone.
    pub(super) fn states(&self) -> Vec<(String, &'static str)> {
        let removed = self.membership.removed();
        let mut states = self.folders.states();
        states.retain(|(path, state)| {
            let was = self.roster.at(Path::new(path));
            *state != "missing" || !was.is_some_and(|id| removed.contains(&id))
        });
        states
    }

    /// Remembers which disk is where.
    pub(super) fn note(&self) -> Result<()> {
        let mut folders = Vec::new();
        self.folders.each(|folder| {
            let id = match (&folder.content, &folder.refused) {
                (Content::Disk { identity, .. }, None) => Some(identity.disk),
                _ => None,
            };
            folders.push((PathBuf::from(&folder.label), id));
        });
        Ok(self.roster.note(&folders, &self.membership.removed())?)
    }

    /// The disk that a folder, a number, an id or the beginning of one means.
    pub(super) async fn find(&self, named: &str) -> Result<DiskId> {
        let wanted = match named.trim_end_matches('/') {
            "" => named,
            wanted => wanted,
        };
        let mut here = None;
        self.folders.each(|folder| {
            if let (Content::Disk { identity, .. }, None) = (&folder.content, &folder.refused)
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
        known.extend(self.store.disk_lines().await?.iter().map(|line| line.disk));
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

async fn in_background<T: Send + 'static>(
    change: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(change).await.unwrap_or_else(|error| {
        let message = "a change of the disks ended early";
        Err(Error::with_source(ErrorKind::Internal, message, error).into())
    })
}
