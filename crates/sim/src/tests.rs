use crate::{Options, simulate};

/// Whatever a seed does, it does again.
#[test]
fn a_seed_repeats_itself() {
    let mut ops = 0;
    for seed in 0..12 {
        let (a, b) = (
            simulate(seed, &Options::default()),
            simulate(seed, &Options::default()),
        );
        assert_eq!(a, b, "seed {seed}");
        ops += a.ops;
    }
    // In some the power fails before there is anything.
    assert!(ops > 100, "{ops}");
}

/// Also where it fails: the command that is printed brings the same failure about again.
#[test]
fn a_failure_repeats_itself() {
    let options = Options {
        shown: false,
        sabotage: Some("durable writes of the journal".to_owned()),
    };
    let failed = (0..40).find_map(|seed| {
        let report = simulate(seed, &options);
        report.failure.is_some().then_some((seed, report))
    });
    let (seed, report) = failed.expect("a journal that is not durable is noticed");
    assert_eq!(simulate(seed, &options), report, "seed {seed}");
}
