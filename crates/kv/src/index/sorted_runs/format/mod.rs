//! The bytes of runs and manifests: `docs/formats/catalog-runs.md` describes them. Pure functions:
//! no disk, no waiting, and no panic for any bytes of a disk.

mod block;
mod directory;
mod filter;
mod footer;
mod manifest;
mod partition;
mod wire;

use std::fmt;

use bytes::Bytes;
use dewar_checksum::Crc32c;

pub(super) use block::{Block, BlockBuilder, BlockCursor, BlockReverse};
pub(super) use directory::{Directory, DirectoryBuilder};
pub(super) use filter::key_hash;
pub(super) use footer::{FOOTER_BYTES, Footer, HEADER_BYTES, header};
pub(super) use manifest::{Manifest, RunMeta};
pub(super) use partition::{Partition, PartitionBuilder};

/// The version of the format that is written. Older ones stay readable for ever.
pub(super) const VERSION: u32 = 1;

/// Entries are gathered into blocks of up to this many bytes; one larger entry is a block alone.
pub(super) const BLOCK_BYTES: usize = 16 << 10;

/// The longest key, in bytes.
pub(super) const KEY_BYTES_MAX: usize = 64 << 10;

/// The longest value, in bytes.
pub(super) const VALUE_BYTES_MAX: usize = 64 << 20;

/// The longest piece but the directory that a reader accepts.
pub(super) const PIECE_BYTES_MAX: u32 = 128 << 20;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Where a piece of a run stands: the header, a block, a partition, the directory or the footer. Its last 4
/// bytes are its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Piece {
    /// Bytes before it in the file.
    pub(super) offset: u64,
    /// Its bytes, checksum included.
    pub(super) len: u32,
}

impl Piece {
    /// The first byte after it.
    pub(super) fn end(self) -> u64 {
        self.offset + u64::from(self.len)
    }

    /// Whether these are its bytes. Run and place are part of the checksum, so that a write that
    /// went astray does not pass.
    pub(super) fn verifies(self, run: u64, bytes: &[u8]) -> bool {
        bytes.len() as u64 == u64::from(self.len)
            && bytes.split_last_chunk().is_some_and(|(body, crc)| {
                checksum(run, self.offset, body).to_le_bytes() == *crc
                    || !dewar_env::safeguard("checksums of the index")
            })
    }
}

/// The checksum of a piece's bytes before it.
pub(super) fn checksum(run: u64, offset: u64, body: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(&run.to_le_bytes());
    crc.update(&offset.to_le_bytes());
    crc.update(body);
    crc.value()
}

/// The bytes of a verified piece without its checksum.
fn body(piece: &Bytes) -> &[u8] {
    &piece[..piece.len().saturating_sub(4)]
}

/// The shortest key that is above `before` and not above `first`, as a prefix of `first`.
pub(super) fn separator<'a>(before: &[u8], first: &'a [u8]) -> &'a [u8] {
    let common = before.iter().zip(first).take_while(|(a, b)| a == b).count();
    &first[..first.len().min(common + 1)]
}

/// Fuzz target: decodes a manifest from any bytes.
pub fn fuzz_manifest(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::decode(bytes) {
        assert_eq!(manifest.encode(), bytes, "what decodes encodes the same");
    }
}

/// Fuzz target: decodes a block from any bytes and walks it both ways.
pub fn fuzz_block(bytes: &[u8]) {
    let Ok(block) = Block::parse(Bytes::copy_from_slice(bytes)) else {
        return;
    };
    let probe = &bytes[..bytes.len().min(5)];
    // Only that these end matters: contents without a right checksum are never served.
    let _ = block.get(probe);
    let mut forward = BlockCursor::new(block.clone());
    let mut sane = forward.seek(probe).is_ok();
    while sane && forward.key().is_some() {
        sane = forward.advance().is_ok();
    }
    let Ok(mut reverse) = BlockReverse::before(block, probe) else {
        return;
    };
    while reverse.key().is_some() && reverse.advance().is_ok() {}
}

/// Fuzz target: decodes a footer, a directory and a partition from any bytes.
pub fn fuzz_footer(bytes: &[u8]) {
    let _ = Footer::decode(bytes);
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok(directory) = Directory::parse(bytes.clone(), u64::MAX) {
        let found = directory.find(b"key");
        assert!(found.is_none_or(|n| n < directory.len()));
    }
    if let Ok(partition) = Partition::parse(bytes) {
        assert!(partition.find(b"key").is_none_or(|n| n < partition.len()));
        partition.may_hold(key_hash(b"key"));
    }
}

#[cfg(test)]
mod tests;
