//! The edges between crates are the architecture: the table in ARCHITECTURE.md says which may be.

use std::collections::{BTreeMap, BTreeSet};

use super::{Tree, Violation};
use crate::workspace::Package;

const PAGE: &str = "ARCHITECTURE.md";
/// The info string of the table's fence.
const FENCE: &str = "```edges";

/// External crates that only some members may name.
const EXTERNAL: [(&str, &[&str]); 1] = [("s3s", &["s3"])];
/// Members that any test may use.
const FOR_TESTS: &str = "sim";

type Table = BTreeMap<String, (usize, BTreeSet<String>)>;

pub(super) fn check(tree: &Tree, packages: &[Package]) -> Vec<Violation> {
    let Some(page) = tree.get(PAGE) else {
        return vec![Violation::new(PAGE, 0, "is missing")];
    };
    let (table, mut found) = read(page);
    if table.is_empty() {
        found.push(Violation::new(
            PAGE,
            0,
            format!("has no table of edges ({FENCE})"),
        ));
        return found;
    }
    for package in packages {
        let name = &package.name;
        let manifest = manifest(name);
        let Some((_, allowed)) = table.get(name) else {
            found.push(Violation::new(
                PAGE,
                0,
                format!("the table of edges lacks the crate {name}"),
            ));
            continue;
        };
        let below = below(&table, name);
        for dependency in &package.dependencies {
            let other = &dependency.name;
            if !dependency.is_member {
                let owners = EXTERNAL.iter().find(|(external, _)| external == other);
                if let Some((_, owners)) = owners
                    && !owners.contains(&name.as_str())
                {
                    let owners = owners.join(", ");
                    let what = format!("{name} depends on {other}, which only {owners} may name");
                    found.push(Violation::new(&manifest, 0, what));
                }
                continue;
            }
            let fits = if dependency.is_dev {
                other == name || other == FOR_TESTS || below.contains(other)
            } else {
                allowed.contains(other)
            };
            if !fits {
                let what = format!("{name} depends on {other}, which {PAGE} does not allow");
                found.push(Violation::new(&manifest, 0, what));
            }
        }
    }
    for (name, (line, _)) in &table {
        if !packages.iter().any(|package| package.name == *name) {
            found.push(Violation::new(
                PAGE,
                *line,
                format!("there is no crate {name}"),
            ));
        }
    }
    found
}

/// The table, with the line of each crate.
fn read(page: &str) -> (Table, Vec<Violation>) {
    let (mut table, mut found) = (Table::new(), Vec::new());
    let lines = page
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim()));
    let within = lines.skip_while(|(_, line)| *line != FENCE).skip(1);
    for (number, line) in within.take_while(|(_, line)| !line.starts_with("```")) {
        let Some((name, below)) = line.split_once(':') else {
            found.push(Violation::new(
                PAGE,
                number,
                format!("{line:?} is not CRATE: CRATES"),
            ));
            continue;
        };
        let below: BTreeSet<_> = below.split_whitespace().map(ToOwned::to_owned).collect();
        // In dependency order, so that there can be no circle.
        for other in below.iter().filter(|other| !table.contains_key(*other)) {
            let what = format!("{name} stands before {other}, on which it depends");
            found.push(Violation::new(PAGE, number, what));
        }
        if table
            .insert(name.trim().to_owned(), (number, below))
            .is_some()
        {
            found.push(Violation::new(PAGE, number, format!("{name} stands twice")));
        }
    }
    (table, found)
}

/// All crates that `name` reaches.
fn below(table: &Table, name: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![name.to_owned()];
    while let Some(name) = open.pop() {
        for other in table.get(&name).into_iter().flat_map(|(_, below)| below) {
            if reached.insert(other.clone()) {
                open.push(other.clone());
            }
        }
    }
    reached
}

fn manifest(name: &str) -> String {
    if name == "xtask" {
        "xtask/Cargo.toml".to_owned()
    } else {
        format!("crates/{name}/Cargo.toml")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    const TABLE: &str =
        "# A\n```edges\ntypes:\nkv: types\nstore: kv\ns3: types store\nsim: kv\n```\n";

    fn package(name: &str, dependencies: &[(&str, bool, bool)]) -> Package {
        let dependency = |(name, is_member, is_dev): &(&str, bool, bool)| Dependency {
            name: (*name).to_owned(),
            is_member: *is_member,
            is_dev: *is_dev,
        };
        let dependencies = dependencies.iter().map(dependency).collect();
        Package {
            name: name.to_owned(),
            dependencies,
        }
    }

    fn told(page: &str, packages: &[Package]) -> Vec<String> {
        let mut all: Vec<_> = ["types", "kv", "store", "s3", "sim"]
            .map(|name| package(name, &[]))
            .into();
        all.retain(|other| packages.iter().all(|package| package.name != other.name));
        all.extend(packages.iter().cloned());
        let found = check(&Tree::of(&[(PAGE, page)]), &all);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn allowed_edges_pass() {
        let packages = [
            package(
                "kv",
                &[
                    ("types", true, false),
                    ("serde", false, false),
                    ("sim", true, true),
                ],
            ),
            package(
                "s3",
                &[
                    ("store", true, false),
                    ("kv", true, true),
                    ("s3s", false, false),
                ],
            ),
        ];
        assert_eq!(told(TABLE, &packages), [""; 0]);
    }

    #[test]
    fn forbidden_edges_are_found() {
        let found = told(TABLE, &[package("s3", &[("kv", true, false)])]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("crates/s3/Cargo.toml") && found[0].contains("on kv"),
            "{found:?}"
        );
        let found = told(TABLE, &[package("kv", &[("store", true, true)])]);
        assert_eq!(
            found.len(),
            1,
            "tests may not turn the order round: {found:?}"
        );
        let found = told(TABLE, &[package("store", &[("s3s", false, true)])]);
        assert!(found[0].contains("only s3 may name"), "{found:?}");
    }

    #[test]
    fn the_table_is_complete_and_in_order() {
        assert!(told("# A\n", &[])[0].contains("no table"));
        assert!(told(TABLE, &[package("new", &[])])[0].contains("lacks the crate new"));
        let stale = TABLE.replace("sim:", "old:\nsim:");
        assert_eq!(
            told(&stale, &[]),
            ["ARCHITECTURE.md:7: there is no crate old"]
        );
        let circle = TABLE.replace("types:", "types: kv");
        assert!(told(&circle, &[])[0].contains("types stands before kv"));
    }
}
