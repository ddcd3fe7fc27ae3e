//! CRC-32C, the one checksum of journal files.

use dewar_checksum::Crc32c;

/// CRC-32C of the pieces one behind the other.
pub(crate) fn crc32c(pieces: &[&[u8]]) -> u32 {
    let mut crc = Crc32c::new();
    for piece in pieces {
        crc.update(piece);
    }
    crc.value()
}
