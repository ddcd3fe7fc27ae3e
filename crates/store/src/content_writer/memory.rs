//! How much memory a writer holds, so that who keeps many of them can bound it.

use super::extent_map::RUN_MEMORY_BYTES;
use super::{ContentWriter, Snapshot};
use crate::Store;
use crate::content_log::SMALL_PARTS_MEMORY_BYTES;
use crate::content_reader::ContentReader;

/// Memory of a writer beside what its client fills: names, the bucket, the task that owns it.
const WRITER_MEMORY_BYTES: usize = 8 << 10;

/// Memory of a log that is sealed, about.
const SEALED_LOG_MEMORY_BYTES: usize = 512;

impl Store {
    /// Bytes of memory that a [`ContentWriter`] will hold which writes `size` bytes in order, or a number
    /// that nobody knows.
    #[must_use]
    pub fn writer_memory_bytes(&self, size: Option<u64>) -> usize {
        let shared = &self.inner;
        let content = match size {
            Some(size) if size <= u64::from(shared.small_bytes_max) => {
                size as usize + SMALL_PARTS_MEMORY_BYTES
            }
            _ => {
                let small = shared.small_bytes_max as usize + SMALL_PARTS_MEMORY_BYTES;
                shared.blobs.writer_memory_bytes().max(small)
            }
        };
        WRITER_MEMORY_BYTES + RUN_MEMORY_BYTES + content
    }
}

impl Snapshot {
    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.map.memory_bytes()
    }
}

impl ContentWriter {
    /// Bytes of memory that it holds while nothing waits for a disk: small content, the window of
    /// large content, the map of what was written out of order, and attributes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let xattrs = self.xattrs.iter();
        let xattrs: usize = xattrs.map(|(name, value)| name.len() + value.len()).sum();
        let base = self.base.as_ref().map_or(0, ContentReader::memory_bytes);
        WRITER_MEMORY_BYTES
            + self.log.memory_bytes()
            + self.map.memory_bytes()
            + self.sealed.logs.len() * SEALED_LOG_MEMORY_BYTES
            + (xattrs + self.attributes.bytes())
            + base
    }
}
