//! Offsets of pages and their checksums in a shard file.
//!
//! The file is the header page and then runs. A run is one checksum page with 1024 slots and then
//! the up to 1024 pages it covers. A page's offset depends on its number alone. A shard can
//! therefore be written before its length is known, and any page is found without reading another.
//!
//! All offsets and lengths are bytes. Numbers may be as large as a blob of
//! [`super::BLOB_BYTES_MAX`] needs; within that nothing overflows.

use core::ops::Range;

use dewar_types::PAGE_BYTES;

use super::{HEADER_BYTES, SLOT_BYTES, SLOTS_PER_PAGE};

const PAGE: u64 = PAGE_BYTES as u64;
const PAGES_PER_RUN: u64 = SLOTS_PER_PAGE as u64;

/// Stored bytes that a full run covers: 4 MiB.
pub const RUN_DATA_BYTES: u64 = PAGES_PER_RUN * PAGE;

/// Bytes of a full run in the file, its checksum page included.
pub const RUN_FILE_BYTES: u64 = RUN_DATA_BYTES + PAGE;

/// Pages of a shard of `shard_len` bytes; the last may be short.
#[must_use]
pub const fn page_count(shard_len: u64) -> u64 {
    shard_len.div_ceil(PAGE)
}

/// Bytes of page `page` in a shard of `shard_len` bytes: a whole page, less for the last, 0 beyond.
#[must_use]
pub const fn page_len(page: u64, shard_len: u64) -> usize {
    let left = shard_len.saturating_sub(page * PAGE);
    if left < PAGE {
        left as usize
    } else {
        PAGE_BYTES
    }
}

/// Offset of the checksum page of run `run` in the file.
#[must_use]
pub const fn checksum_page_at(run: u64) -> u64 {
    HEADER_BYTES as u64 + run * RUN_FILE_BYTES
}

/// Offset of page `page` in the file.
#[must_use]
pub const fn page_at(page: u64) -> u64 {
    checksum_page_at(page / PAGES_PER_RUN) + PAGE + page % PAGES_PER_RUN * PAGE
}

/// Offset of the slot of page `page` in the file.
#[must_use]
pub const fn slot_at(page: u64) -> u64 {
    checksum_page_at(page / PAGES_PER_RUN) + page % PAGES_PER_RUN * SLOT_BYTES as u64
}

/// Bytes of the file of a shard of `shard_len` bytes, up to its last real byte. The file may be
/// longer, up to [`file_len_padded`], when it was written in whole pages.
#[must_use]
pub const fn file_len(shard_len: u64) -> u64 {
    match page_count(shard_len) {
        0 => HEADER_BYTES as u64,
        pages => page_at(pages - 1) + page_len(pages - 1, shard_len) as u64,
    }
}

/// Bytes of the file when its last page is filled up with zeros.
#[must_use]
pub const fn file_len_padded(shard_len: u64) -> u64 {
    file_len(shard_len).next_multiple_of(PAGE)
}

/// The part of a shard file that an offset belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardFileRegion {
    /// The header, this many bytes in.
    Header(u64),
    /// Slot of a page, this many bytes in.
    Slot {
        /// The page.
        page: u64,
        /// 0 to 3.
        byte: u64,
    },
    /// A byte of the shard.
    Data {
        /// Its offset in the shard.
        shard_offset: u64,
    },
}

/// The part of a shard file at `offset`, to name the part that a bad sector hit.
#[must_use]
pub const fn place_of(offset: u64) -> ShardFileRegion {
    let Some(in_runs) = offset.checked_sub(HEADER_BYTES as u64) else {
        return ShardFileRegion::Header(offset);
    };
    let (run, in_run) = (in_runs / RUN_FILE_BYTES, in_runs % RUN_FILE_BYTES);
    match in_run.checked_sub(PAGE) {
        None => ShardFileRegion::Slot {
            page: run * PAGES_PER_RUN + in_run / SLOT_BYTES as u64,
            byte: in_run % SLOT_BYTES as u64,
        },
        Some(in_data) => ShardFileRegion::Data {
            shard_offset: run * RUN_DATA_BYTES + in_data,
        },
    }
}

/// Whole consecutive pages of one run: one contiguous range of the file, and one of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunSpan {
    /// The run, from 0.
    pub run: u64,
    /// The first page, numbered within the shard.
    pub first_page: u64,
    /// Number of pages, 1 to 1024.
    pub pages: usize,
    /// Offset of the pages in the file.
    pub data_at: u64,
    /// Their real bytes: a multiple of the page size except for the last page of the shard.
    pub data_len: usize,
    /// Offset of their slots in the file.
    pub slots_at: u64,
}

impl RunSpan {
    /// The bytes of the shard that these pages hold.
    #[must_use]
    pub const fn shard_range(&self) -> Range<u64> {
        let start = self.first_page * PAGE;
        start..start + self.data_len as u64
    }

    /// Bytes of their slots.
    #[must_use]
    pub const fn slots_len(&self) -> usize {
        self.pages * SLOT_BYTES
    }
}

/// The pages that hold `range` of a shard of `shard_len` bytes, run by run. Bytes beyond the shard
/// are left out. For a shard that is being written, pass `u64::MAX`.
#[must_use]
pub fn run_spans(range: Range<u64>, shard_len: u64) -> RunSpans {
    let end = range.end.min(shard_len);
    let start = if range.start < end {
        range.start / PAGE
    } else {
        0
    };
    let end_page = if range.start < end {
        page_count(end)
    } else {
        0
    };
    RunSpans {
        next: start,
        end: end_page,
        shard_len,
    }
}

/// The iterator of [`run_spans`].
#[derive(Clone, Debug)]
pub struct RunSpans {
    next: u64,
    end: u64,
    shard_len: u64,
}

impl Iterator for RunSpans {
    type Item = RunSpan;

    fn next(&mut self) -> Option<RunSpan> {
        if self.next >= self.end {
            return None;
        }
        let first_page = self.next;
        let run = first_page / PAGES_PER_RUN;
        let after = self.end.min((run + 1) * PAGES_PER_RUN);
        self.next = after;
        let pages = (after - first_page) as usize;
        Some(RunSpan {
            run,
            first_page,
            pages,
            data_at: page_at(first_page),
            data_len: (pages - 1) * PAGE_BYTES + page_len(after - 1, self.shard_len),
            slots_at: slot_at(first_page),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_format() {
        // Written out in docs/formats/shard.md.
        assert_eq!((slot_at(0), page_at(0)), (4096, 8192));
        assert_eq!((slot_at(1), page_at(1)), (4100, 12_288));
        assert_eq!((slot_at(1023), page_at(1023)), (8188, 4_198_400));
        assert_eq!((slot_at(1024), page_at(1024)), (4_202_496, 4_206_592));
        assert_eq!(file_len(0), 4096);
        assert_eq!(file_len(1), 8193);
        assert_eq!(file_len_padded(1), 12_288);
        assert_eq!(file_len(4 << 20), 4_202_496);
        assert_eq!(file_len((4 << 20) + 1), 4_206_593);
    }

    /// Every byte of a file of more than two runs is one thing, and found where the functions say.
    #[test]
    fn every_offset_is_one_thing() {
        let file = file_len(2 * RUN_DATA_BYTES + 3 * PAGE);
        let mut offset = 0;
        let (mut slots, mut data) = (0, 0);
        while offset < file {
            match place_of(offset) {
                ShardFileRegion::Header(at) => assert_eq!(at, offset),
                ShardFileRegion::Slot { page, byte } => {
                    assert_eq!(slot_at(page) + byte, offset);
                    assert_eq!(page, slots / 4);
                    slots += 1;
                }
                ShardFileRegion::Data { shard_offset } => {
                    assert_eq!(page_at(shard_offset / PAGE) + shard_offset % PAGE, offset);
                    assert_eq!(shard_offset, data);
                    data += 1;
                }
            }
            offset += 1;
        }
        assert_eq!(data, 2 * RUN_DATA_BYTES + 3 * PAGE);
        assert_eq!(slots, 3 * PAGE);
    }

    #[test]
    fn the_largest_shard_does_not_overflow() {
        let len = super::super::BLOB_BYTES_MAX;
        let last = page_count(len) - 1;
        assert!(file_len_padded(len) > len);
        assert_eq!(
            place_of(page_at(last)),
            ShardFileRegion::Data {
                shard_offset: last * PAGE
            }
        );
    }
}
