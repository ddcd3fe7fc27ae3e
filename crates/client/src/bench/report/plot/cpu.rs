//! The server's CPU by step: a bar for each target with its figure, steps of the same unit
//! together, thin strokes for the range over the repeats.

use super::axis::{Axis, label};
use super::frame::draw_legend;
use super::provenance;
use super::svg::{Anchor, Font, GRID, INK, MUTED, Svg, colour, text_width_px};
use crate::bench::plan::Unit;
use crate::bench::report::spread::Spread;
use crate::bench::report::text::figure;
use crate::bench::result::{CPU_TRUSTED_S, Campaign, StepRun};

const WIDTH: f64 = 860.0;
const MARGIN: f64 = 16.0;
/// The start of the bars. The steps' names are to the left.
const BARS: f64 = 190.0;
const BARS_WIDTH: f64 = 570.0;
const BAR: f64 = 15.0;
const GAP: f64 = 11.0;
const SMALL: Font = Font::new(11.0, MUTED, Anchor::Middle);

/// A step with the figures of those targets that have one.
struct Group {
    label: String,
    bars: Vec<Bar>,
}

struct Bar {
    target: usize,
    spread: Spread,
    /// Counted in too few ticks to be trusted.
    coarse: bool,
}

/// The plot; `None` if no server's processes were known.
pub(super) fn plot(campaign: &Campaign) -> Option<String> {
    let units = [
        (Unit::ThousandOps, "CPU-seconds per 1,000 operations"),
        (Unit::Gigabyte, "CPU-seconds per GB"),
        (Unit::HundredThousandKeys, "CPU-seconds per 100,000 keys"),
    ];
    let sections: Vec<_> = units
        .into_iter()
        .map(|(unit, label)| (label, groups(campaign, unit)))
        .filter(|(_, groups)| !groups.is_empty())
        .collect();
    if sections.is_empty() {
        return None;
    }
    let height: f64 = sections
        .iter()
        .map(|(_, groups)| section_height(groups))
        .sum();
    let title = "CPU of the server";
    let note = format!("lower is better · ~ from less than {CPU_TRUSTED_S} s");
    let provenance = format!("{note} · {}", provenance(campaign));
    let names: Vec<_> = campaign
        .targets
        .iter()
        .map(|target| target.name.as_str())
        .collect();
    let width = WIDTH.max(text_width_px(&provenance, 11.0) + 2.0 * MARGIN);
    let mut svg = Svg::new(width, 86.0 + height + MARGIN);
    svg.text(
        (MARGIN, 28.0),
        title,
        Font::new(17.0, INK, Anchor::Start).bold(),
    );
    svg.text(
        (MARGIN, 47.0),
        &provenance,
        Font::new(11.0, MUTED, Anchor::Start),
    );
    draw_legend(&mut svg, (MARGIN, 70.0), &names);
    let mut top = 86.0;
    for (label, groups) in &sections {
        draw_section(&mut svg, top, label, groups);
        top += section_height(groups);
    }
    Some(svg.finish(title))
}

fn groups(campaign: &Campaign, unit: Unit) -> Vec<Group> {
    let mut groups = Vec::new();
    for step in 0..campaign.steps() {
        let mut group = Group {
            label: String::new(),
            bars: Vec::new(),
        };
        for (index, target) in campaign.targets.iter().enumerate() {
            let runs = || {
                campaign
                    .repeats(step, &target.name)
                    .filter(|run| run.unit() == unit)
            };
            let figures = runs().map(|run| run.server_cpu.as_ref()?.per(unit));
            if let Some(spread) = Spread::of(figures) {
                let coarse = runs().any(StepRun::server_cpu_is_coarse);
                group.bars.push(Bar {
                    target: index,
                    spread,
                    coarse,
                });
                group.label = runs()
                    .map(|run| run.label.clone())
                    .next()
                    .unwrap_or_default();
            }
        }
        if !group.bars.is_empty() {
            groups.push(group);
        }
    }
    groups
}

fn section_height(groups: &[Group]) -> f64 {
    let bars: usize = groups.iter().map(|group| group.bars.len()).sum();
    24.0 + bars as f64 * BAR + groups.len() as f64 * GAP + 44.0
}

fn draw_section(svg: &mut Svg, top: f64, unit: &str, groups: &[Group]) {
    let bottom = top + section_height(groups) - 44.0;
    let max = groups
        .iter()
        .flat_map(|group| &group.bars)
        .map(|bar| bar.spread.max);
    let axis = Axis::linear(max.fold(0.0, f64::max));
    let x = |value: f64| BARS + BARS_WIDTH * axis.share(value);
    svg.text(
        (MARGIN, top + 12.0),
        unit,
        Font::new(12.5, INK, Anchor::Start).bold(),
    );
    for tick in &axis.ticks {
        svg.line((x(*tick), top + 20.0), (x(*tick), bottom), GRID, 1.0);
        svg.text((x(*tick), bottom + 15.0), &label(*tick), SMALL);
    }
    svg.line((BARS, top + 20.0), (BARS, bottom), MUTED, 1.0);
    let mut y = top + 24.0;
    for group in groups {
        let middle = y + group.bars.len() as f64 * BAR / 2.0 + 4.0;
        svg.text(
            (BARS - 10.0, middle),
            &group.label,
            Font::new(12.0, INK, Anchor::End),
        );
        for Bar {
            target,
            spread,
            coarse,
        } in &group.bars
        {
            let end = x(spread.median);
            svg.rect(
                (BARS, y + 1.0),
                ((end - BARS).max(1.0), BAR - 2.0),
                colour(*target),
            );
            let centre = y + BAR / 2.0;
            if spread.max > spread.min {
                svg.line((x(spread.min), centre), (x(spread.max), centre), INK, 1.2);
            }
            let told = Font::new(11.0, INK, Anchor::Start);
            let mark = if *coarse { "~" } else { "" };
            let text = format!("{mark}{}", figure(spread.median));
            svg.text((x(spread.max).max(end) + 6.0, centre + 4.0), &text, told);
            y += BAR;
        }
        y += GAP;
    }
}
