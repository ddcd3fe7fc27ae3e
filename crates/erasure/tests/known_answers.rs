//! The parity of every kernel against answers that ISA-L computed once: this is what the disk
//! format is, so it holds without ISA-L and for ever.

mod material;

use dewar_erasure::{Codec, Kernel};

struct Answer {
    k: usize,
    m: usize,
    data: Vec<Vec<u8>>,
    parity: Vec<Vec<u8>>,
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |n: usize| u8::from_str_radix(&text[n..n + 2], 16).expect("two hex digits");
    (0..text.len()).step_by(2).map(digits).collect()
}

fn answers() -> Vec<Answer> {
    let lines = include_str!("../testdata/isal-cauchy.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [layout, seed, lengths, parity] = fields[..] else {
                panic!("not four fields: {line}")
            };
            let (k, m) = layout.split_once('+').expect("k+m");
            let lengths: Vec<usize> = lengths
                .split(',')
                .map(|text| text.parse().expect("a length"))
                .collect();
            Answer {
                k: k.parse().expect("k"),
                m: m.parse().expect("m"),
                data: material::data(seed.parse().expect("a seed"), &lengths),
                parity: parity.split(',').map(unhex).collect(),
            }
        })
        .collect()
}

#[test]
fn every_kernel_gives_the_parity_of_isa_l() {
    let answers = answers();
    assert!(answers.len() > 50, "the file is there and whole");
    for kernel in Kernel::supported() {
        for Answer { k, m, data, parity } in &answers {
            let codec = Codec::with_kernel(*k, *m, kernel).expect("a layout of the format");
            let mut got = vec![vec![0xee; material::longest(data)]; *m];
            codec
                .encode(&material::slices(data), &mut material::slices_mut(&mut got))
                .expect("lengths fit");
            assert_eq!(&got, parity, "{kernel} {k}+{m}");
        }
    }
}

#[test]
fn every_kernel_gives_the_data_back_from_the_parity_of_isa_l() {
    for kernel in Kernel::supported() {
        for Answer { k, m, data, parity } in &answers() {
            let codec = Codec::with_kernel(*k, *m, kernel).expect("a layout of the format");
            // The first min(k, m) data shards are lost.
            let lost: Vec<usize> = (0..*k.min(m)).collect();
            let here: Vec<(usize, &[u8])> = data
                .iter()
                .chain(parity)
                .map(Vec::as_slice)
                .enumerate()
                .skip(lost.len())
                .collect();
            let mut got: Vec<Vec<u8>> = lost.iter().map(|&s| vec![0xee; data[s].len()]).collect();
            codec
                .reconstruct(&here, &lost, &mut material::slices_mut(&mut got))
                .expect("k shards are left");
            assert_eq!(got[..], data[..lost.len()], "{kernel} {k}+{m}");
        }
    }
}

/// The worked stripe of docs/formats/erasure.md.
#[test]
fn the_documented_stripe() {
    let codec = Codec::new(4, 2).expect("4+2");
    let (mut p, mut q) = ([0], [0]);
    codec
        .encode(&[&[1], &[2], &[3], &[4]], &mut [&mut p, &mut q])
        .expect("lengths fit");
    assert_eq!((p, q), ([0x48], [0x0f]));
}
