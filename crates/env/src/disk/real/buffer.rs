//! Memory that O_DIRECT accepts, and reads that do not clear it first.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use bytes::Bytes;

/// What O_DIRECT asks of an address on every device there is.
pub(super) const ALIGN: usize = 4096;

/// Bytes that begin at a multiple of [`ALIGN`].
pub(super) struct Aligned {
    start: NonNull<u8>,
    capacity: usize,
    /// How many of them are initialized.
    len: usize,
}

// SAFETY: it owns its memory alone, as a Vec does.
unsafe impl Send for Aligned {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Aligned {}

impl Aligned {
    /// Room for at least `capacity` bytes.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.max(1).next_multiple_of(ALIGN);
        let layout = Self::layout(capacity);
        // SAFETY: the size is not 0.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout);
        };
        Self {
            start,
            capacity,
            len: 0,
        }
    }

    pub(super) fn zeroed(len: usize) -> Bytes {
        let mut zeros = Self::with_capacity(len);
        zeros.extend(&vec![0; len]);
        zeros.freeze(len)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends bytes for which there must be room.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        let spare = self.spare();
        assert!(bytes.len() <= spare.len(), "room was asked for beforehand");
        for (to, from) in spare.iter_mut().zip(bytes) {
            to.write(*from);
        }
        self.len += bytes.len();
    }

    /// Lets `read` fill what is not initialized yet; it returns how many bytes it initialized.
    pub(super) fn fill(
        &mut self,
        read: impl FnOnce(&mut [MaybeUninit<u8>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let spare = self.spare();
        let room = spare.len();
        let n = read(spare)?;
        assert!(n <= room, "no one fills more than there is");
        self.len += n;
        Ok(n)
    }

    pub(super) fn freeze(self, len: usize) -> Bytes {
        Bytes::from_owner(self).slice(..len)
    }

    fn spare(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: the bytes from `len` to `capacity` are ours and nobody else's for the borrow's
        // time; as MaybeUninit they need not be initialized.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.start.as_ptr().add(self.len).cast(),
                self.capacity - self.len,
            )
        }
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, ALIGN).expect("a capacity in memory fits a layout")
    }
}

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialized and ours.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

/// Whether O_DIRECT takes a buffer as it is.
pub(super) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGN) && bytes.len().is_multiple_of(ALIGN)
}

/// Reads from the page cache alone, up to `len` bytes; an error of kind `WouldBlock` where that
/// would not do.
pub(super) fn read_cached(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes: Vec<u8> = Vec::with_capacity(len);
    let part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: len,
    };
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the one part points to `len` bytes that are ours, and the descriptor is open.
    let n = unsafe { libc::preadv2(fd.as_raw_fd(), &raw const part, 1, offset, libc::RWF_NOWAIT) };
    let Ok(n) = usize::try_from(n) else {
        return Err(io::Error::last_os_error());
    };
    // SAFETY: the kernel has initialized the first `n` bytes, and `n <= len`.
    unsafe { bytes.set_len(n) };
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_keeps_its_bytes() {
        let mut buffer = Aligned::with_capacity(5000);
        buffer.extend(b"abc");
        let n = buffer.fill(|spare| {
            assert_eq!(spare.len(), 8192 - 3);
            spare[0].write(b'd');
            Ok(1)
        });
        assert_eq!((n.unwrap(), buffer.len()), (1, 4));
        assert_eq!(buffer.as_ref().as_ptr().addr() % ALIGN, 0);
        assert!(!is_aligned(buffer.as_ref()));
        assert_eq!(buffer.freeze(2), "ab");
    }
}
