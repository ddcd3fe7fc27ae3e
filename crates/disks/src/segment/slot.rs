//! A slot: one small object in a segment, with a header that describes it.
//!
//! ```text
//!  0  4  magic "DSlt"
//!  4  1  slot format, 1
//!  5  3  length of the description, little-endian
//!  8  4  length of the object's bytes, little-endian
//! 12  4  CRC-32C of bytes 0 to 11 and the description
//! 16  …  description: opaque here; what salvage needs (version, digests, owner, path at writing)
//!  …  …  the object's bytes
//! ```
//!
//! The checksums of the pages below protect the object's bytes. The header has its own checksum, so
//! that salvage can find slots in a segment whose catalog is lost.

use bytes::Bytes;
use dewar_checksum::crc32c;

const MAGIC: [u8; 4] = *b"DSlt";
const FORMAT: u8 = 1;
const FIXED_BYTES: usize = 16;

/// Maximum length of a description; longer ones are cut.
pub const DESCRIPTION_BYTES_MAX: usize = 4096;

/// A slot's header as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotHeader {
    /// The description for salvage.
    pub description: Bytes,
    /// Bytes of header in front of the object.
    pub header_bytes: u32,
    /// The object's length.
    pub object_bytes: u32,
}

/// Header and object as contiguous bytes, and the length of the header.
#[must_use]
pub fn encode_slot(description: &[u8], object: &[Bytes]) -> (Bytes, u32) {
    let description = &description[..description.len().min(DESCRIPTION_BYTES_MAX)];
    let object_bytes: usize = object.iter().map(Bytes::len).sum();
    let header_bytes = FIXED_BYTES + description.len();
    let mut slot = Vec::with_capacity(header_bytes + object_bytes);
    slot.extend_from_slice(&MAGIC);
    slot.push(FORMAT);
    slot.extend_from_slice(&(description.len() as u32).to_le_bytes()[..3]);
    slot.extend_from_slice(&(object_bytes as u32).to_le_bytes());
    let sum = header_sum(&slot[..12], description);
    slot.extend_from_slice(&sum.to_le_bytes());
    slot.extend_from_slice(description);
    for part in object {
        slot.extend_from_slice(part);
    }
    (slot.into(), header_bytes as u32)
}

/// The header at the beginning of `bytes`, if a valid one is there.
#[must_use]
pub fn decode_slot(bytes: &[u8]) -> Option<SlotHeader> {
    let fixed = bytes.get(..FIXED_BYTES)?;
    if fixed[..4] != MAGIC || fixed[4] != FORMAT {
        return None;
    }
    let described = u32::from_le_bytes([fixed[5], fixed[6], fixed[7], 0]) as usize;
    let object_bytes = u32::from_le_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
    let sum = u32::from_le_bytes([fixed[12], fixed[13], fixed[14], fixed[15]]);
    if described > DESCRIPTION_BYTES_MAX {
        return None;
    }
    let description = bytes.get(FIXED_BYTES..FIXED_BYTES + described)?;
    (header_sum(&fixed[..12], description) == sum).then(|| SlotHeader {
        description: Bytes::copy_from_slice(description),
        header_bytes: (FIXED_BYTES + described) as u32,
        object_bytes,
    })
}

fn header_sum(fixed: &[u8], description: &[u8]) -> u32 {
    let mut covered = Vec::with_capacity(fixed.len() + description.len());
    covered.extend_from_slice(fixed);
    covered.extend_from_slice(description);
    crc32c(&covered)
}

/// Fuzz target: nothing panics, and a decoded header encodes to the same header.
pub fn fuzz_slot(bytes: &[u8]) {
    check_slot(bytes);
    // Behind a wrong checksum nothing is looked at.
    let mut sealed = bytes.to_vec();
    if let Some(fixed) = sealed.first_chunk::<FIXED_BYTES>() {
        let described = u32::from_le_bytes([fixed[5], fixed[6], fixed[7], 0]) as usize;
        if let Some(description) = sealed.get(FIXED_BYTES..FIXED_BYTES + described) {
            let sum = header_sum(&fixed[..12], description);
            sealed[12..16].copy_from_slice(&sum.to_le_bytes());
            check_slot(&sealed);
        }
    }
}

fn check_slot(bytes: &[u8]) {
    if let Some(header) = decode_slot(bytes) {
        let object = vec![0; (header.object_bytes as usize).min(64)];
        let (again, len) = encode_slot(&header.description, &[object.into()]);
        assert_eq!(len, header.header_bytes);
        assert!(decode_slot(&again).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_its_header_and_notices_damage() {
        let parts = [Bytes::from_static(b"hello "), Bytes::from_static(b"world")];
        let (slot, header_bytes) = encode_slot(b"who and where", &parts);
        let header = decode_slot(&slot).expect("valid");
        assert_eq!(
            (header.header_bytes, header.object_bytes),
            (header_bytes, 11)
        );
        assert_eq!(&header.description[..], b"who and where");
        assert_eq!(&slot[header_bytes as usize..], b"hello world");
        for at in 0..header_bytes as usize {
            let mut bad = slot.to_vec();
            bad[at] ^= 0x10;
            assert_eq!(decode_slot(&bad), None, "byte {at}");
        }
        for cut in 0..header_bytes as usize {
            assert_eq!(decode_slot(&slot[..cut]), None, "cut at {cut}");
        }
    }
}
