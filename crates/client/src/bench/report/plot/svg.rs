//! The few shapes a plot is made of.

use std::fmt::Write as _;

/// Colours that people with any colour vision can tell apart (Okabe and Ito), darkest first.
const COLOURS: [&str; 7] = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555",
];

pub(super) const INK: &str = "#222222";
pub(super) const MUTED: &str = "#666666";
pub(super) const GRID: &str = "#E4E4E4";

/// The colour of the target number `index`.
pub(super) fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// The point of a text that its position means: start, centre or end.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy)]
pub(super) struct Font {
    pub(super) px: f64,
    pub(super) fill: &'static str,
    pub(super) bold: bool,
    pub(super) anchor: Anchor,
}

impl Font {
    pub(super) const fn new(px: f64, fill: &'static str, anchor: Anchor) -> Self {
        Self {
            px,
            fill,
            bold: false,
            anchor,
        }
    }

    pub(super) const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }
}

/// A drawing; coordinates are in pixels from the top left.
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self {
            body: String::new(),
            width,
            height,
        }
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        self.body
            .write_fmt(element)
            .expect("a String takes all text");
        self.body.push('\n');
    }

    pub(super) fn line(
        &mut self,
        (x1, y1): (f64, f64),
        (x2, y2): (f64, f64),
        stroke: &str,
        width: f64,
    ) {
        self.push(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{stroke}" stroke-width="{width}"/>"#
        ));
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], stroke: &str) {
        let points: Vec<_> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        self.push(format_args!(
            r#"<polyline points="{}" fill="none" stroke="{stroke}" stroke-width="2" stroke-linejoin="round"/>"#,
            points.join(" ")
        ));
    }

    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
        self.push(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}"/>"#
        ));
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), radius: f64, fill: &str) {
        self.push(format_args!(
            r##"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{fill}" stroke="#FFFFFF" stroke-width="1"/>"##
        ));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), text: &str, font: Font) {
        self.turned_text((x, y), text, font, "");
    }

    /// A text that reads from bottom to top.
    pub(super) fn upright_text(&mut self, (x, y): (f64, f64), text: &str, font: Font) {
        let turn = format!(r#" transform="rotate(-90 {x:.1} {y:.1})""#);
        self.turned_text((x, y), text, font, &turn);
    }

    fn turned_text(&mut self, (x, y): (f64, f64), text: &str, font: Font, turn: &str) {
        let anchor = match font.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if font.bold {
            r#" font-weight="600""#
        } else {
            ""
        };
        let Font { px, fill, .. } = font;
        self.push(format_args!(
            r#"<text x="{x:.1}" y="{y:.1}" font-size="{px}" fill="{fill}" text-anchor="{anchor}"{weight}{turn}>{}</text>"#,
            escape(text)
        ));
    }

    /// The whole document.
    pub(super) fn finish(self, title: &str) -> String {
        let Self {
            body,
            width,
            height,
        } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" \
             font-family=\"Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\">\n\
             <title>{}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>\n{body}</svg>\n",
            escape(title)
        )
    }
}

/// Text as XML wants it; characters that XML cannot hold become question marks.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// Roughly how wide a text is.
pub(super) fn text_width_px(text: &str, px: f64) -> f64 {
    text.chars().count() as f64 * px * 0.58
}
