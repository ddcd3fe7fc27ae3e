//! Random comparison with an installed ISA-L, beyond the checked-in answers. Without the library
//! the tests say so and pass, unless `DEWAR_ISAL` names one.

mod isal;
mod material;

use dewar_erasure::{Codec, DATA_SHARDS_MAX, Kernel, PARITY_SHARDS_MAX};
use isal::Isal;

fn library() -> Option<Isal> {
    match Isal::load() {
        Ok(isal) => Some(isal),
        Err(error) if std::env::var_os("DEWAR_ISAL").is_some() => {
            panic!("DEWAR_ISAL is set, but: {error}")
        }
        Err(error) => {
            eprintln!("SKIPPED: ISA-L is not installed (apt install libisal2): {error}");
            None
        }
    }
}

/// Unit data shards show the coefficients themselves: the whole matrix of every layout.
#[test]
fn matrices_are_the_same() {
    let Some(isal) = library() else { return };
    for k in 1..=DATA_SHARDS_MAX {
        for m in 1..=PARITY_SHARDS_MAX {
            let matrix = isal.cauchy(k, m);
            let codec = Codec::new(k, m).expect("a layout of the format");
            for j in 0..k {
                let mut data = vec![vec![0]; k];
                data[j][0] = 1;
                let mut parity = vec![vec![0]; m];
                codec
                    .encode(
                        &material::slices(&data),
                        &mut material::slices_mut(&mut parity),
                    )
                    .expect("lengths fit");
                for row in 0..m {
                    assert_eq!(
                        parity[row][0],
                        matrix[(k + row) * k + j],
                        "{k}+{m} row {row} {j}"
                    );
                }
            }
        }
    }
}

#[test]
fn random_parity_is_the_same() {
    let Some(isal) = library() else { return };
    let mut random = material::Stream::new(20);
    for round in 0..600 {
        let k = 1 + random.below(DATA_SHARDS_MAX);
        let m = random.below(PARITY_SHARDS_MAX + 1);
        let length = random.below(if round % 20 == 0 { 100_000 } else { 1500 });
        // Half of the rounds are a last stripe: some units end early.
        let lengths: Vec<usize> = (0..k)
            .map(|_| match round % 2 {
                0 => length,
                _ => random.below(length + 1),
            })
            .collect();
        let data = material::data(random.word() >> 1, &lengths);
        let expected = isal.encode(&data, m);
        for kernel in Kernel::supported() {
            let codec = Codec::with_kernel(k, m, kernel).expect("a layout of the format");
            let mut parity = vec![vec![0xee; material::longest(&data)]; m];
            codec
                .encode(
                    &material::slices(&data),
                    &mut material::slices_mut(&mut parity),
                )
                .expect("lengths fit");
            assert!(
                parity == expected,
                "{kernel} {k}+{m} lengths {lengths:?} round {round}"
            );
        }
    }
}
