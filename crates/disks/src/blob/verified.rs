//! Bytes that were verified, with the checksums that their pages are stored with.

use core::ops::Range;

use bytes::Bytes;
use dewar_types::PAGE_BYTES;

use crate::format::{PageKey, SLOT_BYTES, runs};

/// Verified bytes of a blob. For bytes from stored pages (not decoded ones), the checksums of the
/// pages are known. A sender of pages with checksums need not compute them, and sends the checksums
/// that were computed when the pages were written.
#[derive(Clone, Debug, Default)]
pub struct VerifiedBytes {
    bytes: Bytes,
    pages: Option<Pages>,
}

/// The stored pages that bytes came from.
#[derive(Clone, Debug)]
struct Pages {
    key: PageKey,
    shard_len: u64,
    /// Start of the bytes in the shard.
    row: u64,
    /// The page of the first slot.
    first: u64,
    /// Slots of consecutive pages, verified with their pages.
    slots: Bytes,
}

impl From<Bytes> for VerifiedBytes {
    /// Bytes of which no page's checksum is known.
    fn from(bytes: Bytes) -> Self {
        Self { bytes, pages: None }
    }
}

impl VerifiedBytes {
    /// Bytes of a shard from `row` on, whose pages have these slots, the first that of page `first`.
    pub(crate) fn of_pages(
        bytes: Bytes,
        row: u64,
        (key, shard_len): (PageKey, u64),
        (first, slots): (u64, Bytes),
    ) -> Self {
        let pages = Some(Pages {
            key,
            shard_len,
            row,
            first,
            slots,
        });
        Self { bytes, pages }
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

    /// Splits off the first bytes.
    ///
    /// # Panics
    /// When there are fewer.
    #[must_use]
    pub fn split_to(&mut self, len: usize) -> Self {
        let front = self.slice(0..len);
        *self = self.slice(len..self.bytes.len());
        front
    }

    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        let pages = self.pages.clone().map(|pages| Pages {
            row: pages.row + range.start as u64,
            ..pages
        });
        Self {
            bytes: self.bytes.slice(range),
            pages,
        }
    }

    /// The CRC-32C of `len` bytes from `at` on, if they are exactly one stored page.
    #[must_use]
    pub fn page_crc(&self, at: usize, len: usize) -> Option<u32> {
        let pages = self.pages.as_ref()?;
        if at + len > self.bytes.len() {
            return None;
        }
        let row = pages.row + at as u64;
        let page = row / PAGE_BYTES as u64;
        let whole = row.is_multiple_of(PAGE_BYTES as u64) && row < pages.shard_len;
        if !whole || len != runs::page_len(page, pages.shard_len) {
            return None;
        }
        let slot = usize::try_from(page.checked_sub(pages.first)?).ok()? * SLOT_BYTES;
        let slot = pages.slots.get(slot..slot + SLOT_BYTES)?;
        let slot = u32::from_le_bytes(slot.try_into().ok()?);
        Some(pages.key.crc(page, len, slot))
    }
}
