//! The table on standard output: medians over the repeats, a block for each step
//! where several targets are compared.

use super::spread::Spread;
use super::text::{columns, figure, figure_or_dash};
use crate::bench::result::{CPU_TRUSTED_S, Campaign, Cpu, Latency, StepRun};

/// The whole table with its foot-notes.
pub(super) fn table(campaign: &Campaign) -> String {
    let repeated = campaign.settings.repeat > 1;
    let mut head = vec![
        "step",
        "target",
        "ops",
        "err",
        "ops/s",
        "MB/s",
        "p50 ms",
        "p90",
        "p99",
        "p99.9",
        "max",
        "server CPU",
        "unit",
    ];
    if repeated {
        head.push("min..max");
    }
    head.extend(["client CPU", "RSS MB", "peak MB"]);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut coarse = false;
    for step in 0..campaign.steps() {
        if step > 0 && campaign.targets.len() > 1 {
            rows.push(Vec::new());
        }
        for target in &campaign.targets {
            let runs: Vec<_> = campaign.repeats(step, &target.name).collect();
            let Some(first) = runs.first() else { continue };
            let row = Row { runs: &runs };
            coarse |= row.is_coarse();
            rows.push(row.cells(repeated));
            if first.verbs.len() > 1 {
                rows.extend(first.verbs.keys().map(|verb| row.verb_cells(verb)));
            }
        }
    }
    let mut out = columns(&head, 2, &rows);
    if repeated {
        out += &format!("\nMedians of {} runs. ", campaign.settings.repeat);
    } else {
        out.push('\n');
    }
    out += "CPU is user + system time; 1 GB is 1e9 bytes, MB/s counts 1e6 bytes.\n";
    if coarse {
        out += &format!(
            "~: less than {CPU_TRUSTED_S} s of server CPU in the step, counted in ticks of 10 ms: \
             take more requests.\n"
        );
    }
    out
}

/// The runs of one step on one target.
struct Row<'a> {
    runs: &'a [&'a StepRun],
}

impl Row<'_> {
    fn spread(&self, figure: impl Fn(&StepRun) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().map(|run| figure(run)))
    }

    fn median(&self, figure: impl Fn(&StepRun) -> Option<f64>) -> String {
        figure_or_dash(self.spread(figure).map(|spread| spread.median))
    }

    fn count(&self, count: impl Fn(&StepRun) -> u64) -> String {
        let spread = self.spread(|run| Some(count(run) as f64));
        spread.map_or_else(String::new, |spread| format!("{:.0}", spread.median))
    }

    fn is_coarse(&self) -> bool {
        self.runs.iter().any(|run| run.server_cpu_is_coarse())
    }

    fn latencies(&self, latency: impl Fn(&StepRun) -> Latency) -> Vec<String> {
        let of: [fn(Latency) -> Option<f64>; 5] = [
            |latency| latency.p50,
            |latency| latency.p90,
            |latency| latency.p99,
            |latency| latency.p99_9,
            |latency| latency.max,
        ];
        of.iter()
            .map(|of| self.median(|run| of(latency(run))))
            .collect()
    }

    fn cells(&self, repeated: bool) -> Vec<String> {
        let run = self.runs[0];
        let per = |cpu: &Cpu| cpu.per(run.unit());
        let megabytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / 1e6);
        let errors: u64 = self.runs.iter().map(|run| run.errors).sum();
        let mut cells = vec![
            run.label.clone(),
            run.target.clone(),
            self.count(|run| run.ops),
            errors.to_string(),
            self.median(|run| Some(run.ops_per_s)),
            self.median(|run| (run.bytes > 0).then_some(run.mb_per_s)),
        ];
        cells.extend(self.latencies(|run| run.latency_ms));
        let server = self.spread(|run| run.server_cpu.as_ref().and_then(per));
        let mark = if server.is_some() && self.is_coarse() {
            "~"
        } else {
            ""
        };
        cells.push(format!(
            "{mark}{}",
            figure_or_dash(server.map(|spread| spread.median))
        ));
        cells.push(run.unit().label().to_owned());
        if repeated {
            cells.push(server.map_or_else(String::new, |spread| {
                format!("{}..{}", figure(spread.min), figure(spread.max))
            }));
        }
        cells.push(self.median(|run| per(&run.client_cpu)));
        cells.push(self.median(|run| megabytes(run.server_rss_bytes)));
        cells.push(self.median(|run| megabytes(run.server_rss_peak_bytes)));
        cells
    }

    /// One verb of a mixed step.
    fn verb_cells(&self, verb: &str) -> Vec<String> {
        let of = |run: &StepRun| run.verbs.get(verb).cloned().unwrap_or_default();
        let errors: u64 = self.runs.iter().map(|run| of(run).errors).sum();
        let rate = |run: &StepRun, count: f64| (run.elapsed_s > 0.0).then(|| count / run.elapsed_s);
        let mut cells = vec![
            format!("  {verb}"),
            self.runs[0].target.clone(),
            self.count(|run| of(run).ops),
            errors.to_string(),
            self.median(|run| rate(run, of(run).ops as f64)),
            self.median(|run| {
                let bytes = of(run).bytes as f64;
                rate(run, bytes / 1e6).filter(|_| bytes > 0.0)
            }),
        ];
        cells.extend(self.latencies(|run| of(run).latency_ms));
        cells
    }
}
