//! Reads Rust source line by line, and finds comments and the start of tests.

/// One line of a file.
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: usize,
    /// The line without a comment at its end.
    pub(super) code: &'a str,
    pub(super) whole: &'a str,
    pub(super) is_test: bool,
}

/// The lines of a file, with those of an inline test module marked.
pub(super) fn lines(text: &str) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    // Set at `#[cfg(test)]`; tells whether the item behind it is a module in braces.
    let mut pending = false;
    let mut test_indent: Option<usize> = None;
    for (i, whole) in text.lines().enumerate() {
        let code = without_comment(whole);
        let indent = whole.len() - whole.trim_start().len();
        let word = code.trim();
        let mut is_test = test_indent.is_some() || pending;
        if let Some(indent_of_module) = test_indent {
            if word == "}" && indent == indent_of_module {
                test_indent = None;
            }
        } else if word == "#[cfg(test)]" {
            (pending, is_test) = (true, true);
        } else if pending && !word.is_empty() && !word.starts_with("#[") {
            pending = false;
            if word.ends_with('{') {
                test_indent = Some(indent);
            }
        }
        lines.push(Line {
            number: i + 1,
            code,
            whole,
            is_test,
        });
    }
    lines
}

/// Whether the file holds nothing but tests.
pub(super) fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || path
            .split('/')
            .any(|part| matches!(part, "tests" | "benches"))
}

/// Cuts a comment off. A `//` within a string is taken for one if nothing closes the string
/// before it, which is good enough to look for names.
fn without_comment(line: &str) -> &str {
    let mut from = 0;
    while let Some(at) = line[from..].find("//").map(|at| at + from) {
        let quotes = line[..at].matches('"').count() - line[..at].matches("\\\"").count();
        if quotes.is_multiple_of(2) {
            return &line[..at];
        }
        from = at + 2;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_comments_are_told_apart() {
        let text = "fn a() {} // b\nlet url = \"http://x\"; // c\n#[cfg(test)]\nuse b;\nfn c() {}\n\
                    #[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn d() {\n    }\n}\nfn e() {}\n";
        let lines = lines(text);
        assert_eq!(lines[0].code, "fn a() {} ");
        assert_eq!(lines[1].code, "let url = \"http://x\"; ");
        let of_tests: Vec<_> = lines
            .iter()
            .filter(|l| l.is_test)
            .map(|l| l.number)
            .collect();
        assert_eq!(of_tests, [3, 4, 6, 7, 8, 9, 10, 11]);
    }
}
