//! Bytes to be written, with page checksums that the sender computed.

use bytes::Bytes;
use dewar_checksum::{Crc32c, crc32c};
use dewar_types::PAGE_BYTES;

/// Bytes whose pages were verified against checksums that came with them. When such a page is
/// stored, the checksum that came with it is stored too. A memory error between the two therefore
/// cannot change the bytes unnoticed.
#[derive(Clone, Debug, Default)]
pub struct ChecksummedBytes {
    bytes: Bytes,
    /// Bytes of the first page; the others are whole, but for the last.
    first: usize,
    /// CRC-32C of each page, or none at all.
    crcs: Vec<u32>,
}

impl From<Bytes> for ChecksummedBytes {
    /// Bytes of which no page's checksum is known.
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            first: PAGE_BYTES,
            crcs: Vec::new(),
        }
    }
}

impl ChecksummedBytes {
    /// Bytes at `offset` of a file, and the CRC-32C of each of the file's pages, or parts of one,
    /// that they touch. The caller has compared them with the bytes.
    ///
    /// # Panics
    /// When there are not as many checksums as pages.
    #[must_use]
    pub fn new(offset: u64, bytes: Bytes, crcs: Vec<u32>) -> Self {
        let first = PAGE_BYTES - (offset % PAGE_BYTES as u64) as usize;
        let whole = bytes.len().saturating_sub(first).div_ceil(PAGE_BYTES);
        let pages = whole + usize::from(!bytes.is_empty());
        assert_eq!(crcs.len(), pages, "a checksum for each page");
        Self { bytes, first, crcs }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes alone.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// The CRC-32C of all bytes, computed from those of the pages, if they are known.
    #[must_use]
    pub fn crc32c(&self) -> Option<u32> {
        if self.crcs.is_empty() {
            return None;
        }
        let mut all = Crc32c::new();
        let mut at = 0;
        for crc in &self.crcs {
            let len = self.page_len(at);
            all.append(*crc, len as u64);
            at += len;
        }
        Some(all.value())
    }

    /// The CRC-32C of the page that begins at byte `at`, if it is a whole one and known.
    pub(super) fn page_crc(&self, at: usize) -> Option<u32> {
        let page = match at {
            0 if self.first == PAGE_BYTES => 0,
            _ => {
                let behind = at.checked_sub(self.first)?;
                behind.is_multiple_of(PAGE_BYTES).then_some(())?;
                1 + behind / PAGE_BYTES
            }
        };
        let whole = self.bytes.len().checked_sub(at)? >= PAGE_BYTES;
        self.crcs.get(page).copied().filter(|_| whole)
    }

    fn page_len(&self, at: usize) -> usize {
        let page = if at == 0 { self.first } else { PAGE_BYTES };
        page.min(self.bytes.len() - at)
    }
}

/// The checksums of the whole pages of one shard's part of a window, as far as they are known.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownCrcs(Vec<Option<u32>>);

impl KnownCrcs {
    /// The page in which byte `at` of the part begins has this checksum.
    pub(super) fn put(&mut self, at: usize, crc: u32) {
        let page = at / PAGE_BYTES;
        if self.0.len() <= page {
            self.0.resize(page + 1, None);
        }
        self.0[page] = Some(crc);
    }

    /// That of a page whose bytes these are, computed where it is not known.
    pub(super) fn of(&self, page: usize, bytes: &[u8]) -> u32 {
        match self.0.get(page) {
            Some(Some(crc)) => *crc,
            _ => crc32c(bytes),
        }
    }

    /// Forgets all of them.
    pub(super) fn take(&mut self) -> Self {
        core::mem::take(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paged(offset: u64, len: usize) -> ChecksummedBytes {
        let bytes: Bytes = (0..len).map(|n| (n / 3) as u8).collect::<Vec<_>>().into();
        let first = (PAGE_BYTES - offset as usize % PAGE_BYTES).min(len);
        let pages = [&bytes[..first]]
            .into_iter()
            .chain(bytes[first..].chunks(PAGE_BYTES))
            .filter(|page| !page.is_empty());
        let crcs = pages.map(crc32c).collect();
        ChecksummedBytes::new(offset, bytes, crcs)
    }

    #[test]
    fn whole_pages_are_known_and_all_are_one() {
        for (offset, len) in [
            (0, 0),
            (0, 1),
            (0, 4096),
            (0, 20_000),
            (4000, 50),
            (5000, 30_000),
        ] {
            let paged = paged(offset, len);
            let known = paged.crc32c();
            assert_eq!(known, (len > 0).then(|| crc32c(paged.bytes())));
            for at in 0..len {
                let page = offset as usize + at;
                let whole = page.is_multiple_of(PAGE_BYTES) && len - at >= PAGE_BYTES;
                let crc = whole.then(|| crc32c(&paged.bytes()[at..at + PAGE_BYTES]));
                assert_eq!(paged.page_crc(at), crc, "{at} of {len} at {offset}");
            }
        }
        assert_eq!(
            ChecksummedBytes::from(Bytes::from_static(b"x")).crc32c(),
            None
        );
    }
}
