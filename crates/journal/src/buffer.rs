//! Buffers that direct writes take without a copy: aligned, reused, zeroed once.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

const ALIGN: usize = 4096;

/// Keeps buffers of one size for reuse.
#[derive(Debug)]
pub(crate) struct BufferPool {
    bytes: usize,
    keep: usize,
    free: Mutex<Vec<Vec<u8>>>,
}

impl BufferPool {
    /// Buffers of `bytes`; at most `keep` unused ones are kept.
    pub(crate) fn new(bytes: usize, keep: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            keep,
            free: Mutex::default(),
        })
    }

    /// An empty buffer with room for `bytes` or for the pool's size, whichever is more.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Buffer {
        let room = bytes.max(self.bytes);
        let reused = (room == self.bytes)
            .then(|| self.free.lock().pop())
            .flatten();
        let mut vec = reused.unwrap_or_else(|| Vec::with_capacity(room + ALIGN));
        vec.clear();
        let start = vec.as_ptr().align_offset(ALIGN).min(ALIGN);
        vec.resize(start, 0);
        Buffer {
            owner: Owner {
                vec,
                pool: Arc::clone(self),
            },
            start,
            room,
        }
    }
}

/// Bytes being gathered; its beginning is aligned to 4 KiB.
#[derive(Debug)]
pub(crate) struct Buffer {
    owner: Owner,
    start: usize,
    room: usize,
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        self.owner.vec.len() - self.start
    }

    /// How many more bytes fit.
    pub(crate) fn room(&self) -> usize {
        self.room - self.len()
    }

    /// Appends; the caller has asked for [`Buffer::room`].
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room(), "a buffer must never move");
        self.owner.vec.extend_from_slice(bytes);
    }

    /// Appends zeros up to a length.
    pub(crate) fn pad_to(&mut self, len: usize) {
        assert!(len <= self.room, "a buffer must never move");
        self.owner.vec.resize(self.start + len, 0);
    }

    /// What was written from `at` on.
    pub(crate) fn tail_mut(&mut self, at: usize) -> &mut [u8] {
        let start = self.start + at;
        &mut self.owner.vec[start..]
    }

    /// The content as shared bytes; the memory goes back to the pool with the last of them.
    pub(crate) fn freeze(self) -> Bytes {
        let start = self.start;
        Bytes::from_owner(self.owner).slice(start..)
    }
}

#[derive(Debug)]
struct Owner {
    vec: Vec<u8>,
    pool: Arc<BufferPool>,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.vec
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.vec.capacity() != self.pool.bytes + ALIGN {
            return;
        }
        let mut free = self.pool.free.lock();
        if free.len() < self.pool.keep {
            free.push(std::mem::take(&mut self.vec));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_come_back() {
        let pool = BufferPool::new(1 << 16, 2);
        let mut buffer = pool.take(10);
        buffer.push(b"abc");
        buffer.pad_to(4096);
        assert_eq!(buffer.room(), (1 << 16) - 4096);
        let frozen = buffer.freeze();
        assert_eq!(frozen.as_ptr().align_offset(ALIGN), 0);
        assert_eq!((&frozen[..3], frozen.len()), (&b"abc"[..], 4096));
        let part = frozen.slice(1..2);
        drop(frozen);
        assert_eq!(pool.free.lock().len(), 0, "a part still needs it");
        drop(part);
        assert_eq!(pool.free.lock().len(), 1);
        assert_eq!(pool.take(10).len(), 0);
        let large = pool.take(1 << 20);
        assert_eq!(large.room(), 1 << 20);
        drop(large);
        assert!(pool.free.lock().len() <= 1, "odd sizes are not kept");
    }
}
