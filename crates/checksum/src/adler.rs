//! Adler-32 (RFC 1950) and its combination.

/// The modulus of both sums.
const MODULUS: u64 = 65_521;

/// Adler-32 of `data`.
#[must_use]
pub fn adler32(data: &[u8]) -> u32 {
    let mut stream = simd_adler32::Adler32::new();
    stream.write(data);
    stream.finish()
}

/// Adler-32 of a concatenation: `a` of the first part, `b` of the second, which has `length_b`
/// bytes.
///
/// The low sum starts at one in each part, so one is subtracted. Every byte of the second part adds
/// the first part's low sum, less that one, to the high sum.
#[must_use]
pub fn adler32_combine(a: u32, b: u32, length_b: u64) -> u32 {
    let (low_a, high_a) = (u64::from(a & 0xffff), u64::from(a >> 16));
    let (low_b, high_b) = (u64::from(b & 0xffff), u64::from(b >> 16));
    let before = low_a + MODULUS - 1;
    let low = (before + low_b) % MODULUS;
    let high = (high_a + high_b + length_b % MODULUS * (before % MODULUS)) % MODULUS;
    (high << 16 | low) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_definition(data: &[u8]) -> u32 {
        let (low, high) = data.iter().fold((1u64, 0u64), |(low, high), &byte| {
            let low = (low + u64::from(byte)) % MODULUS;
            (low, (high + low) % MODULUS)
        });
        (high << 16 | low) as u32
    }

    #[test]
    fn known_values() {
        assert_eq!(adler32(b""), 1);
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
        assert_eq!(adler32(b"123456789"), 0x091e_01de);
    }

    /// Sums just below the modulus, where an unreduced one shows.
    #[test]
    fn the_largest_bytes() {
        let data = vec![0xff; 1 << 20];
        assert_eq!(adler32(&data), by_definition(&data));
        for cut in [0, 1, 5552, 65_521, 65_522, 1 << 19] {
            let (a, b) = data.split_at(cut);
            let combined = adler32_combine(adler32(a), adler32(b), b.len() as u64);
            assert_eq!(combined, adler32(&data), "{cut}");
        }
    }

    proptest! {
        #[test]
        fn parts_combine(
            a in proptest::collection::vec(any::<u8>(), 0..3000),
            b in proptest::collection::vec(any::<u8>(), 0..3000),
        ) {
            let whole = [a.as_slice(), &b].concat();
            prop_assert_eq!(adler32(&whole), by_definition(&whole));
            let combined = adler32_combine(adler32(&a), adler32(&b), b.len() as u64);
            prop_assert_eq!(combined, adler32(&whole));
        }
    }
}
