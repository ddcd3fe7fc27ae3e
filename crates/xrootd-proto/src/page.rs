//! Pages: the encoding of the bytes of `pgread` and `pgwrite` with their checksums.
//!
//! Pages are those of the file. The first is short if the offset is not the beginning of a page,
//! the last is short where the bytes end. The CRC-32C of each page comes before it.

use bytes::{BufMut, Bytes, BytesMut};
use crc_fast::CrcAlgorithm::Crc32Iscsi;

use crate::DecodeError;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// Bytes of a checksum.
pub const CRC_BYTES: usize = 4;

/// The CRC-32C of bytes.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    // The library says every checksum as 64 bits.
    crc_fast::checksum(Crc32Iscsi, bytes) as u32
}

/// Bytes of the page, or part of one, that begins at `offset` of a file, when `left` bytes are
/// left.
#[must_use]
pub fn page_len(offset: u64, left: usize) -> usize {
    let inside = (offset % PAGE_BYTES as u64) as usize;
    (PAGE_BYTES - inside).min(left)
}

/// Number of pages that `len` bytes at `offset` touch.
#[must_use]
pub fn page_count(offset: u64, len: usize) -> usize {
    if len == 0 {
        return 0;
    }
    let inside = (offset % PAGE_BYTES as u64) as usize;
    (inside + len).div_ceil(PAGE_BYTES)
}

/// Length on the wire of `len` bytes at `offset`, with their checksums.
#[must_use]
pub fn wire_len(offset: u64, len: usize) -> usize {
    len + page_count(offset, len) * CRC_BYTES
}

/// Number of bytes of a file in `wire` bytes of the wire that begin at `offset`.
///
/// # Errors
/// [`DecodeError::Invalid`] when the last page has a checksum and no bytes.
pub fn data_len(offset: u64, wire: usize) -> Result<usize, DecodeError> {
    if wire == 0 {
        return Ok(0);
    }
    let bad = DecodeError::Invalid("the length of a page write");
    let first = page_len(offset, usize::MAX) + CRC_BYTES;
    if wire <= first {
        return wire
            .checked_sub(CRC_BYTES)
            .filter(|len| *len > 0)
            .ok_or(bad);
    }
    let rest = wire - first;
    let unit = PAGE_BYTES + CRC_BYTES;
    match rest % unit {
        0 => Ok(wire - CRC_BYTES * (1 + rest / unit)),
        1..=CRC_BYTES => Err(bad),
        _ => Ok(wire - CRC_BYTES * (2 + rest / unit)),
    }
}

/// Decoder of pages from the wire, in pieces of any size. Checksums are collected. Data is passed
/// on without a copy if it is in one piece.
#[derive(Debug)]
pub struct PageReader {
    offset: u64,
    /// Bytes of checksum and data that are still to come.
    left: usize,
    expected: [u8; CRC_BYTES],
    have: usize,
    /// Bytes of the page that are still to come; 0 before its checksum.
    page: usize,
    begun: u64,
    len: usize,
    state: crc_fast::Digest,
}

/// An event in a piece of the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageEvent {
    /// Bytes of the file.
    Data {
        /// Start of the bytes in the file.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// A page, or piece of one, has ended.
    End {
        /// Start of the page in the file.
        offset: u64,
        /// Its bytes.
        len: usize,
        /// Its checksum, if it is the announced one.
        crc: Option<u32>,
    },
}

impl PageReader {
    /// For a write of `wire` bytes of the wire to `offset`.
    ///
    /// # Errors
    /// As [`data_len`].
    pub fn new(offset: u64, wire: usize) -> Result<Self, DecodeError> {
        data_len(offset, wire)?;
        Ok(Self {
            offset,
            left: wire,
            expected: [0; CRC_BYTES],
            have: 0,
            page: 0,
            begun: offset,
            len: 0,
            state: crc_fast::Digest::new(Crc32Iscsi),
        })
    }

    /// Bytes that are still to come.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Decodes a piece of the input; bytes after the end stay in `piece`.
    pub fn push(&mut self, piece: &mut Bytes, mut event: impl FnMut(PageEvent)) {
        while self.left > 0 && !piece.is_empty() {
            if self.page == 0 {
                let take = (CRC_BYTES - self.have).min(piece.len()).min(self.left);
                self.expected[self.have..self.have + take].copy_from_slice(&piece.split_to(take));
                self.have += take;
                self.left -= take;
                if self.have == CRC_BYTES {
                    self.page = page_len(self.offset, self.left);
                    self.begun = self.offset;
                    self.len = self.page;
                }
                continue;
            }
            let take = self.page.min(piece.len()).min(self.left);
            let bytes = piece.split_to(take);
            self.state.update(&bytes);
            let offset = self.offset;
            self.offset += take as u64;
            self.page -= take;
            self.left -= take;
            event(PageEvent::Data { offset, bytes });
            if self.page == 0 {
                let found = self.state.finalize() as u32;
                self.state = crc_fast::Digest::new(Crc32Iscsi);
                self.have = 0;
                event(PageEvent::End {
                    offset: self.begun,
                    len: self.len,
                    crc: (found == u32::from_be_bytes(self.expected)).then_some(found),
                });
            }
        }
    }
}

/// Checks complete pages and returns their data, joined.
///
/// # Errors
/// [`DecodeError::Checksum`] for the first page that does not match; as [`data_len`].
pub fn unwrap_pages(offset: u64, wire: Bytes) -> Result<Bytes, DecodeError> {
    unwrap_summed_pages(offset, wire).map(|(bytes, _)| bytes)
}

/// The same, with the checksum of each page.
///
/// # Errors
/// As [`unwrap_pages`].
pub fn unwrap_summed_pages(offset: u64, mut wire: Bytes) -> Result<(Bytes, Vec<u32>), DecodeError> {
    let len = data_len(offset, wire.len())?;
    let mut out = BytesMut::with_capacity(len);
    let mut crcs = Vec::with_capacity(page_count(offset, len));
    let mut at = offset;
    while wire.len() > CRC_BYTES {
        let crc = wire.split_to(CRC_BYTES);
        let expected = u32::from_be_bytes([crc[0], crc[1], crc[2], crc[3]]);
        let page = wire.split_to(page_len(at, wire.len()));
        let found = crc32c(&page);
        if found != expected {
            let what = "a page";
            return Err(DecodeError::Checksum {
                what,
                expected,
                found,
            });
        }
        at += page.len() as u64;
        out.put_slice(&page);
        crcs.push(found);
    }
    Ok((out.freeze(), crcs))
}

/// Puts checksums before the pages of `data`, which begins at `offset`; only the checksums are
/// copied. `crc` may return a page's known checksum.
pub fn wrap_pages(
    offset: u64,
    data: &[Bytes],
    mut crc: impl FnMut(u64, &[u8]) -> u32,
) -> Vec<Bytes> {
    let total: usize = data.iter().map(Bytes::len).sum();
    let pages = page_count(offset, total);
    let mut sums = BytesMut::with_capacity(pages * CRC_BYTES);
    let mut out = Vec::with_capacity(pages * 2);
    let (mut at, mut left) = (offset, total);
    let mut pieces = data.iter().cloned();
    let mut piece = Bytes::new();
    while left > 0 {
        let len = page_len(at, left);
        while piece.is_empty() {
            piece = match pieces.next() {
                Some(next) => next,
                None => return out,
            };
        }
        let page = if piece.len() >= len {
            piece.split_to(len)
        } else {
            // A page that lies in two pieces.
            let mut joined = BytesMut::with_capacity(len);
            while joined.len() < len {
                let take = piece.len().min(len - joined.len());
                joined.put_slice(&piece.split_to(take));
                if joined.len() < len {
                    piece = match pieces.next() {
                        Some(next) => next,
                        None => return out,
                    };
                }
            }
            joined.freeze()
        };
        sums.put_u32(crc(at, &page));
        out.push(sums.split().freeze());
        out.push(page);
        at += len as u64;
        left -= len;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pages_are_those_of_the_file() {
        assert_eq!(page_count(100, 5000), 2);
        assert_eq!(wire_len(100, 5000), 5008);
        assert_eq!(data_len(100, 5008), Ok(5000));
        assert_eq!(page_len(100, 5000), 3996);
        assert_eq!(wire_len(0, 8 << 20), 8_396_800);
        assert_eq!(wire_len(7, 0), 0);
        assert!(data_len(0, 4).is_err() && data_len(0, 4102).is_err());
    }

    proptest! {
        #[test]
        fn what_is_wrapped_is_unwrapped(
            offset in 0u64..20_000,
            data in proptest::collection::vec(any::<u8>(), 0..20_000),
            cuts in proptest::collection::vec(1usize..6000, 1..8),
        ) {
            let whole = Bytes::from(data);
            let cut = |mut bytes: Bytes| {
                let mut pieces = Vec::new();
                for len in cuts.iter().cycle() {
                    if bytes.is_empty() { break; }
                    pieces.push(bytes.split_to((*len).min(bytes.len())));
                }
                pieces
            };
            let wire: Vec<u8> = wrap_pages(offset, &cut(whole.clone()), |_, page| crc32c(page)).concat();
            prop_assert_eq!(wire.len(), wire_len(offset, whole.len()));
            prop_assert_eq!(data_len(offset, wire.len()), Ok(whole.len()));
            let (bytes, crcs) = unwrap_summed_pages(offset, Bytes::from(wire.clone())).expect("sound");
            prop_assert_eq!(&bytes, &whole);
            prop_assert_eq!(crcs.len(), page_count(offset, whole.len()));
            prop_assert_eq!(crcs.first().copied(), whole.get(..page_len(offset, whole.len())).filter(|page| !page.is_empty()).map(crc32c));
            let mut reader = PageReader::new(offset, wire.len()).expect("a length that was made");
            let (mut got, mut ends) = (Vec::new(), 0);
            for mut piece in cut(Bytes::from(wire)) {
                reader.push(&mut piece, |event| match event {
                    PageEvent::Data { offset: at, bytes } => {
                        assert_eq!(at, offset + got.len() as u64);
                        got.extend_from_slice(&bytes);
                    }
                    PageEvent::End { crc, .. } => {
                        assert!(crc.is_some());
                        ends += 1;
                    }
                });
            }
            prop_assert_eq!(&got[..], &whole[..]);
            prop_assert_eq!(ends, page_count(offset, whole.len()));
            prop_assert_eq!(reader.left(), 0);
        }

        #[test]
        fn a_flipped_bit_is_found(
            offset in 0u64..9000, len in 1usize..9000, at in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let data = Bytes::from(vec![7u8; len]);
            let mut wire = wrap_pages(offset, &[data], |_, page| crc32c(page)).concat();
            let at = at.index(wire.len());
            wire[at] ^= 1 << bit;
            prop_assert!(unwrap_pages(offset, Bytes::from(wire.clone())).is_err());
            let mut reader = PageReader::new(offset, wire.len()).expect("a length that was made");
            let mut bad = 0;
            reader.push(&mut Bytes::from(wire), |event| {
                if let PageEvent::End { crc: None, .. } = event { bad += 1; }
            });
            prop_assert_eq!(bad, 1);
        }
    }
}
