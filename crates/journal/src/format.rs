//! Journal files byte by byte: the header block and the records; see docs/formats/journal.md.
//!
//! Integers are little-endian; ids are in the order in which they print (big-endian). A record's
//! checksum covers its position (epoch, file number, offset). Records from an earlier use of a
//! recycled file therefore never verify.

use dewar_types::{Error, ErrorKind};

use crate::epoch::EpochId;
use crate::{Seq, checksum};

/// Groups begin at multiples of this many bytes; the header block is this long.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// A record's header.
pub(crate) const RECORD_HEADER_BYTES: usize = 40;
const RECORD_ALIGN: usize = 8;
const MAGIC: [u8; 8] = *b"DEWARJNL";
const VERSION: u16 = 1;

/// Bytes a record with a body of `body` bytes takes in a group.
pub(crate) const fn framed_bytes(body: usize) -> usize {
    (RECORD_HEADER_BYTES + body).next_multiple_of(RECORD_ALIGN)
}

/// Where a record stands; part of what its checksum covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPosition {
    pub(crate) epoch: EpochId,
    pub(crate) file: u64,
    pub(crate) offset: u64,
}

impl RecordPosition {
    fn bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.epoch.0.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.file.to_le_bytes());
        bytes[24..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }
}

/// The first 40 bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    /// CRC-32C of the place, the rest of this header and the body.
    pub(crate) crc: u32,
    /// Body length in bytes.
    pub(crate) len: u32,
    pub(crate) seq: Seq,
    /// Number of the epoch.
    pub(crate) epoch: u64,
    /// All records up to this one had been acknowledged when this one was encoded.
    pub(crate) acked: Seq,
    /// [`RecordHeader::crc`] of the record before.
    pub(crate) prev: u32,
    /// Sequences were left out before this record, after a loss was accepted.
    pub(crate) jump: bool,
}

/// Bit of the flags word: see [`RecordHeader::jump`].
const JUMP: u32 = 1;

impl RecordHeader {
    /// The header with everything but the checksum, which [`seal_record`] fills in.
    pub(crate) fn encode(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[4..8].copy_from_slice(&self.len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.seq.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.acked.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.prev.to_le_bytes());
        let flags = if self.jump { JUMP } else { 0 };
        bytes[36..].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    /// Takes the fields apart, unverified. `None` if there are not enough bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; RECORD_HEADER_BYTES] = bytes.first_chunk()?;
        Some(Self {
            crc: u32_at(header, 0),
            len: u32_at(header, 4),
            seq: u64_at(header, 8),
            epoch: u64_at(header, 16),
            acked: u64_at(header, 24),
            prev: u32_at(header, 32),
            jump: u32_at(header, 36) & JUMP != 0,
        })
    }

    /// Bytes of header, body and padding.
    pub(crate) const fn framed_bytes(&self) -> usize {
        framed_bytes(self.len as usize)
    }
}

/// Fills in the checksum of an encoded record (header and body, without padding).
pub(crate) fn seal_record(record: &mut [u8], place: &RecordPosition) -> u32 {
    let crc = record_crc(&record[4..], place);
    record[..4].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// Whether these are a record's header and body as they were written for this place.
pub(crate) fn verify_record(record: &[u8], place: &RecordPosition) -> bool {
    #[cfg(test)]
    if sabotage::skipped() {
        return record.len() >= RECORD_HEADER_BYTES;
    }
    record.len() >= RECORD_HEADER_BYTES
        && u32_at(record, 36) <= JUMP
        && (u32_at(record, 0) == record_crc(&record[4..], place)
            || !dewar_env::safeguard("checksums of journal records"))
}

fn record_crc(rest: &[u8], place: &RecordPosition) -> u32 {
    checksum::crc32c(&[&place.bytes(), rest])
}

/// The first block of a journal file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) lineage: u128,
    pub(crate) epoch: EpochId,
    /// Number of the epoch.
    pub(crate) epoch_number: u64,
    /// Number of the file; files of an epoch and of the one after it are numbered on.
    pub(crate) file: u64,
    /// Sequence of the first record in it.
    pub(crate) first: Seq,
    /// No record up to this one is needed any more.
    pub(crate) floor: Seq,
    /// All records up to this one had been acknowledged when the file was begun.
    pub(crate) acked: Seq,
    /// Checksum of the record before the first.
    pub(crate) prev: u32,
}

const FILE_HEADER_BYTES: usize = 96;

impl FileHeader {
    /// The whole first block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; BLOCK_BYTES as usize];
        block[..8].copy_from_slice(&MAGIC);
        block[12..14].copy_from_slice(&VERSION.to_le_bytes());
        block[16..32].copy_from_slice(&self.lineage.to_be_bytes());
        block[32..48].copy_from_slice(&self.epoch.0.to_be_bytes());
        block[48..56].copy_from_slice(&self.epoch_number.to_le_bytes());
        block[56..64].copy_from_slice(&self.file.to_le_bytes());
        block[64..72].copy_from_slice(&self.first.to_le_bytes());
        block[72..80].copy_from_slice(&self.floor.to_le_bytes());
        block[80..88].copy_from_slice(&self.acked.to_le_bytes());
        block[88..92].copy_from_slice(&self.prev.to_le_bytes());
        let crc = checksum::crc32c(&[&block[12..]]);
        block[8..12].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Reads a first block. `Ok(None)` if it is no intact header: never used, torn or rotten.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if it is intact and of a later version.
    pub(crate) fn decode(block: &[u8]) -> Result<Option<Self>, Error> {
        if block.len() != BLOCK_BYTES as usize
            || block[..8] != MAGIC
            || (u32_at(block, 8) != checksum::crc32c(&[&block[12..]])
                && dewar_env::safeguard("checksums of journal files"))
        {
            return Ok(None);
        }
        let version = u16::from_le_bytes([block[12], block[13]]);
        if version != VERSION || block[FILE_HEADER_BYTES..].iter().any(|byte| *byte != 0) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("journal file of version {version}; this Dewar reads version {VERSION}"),
            ));
        }
        Ok(Some(Self {
            lineage: u128_at(block, 16),
            epoch: EpochId(u128_at(block, 32)),
            epoch_number: u64_at(block, 48),
            file: u64_at(block, 56),
            first: u64_at(block, 64),
            floor: u64_at(block, 72),
            acked: u64_at(block, 80),
            prev: u32_at(block, 88),
        }))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_be_bytes(array(bytes, at))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// Lets a test see that tests notice when records are believed unchecked.
#[cfg(test)]
pub(crate) mod sabotage {
    use std::cell::Cell;

    thread_local! {
        static SKIP: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether records are believed on this thread.
    pub(crate) fn skip(on: bool) {
        SKIP.set(on);
    }

    pub(super) fn skipped() -> bool {
        SKIP.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: RecordPosition = RecordPosition {
        epoch: EpochId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
        file: 3,
        offset: 8192,
    };

    fn record(body: &[u8]) -> Vec<u8> {
        let header = RecordHeader {
            crc: 0,
            len: u32::try_from(body.len()).expect("short"),
            seq: 77,
            epoch: 5,
            acked: 70,
            prev: 0xdead_beef,
            jump: false,
        };
        let mut record = header.encode().to_vec();
        record.extend_from_slice(body);
        seal_record(&mut record, &PLACE);
        record
    }

    #[test]
    fn a_record_is_laid_out_as_documented() {
        let record = record(b"hello");
        assert_eq!(record[4..8], [5, 0, 0, 0]);
        assert_eq!(record[8..16], [77, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(record[16..24], [5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(record[24..32], [70, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(record[32..36], [0xef, 0xbe, 0xad, 0xde]);
        assert_eq!(&record[40..], b"hello");
        let parsed = RecordHeader::parse(&record).expect("whole");
        assert_eq!(parsed.framed_bytes(), 48);
        // An independent computation of CRC-32C gave this.
        assert_eq!(
            parsed.crc,
            bitwise(&[&PLACE.bytes()[..], &record[4..]].concat())
        );
    }

    /// CRC-32C from its definition: reflected polynomial 0x82f63b78.
    fn bitwise(bytes: &[u8]) -> u32 {
        let mut crc = !0u32;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
            }
        }
        !crc
    }

    #[test]
    fn a_record_verifies_only_whole_and_in_its_place() {
        let record = record(b"hello");
        assert!(verify_record(&record, &PLACE));
        for bit in 0..record.len() * 8 {
            let mut bad = record.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!verify_record(&bad, &PLACE), "bit {bit}");
        }
        let epoch = EpochId(PLACE.epoch.0 ^ 1);
        assert!(!verify_record(&record, &RecordPosition { epoch, ..PLACE }));
        assert!(!verify_record(
            &record,
            &RecordPosition { file: 4, ..PLACE }
        ));
        let offset = 4096;
        assert!(!verify_record(&record, &RecordPosition { offset, ..PLACE }));
        assert!(!verify_record(&[0; 64], &PLACE), "zeros are no record");
    }

    #[test]
    fn file_headers_come_back_and_damage_shows() {
        let header = FileHeader {
            lineage: 1,
            epoch: EpochId(2),
            epoch_number: 3,
            file: 4,
            first: 5,
            floor: 6,
            acked: 7,
            prev: 8,
        };
        let block = header.encode();
        assert_eq!(FileHeader::decode(&block).expect("version 1"), Some(header));
        let mut torn = block.clone();
        torn[70] ^= 1;
        assert_eq!(FileHeader::decode(&torn).expect("torn"), None);
        assert_eq!(FileHeader::decode(&[0; 4096]).expect("zeros"), None);
        let mut later = block;
        later[12] = 2;
        let crc = checksum::crc32c(&[&later[12..]]);
        later[8..12].copy_from_slice(&crc.to_le_bytes());
        let error = FileHeader::decode(&later).expect_err("version 2");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
