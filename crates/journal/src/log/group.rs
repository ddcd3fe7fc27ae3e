//! Records gathered for one write.

use bytes::Bytes;

use crate::Seq;
use crate::buffer::Buffer;
use crate::epoch::EpochId;
use crate::format::{
    BLOCK_BYTES, FileHeader, RECORD_HEADER_BYTES, RecordHeader, RecordPosition, framed_bytes,
    seal_record,
};

/// A run of records with a place in the log, not yet written.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) file: u64,
    pub(crate) offset: u64,
    epoch: EpochId,
    buffer: Buffer,
    /// The floor that the file's header names, if this group begins a file.
    pub(crate) header_floor: Option<Seq>,
    pub(crate) last: Seq,
    /// Checksum of the last record.
    pub(crate) last_crc: u32,
}

/// A group as it is written.
#[derive(Clone, Debug)]
pub(crate) struct SealedGroup {
    pub(crate) file: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: Bytes,
    pub(crate) header_floor: Option<Seq>,
    pub(crate) last: Seq,
    pub(crate) last_crc: u32,
    /// Bytes of its records, without file header and padding.
    pub(crate) framed: usize,
}

impl Group {
    /// An empty group; with a header, it begins a file.
    pub(crate) fn new(
        epoch: EpochId,
        file: u64,
        offset: u64,
        mut buffer: Buffer,
        header: Option<FileHeader>,
    ) -> Self {
        if let Some(header) = &header {
            buffer.push(&header.encode());
        }
        Self {
            file,
            offset,
            epoch,
            buffer,
            header_floor: header.map(|header| header.floor),
            last: 0,
            last_crc: 0,
        }
    }

    /// Whether a record with a body of `body` bytes fits, padding included.
    pub(crate) fn fits(&self, body: usize) -> bool {
        framed_bytes(body).next_multiple_of(BLOCK_BYTES as usize) <= self.buffer.room()
    }

    /// Where the next record would begin.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    /// Appends a record and gives its checksum.
    pub(crate) fn push(&mut self, header: &RecordHeader, body: &[Bytes]) -> u32 {
        let at = self.buffer.len();
        let place = RecordPosition {
            epoch: self.epoch,
            file: self.file,
            offset: self.end(),
        };
        self.buffer.push(&header.encode());
        for piece in body {
            self.buffer.push(piece);
        }
        let crc = seal_record(self.buffer.tail_mut(at), &place);
        self.buffer.pad_to(at + header.framed_bytes());
        self.last = header.seq;
        self.last_crc = crc;
        crc
    }

    /// Ends the group; its length is a multiple of 4 KiB.
    pub(crate) fn freeze(mut self) -> SealedGroup {
        let header = self.header_floor.map_or(0, |_| BLOCK_BYTES as usize);
        let framed = self.buffer.len() - header;
        let padded = self.buffer.len().next_multiple_of(BLOCK_BYTES as usize);
        self.buffer.pad_to(padded);
        SealedGroup {
            file: self.file,
            offset: self.offset,
            header_floor: self.header_floor,
            last: self.last,
            last_crc: self.last_crc,
            framed,
            bytes: self.buffer.freeze(),
        }
    }
}

/// The bodies of the records in a group's bytes, to put them elsewhere.
pub(crate) fn bodies(group: &SealedGroup) -> Vec<(RecordHeader, Bytes)> {
    let mut at = if group.header_floor.is_some() {
        BLOCK_BYTES as usize
    } else {
        0
    };
    let mut bodies = Vec::new();
    while let Some(header) = group.bytes.get(at..).and_then(RecordHeader::parse) {
        if header.seq == 0 {
            break; // padding
        }
        let body = at + RECORD_HEADER_BYTES;
        let bytes = group.bytes.slice(body..body + header.len as usize);
        bodies.push((header, bytes));
        at += header.framed_bytes();
    }
    bodies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BufferPool;
    use crate::format::verify_record;

    #[test]
    fn records_stand_one_behind_the_other_and_can_be_taken_out_again() {
        let pool = BufferPool::new(1 << 16, 1);
        let epoch = EpochId(5);
        let mut group = Group::new(epoch, 2, 8192, pool.take(0), None);
        let mut prev = 0;
        for seq in 1..=3 {
            let body = vec![Bytes::from(vec![seq as u8; 10]), Bytes::from("end")];
            let header = RecordHeader {
                crc: 0,
                len: 13,
                seq,
                epoch: 1,
                acked: 0,
                prev,
                jump: false,
            };
            prev = group.push(&header, &body);
        }
        let frozen = group.freeze();
        assert_eq!((frozen.bytes.len(), frozen.last), (4096, 3));
        assert_eq!(frozen.last_crc, prev);
        let place = RecordPosition {
            epoch,
            file: 2,
            offset: 8192 + 56,
        };
        assert!(verify_record(&frozen.bytes[56..56 + 53], &place));
        let bodies = bodies(&frozen);
        assert_eq!(bodies.len(), 3);
        assert_eq!(
            &bodies[2].1[..],
            b"\x03\x03\x03\x03\x03\x03\x03\x03\x03\x03end"
        );
    }
}
