//! The names of a simulated disk: the visible ones, the durable ones, and the changes in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::inode::Inode;
pub(super) use crate::disk::path::parent;
use crate::sim::SimRng;
use crate::{DirEntry, DiskErrorKind};

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    seen: Tree,
    durable: Tree,
    /// In the order in which they happened.
    pending: Vec<Pending>,
}

#[derive(Clone, Debug, Default)]
struct Tree {
    files: BTreeMap<String, Arc<Inode>>,
    dirs: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Pending {
    change: Change,
    /// Folders that must still be synced before it is durable.
    unsynced: BTreeSet<String>,
}

#[derive(Clone, Debug)]
enum Change {
    MakeDir(String),
    Link(String, Arc<Inode>),
    Unlink(String),
    Rename(String, String, Arc<Inode>),
}

impl Change {
    fn touches(&self, name: &str) -> bool {
        match self {
            Self::MakeDir(a) | Self::Link(a, _) | Self::Unlink(a) => a == name,
            Self::Rename(a, b, _) => a == name || b == name,
        }
    }

    fn is_in(&self, dir: &str) -> bool {
        match self {
            Self::MakeDir(a) | Self::Link(a, _) | Self::Unlink(a) => is_within(a, dir),
            Self::Rename(a, b, _) => is_within(a, dir) || is_within(b, dir),
        }
    }

    /// Whether it cannot be durable without `earlier`: of the same name, or a folder it needs.
    fn needs(&self, earlier: &Self) -> bool {
        let of = |name: &str| match earlier {
            Self::MakeDir(dir) => is_within(name, dir),
            other => other.touches(name),
        };
        match self {
            Self::MakeDir(a) | Self::Link(a, _) | Self::Unlink(a) => of(a),
            Self::Rename(a, b, _) => of(a) || of(b),
        }
    }
}

impl Tree {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::MakeDir(dir) => {
                self.dirs.insert(dir.clone());
            }
            Change::Link(name, inode) => {
                if self.has_dir(parent(name)) {
                    self.files.insert(name.clone(), Arc::clone(inode));
                }
            }
            Change::Unlink(name) => {
                self.files.remove(name);
            }
            Change::Rename(from, to, inode) => {
                self.files.remove(from);
                if self.has_dir(parent(to)) {
                    self.files.insert(to.clone(), Arc::clone(inode));
                }
            }
        }
    }

    fn has_dir(&self, dir: &str) -> bool {
        dir.is_empty() || self.dirs.contains(dir)
    }
}

impl Names {
    pub(super) fn file(&self, path: &str) -> Option<&Arc<Inode>> {
        self.seen.files.get(path)
    }

    pub(super) fn is_dir(&self, path: &str) -> bool {
        self.seen.has_dir(path)
    }

    /// Whether folders can stand above this path: none of them is a file.
    pub(super) fn check_above(&self, path: &str) -> Result<(), DiskErrorKind> {
        let mut above = parent(path);
        while !above.is_empty() {
            if self.file(above).is_some() {
                return Err(DiskErrorKind::Io);
            }
            above = parent(above);
        }
        Ok(())
    }

    /// Every file that is seen.
    pub(super) fn files(&self) -> impl Iterator<Item = (&String, &Arc<Inode>)> {
        self.seen.files.iter()
    }

    /// Names a file, and makes the folders above it.
    pub(super) fn link(&mut self, path: &str, inode: Arc<Inode>) {
        self.make_dirs(parent(path));
        self.change(Change::Link(path.to_owned(), inode), [parent(path)]);
    }

    pub(super) fn unlink(&mut self, path: &str) {
        self.change(Change::Unlink(path.to_owned()), [parent(path)]);
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        if from == to {
            return;
        }
        let Some(inode) = self.seen.files.get(from).cloned() else {
            return;
        };
        self.make_dirs(parent(to));
        let change = Change::Rename(from.to_owned(), to.to_owned(), inode);
        self.change(change, [parent(from), parent(to)]);
    }

    /// Removes a folder with all that is in it, durably.
    pub(super) fn lose_dir(&mut self, dir: &str) {
        for tree in [&mut self.seen, &mut self.durable] {
            tree.files.retain(|path, _| !is_within(path, dir));
            tree.dirs.retain(|path| !is_within(path, dir));
        }
        self.pending.retain(|pending| !pending.change.is_in(dir));
    }

    pub(super) fn list(&self, dir: &str) -> Vec<DirEntry> {
        let inside = |path: &str| -> Option<String> {
            (parent(path) == dir).then(|| path.rsplit('/').next().unwrap_or(path).to_owned())
        };
        let entry = |is_dir| move |name| DirEntry { name, is_dir };
        let files = self.seen.files.keys().filter_map(|p| inside(p));
        let dirs = self.seen.dirs.iter().filter_map(|p| inside(p));
        let mut all: Vec<_> = files
            .map(entry(false))
            .chain(dirs.map(entry(true)))
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Makes the changes in this folder durable, and its own name and those above.
    pub(super) fn settle(&mut self, dir: &str) {
        let mut done: Vec<bool> = Vec::with_capacity(self.pending.len());
        for pending in &mut self.pending {
            match &pending.change {
                Change::MakeDir(made) if is_within(dir, made) => pending.unsynced.clear(),
                _ => {
                    pending.unsynced.remove(dir);
                }
            }
            done.push(pending.unsynced.is_empty());
        }
        // A change cannot be durable without the earlier ones that it builds on.
        for later in (0..done.len()).rev() {
            for earlier in 0..later {
                let needed = self.pending[later]
                    .change
                    .needs(&self.pending[earlier].change);
                done[earlier] |= done[later] && needed;
            }
        }
        let mut done = done.into_iter();
        let durable = &mut self.durable;
        self.pending.retain(|pending| {
            let done = done.next().unwrap_or(false);
            if done {
                durable.apply(&pending.change);
            }
            !done
        });
    }

    /// What a power failure leaves: any of the pending changes, or the first few of them as a
    /// journalling file system would have it.
    pub(super) fn after_power_failure(&self, rng: &SimRng) -> Self {
        let mut durable = self.durable.clone();
        let in_order = rng.coin();
        let end = rng.below(self.pending.len() as u64 + 1);
        for (n, pending) in self.pending.iter().enumerate() {
            let kept = if in_order {
                (n as u64) < end
            } else {
                rng.coin()
            };
            if kept {
                durable.apply(&pending.change);
            }
        }
        Self {
            seen: durable.clone(),
            durable,
            pending: Vec::new(),
        }
    }

    /// The same names with every file replaced.
    pub(super) fn map(&self, mut copy: impl FnMut(&Arc<Inode>) -> Arc<Inode>) -> Self {
        let mut tree = |tree: &Tree| Tree {
            files: tree
                .files
                .iter()
                .map(|(name, inode)| (name.clone(), copy(inode)))
                .collect(),
            dirs: tree.dirs.clone(),
        };
        let (seen, durable) = (tree(&self.seen), tree(&self.durable));
        let pending = self.pending.iter().map(|pending| Pending {
            change: match &pending.change {
                Change::Link(name, inode) => Change::Link(name.clone(), copy(inode)),
                Change::Rename(a, b, inode) => Change::Rename(a.clone(), b.clone(), copy(inode)),
                other => other.clone(),
            },
            unsynced: pending.unsynced.clone(),
        });
        let pending = pending.collect();
        Self {
            seen,
            durable,
            pending,
        }
    }

    fn make_dirs(&mut self, dir: &str) {
        if self.seen.has_dir(dir) {
            return;
        }
        self.make_dirs(parent(dir));
        self.change(Change::MakeDir(dir.to_owned()), [parent(dir)]);
    }

    fn change<const N: usize>(&mut self, change: Change, dirs: [&str; N]) {
        self.seen.apply(&change);
        self.pending.push(Pending {
            change,
            unsynced: dirs.into_iter().map(str::to_owned).collect(),
        });
    }
}

/// Whether `path` is `dir` or lies in it.
fn is_within(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::disk::sim::content::FileContent;
    use crate::disk::sim::inode::MediumSpace;

    #[test]
    fn a_later_name_is_not_durable_without_what_was_before() {
        let room = Arc::new(MediumSpace {
            capacity: AtomicU64::new(1 << 20),
            used: AtomicU64::new(0),
        });
        let file = || Inode::new(FileContent::default(), &room);
        let mut names = Names::default();
        names.link("a/x", file());
        names.settle("a");
        names.rename("a/x", "b/x");
        names.link("a/x", file());
        names.settle("a");
        for seed in 0..50 {
            let after = names.after_power_failure(&SimRng::new(seed));
            assert!(after.file("a/x").is_some() && after.file("b/x").is_some());
        }
        names.unlink("a/x");
        let kept = (0..50)
            .filter(|seed| {
                let after = names.after_power_failure(&SimRng::new(*seed));
                after.file("a/x").is_some()
            })
            .count();
        assert!((5..45).contains(&kept), "{kept}");
    }
}
