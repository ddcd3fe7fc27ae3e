//! The common parts of plots with panels: title, legend, and boxes with axes.

use super::axis::{Axis, label};
use super::svg::{Anchor, Font, GRID, INK, MUTED, Svg, colour, text_width_px};
use super::{Panel, provenance};
use crate::bench::result::Campaign;

const PANEL_WIDTH: f64 = 360.0;
const PANEL_HEIGHT: f64 = 270.0;
const COLUMNS_MAX: usize = 3;
const HEAD_HEIGHT: f64 = 86.0;
const MARGIN: f64 = 16.0;
/// Room within a panel for its title and its axes.
const LEFT: f64 = 62.0;
const TOP: f64 = 28.0;
const RIGHT: f64 = 12.0;
const BOTTOM: f64 = 46.0;

pub(super) const SMALL: Font = Font::new(11.0, MUTED, Anchor::Middle);

/// A plot under construction.
pub(super) struct Frame {
    pub(super) svg: Svg,
    title: String,
    columns: usize,
}

/// The box that a panel's data is drawn in.
pub(super) struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    /// How many categories share the width.
    places: usize,
}

impl Area {
    /// The middle of the category number `place`.
    pub(super) fn x(&self, place: usize) -> f64 {
        self.left + self.width * (place as f64 + 0.5) / self.places as f64
    }

    /// The width of a category.
    pub(super) fn place_width(&self) -> f64 {
        self.width / self.places as f64
    }

    pub(super) fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.top + self.height * (1.0 - axis.share(value))
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

impl Frame {
    /// Title, provenance and legend, with room for so many panels beneath.
    pub(super) fn new(campaign: &Campaign, title: &str, panels: usize, note: &str) -> Self {
        let columns = panels.clamp(1, COLUMNS_MAX);
        let rows = panels.div_ceil(columns).max(1);
        let provenance = match note {
            "" => provenance(campaign),
            note => format!("{note} · {}", provenance(campaign)),
        };
        let names: Vec<_> = campaign
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .collect();
        let legend: f64 = names.iter().map(|name| legend_width(name)).sum();
        let width = (columns as f64 * PANEL_WIDTH)
            .max(text_width_px(&provenance, 11.0))
            .max(legend)
            + 2.0 * MARGIN;
        let mut svg = Svg::new(width, HEAD_HEIGHT + rows as f64 * PANEL_HEIGHT + MARGIN);
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
        Self {
            svg,
            title: title.to_owned(),
            columns,
        }
    }

    /// Draws the box of panel number `index`: its title, a value axis with grid lines, and the
    /// concurrencies beneath.
    pub(super) fn panel(
        &mut self,
        index: usize,
        panel: &Panel,
        (axis, axis_label): (&Axis, &str),
    ) -> Area {
        let area = Area {
            left: MARGIN + (index % self.columns) as f64 * PANEL_WIDTH + LEFT,
            top: HEAD_HEIGHT + (index / self.columns) as f64 * PANEL_HEIGHT + TOP,
            width: PANEL_WIDTH - LEFT - RIGHT,
            height: PANEL_HEIGHT - TOP - BOTTOM,
            places: panel.concurrencies.len().max(1),
        };
        let (left, right) = (area.left, area.left + area.width);
        let title = format!("objects of {}", panel.size);
        self.svg.text(
            (left, area.top - 10.0),
            &title,
            Font::new(12.5, INK, Anchor::Start).bold(),
        );
        for tick in &axis.ticks {
            let y = area.y(axis, *tick);
            self.svg.line((left, y), (right, y), GRID, 1.0);
            let font = Font {
                anchor: Anchor::End,
                ..SMALL
            };
            self.svg.text((left - 6.0, y + 4.0), &label(*tick), font);
        }
        self.svg
            .line((left, area.bottom()), (right, area.bottom()), MUTED, 1.0);
        for (place, concurrency) in panel.concurrencies.iter().enumerate() {
            self.svg.text(
                (area.x(place), area.bottom() + 16.0),
                &concurrency.to_string(),
                SMALL,
            );
        }
        let middle = f64::midpoint(left, right);
        self.svg
            .text((middle, area.bottom() + 33.0), "connections", SMALL);
        let middle = f64::midpoint(area.top, area.bottom());
        self.svg
            .upright_text((left - 46.0, middle), axis_label, SMALL);
        area
    }

    pub(super) fn finish(self) -> String {
        self.svg.finish(&self.title)
    }
}

/// A patch of each target's colour with its name, from a point to the right.
pub(super) fn draw_legend(svg: &mut Svg, (mut x, y): (f64, f64), names: &[&str]) {
    for (index, name) in names.iter().enumerate() {
        svg.rect((x, y - 9.0), (12.0, 10.0), colour(index));
        svg.text((x + 17.0, y), name, Font::new(12.0, INK, Anchor::Start));
        x += legend_width(name);
    }
}

fn legend_width(name: &str) -> f64 {
    17.0 + text_width_px(name, 12.0) + 22.0
}
