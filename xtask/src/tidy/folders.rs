//! One folder is one concept and opens complete: a module with parts is `foo/mod.rs`.

use super::{Tree, Violation};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, _) in tree.with_ending("rs") {
        let folder = format!("{}/", path.trim_end_matches(".rs"));
        let in_sources = path.contains("/src/");
        if in_sources
            && tree
                .with_ending("rs")
                .any(|(other, _)| other.starts_with(&folder))
        {
            let what = format!("move it to {folder}mod.rs, beside its parts");
            found.push(Violation::new(path, 0, what));
        }
    }
    for (path, text) in tree.with_ending("toml") {
        let is_member = path.ends_with("/Cargo.toml") && !path.starts_with("fuzz/");
        let is_member = is_member && !path.starts_with("benches/");
        if is_member && !text.contains("[lints]\nworkspace = true") {
            found.push(Violation::new(
                path,
                0,
                "takes no part in the workspace's lints",
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_with_parts_is_a_folder() {
        let tree = Tree::of(&[
            ("crates/a/src/b.rs", ""),
            ("crates/a/src/b/c.rs", ""),
            ("crates/a/src/d/mod.rs", ""),
            ("crates/a/src/d/e.rs", ""),
            ("crates/a/tests/f.rs", ""),
            ("crates/a/tests/f/mod.rs", ""),
        ]);
        let told: Vec<_> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            ["crates/a/src/b.rs: move it to crates/a/src/b/mod.rs, beside its parts"]
        );
    }

    #[test]
    fn every_crate_has_the_lints() {
        let tree = Tree::of(&[
            (
                "crates/a/Cargo.toml",
                "[package]\n\n[lints]\nworkspace = true\n",
            ),
            ("crates/b/Cargo.toml", "[package]\n"),
            ("fuzz/Cargo.toml", "[package]\n"),
        ]);
        assert_eq!(check(&tree).len(), 1);
    }
}
