//! Chance that repeats from its seed.

use parking_lot::Mutex;

use crate::Rng;

/// A seeded generator (xoshiro256**, its state filled by splitmix64). Not fit for secrets.
#[derive(Debug)]
pub struct SimRng {
    state: Mutex<[u64; 4]>,
}

impl SimRng {
    /// The generator of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let state = core::array::from_fn(|_| splitmix64(&mut x));
        Self {
            state: Mutex::new(state),
        }
    }

    /// 64 bits.
    pub fn next(&self) -> u64 {
        let mut s = self.state.lock();
        let out = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&self, end: u64) -> u64 {
        // The high half of a 128-bit product: the bias is below 2^-32 for the ranges used here.
        let product = u128::from(self.next()) * u128::from(end);
        u64::try_from(product >> 64).expect("the high half fits")
    }

    /// Whether an event of this probability, in millionths, happens.
    pub fn chance(&self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    /// Heads or tails.
    pub fn coin(&self) -> bool {
        self.next() >> 63 == 1
    }

    /// Makes an independent generator, so that drawing from one does not shift the other.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::new(self.next())
    }
}

impl Rng for SimRng {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

fn splitmix64(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *x;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_from_its_seed_and_matches_the_published_generator() {
        // splitmix64 of seed 0 (Vigna's reference output) and xoshiro256** on the state 1, 2, 3, 4.
        let mut x = 0;
        assert_eq!(splitmix64(&mut x), 0xE220_A839_7B1D_CDAF);
        let known = SimRng {
            state: Mutex::new([1, 2, 3, 4]),
        };
        assert_eq!([known.next(), known.next()], [11520, 0]);
        assert_eq!(known.next(), 1_509_978_240);

        let (a, b) = (SimRng::new(7), SimRng::new(7));
        let mut bytes = [[0; 21]; 2];
        a.fill(&mut bytes[0]);
        b.fill(&mut bytes[1]);
        assert_eq!(bytes[0], bytes[1]);
        assert_ne!(SimRng::new(8).next(), SimRng::new(7).next());
    }

    #[test]
    fn stays_below() {
        let rng = SimRng::new(1);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[usize::try_from(rng.below(10)).unwrap()] = true;
        }
        assert_eq!(seen, [true; 10]);
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0) && rng.chance(1_000_000));
    }
}
