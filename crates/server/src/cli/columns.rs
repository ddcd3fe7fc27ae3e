//! Tables whose columns align.

use std::io::{self, Write as _};

use serde::Serialize;

use super::exit::{CommandError, FAILED};

/// Lines of `rows` under `head`, each column as wide as its widest cell.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| printable(cell)).collect())
        .collect();
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
    for row in &rows {
        out.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    out
}

/// As [`table`]; an empty list says so in words, as `no users`.
pub(super) fn table_or(head: &[&str], rows: &[Vec<String>], empty: &str) -> String {
    match rows.is_empty() {
        true => format!("{empty}\n"),
        false => table(head, rows),
    }
}

/// A text with its control characters, and those that change the direction of text, escaped. A name
/// that a user chose must not look like another line, or control the terminal.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            _ if c.is_control() => out.extend(c.escape_default()),
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.extend(c.escape_unicode());
            }
            _ => out.push(c),
        }
    }
    out
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
pub(super) fn print_json(value: &(impl Serialize + ?Sized)) -> Result<(), CommandError> {
    let text = serde_json::to_string_pretty(value).expect("replies are JSON");
    print(&format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_lines_and_no_commands() {
        let forged = "a\n2026  root  allowed\u{1b}[2K\u{202e}".to_owned();
        let shown = table(&["NAME"], &[vec![forged]]);
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(
            shown.contains("a\\n2026  root  allowed\\u{1b}[2K\\u{202e}"),
            "{shown}"
        );
        assert_eq!(printable("schön/ö ☃"), "schön/ö ☃");
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
        assert_eq!(table_or(&["A"], &[], "no users"), "no users\n");
    }
}
