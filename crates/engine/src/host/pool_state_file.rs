//! The file `pool.json` in the state folder, which remembers facts about the pool.
//!
//! It contains the deployment's id, whether formatting has ended, the id of the master key, and the
//! folder of each disk. A pool starts with the folders of the configuration. Folders added by
//! command are recorded here, so that the next start looks into them too. The file is only a memory
//! of folders and of the numbers that people use for disks. It does not decide which disks belong
//! to the pool: the disks themselves and the journal do. So if the file is lost, only the added
//! folders are lost, and the configuration can name them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dewar_auth::MasterKeyId;
use dewar_types::{DiskId, Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::paths::is_same_folder;
use super::private_file::replace_private_file;
use crate::{FolderContent, Folders};

const FILE: &str = "pool.json";

/// Digits of an id in messages, which name the disk in commands, too.
const ID_DIGITS: usize = 8;

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolState {
    /// The deployment, in 32 hexadecimal digits.
    pub(super) dewar: String,
    /// Whether formatting has ended.
    pub(super) formatted: bool,
    /// The master key that secrets are wrapped with.
    pub(super) master_key: String,
    /// The disks that were ever seen, and folders that wait for theirs.
    #[serde(default)]
    pub(super) disks: Vec<DiskEntry>,
}

/// A disk, and where it was last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiskEntry {
    /// The number that people use for the disk; never reused.
    number: u32,
    /// Its id, in 32 hexadecimal digits; `None` as long as it was not seen.
    id: Option<String>,
    folder: PathBuf,
    /// The number of its pool.
    #[serde(default, skip_serializing_if = "is_main")]
    pool: u16,
    /// It was removed: its folder is no longer looked into for its sake.
    #[serde(default)]
    removed: bool,
}

fn is_main(pool: &u16) -> bool {
    *pool == 0
}

impl DiskEntry {
    fn id(&self) -> Option<DiskId> {
        let id = self.id.as_deref()?;
        u128::from_str_radix(id, 16).ok().map(DiskId)
    }
}

/// The file in a state folder.
#[must_use]
pub fn path(state_dir: &Path) -> PathBuf {
    state_dir.join(FILE)
}

/// Reads the file; `None` when it does not exist.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when it is malformed, [`ErrorKind::Unavailable`] when it cannot be read.
pub(super) fn read(path: &Path) -> Result<Option<PoolState>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let what = format!("cannot read {}: {error}", path.display());
            return Err(Error::with_source(ErrorKind::Unavailable, what, error));
        }
    };
    let mut file: PoolState = serde_json::from_str(&text).map_err(|error| {
        let what = format!("{} is damaged: {error}", path.display());
        Error::with_source(ErrorKind::Corrupt, what, error)
    })?;
    // Earlier releases kept what the configuration had, relative to where the server was started.
    for disk in &mut file.disks {
        disk.folder = std::path::absolute(&disk.folder).unwrap_or_else(|_| disk.folder.clone());
    }
    Ok(Some(file))
}

pub(super) fn write(path: &Path, file: &PoolState) -> Result<()> {
    let text = serde_json::to_string_pretty(file)
        .map_err(|error| Error::with_source(ErrorKind::Internal, "describing the pool", error))?;
    replace_private_file(path, text.as_bytes())
        .map_err(|error| Error::with_source(ErrorKind::Unavailable, error.to_string(), error))
}

/// The folders in which disks of the pool were last, each with the number of its pool. Folders of
/// removed disks are left out. A file that cannot be read counts as empty: the opening of the pool
/// reports it.
#[must_use]
pub fn known_folders(state_dir: &Path) -> Vec<(PathBuf, u16)> {
    let file = read(&path(state_dir)).ok().flatten();
    let disks = file.map_or_else(Vec::new, |file| file.disks).into_iter();
    let present = disks.filter(|disk| !disk.removed);
    present.map(|disk| (disk.folder, disk.pool)).collect()
}

/// Whether the state folder knows of a pool.
#[must_use]
pub fn knows_pool(state_dir: &Path) -> bool {
    matches!(read(&path(state_dir)), Ok(Some(file)) if file.formatted)
}

/// A disk as far as it is known while the store does not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedDisk {
    /// The number that people use for the disk.
    pub number: Option<u32>,
    /// Its id, if its folder has a disk.
    pub id: Option<DiskId>,
    /// The folder.
    pub path: String,
    /// The state of the folder in a word, or `removed`.
    pub state: &'static str,
}

/// The disks in `folders`, with the facts that the state folder remembers about them.
#[must_use]
pub fn known_disks(state_dir: &Path, folders: &Folders) -> Vec<RememberedDisk> {
    // A file that cannot be read is told of by what does not open.
    let remembered = read(&path(state_dir)).ok().flatten();
    let remembered = remembered.map_or_else(Vec::new, |file| file.disks);
    let folders = folders.all.iter().map(|folder| {
        let (path, state) = folder.state();
        let id = match &folder.content {
            FolderContent::Disk { identity, .. } => Some(identity.disk),
            FolderContent::Absent(_) | FolderContent::Blank { .. } => None,
        };
        let here = remembered.iter().find(|disk| match id {
            Some(id) => disk.id() == Some(id),
            None => !disk.removed && is_same_folder(&disk.folder, Path::new(&path)),
        });
        let removed = here.is_some_and(|disk| disk.removed);
        RememberedDisk {
            number: here.map(|disk| disk.number),
            id,
            path,
            state: if removed { "removed" } else { state },
        }
    });
    folders.collect()
}

/// The memory while the pool is open.
pub struct PoolStateFile {
    path: PathBuf,
    file: Mutex<PoolState>,
    /// Folders that are not expected any more: their disks are in others, or they were forgotten.
    left: Mutex<BTreeSet<PathBuf>>,
}

impl PoolStateFile {
    /// Reads the record of an existing pool.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] for a malformed file, [`ErrorKind::Unavailable`] for one that cannot be
    /// read, [`ErrorKind::NotFound`] without one.
    pub fn open(state_dir: &Path) -> Result<Self> {
        let path = path(state_dir);
        let file = read(&path)?.ok_or_else(|| {
            let what = format!("{} is gone", path.display());
            Error::new(ErrorKind::NotFound, what)
        })?;
        let file = Mutex::new(file);
        let left = Mutex::default();
        Ok(Self { path, file, left })
    }

    /// Records the current master key.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note_master_key(&self, id: MasterKeyId) -> Result<()> {
        let mut file = self.file.lock();
        let id = id.to_string();
        if file.master_key != id {
            let mut new = file.clone();
            new.master_key = id;
            write(&self.path, &new)?;
            *file = new;
        }
        Ok(())
    }

    /// Changes it, durably if it is another then.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<DiskEntry>) -> T) -> Result<T> {
        let mut file = self.file.lock();
        let mut new = file.clone();
        let outcome = change(&mut new.disks);
        if new != *file {
            write(&self.path, &new)?;
            *file = new;
        }
        Ok(outcome)
    }

    /// Remembers a folder whose disk is about to be made.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn reserve(&self, folder: &Path, pool: u16) -> Result<()> {
        self.change(|disks| {
            let waits = |disk: &DiskEntry| disk.folder == folder && disk.id.is_none();
            if !disks.iter().any(waits) {
                add(disks, folder, None);
            }
            disks
                .iter_mut()
                .filter(|disk| waits(disk))
                .for_each(|disk| disk.pool = pool);
        })
    }

    /// Records the pools of disks.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note_pools(&self, pools: &BTreeMap<DiskId, u16>) -> Result<()> {
        self.change(|disks| {
            for disk in disks {
                if let Some(pool) = disk.id().and_then(|id| pools.get(&id)) {
                    disk.pool = *pool;
                }
            }
        })
    }

    /// The number of the pool of a disk, as far as it is remembered.
    #[must_use]
    pub fn pool_of(&self, id: DiskId) -> Option<u16> {
        let file = self.file.lock();
        let disk = file.disks.iter().find(|disk| disk.id() == Some(id))?;
        Some(disk.pool)
    }

    /// Forgets a folder in which no disk was ever seen. Returns whether it was recorded.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn forget(&self, folder: &Path) -> Result<bool> {
        let forgotten = self.change(|disks| {
            let before = disks.len();
            disks.retain(|disk| disk.folder != folder || disk.id.is_some());
            disks.len() < before
        })?;
        if forgotten {
            self.left.lock().insert(folder.to_path_buf());
        }
        Ok(forgotten)
    }

    /// Whether no disk is expected in a folder any more.
    #[must_use]
    pub fn is_left(&self, folder: &Path) -> bool {
        self.left.lock().contains(folder)
    }

    /// Records the disk in each folder, in the order of the folders, and the removed disks.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note(
        &self,
        folders: &[(PathBuf, Option<DiskId>)],
        removed: &BTreeSet<DiskId>,
    ) -> Result<()> {
        let mut left = self.left.lock();
        self.change(|disks| {
            for (folder, id) in folders {
                match id {
                    Some(_) => left.remove(folder),
                    None if left.contains(folder) => continue,
                    None => false,
                };
                left.extend(note(disks, folder, *id));
            }
            // Another disk may be where the first one was.
            left.retain(|folder| !disks.iter().any(|d| d.folder == *folder && d.id.is_some()));
            disks.retain(|disk| disk.id.is_some() || !left.contains(&disk.folder));
            for disk in disks {
                disk.removed = disk.id().is_some_and(|id| removed.contains(&id));
            }
        })
    }

    /// The number of each disk.
    #[must_use]
    pub fn numbers(&self) -> BTreeMap<DiskId, u32> {
        let file = self.file.lock();
        let disks = file.disks.iter();
        disks
            .filter_map(|disk| Some((disk.id()?, disk.number)))
            .collect()
    }

    /// The disk of a number.
    #[must_use]
    pub fn by_number(&self, number: u32) -> Option<DiskId> {
        let file = self.file.lock();
        let mut disks = file.disks.iter();
        disks.find(|disk| disk.number == number)?.id()
    }

    /// The last disk of a folder: one that was not removed, if there is one.
    #[must_use]
    pub fn at(&self, folder: &Path) -> Option<DiskId> {
        let file = self.file.lock();
        let here = file.disks.iter().rev().filter(|disk| disk.folder == folder);
        let (removed, others): (Vec<_>, Vec<_>) = here
            .filter(|disk| disk.id.is_some())
            .partition(|disk| disk.removed);
        others.first().or(removed.first())?.id()
    }

    /// A message for people, with disks named by their present or last folders. An id alone does
    /// not tell which disk to pull.
    #[must_use]
    pub fn spell(&self, message: &str) -> String {
        let file = self.file.lock();
        spell(&file.disks, message)
    }

    /// The last folder of a disk; `None` if another disk that was not removed is there now, because
    /// an action on the folder would affect that disk.
    #[must_use]
    pub fn folder_of(&self, id: DiskId) -> Option<PathBuf> {
        let file = self.file.lock();
        let disk = file.disks.iter().find(|disk| disk.id() == Some(id))?;
        let taken = file.disks.iter().any(|other| {
            other.folder == disk.folder && other.number != disk.number && !other.removed
        });
        (!taken).then(|| disk.folder.clone())
    }
}

/// The same with the record in a state folder, for messages about a pool that does
/// not open.
#[must_use]
pub fn spelled(state_dir: &Path, message: &str) -> String {
    match read(&path(state_dir)) {
        Ok(Some(file)) => spell(&file.disks, message),
        _ => message.to_owned(),
    }
}

fn spell(disks: &[DiskEntry], message: &str) -> String {
    let mut text = message.to_owned();
    for disk in disks {
        if let Some(id) = &disk.id {
            let short = id.get(..ID_DIGITS).unwrap_or(id);
            let folder = disk.folder.display();
            let name = format!("{folder} (number {}, id {short})", disk.number);
            text = text.replace(id.as_str(), &name);
        }
    }
    text
}

/// Notes one of them; the folder in which its disk was before.
fn note(disks: &mut Vec<DiskEntry>, folder: &Path, id: Option<DiskId>) -> Option<PathBuf> {
    let Some(id) = id else {
        if !disks.iter().any(|disk| disk.folder == folder) {
            add(disks, folder, None);
        }
        return None;
    };
    if let Some(known) = disks.iter_mut().find(|disk| disk.id() == Some(id)) {
        let mut before = None;
        if known.folder != folder {
            tracing::info!(
                disk = known.number,
                from = %known.folder.display(),
                to = %folder.display(),
                "a disk is in another folder now, which does no harm"
            );
            before = Some(std::mem::replace(&mut known.folder, folder.to_path_buf()));
        }
        disks.retain(|disk| disk.folder != folder || disk.id.is_some());
        return before;
    }
    let waits = |disk: &&mut DiskEntry| disk.folder == folder && disk.id.is_none();
    match disks.iter_mut().find(waits) {
        Some(disk) => disk.id = Some(id.to_string()),
        None => add(disks, folder, Some(id)),
    }
    None
}

fn add(disks: &mut Vec<DiskEntry>, folder: &Path, id: Option<DiskId>) {
    let last = disks.iter().map(|disk| disk.number).max();
    disks.push(DiskEntry {
        number: last.unwrap_or(0) + 1,
        id: id.map(|id| id.to_string()),
        folder: folder.to_path_buf(),
        pool: 0,
        removed: false,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster() -> (tempfile::TempDir, PoolStateFile) {
        let dir = tempfile::tempdir().expect("a folder");
        let roster = PoolStateFile {
            path: dir.path().join(FILE),
            file: Mutex::new(PoolState {
                dewar: "1".to_owned(),
                formatted: true,
                master_key: "2".to_owned(),
                disks: Vec::new(),
            }),
            left: Mutex::default(),
        };
        (dir, roster)
    }

    fn found(folder: &str, id: u128) -> (PathBuf, Option<DiskId>) {
        (PathBuf::from(folder), (id > 0).then_some(DiskId(id)))
    }

    #[test]
    fn numbers_stay_with_their_disks() {
        let (dir, roster) = roster();
        let none = BTreeSet::new();
        let first = [found("/a", 11), found("/b", 0), found("/c", 13)];
        roster.note(&first, &none).expect("written");
        // The second comes, and the others change places.
        let second = [found("/a", 13), found("/b", 12), found("/c", 11)];
        roster.note(&second, &none).expect("written");
        for (number, id) in [(1, 11), (2, 12), (3, 13)] {
            assert_eq!(roster.by_number(number), Some(DiskId(id)));
        }
        assert_eq!(roster.at(Path::new("/a")), Some(DiskId(13)));
        // A new disk where the second was, which was removed.
        let removed = BTreeSet::from([DiskId(12)]);
        roster.reserve(Path::new("/b"), 0).expect("written");
        roster.note(&[found("/b", 14)], &removed).expect("written");
        assert_eq!(roster.by_number(2), Some(DiskId(12)));
        assert_eq!(roster.by_number(4), Some(DiskId(14)));
        assert_eq!(roster.at(Path::new("/b")), Some(DiskId(14)));
        // What is said about the folder of a disk must not be done to another.
        assert_eq!(roster.folder_of(DiskId(12)), None);
        assert_eq!(roster.folder_of(DiskId(14)), Some(PathBuf::from("/b")));
        assert_eq!(roster.folder_of(DiskId(13)), Some(PathBuf::from("/a")));
        // All of that is in the file.
        let file = read(&path(dir.path())).expect("readable").expect("there");
        assert_eq!(file, *roster.file.lock());
        assert!(knows_pool(dir.path()));
        let expected = ["/c", "/a", "/b"].map(|folder| (PathBuf::from(folder), 0));
        assert_eq!(known_folders(dir.path()), expected);
    }

    #[test]
    fn messages_name_the_folders_of_disks() {
        let (_dir, roster) = roster();
        roster
            .note(&[found("/data/d3", 14)], &BTreeSet::new())
            .expect("written");
        let (known, other) = (DiskId(14), DiskId(15));
        let said = roster.spell(&format!("without disk {known} and {other}"));
        let expected = format!("without disk /data/d3 (number 1, id 00000000) and {other}");
        assert_eq!(said, expected);
    }

    #[test]
    fn the_folder_that_a_disk_has_left_is_not_waited_for() {
        let (_dir, roster) = roster();
        let none = BTreeSet::new();
        let before = [found("/a", 11), found("/b", 12)];
        roster.note(&before, &none).expect("written");
        // The second is in another folder after a restart; the one it had is looked into still.
        for after in [
            [found("/a", 11), found("/c", 12), found("/b", 0)],
            [found("/b", 0), found("/a", 11), found("/c", 12)],
        ] {
            roster.note(&after, &none).expect("written");
            assert!(roster.is_left(Path::new("/b")));
            let folders: Vec<_> = roster
                .file
                .lock()
                .disks
                .iter()
                .map(|d| d.folder.clone())
                .collect();
            assert_eq!(folders, [PathBuf::from("/a"), PathBuf::from("/c")]);
        }
        // Another disk comes there, and goes.
        roster.note(&[found("/b", 13)], &none).expect("written");
        assert!(!roster.is_left(Path::new("/b")));
        roster.note(&[found("/b", 0)], &none).expect("written");
        assert_eq!(roster.at(Path::new("/b")), Some(DiskId(13)));
        // Two that change places are both waited for.
        let swapped = [found("/a", 12), found("/c", 11)];
        roster.note(&swapped, &none).expect("written");
        assert!(!roster.is_left(Path::new("/a")) && !roster.is_left(Path::new("/c")));
    }

    #[test]
    fn a_folder_without_its_disk_can_be_forgotten() {
        let (_dir, roster) = roster();
        roster.reserve(Path::new("/new"), 0).expect("written");
        roster.reserve(Path::new("/new"), 0).expect("written");
        assert_eq!(roster.file.lock().disks.len(), 1);
        assert!(roster.forget(Path::new("/new")).expect("written"));
        assert!(!roster.forget(Path::new("/new")).expect("written"));
        // It is looked into until the restart, and not remembered anew.
        let nothing = [found("/new", 0)];
        roster.note(&nothing, &BTreeSet::new()).expect("written");
        assert!(roster.file.lock().disks.is_empty());
        let one = [found("/new", 5)];
        roster.note(&one, &BTreeSet::new()).expect("written");
        assert!(!roster.forget(Path::new("/new")).expect("written"));
    }
}
