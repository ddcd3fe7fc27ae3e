//! The content of benchmark objects: bytes that follow from the key alone.
//!
//! An object is a stamp of 32 bytes that is unique to its key, followed by a part of one shared
//! ring of random bytes. The key decides the offset in the ring. So a body costs nothing to make,
//! can be verified at any offset, does not compress, and never looks equal to another object for a
//! cache or for deduplication. The length of the ring is a prime: repetitions within a large object
//! never fall on the same offset of a block.

use std::sync::OnceLock;

use crate::http::Bytes;

/// Length of the ring. It fits into the last-level cache, and is the largest prime below 8 MiB.
const RING_BYTES: usize = 8_388_593;
const STAMP_BYTES: usize = 32;

/// The content of one object.
#[derive(Clone, Debug)]
pub(super) struct ObjectContent {
    stamp: [u8; STAMP_BYTES],
    start: u64,
    size_bytes: u64,
    ring: &'static [u8],
}

impl ObjectContent {
    /// The content of the object `key` of `size_bytes`.
    pub(super) fn new(key: &str, size_bytes: u64) -> Self {
        let mut random = Random::new(fnv1a(key.as_bytes()));
        let mut stamp = [0; STAMP_BYTES];
        for word in stamp.chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        Self {
            stamp,
            start: random.below(RING_BYTES as u64),
            size_bytes,
            ring: ring(),
        }
    }
}

impl Bytes for ObjectContent {
    fn len(&self) -> u64 {
        self.size_bytes
    }

    fn at(&self, offset: u64) -> &[u8] {
        let left = usize::try_from(self.size_bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let piece = match self
            .stamp
            .get(usize::try_from(offset).unwrap_or(usize::MAX)..)
        {
            Some(stamp) if !stamp.is_empty() => stamp,
            _ => {
                let at = (self.start + offset) % RING_BYTES as u64;
                &self.ring[usize::try_from(at).expect("below the length of the ring")..]
            }
        };
        &piece[..piece.len().min(left)]
    }
}

/// The shared random bytes, the same in every run.
fn ring() -> &'static [u8] {
    static RING: OnceLock<Vec<u8>> = OnceLock::new();
    RING.get_or_init(|| {
        let mut random = Random::new(0x0044_6577_6172);
        let mut ring = vec![0; RING_BYTES];
        for word in ring.chunks_mut(8) {
            let bytes = random.next().to_le_bytes();
            word.copy_from_slice(&bytes[..word.len()]);
        }
        ring
    })
}

/// A small random number generator (SplitMix64), for content and for choices. A load must be
/// repeatable, so its seed is always given.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which must not be 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(limit);
        u64::try_from(wide >> 64).expect("a product shifted by 64 bits fits")
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(content: &ObjectContent, from: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut offset = from;
        while offset < content.len() {
            let piece = content.at(offset);
            assert!(!piece.is_empty());
            out.extend_from_slice(piece);
            offset += piece.len() as u64;
        }
        assert!(content.at(content.len()).is_empty());
        out
    }

    #[test]
    fn every_offset_sees_the_same_bytes() {
        for size in [0, 1, 31, 32, 33, 4_096, RING_BYTES as u64 * 2 + 77] {
            let content = ObjectContent::new("a/b", size);
            let whole = collect(&content, 0);
            assert_eq!(whole.len() as u64, size);
            for from in [1, 31, 32, 33, size / 2, size.saturating_sub(1)] {
                if from < size {
                    assert!(collect(&content, from) == whole[usize::try_from(from).unwrap()..]);
                }
            }
        }
    }

    #[test]
    fn objects_differ_and_repeat() {
        let read = |key| collect(&ObjectContent::new(key, 4_096), 0);
        assert_eq!(read("k1"), read("k1"));
        assert_ne!(read("k1"), read("k2"));
        let large = collect(&ObjectContent::new("k1", 20 << 20), 0);
        let mut blocks: Vec<&[u8]> = large.chunks(4_096).collect();
        let count = blocks.len();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(
            blocks.len(),
            count,
            "no two blocks of an object are the same"
        );
    }

    #[test]
    fn numbers_stay_below_their_limit() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 5];
        for _ in 0..5_000 {
            seen[usize::try_from(random.below(5)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|n| (850..1_150).contains(n)), "{seen:?}");
    }
}
