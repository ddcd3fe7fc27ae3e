//! Cache of directories by parent and name, so that resolving a path usually costs no read.
//!
//! Two rules make the cache safe:
//!
//! - Every change of the tree requires in its batch that each directory on its path is as the cache
//!   shows it. A stale entry therefore costs a retry, never a wrong change.
//! - A batch that moves, marks or removes a directory forgets it here. This happens after the batch
//!   became visible and before its caller learns of the success ([`super::batch_builder`] ensures
//!   it even when the caller goes away). A read that began earlier cannot put the old state back:
//!   [`DirCache::insert`] refuses entries that were read before the last call of `forget`.
//!
//! A change whose commit failed may still happen, at a moment that is not reported. Until this is
//! decided, its directories stay out of the cache ([`DirCache::block`]).
//!
//! Several gateways on one catalog must also call [`DirCache::forget`] for the entries of the
//! change log.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use dewar_catalog::record::DirRecord;
use dewar_kv::{Precondition, ReadValue, Seq};
use parking_lot::Mutex;

use super::documents::BucketDocuments;

/// Memory of a directory in the cache beside its value, about.
const DIR_MEMORY_BYTES: usize = 400;

/// Bytes of the longest record of a directory that is remembered.
const DIR_BYTES_MAX: usize = 4096;

/// A directory as it was read.
pub(super) struct Dir {
    /// Its entry key.
    pub(super) key: Bytes,
    /// What stands there.
    pub(super) record: DirRecord,
    /// The documents, if it is a bucket that has any.
    pub(super) documents: Option<Arc<BucketDocuments>>,
    value: Bytes,
    /// The last batch at which the entry is known to be valid.
    seq: AtomicU64,
}

impl Dir {
    pub(super) fn new(key: Bytes, record: DirRecord, value: Bytes, seq: Seq) -> Self {
        Self {
            key,
            record,
            documents: None,
            value,
            seq: AtomicU64::new(seq),
        }
    }

    /// Bytes of memory that it takes, about.
    fn memory_bytes(&self) -> usize {
        let documents = self.documents.as_ref().map_or(0, |all| all.memory_bytes());
        // The value stands here as it was read, and decoded.
        DIR_MEMORY_BYTES + self.key.len() + 2 * self.value.len() + documents
    }

    /// The same with the documents that belong to it.
    pub(super) fn with_documents(mut self, documents: BucketDocuments) -> Self {
        self.documents = Some(Arc::new(documents));
        self
    }

    /// The precondition that it is unchanged.
    pub(super) fn unchanged(&self) -> Precondition {
        Precondition::same(
            self.key.clone(),
            &ReadValue {
                value: Some(self.value.clone()),
                seq: self.seq.load(Ordering::Relaxed),
            },
        )
    }

    /// A batch at `seq` found it unchanged.
    pub(super) fn seen(&self, seq: Seq) {
        self.seq.fetch_max(seq, Ordering::Relaxed);
    }
}

/// When a read began, as far as the cache is concerned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Generation(u64);

/// Two halves: what is used moves to the young half; when that is full, the old half goes.
struct Halves {
    young: HashMap<Bytes, Arc<Dir>>,
    old: HashMap<Bytes, Arc<Dir>>,
    /// Bytes of memory that both take.
    young_bytes: usize,
    old_bytes: usize,
    generation: u64,
    /// Directories that must not be cached, with the number of changes that require it.
    barred: HashMap<Bytes, usize>,
}

/// A bounded cache of directories.
pub(super) struct DirCache {
    halves: Mutex<Halves>,
    half: usize,
    half_bytes: AtomicUsize,
}

impl DirCache {
    /// Holds at most `capacity` directories, of `bytes` bytes of memory with their documents.
    pub(super) fn new(capacity: usize, bytes: usize) -> Self {
        Self {
            halves: Mutex::new(Halves {
                young: HashMap::new(),
                old: HashMap::new(),
                young_bytes: 0,
                old_bytes: 0,
                generation: 0,
                barred: HashMap::new(),
            }),
            half: (capacity / 2).max(1),
            half_bytes: AtomicUsize::new(bytes / 2),
        }
    }

    /// Sets how many bytes of memory it may take.
    pub(super) fn set_bytes_max(&self, bytes: usize) {
        self.half_bytes.store(bytes / 2, Ordering::Relaxed);
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn memory_bytes(&self) -> usize {
        let halves = self.halves.lock();
        halves.young_bytes + halves.old_bytes
    }

    fn limits(&self) -> (usize, usize) {
        (self.half, self.half_bytes.load(Ordering::Relaxed))
    }

    pub(super) fn generation(&self) -> Generation {
        Generation(self.halves.lock().generation)
    }

    pub(super) fn get(&self, key: &Bytes) -> Option<Arc<Dir>> {
        let mut halves = self.halves.lock();
        if let Some(dir) = halves.young.get(key) {
            return Some(Arc::clone(dir));
        }
        let dir = halves.old.get(key).cloned()?;
        halves.put(self.limits(), Arc::clone(&dir));
        Some(dir)
    }

    /// Remembers what a read that began at `since` found.
    ///
    /// A directory with long extended attributes is read each time, so that the memory of the cache
    /// follows from the number of directories.
    pub(super) fn insert(&self, since: Generation, dir: Arc<Dir>) {
        if dir.value.len() > DIR_BYTES_MAX {
            return;
        }
        let mut halves = self.halves.lock();
        if halves.generation == since.0 && !halves.barred.contains_key(&dir.key) {
            halves.put(self.limits(), dir);
        }
    }

    /// These directories may become others at any moment: they are not remembered until
    /// [`DirCache::unblock`].
    pub(super) fn block(&self, keys: &[Bytes]) {
        let mut halves = self.halves.lock();
        for key in keys {
            *halves.barred.entry(key.clone()).or_default() += 1;
        }
        drop(halves);
        self.forget(keys);
    }

    /// What [`DirCache::block`] kept out has become what it will be.
    pub(super) fn unblock(&self, keys: &[Bytes]) {
        let mut halves = self.halves.lock();
        // What was read before must not come in now.
        halves.generation += 1;
        for key in keys {
            if let Some(changes) = halves.barred.get_mut(key) {
                *changes -= 1;
                if *changes == 0 {
                    halves.barred.remove(key);
                }
            }
        }
    }

    /// These directories are not any more what they were.
    pub(super) fn forget<'a>(&self, keys: impl IntoIterator<Item = &'a Bytes>) {
        let mut halves = self.halves.lock();
        halves.generation += 1;
        for key in keys {
            halves.remove(key);
        }
    }
}

impl Halves {
    /// One that alone takes more than half of the memory is not remembered.
    fn put(&mut self, (half, half_bytes): (usize, usize), dir: Arc<Dir>) {
        self.remove(&dir.key);
        let bytes = dir.memory_bytes();
        if bytes > half_bytes {
            return;
        }
        if self.young.len() >= half || self.young_bytes + bytes > half_bytes {
            self.old = std::mem::take(&mut self.young);
            self.old_bytes = std::mem::take(&mut self.young_bytes);
        }
        self.young_bytes += bytes;
        self.young.insert(dir.key.clone(), dir);
    }

    fn remove(&mut self, key: &Bytes) {
        if let Some(dir) = self.young.remove(key) {
            self.young_bytes -= dir.memory_bytes();
        }
        if let Some(dir) = self.old.remove(key) {
            self.old_bytes -= dir.memory_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use dewar_catalog::keys;
    use dewar_catalog::record::{EntryAttributes, Record};
    use dewar_types::{EntryId, Timestamp, UserId};

    use super::*;

    fn dir(name: &str) -> Arc<Dir> {
        let record = DirRecord {
            attributes: EntryAttributes {
                id: EntryId(9),
                owner: UserId(1),
                group: None,
                mode: 0o755,
                mtime: Timestamp(0),
                ctime: Timestamp(0),
                xattrs: Default::default(),
            },
            implicit: true,
            bucket: None,
            space: None,
        };
        let value = record.to_value();
        Arc::new(Dir::new(keys::dir(EntryId(1), name), record, value, 1))
    }

    #[test]
    fn is_bounded_and_keeps_what_is_used() {
        let cache = DirCache::new(100, 1 << 20);
        let now = cache.generation();
        let hot = dir("hot");
        cache.insert(now, Arc::clone(&hot));
        for n in 0..1000 {
            cache.insert(now, dir(&n.to_string()));
            assert!(cache.get(&hot.key).is_some(), "after {n}");
        }
        let halves = cache.halves.lock();
        assert!(halves.young.len() + halves.old.len() <= 100);
    }

    #[test]
    fn is_bounded_by_bytes_however_large_directories_are() {
        let cache = DirCache::new(1000, 40_000);
        let now = cache.generation();
        let large = |n: usize, bytes: usize| {
            let small = dir(&n.to_string());
            let value = Bytes::from(vec![0; bytes]);
            Arc::new(Dir::new(small.key.clone(), small.record.clone(), value, 1))
        };
        for n in 0..1000 {
            cache.insert(now, large(n, 1000 + n));
            assert!(cache.memory_bytes() <= 40_000, "after {n}");
        }
        cache.set_bytes_max(12_000);
        let (one, other) = (large(1, 2_000), large(2, 3_000));
        cache.insert(now, Arc::clone(&one));
        cache.insert(now, Arc::clone(&other));
        assert!(cache.get(&one.key).is_some());
        assert!(cache.get(&other.key).is_none(), "more than half of all");
        cache.forget([&one.key]);
        let all: Vec<Bytes> = (0..1000).map(|n| dir(&n.to_string()).key.clone()).collect();
        cache.forget(&all);
        assert_eq!(cache.memory_bytes(), 0);
    }

    #[test]
    fn old_reads_do_not_come_back() {
        let cache = DirCache::new(100, 1 << 20);
        let before = cache.generation();
        let moved = dir("moved");
        cache.insert(before, Arc::clone(&moved));
        cache.forget([&moved.key]);
        assert!(cache.get(&moved.key).is_none());
        cache.insert(before, Arc::clone(&moved));
        assert!(cache.get(&moved.key).is_none());
        cache.insert(cache.generation(), Arc::clone(&moved));
        assert!(cache.get(&moved.key).is_some());
    }

    #[test]
    fn what_may_change_unseen_is_not_remembered() {
        let cache = DirCache::new(100, 1 << 20);
        let moved = dir("moved");
        let keys = [moved.key.clone()];
        cache.insert(cache.generation(), Arc::clone(&moved));
        cache.block(&keys);
        cache.block(&keys);
        let before = cache.generation();
        cache.insert(before, Arc::clone(&moved));
        assert!(cache.get(&moved.key).is_none());
        cache.unblock(&keys);
        cache.insert(cache.generation(), Arc::clone(&moved));
        assert!(cache.get(&moved.key).is_none(), "the other is still open");
        let during = cache.generation();
        cache.unblock(&keys);
        cache.insert(during, Arc::clone(&moved));
        assert!(
            cache.get(&moved.key).is_none(),
            "read before it was decided"
        );
        cache.insert(cache.generation(), Arc::clone(&moved));
        assert!(cache.get(&moved.key).is_some());
    }
}
