//! Latency percentiles against concurrency on a logarithmic scale, a panel for each size: for
//! each target a column with a dot at p50, ticks at p90 and p99, and its end at p99.9.

use super::Panel;
use super::axis::Axis;
use super::frame::Frame;
use super::svg::colour;
use crate::bench::result::Campaign;

/// The plot; `None` if nothing succeeded.
pub(super) fn plot(campaign: &Campaign, workload: &str, panels: &[Panel]) -> Option<String> {
    let latencies = |panel: &Panel| -> Vec<[f64; 4]> {
        panel
            .series
            .iter()
            .flatten()
            .filter_map(|(_, point)| point.latencies_ms)
            .collect()
    };
    if panels.iter().all(|panel| latencies(panel).is_empty()) {
        return None;
    }
    let title = format!("Latency: {workload}");
    let note = "dot p50, ticks p90 and p99, end p99.9; lower is better";
    let mut frame = Frame::new(campaign, &title, panels.len(), note);
    for (index, panel) in panels.iter().enumerate() {
        let all = latencies(panel);
        let min = all.iter().map(|it| it[0]).fold(f64::INFINITY, f64::min);
        let max = all.iter().map(|it| it[3]).fold(0.0, f64::max);
        let axis = Axis::log(min, max);
        let area = frame.panel(index, panel, (&axis, "ms (logarithmic)"));
        let step = (area.place_width() * 0.8 / panel.series.len() as f64).min(18.0);
        for (target, points) in panel.series.iter().enumerate() {
            let shift = (target as f64 - (panel.series.len() as f64 - 1.0) / 2.0) * step;
            let half = (step * 0.32).min(5.0);
            for (at, point) in points {
                let Some(values) = point.latencies_ms else {
                    continue;
                };
                let x = area.x(*at) + shift;
                let [p50, p90, p99, p99_9] = values.map(|value| area.y(&axis, value));
                let ink = colour(target);
                frame.svg.line((x, p50), (x, p99_9), ink, 1.6);
                for y in [p90, p99] {
                    frame.svg.line((x - half, y), (x + half, y), ink, 2.0);
                }
                frame.svg.dot((x, p50), 4.0, ink);
            }
        }
    }
    Some(frame.finish())
}
