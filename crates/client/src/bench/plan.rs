//! The steps of a campaign.
//!
//! A step is one workload at one size and one concurrency. Steps come from a cross product
//! (`--workloads` x `--sizes` x `--concurrency`), from a list (`--steps`), or from a named suite.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};

use super::args::LoadArgs;
use super::size::ByteSize;

/// The kind of one request, or of one series of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum BenchVerb {
    /// A new object, in one request.
    Put,
    /// A whole object.
    Get,
    /// A few bytes at a random place of an object.
    Range,
    /// An object's metadata.
    Head,
    /// One page of a listing.
    List,
    /// An object's removal.
    Delete,
    /// A new object, in parts.
    Multipart,
}

/// The workload of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Workload {
    One(BenchVerb),
    /// Several verbs by weight.
    Mixed,
}

/// How long a step lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Limit {
    Requests(u64),
    Seconds(f64),
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) workload: Workload,
    pub(super) size: ByteSize,
    pub(super) concurrency: u32,
    pub(super) limit: Limit,
    /// Objects that must exist before a step that reads, lists or deletes.
    pub(super) objects: u64,
}

/// A ready-made list of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Suite {
    /// The workloads of the table in docs/performance.md, at its sizes and concurrencies.
    Table,
    /// Writes and reads of 1, 10 and 100 MB by 1 to 100 connections: the load campaign by which
    /// science sites compare their stores.
    Campaign,
}

/// The best unit for the CPU of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Gigabyte,
    ThousandOps,
    HundredThousandKeys,
}

impl Unit {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Gigabyte => "s/GB",
            Self::ThousandOps => "s/1k",
            Self::HundredThousandKeys => "s/100k keys",
        }
    }
}

/// Objects of at most this size are measured by the request, larger ones by the byte.
const SMALL_BYTES: u64 = 64 << 10;

impl Step {
    /// The best unit for its CPU.
    pub(super) fn unit(&self) -> Unit {
        match self.workload {
            Workload::One(BenchVerb::List) => Unit::HundredThousandKeys,
            Workload::One(BenchVerb::Head | BenchVerb::Delete | BenchVerb::Range)
            | Workload::Mixed => Unit::ThousandOps,
            Workload::One(BenchVerb::Put | BenchVerb::Get | BenchVerb::Multipart) => {
                if self.size.0 <= SMALL_BYTES {
                    Unit::ThousandOps
                } else {
                    Unit::Gigabyte
                }
            }
        }
    }

    /// Whether it writes the objects of its size anew.
    pub(super) fn fills(&self) -> bool {
        matches!(
            self.workload,
            Workload::One(BenchVerb::Put | BenchVerb::Multipart)
        )
    }
}

impl BenchVerb {
    /// Its name on the command line and in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Range => "range",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Multipart => "multipart",
        }
    }
}

impl FromStr for BenchVerb {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        use clap::ValueEnum as _;
        let all = Self::value_variants();
        all.iter()
            .find(|verb| verb.name() == text)
            .copied()
            .ok_or_else(|| {
                let names: Vec<_> = all.iter().map(|verb| verb.name()).collect();
                format!("{text:?} is none of {}", names.join(", "))
            })
    }
}

impl Workload {
    /// Its name on the command line and in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::One(verb) => verb.name(),
            Self::Mixed => "mixed",
        }
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "mixed" {
            return Ok(Self::Mixed);
        }
        text.parse()
            .map(Self::One)
            .map_err(|e: String| format!("{e}, mixed"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} x{}",
            self.workload.name(),
            self.size,
            self.concurrency
        )
    }
}

impl FromStr for Step {
    type Err = String;

    /// `WORKLOAD:SIZE:CONCURRENCY:REQUESTS[:OBJECTS]`, REQUESTS as `5000` or `30s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split(':').collect();
        let [workload, size, concurrency, limit, objects @ ..] = &parts[..] else {
            return Err(format!(
                "{text:?} is not WORKLOAD:SIZE:CONCURRENCY:REQUESTS[:OBJECTS]"
            ));
        };
        let number = |text: &str| {
            text.parse::<u64>()
                .ok()
                .filter(|n| *n > 0)
                .ok_or_else(|| format!("{text:?} is no count"))
        };
        let limit = match limit.strip_suffix('s') {
            Some(seconds) => match seconds.parse::<f64>() {
                Ok(seconds) if seconds > 0.0 && seconds.is_finite() => Limit::Seconds(seconds),
                _ => return Err(format!("{seconds:?} is no time in seconds")),
            },
            None => Limit::Requests(number(limit)?),
        };
        let size: ByteSize = size
            .parse()
            .map_err(|e: super::size::BadSize| e.to_string())?;
        let objects = match (objects, limit) {
            ([], Limit::Requests(requests)) => requests,
            ([], Limit::Seconds(_)) => default_objects(size),
            ([objects], _) => number(objects)?,
            _ => return Err(format!("{text:?} has too many parts")),
        };
        let concurrency = u32::try_from(number(concurrency)?).map_err(|e| e.to_string())?;
        Ok(Self {
            workload: workload.parse()?,
            size,
            concurrency,
            limit,
            objects,
        })
    }
}

/// The default number of objects of a step: about 1 GB, from 16 to 5,000.
fn default_objects(size: ByteSize) -> u64 {
    (1_000_000_000 / size.0.max(1)).clamp(16, 5_000)
}

/// Requests that read: about 4 GB, from 64 to 20,000.
fn default_reads(size: ByteSize) -> u64 {
    (4_000_000_000 / size.0.max(1)).clamp(64, 20_000)
}

/// The steps that the arguments describe, in order.
pub(super) fn plan(args: &LoadArgs) -> Result<Vec<Step>> {
    let steps = match (args.suite, args.steps.is_empty()) {
        (Some(_), false) => bail!("--suite and --steps exclude each other"),
        (Some(suite), true) => suite_steps(suite),
        (None, false) => args.steps.clone(),
        (None, true) => cross_product(args),
    };
    for step in &steps {
        if step.workload == Workload::One(BenchVerb::Range) && step.size < args.range_size {
            bail!("{step}: a range of {} does not fit", args.range_size);
        }
        if step.concurrency == 0 {
            bail!("{step}: no worker is left to do it");
        }
    }
    if steps.is_empty() {
        bail!("nothing to do: no workload, size or concurrency");
    }
    Ok(steps)
}

fn cross_product(args: &LoadArgs) -> Vec<Step> {
    let mut steps = Vec::new();
    for &size in &args.sizes {
        for &concurrency in &args.concurrency {
            for &workload in &args.workloads {
                // What a page of a listing costs does not depend on the objects' size.
                if workload == Workload::One(BenchVerb::List)
                    && Some(&size) != args.sizes.iter().min()
                {
                    continue;
                }
                let objects = args.objects.unwrap_or_else(|| default_objects(size));
                let requests = match workload {
                    Workload::One(BenchVerb::Put | BenchVerb::Delete | BenchVerb::Multipart) => {
                        objects
                    }
                    Workload::One(BenchVerb::List) => args.requests.unwrap_or(500),
                    Workload::One(BenchVerb::Head) => args.requests.unwrap_or(20_000),
                    Workload::One(BenchVerb::Range) => args
                        .requests
                        .unwrap_or_else(|| default_reads(args.range_size)),
                    Workload::One(BenchVerb::Get) | Workload::Mixed => {
                        args.requests.unwrap_or_else(|| default_reads(size))
                    }
                };
                let limit = args
                    .duration
                    .map_or(Limit::Requests(requests), Limit::Seconds);
                steps.push(Step {
                    workload,
                    size,
                    concurrency,
                    limit,
                    objects,
                });
            }
        }
    }
    steps
}

fn suite_steps(suite: Suite) -> Vec<Step> {
    let texts: &[&str] = match suite {
        Suite::Table => &[
            "put:4k:16:10000",
            "get:4k:16:40000:10000",
            "head:4k:16:40000:10000",
            "list:4k:1:500:10000",
            "delete:4k:16:10000",
            "put:1m:8:1000",
            "get:1m:8:4000:1000",
            "put:10mb:8:150",
            "get:10mb:8:600:150",
            "multipart:100mb:4:16",
            "get:100mb:4:60:16",
            "range:1g:16:40000:1",
        ],
        Suite::Campaign => {
            let steps = [("1mb", 1_000), ("10mb", 200), ("100mb", 100)].into_iter();
            return steps
                .flat_map(|(size, objects)| {
                    [1, 5, 10, 25, 50, 75, 100]
                        .into_iter()
                        .flat_map(move |connections| {
                            ["put", "get"]
                                .map(|verb| format!("{verb}:{size}:{connections}:{objects}"))
                        })
                })
                .map(|text| text.parse().expect("the suites are well formed"))
                .collect();
        }
    };
    texts
        .iter()
        .map(|text| text.parse().expect("the suites are well formed"))
        .collect()
}

/// How often a mixed workload does what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mix(Vec<(BenchVerb, u64)>);

impl FromStr for Mix {
    type Err = String;

    /// `get=70,put=20,head=5,delete=5`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut weights = Vec::new();
        for part in text.split(',') {
            let (verb, weight) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} is not VERB=WEIGHT"))?;
            let weight: u32 = weight
                .parse()
                .map_err(|e| format!("weight {weight:?}: {e}"))?;
            let verb: BenchVerb = verb.parse()?;
            if weights.iter().any(|(other, _)| *other == verb) {
                return Err(format!("{} stands twice", verb.name()));
            }
            weights.push((verb, u64::from(weight)));
        }
        if weights.iter().all(|(_, weight)| *weight == 0) {
            return Err("no weight above 0".to_owned());
        }
        Ok(Self(weights))
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self
            .0
            .iter()
            .map(|(v, weight)| format!("{}={weight}", v.name()))
            .collect();
        f.write_str(&parts.join(","))
    }
}

impl Mix {
    /// The sum of the weights.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|(_, weight)| weight).sum()
    }

    /// The verb whose share of the weights contains `point`, which must be below the total.
    pub(super) fn pick(&self, mut point: u64) -> BenchVerb {
        for (verb, weight) in &self.0 {
            if point < *weight {
                return *verb;
            }
            point -= weight;
        }
        unreachable!("a point below the total lies in somebody's share")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read() {
        let step: Step = "range:1g:16:40000:1".parse().unwrap();
        assert_eq!(step.to_string(), "range 1 GiB x16");
        assert_eq!((step.limit, step.objects), (Limit::Requests(40_000), 1));
        let step: Step = "put:4k:2:1.5s".parse().unwrap();
        assert_eq!((step.limit, step.objects), (Limit::Seconds(1.5), 5_000));
        for text in [
            "put:4k:2",
            "put:4k:0:1",
            "put:4k:1:0",
            "put:4k:1:1:1:1",
            "pet:4k:1:1",
        ] {
            assert!(text.parse::<Step>().is_err(), "{text}");
        }
    }

    #[test]
    fn suites_are_well_formed() {
        assert_eq!(suite_steps(Suite::Table).len(), 12);
        assert_eq!(suite_steps(Suite::Campaign).len(), 42);
    }

    #[test]
    fn a_mix_gives_each_verb_its_share() {
        let mix: Mix = "get=3,put=1,head=0".parse().unwrap();
        let picks: Vec<_> = (0..mix.total()).map(|point| mix.pick(point)).collect();
        assert_eq!(
            picks,
            [
                BenchVerb::Get,
                BenchVerb::Get,
                BenchVerb::Get,
                BenchVerb::Put
            ]
        );
        assert_eq!(mix.to_string(), "get=3,put=1,head=0");
        for text in ["", "get", "get=x", "get=0", "get=1,get=2", "mixed=1"] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
    }

    #[test]
    fn cpu_is_told_per_request_for_small_things_and_per_byte_for_large_ones() {
        let unit = |text: &str| text.parse::<Step>().unwrap().unit();
        assert_eq!(unit("put:4k:1:1"), Unit::ThousandOps);
        assert_eq!(unit("get:1m:1:1"), Unit::Gigabyte);
        assert_eq!(unit("range:1g:1:1"), Unit::ThousandOps);
        assert_eq!(unit("list:4k:1:1"), Unit::HundredThousandKeys);
    }
}
