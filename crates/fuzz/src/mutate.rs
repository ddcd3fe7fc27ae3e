//! Makes inputs from samples: the small damages that find most mistakes of parsers.

/// Longest input.
pub(crate) const INPUT_BYTES_MAX: usize = 8 << 10;

/// Numbers on the edges of something.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

/// Bits of text that parsers look for.
const TOKENS: [&[u8]; 24] = [
    b"\r\n",
    b"\n",
    b"\0",
    b"0",
    b"-1",
    b"-",
    b"=",
    b";",
    b",",
    b":",
    b"/",
    b"..",
    b"%",
    b"%00",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b"<",
    b"&",
    b"ffffffffffffffff",
    b"\xff\xff",
    b"\xc3\x28",
];

/// Well mixed numbers that follow from a seed (SplitMix64): a failure must be repeatable.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    fn below(&mut self, limit: usize) -> usize {
        let wide = u128::from(self.next()) * limit as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// A damaged copy of one of `samples`, of which there must be one at least.
pub(crate) fn input(samples: &[Vec<u8>], random: &mut Random, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(random.pick::<Vec<u8>>(samples));
    // Mostly little damage, sometimes much.
    let times = 1
        + random.below(3)
        + if random.below(8) == 0 {
            random.below(30)
        } else {
            0
        };
    for _ in 0..times {
        damage(samples, random, out);
    }
    out.truncate(INPUT_BYTES_MAX);
}

fn damage(samples: &[Vec<u8>], random: &mut Random, out: &mut Vec<u8>) {
    let at = random.below(out.len() + 1).min(out.len());
    let some = |random: &mut Random, most: usize| {
        let few = 1 + random.below(8);
        if random.below(4) == 0 {
            1 + random.below(most.max(1))
        } else {
            few
        }
    };
    match random.below(9) {
        0 if at < out.len() => out[at] ^= 1 << random.below(8),
        1 if at < out.len() => out[at] = random.next() as u8,
        2 => {
            let edge = *random.pick(&EDGES);
            let width = 1 << random.below(4);
            let (little, big) = (edge.to_le_bytes(), edge.to_be_bytes());
            let bytes = if random.below(2) == 0 {
                &little[..width]
            } else {
                &big[8 - width..]
            };
            for (place, byte) in out.iter_mut().skip(at).zip(bytes) {
                *place = *byte;
            }
        }
        3 => out.truncate(at),
        4 => {
            let len = some(random, out.len()).min(out.len() - at);
            out.drain(at..at + len);
        }
        5 => {
            let count = some(random, 64);
            let bytes: Vec<u8> = (0..count).map(|_| random.next() as u8).collect();
            out.splice(at..at, bytes);
        }
        6 => {
            let token = *random.pick(&TOKENS);
            out.splice(at..at, token.iter().copied());
        }
        7 => {
            let len = some(random, out.len()).min(out.len() - at);
            let again = out[at..at + len].to_vec();
            out.splice(at..at, again);
        }
        _ => {
            let other = random.pick(samples);
            let from = random.below(other.len() + 1).min(other.len());
            out.truncate(at);
            out.extend_from_slice(&other[from..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_many_and_bounded() {
        let samples = vec![
            Vec::new(),
            b"hello world".to_vec(),
            vec![7; INPUT_BYTES_MAX],
        ];
        let (mut random, mut out) = (Random::new(3), Vec::new());
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..5_000 {
            input(&samples, &mut random, &mut out);
            assert!(out.len() <= INPUT_BYTES_MAX);
            seen.insert(out.clone());
        }
        assert!(seen.len() > 3_000, "{}", seen.len());
        assert!(
            seen.iter()
                .any(|input| input.starts_with(b"hello") && input.len() == 11)
        );
    }
}
