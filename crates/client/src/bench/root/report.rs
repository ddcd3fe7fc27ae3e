//! The results of the steps, as table and as JSON. Names end in their unit.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::RootOutcome;
use super::args::{RootArgs, RootStep};
use crate::bench::plan::Unit;
use crate::bench::report::{columns, figure, figure_or_dash};
use crate::clock;

/// Version of the JSON schema.
const SCHEMA: &str = "dewar-bench-root-1";

/// Everything about one campaign.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RootReport {
    schema: &'static str,
    dewar_version: &'static str,
    started_unix_s: u64,
    command: Vec<String>,
    chunk_bytes: u64,
    ahead: u32,
    vector_items: u32,
    vector_item_bytes: u64,
    pub(super) runs: Vec<RootRun>,
}

/// One run of one step on one target.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RootRun {
    /// Place of the step in the list, from 0.
    pub(super) step: usize,
    pub(super) target: String,
    pub(super) repeat: u32,
    workload: &'static str,
    size_bytes: u64,
    concurrency: u32,
    elapsed_s: f64,
    ops: u64,
    errors: u64,
    bytes: u64,
    keys: u64,
    ops_per_s: f64,
    mb_per_s: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    max_ms: Option<f64>,
    client_cpu_s: f64,
    /// Absent if no process of the server is known.
    server_cpu_s: Option<f64>,
    server_rss_bytes: Option<u64>,
    server_rss_peak_bytes: Option<u64>,
    /// CPU-seconds of the server per GB, per 1,000 operations or per 100,000 names: `unit` says which.
    server_cpu_per_unit: Option<f64>,
    client_cpu_per_unit: Option<f64>,
    unit: &'static str,
    error_examples: BTreeMap<String, u64>,
    #[serde(skip)]
    label: String,
}

impl RootRun {
    pub(super) fn of(step: &RootStep, outcome: &RootOutcome) -> Self {
        let tally = &outcome.tally;
        let elapsed_s = outcome.elapsed.as_secs_f64().max(1e-9);
        let count = match step.unit() {
            Unit::Gigabyte => tally.bytes as f64 / 1e9,
            Unit::ThousandOps => tally.ops as f64 / 1e3,
            Unit::HundredThousandKeys => tally.keys as f64 / 1e5,
        };
        let per = |seconds: f64| (count > 0.0).then(|| seconds / count);
        let server = outcome.server.as_ref();
        let server_cpu_s = server.map(|(before, after)| after.cpu_s - before.cpu_s);
        let client_cpu_s = outcome.client_cpu.as_secs_f64();
        Self {
            workload: step.work.name(),
            size_bytes: step.size.0,
            concurrency: step.concurrency,
            elapsed_s,
            ops: tally.ops,
            errors: tally.errors,
            bytes: tally.bytes,
            keys: tally.keys,
            ops_per_s: tally.ops as f64 / elapsed_s,
            mb_per_s: tally.bytes as f64 / 1e6 / elapsed_s,
            p50_ms: tally.latencies.quantile_ms(0.5),
            p99_ms: tally.latencies.quantile_ms(0.99),
            max_ms: tally.latencies.max_ms(),
            client_cpu_s,
            server_cpu_s,
            server_rss_bytes: server.map(|(_, after)| after.rss_bytes),
            server_rss_peak_bytes: server.map(|(_, after)| after.rss_peak_bytes),
            server_cpu_per_unit: server_cpu_s.and_then(per),
            client_cpu_per_unit: per(client_cpu_s),
            unit: step.unit().label(),
            error_examples: tally.by_text.clone(),
            label: format!("{} {} x{}", step.work.name(), step.size, step.concurrency),
            ..Self::default()
        }
    }

    /// In one line, while others go on.
    pub(super) fn line(&self) -> String {
        let mut line = format!(
            "{} on {}: {} in {} s, {}/s, {} MB/s",
            self.label,
            self.target,
            self.ops,
            figure(self.elapsed_s),
            figure(self.ops_per_s),
            figure(self.mb_per_s)
        );
        for (text, count) in &self.error_examples {
            line += &format!("\n    {count} x {text}");
        }
        line
    }

    fn cells(&self) -> Vec<String> {
        let megabytes = |bytes: Option<u64>| figure_or_dash(bytes.map(|bytes| bytes as f64 / 1e6));
        vec![
            self.label.clone(),
            self.target.clone(),
            self.ops.to_string(),
            self.errors.to_string(),
            figure(self.ops_per_s),
            figure_or_dash((self.bytes > 0).then_some(self.mb_per_s)),
            figure_or_dash(self.p50_ms),
            figure_or_dash(self.p99_ms),
            figure_or_dash(self.max_ms),
            figure_or_dash(self.server_cpu_per_unit),
            self.unit.to_owned(),
            figure_or_dash(self.client_cpu_per_unit),
            megabytes(self.server_rss_bytes),
            megabytes(self.server_rss_peak_bytes),
        ]
    }
}

impl RootReport {
    pub(super) fn new(args: &RootArgs) -> Self {
        Self {
            schema: SCHEMA,
            dewar_version: env!("CARGO_PKG_VERSION"),
            started_unix_s: clock::unix_s(),
            command: std::env::args().collect(),
            chunk_bytes: args.chunk.0,
            ahead: args.ahead,
            vector_items: args.vector_items,
            vector_item_bytes: args.vector_size.0,
            runs: Vec::new(),
        }
    }

    /// Errors of all runs.
    pub(super) fn errors(&self) -> u64 {
        self.runs.iter().map(|run| run.errors).sum()
    }

    /// Prints the table, and writes the JSON if it is wanted.
    pub(super) fn write(&self, json: Option<&Path>) -> Result<()> {
        let head = [
            "step",
            "target",
            "ops",
            "err",
            "ops/s",
            "MB/s",
            "p50 ms",
            "p99",
            "max",
            "server CPU",
            "unit",
            "client CPU",
            "RSS MB",
            "peak MB",
        ];
        let mut runs: Vec<&RootRun> = self.runs.iter().collect();
        runs.sort_by_key(|run| run.step);
        let rows: Vec<Vec<String>> = runs.iter().map(|run| run.cells()).collect();
        print!("{}", columns(&head, 2, &rows));
        println!("\nCPU is user + system time; 1 GB is 1e9 bytes, MB/s counts 1e6 bytes.");
        if let Some(path) = json {
            let text = serde_json::to_vec_pretty(self)?;
            std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }
}
