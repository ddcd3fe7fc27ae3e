//! Tables of pages whose last column is `test` name tests that exist, in every line.

use std::collections::BTreeSet;

use super::{Tree, Violation};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let tests = tests(tree);
    let mut found = Vec::new();
    for (path, text) in tree.with_ending("md") {
        let mut inside = false;
        for (number, line) in text.lines().enumerate() {
            let Some(last) = last_cell(line) else {
                inside = false;
                continue;
            };
            if !inside {
                inside = last == "test";
                continue;
            }
            if last.trim_matches('-').is_empty() && !last.is_empty() {
                continue;
            }
            let names: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
            if names.is_empty() && !last.starts_with("the same") {
                found.push(Violation::new(
                    path,
                    number + 1,
                    "name the test that tries this",
                ));
            }
            for name in names
                .into_iter()
                .filter(|name| !is_there(tree, &tests, name))
            {
                let what = format!("there is no test {name:?}");
                found.push(Violation::new(path, number + 1, what));
            }
        }
    }
    found
}

/// The text of the last cell of a line of a table.
fn last_cell(line: &str) -> Option<&str> {
    let line = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    line.rsplit('|').next().map(str::trim)
}

/// The names of all tests, and of what else is defined by the same words.
fn tests(tree: &Tree) -> BTreeSet<&str> {
    let of = |ending, word: &'static str| {
        tree.with_ending(ending).flat_map(move |(_, text)| {
            text.lines().filter_map(move |line| {
                let line = line.trim_start();
                let rest = line.strip_prefix("async ").unwrap_or(line);
                rest.strip_prefix(word)?.split('(').next()
            })
        })
    };
    of("rs", "fn ").chain(of("py", "def ")).collect()
}

/// Whether a name is that of a test, of a file or of the folder of a crate.
fn is_there(tree: &Tree, tests: &BTreeSet<&str>, name: &str) -> bool {
    match name.contains('/') {
        false => tests.contains(name),
        true => {
            let folder = format!("{}/", name.trim_end_matches('/'));
            tree.get(name).is_some() || tree.files.iter().any(|(path, _)| path.starts_with(&folder))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_names_tests_that_exist() {
        let page = "| attack | test |\n|---|---|\n| a | `test_a` |\n| b | unit `b` in `crates/x` |\n\
                    | c | the same |\n| d | `test_d` |\n| e | none |\n| f | `crates/y` |\n\n\
                    | key | what |\n|---|---|\n| `x` | `y` |\n";
        let tree = Tree::of(&[
            ("docs/a.md", page),
            ("tests/test_a.py", "def test_a(x):\n"),
            ("crates/x/src/lib.rs", "    async fn b() {\n"),
        ]);
        let told: Vec<_> = check(&tree).iter().map(ToString::to_string).collect();
        let expected = [
            "docs/a.md:6: there is no test \"test_d\"",
            "docs/a.md:7: name the test that tries this",
            "docs/a.md:8: there is no test \"crates/y\"",
        ];
        assert_eq!(told, expected);
    }
}
