//! The results as CSV: a line for each run, the same names as in the JSON, flat.

use crate::bench::result::{Campaign, Cpu, StepRun};

/// The columns, in order.
pub(super) const COLUMNS: [&str; 33] = [
    "step",
    "target",
    "workload",
    "size_bytes",
    "concurrency",
    "repeat",
    "elapsed_s",
    "ops",
    "errors",
    "resent",
    "bytes",
    "keys",
    "ops_per_s",
    "mb_per_s",
    "keys_per_s",
    "latency_p50_ms",
    "latency_p90_ms",
    "latency_p99_ms",
    "latency_p99_9_ms",
    "latency_max_ms",
    "latency_mean_ms",
    "client_cpu_s",
    "client_cpu_s_per_gb",
    "client_cpu_s_per_1000_ops",
    "client_cpu_s_per_100000_keys",
    "server_cpu_s",
    "server_cpu_s_per_gb",
    "server_cpu_s_per_1000_ops",
    "server_cpu_s_per_100000_keys",
    "server_rss_bytes",
    "server_rss_peak_bytes",
    "payload_mode",
    "errors_by_kind",
];

/// The whole file.
pub(super) fn csv(campaign: &Campaign) -> String {
    let mut out = COLUMNS.join(",");
    out.push('\n');
    for run in &campaign.runs {
        let cells = cells(run, &campaign.settings.payload_mode);
        debug_assert_eq!(cells.len(), COLUMNS.len(), "a cell for each column");
        let quoted: Vec<_> = cells.iter().map(|cell| quote(cell)).collect();
        out += &quoted.join(",");
        out.push('\n');
    }
    out
}

fn cells(run: &StepRun, payload_mode: &str) -> Vec<String> {
    let optional = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let count = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    let latency = run.latency_ms;
    let mut cells = vec![
        run.step.to_string(),
        run.target.clone(),
        run.workload.clone(),
        run.size_bytes.to_string(),
        run.concurrency.to_string(),
        run.repeat.to_string(),
        run.elapsed_s.to_string(),
        run.ops.to_string(),
        run.errors.to_string(),
        run.resent.to_string(),
        run.bytes.to_string(),
        run.keys.to_string(),
        run.ops_per_s.to_string(),
        run.mb_per_s.to_string(),
        run.keys_per_s.to_string(),
    ];
    let latencies = [
        latency.p50,
        latency.p90,
        latency.p99,
        latency.p99_9,
        latency.max,
        latency.mean,
    ];
    cells.extend(latencies.map(optional));
    for cpu in [Some(run.client_cpu), run.server_cpu] {
        let figures: [fn(Cpu) -> Option<f64>; 4] = [
            |cpu| Some(cpu.s),
            |cpu| cpu.s_per_gb,
            |cpu| cpu.s_per_1000_ops,
            |cpu| cpu.s_per_100000_keys,
        ];
        cells.extend(figures.map(|figure| optional(cpu.and_then(figure))));
    }
    cells.push(count(run.server_rss_bytes));
    cells.push(count(run.server_rss_peak_bytes));
    cells.push(payload_mode.to_owned());
    let kinds: Vec<_> = run
        .errors_by_kind
        .iter()
        .map(|(kind, n)| format!("{kind}={n}"))
        .collect();
    cells.push(kinds.join(";"));
    cells
}

/// A cell as RFC 4180 wants it.
fn quote(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}
