//! Text in columns, and numbers with as many digits as they deserve.

/// Cells in columns, the first `left` of them flush left, the others flush right. An empty row
/// becomes an empty line.
pub(in crate::bench) fn columns(head: &[&str], left: usize, rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (i, (cell, width)) in cells.zip(&widths).enumerate() {
            let gap = if i == 0 { "" } else { "  " };
            let cell = if i < left {
                format!("{gap}{cell:<width$}")
            } else {
                format!("{gap}{cell:>width$}")
            };
            text.push_str(&cell);
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(&mut head.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    out
}

/// Three significant digits, but no digit before the point is lost.
pub(in crate::bench) fn figure(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else if size >= 0.1 {
        format!("{value:.3}")
    } else if size > 0.0 {
        format!("{value:.4}")
    } else {
        "0".to_owned()
    }
}

/// A figure, or a dash where there is none.
pub(in crate::bench) fn figure_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".to_owned(), "1".to_owned()],
            vec![],
            vec!["long".to_owned(), "22".to_owned()],
        ];
        assert_eq!(
            columns(&["x", "n"], 1, &rows),
            "x      n\na      1\n\nlong  22\n"
        );
    }

    #[test]
    fn figures_have_three_digits() {
        let told: Vec<_> = [1234.5, 99.94, 9.994, 0.9994, 0.01234, 0.0]
            .into_iter()
            .map(figure)
            .collect();
        assert_eq!(told, ["1234", "99.9", "9.99", "0.999", "0.0123", "0"]);
        assert_eq!(figure_or_dash(None), "-");
    }
}
