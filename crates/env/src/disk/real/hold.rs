//! A folder for one process alone.
//!
//! Two servers on the same disks would each write over what the other was promised. So the folder
//! itself is locked, which the kernel ends with the process, however that ends. Within a process the
//! folder may be opened several times.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fs::{self, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Device and inode.
type Place = (u64, u64);

/// The lock, for as long as this lives.
pub(super) struct Hold {
    _folder: OwnedFd,
}

/// The locks of this process: the kernel would have it wait for itself.
static HELD: Mutex<BTreeMap<Place, Weak<Hold>>> = Mutex::new(BTreeMap::new());

/// Locks an open folder. `None` on a file system that has no locks.
///
/// # Errors
/// [`io::ErrorKind::ResourceBusy`] when another process has it.
pub(super) fn take(folder: &OwnedFd, place: Place) -> io::Result<Option<Arc<Hold>>> {
    let mut held = HELD.lock();
    if let Some(hold) = held.get(&place).and_then(Weak::upgrade) {
        return Ok(Some(hold));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = fs::openat(folder, ".", flags, Mode::empty())?;
    match fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(io::ErrorKind::ResourceBusy.into()),
        Err(error) => {
            tracing::debug!(%error, "a folder cannot be locked");
            return Ok(None);
        }
    }
    let hold = Arc::new(Hold { _folder: folder });
    held.retain(|_, hold| hold.strong_count() > 0);
    held.insert(place, Arc::downgrade(&hold));
    Ok(Some(hold))
}
