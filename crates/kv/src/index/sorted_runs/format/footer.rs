//! The first and the last bytes of a run.

use super::wire::{u32_at, u64_at};
use super::{Malformed, Piece, VERSION, checksum};

/// Bytes before the first block.
pub(in super::super) const HEADER_BYTES: usize = 28;

/// Bytes of the footer.
pub(in super::super) const FOOTER_BYTES: usize = 64;

const MAGIC: &[u8; 8] = b"DEWARRUN";

/// The first bytes of a run: they say what the file is to who finds it alone.
pub(in super::super) fn header(run: u64) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[16..24].copy_from_slice(&run.to_le_bytes());
    let crc = checksum(run, 0, &out[..24]);
    out[24..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Where the directory is, and what the run holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Footer {
    pub(in super::super) run: u64,
    pub(in super::super) entries: u64,
    pub(in super::super) deletions: u64,
    pub(in super::super) directory: Piece,
}

impl Footer {
    /// The last bytes of the run.
    pub(in super::super) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut out = [0; FOOTER_BYTES];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..24].copy_from_slice(&self.run.to_le_bytes());
        out[24..32].copy_from_slice(&self.entries.to_le_bytes());
        out[32..40].copy_from_slice(&self.deletions.to_le_bytes());
        out[40..48].copy_from_slice(&self.directory.offset.to_le_bytes());
        out[48..52].copy_from_slice(&self.directory.len.to_le_bytes());
        let crc = checksum(self.run, self.directory.end(), &out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the last bytes of a run; the checksum is the caller's care.
    pub(in super::super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() != FOOTER_BYTES || &bytes[..8] != MAGIC {
            return Err(Malformed("it is no run"));
        }
        if u32_at(bytes, 8) != VERSION {
            return Err(Malformed("its version is not known"));
        }
        let directory = Piece {
            offset: u64_at(bytes, 40),
            len: u32_at(bytes, 48),
        };
        if directory
            .offset
            .checked_add(u64::from(directory.len))
            .is_none()
        {
            return Err(Malformed("its directory is nowhere"));
        }
        Ok(Self {
            run: u64_at(bytes, 16),
            entries: u64_at(bytes, 24),
            deletions: u64_at(bytes, 32),
            directory,
        })
    }
}
