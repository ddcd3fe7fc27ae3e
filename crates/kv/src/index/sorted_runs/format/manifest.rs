//! The manifest: the runs of the index, and the last batch in them.

use dewar_checksum::crc32c;

use super::wire::{short, u32_at, u64_at};
use super::{Malformed, VERSION};

const MAGIC: &[u8; 8] = b"DEWARIDX";
const HEAD_BYTES: usize = 48;
const RUN_BYTES: usize = 40;

/// What a manifest says of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct RunMeta {
    /// A random number, which also names its file.
    pub(in super::super) id: u64,
    /// Bytes of the file.
    pub(in super::super) len: u64,
    /// Entries, deletions included.
    pub(in super::super) entries: u64,
    /// Deletions.
    pub(in super::super) deletions: u64,
    /// CRC-32C of the whole file.
    pub(in super::super) crc: u32,
    /// How often its entries were merged.
    pub(in super::super) level: u32,
}

/// One state of the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Manifest {
    /// Whose journal it belongs to.
    pub(in super::super) lineage: u128,
    /// Counts up with every state of this index.
    pub(in super::super) number: u64,
    /// The last batch that is in it.
    pub(in super::super) applied: u64,
    /// Its runs, newest first.
    pub(in super::super) runs: Vec<RunMeta>,
}

impl Manifest {
    /// The content of the file.
    pub(in super::super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + RUN_BYTES * self.runs.len() + 4);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&short(self.runs.len()).to_le_bytes());
        out.extend_from_slice(&self.lineage.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.applied.to_le_bytes());
        for run in &self.runs {
            for n in [run.id, run.len, run.entries, run.deletions] {
                out.extend_from_slice(&n.to_le_bytes());
            }
            out.extend_from_slice(&run.crc.to_le_bytes());
            out.extend_from_slice(&run.level.to_le_bytes());
        }
        out.extend_from_slice(&crc32c(&out).to_le_bytes());
        out
    }

    /// Reads the content of the file.
    pub(in super::super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some((body, crc)) = bytes.split_last_chunk::<4>() else {
            return Err(Malformed("it is too short"));
        };
        if body.len() < HEAD_BYTES || &body[..8] != MAGIC {
            return Err(Malformed("it is no manifest"));
        }
        if crc32c(body).to_le_bytes() != *crc {
            return Err(Malformed("its checksum is wrong"));
        }
        if u32_at(body, 8) != VERSION {
            return Err(Malformed("its version is not known"));
        }
        let (runs, rest) = body[HEAD_BYTES..].as_chunks::<RUN_BYTES>();
        if !rest.is_empty() || short(runs.len()) != u32_at(body, 12) {
            return Err(Malformed("it lists another number of runs than it says"));
        }
        let runs = runs.iter().map(|run| RunMeta {
            id: u64_at(run, 0),
            len: u64_at(run, 8),
            entries: u64_at(run, 16),
            deletions: u64_at(run, 24),
            crc: u32_at(run, 32),
            level: u32_at(run, 36),
        });
        let lineage = u128::from(u64_at(body, 24)) << 64 | u128::from(u64_at(body, 16));
        Ok(Self {
            lineage,
            number: u64_at(body, 32),
            applied: u64_at(body, 40),
            runs: runs.collect(),
        })
    }
}
