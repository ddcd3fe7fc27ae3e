//! The results of a campaign for output: the schema of the JSON file, described in docs/bench.md.
//! Names end in their unit.

use std::collections::BTreeMap;

use serde::Serialize;

use super::args::S3Args;
use super::job::StepOutcome;
use super::plan::{Step, Unit};
use super::tally::{Tally, VerbTally};
use super::target::BenchTarget;

/// Version of the JSON schema.
pub(super) const SCHEMA: &str = "dewar-bench-1";

/// Least server CPU in seconds for a reliable figure. Less than this is counted in too few ticks of
/// 10 ms.
pub(super) const CPU_TRUSTED_S: f64 = 0.5;

/// Everything about one campaign.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Campaign {
    pub(super) schema: &'static str,
    pub(super) dewar_version: &'static str,
    pub(super) started_unix_s: u64,
    /// The command line. It never contains secrets.
    pub(super) command: Vec<String>,
    pub(super) host: Host,
    pub(super) settings: Settings,
    pub(super) targets: Vec<TargetInfo>,
    /// Every run of every step, in the order they were taken.
    pub(super) runs: Vec<StepRun>,
}

/// The machine the load came from.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Host {
    pub(super) cpus: usize,
    pub(super) cpu_model: String,
    pub(super) kernel: String,
    pub(super) memory_bytes: u64,
}

/// The settings of all steps.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Settings {
    pub(super) payload_mode: String,
    pub(super) verify: bool,
    pub(super) repeat: u32,
    pub(super) warmup_s: f64,
    pub(super) settle_s: f64,
    pub(super) deadline_s: f64,
    pub(super) part_bytes: u64,
    pub(super) range_bytes: u64,
    pub(super) page_keys: u32,
    pub(super) mix: String,
}

/// A target.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct TargetInfo {
    pub(super) name: String,
    pub(super) endpoints: Vec<String>,
    pub(super) bucket: String,
    pub(super) region: String,
    pub(super) pids: Vec<u32>,
    pub(super) children: bool,
}

/// One run of one step on one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct StepRun {
    /// Place of the step in the plan, from 0.
    pub(super) step: usize,
    pub(super) target: String,
    pub(super) workload: String,
    pub(super) size_bytes: u64,
    pub(super) concurrency: u32,
    pub(super) repeat: u32,
    pub(super) elapsed_s: f64,
    pub(super) ops: u64,
    pub(super) errors: u64,
    pub(super) resent: u64,
    pub(super) bytes: u64,
    pub(super) keys: u64,
    pub(super) ops_per_s: f64,
    pub(super) mb_per_s: f64,
    pub(super) keys_per_s: f64,
    pub(super) latency_ms: Latency,
    pub(super) client_cpu: Cpu,
    /// Absent if no process of the server is known.
    pub(super) server_cpu: Option<Cpu>,
    pub(super) server_rss_bytes: Option<u64>,
    pub(super) server_rss_peak_bytes: Option<u64>,
    /// The reason why the server's figures are missing although its processes were named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server_lost: Option<String>,
    pub(super) errors_by_kind: BTreeMap<String, u64>,
    /// One error of each kind in full.
    pub(super) error_examples: BTreeMap<String, String>,
    /// Each verb by itself; of interest for mixed workloads.
    pub(super) verbs: BTreeMap<String, VerbRun>,
    #[serde(skip)]
    pub(super) unit: Option<Unit>,
    #[serde(skip)]
    pub(super) label: String,
}

/// Latencies of the operations that succeeded; null if none did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Latency {
    pub(super) p50: Option<f64>,
    pub(super) p90: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) p99_9: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) mean: Option<f64>,
}

/// CPU time, total and by unit of work; a unit is null if none of it was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Cpu {
    pub(super) s: f64,
    pub(super) s_per_gb: Option<f64>,
    pub(super) s_per_1000_ops: Option<f64>,
    pub(super) s_per_100000_keys: Option<f64>,
}

/// One verb of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct VerbRun {
    pub(super) ops: u64,
    pub(super) errors: u64,
    pub(super) bytes: u64,
    pub(super) keys: u64,
    pub(super) latency_ms: Latency,
}

impl Campaign {
    pub(super) fn new(args: &S3Args, targets: &[BenchTarget], started_unix_s: u64) -> Self {
        let load = &args.load;
        let settings = Settings {
            payload_mode: load.payload_mode.name().to_owned(),
            verify: load.verify,
            repeat: load.repeat,
            warmup_s: load.warmup,
            settle_s: load.settle,
            deadline_s: load.deadline,
            part_bytes: load.part_size.0,
            range_bytes: load.range_size.0,
            page_keys: load.page_keys,
            mix: load.mix.to_string(),
        };
        Self {
            schema: SCHEMA,
            dewar_version: env!("CARGO_PKG_VERSION"),
            started_unix_s,
            command: std::env::args().collect(),
            host: Host::read(),
            settings,
            targets: targets.iter().map(TargetInfo::new).collect(),
            runs: Vec::new(),
        }
    }

    /// Errors of all runs.
    pub(super) fn errors(&self) -> u64 {
        self.runs.iter().map(|run| run.errors).sum()
    }

    /// All runs of one step on one target, by repeat.
    pub(super) fn repeats<'a>(
        &'a self,
        step: usize,
        target: &'a str,
    ) -> impl Iterator<Item = &'a StepRun> {
        self.runs
            .iter()
            .filter(move |run| run.step == step && run.target == target)
    }

    /// How many steps have been run.
    pub(super) fn steps(&self) -> usize {
        self.runs.iter().map(|run| run.step + 1).max().unwrap_or(0)
    }
}

impl Host {
    fn read() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(|line| line.trim_start_matches([' ', '\t', ':']).to_owned())
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal:");
        let memory = memory.and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok());
        Self {
            cpus: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            cpu_model: value(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            memory_bytes: memory.unwrap_or(0) * 1_024,
        }
    }
}

impl TargetInfo {
    fn new(target: &BenchTarget) -> Self {
        Self {
            name: target.name.clone(),
            endpoints: target
                .transports
                .iter()
                .map(|it| it.endpoint.to_string())
                .collect(),
            bucket: target.access.bucket.clone(),
            region: target.access.region.clone(),
            pids: target.processes.pids.clone(),
            children: target.processes.children,
        }
    }
}

impl Latency {
    fn of(tally: &VerbTally) -> Self {
        let all = &tally.latencies;
        Self {
            p50: all.quantile_ms(0.5),
            p90: all.quantile_ms(0.9),
            p99: all.quantile_ms(0.99),
            p99_9: all.quantile_ms(0.999),
            max: all.max_ms(),
            mean: all.mean_ms(),
        }
    }
}

impl Cpu {
    pub(super) fn new(s: f64, tally: &VerbTally) -> Self {
        let per = |count: u64, unit: f64| (count > 0).then(|| s / (count as f64 / unit));
        Self {
            s,
            s_per_gb: per(tally.bytes, 1e9),
            s_per_1000_ops: per(tally.ops, 1e3),
            s_per_100000_keys: per(tally.keys, 1e5),
        }
    }

    /// The figure in one of the units.
    pub(super) fn per(&self, unit: Unit) -> Option<f64> {
        match unit {
            Unit::Gigabyte => self.s_per_gb,
            Unit::ThousandOps => self.s_per_1000_ops,
            Unit::HundredThousandKeys => self.s_per_100000_keys,
        }
    }
}

impl StepRun {
    pub(super) fn new(
        index: usize,
        step: &Step,
        repeat: u32,
        target: &str,
        outcome: &StepOutcome,
    ) -> Self {
        let Tally {
            verbs,
            errors,
            examples,
            resent,
        } = &outcome.tally;
        let total = outcome.tally.total();
        let elapsed_s = outcome.elapsed.as_secs_f64();
        let rate = |count: u64| {
            if elapsed_s > 0.0 {
                count as f64 / elapsed_s
            } else {
                0.0
            }
        };
        let server = outcome.server.as_ref();
        let verb_run = |tally: &VerbTally| VerbRun {
            ops: tally.ops,
            errors: tally.errors,
            bytes: tally.bytes,
            keys: tally.keys,
            latency_ms: Latency::of(tally),
        };
        Self {
            step: index,
            target: target.to_owned(),
            workload: step.workload.name().to_owned(),
            size_bytes: step.size.0,
            concurrency: step.concurrency,
            repeat,
            elapsed_s,
            ops: total.ops,
            errors: total.errors,
            resent: *resent,
            bytes: total.bytes,
            keys: total.keys,
            ops_per_s: rate(total.ops),
            mb_per_s: rate(total.bytes) / 1e6,
            keys_per_s: rate(total.keys),
            latency_ms: Latency::of(&total),
            client_cpu: Cpu::new(outcome.client_cpu.as_secs_f64(), &total),
            server_cpu: server
                .map(|(before, after)| Cpu::new((after.cpu_s - before.cpu_s).max(0.0), &total)),
            server_rss_bytes: server.map(|(_, after)| after.rss_bytes),
            server_rss_peak_bytes: server.map(|(_, after)| after.rss_peak_bytes),
            server_lost: outcome.server_lost.clone(),
            errors_by_kind: errors.clone(),
            error_examples: examples.clone(),
            verbs: verbs
                .iter()
                .map(|(verb, tally)| (verb.name().to_owned(), verb_run(tally)))
                .collect(),
            unit: Some(step.unit()),
            label: step.to_string(),
        }
    }

    /// The best unit for the CPU of this run.
    pub(super) fn unit(&self) -> Unit {
        self.unit.unwrap_or(Unit::ThousandOps)
    }

    /// Whether the server's CPU was counted in too few ticks to be trusted.
    pub(super) fn server_cpu_is_coarse(&self) -> bool {
        self.server_cpu.is_some_and(|cpu| cpu.s < CPU_TRUSTED_S)
    }

    /// One line for people who wait.
    pub(super) fn summary(&self) -> String {
        let mut line = format!(
            "{} on {}: {:.0} ops/s",
            self.label, self.target, self.ops_per_s
        );
        if self.bytes > 0 {
            line += &format!(", {:.1} MB/s", self.mb_per_s);
        }
        if let Some(p50) = self.latency_ms.p50 {
            line += &format!(", p50 {p50:.3} ms");
        }
        if self.errors > 0 {
            line += &format!(", {} ERRORS", self.errors);
        }
        for (kind, example) in &self.error_examples {
            let count = self.errors_by_kind.get(kind).copied().unwrap_or(0);
            line += &format!("\n    {count} x {kind}: {example}");
        }
        if let Some(lost) = &self.server_lost {
            line += &format!("\n    server's counters lost: {lost}");
        }
        line
    }
}
