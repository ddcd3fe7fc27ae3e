//! The directory of a run: offset and first key of each partition, and the last key of the run.
//! Always in memory, about 100 bytes for each 2 MiB of the run.

use bytes::Bytes;

use super::wire::{short, size, u32_at, u64_at};
use super::{HEADER_BYTES, Malformed, PIECE_BYTES_MAX, Piece, body};

const HEAD_BYTES: usize = 12;
const PLACE_BYTES: usize = 12;

/// Gathers partitions into a directory.
#[derive(Default)]
pub(in super::super) struct DirectoryBuilder {
    key_ends: Vec<u32>,
    places: Vec<Piece>,
    keys: Vec<u8>,
}

impl DirectoryBuilder {
    /// Takes in a partition and the separator of its first block.
    pub(in super::super) fn add(&mut self, separator: &[u8], partition: Piece) {
        self.keys.extend_from_slice(separator);
        self.key_ends.push(short(self.keys.len()));
        self.places.push(partition);
    }

    /// The directory without its checksum.
    pub(in super::super) fn finish(&self, last_key: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.keys.len() + 16 * self.places.len() + 64);
        for n in [self.places.len(), self.keys.len(), last_key.len()] {
            out.extend_from_slice(&short(n).to_le_bytes());
        }
        for end in &self.key_ends {
            out.extend_from_slice(&end.to_le_bytes());
        }
        for place in &self.places {
            out.extend_from_slice(&place.offset.to_le_bytes());
            out.extend_from_slice(&place.len.to_le_bytes());
        }
        out.extend_from_slice(&self.keys);
        out.extend_from_slice(last_key);
        out
    }
}

/// A directory whose checksum was right.
#[derive(Debug)]
pub(in super::super) struct Directory {
    bytes: Bytes,
    partitions: usize,
    keys_at: usize,
    last_at: usize,
    end: usize,
}

impl Directory {
    /// Takes a piece, checksum included, that was verified; its partitions end below `limit`.
    pub(in super::super) fn parse(bytes: Bytes, limit: u64) -> Result<Self, Malformed> {
        let wrong = Malformed("a directory does not add up");
        let body = body(&bytes);
        let (count, keys, last) = (u32_at(body, 0), u32_at(body, 4), u32_at(body, 8));
        let per = (4 + PLACE_BYTES) as u64;
        let keys_at = HEAD_BYTES as u64 + per * u64::from(count);
        let last_at = keys_at + u64::from(keys);
        if count == 0 || last_at + u64::from(last) != body.len() as u64 {
            return Err(wrong);
        }
        let directory = Self {
            partitions: size(count),
            keys_at: usize::try_from(keys_at).map_err(|_| wrong)?,
            last_at: usize::try_from(last_at).map_err(|_| wrong)?,
            end: body.len(),
            bytes,
        };
        let (mut last_key, mut last_end) = (0, HEADER_BYTES as u64);
        for n in 0..directory.partitions {
            let (key, place) = (directory.key_end(n), directory.partition(n));
            let end = place.offset.checked_add(u64::from(place.len));
            match end {
                Some(end)
                    if key >= last_key
                        && key <= keys
                        && place.offset > last_end
                        && place.len <= PIECE_BYTES_MAX
                        && end <= limit =>
                {
                    (last_key, last_end) = (key, end);
                }
                _ => return Err(wrong),
            }
        }
        if last_key != keys {
            return Err(wrong);
        }
        Ok(directory)
    }

    /// The piece that it was made of, checksum included.
    pub(in super::super) fn piece(&self) -> &Bytes {
        &self.bytes
    }

    /// Bytes in memory.
    pub(in super::super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many partitions there are; never none.
    pub(in super::super) fn len(&self) -> usize {
        self.partitions
    }

    /// Where a partition stands.
    pub(in super::super) fn partition(&self, n: usize) -> Piece {
        let at = HEAD_BYTES + 4 * self.partitions + PLACE_BYTES * n;
        Piece {
            offset: u64_at(&self.bytes, at),
            len: u32_at(&self.bytes, at + 8),
        }
    }

    /// The last partition whose separator is not above `key`; `None` below the first key.
    pub(in super::super) fn find(&self, key: &[u8]) -> Option<usize> {
        self.count(|separator| separator <= key).checked_sub(1)
    }

    /// The last partition whose separator is below `key`.
    pub(in super::super) fn find_below(&self, key: &[u8]) -> Option<usize> {
        self.count(|separator| separator < key).checked_sub(1)
    }

    /// The run's first key.
    pub(in super::super) fn first_key(&self) -> &[u8] {
        self.key(0)
    }

    /// The run's last key.
    pub(in super::super) fn last_key(&self) -> &[u8] {
        &self.bytes[self.last_at..self.end]
    }

    fn count(&self, low: impl Fn(&[u8]) -> bool) -> usize {
        let (mut from, mut to) = (0, self.partitions);
        while from < to {
            let middle = from.midpoint(to);
            if low(self.key(middle)) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }

    fn key(&self, n: usize) -> &[u8] {
        let start = n.checked_sub(1).map_or(0, |before| self.key_end(before));
        &self.bytes[self.keys_at + size(start)..self.keys_at + size(self.key_end(n))]
    }

    fn key_end(&self, n: usize) -> u32 {
        u32_at(&self.bytes, HEAD_BYTES + 4 * n)
    }
}
