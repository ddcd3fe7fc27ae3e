//! Bloom filters: ten bits a key in lines of 64 bytes, so that a look-up touches one cache line.

/// Bytes of a line.
pub(super) const LINE_BYTES: usize = 64;

const BITS_PER_KEY: usize = 10;
const PROBES: u32 = 6;
const LINE_BITS_LOG2: u32 = 9;

// Odd numbers without structure (fractions of the golden ratio, of the square roots of 3 and 5).
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const STEP: u64 = 0xbb67_ae85_84ca_a73b;
const SPREAD: u64 = 0x3c6e_f372_fe94_f82b;

/// The hash of a key that filters are made of; part of the format.
pub(in super::super) fn key_hash(key: &[u8]) -> u64 {
    let mut hash = SEED ^ key.len() as u64;
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = fold(hash ^ u64::from_le_bytes(*word), STEP);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    hash = fold(hash ^ u64::from_le_bytes(last), STEP);
    fold(hash ^ SEED, SPREAD)
}

/// Both halves of the product of 128 bits.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// A filter of these hashes: whole lines.
pub(super) fn build(hashes: &[u64]) -> Vec<u8> {
    let lines = (hashes.len() * BITS_PER_KEY)
        .div_ceil(LINE_BYTES * 8)
        .max(1);
    let mut filter = vec![0; lines * LINE_BYTES];
    for &hash in hashes {
        let at = line(hash, lines) * LINE_BYTES;
        for bit in bits(hash) {
            filter[at + bit / 8] |= 1 << (bit % 8);
        }
    }
    filter
}

/// Whether a key with this hash may be among those the filter was built from.
pub(super) fn may_hold(filter: &[u8], hash: u64) -> bool {
    let lines = filter.len() / LINE_BYTES;
    if lines == 0 {
        return true;
    }
    let at = line(hash, lines) * LINE_BYTES;
    let line = &filter[at..at + LINE_BYTES];
    bits(hash).all(|bit| line[bit / 8] & (1 << (bit % 8)) != 0)
}

fn line(hash: u64, lines: usize) -> usize {
    let product = u128::from(hash) * lines as u128;
    usize::try_from(product >> 64).unwrap_or(0)
}

fn bits(hash: u64) -> impl Iterator<Item = usize> {
    let spread = hash.wrapping_mul(SPREAD);
    (0..PROBES).map(move |n| (spread >> (64 - LINE_BITS_LOG2 * (n + 1))) as usize & 511)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in_and_little_else() {
        let keys = |from: u32| (from..from + 5000).map(|n| format!("e/dir/file-{n:08}.root"));
        let hashes: Vec<u64> = keys(0).map(|k| key_hash(k.as_bytes())).collect();
        let filter = build(&hashes);
        assert_eq!(filter.len(), 98 * LINE_BYTES);
        assert!(hashes.iter().all(|&h| may_hold(&filter, h)));
        let wrong = keys(100_000).filter(|k| may_hold(&filter, key_hash(k.as_bytes())));
        let wrong = wrong.count();
        assert!(wrong < 125, "{wrong} of 5000 pass that are not there");
    }

    #[test]
    fn hashes_are_part_of_the_format() {
        let found = [&b""[..], b"a", b"abcdefgh", b"abcdefghi"].map(key_hash);
        assert_eq!(
            found,
            [
                5_272_749_001_942_712_850,
                12_960_537_187_464_229_671,
                15_183_057_325_726_093_678,
                16_494_172_957_837_233_219,
            ],
        );
    }
}
