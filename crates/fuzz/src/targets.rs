//! Every `pub fn fuzz_*` of the workspace.

use std::path::Path;

use anyhow::{Context as _, Result};

/// A parser.
pub(crate) struct Target {
    /// The function's name without `fuzz_`.
    pub(crate) name: &'static str,
    pub(crate) run: fn(&[u8]),
}

/// All of them, by name.
pub(crate) const TARGETS: &[Target] = &[
    Target {
        name: "identity",
        run: dewar_data::pool::fuzz_identity,
    },
    Target {
        name: "slot",
        run: dewar_data::segment::fuzz_slot,
    },
];

/// Inputs to begin with: the files in `samples/NAME/` of this crate, and nothing at all.
pub(crate) fn samples(target: &Target) -> Result<Vec<Vec<u8>>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("samples")
        .join(target.name);
    let mut samples = vec![Vec::new()];
    if folder.exists() {
        let context = || format!("read {}", folder.display());
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(&folder).with_context(context)? {
            paths.push(entry.with_context(context)?.path());
        }
        paths.sort();
        for path in paths {
            samples.push(std::fs::read(&path).with_context(context)?);
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::{Plan, run};

    /// A moment of garbage for every parser, in every run of the tests.
    #[test]
    fn every_parser_takes_a_moment_of_garbage() {
        let dir = tempfile::tempdir().expect("a folder");
        for target in TARGETS {
            let limit = std::time::Duration::from_millis(150);
            let plan = Plan {
                seed: 1,
                limit,
                artifacts: dir.path(),
            };
            let samples = samples(target).expect("samples");
            let passed = run(target.name, target.run, &samples, &plan).expect("runs");
            assert!(passed.is_ok(), "{}: {passed:?}", target.name);
        }
    }

    #[test]
    fn targets_are_in_order_and_named_once() {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        assert!(
            names.is_sorted() && names.windows(2).all(|two| two[0] != two[1]),
            "{names:?}"
        );
    }
}
