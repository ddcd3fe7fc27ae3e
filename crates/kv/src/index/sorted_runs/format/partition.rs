//! Partitions: the offsets of up to 128 consecutive blocks, and the filter of their keys.

use bytes::Bytes;

use super::wire::{short, size, u32_at, u64_at};
use super::{Malformed, PIECE_BYTES_MAX, Piece, body, filter};

/// Blocks of a full partition.
const BLOCKS_MAX: usize = 128;

/// Bytes of blocks after which a partition is full.
const SPAN_BYTES: u64 = 64 << 20;

const HEAD_BYTES: usize = 20;

/// Gathers blocks into a partition.
#[derive(Default)]
pub(in super::super) struct PartitionBuilder {
    base: u64,
    key_ends: Vec<u32>,
    block_ends: Vec<u32>,
    keys: Vec<u8>,
    hashes: Vec<u64>,
}

impl PartitionBuilder {
    /// Takes in the hash of a key of the block that comes next.
    pub(in super::super) fn add_key(&mut self, hash: u64) {
        self.hashes.push(hash);
    }

    /// Takes in a block and the separator below its first key.
    pub(in super::super) fn add_block(&mut self, separator: &[u8], block: Piece) {
        if self.block_ends.is_empty() {
            self.base = block.offset;
        }
        self.keys.extend_from_slice(separator);
        self.key_ends.push(short(self.keys.len()));
        let end = u32::try_from(block.end() - self.base);
        self.block_ends
            .push(end.expect("a partition spans less than 4 GiB"));
    }

    /// Whether it takes no more blocks.
    pub(in super::super) fn is_full(&self) -> bool {
        let span = self.block_ends.last().copied().map_or(0, u64::from);
        self.block_ends.len() >= BLOCKS_MAX || span >= SPAN_BYTES
    }

    /// Whether it holds no block.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.block_ends.is_empty()
    }

    /// The separator of its first block.
    pub(in super::super) fn first(&self) -> &[u8] {
        let end = self.key_ends.first().copied().map_or(0, size);
        &self.keys[..end]
    }

    /// The partition without its checksum; the next one begins empty.
    pub(in super::super) fn finish(&mut self, out: &mut Vec<u8>) {
        let filter = filter::build(&self.hashes);
        let lines = filter.len() / filter::LINE_BYTES;
        for n in [self.block_ends.len(), self.keys.len(), lines] {
            out.extend_from_slice(&short(n).to_le_bytes());
        }
        out.extend_from_slice(&self.base.to_le_bytes());
        for end in self.key_ends.iter().chain(&self.block_ends) {
            out.extend_from_slice(&end.to_le_bytes());
        }
        out.extend_from_slice(&self.keys);
        out.extend_from_slice(&filter);
        self.key_ends.clear();
        self.block_ends.clear();
        self.keys.clear();
        self.hashes.clear();
    }
}

/// A partition whose checksum was right.
#[derive(Debug)]
pub(in super::super) struct Partition {
    bytes: Bytes,
    blocks: usize,
    base: u64,
    keys_at: usize,
    filter_at: usize,
    end: usize,
}

impl Partition {
    /// Takes a piece, checksum included, that was verified.
    pub(in super::super) fn parse(bytes: Bytes) -> Result<Self, Malformed> {
        let wrong = Malformed("a partition does not add up");
        let body = body(&bytes);
        let (blocks, keys, lines) = (u32_at(body, 0), u32_at(body, 4), u32_at(body, 8));
        let base = u64_at(body, 12);
        let keys_at = HEAD_BYTES as u64 + 8 * u64::from(blocks);
        let filter_at = keys_at + u64::from(keys);
        let end = filter_at + filter::LINE_BYTES as u64 * u64::from(lines);
        if blocks == 0 || end != body.len() as u64 {
            return Err(wrong);
        }
        let partition = Self {
            blocks: size(blocks),
            base,
            keys_at: usize::try_from(keys_at).map_err(|_| wrong)?,
            filter_at: usize::try_from(filter_at).map_err(|_| wrong)?,
            end: body.len(),
            bytes,
        };
        let (mut last_key, mut last_block) = (0, 0);
        for n in 0..partition.blocks {
            let (key, block) = (partition.key_end(n), partition.block_end(n));
            // The first separator may be the empty key.
            if key < last_key || block <= last_block || block - last_block > PIECE_BYTES_MAX {
                return Err(wrong);
            }
            (last_key, last_block) = (key, block);
        }
        if last_key != keys || base.checked_add(u64::from(last_block)).is_none() {
            return Err(wrong);
        }
        Ok(partition)
    }

    /// The piece that it was made of, checksum included.
    pub(in super::super) fn piece(&self) -> &Bytes {
        &self.bytes
    }

    /// Bytes in memory.
    pub(in super::super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many blocks it holds.
    pub(in super::super) fn len(&self) -> usize {
        self.blocks
    }

    /// A block by number.
    pub(in super::super) fn block(&self, n: usize) -> Piece {
        let start = n.checked_sub(1).map_or(0, |before| self.block_end(before));
        Piece {
            offset: self.base + u64::from(start),
            len: self.block_end(n).saturating_sub(start),
        }
    }

    /// Whether one of its blocks may hold a key with this hash.
    pub(in super::super) fn may_hold(&self, hash: u64) -> bool {
        filter::may_hold(&self.bytes[self.filter_at..self.end], hash)
    }

    /// The last block whose separator is not above `key`.
    pub(in super::super) fn find(&self, key: &[u8]) -> Option<usize> {
        self.count(|separator| separator <= key).checked_sub(1)
    }

    /// The last block whose separator is below `key`.
    pub(in super::super) fn find_below(&self, key: &[u8]) -> Option<usize> {
        self.count(|separator| separator < key).checked_sub(1)
    }

    fn count(&self, low: impl Fn(&[u8]) -> bool) -> usize {
        let (mut from, mut to) = (0, self.blocks);
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

    fn block_end(&self, n: usize) -> u32 {
        u32_at(&self.bytes, HEAD_BYTES + 4 * (self.blocks + n))
    }
}
