//! Comparison of targets with the first one: ratios of runs of the same repeat, measured within
//! minutes of each other, as median and range.

use super::spread::Spread;
use super::text::columns;
use crate::bench::result::{Campaign, StepRun};

type Figure = fn(&StepRun) -> Option<f64>;

const FIGURES: [Figure; 4] = [
    |run| Some(run.ops_per_s),
    |run| run.latency_ms.p50,
    |run| run.latency_ms.p99,
    |run| run.server_cpu.as_ref()?.per(run.unit()),
];

/// The ratio of a figure on `target` to the same figure on `first`, over the repeats of a step.
pub(super) fn ratio(
    campaign: &Campaign,
    step: usize,
    (target, first): (&str, &str),
    figure: Figure,
) -> Option<Spread> {
    let ratios = campaign.repeats(step, target).map(|run| {
        let base = campaign
            .repeats(step, first)
            .find(|base| base.repeat == run.repeat)?;
        let base = figure(base).filter(|base| *base > 0.0)?;
        Some(figure(run)? / base)
    });
    Spread::of(ratios)
}

/// The table; `None` with fewer than two targets.
pub(super) fn table(campaign: &Campaign) -> Option<String> {
    let (first, others) = campaign.targets.split_first()?;
    if others.is_empty() {
        return None;
    }
    let head = [
        "step",
        "target / first",
        "throughput",
        "p50",
        "p99",
        "server CPU",
    ];
    let mut rows = Vec::new();
    for step in 0..campaign.steps() {
        for other in others {
            let names = (other.name.as_str(), first.name.as_str());
            let Some(run) = campaign.repeats(step, names.0).next() else {
                continue;
            };
            let mut row = vec![run.label.clone(), format!("{} / {}", names.0, names.1)];
            row.extend(FIGURES.map(|figure| told(ratio(campaign, step, names, figure))));
            rows.push(row);
        }
    }
    let note = "Ratios of runs of the same repeat: median (min..max). Throughput above 1 and the \
                others below 1 are better than the first.\n";
    Some(format!("{}\n{note}", columns(&head, 2, &rows)))
}

fn told(spread: Option<Spread>) -> String {
    match spread {
        None => "-".to_owned(),
        Some(Spread { median, min, max }) if min < max => {
            format!(
                "{} ({}..{})",
                ratio_text(median),
                ratio_text(min),
                ratio_text(max)
            )
        }
        Some(Spread { median, .. }) => ratio_text(median),
    }
}

/// Two digits after the point are enough below 10, and more than the measurement supports above.
fn ratio_text(ratio: f64) -> String {
    if ratio < 9.995 {
        format!("{ratio:.2}")
    } else {
        format!("{ratio:.1}")
    }
}
