//! The file of the master key: finding and checking it, and creating it exactly once.
//!
//! A new key is created only together with a new pool. Its file is durable before the pool's first
//! byte. A crash between the two leaves a key without a pool, and the next start uses this key. A
//! pool whose key is missing or different is never opened, because a second key would make every
//! stored secret unreadable for good.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use dewar_auth::{MasterKeyError, MasterKeyId, MasterKeys};
use dewar_env::Rng;
use rustix::fs::OFlags;
use thiserror::Error;
use zeroize::Zeroizing;

use super::paths::{folder_of, is_within};
use super::private_file::{create_private_file, replace_private_file};

/// A file larger than this is no master key.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// The state of the pool's master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKey {
    /// The pool is about to be formatted: a key that is not there is made.
    Fresh,
    /// The pool exists. Its key is this one, if it is known before the catalog is open. If not,
    /// [`check`] follows.
    Existing(Option<MasterKeyId>),
}

/// Why there is no master key.
#[derive(Debug, Error)]
pub enum KeyFileError {
    /// The pool exists and the file does not.
    #[error(
        "the master key {} of this pool is missing: put back the copy of it; without it no stored \
         credential can be read, and another is never made", .0.display()
    )]
    Missing(PathBuf),
    /// The file holds another key.
    #[error(
        "the master key {} is not that of this pool, which is {expected}: put back the copy of \
         that one", path.display()
    )]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The key that the pool's secrets are wrapped with.
        expected: MasterKeyId,
    },
    /// Somebody else may read or own it.
    #[error("the master key {} {reason}", path.display())]
    Unsafe {
        /// The file.
        path: PathBuf,
        /// The problem and how to solve it.
        reason: String,
    },
    /// It is damaged, or no key file.
    #[error("the master key {}: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: MasterKeyError,
    },
    /// It cannot be read or written.
    #[error("cannot {doing} the master key {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The failed action.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// Reads the master key, or makes it if the pool is fresh and there is none.
///
/// # Errors
/// It is missing or wrong for an existing pool, inside one of `disks`, readable by others, damaged,
/// or cannot be read or written. Nothing was changed then.
pub fn open(
    path: &Path,
    disks: &[PathBuf],
    pool: PoolKey,
    rng: &dyn Rng,
) -> Result<MasterKeys, KeyFileError> {
    if let Some(disk) = disks.iter().find(|disk| is_within(path, disk)) {
        return Err(KeyFileError::Unsafe {
            path: path.to_path_buf(),
            reason: format!(
                "is inside the disk {}: set security.master_key_file to another place",
                disk.display()
            ),
        });
    }
    match (read(path)?, pool) {
        (Some(keys), PoolKey::Fresh | PoolKey::Existing(None)) => Ok(keys),
        (Some(keys), PoolKey::Existing(Some(id))) => check(path, &keys, id).map(|()| keys),
        (None, PoolKey::Fresh) => create(path, rng),
        (None, PoolKey::Existing(_)) => Err(KeyFileError::Missing(path.to_path_buf())),
    }
}

/// Checks whether the file `path`, which was read as `keys`, has the key that the pool names.
///
/// # Errors
/// [`KeyFileError::Wrong`].
pub fn check(path: &Path, keys: &MasterKeys, expected: MasterKeyId) -> Result<(), KeyFileError> {
    if keys.holds(expected) {
        return Ok(());
    }
    Err(KeyFileError::Wrong {
        path: path.to_path_buf(),
        expected,
    })
}

/// Replaces `old` by `new`, durably and atomically: a crash leaves one or the other.
///
/// # Errors
/// The file does not contain `old`, or cannot be written. It is unchanged then.
pub fn replace(path: &Path, old: &MasterKeys, new: &MasterKeys) -> Result<(), KeyFileError> {
    let found = read(path)?.ok_or_else(|| KeyFileError::Missing(path.to_path_buf()))?;
    if found.ids() != old.ids() {
        return Err(KeyFileError::Unsafe {
            path: path.to_path_buf(),
            reason: "was changed by somebody else since it was read: restart first".to_owned(),
        });
    }
    let failed = |source| KeyFileError::Io {
        path: path.to_path_buf(),
        doing: "write",
        source,
    };
    // The file, not a link to it, is what is replaced.
    let place = fs::canonicalize(path).map_err(failed)?;
    replace_private_file(&place, new.to_text().as_bytes())
        .map_err(|error| failed(io::Error::other(error.to_string())))
}

fn create(path: &Path, rng: &dyn Rng) -> Result<MasterKeys, KeyFileError> {
    let keys = MasterKeys::generate(rng);
    // Written aside and linked, so that a crash leaves no half file behind that would stop every
    // later start; a link, unlike a rename, never replaces a key.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let _ = fs::remove_file(&temporary);
    let made = create_private_file(&temporary, keys.to_text().as_bytes())
        .and_then(|()| fs::hard_link(&temporary, path));
    let _ = fs::remove_file(&temporary);
    made.and_then(|()| File::open(folder_of(path))?.sync_all())
        .map_err(|source| KeyFileError::Io {
            path: path.to_path_buf(),
            doing: "write",
            source,
        })?;
    tracing::info!(
        path = %path.display(),
        id = %keys.current(),
        "made the master key; keep a copy of it in another place"
    );
    Ok(keys)
}

fn read(path: &Path) -> Result<Option<MasterKeys>, KeyFileError> {
    let failed = |source| KeyFileError::Io {
        path: path.to_path_buf(),
        doing: "read",
        source,
    };
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let found = file.metadata().map_err(failed)?;
    let refuse = |reason: &str| KeyFileError::Unsafe {
        path: path.to_path_buf(),
        reason: reason.to_owned(),
    };
    if !found.is_file() || found.len() > FILE_BYTES_MAX {
        return Err(refuse("is no key file"));
    }
    if found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o7777;
        return Err(refuse(&format!(
            "has mode {mode:04o}, so that others may use it: chmod 0600, and think of replacing it"
        )));
    }
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own {
        let owner = found.uid();
        return Err(refuse(&format!(
            "belongs to uid {owner}, not to uid {own}, the user of this process"
        )));
    }
    // Space for all of it at once: growing would leave copies behind.
    let mut text = Zeroizing::new(String::with_capacity(
        usize::try_from(found.len()).unwrap_or(0) + 1,
    ));
    file.take(FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    MasterKeys::parse(&text)
        .map(Some)
        .map_err(|source| KeyFileError::Damaged {
            path: path.to_path_buf(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use dewar_env::RealRng;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    }

    #[test]
    fn is_made_once_and_found_again() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("master.key");
        let made = open(&path, &[], PoolKey::Fresh, &RealRng).expect("makes");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
        let id = made.current();
        // A crash before the pool was formatted: the key is there, the pool is not.
        let again = open(&path, &[], PoolKey::Fresh, &RealRng).expect("takes");
        assert_eq!(again.current(), id);
        let known = open(&path, &[], PoolKey::Existing(Some(id)), &RealRng).expect("opens");
        assert_eq!(known.current(), id);
    }

    #[test]
    fn a_missing_or_wrong_key_stops_and_makes_none() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("master.key");
        let other = MasterKeys::generate(&RealRng).current();
        let existing = PoolKey::Existing(None);
        assert!(open(&path, &[], existing, &RealRng).is_err());
        let error =
            open(&path, &[], PoolKey::Existing(Some(other)), &RealRng).expect_err("missing");
        assert!(matches!(error, KeyFileError::Missing(_)), "{error}");
        assert!(error.to_string().contains("master.key"));
        assert!(!path.exists());
        open(&path, &[], PoolKey::Fresh, &RealRng).expect("makes");
        let before = fs::read(&path).expect("reads");
        let error = open(&path, &[], PoolKey::Existing(Some(other)), &RealRng).expect_err("wrong");
        assert!(error.to_string().contains(&other.to_string()), "{error}");
        assert_eq!(fs::read(&path).expect("reads"), before);
    }

    #[test]
    fn is_replaced_whole_behind_a_link_and_not_under_somebody_elses_hands() {
        let dir = tempfile::tempdir().expect("folder");
        let (path, link) = (dir.path().join("master.key"), dir.path().join("link"));
        let keys = open(&path, &[], PoolKey::Fresh, &RealRng).expect("makes");
        symlink(&path, &link).expect("link");
        let next = keys.with_new(&RealRng).expect("room");
        replace(&link, &keys, &next).expect("replaces");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o7777, 0o600);
        let found = open(&path, &[], PoolKey::Existing(None), &RealRng).expect("opens");
        assert_eq!(found.ids(), next.ids());
        assert!(found.holds(keys.current()));
        // It is another file by now than what these were read from.
        let error = replace(&path, &keys, &keys.with_new(&RealRng).expect("room"));
        assert!(
            error
                .expect_err("refused")
                .to_string()
                .contains("somebody else")
        );
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 2);
    }

    #[test]
    fn one_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("master.key");
        open(&path, &[], PoolKey::Fresh, &RealRng).expect("makes");
        for mode in [0o640, 0o604, 0o660, 0o666] {
            set_mode(&path, mode);
            let error = open(&path, &[], PoolKey::Fresh, &RealRng).expect_err("refused");
            assert!(
                error.to_string().contains(&format!("{mode:04o}")),
                "{error}"
            );
        }
        set_mode(&path, 0o400);
        open(&path, &[], PoolKey::Fresh, &RealRng).expect("stricter is fine");
    }

    #[test]
    fn one_inside_a_disk_is_refused_even_behind_a_link() {
        let dir = tempfile::tempdir().expect("folder");
        let disk = dir.path().join("disk1");
        fs::create_dir(&disk).expect("create");
        symlink(&disk, dir.path().join("link")).expect("link");
        let disks = [disk.clone()];
        for path in [disk.join("master.key"), dir.path().join("link/master.key")] {
            let error = open(&path, &disks, PoolKey::Fresh, &RealRng).expect_err("refused");
            assert!(error.to_string().contains("inside the disk"), "{error}");
        }
        assert_eq!(fs::read_dir(&disk).expect("list").count(), 0);
    }

    #[test]
    fn damage_and_strange_files_are_named() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("master.key");
        let open = || open(&path, &[], PoolKey::Fresh, &RealRng);
        fs::write(&path, "").expect("write");
        set_mode(&path, 0o600);
        assert!(matches!(open(), Err(KeyFileError::Damaged { .. })));
        fs::remove_file(&path).expect("remove");
        fs::create_dir(&path).expect("create");
        assert!(
            open()
                .expect_err("folder")
                .to_string()
                .contains("master.key")
        );
    }
}
