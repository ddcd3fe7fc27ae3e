//! One process per state folder.
//!
//! A server holds the lock while it runs, and an admin command while it has the store open itself.
//! The kernel releases the lock of a killed process, so nothing has to be cleaned up.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use thiserror::Error;

/// Name of the lock in the state folder.
const NAME: &str = "lock";

/// Why the lock is not ours.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process has it.
    #[error("{} is in use by {holder}", folder.display())]
    Held {
        /// The state folder.
        folder: PathBuf,
        /// The process, if it is known.
        holder: String,
    },
    /// The folder or the lock cannot be made.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The failed action.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// The lock of a state folder, for as long as this lives.
#[derive(Debug)]
pub struct StateLock {
    _file: File,
}

impl StateLock {
    /// Takes the lock; the folder is made, with mode 0700, if it does not exist.
    ///
    /// # Errors
    /// Another process holds it, or the folder cannot be written to.
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        let failed = |path: &Path, doing| {
            let path = path.to_path_buf();
            move |source| LockError::Io {
                path,
                doing,
                source,
            }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed(folder, "create"))?;
        let path = folder.join(NAME);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed(&path, "open"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(LockError::Held {
                    folder: folder.to_path_buf(),
                    holder: holder(&mut file),
                });
            }
            Err(error) => return Err(failed(&path, "lock")(error.into())),
        }
        // Only for messages: nothing depends on it.
        let _ = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

/// The holder of a folder's lock, found without trying to take the lock. Trying would keep others
/// from taking it.
#[must_use]
pub fn holder_of(folder: &Path) -> Option<String> {
    let mut file = File::open(folder.join(NAME)).ok()?;
    let inode = file.metadata().ok()?.ino().to_string();
    let pid = holding(&mut file)?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF
    let is_it = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let of_file = words.get(5).and_then(|file| file.rsplit(':').next());
        words.get(1) == Some(&"FLOCK")
            && words.get(4) == Some(&pid.to_string().as_str())
            && of_file == Some(inode.as_str())
    };
    locks.lines().any(is_it).then(|| format!("process {pid}"))
}

fn holder(file: &mut File) -> String {
    match holding(file) {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

/// The process that is recorded in the lock file as its holder.
fn holding(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_has_it_and_the_other_is_told_who() {
        let dir = tempfile::tempdir().expect("folder");
        let state = dir.path().join("a/b");
        let lock = StateLock::take(&state).expect("takes");
        assert_eq!(
            std::fs::metadata(&state).expect("made").mode() & 0o777,
            0o700
        );
        let error = StateLock::take(&state).expect_err("held").to_string();
        assert!(
            error.contains(&format!("process {}", std::process::id())),
            "{error}"
        );
        drop(lock);
        StateLock::take(&state).expect("free again");
    }
}
