//! Tables whose columns align.

use std::io::{self, Write as _};

use serde::Serialize;

use super::exit::{CommandError, FAILED};

/// Lines of `rows` under `head`, each column as wide as its widest cell.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |text: &str| text.chars().count();
    let widths: Vec<usize> = head
        .iter()
        .enumerate()
        .map(|(column, title)| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell| width(cell))
                .max()
                .unwrap_or(0)
                .max(width(title))
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut out = line(head.to_vec());
    for row in rows {
        out.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    out
}

/// Bytes for people, in powers of ten.
pub(crate) fn amount(bytes: u64) -> String {
    const UNITS: &[&str] = &["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if value < 9.95 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// Writes to standard output. A reader that has gone away (`| head`) is no failure.
pub(super) fn print(text: &str) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::new(
            FAILED,
            format!("cannot write to standard output: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Writes a value as JSON.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_string_pretty(value).expect("replies are JSON");
    print(&format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_two_digits_at_least() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (9949, "9.9 kB"),
            (9950, "10 kB"),
            (999_499, "999 kB"),
            (999_500, "1.0 MB"),
            (u64::MAX, "18 EB"),
        ] {
            assert_eq!(amount(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn columns_align_and_lines_do_not_trail() {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        let text = table(
            &["NAME", "STATE"],
            &[row("alice-long", "ok"), row("bö", "")],
        );
        assert_eq!(text, "NAME        STATE\nalice-long  ok\nbö\n");
        assert_eq!(table(&["A"], &[]), "A\n");
    }
}
