//! Top-level modules of one crate do not import each other in a circle: a reader can begin at the
//! bottom.

use std::collections::{BTreeMap, BTreeSet};

use super::text::{is_test_file, lines};
use super::{Tree, Violation};

/// Modules of one crate that import each other.
struct Exception {
    krate: &'static str,
    /// Separated by blanks, in alphabetical order.
    modules: &'static str,
    reason: &'static str,
}

const fn exception(krate: &'static str, modules: &'static str, reason: &'static str) -> Exception {
    Exception {
        krate,
        modules,
        reason,
    }
}

const EXCEPTIONS: &[Exception] = &[
    exception(
        "disks",
        "disks upkeep",
        "upkeep works on all parts of the disks, which are opened with it",
    ),
    exception(
        "admin",
        "backup_admin catalog command context disk_advice disk_changes disks key_file key_file_admin \
         pool_figures status upkeep upkeep_admin",
        "a command runs on the context, whose parts answer with the reply of the command",
    ),
    exception(
        "journal",
        "backfill membership",
        "a member that joins is filled, and a change of members waits for the filling",
    ),
    exception(
        "journal",
        "error recovery_scan",
        "the error names the places that the scan found",
    ),
    exception(
        "s3",
        "door ops wire",
        "the door calls the verbs, which use its request and its errors",
    ),
    exception(
        "s3",
        "sigv2 sigv4",
        "the verifier hands requests with a signature of Version 2 over, and gets its own type back",
    ),
    exception(
        "server",
        "cli demo process serve store_engine",
        "the command line starts the server, which prints with its means",
    ),
    exception(
        "store",
        "access api authorize copy document encryption info lifecycle version_attributes",
        "the requests of the verbs name the settings of buckets that the verbs read",
    ),
    exception(
        "store",
        "content_reader content_writer file write",
        "a writer reads its base version back, and the verbs of files begin writes",
    ),
    exception(
        "webdav",
        "access front if_header ops",
        "the front runs the methods, which use its store and its settings",
    ),
    exception(
        "xrootd",
        "connection door measure ops session tpc",
        "a connection runs the operations, which answer on the connection",
    ),
];

/// The modules that a module imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Imports> = BTreeMap::new();
    for (path, text) in tree.with_ending("rs") {
        let Some((krate, file)) = path
            .strip_prefix("crates/")
            .and_then(|rest| rest.split_once("/src/"))
        else {
            continue;
        };
        let parts: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
        let module = parts[0];
        if is_test_file(path) || matches!(module, "lib" | "main" | "testing") {
            continue;
        }
        // A module's own depth: as many `super::` lead to the root of the crate.
        let depth = parts.iter().filter(|part| **part != "mod").count();
        let imports = crates.entry(krate).or_default();
        let imports = imports.entry(module.to_owned()).or_default();
        imports.extend(imported(text, depth));
        imports.remove(module);
    }
    let mut violations = Vec::new();
    let mut used = vec![false; EXCEPTIONS.len()];
    for (krate, imports) in &crates {
        for circle in circles(imports) {
            let modules = circle.join(" ");
            let exception = EXCEPTIONS
                .iter()
                .position(|exception| exception.krate == *krate && exception.modules == modules);
            if let Some(at) = exception {
                used[at] = true;
            } else {
                let what = format!("these modules import each other: {modules}");
                violations.push(Violation::new(&format!("crates/{krate}/src/"), 0, what));
            }
        }
    }
    for (exception, used) in EXCEPTIONS.iter().zip(used) {
        if !used && crates.contains_key(exception.krate) {
            let what = format!(
                "no circle is {} any more: {}",
                exception.modules, exception.reason
            );
            violations.push(Violation::new(
                &format!("crates/{}/src/", exception.krate),
                0,
                what,
            ));
        }
    }
    violations
}

/// The top-level modules that a file names by `crate::` or by as many `super::` as lead there.
fn imported(text: &str, depth: usize) -> BTreeSet<String> {
    let code: Vec<&str> = lines(text)
        .iter()
        .filter(|line| !line.is_test)
        .map(|line| line.code)
        .collect();
    let code = code.join("\n");
    let mut modules = BTreeSet::new();
    for prefix in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&prefix) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            modules.extend(first_names(&code[at + prefix.len()..]));
        }
    }
    // Types and functions of the root itself are no modules.
    modules.retain(|name| name.starts_with(char::is_lowercase));
    modules
}

/// The first part of a path, or of each path in braces.
fn first_names(code: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        let text = text.trim_start();
        let end = text
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(text.len());
        text[..end].to_owned()
    };
    let Some(list) = code.strip_prefix('{') else {
        return if code.starts_with("super::") {
            Vec::new()
        } else {
            vec![name(code)]
        };
    };
    let mut names = vec![name(list)];
    let mut depth = 1;
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(name(&list[at + 1..])),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

/// Groups of modules of which each reaches each other.
fn circles(imports: &Imports) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = imports
        .keys()
        .map(|module| (module, reachable(imports, module)))
        .collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for module in imports.keys() {
        if circles.iter().flatten().any(|other| other == module)
            || !reached[module].contains(module)
        {
            continue;
        }
        let circle = imports
            .keys()
            .filter(|other| reached[module].contains(other) && reached[other].contains(module));
        circles.push(circle.cloned().collect());
    }
    circles
}

fn reachable<'a>(imports: &'a Imports, from: &str) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        let next = imports.get(module).into_iter().flatten();
        for other in next.filter(|other| imports.contains_key(*other)) {
            if reached.insert(other) {
                open.push(other);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_circle_is_found_through_several_modules() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nuse crate::b::B;\n"),
            ("crates/a/src/b.rs", "use crate::c::{C, D};\n"),
            ("crates/a/src/c/mod.rs", "use super::{E, d::F};\n"),
            ("crates/a/src/d/e.rs", "use super::super::b::B;\n"),
            ("crates/a/src/f.rs", "use crate::b::B;\n"),
        ];
        let reported = violations(&files);
        assert_eq!(
            reported,
            ["crates/a/src/: these modules import each other: b c d"]
        );
        assert_eq!(violations(&files[..3]), [""; 0]);
    }

    #[test]
    fn tests_and_own_parts_make_no_circle() {
        let files = [
            (
                "crates/a/src/b/mod.rs",
                "use crate::b::part::X;\n#[cfg(test)]\nmod tests {\n    use crate::c::C;\n}\n",
            ),
            ("crates/a/src/b/part.rs", "use super::Y;\n"),
            ("crates/a/src/c.rs", "use crate::b::B;\n"),
        ];
        assert_eq!(violations(&files), [""; 0]);
    }
}
