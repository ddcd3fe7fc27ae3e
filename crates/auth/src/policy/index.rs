//! An index of statements by resource, so that a request does not test each statement.
//!
//! A statement is filed under the literal start of its resources, cut at the last slash before a
//! wildcard: `atlas/data/*` under `atlas/data/`, `atlas/*.root` under `atlas/`. A resource without
//! wildcards is filed under its whole text. A request looks up every directory above its path, and
//! the path itself. The number of lookups is the number of path components, however many statements
//! exist.

use std::collections::BTreeMap;

use super::Statement;
use super::pattern::ALLOCATION_BYTES;

/// Statements by what their resources begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    by_start: BTreeMap<Box<str>, Vec<u32>>,
}

impl Index {
    pub(super) fn new<'a>(statements: impl Iterator<Item = (u32, &'a Statement)>) -> Self {
        let mut by_start: BTreeMap<Box<str>, Vec<u32>> = BTreeMap::new();
        for (at, statement) in statements {
            let mut starts = statement.starts();
            starts.sort_unstable();
            starts.dedup();
            for start in starts {
                by_start.entry(start.into()).or_default().push(at);
            }
        }
        Self { by_start }
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn memory_bytes(&self) -> usize {
        let entry = size_of::<(Box<str>, Vec<u32>)>() * 2 + 2 * ALLOCATION_BYTES;
        let entries = self.by_start.iter();
        let entries = entries
            .map(|(start, places)| entry + start.len() + places.capacity() * size_of::<u32>());
        entries.sum()
    }

    /// Those that may speak of a path, by their place in the document.
    pub(super) fn candidates(&self, path: &str) -> Vec<u32> {
        let mut found = Vec::new();
        let mut look = |start: &str| {
            if let Some(places) = self.by_start.get(start) {
                found.extend_from_slice(places);
            }
        };
        look("");
        for (at, _) in path.match_indices('/') {
            look(&path[..=at]);
        }
        if !path.is_empty() && !path.ends_with('/') {
            look(path);
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
