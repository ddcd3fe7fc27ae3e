//! CRC-32C (Castagnoli), the one checksum of journal files.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of the pieces one behind the other.
pub(crate) fn crc32c(pieces: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for piece in pieces {
        digest.update(piece);
    }
    // The upper half is zero for a 32-bit algorithm.
    digest.finalize() as u32
}
