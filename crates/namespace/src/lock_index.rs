//! The places of locks, in memory: a change of a name must not read all locks of the server.
//!
//! It is built when the tree opens. The table of locks stays the truth: an entry leads to a key, and a
//! key without a record is no lock.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dewar_catalog::keys::KeyRange;
use dewar_catalog::record::LockRecord;
use dewar_types::{EntryId, Timestamp};

/// What is known of a lock.
#[derive(Clone, Debug)]
struct Entry {
    bucket: EntryId,
    path: String,
    holder: String,
    expires: Timestamp,
}

/// All locks, found by name, by path, by holder and by end.
#[derive(Debug, Default)]
pub(super) struct LockIndex {
    by_key: BTreeMap<Bytes, Entry>,
    by_path: BTreeSet<(EntryId, String, Bytes)>,
    by_holder: BTreeMap<String, BTreeSet<Bytes>>,
    by_end: BTreeSet<(Timestamp, Bytes)>,
}

impl LockIndex {
    /// A lock comes, or gets another end.
    pub(super) fn insert(&mut self, key: &Bytes, record: &LockRecord) {
        self.remove(key);
        let entry = Entry {
            bucket: record.bucket,
            path: record.path.clone(),
            holder: record.holder.clone(),
            expires: record.expires,
        };
        self.by_path
            .insert((entry.bucket, entry.path.clone(), key.clone()));
        self.by_end.insert((entry.expires, key.clone()));
        let of_holder = self.by_holder.entry(entry.holder.clone()).or_default();
        of_holder.insert(key.clone());
        self.by_key.insert(key.clone(), entry);
    }

    /// A lock goes.
    pub(super) fn remove(&mut self, key: &Bytes) {
        let Some(entry) = self.by_key.remove(key) else {
            return;
        };
        self.by_end.remove(&(entry.expires, key.clone()));
        self.by_path
            .remove(&(entry.bucket, entry.path, key.clone()));
        if let Some(of_holder) = self.by_holder.get_mut(&entry.holder) {
            of_holder.remove(key);
            if of_holder.is_empty() {
                self.by_holder.remove(&entry.holder);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Keys of the locks of a name, as a range of the table.
    pub(super) fn of_name(&self, range: &KeyRange) -> Vec<Bytes> {
        let keys = self.by_key.range(range.from.clone()..range.to.clone());
        keys.map(|(key, _)| key.clone()).collect()
    }

    /// Keys of the locks of names below a directory.
    pub(super) fn below(&self, bucket: EntryId, directory: &str) -> Vec<Bytes> {
        let inside = format!("{directory}/");
        let from = (bucket, inside.clone(), Bytes::new());
        let locks = self.by_path.range(from..);
        locks
            .take_while(|(of, path, _)| *of == bucket && path.starts_with(&inside))
            .map(|(_, _, key)| key.clone())
            .collect()
    }

    /// The number of locks of a holder that have not ended.
    pub(super) fn held_by(&self, holder: &str, now: Timestamp) -> usize {
        let keys = self.by_holder.get(holder).into_iter().flatten();
        keys.filter(|key| self.by_key.get(*key).is_some_and(|it| it.expires > now))
            .count()
    }

    /// The number of locks that have not ended.
    pub(super) fn live(&self, now: Timestamp) -> usize {
        self.by_key.len() - self.by_end.range(..=end_of(now)).count()
    }

    /// Keys of locks that have ended.
    pub(super) fn ended(&self, now: Timestamp, max: usize) -> Vec<Bytes> {
        let ended = self.by_end.range(..=end_of(now)).take(max);
        ended.map(|(_, key)| key.clone()).collect()
    }
}

/// Comes after everything that ends at this time.
fn end_of(now: Timestamp) -> (Timestamp, Bytes) {
    (now, Bytes::from_static(&[0xff]))
}
