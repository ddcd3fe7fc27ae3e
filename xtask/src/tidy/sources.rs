//! Rules for the text and the length of Rust files.

use super::exceptions::{self, Exception};
use super::text::{is_test_file, lines};
use super::{Tree, Violation};

/// Lines of a file that are no tests.
const LINES_MAX: usize = 800;

/// A name that only some files may use.
struct ForbiddenName {
    /// Any of these in a line of code is a use.
    texts: &'static [&'static str],
    what: &'static str,
    exceptions: &'static [Exception],
    /// Whether tests may use it.
    free_in_tests: bool,
}

const NAMES: &[ForbiddenName] = &[
    ForbiddenName {
        texts: &["std::fs", "tokio::fs", "std::{fs"],
        what: "the file system belongs to dewar-env",
        exceptions: exceptions::FILE_SYSTEM,
        free_in_tests: true,
    },
    ForbiddenName {
        texts: &["SystemTime"],
        what: "time comes from dewar_env::Clock",
        exceptions: exceptions::CLOCK,
        free_in_tests: true,
    },
    ForbiddenName {
        texts: &["rand::", "getrandom", "RandomState::"],
        what: "chance comes from dewar_env::Rng",
        exceptions: exceptions::CHANCE,
        free_in_tests: false,
    },
    ForbiddenName {
        texts: &["clippy::disallowed_methods"],
        what: "time, chance and blocking belong to dewar-env",
        exceptions: exceptions::DISALLOWED_METHODS,
        free_in_tests: true,
    },
    ForbiddenName {
        texts: &["unsafe_code"],
        what: "unsafe code stands in few places",
        exceptions: exceptions::UNSAFE,
        free_in_tests: true,
    },
];

/// Words that say that something is not finished, in two halves so that this file has none.
const UNFINISHED: [(&str, &str); 6] = [
    ("FIX", "ME"),
    ("XX", "X:"),
    ("TO", "DO"),
    ("to", "do!("),
    ("unimpl", "emented!("),
    ("db", "g!("),
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut used = vec![false; NAMES.iter().map(|name| name.exceptions.len()).sum()];
    let mut long_used = vec![false; exceptions::LONG.len()];
    fuzz_targets(tree, &mut found);
    for (path, text) in tree.with_ending("rs") {
        // The lists themselves spell the names out.
        if matches!(
            path,
            "xtask/src/tidy/sources.rs" | "xtask/src/tidy/exceptions.rs"
        ) {
            continue;
        }
        names(path, text, &mut used, &mut found);
        length(path, text, &mut long_used, &mut found);
    }
    let all = NAMES.iter().flat_map(|name| name.exceptions).zip(&used);
    for (exception, used) in all.chain(exceptions::LONG.iter().zip(&long_used)) {
        // An exception for a crate that has no code yet is no surprise.
        let exists = tree
            .files
            .iter()
            .any(|(path, _)| path.starts_with(exception.path));
        if !used && exists && !exception.path.ends_with('/') {
            let what = format!("nothing needs the exception any more: {}", exception.reason);
            found.push(Violation::new(exception.path, 0, what));
        }
    }
    found
}

fn names(path: &str, text: &str, used: &mut [bool], found: &mut Vec<Violation>) {
    let test_file = is_test_file(path);
    for line in lines(text) {
        for word in UNFINISHED.map(|(first, second)| format!("{first}{second}")) {
            if line.whole.contains(&word) {
                let what = format!("{word}: finish it, or make an issue of it");
                found.push(Violation::new(path, line.number, what));
            }
        }
        let in_test = test_file || line.is_test;
        let mut first = 0;
        for name in NAMES {
            let place = first;
            first += name.exceptions.len();
            if !name.texts.iter().any(|text| has_name(line.code, text)) {
                continue;
            }
            let mut excepted = false;
            for (i, exception) in name.exceptions.iter().enumerate() {
                if path.starts_with(exception.path) {
                    used[place + i] = true;
                    excepted = true;
                }
            }
            let allowed = excepted || (in_test && name.free_in_tests);
            if !allowed {
                found.push(Violation::new(path, line.number, name.what));
            }
        }
    }
}

/// Whether the text occurs in the code, and not as the end of a longer word.
fn has_name(code: &str, text: &str) -> bool {
    code.match_indices(text).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// The list of all fuzz targets.
const FUZZ_LIST: &str = "crates/fuzz/src/targets.rs";

/// Every `pub fn fuzz_*` is run by the fuzz runner.
fn fuzz_targets(tree: &Tree, found: &mut Vec<Violation>) {
    let list = tree.get(FUZZ_LIST).unwrap_or_default();
    for (path, text) in tree.with_ending("rs") {
        for line in lines(text) {
            let name = line.code.trim_start().strip_prefix("pub fn fuzz_");
            let Some((name, _)) = name.and_then(|rest| rest.split_once('(')) else {
                continue;
            };
            if !list.contains(&format!("fuzz_{name},")) {
                let what = format!("fuzz_{name} is never run: list it in {FUZZ_LIST}");
                found.push(Violation::new(path, line.number, what));
            }
        }
    }
}

fn length(path: &str, text: &str, used: &mut [bool], found: &mut Vec<Violation>) {
    if is_test_file(path) {
        return;
    }
    let count = lines(text).iter().filter(|line| !line.is_test).count();
    if count <= LINES_MAX {
        return;
    }
    match exceptions::LONG
        .iter()
        .position(|exception| exception.path == path)
    {
        Some(at) => used[at] = true,
        None => {
            let what = format!("{count} lines without tests, more than {LINES_MAX}: divide it");
            found.push(Violation::new(path, 0, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn names_are_for_those_who_may() {
        let text = "use std::fs::File;\n// std::fs is not for us\nlet t = my_SystemTime;\n";
        let found = told("crates/kv/src/lib.rs", text);
        assert_eq!(
            found,
            ["crates/kv/src/lib.rs:1: the file system belongs to dewar-env"]
        );
        assert_eq!(told("crates/server/src/tls.rs", text), [""; 0]);
        assert_eq!(told("crates/kv/src/tests.rs", text), [""; 0]);
        assert_eq!(told("crates/kv/tests/a.rs", text), [""; 0]);
        let inline = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert_eq!(told("crates/kv/src/a.rs", &inline), [""; 0]);
        assert_eq!(told("crates/kv/src/tests.rs", "use rand::Rng;\n").len(), 1);
        assert_eq!(
            told("crates/store/src/a.rs", "#![allow(unsafe_code)]\n").len(),
            1
        );
    }

    #[test]
    fn fuzz_targets_must_be_listed() {
        let code = ("crates/a/src/b.rs", "pub fn fuzz_frame(bytes: &[u8]) {}\n");
        let list = (FUZZ_LIST, "target(\"frame\", a::fuzz_frame, &[]),\n");
        assert_eq!(check(&Tree::of(&[code])).len(), 1);
        assert_eq!(check(&Tree::of(&[code, list])), []);
    }

    #[test]
    fn unfinished_work_is_found_even_in_comments() {
        for (first, second) in UNFINISHED {
            assert_eq!(
                told("crates/a/src/b.rs", &format!("// {first}{second}\n")).len(),
                1
            );
        }
    }

    #[test]
    fn long_files_are_found_but_not_long_tests() {
        let code = "fn a() {}\n".repeat(LINES_MAX);
        let tests = "    fn b() {}\n".repeat(500);
        let fits = format!("{code}#[cfg(test)]\nmod tests {{\n{tests}}}\n");
        assert_eq!(told("crates/a/src/b.rs", &fits), [""; 0]);
        assert!(told("crates/a/src/b.rs", &format!("{code}\n"))[0].contains("801 lines"));
        assert_eq!(
            told("crates/a/src/b/tests.rs", &format!("{code}{code}")),
            [""; 0]
        );
    }

    #[test]
    fn exceptions_that_nobody_needs_are_found() {
        let found = told("crates/client/src/clock.rs", "use std::time::SystemTime;\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("nothing needs"), "{found:?}");
    }
}
