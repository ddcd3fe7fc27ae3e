//! A memtable of the overlay: changes that the index does not hold yet, by key, each with the
//! sequence of its batch.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::{Batch, Seq};

/// What happened to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Put(Bytes),
    Delete,
    /// Added to the value of the memtables below.
    Add(i64),
}

/// What layers know of a key, newest first, down to where they know all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MemtableLookup {
    /// Sum of the additions above the base.
    sum: Option<i64>,
    /// The value below them, if a memtable has it; `Some(None)` if there is none.
    base: Option<Option<Bytes>>,
}

impl MemtableLookup {
    fn take(&mut self, op: &Op) {
        match op {
            Op::Put(value) => self.base = Some(Some(value.clone())),
            Op::Delete => self.base = Some(None),
            Op::Add(delta) => self.sum = Some(self.sum.unwrap_or(0).wrapping_add(*delta)),
        }
    }

    /// Whether what the index says does not matter.
    pub(super) fn complete(&self) -> bool {
        self.base.is_some()
    }

    /// The key's value, given what lies under the layers.
    pub(super) fn over(self, below: Option<Bytes>) -> Option<Bytes> {
        let base = self.base.unwrap_or(below);
        let Some(sum) = self.sum else { return base };
        // What is no counter counts as none: a batch that adds to it is refused elsewhere.
        let before = base
            .and_then(|value| value[..].try_into().ok())
            .map_or(0, i64::from_be_bytes);
        Some(Bytes::copy_from_slice(
            &before.wrapping_add(sum).to_be_bytes(),
        ))
    }
}

#[derive(Debug, Default)]
pub(super) struct Memtable {
    /// Oldest first.
    keys: BTreeMap<Bytes, Vec<(Seq, Op)>>,
    bytes: usize,
    log_bytes: usize,
    last: Seq,
}

/// About what a key costs beside its own bytes and its value's.
const OVERHEAD_BYTES: usize = 120;

impl Memtable {
    /// Keys in it.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the journal records behind it, carries included: the index's hold keeps them.
    pub(super) fn log_bytes(&self) -> usize {
        self.log_bytes
    }

    /// Counts a record of the journal.
    pub(super) fn count_record(&mut self, bytes: usize) {
        self.log_bytes += bytes;
    }

    /// The last batch in it.
    pub(super) fn last(&self) -> Seq {
        self.last
    }

    /// Takes a batch in. Versions that nobody can see any more, since all readers see at least
    /// `floor`, are dropped on the way.
    pub(super) fn apply(&mut self, seq: Seq, batch: Batch, floor: Seq) {
        for (key, value) in batch.puts {
            self.push(key, seq, Op::Put(value), floor);
        }
        for key in batch.deletes {
            self.push(key, seq, Op::Delete, floor);
        }
        for (key, delta) in batch.adds {
            self.push(key, seq, Op::Add(delta), floor);
        }
        self.last = seq;
    }

    pub(super) fn push(&mut self, key: Bytes, seq: Seq, op: Op, floor: Seq) {
        let size = |op: &Op| match op {
            Op::Put(value) => value.len() + 32,
            Op::Delete | Op::Add(_) => 32,
        };
        let added = size(&op);
        let key_len = key.len();
        let versions = self.keys.entry(key).or_insert_with(|| {
            self.bytes += key_len + OVERHEAD_BYTES;
            Vec::with_capacity(1)
        });
        versions.push((seq, op));
        self.bytes += added;
        // Everything up to the newest version that all readers can see folds into that one.
        let seen = versions.partition_point(|(seq, _)| *seq <= floor);
        if seen > 1 {
            let mut folded: Option<Op> = None;
            let mut dropped = 0;
            for (_, op) in &versions[..seen] {
                dropped += size(op);
                folded = Some(match (folded, op) {
                    (Some(Op::Add(a)), Op::Add(b)) => Op::Add(a.wrapping_add(*b)),
                    (Some(Op::Put(value)), Op::Add(b)) => {
                        let before = value[..].try_into().map_or(0, i64::from_be_bytes);
                        let sum = before.wrapping_add(*b);
                        Op::Put(Bytes::copy_from_slice(&sum.to_be_bytes()))
                    }
                    (Some(Op::Delete), Op::Add(b)) => {
                        Op::Put(Bytes::copy_from_slice(&b.to_be_bytes()))
                    }
                    (_, op) => op.clone(),
                });
            }
            if let Some(op) = folded {
                self.bytes = (self.bytes + size(&op)).saturating_sub(dropped);
                let at = versions[seen - 1].0;
                versions.drain(..seen - 1);
                versions[0] = (at, op);
            }
        }
    }

    /// Adds what this layer knows of a key, as readers at `at` see it.
    pub(super) fn look(&self, key: &[u8], at: Seq, known: &mut MemtableLookup) {
        if known.complete() {
            return;
        }
        let Some(versions) = self.keys.get(key) else {
            return;
        };
        look_at(versions, at, known);
    }

    /// The newest batch that touched a key.
    pub(super) fn touched(&self, key: &[u8]) -> Option<Seq> {
        self.keys
            .get(key)
            .and_then(|versions| versions.last())
            .map(|(seq, _)| *seq)
    }

    /// Keys from `from` to `to` (empty: no end) in order, that readers at `at` can see touched.
    pub(super) fn range<'l>(
        &'l self,
        from: Bound<&'l [u8]>,
        to: &'l [u8],
        at: Seq,
    ) -> impl DoubleEndedIterator<Item = (&'l Bytes, &'l Vec<(Seq, Op)>)> {
        let to = if to.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Excluded(to)
        };
        let valid = match (from, to) {
            (Bound::Included(from), Bound::Excluded(to)) => from < to,
            (Bound::Excluded(from), Bound::Excluded(to)) => from < to,
            _ => true,
        };
        let range = valid.then(|| self.keys.range::<[u8], _>((from, to)));
        range
            .into_iter()
            .flatten()
            .filter(move |(_, versions)| versions.first().is_some_and(|(seq, _)| *seq <= at))
    }

    /// Every key with the newest that is known of it, in order, for the index.
    pub(super) fn newest(&self) -> Vec<(Bytes, MemtableLookup)> {
        self.keys
            .iter()
            .map(|(key, versions)| {
                let mut known = MemtableLookup::default();
                look_at(versions, Seq::MAX, &mut known);
                (key.clone(), known)
            })
            .collect()
    }
}

fn look_at(versions: &[(Seq, Op)], at: Seq, known: &mut MemtableLookup) {
    for (_, op) in versions.iter().rev().filter(|(seq, _)| *seq <= at) {
        known.take(op);
        if known.complete() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(value: &'static [u8]) -> Op {
        Op::Put(Bytes::from_static(value))
    }

    fn read(layer: &Memtable, at: Seq) -> Option<Bytes> {
        let mut known = MemtableLookup::default();
        layer.look(b"k", at, &mut known);
        known.over(None)
    }

    #[test]
    fn readers_see_their_own_moment() {
        let mut layer = Memtable::default();
        let key = Bytes::from_static(b"k");
        layer.push(key.clone(), 1, put(b"a"), 0);
        layer.push(key.clone(), 3, Op::Delete, 0);
        layer.push(key.clone(), 5, put(b"b"), 0);
        let seen: Vec<_> = (0..7).map(|at| read(&layer, at)).collect();
        let (a, b) = (
            Some(Bytes::from_static(b"a")),
            Some(Bytes::from_static(b"b")),
        );
        assert_eq!(seen, [None, a.clone(), a, None, None, b.clone(), b]);
    }

    #[test]
    fn what_nobody_sees_goes() {
        let mut layer = Memtable::default();
        let key = Bytes::from_static(b"k");
        for seq in 1..1000 {
            layer.push(key.clone(), seq, Op::Add(1), seq - 1);
        }
        assert!(
            layer.bytes() < 400,
            "{} bytes for one counter",
            layer.bytes()
        );
        let sum = read(&layer, 1000).map(|v| i64::from_be_bytes(v[..].try_into().expect("8")));
        assert_eq!(sum, Some(999));
    }

    #[test]
    fn additions_fold_over_what_is_below() {
        let mut layer = Memtable::default();
        let key = Bytes::from_static(b"k");
        layer.push(key.clone(), 1, Op::Add(5), 0);
        let mut known = MemtableLookup::default();
        layer.look(b"k", 9, &mut known);
        assert!(!known.complete());
        let below = Bytes::copy_from_slice(&37i64.to_be_bytes());
        let sum = known.over(Some(below)).expect("a counter");
        assert_eq!(i64::from_be_bytes(sum[..].try_into().expect("8")), 42);
        layer.push(key.clone(), 2, Op::Delete, 0);
        layer.push(key.clone(), 3, Op::Add(1), 9);
        let sum = read(&layer, 9).map(|v| i64::from_be_bytes(v[..].try_into().expect("8")));
        assert_eq!(sum, Some(1));
    }
}
