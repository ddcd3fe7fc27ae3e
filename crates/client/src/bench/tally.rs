//! The counters of a step: operations, errors, bytes, keys and latencies.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::plan::BenchVerb;

/// A latency longer than a day is reported as a day.
const NS_MAX: u64 = 86_400_000_000_000;

/// Latencies with three significant digits, from nanoseconds up.
#[derive(Clone, Debug)]
pub(super) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(super) fn new() -> Self {
        let digits = 3;
        Self(Histogram::new(digits).expect("three digits are within the histogram's limits"))
    }

    pub(super) fn record(&mut self, latency: Duration) {
        let ns = u64::try_from(latency.as_nanos())
            .unwrap_or(u64::MAX)
            .clamp(1, NS_MAX);
        self.0
            .record(ns)
            .expect("an auto-resizing histogram takes a day");
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.0
            .add(&other.0)
            .expect("an auto-resizing histogram takes any other");
    }

    /// The latency that a share `quantile` (0 to 1) of all operations does not exceed, in ms;
    /// `None` if there are none.
    pub(super) fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile) as f64 / 1e6)
    }

    pub(super) fn max_ms(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.max() as f64 / 1e6)
    }

    pub(super) fn mean_ms(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.mean() / 1e6)
    }
}

/// The counts of one verb.
#[derive(Clone, Debug)]
pub(super) struct VerbTally {
    /// Operations that succeeded.
    pub(super) ops: u64,
    /// Bytes of object content moved by them.
    pub(super) bytes: u64,
    /// Keys listed.
    pub(super) keys: u64,
    /// Operations that failed; they are in none of the other counts.
    pub(super) errors: u64,
    pub(super) latencies: Latencies,
}

/// The counts of a worker, or of all workers of a step.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) verbs: BTreeMap<BenchVerb, VerbTally>,
    /// Errors by kind.
    pub(super) errors: BTreeMap<String, u64>,
    /// One error of each kind in full.
    pub(super) examples: BTreeMap<String, String>,
    /// Requests sent again on a new connection.
    pub(super) resent: u64,
}

impl VerbTally {
    fn new() -> Self {
        Self {
            ops: 0,
            bytes: 0,
            keys: 0,
            errors: 0,
            latencies: Latencies::new(),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.keys += other.keys;
        self.errors += other.errors;
        self.latencies.merge(&other.latencies);
    }
}

impl Tally {
    pub(super) fn succeed(&mut self, verb: BenchVerb, latency: Duration, bytes: u64, keys: u64) {
        let tally = self.verbs.entry(verb).or_insert_with(VerbTally::new);
        tally.ops += 1;
        tally.bytes += bytes;
        tally.keys += keys;
        tally.latencies.record(latency);
    }

    pub(super) fn fail(&mut self, verb: BenchVerb, kind: &str, full: impl FnOnce() -> String) {
        self.verbs.entry(verb).or_insert_with(VerbTally::new).errors += 1;
        if let Some(count) = self.errors.get_mut(kind) {
            *count += 1;
        } else {
            self.errors.insert(kind.to_owned(), 1);
            self.examples.insert(kind.to_owned(), full());
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (verb, tally) in &other.verbs {
            self.verbs
                .entry(*verb)
                .or_insert_with(VerbTally::new)
                .merge(tally);
        }
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        for (kind, example) in &other.examples {
            self.examples
                .entry(kind.clone())
                .or_insert_with(|| example.clone());
        }
        self.resent += other.resent;
    }

    /// All verbs together.
    pub(super) fn total(&self) -> VerbTally {
        let mut total = VerbTally::new();
        self.verbs.values().for_each(|tally| total.merge(tally));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let (mut odd, mut even) = (Latencies::new(), Latencies::new());
        for us in 1..=100_000_u64 {
            let half = if us % 2 == 1 { &mut odd } else { &mut even };
            half.record(Duration::from_micros(us));
        }
        odd.merge(&even);
        for (quantile, ms) in [
            (0.5, 50.0),
            (0.9, 90.0),
            (0.99, 99.0),
            (0.999, 99.9),
            (1.0, 100.0),
        ] {
            let found = odd.quantile_ms(quantile).unwrap();
            assert!(
                (found / ms - 1.0).abs() < 0.002,
                "{quantile}: {found} against {ms}"
            );
        }
        assert!((odd.mean_ms().unwrap() - 50.0).abs() < 0.1);
        assert_eq!(Latencies::new().quantile_ms(0.5), None);
        assert_eq!(Latencies::new().max_ms(), None);
    }

    #[test]
    fn the_extremes_are_kept() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::from_secs(3_600));
        assert!((latencies.max_ms().unwrap() / 3.6e6 - 1.0).abs() < 0.001);
        assert!(latencies.quantile_ms(0.5).unwrap() < 0.001);
    }

    #[test]
    fn workers_add_up() {
        let mut one = Tally::default();
        one.succeed(BenchVerb::Get, Duration::from_millis(1), 10, 0);
        one.fail(BenchVerb::Get, "503 SlowDown", || "first".to_owned());
        one.fail(BenchVerb::Put, "503 SlowDown", || {
            unreachable!("only the first is kept")
        });
        let mut two = one.clone();
        two.succeed(BenchVerb::List, Duration::from_millis(3), 0, 1_000);
        one.merge(&two);
        let total = one.total();
        assert_eq!(
            (total.ops, total.bytes, total.keys, total.errors),
            (3, 20, 1_000, 4)
        );
        assert_eq!(one.errors["503 SlowDown"], 4);
        assert_eq!(one.examples["503 SlowDown"], "first");
        assert_eq!(one.verbs[&BenchVerb::Put].ops, 0);
    }
}
