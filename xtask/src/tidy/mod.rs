//! Rules for the tree that no compiler checks. Each check has its file. A check reports
//! [`Violation`]s with a place and a sentence that says how to mend it.
//!
//! Exceptions are listed with their reason in [`exceptions`]. An exception that is no longer needed
//! is itself a violation.

mod circles;
mod edges;
mod english;
mod exceptions;
mod folders;
mod links;
mod proofs;
mod size;
mod sources;
mod text;
mod type_names;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::workspace::Workspace;

/// Something that is not as it should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Relative to the root.
    path: String,
    /// From 1; 0 if it is about the whole file.
    line: usize,
    what: String,
}

impl Violation {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// The files of the tree that people write.
#[derive(Debug, Default)]
struct Tree {
    /// Paths relative to the root with `/`, sorted; contents of text files.
    files: Vec<(String, String)>,
}

/// Folders that are made, not written.
const MADE: [&str; 4] = ["target", "__pycache__", "node_modules", "artifacts"];
/// Suffixes of the files that are checked.
const ENDINGS: [&str; 4] = ["rs", "md", "py", "toml"];

/// Prints all violations; fails if there are any.
pub(crate) fn tidy(workspace: &Workspace) -> Result<()> {
    let found = violations(workspace)?;
    for violation in &found {
        eprintln!("{violation}");
    }
    match found.len() {
        0 => Ok(()),
        count => bail!("not tidy: {count} places"),
    }
}

/// Prints how much code each crate has.
pub(crate) fn size(workspace: &Workspace) -> Result<()> {
    size::print(&Tree::read(&workspace.root, &workspace.target)?);
    Ok(())
}

/// All violations, by path.
pub(crate) fn violations(workspace: &Workspace) -> Result<Vec<Violation>> {
    let tree = Tree::read(&workspace.root, &workspace.target)?;
    let mut found = edges::check(&tree, &workspace.packages);
    found.extend(sources::check(&tree));
    found.extend(folders::check(&tree));
    found.extend(links::check(&tree, &workspace.root));
    found.extend(proofs::check(&tree));
    found.extend(circles::check(&tree));
    found.extend(english::check(&tree));
    let banned = workspace.root.join(type_names::LIST);
    let banned =
        std::fs::read_to_string(&banned).with_context(|| format!("read {}", banned.display()))?;
    found.extend(type_names::check(&tree, &banned));
    found.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(found)
}

impl Tree {
    fn read(root: &Path, target: &Path) -> Result<Self> {
        let mut files = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let context = || format!("list {}", folder.display());
            for entry in std::fs::read_dir(&folder).with_context(context)? {
                let path = entry.with_context(context)?.path();
                let name = path
                    .file_name()
                    .map(|name| name.to_string_lossy())
                    .unwrap_or_default();
                if path.is_symlink() || name.starts_with('.') || MADE.contains(&&*name) {
                    continue;
                }
                if path.is_dir() {
                    if path != target {
                        folders.push(path);
                    }
                } else if path
                    .extension()
                    .is_some_and(|e| ENDINGS.iter().any(|it| e == *it))
                {
                    files.push(path);
                }
            }
        }
        let read = |path: PathBuf| -> Result<(String, String)> {
            let text = std::fs::read_to_string(&path);
            let text = text.with_context(|| format!("read {}", path.display()))?;
            let relative = path.strip_prefix(root).context("a file outside its root")?;
            Ok((relative.to_string_lossy().into_owned(), text))
        };
        let mut files = files.into_iter().map(read).collect::<Result<Vec<_>>>()?;
        files.sort();
        Ok(Self { files })
    }

    /// The files with one of the endings.
    fn with_ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let wanted = self.files.iter().filter(move |(path, _)| {
            path.rsplit_once('.')
                .is_some_and(|(_, found)| found == ending)
        });
        wanted.map(|(path, text)| (path.as_str(), text.as_str()))
    }

    fn get(&self, path: &str) -> Option<&str> {
        self.files
            .iter()
            .find(|(other, _)| other == path)
            .map(|(_, text)| text.as_str())
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self {
            files: files.iter().map(owned).collect(),
        }
    }
}
