//! A disk: one folder on one device, with operations that may fail, hang or return wrong data.
//!
//! Paths are relative to the folder, with `/` between names. Every operation ends: in success, in
//! an error, or with [`DiskErrorKind::TimedOut`] after the disk's deadline, when the disk counts as
//! hung. Dropping a future does not undo its operation, which may still happen later.
//!
//! A write that was given up with `TimedOut` may still be running. When the disk can be written
//! again ([`DiskState::writable`]), that write has ended or will never begin. It cannot overwrite
//! later writes.

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
    /// The disk answers. `returns` counts how often it came back after an absence in this process.
    /// Components that keep state about the disk therefore notice a return however short the
    /// absence.
    Online {
        /// Returns so far.
        returns: u32,
    },
    /// Reads work, and nothing can be written: the file system is mounted read-only or has become
    /// so, or the process lacks permission for the folder. The state ends when writes work again.
    ReadOnly {
        /// As when it is online.
        returns: u32,
    },
    /// The folder is absent, empty or not the one that was opened (device and inode). This also
    /// holds while open descriptors still work (RECORDS.md section 6).
    Missing,
    /// An operation passed its deadline and has not ended yet. New ones fail at once; operations
    /// under way may still happen.
    Hung,
    /// A sync or durable write failed. Earlier writes may be lost although reads show them, so
    /// nothing is written until the process restarts.
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

    /// Number of returns after an absence, if it is known in this state.
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
    /// Every write bypasses the page cache (O_DIRECT where the file system can). Offsets, lengths
    /// and buffers must then be multiples of 4096. The caller aligns offsets and lengths, the disk
    /// aligns buffers. Do not mix with cached access to the same file.
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

/// Space of the device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Size of the file system.
    pub total: u64,
    /// Bytes that may still be written.
    pub available: u64,
}

/// The most that is kept free on a device, in bytes.
const RESERVE_BYTES_MAX: u64 = 256 << 20;

impl Space {
    /// Reserve of the device, in bytes. A device with less free space takes no new objects:
    /// deletes, sealing, compaction, repair and the catalog need the rest.
    #[must_use]
    pub const fn reserve(&self) -> u64 {
        let share = self.total / 16;
        if share < RESERVE_BYTES_MAX {
            share
        } else {
            RESERVE_BYTES_MAX
        }
    }

    /// Whether there is space for a further file of this many bytes of the journal, which empties a
    /// device. The journal may use more of the reserve than others, but leaves an eighth of it. Its
    /// records can be freed only after the index was written, and that needs space.
    #[must_use]
    pub const fn for_further_file(&self, bytes: u64) -> bool {
        self.available.saturating_sub(bytes) > self.reserve() / 8
    }
}

/// One folder on one device; see the module.
pub trait Disk: Send + Sync + Debug {
    /// The name of the disk in messages: the folder's path.
    fn label(&self) -> &str;

    /// The present state of the disk. Costs an atomic load.
    fn state(&self) -> DiskState;

    /// Follows the state.
    fn watch(&self) -> watch::Receiver<DiskState>;

    /// The space of the device.
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

    /// Renames a file, replacing a file with the new name, and makes the folders above the new
    /// name. Atomic; durable after [`Disk::sync_dir`] of both folders.
    fn rename<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, Result<()>>;

    /// The entries of a folder, sorted by name; an absent folder is empty.
    fn list<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, Result<Vec<DirEntry>>>;

    /// Makes creations, removals and renames in this folder durable, and the folder's own name and
    /// those of the folders above it.
    fn sync_dir<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Reads a whole small file (up to 16 MiB).
    fn read_file<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes>>;

    /// Replaces a small file completely and durably: temporary name (`<path>.tmp`), sync, rename,
    /// folder sync. A crash may leave the temporary file, which the next replacement reuses.
    fn replace_file<'a>(&'a self, path: &'a str, content: Bytes) -> BoxFuture<'a, Result<()>>;
}

/// An open file of a [`Disk`]. Closed when the last handle is dropped.
#[allow(clippy::len_without_is_empty, reason = "asking costs a system call")]
pub trait DiskFile: Send + Sync + Debug {
    /// Reads on the calling thread if that cannot block (page cache). `None` if it would block, or
    /// if the disk is not readable. Shorter than `len` only at the end of the file.
    fn read_now(&self, offset: u64, len: usize) -> Option<Result<Bytes>>;

    /// Reads up to `len` bytes; shorter only at the end of the file.
    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes>>;

    /// Reads several `(offset, len)` pieces as one operation.
    fn read_pieces(&self, pieces: Vec<(u64, usize)>) -> BoxFuture<'_, Result<Vec<Bytes>>>;

    /// Writes the buffers one after the other from `offset` on; all or an error. Durable after
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

    /// Whether the name by which the file was opened still refers to it. If not, the file was
    /// removed or replaced, and bytes written to it are lost. Calls that promise durability
    /// ([`DiskFile::write_durable`], [`DiskFile::sync`], [`DiskFile::complete`]) then fail with
    /// [`DiskErrorKind::NotFound`].
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
