//! The memory of pulls over several connections.
//!
//! The blocks that one pull asks for at the same time have [`STREAMS_BUFFER_BYTES`] together, or one block of
//! [`BLOCK_BYTES_MIN`] for each connection if that is more. The blocks of all pulls have [`STREAMS_BYTES_TOTAL`]: a
//! pull that finds no room among them goes over one connection.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{BLOCK_BYTES_MIN, STREAMS_BUFFER_BYTES, STREAMS_BYTES_TOTAL};

/// The memory for the blocks of all pulls, counted in [`BLOCK_BYTES_MIN`].
#[derive(Debug)]
pub(crate) struct BlockMemory(Arc<Semaphore>);

impl Default for BlockMemory {
    fn default() -> Self {
        let blocks = usize::try_from(STREAMS_BYTES_TOTAL / BLOCK_BYTES_MIN);
        Self(Arc::new(Semaphore::new(blocks.unwrap_or_default())))
    }
}

impl BlockMemory {
    /// Memory for the blocks of so many connections, until it is dropped; `None` if others have it.
    pub(crate) fn take(&self, streams: usize) -> Option<OwnedSemaphorePermit> {
        let blocks = (streams as u64 * block_bytes(streams)).div_ceil(BLOCK_BYTES_MIN);
        let blocks = u32::try_from(blocks).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(blocks).ok()
    }
}

/// Bytes of a block of a pull over so many connections.
pub(crate) fn block_bytes(streams: usize) -> u64 {
    (STREAMS_BUFFER_BYTES / streams as u64).max(BLOCK_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_all_pulls_is_bounded() {
        let memory = BlockMemory::default();
        let held: Vec<_> = std::iter::from_fn(|| memory.take(3)).collect();
        assert_eq!(held.len(), 16);
        assert!(memory.take(2).is_none());
        drop(held);
        // More than eight connections have a block each.
        let many: Vec<_> = std::iter::from_fn(|| memory.take(64)).collect();
        assert_eq!(many.len(), 2);
        assert!(memory.take(255).is_none());
    }
}
