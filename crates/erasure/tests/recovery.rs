//! Any k of k+m shards give back all the others, and calls that do not fit are refused by kind.

mod material;

use dewar_erasure::{Codec, Error};
use proptest::prelude::*;

const LAYOUTS: [(usize, usize); 9] = [
    (1, 0),
    (1, 1),
    (2, 1),
    (2, 2),
    (3, 2),
    (4, 2),
    (8, 3),
    (10, 4),
    (16, 4),
];

/// The shards of a last stripe: full units, one that ends early, then none.
fn stripe(codec: &Codec, unit: usize, rest: usize, seed: u64) -> Vec<Vec<u8>> {
    let k = codec.data_shards();
    let lengths: Vec<usize> = (0..k)
        .map(|j| rest.saturating_sub(j * unit).min(unit))
        .collect();
    let mut shards = material::data(seed, &lengths);
    let mut parity = vec![vec![0xee; rest.min(unit)]; codec.parity_shards()];
    codec
        .encode(
            &material::slices(&shards),
            &mut material::slices_mut(&mut parity),
        )
        .expect("lengths fit");
    shards.append(&mut parity);
    shards
}

/// Reconstructs all shards in `lost` from the others, which may be more than k.
fn check(codec: &Codec, shards: &[Vec<u8>], lost: u32) {
    let is_lost = |shard: &usize| lost >> shard & 1 != 0;
    let present: Vec<(usize, &[u8])> = (0..shards.len())
        .rev()
        .filter(|shard| !is_lost(shard))
        .map(|shard| (shard, shards[shard].as_slice()))
        .collect();
    let wanted: Vec<usize> = (0..shards.len()).filter(is_lost).collect();
    let mut found: Vec<Vec<u8>> = wanted
        .iter()
        .map(|&s| vec![0xee; shards[s].len()])
        .collect();
    codec
        .reconstruct(&present, &wanted, &mut material::slices_mut(&mut found))
        .expect("k shards are left");
    for (&shard, found) in wanted.iter().zip(&found) {
        assert!(found == &shards[shard], "shard {shard} of lost {lost:b}");
    }
}

#[test]
fn every_loss_of_every_layout() {
    for (k, m) in LAYOUTS {
        let codec = Codec::new(k, m).expect("a layout of the format");
        for (unit, rest) in [(67, 67 * k), (67, 67 * (k - 1) + 5), (67, 9)] {
            let shards = stripe(&codec, unit, rest, (k * 100 + m) as u64);
            for lost in (0..1u32 << (k + m)).filter(|lost| lost.count_ones() as usize <= m) {
                check(&codec, &shards, lost);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any layout, stripe and loss; outputs in any order; a stretch from the middle of a unit.
    #[test]
    fn any_loss_any_order_any_stretch(
        k in 1usize..=16,
        m in 0usize..=4,
        unit in 1usize..700,
        seed in 0..u64::MAX / 2,
    ) {
        let mut random = material::Stream::new(seed);
        let codec = Codec::new(k, m).expect("a layout of the format");
        let rest = 1 + random.below(unit * k);
        let shards = stripe(&codec, unit, rest, seed);
        let mut order: Vec<usize> = (0..k + m).collect();
        for n in (1..order.len()).rev() {
            order.swap(n, random.below(n + 1));
        }
        let (wanted, present) = order.split_at(random.below(m + 1));

        let start = random.below(unit.min(rest));
        let end = start + random.below(unit - start + 1);
        let stretch = |shard: usize| {
            let bytes = &shards[shard];
            &bytes[start.min(bytes.len())..end.min(bytes.len())]
        };
        let present: Vec<(usize, &[u8])> = present.iter().map(|&s| (s, stretch(s))).collect();
        let mut found: Vec<Vec<u8>> =
            wanted.iter().map(|&s| vec![0xee; stretch(s).len()]).collect();
        codec
            .reconstruct(&present, wanted, &mut material::slices_mut(&mut found))
            .expect("k shards are left");
        for (&shard, found) in wanted.iter().zip(&found) {
            prop_assert_eq!(found.as_slice(), stretch(shard));
        }
    }
}

/// One codec, many threads, more patterns than it keeps.
#[test]
fn patterns_may_be_asked_for_by_many_threads() {
    let codec = Codec::new(8, 3).expect("8+3");
    let shards = stripe(&codec, 40, 320, 7);
    std::thread::scope(|scope| {
        for start in 0..4u32 {
            let (codec, shards) = (&codec, &shards);
            scope.spawn(move || {
                for n in 0..1u32 << 11 {
                    let lost = n.wrapping_add(start << 9) & ((1 << 11) - 1);
                    if lost.count_ones() <= 3 {
                        check(codec, shards, lost);
                    }
                }
            });
        }
    });
}

/// With one data shard and one parity shard the second is a copy of the first; further parity
/// shards are the data times a constant.
#[test]
fn one_plus_one_is_a_mirror() {
    let codec = Codec::new(1, 4).expect("1+4");
    let data: Vec<u8> = (0..=255).collect();
    let mut parity = vec![vec![0; 256]; 4];
    codec
        .encode(&[&data], &mut material::slices_mut(&mut parity))
        .expect("lengths fit");
    assert_eq!(parity[0], data);
    assert_eq!(
        parity.iter().map(|shard| shard[1]).collect::<Vec<_>>(),
        [0x01, 0x8e, 0xf4, 0x47]
    );
}

#[test]
fn refuses_layouts_outside_the_format() {
    for (k, m) in [(0, 0), (0, 2), (17, 0), (4, 5), (usize::MAX, usize::MAX)] {
        let error = Codec::new(k, m).map(|_| ()).expect_err("refused");
        assert_eq!(error, Error::Layout { k, m });
    }
}

#[test]
fn refuses_slices_that_do_not_fit() {
    let codec = Codec::new(2, 2).expect("2+2");
    let (a, b) = (&[1u8, 2, 3][..], &[4u8][..]);
    let mut one = [0; 3];
    let mut two = [0; 3];
    let mut short = [0; 2];
    assert_eq!(
        codec.encode(&[a], &mut [&mut one, &mut two]),
        Err(Error::DataCount {
            expected: 2,
            got: 1
        })
    );
    assert_eq!(
        codec.encode(&[a, b], &mut [&mut one]),
        Err(Error::ParityCount {
            expected: 2,
            got: 1
        })
    );
    assert_eq!(
        codec.encode(&[a, b], &mut [&mut one, &mut short]),
        Err(Error::ParityLength {
            shard: 3,
            expected: 3,
            got: 2
        })
    );
    assert_eq!(one, [0; 3], "a refused call writes nothing");
    codec
        .encode(&[a, b], &mut [&mut one, &mut two])
        .expect("fits");

    let mut out = [0; 3];
    let mut long = [0; 4];
    assert_eq!(
        codec.reconstruct(&[(2, &one)], &[0], &mut [&mut out]),
        Err(Error::TooFewShards { needed: 2, got: 1 })
    );
    assert_eq!(
        codec.reconstruct(&[(2, &one), (4, &two)], &[0], &mut [&mut out]),
        Err(Error::ShardIndex {
            shard: 4,
            shards: 4
        })
    );
    assert_eq!(
        codec.reconstruct(&[(2, &one), (2, &one)], &[0], &mut [&mut out]),
        Err(Error::ShardTwice { shard: 2 })
    );
    assert_eq!(
        codec.reconstruct(&[(2, &one), (3, &two)], &[2], &mut [&mut out]),
        Err(Error::ShardTwice { shard: 2 })
    );
    assert_eq!(
        codec.reconstruct(&[(2, &one), (3, &two)], &[usize::MAX], &mut [&mut out]),
        Err(Error::ShardIndex {
            shard: usize::MAX,
            shards: 4
        })
    );
    assert_eq!(
        codec.reconstruct(&[(2, &one), (3, &two)], &[0, 1], &mut [&mut out]),
        Err(Error::OutputCount {
            wanted: 2,
            outputs: 1
        })
    );
    assert_eq!(
        codec.reconstruct(&[(2, &one), (3, &two)], &[0], &mut [&mut long]),
        Err(Error::OutputLength {
            shard: 0,
            longest: 3,
            got: 4
        })
    );
    assert_eq!(out, [0; 3], "a refused call writes nothing");
    codec
        .reconstruct(&[(2, &one), (3, &two)], &[0], &mut [&mut out])
        .expect("fits");
    assert_eq!(out, [1, 2, 3]);
}

#[test]
fn nothing_to_do_is_done() {
    let codec = Codec::new(3, 0).expect("3+0");
    codec
        .encode(&[b"abc", b"de", b""], &mut [])
        .expect("no parity to write");
    codec
        .reconstruct(&[(0, b"a"), (1, b"b"), (2, b"c")], &[], &mut [])
        .expect("none wanted");
    let codec = Codec::new(2, 1).expect("2+1");
    codec
        .encode(&[b"", b""], &mut [&mut []])
        .expect("an empty stripe");
    let mut out: [u8; 0] = [];
    codec
        .reconstruct(&[(1, b""), (2, b"")], &[0], &mut [&mut out])
        .expect("an empty stripe");
}
