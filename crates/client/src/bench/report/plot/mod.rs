//! Plots of a campaign, one SVG file each: throughput and latency of each workload by concurrency
//! with a panel for each size, and the server's CPU by step.
//!
//! Written by hand: a plot is a few axes, lines and words, and a file that any browser shows and
//! any editor can change.

mod axis;
mod cpu;
mod frame;
mod latency;
mod svg;
mod throughput;

use crate::bench::report::spread::Spread;
use crate::bench::result::{Campaign, StepRun};
use crate::bench::size::ByteSize;

/// The plots, each with its file name.
pub(super) fn plots(campaign: &Campaign) -> Vec<(String, String)> {
    let mut plots = Vec::new();
    for workload in workloads(campaign) {
        let panels = panels(campaign, &workload);
        let latency = latency::plot(campaign, &workload, &panels);
        plots.push((
            format!("throughput-{workload}.svg"),
            throughput::plot(campaign, &workload, &panels),
        ));
        plots.extend(latency.map(|svg| (format!("latency-{workload}.svg"), svg)));
    }
    plots.extend(cpu::plot(campaign).map(|svg| ("cpu.svg".to_owned(), svg)));
    plots
}

/// The points of one size: the plots' panels.
struct Panel {
    size: ByteSize,
    /// The concurrencies of any target, ascending.
    concurrencies: Vec<u32>,
    /// For each target its points by place in `concurrencies`.
    series: Vec<Vec<(usize, Point)>>,
}

/// One step on one target, over the repeats.
struct Point {
    ops_per_s: Spread,
    mb_per_s: Option<Spread>,
    /// p50, p90, p99, p99.9 in ms.
    latencies_ms: Option<[f64; 4]>,
}

impl Point {
    fn of(runs: &[&StepRun]) -> Option<Self> {
        let spread = |figure: &dyn Fn(&StepRun) -> Option<f64>| {
            Spread::of(runs.iter().map(|run| figure(run)))
        };
        let median = |figure: fn(&StepRun) -> Option<f64>| Some(spread(&figure)?.median);
        let latencies = || {
            Some([
                median(|run| run.latency_ms.p50)?,
                median(|run| run.latency_ms.p90)?,
                median(|run| run.latency_ms.p99)?,
                median(|run| run.latency_ms.p99_9)?,
            ])
        };
        Some(Self {
            ops_per_s: spread(&|run| Some(run.ops_per_s))?,
            mb_per_s: spread(&|run| (run.bytes > 0).then_some(run.mb_per_s)),
            latencies_ms: latencies(),
        })
    }
}

/// The workloads of a campaign in the order of their first step.
fn workloads(campaign: &Campaign) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in &campaign.runs {
        if !names.contains(&run.workload) {
            names.push(run.workload.clone());
        }
    }
    names
}

fn panels(campaign: &Campaign, workload: &str) -> Vec<Panel> {
    let of_workload = || campaign.runs.iter().filter(|run| run.workload == workload);
    let mut sizes: Vec<u64> = of_workload().map(|run| run.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let panel = |size: u64| {
        let of_size = || of_workload().filter(move |run| run.size_bytes == size);
        let mut concurrencies: Vec<u32> = of_size().map(|run| run.concurrency).collect();
        concurrencies.sort_unstable();
        concurrencies.dedup();
        let series = |target: &str| {
            let point = |concurrency: u32| {
                let same = |run: &&StepRun| run.target == target && run.concurrency == concurrency;
                Point::of(&of_size().filter(same).collect::<Vec<_>>())
            };
            let places = concurrencies.iter().enumerate();
            places
                .filter_map(|(at, concurrency)| Some((at, point(*concurrency)?)))
                .collect()
        };
        let series = campaign
            .targets
            .iter()
            .map(|target| series(&target.name))
            .collect();
        Panel {
            size: ByteSize(size),
            concurrencies,
            series,
        }
    };
    sizes.into_iter().map(panel).collect()
}

/// The machine and the versions of the figures, for the line beneath the title.
fn provenance(campaign: &Campaign) -> String {
    let host = &campaign.host;
    let repeat = campaign.settings.repeat;
    let runs = if repeat == 1 {
        "one run".to_owned()
    } else {
        format!("median of {repeat} runs")
    };
    let mut parts = vec![runs, format!("payload {}", campaign.settings.payload_mode)];
    if !host.cpu_model.is_empty() {
        parts.push(format!("{} x {}", host.cpus, host.cpu_model));
    }
    let date = dewar_sigv4::RequestDate::at(campaign.started_unix_s);
    let day = date.day();
    parts.push(format!("{}-{}-{}", &day[..4], &day[4..6], &day[6..]));
    parts.join(" · ")
}
