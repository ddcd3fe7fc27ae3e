//! Links between the pages lead somewhere: the file is there, and so is the heading.

use std::path::Path;

use super::{Tree, Violation};

pub(super) fn check(tree: &Tree, root: &Path) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.with_ending("md") {
        for (line, target) in links(text) {
            if let Some(what) = broken(tree, root, path, &target) {
                found.push(Violation::new(path, line, what));
            }
        }
    }
    found
}

/// The problem with a link on the page `path`, if it has one.
fn broken(tree: &Tree, root: &Path, path: &str, target: &str) -> Option<String> {
    let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
    if is_elsewhere || target.is_empty() {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() {
        path.to_owned()
    } else {
        resolve(path, file)?
    };
    if !root.join(&file).exists() && tree.get(&file).is_none() {
        return Some(format!("the link {target:?} leads nowhere"));
    }
    let page = tree.get(&file).filter(|_| file.ends_with(".md"))?;
    if heading.is_empty() || headings(page).iter().any(|other| other == heading) {
        return None;
    }
    Some(format!("the link {target:?} leads to no heading of {file}"))
}

/// The path of a link relative to its page; `None` if it leaves the tree.
fn resolve(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The targets of inline links, `[text](target)`, outside code, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        // Every second part between backticks is code.
        let prose: Vec<_> = line.split('`').collect();
        for part in prose.iter().step_by(2) {
            let mut rest = *part;
            while let Some(at) = rest.find("](") {
                rest = &rest[at + 2..];
                let Some(end) = rest.find(')') else { break };
                let target = rest[..end].split_whitespace().next().unwrap_or_default();
                found.push((number, target.trim_matches(['<', '>']).to_owned()));
                rest = &rest[end..];
            }
        }
        // A link whose text is code: `[`code`](target)` was cut in three.
        for pair in prose.windows(2).skip(1).step_by(2) {
            if let Some(rest) = pair[1].strip_prefix("](")
                && !pair[1].contains("[")
                && let Some(end) = rest.find(')')
                && !found.iter().any(|(n, t)| *n == number && *t == rest[..end])
            {
                found.push((number, rest[..end].to_owned()));
            }
        }
    }
    found
}

/// The lines outside fenced code, numbered from 1.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let numbered = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    let mut kept = Vec::new();
    for (number, line) in numbered {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            kept.push((number, line));
        }
    }
    kept
}

/// The anchors of a page's headings as git forges make them.
fn headings(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (_, line) in prose(page) {
        let text = line.trim_start_matches('#');
        if text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let anchor: String = text.trim().to_lowercase().chars().filter(kept).collect();
        let anchor = anchor.replace(' ', "-");
        let same = found.iter().filter(|other| **other == anchor).count();
        found.push(if same == 0 {
            anchor
        } else {
            format!("{anchor}-{same}")
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_somewhere() {
        let page = "# The `first` page\n[b](../b.md#what-it-does) [self](#the-first-page)\n\
                    [out](https://x/y.md) `[code](none.md)` [`c`](sub/c.md)\n\
                    ```\n[fenced](none.md)\n```\n";
        let tree = Tree::of(&[
            ("docs/a.md", page),
            ("b.md", "## What it *does*?\n"),
            ("docs/sub/c.md", ""),
        ]);
        assert_eq!(check(&tree, Path::new("/nowhere")), []);
    }

    #[test]
    fn dead_links_are_found() {
        let page = "[a](none.md)\n[b](#nothing) and [c](b.md#nothing)\n[`d`](gone.md)\n";
        let tree = Tree::of(&[("docs/a.md", page), ("docs/b.md", "# Else\n")]);
        let told: Vec<_> = check(&tree, Path::new("/nowhere"))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            told,
            [
                "docs/a.md:1: the link \"none.md\" leads nowhere",
                "docs/a.md:2: the link \"#nothing\" leads to no heading of docs/a.md",
                "docs/a.md:2: the link \"b.md#nothing\" leads to no heading of docs/b.md",
                "docs/a.md:3: the link \"gone.md\" leads nowhere",
            ]
        );
    }

    #[test]
    fn a_heading_that_stands_twice_is_numbered() {
        assert_eq!(headings("# A b\n## A b\n# C\n"), ["a-b", "a-b-1", "c"]);
    }
}
