//! A disk: one folder on one device, with operations that may fail, hang or lie.
//!
//! Paths are relative to the folder, with `/` between names. Every operation ends: in success, in
//! an error, or with [`DiskErrorKind::TimedOut`] after the disk's deadline, when the disk counts
//! as hung. Dropping a future does not undo its operation, which may still happen later.
//!
//! A write that was given up with `TimedOut` has ended, or will never begin, once the disk can be
//! written again ([`DiskState::writable`]): what is written from then on cannot be overtaken by it.

#[cfg(feature = "contract")]
pub mod contract;
mod error;
mod path;
pub mod real;
#[cfg(feature = "sim")]
pub mod sim;

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

pub use error::{DiskError, DiskErrorKind};

use crate::BoxFuture;

/// The largest file that [`Disk::read_file`] reads, in bytes.
pub const SMALL_FILE_BYTES_MAX: u64 = 16 << 20;

/// Offsets and lengths of direct access are multiples of this many bytes.
pub const DIRECT_BYTES: u64 = 4096;

/// A result of a disk operation.
pub type Result<T, E = DiskError> = core::result::Result<T, E>;

/// Whether a disk can be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskState {
    /// It answers. `returns` counts how often it came back after having been away in this process,
    /// so that who keeps state about it notices a return however short the absence.
    Online {
        /// Returns so far.
        returns: u32,
    },
    /// Reads work, and nothing can be written: the file system is mounted read-only or has turned
    /// so, or the process has not the right to the folder. It ends by itself when writes work again.
    ReadOnly {
        /// As when it is online.
        returns: u32,
    },
    /// The folder is absent, empty or not the one that was opened (device and inode): descriptors
    /// that are still open do not count (RECORDS.md section 6).
    Missing,
    /// An operation passed its deadline and has not ended yet. New ones fail at once; what was
    /// under way may still happen.
    Hung,
    /// A sync or durable write failed: what was written before it may be lost although reads show
    /// it, so nothing is written until the process restarts.
    Poisoned,
}

impl DiskState {
    /// Whether reads may be tried.
    #[must_use]
    pub const fn readable(self) -> bool {
        matches!(
            self,
            Self::Online { .. } | Self::ReadOnly { .. } | Self::Poisoned
        )
    }

    /// How often it came back after having been away, where that can be told.
    #[must_use]
    pub const fn returns(self) -> Option<u32> {
        match self {
            Self::Online { returns } | Self::ReadOnly { returns } => Some(returns),
            Self::Missing | Self::Hung | Self::Poisoned => None,
        }
    }

    /// Whether writes may be tried.
    #[must_use]
    pub const fn writable(self) -> bool {
        matches!(self, Self::Online { .. })
    }
}

/// How a new file is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateOptions {
    /// Zero-fill to this many bytes and sync, so that later overwrites change no metadata.
    pub zeroed_bytes: u64,
    /// Every write bypasses the page cache (O_DIRECT where the file system can): offsets, lengths
    /// and buffers are then multiples of 4096 at the caller's care for offsets and lengths, and
    /// the disk's for buffers. Do not mix with cached access to the same file.
    pub direct: bool,
}

/// How an existing file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only.
    Read,
    /// Reads and cached writes.
    Write,
    /// Reads and writes that bypass the page cache; see [`CreateOptions::direct`].
    Direct,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name, without the folder's.
    pub name: String,
    /// Whether it is a folder.
    pub is_dir: bool,
}

/// Room on the device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Size of the file system.
    pub total: u64,
    /// What may still be written.
    pub available: u64,
}

/// The most that is kept free on a device, in bytes.
const RESERVE_BYTES_MAX: u64 = 256 << 20;

impl Space {
    /// A device with less room than this, in bytes, takes no new objects: deletes, sealing, compaction,
    /// repair and the catalog need it.
    #[must_use]
    pub const fn reserve(&self) -> u64 {
        let share = self.total / 16;
        if share < RESERVE_BYTES_MAX {
            share
        } else {
            RESERVE_BYTES_MAX
        }
    }

    /// Whether there is room for a further file of so many bytes of what empties a device, the journal. It
    /// may use more of the reserve than anything else, and leaves an eighth of it: what is in the journal
    /// can be let go of only when the index was written.
    #[must_use]
    pub const fn for_further_file(&self, bytes: u64) -> bool {
        self.available.saturating_sub(bytes) > self.reserve() / 8
    }
}

/// One folder on one device; see the module.
pub trait Disk: Send + Sync + Debug {
    /// What messages call it: the folder's path.
    fn label(&self) -> &str;

    /// Whether it can be used now. Costs an atomic load.
    fn state(&self) -> DiskState;

    /// Follows the state.
    fn watch(&self) -> watch::Receiver<DiskState>;

    /// Room on the device.
    fn space(&self) -> BoxFuture<'_, Result<Space>>;

    /// Makes a file that must not exist, and the folders above it. The name is durable after
    /// [`Disk::sync_dir`] of its folder.
    fn create<'a>(
        &'a self,
        path: &'a str,
        options: CreateOptions,
    ) -> BoxFuture<'a, Result<Arc<dyn DiskFile>>>;

    /// Makes a file that must not exist with this content, durably: what [`Disk::create`],
    /// [`DiskFile::write_pieces`], [`DiskFile::sync`] and [`Disk::sync_dir`] of its folder do one
    /// after the other, for the price of one operation. After an error part of it may be there.
    fn create_whole<'a>(
        &'a self,
        path: &'a str,
        pieces: Vec<(u64, Vec<Bytes>)>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let file = self.create(path, CreateOptions::default()).await?;
            file.complete(pieces).await?;
            self.sync_dir(path::parent(path)).await
        })
    }

    /// Opens a file that must exist. On a disk that is read-only that works for writing too, and
    /// the writes are refused; open it again when the disk can be written.
    fn open<'a>(
        &'a self,
        path: &'a str,
        access: Access,
    ) -> BoxFuture<'a, Result<Arc<dyn DiskFile>>>;

    /// Removes a file. Durable after [`Disk::sync_dir`].
    fn remove<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Gives a file another name, replacing what has it, and makes the folders above the new name.
    /// Atomic; durable after [`Disk::sync_dir`] of both folders.
    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Result<()>>;

    /// What is in a folder, sorted by name; an absent folder is empty.
    fn list<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, Result<Vec<DirEntry>>>;

    /// Makes creations, removals and renames in this folder durable, and the folder's own name and
    /// those of the folders above it.
    fn sync_dir<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, Result<()>>;

    /// The whole of a small file (up to 16 MiB).
    fn read_file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes>>;

    /// Replaces a small file as a whole and durably: temporary name (`<path>.tmp`, which a crash
    /// may leave behind and the next replacement reuses), sync, rename, folder sync.
    fn replace_file<'a>(&'a self, path: &'a str, content: Bytes) -> BoxFuture<'a, Result<()>>;
}

/// An open file of a [`Disk`]. Closed when the last handle is dropped.
#[allow(clippy::len_without_is_empty, reason = "asking costs a system call")]
pub trait DiskFile: Send + Sync + Debug {
    /// Reads on the calling thread if that cannot block (page cache); `None` where it would, or
    /// where the disk is not readable. Shorter than `len` only at the end of the file.
    fn read_now(&self, offset: u64, len: usize) -> Option<Result<Bytes>>;

    /// Reads up to `len` bytes; shorter only at the end of the file.
    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes>>;

    /// Reads several `(offset, len)` pieces as one operation.
    fn read_pieces(&self, pieces: Vec<(u64, usize)>) -> BoxFuture<'_, Result<Vec<Bytes>>>;

    /// Writes the buffers one behind the other from `offset` on; all or an error. Durable after
    /// [`DiskFile::sync`].
    fn write_at(&self, offset: u64, buffers: Vec<Bytes>) -> BoxFuture<'_, Result<()>>;

    /// Writes several extents as one operation, each a run of buffers at its offset.
    fn write_pieces(&self, pieces: Vec<(u64, Vec<Bytes>)>) -> BoxFuture<'_, Result<()>>;

    /// Writes the last pieces of a file and syncs it: [`DiskFile::write_pieces`] and
    /// [`DiskFile::sync`] for the price of one operation.
    fn complete(&self, pieces: Vec<(u64, Vec<Bytes>)>) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.write_pieces(pieces).await?;
            self.sync().await
        })
    }

    /// Writes and returns when the bytes are on the medium (RWF_DSYNC).
    fn write_durable(&self, offset: u64, buffers: Vec<Bytes>) -> BoxFuture<'_, Result<()>>;

    /// Makes all earlier writes of this file durable, and its length. A failure poisons the disk.
    fn sync(&self) -> BoxFuture<'_, Result<()>>;

    /// Whether the name that it was opened by still leads to it. If not, somebody removed or replaced
    /// it, and nobody will find again what is written to it: what promises durability
    /// ([`DiskFile::write_durable`], [`DiskFile::sync`], [`DiskFile::complete`]) fails with
    /// [`DiskErrorKind::NotFound`] then.
    fn is_in_place(&self) -> BoxFuture<'_, Result<bool>>;

    /// The file's length in bytes.
    fn len(&self) -> BoxFuture<'_, Result<u64>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_follows_small_disks() {
        let reserve = |total| {
            let space = Space {
                total,
                available: 0,
            };
            space.reserve()
        };
        assert_eq!(reserve(0), 0);
        assert_eq!(reserve(1 << 30), 64 << 20);
        assert_eq!(reserve(4 << 30), 256 << 20);
        assert_eq!(reserve(1 << 44), 256 << 20);
    }

    #[test]
    fn the_last_eighth_of_the_reserve_is_for_no_journal_file() {
        let fits = |mib: u64| {
            let space = Space {
                total: 4 << 30,
                available: mib << 20,
            };
            space.for_further_file(32 << 20)
        };
        assert!(fits(65) && !fits(64) && !fits(32) && !fits(0));
    }
}
