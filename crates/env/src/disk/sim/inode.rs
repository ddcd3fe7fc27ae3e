//! A simulated file, independent of its names: it lives as long as a name or a handle.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::content::FileContent;
use crate::DiskErrorKind;

pub(super) struct Inode {
    content: Mutex<FileContent>,
    room: Arc<MediumSpace>,
}

/// The bytes of one medium.
#[derive(Debug)]
pub(super) struct MediumSpace {
    pub(super) capacity: AtomicU64,
    pub(super) used: AtomicU64,
}

impl Inode {
    pub(super) fn new(content: FileContent, room: &Arc<MediumSpace>) -> Arc<Self> {
        room.used.fetch_add(content.allocated(), Ordering::Relaxed);
        Arc::new(Self {
            content: Mutex::new(content),
            room: Arc::clone(room),
        })
    }

    pub(super) fn with<T>(&self, f: impl FnOnce(&mut FileContent) -> T) -> T {
        f(&mut self.content.lock())
    }

    pub(super) fn copy(&self, room: &Arc<MediumSpace>) -> Arc<Self> {
        Self::new(self.content.lock().clone(), room)
    }

    /// Writes as much as there is room for.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> Result<(), DiskErrorKind> {
        let mut content = self.content.lock();
        let end = offset + data.len() as u64;
        let before = content.allocated();
        let free = self.room.free();
        let allowed = (before + free).max(content.len());
        if end > allowed {
            let fits = usize::try_from(allowed.saturating_sub(offset)).unwrap_or(0);
            content.write(offset, &data[..fits.min(data.len())]);
        } else {
            content.write(offset, data);
        }
        let grown = content.allocated() - before;
        self.room.used.fetch_add(grown, Ordering::Relaxed);
        if end > allowed {
            return Err(DiskErrorKind::Full);
        }
        Ok(())
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        let freed = self.content.get_mut().allocated();
        self.room.used.fetch_sub(freed, Ordering::Relaxed);
    }
}

impl fmt::Debug for Inode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inode({} bytes)", self.content.lock().len())
    }
}

impl MediumSpace {
    pub(super) fn free(&self) -> u64 {
        let used = self.used.load(Ordering::Relaxed);
        self.capacity.load(Ordering::Relaxed).saturating_sub(used)
    }

    pub(super) fn fits(&self, bytes: u64) -> Result<(), DiskErrorKind> {
        if bytes > self.free() {
            return Err(DiskErrorKind::Full);
        }
        Ok(())
    }
}
