//! The keys of services, in a file that `xrdsssadmin` writes.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dewar_xrootd::{KeytabError, SssKey, parse_keytab};
use parking_lot::Mutex;
use thiserror::Error;
use zeroize::Zeroizing;

/// Longest file, in bytes: thousands of keys.
const BYTES_MAX: u64 = 1 << 20;

/// A keytab that cannot be used.
#[derive(Debug, Error)]
pub(crate) enum KeytabFileError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others may read it too.
    #[error("{}: mode {mode:o} lets others read it; chmod 600 it", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is none.
    #[error("{}: {source}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The line and its problem.
        source: KeytabError,
    },
}

/// Attributes of a file that show whether it has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// A keytab. It is checked whenever its keys are needed, and read if it has changed.
pub(crate) struct Keytab {
    path: PathBuf,
    last: Mutex<Option<(FileStamp, Arc<Vec<SssKey>>)>>,
}

impl Keytab {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            last: Mutex::default(),
        }
    }

    /// Its keys now; none, and a word in the log, while it cannot be read.
    pub(crate) fn keys(&self) -> Arc<Vec<SssKey>> {
        match self.read() {
            Ok(keys) => keys,
            Err(error) => {
                tracing::error!(%error, "services cannot log in");
                Arc::default()
            }
        }
    }

    /// Its present keys.
    ///
    /// # Errors
    /// It cannot be read, is readable by others, or is not a keytab.
    pub(crate) fn read(&self) -> Result<Arc<Vec<SssKey>>, KeytabFileError> {
        let failed = |source| KeytabFileError::Io {
            path: self.path.clone(),
            source,
        };
        let file = fs::File::open(&self.path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        let look = FileStamp {
            inode: found.ino(),
            size: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
        };
        let mut last = self.last.lock();
        if let Some((before, keys)) = &*last
            && *before == look
        {
            return Ok(Arc::clone(keys));
        }
        if found.mode() & others(&self.path) != 0 {
            return Err(KeytabFileError::Open {
                path: self.path.clone(),
                mode: found.mode() & 0o7777,
            });
        }
        let mut text = Zeroizing::new(String::new());
        file.take(BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(failed)?;
        let keys = parse_keytab(&text).map_err(|source| KeytabFileError::Content {
            path: self.path.clone(),
            source,
        })?;
        let keys = Arc::new(keys);
        *last = Some((look, Arc::clone(&keys)));
        Ok(keys)
    }
}

/// The permission bits that a keytab must not have, as in XRootD's own tools.
fn others(path: &Path) -> u32 {
    match path.extension().is_some_and(|extension| extension == "grp") {
        true => 0o037,
        false => 0o077,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_keytab_is_read_again_when_it_changes_and_only_if_it_is_secret() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode));
        fs::write(&path, "0 u:ann N:1 k:00112233\n").expect("written");
        mode(0o600).expect("set");
        let keytab = Keytab::new(path.clone());
        assert_eq!(keytab.keys().len(), 1);
        fs::write(&path, "0 u:ann N:1 k:00112233\n0 u:bob N:2 k:00112233\n").expect("written");
        assert_eq!(keytab.keys().len(), 2);
        mode(0o640).expect("set");
        let error = keytab.read().expect_err("others may read it");
        assert!(error.to_string().contains("chmod 600"), "{error}");
        assert!(keytab.keys().is_empty());
        mode(0o600).expect("set");
        fs::write(&path, "0 u:ann N:1\n").expect("written");
        assert!(keytab.read().is_err());
        let group = folder.path().join("keys.grp");
        fs::copy(&path, &group).expect("copied");
        fs::set_permissions(&group, fs::Permissions::from_mode(0o640)).expect("set");
        let error = Keytab::new(group).read().expect_err("no key in it");
        assert!(error.to_string().contains("line 1"), "{error}");
    }
}
