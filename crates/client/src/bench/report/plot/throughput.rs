//! Throughput against concurrency, a panel for each size; lines join the medians, thin strokes
//! show the range over the repeats.

use super::axis::Axis;
use super::frame::Frame;
use super::svg::colour;
use super::{Panel, Point};
use crate::bench::report::spread::Spread;
use crate::bench::result::Campaign;

/// Objects above this many bytes are shown in MB/s, the others in operations.
const SMALL_BYTES: u64 = 64 << 10;

pub(super) fn plot(campaign: &Campaign, workload: &str, panels: &[Panel]) -> String {
    let title = format!("Throughput: {workload}");
    let mut frame = Frame::new(campaign, &title, panels.len(), "higher is better");
    for (index, panel) in panels.iter().enumerate() {
        let by_bytes =
            matches!(workload, "put" | "get" | "multipart" | "mixed") && panel.size.0 > SMALL_BYTES;
        let figure = |point: &Point| -> Option<Spread> {
            if by_bytes {
                point.mb_per_s
            } else {
                Some(point.ops_per_s)
            }
        };
        let all = panel
            .series
            .iter()
            .flatten()
            .filter_map(|(_, point)| figure(point));
        let axis = Axis::linear(all.map(|spread| spread.max).fold(0.0, f64::max));
        let unit = match (by_bytes, workload) {
            (true, _) => "MB/s",
            (false, "list") => "pages/s",
            (false, _) => "operations/s",
        };
        let area = frame.panel(index, panel, (&axis, unit));
        for (target, points) in panel.series.iter().enumerate() {
            let shown: Vec<_> = points
                .iter()
                .filter_map(|(at, p)| Some((area.x(*at), figure(p)?)))
                .collect();
            let line: Vec<_> = shown
                .iter()
                .map(|(x, spread)| (*x, area.y(&axis, spread.median)))
                .collect();
            if line.len() > 1 {
                frame.svg.path(&line, colour(target));
            }
            for ((x, spread), point) in shown.iter().zip(line) {
                let ends = (area.y(&axis, spread.min), area.y(&axis, spread.max));
                frame
                    .svg
                    .line((*x, ends.0), (*x, ends.1), colour(target), 1.2);
                frame.svg.dot(point, 4.0, colour(target));
            }
        }
    }
    frame.finish()
}
