//! Recovery coefficients of recent loss patterns: a small bounded cache.
//!
//! While a disk is absent, the same few patterns occur again and again. Computing coefficients
//! takes about a microsecond or less, so a miss is cheap. The lock is held only to look up or to
//! insert.

use std::sync::{Mutex, PoisonError};

use crate::matrix::{Columns, ShardSet};

/// Patterns kept; 80 bytes each.
const PATTERNS_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Entry {
    from: ShardSet,
    wanted: ShardSet,
    columns: Columns,
    used: u64,
}

/// The patterns and a count of uses that tells which was used last.
#[derive(Debug, Default)]
struct PatternTable {
    entries: Vec<Entry>,
    uses: u64,
}

/// A cache that forgets the pattern which was not asked for the longest.
#[derive(Debug, Default)]
pub(crate) struct Patterns(Mutex<PatternTable>);

impl Patterns {
    /// The columns for a pattern, made by `make` if they are not kept.
    pub(crate) fn columns(
        &self,
        from: ShardSet,
        wanted: ShardSet,
        make: impl FnOnce() -> Columns,
    ) -> Columns {
        // A panic elsewhere cannot leave the list half changed: entries are whole values.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let uses = kept.uses;
        if let Some(entry) = kept
            .entries
            .iter_mut()
            .find(|e| e.from == from && e.wanted == wanted)
        {
            entry.used = uses;
            return entry.columns;
        }
        let columns = make();
        let entry = Entry {
            from,
            wanted,
            columns,
            used: uses,
        };
        if kept.entries.len() < PATTERNS_MAX {
            kept.entries.push(entry);
        } else if let Some(oldest) = kept.entries.iter_mut().min_by_key(|e| e.used) {
            *oldest = entry;
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns_of(mark: usize) -> Columns {
        let mut columns = Columns::default();
        columns[0][0] = mark as u8;
        columns
    }

    #[test]
    fn keeps_what_is_used_and_forgets_the_rest() {
        let cache = Patterns::default();
        let wanted = ShardSet(1);
        let ask = |n: usize| {
            let mut made = false;
            let got = cache.columns(ShardSet(n as u32), wanted, || {
                made = true;
                columns_of(n)
            });
            assert_eq!(got, columns_of(n));
            made
        };
        for n in 0..PATTERNS_MAX {
            assert!(ask(n));
        }
        assert!(!ask(0), "still kept");
        assert!(ask(100), "new");
        assert!(!ask(0), "used lately, so kept");
        assert!(ask(1), "the oldest made room for 100");
        let kept = cache.0.lock().expect("no panic before");
        assert_eq!(kept.entries.len(), PATTERNS_MAX);
    }

    #[test]
    fn tells_wanted_sets_apart() {
        let cache = Patterns::default();
        cache.columns(ShardSet(6), ShardSet(1), || columns_of(1));
        let other = cache.columns(ShardSet(6), ShardSet(8), || columns_of(2));
        assert_eq!(other, columns_of(2));
    }
}
