//! The countable rules of plain English, for the pages that people read.
//!
//! A sentence ends at `.`, `!`, `?` or `;` before a space, or with its paragraph, list item or table
//! cell. Code blocks are not looked at.

use super::text::{is_test_file, lines};
use super::{Tree, Violation};

/// Words of a sentence.
const WORDS_MAX: usize = 40;
/// Sentences with more words than this are long; at most one in [`LONG_SHARE`] of a page is.
const LONG: usize = 25;
const LONG_SHARE: usize = 12;
/// A page with fewer sentences is not judged by the share.
const SENTENCES_MIN: usize = 12;
/// No statement begins with one of these: it hides its subject.
const NO_SUBJECTS: [&str; 6] = ["who", "what", "whoever", "whatever", "where", "which"];

/// Pages whose sentences are made from the code, or are about bytes.
const GENERATED: &str = "docs/reference/";
const FORMATS: &str = "docs/formats/";

/// How much of the rules holds for a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    All,
    /// Without the share of long sentences.
    EachSentence,
}

/// One sentence, with the line on which it begins.
#[derive(Debug, PartialEq, Eq)]
struct Sentence {
    line: usize,
    text: String,
}

impl Sentence {
    fn words(&self) -> usize {
        self.text
            .split_whitespace()
            .filter(|word| word.chars().any(char::is_alphanumeric))
            .count()
    }

    fn hides_its_subject(&self) -> bool {
        let first = self.text.split_whitespace().next().unwrap_or_default();
        // Names and outputs are quoted, and a single word is no sentence.
        if first.starts_with('`') || self.words() < 2 {
            return false;
        }
        let first = first.trim_matches(|c: char| !c.is_alphanumeric());
        !self.text.ends_with('?') && NO_SUBJECTS.contains(&first.to_lowercase().as_str())
    }
}

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.with_ending("md") {
        let Some(rules) = rules(path) else {
            continue;
        };
        judge(path, &sentences(text), rules, &mut violations);
    }
    for (path, text) in tree.with_ending("rs") {
        if !is_test_file(path) {
            judge(
                path,
                &doc_comments(text),
                Rules::EachSentence,
                &mut violations,
            );
        }
    }
    violations
}

fn rules(path: &str) -> Option<Rules> {
    let is_page = matches!(
        path,
        "README.md" | "ARCHITECTURE.md" | "CONTRIBUTING.md" | "CHANGELOG.md"
    );
    if path.starts_with(FORMATS) {
        None
    } else if path.starts_with(GENERATED) {
        Some(Rules::EachSentence)
    } else if is_page || path.starts_with("docs/") {
        Some(Rules::All)
    } else {
        None
    }
}

fn judge(path: &str, sentences: &[Sentence], rules: Rules, violations: &mut Vec<Violation>) {
    let mut long = 0;
    for sentence in sentences {
        let words = sentence.words();
        if words > LONG {
            long += 1;
        }
        let start: String = sentence.text.chars().take(50).collect();
        if words > WORDS_MAX {
            let what = format!("a sentence of {words} words, more than {WORDS_MAX}: {start:?}");
            violations.push(Violation::new(path, sentence.line, what));
        }
        if sentence.hides_its_subject() {
            let what = format!("the sentence hides its subject: {start:?}");
            violations.push(Violation::new(path, sentence.line, what));
        }
    }
    let count = sentences.len();
    if rules == Rules::All && count >= SENTENCES_MIN && long * LONG_SHARE > count {
        let what = format!(
            "{long} of {count} sentences have more than {LONG} words, at most one in {LONG_SHARE} may"
        );
        violations.push(Violation::new(path, 0, what));
    }
}

/// The sentences of a page in Markdown.
fn sentences(text: &str) -> Vec<Sentence> {
    let mut collector = Collector::default();
    let mut fence = false;
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let word = line.trim();
        if word.starts_with("```") {
            fence = !fence;
            collector.end();
            continue;
        }
        if fence || (line.starts_with("    ") && collector.is_empty()) {
            continue;
        }
        if word.is_empty() || word.starts_with('#') {
            collector.end();
        } else if word.starts_with('|') {
            collector.end();
            for cell in cells(word) {
                collector.add(number, &cell);
                collector.end();
            }
        } else {
            let item = list_item(word);
            if item.is_some() {
                collector.end();
            }
            collector.add(number, item.unwrap_or(word));
        }
    }
    collector.end();
    collector.sentences
}

/// The cells of a row; an escaped bar divides nothing.
fn cells(row: &str) -> Vec<String> {
    let row = row.replace("\\|", "\u{2502}");
    let cells = row.trim_matches('|').split('|');
    cells
        .map(|cell| cell.trim().to_owned())
        .filter(|cell| !cell.is_empty() && cell.chars().any(char::is_alphanumeric))
        .collect()
}

/// The text of a list item or of a quoted line.
fn list_item(word: &str) -> Option<&str> {
    for mark in ["- ", "* ", "+ ", "> "] {
        if let Some(rest) = word.strip_prefix(mark) {
            return Some(rest);
        }
    }
    let (number, rest) = word.split_once(". ")?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then_some(rest)
}

/// The sentences of the doc comments on public items.
fn doc_comments(text: &str) -> Vec<Sentence> {
    let mut sentences_of_file = Vec::new();
    let mut comment: Vec<(usize, &str)> = Vec::new();
    for line in lines(text).iter().filter(|line| !line.is_test) {
        let word = line.whole.trim();
        if let Some(rest) = word.strip_prefix("///").or(word.strip_prefix("//!")) {
            comment.push((line.number, rest));
            if word.starts_with("//!") {
                continue;
            }
        } else if !word.starts_with("#[") {
            let is_inner = comment.first().is_some_and(|(number, _)| {
                text.lines()
                    .nth(number - 1)
                    .is_some_and(|l| l.trim().starts_with("//!"))
            });
            if is_inner || word.starts_with("pub ") {
                let first = comment.first().map_or(0, |(number, _)| *number);
                let page: Vec<&str> = comment
                    .iter()
                    .map(|(_, rest)| rest.strip_prefix(' ').unwrap_or(rest))
                    .collect();
                sentences_of_file.extend(sentences(&page.join("\n")).into_iter().map(|sentence| {
                    Sentence {
                        line: sentence.line + first - 1,
                        ..sentence
                    }
                }));
            }
            comment.clear();
        }
    }
    sentences_of_file
}

/// Puts lines together and divides them into sentences.
#[derive(Default)]
struct Collector {
    sentences: Vec<Sentence>,
    words: Vec<(usize, String)>,
}

impl Collector {
    fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    fn add(&mut self, line: usize, text: &str) {
        for word in text.split_whitespace() {
            self.words.push((line, word.to_owned()));
            let bare = word.trim_end_matches(['*', '_', ')', '"', '\'', '`']);
            let is_short_form = matches!(bare, "e.g." | "i.e." | "etc." | "vs." | "cf.");
            if bare.ends_with(['.', '!', '?', ';']) && !is_short_form {
                self.end();
            }
        }
    }

    fn end(&mut self) {
        let Some((line, _)) = self.words.first() else {
            return;
        };
        let line = *line;
        let words: Vec<String> = self.words.drain(..).map(|(_, word)| word).collect();
        self.sentences.push(Sentence {
            line,
            text: words.join(" "),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(page: &str) -> Vec<(usize, String)> {
        let sentences = sentences(page).into_iter();
        sentences.map(|it| (it.line, it.text)).collect()
    }

    fn violations(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn sentences_end_at_stops_items_and_cells() {
        let page = "# Title\n\nOne\ntwo; three. **Four.**\n\n- five\n- six\n\n| a b | c \\| d |\n|---|---|\n\n```\nno code. at all\n```\n1. seven\n";
        let expected = [
            (3, "One two;"),
            (4, "three."),
            (4, "**Four.**"),
            (6, "five"),
            (7, "six"),
            (9, "a b"),
            (9, "c \u{2502} d"),
            (15, "seven"),
        ];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        assert_eq!(texts(page), expected);
    }

    #[test]
    fn a_sentence_is_not_too_long_and_names_its_subject() {
        let long = "word ".repeat(WORDS_MAX);
        assert_eq!(violations("README.md", &long), [""; 0]);
        assert_eq!(violations("README.md", &format!("{long}word")).len(), 1);
        assert_eq!(
            violations("docs/formats/a.md", &format!("{long}word")),
            [""; 0]
        );
        let hidden = "It works. What is lost stays lost.\n";
        let reported = violations("docs/a.md", hidden);
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].starts_with("docs/a.md:1: the sentence hides"));
        assert_eq!(violations("docs/a.md", "What is lost?\n"), [""; 0]);
    }

    #[test]
    fn few_sentences_of_a_page_are_long() {
        let short = "It is short.\n";
        let long = format!("{}end.\n", "word ".repeat(LONG));
        let fits = format!("{}{long}", short.repeat(11));
        assert_eq!(violations("docs/a.md", &fits), [""; 0]);
        let reported = violations("docs/a.md", &format!("{fits}{long}"));
        assert_eq!(reported.len(), 1, "{reported:?}");
        let generated = format!("{fits}{long}");
        assert_eq!(violations("docs/reference/a.md", &generated), [""; 0]);
    }

    #[test]
    fn doc_comments_of_public_items_follow_the_same_rules() {
        let text = "//! Who opens it.\n\n/// What there is.\npub struct A;\n/// What is private.\nstruct B;\n/// Fine.\n#[derive(Debug)]\npub struct C;\n";
        let reported = violations("crates/a/src/b.rs", text);
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert!(reported[0].starts_with("crates/a/src/b.rs:1: "));
        assert!(reported[1].starts_with("crates/a/src/b.rs:3: "));
    }
}
