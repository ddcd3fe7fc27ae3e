//! Lock of a folder for one process.
//!
//! Two servers on the same disks would overwrite each other's acknowledged data. The folder itself
//! is therefore locked. The kernel releases the lock when the process ends, however it ends. Within
//! a process the folder may be opened several times.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fs::{self, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Device and inode.
type DirIdentity = (u64, u64);

/// The lock, for as long as this lives.
pub(super) struct DirLock {
    _folder: OwnedFd,
}

/// The locks of this process: the kernel would have it wait for itself.
static HELD: Mutex<BTreeMap<DirIdentity, Weak<DirLock>>> = Mutex::new(BTreeMap::new());

/// Locks an open folder.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] when another process has it. [`io::ErrorKind::Unsupported`] on a
/// file system that has no such locks: nothing would keep a second server off the folder.
pub(super) fn take(folder: &OwnedFd, place: DirIdentity) -> io::Result<Arc<DirLock>> {
    let mut held = HELD.lock();
    if let Some(hold) = held.get(&place).and_then(Weak::upgrade) {
        return Ok(hold);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = fs::openat(folder, ".", flags, Mode::empty())?;
    fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).map_err(not_locked)?;
    let hold = Arc::new(DirLock { _folder: folder });
    held.retain(|_, hold| hold.strong_count() > 0);
    held.insert(place, Arc::downgrade(&hold));
    Ok(hold)
}

fn not_locked(error: Errno) -> io::Error {
    match error {
        Errno::WOULDBLOCK => io::ErrorKind::ResourceBusy.into(),
        Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL => io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "its file system cannot lock the folder against a second server: mount it with \
                 support for flock(2), or use another one; {error}"
            ),
        ),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_locks_is_refused() {
        for (error, kind) in [
            (Errno::WOULDBLOCK, io::ErrorKind::ResourceBusy),
            (Errno::NOSYS, io::ErrorKind::Unsupported),
            (Errno::NOLCK, io::ErrorKind::Unsupported),
            (Errno::OPNOTSUPP, io::ErrorKind::Unsupported),
        ] {
            assert_eq!(not_locked(error).kind(), kind);
        }
        assert!(not_locked(Errno::NOSYS).to_string().contains("flock"));
    }
}
