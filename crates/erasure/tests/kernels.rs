//! Every kernel against the scalar one: any layout, lengths around every vector size, unaligned
//! slices, nothing written beside the outputs.

mod material;

use dewar_erasure::{Codec, DATA_SHARDS_MAX, Error, Kernel, PARITY_SHARDS_MAX};
use proptest::prelude::*;

/// Bytes around each output that must stay as they are.
const FENCE: usize = 80;

/// Encodes and then reconstructs the first lost shards, all slices at odd addresses and outputs
/// between fences; returns parity and what was reconstructed.
fn work(kernel: Kernel, m: usize, data: &[Vec<u8>], offset: usize) -> Vec<Vec<u8>> {
    let k = data.len();
    let codec = Codec::with_kernel(k, m, kernel).expect("a layout of the format");
    let moved: Vec<Vec<u8>> = data
        .iter()
        .map(|shard| [&vec![0x55; offset][..], shard].concat())
        .collect();
    let inputs: Vec<&[u8]> = moved.iter().map(|shard| &shard[offset..]).collect();
    let longest = material::longest(data);

    let fenced = |length: usize| vec![0xaa; FENCE + offset + length + FENCE];
    let inside = |length: usize| FENCE + offset..FENCE + offset + length;
    let check = |buffer: &Vec<u8>, length: usize| {
        let at = inside(length);
        let fence = buffer[..at.start].iter().chain(&buffer[at.end..]);
        assert!(
            fence.clone().all(|&byte| byte == 0xaa),
            "{kernel} wrote beside its output"
        );
        buffer[at].to_vec()
    };

    let mut parity = vec![fenced(longest); m];
    let mut outputs: Vec<&mut [u8]> = parity
        .iter_mut()
        .map(|buffer| &mut buffer[inside(longest)])
        .collect();
    codec.encode(&inputs, &mut outputs).expect("lengths fit");
    let parity: Vec<Vec<u8>> = parity.iter().map(|buffer| check(buffer, longest)).collect();

    let lost: Vec<usize> = (0..m.min(k)).rev().collect();
    let present: Vec<(usize, &[u8])> = (lost.len()..k)
        .map(|shard| (shard, inputs[shard]))
        .chain(
            parity
                .iter()
                .enumerate()
                .map(|(row, shard)| (k + row, shard.as_slice())),
        )
        .collect();
    let mut found: Vec<Vec<u8>> = lost.iter().map(|&s| fenced(data[s].len())).collect();
    let mut outputs: Vec<&mut [u8]> = found
        .iter_mut()
        .zip(&lost)
        .map(|(buffer, &s)| &mut buffer[inside(data[s].len())])
        .collect();
    codec
        .reconstruct(&present, &lost, &mut outputs)
        .expect("k shards are left");
    let found = found
        .iter()
        .zip(&lost)
        .map(|(buffer, &s)| check(buffer, data[s].len()));
    parity.iter().cloned().chain(found).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn all_equal_scalar(
        k in 1..=DATA_SHARDS_MAX,
        m in 0..=PARITY_SHARDS_MAX,
        length in prop_oneof![0usize..600, 3900usize..4300],
        ragged: bool,
        offset in 0usize..64,
        seed in 0..u64::MAX / 2,
    ) {
        let mut random = material::Stream::new(seed);
        let lengths: Vec<usize> = (0..k)
            .map(|_| if ragged { random.below(length + 1) } else { length })
            .collect();
        let data = material::data(seed, &lengths);
        let expected = work(Kernel::Scalar, m, &data, 0);
        for lost in (0..m.min(k)).rev() {
            let found = &expected[m + m.min(k) - 1 - lost];
            prop_assert_eq!(found, &data[lost], "scalar gives shard {} back", lost);
        }
        for kernel in Kernel::supported() {
            let got = work(kernel, m, &data, offset);
            prop_assert!(got == expected, "{} differs, lengths {:?}", kernel, lengths);
        }
    }
}

/// Every length from nothing to beyond two groups of the widest vectors, every output count.
#[test]
fn every_small_length() {
    for length in 0..=550 {
        let m = 1 + length % PARITY_SHARDS_MAX;
        let data = material::data(length as u64, &[length; 5]);
        let expected = work(Kernel::Scalar, m, &data, 0);
        for kernel in Kernel::supported() {
            assert!(
                work(kernel, m, &data, 1) == expected,
                "{kernel} length {length} m {m}"
            );
        }
    }
}

#[test]
fn says_which_kernels_run_here() {
    let here: Vec<Kernel> = Kernel::supported().collect();
    eprintln!("kernels of this processor: {here:?}");
    assert_eq!(here.last(), Some(&Kernel::Scalar));
    assert_eq!(Codec::new(4, 2).expect("4+2").kernel(), here[0]);
    for kernel in Kernel::ALL {
        let codec = Codec::with_kernel(4, 2, kernel);
        match here.contains(&kernel) {
            true => assert_eq!(codec.expect("supported").kernel(), kernel),
            false => {
                let error = codec.map(|_| ()).expect_err("not supported");
                assert_eq!(error, Error::KernelUnsupported(kernel));
            }
        }
    }
}
