//! How much code there is, by crate: lines without tests, comments and blank lines, and tokens,
//! which no wider line and no line break changes.

use std::collections::BTreeMap;

use super::Tree;
use super::text::{is_test_file, lines};

/// What one crate has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    lines: usize,
    tokens: usize,
}

/// Prints a row for each crate and their sum.
pub(super) fn print(tree: &Tree) {
    let sizes = sizes(tree);
    let mut all = Size::default();
    println!("{:<14} {:>7} {:>9}", "crate", "lines", "tokens");
    for (krate, size) in &sizes {
        println!("{krate:<14} {:>7} {:>9}", size.lines, size.tokens);
        all.lines += size.lines;
        all.tokens += size.tokens;
    }
    println!("{:<14} {:>7} {:>9}", "all", all.lines, all.tokens);
}

fn sizes(tree: &Tree) -> BTreeMap<&str, Size> {
    let mut sizes: BTreeMap<&str, Size> = BTreeMap::new();
    for (path, text) in tree.with_ending("rs") {
        let krate = match path.strip_prefix("crates/") {
            Some(rest) => rest.split('/').next().unwrap_or(rest),
            None if path.starts_with("xtask/") => "xtask",
            None => continue,
        };
        // Rigs for the tests of other crates are tests.
        if is_test_file(path) || path.contains("/src/testing") {
            continue;
        }
        let size = sizes.entry(krate).or_default();
        for line in lines(text).iter().filter(|line| !line.is_test) {
            if !line.code.trim().is_empty() {
                size.lines += 1;
                size.tokens += tokens(line.code);
            }
        }
    }
    sizes
}

/// Words, numbers and strings count as one each, as does every other sign.
fn tokens(code: &str) -> usize {
    let mut count = 0;
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            continue;
        }
        count += 1;
        if c == '"' {
            let mut escaped = false;
            for c in chars.by_ref() {
                match c {
                    '"' if !escaped => break,
                    '\\' => escaped = !escaped,
                    _ => escaped = false,
                }
            }
        } else if c.is_alphanumeric() || c == '_' {
            while chars
                .next_if(|c| c.is_alphanumeric() || *c == '_')
                .is_some()
            {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_do_not_depend_on_layout() {
        assert_eq!(tokens("fn a(b: &str) -> u8 { 1 }"), 14);
        assert_eq!(tokens("let s = \"a \\\" b; c\";"), 5);
        assert_eq!(tokens("   "), 0);
    }

    #[test]
    fn tests_comments_and_blank_lines_do_not_count() {
        let text = "// why\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        let tree = Tree::of(&[("crates/a/src/b.rs", text), ("crates/a/src/tests.rs", text)]);
        let size = Size {
            lines: 1,
            tokens: 6,
        };
        assert_eq!(sizes(&tree), BTreeMap::from([("a", size)]));
    }
}
