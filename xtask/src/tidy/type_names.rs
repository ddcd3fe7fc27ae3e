//! A reader must be able to guess the type from the idea: no private words, one type for one name.

use std::collections::{BTreeMap, BTreeSet};

use super::text::{is_test_file, lines};
use super::{Tree, Violation};

/// The list of names that nothing may have.
const BANNED: &str = "xtask/banned-names.txt";
/// Files in which a public type name may be defined.
const FILES_MAX: usize = 2;

/// A public type name that more files may define.
struct Exception {
    name: &'static str,
    reason: &'static str,
}

/// At most ten.
const EXCEPTIONS: &[Exception] = &[Exception {
    name: "Error",
    reason: "the error of a crate, as in the standard library",
}];

/// What [`BANNED`] says.
#[derive(Default)]
struct Banned<'a> {
    names: BTreeSet<&'a str>,
    ends: Vec<&'a str>,
    public_names: BTreeSet<&'a str>,
}

impl<'a> Banned<'a> {
    fn read(text: &'a str) -> Self {
        let mut banned = Self::default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(end) = line.strip_prefix('*') {
                banned.ends.push(end);
            } else if let Some(name) = line.strip_prefix("pub ") {
                banned.public_names.insert(name);
            } else {
                banned.names.insert(line);
            }
        }
        banned
    }

    fn bans(&self, definition: &Definition<'_>) -> bool {
        self.names.contains(definition.name)
            || self.ends.iter().any(|end| definition.name.ends_with(end))
            || (definition.is_public && self.public_names.contains(definition.name))
    }

    /// Whether a file is named for a banned name, in the singular or the plural.
    fn bans_file(&self, path: &str) -> bool {
        let stem = path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
        let stem = stem.rsplit('/').next().unwrap_or(stem);
        self.names.iter().any(|name| {
            let name = name.to_lowercase();
            stem == name || stem.strip_suffix('s') == Some(&name)
        })
    }
}

/// A line that defines a type or a trait.
struct Definition<'a> {
    name: &'a str,
    /// Visible outside of its module.
    is_public: bool,
}

fn definition(code: &str) -> Option<Definition<'_>> {
    let code = code.trim_start();
    let (is_public, rest) = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => (true, rest.split_once(')')?.1),
        Some(rest) if rest.starts_with(' ') => (true, rest),
        _ => (false, code),
    };
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let kinds = ["struct ", "enum ", "trait ", "union "];
    let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = name
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(name.len());
    // A macro that defines types has a variable there.
    (end > 0).then_some(Definition {
        name: &name[..end],
        is_public,
    })
}

pub(super) fn check(tree: &Tree, banned: &str) -> Vec<Violation> {
    let banned = Banned::read(banned);
    let mut violations = Vec::new();
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, text) in tree.with_ending("rs") {
        if is_test_file(path) {
            continue;
        }
        if banned.bans_file(path) {
            let what = format!("{BANNED} bans this file name: name it for what it holds");
            violations.push(Violation::new(path, 0, what));
        }
        for line in lines(text).iter().filter(|line| !line.is_test) {
            let Some(definition) = definition(line.code) else {
                continue;
            };
            if banned.bans(&definition) {
                let what = format!("{BANNED} bans the name {}", definition.name);
                violations.push(Violation::new(path, line.number, what));
            }
            if definition.is_public {
                files.entry(definition.name).or_default().insert(path);
            }
        }
    }
    for (name, paths) in &files {
        let exception = EXCEPTIONS.iter().any(|exception| exception.name == *name);
        if paths.len() > FILES_MAX && !exception {
            for path in paths {
                let what = format!(
                    "{name} is defined in {} files, more than {FILES_MAX}: say which one it is",
                    paths.len()
                );
                violations.push(Violation::new(path, 0, what));
            }
        }
    }
    for exception in EXCEPTIONS {
        if files
            .get(exception.name)
            .is_some_and(|paths| paths.len() <= FILES_MAX)
        {
            let what = format!(
                "{} needs no exception any more: {}",
                exception.name, exception.reason
            );
            violations.push(Violation::new("xtask/src/tidy/type_names.rs", 0, what));
        }
    }
    violations
}

/// The list, from the root of the tree.
pub(super) const LIST: &str = BANNED;

#[cfg(test)]
mod tests {
    use super::*;

    const LIST_FOR_TESTS: &str = "# why\nTold\n*Wish\npub State\n";

    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files), LIST_FOR_TESTS)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn banned_names_are_reported_where_they_are_defined() {
        let text = "struct Told;\npub(crate) enum RestoreWish {}\nstruct State;\npub struct State;\n// struct Told;\nlet x: Told;\n";
        let reported = violations(&[("crates/a/src/b.rs", text)]);
        assert_eq!(reported.len(), 3, "{reported:?}");
        assert!(reported[0].starts_with("crates/a/src/b.rs:1: "));
        assert!(reported[1].starts_with("crates/a/src/b.rs:2: "));
        assert!(reported[2].starts_with("crates/a/src/b.rs:4: "));
        assert_eq!(violations(&[("crates/a/src/tests.rs", text)]), [""; 0]);
    }

    #[test]
    fn files_are_not_named_for_banned_names() {
        for path in ["crates/a/src/told.rs", "crates/a/src/told/mod.rs"] {
            assert_eq!(violations(&[(path, "")]).len(), 1, "{path}");
        }
        assert_eq!(violations(&[("crates/a/src/untold.rs", "")]), [""; 0]);
    }

    #[test]
    fn a_public_name_stands_for_one_thing() {
        let public = "pub struct Name<T>(T);\n";
        let two = [("crates/a/src/a.rs", public), ("crates/b/src/a.rs", public)];
        assert_eq!(violations(&two), [""; 0]);
        let private = ("crates/c/src/a.rs", "struct Name;\n");
        assert_eq!(violations(&[two[0], two[1], private]), [""; 0]);
        let third = ("crates/c/src/a.rs", "pub(crate) struct Name;\n");
        assert_eq!(violations(&[two[0], two[1], third]).len(), 3);
    }
}
