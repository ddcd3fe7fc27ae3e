//! Finding the slots in the bytes of a segment whose catalog is lost.
//!
//! Slots follow one another. Between them may be holes (zeros) and unreadable ranges. The search
//! skips the object behind a header that verifies, so that bytes of an object that look like a
//! header are not taken for one.

use bytes::Bytes;
use dewar_disks::segment::decode_slot;

/// The first bytes of a slot's header.
const MAGIC: &[u8] = b"DSlt";

/// A slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SalvagedSlot {
    /// The start of the slot.
    pub(super) offset: u32,
    /// Bytes of its header.
    pub(super) header: u32,
    /// Bytes of it in all.
    pub(super) len: u32,
    /// The description in the header.
    pub(super) description: Bytes,
}

/// A segment's bytes as far as they can be read. Unreadable ones are zeros.
#[derive(Debug, Default)]
pub(super) struct SegmentBytes {
    pub(super) bytes: Vec<u8>,
    /// Stretches that cannot be read, (offset, length), in order.
    pub(super) unreadable: Vec<(u64, u64)>,
}

impl SegmentBytes {
    /// Whether all of a stretch was read.
    pub(super) fn is_readable(&self, offset: u64, len: u64) -> bool {
        let overlaps = |&(at, gap): &(u64, u64)| at < offset + len && offset < at + gap;
        !self.unreadable.iter().any(overlaps)
    }

    /// The slots whose headers can be read, in order.
    pub(super) fn slots(&self) -> Vec<SalvagedSlot> {
        let mut slots = Vec::new();
        let mut at = 0;
        while let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let found = decode_slot(rest).filter(|header| {
                let len = header.header_bytes as usize + header.object_bytes as usize;
                len <= rest.len()
            });
            match found {
                Some(header) => {
                    let len = header.header_bytes + header.object_bytes;
                    slots.push(SalvagedSlot {
                        offset: at as u32,
                        header: header.header_bytes,
                        len,
                        description: header.description,
                    });
                    at += len as usize;
                }
                None => match next_magic(&rest[1..]) {
                    Some(distance) => at += 1 + distance,
                    None => break,
                },
            }
        }
        slots
    }
}

fn next_magic(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let first = bytes[at..].iter().position(|byte| *byte == MAGIC[0])?;
        at += first;
        if bytes[at..].starts_with(MAGIC) {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use dewar_disks::segment::encode_slot;

    use super::*;

    #[test]
    fn slots_are_found_behind_holes_and_damage_and_never_in_an_object() {
        let object = |bytes: &[u8]| encode_slot(b"who", &[Bytes::copy_from_slice(bytes)]).0;
        // An object that holds a whole slot.
        let inner = object(b"not an object of its own");
        let first = object(&inner);
        let second = object(b"second");
        let third = object(b"third");
        let mut bytes = first.to_vec();
        bytes.extend_from_slice(&[0; 100]);
        let second_at = bytes.len();
        bytes.extend_from_slice(&second);
        let third_at = bytes.len();
        bytes.extend_from_slice(&third);
        bytes.extend_from_slice(b"DSltDSl");
        let all = SegmentBytes {
            bytes: bytes.clone(),
            unreadable: Vec::new(),
        };
        let found: Vec<(u32, u32)> = all.slots().iter().map(|s| (s.offset, s.len)).collect();
        let expected = [
            (0, first.len() as u32),
            (second_at as u32, second.len() as u32),
            (third_at as u32, third.len() as u32),
        ];
        assert_eq!(found, expected);
        // The second one's header cannot be read.
        bytes[second_at..second_at + 16].fill(0);
        let damaged = SegmentBytes {
            bytes,
            unreadable: vec![(second_at as u64, 16)],
        };
        let found: Vec<u32> = damaged.slots().iter().map(|s| s.offset).collect();
        assert_eq!(found, [0, third_at as u32]);
        assert!(damaged.is_readable(0, second_at as u64));
        assert!(!damaged.is_readable(0, second_at as u64 + 1));
        assert!(damaged.is_readable(second_at as u64 + 16, 1000));
    }

    #[test]
    fn a_slot_that_is_cut_off_is_none() {
        let slot = encode_slot(b"who", &[Bytes::from_static(b"0123456789")]).0;
        let cut = SegmentBytes {
            bytes: slot[..slot.len() - 1].to_vec(),
            unreadable: Vec::new(),
        };
        assert_eq!(cut.slots(), []);
    }
}
