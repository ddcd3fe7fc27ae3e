use crate::{Options, simulate};

/// Whatever a seed does, it does again.
#[test]
fn a_seed_repeats_itself() {
    for seed in 0..12 {
        let (a, b) = (
            simulate(seed, &Options::default()),
            simulate(seed, &Options::default()),
        );
        assert_eq!(a, b, "seed {seed}");
        assert!(a.ops > 0);
    }
}
