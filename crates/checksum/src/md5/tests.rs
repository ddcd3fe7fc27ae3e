use super::simd_lanes::Instructions;
use super::{Md5, many, md5, md5_many};
use ::md5::Digest;
use proptest::prelude::*;

fn reference(data: &[u8]) -> [u8; 16] {
    ::md5::Md5::digest(data).into()
}

fn hex(digest: [u8; 16]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn all_instructions() -> Vec<Instructions> {
    let mut all = vec![Instructions::Plain];
    #[cfg(target_arch = "x86_64")]
    all.extend([Instructions::Avx2, Instructions::Avx512]);
    all.retain(|instructions| {
        let available = instructions.available();
        if !available {
            eprintln!("skipped, this machine lacks them: {instructions:?}");
        }
        available
    });
    all
}

/// RFC 1321, appendix A.5.
const SUITE: [(&str, &str); 7] = [
    ("", "d41d8cd98f00b204e9800998ecf8427e"),
    ("a", "0cc175b9c0f1b6a831c399e269772661"),
    ("abc", "900150983cd24fb0d6963f7d28e17f72"),
    ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
    (
        "abcdefghijklmnopqrstuvwxyz",
        "c3fcd3d76192e4007dfb496cca67e13b",
    ),
    (
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
        "d174ab98d277d9f5a5611c2c9f419d9f",
    ),
    (
        "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
        "57edf4a22be3c955ac49da2e2107b67a",
    ),
];

#[test]
fn rfc_1321_suite() {
    let inputs: Vec<&[u8]> = SUITE.iter().map(|(input, _)| input.as_bytes()).collect();
    for (input, expected) in SUITE {
        assert_eq!(hex(md5(input.as_bytes())), expected);
    }
    let together = md5_many(&inputs);
    for ((_, expected), digest) in SUITE.iter().zip(together) {
        assert_eq!(hex(digest), *expected);
    }
}

#[test]
fn every_length_around_the_block_edges() {
    let data: Vec<u8> = (0..300u16).map(|i| (i * 7) as u8).collect();
    for length in 0..data.len() {
        assert_eq!(md5(&data[..length]), reference(&data[..length]), "{length}");
    }
}

/// Every kernel with every number of lanes, each of another length and content.
#[test]
fn every_kernel_with_every_number_of_lanes() {
    for instructions in all_instructions() {
        for count in 0..=40usize {
            let inputs: Vec<Vec<u8>> = (0..count)
                .map(|i| {
                    (0..(i * 997) % 1500)
                        .map(|j| (i * 31 + j * j) as u8)
                        .collect()
                })
                .collect();
            let views: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            let expected: Vec<[u8; 16]> = views.iter().map(|input| reference(input)).collect();
            assert_eq!(
                many(instructions, &views),
                expected,
                "{instructions:?} {count}"
            );
        }
    }
}

/// The same length in all lanes keeps the widest kernel busy to the end.
#[test]
fn full_lanes_of_equal_length() {
    for instructions in all_instructions() {
        for count in [2usize, 7, 8, 9, 16] {
            let inputs: Vec<Vec<u8>> = (0..count)
                .map(|i| {
                    (0..4096)
                        .map(|j| (i * 131 + j * 17 + j / 64) as u8)
                        .collect()
                })
                .collect();
            let views: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            let expected: Vec<[u8; 16]> = views.iter().map(|input| reference(input)).collect();
            assert_eq!(
                many(instructions, &views),
                expected,
                "{instructions:?} {count}"
            );
        }
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same(
        data in proptest::collection::vec(any::<u8>(), 0..2000),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(data.len() + 1)).collect();
        cuts.sort_unstable();
        let mut hasher = Md5::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([data.len()]) {
            hasher.update(&data[from..cut]);
            from = cut;
        }
        prop_assert_eq!(hasher.finish(), reference(&data));
    }

    #[test]
    fn lanes_of_any_lengths(
        inputs in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..1000), 0..40),
    ) {
        let views: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let expected: Vec<[u8; 16]> = views.iter().map(|input| reference(input)).collect();
        for instructions in all_instructions() {
            prop_assert_eq!(&many(instructions, &views), &expected);
        }
    }
}
