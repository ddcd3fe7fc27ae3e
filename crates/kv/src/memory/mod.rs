//! The engine for tests and models: everything in memory, nothing durable.
//!
//! It keeps every version of a key that a snapshot in use can still see. Commits happen under one
//! lock, so "durable and visible" is the moment the lock is released. It checks preconditions by
//! value alone, so it is the reference for engines that compare sequence numbers instead.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::future::ready;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use dewar_env::BoxFuture;
use dewar_types::{Error, ErrorKind};
use parking_lot::RwLock;

use super::{Batch, CommitError, Kv, KvRead, Precondition, ReadValue, Scan, ScanPage, Seq};

/// A [`Kv`] that forgets everything when it is dropped; cheap to clone, clones share the content.
#[derive(Clone, Debug, Default)]
pub struct MemoryKv {
    state: Arc<RwLock<State>>,
}

impl MemoryKv {
    /// An empty catalog at sequence 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of versions in memory, live and old; for tests of the clean-up.
    #[must_use]
    pub fn versions(&self) -> usize {
        self.state.read().keys.values().map(Vec::len).sum()
    }
}

impl KvRead for MemoryKv {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<ReadValue, Error>> {
        let state = self.state.read();
        Box::pin(ready(Ok(state.get(key, state.last))))
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> BoxFuture<'a, Result<ScanPage, Error>> {
        let state = self.state.read();
        Box::pin(ready(Ok(state.scan(&scan, state.last))))
    }
}

impl Kv for MemoryKv {
    fn snapshot(&self) -> Arc<dyn KvRead> {
        let mut state = self.state.write();
        let seq = state.last;
        *state.held.entry(seq).or_default() += 1;
        Arc::new(Snapshot {
            state: Arc::clone(&self.state),
            seq,
        })
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<Seq, CommitError>> {
        Box::pin(ready(self.state.write().commit(batch)))
    }

    fn last_sequence(&self) -> Seq {
        self.state.read().last
    }

    fn changes(&self, after: Seq, limit: usize) -> BoxFuture<'_, Result<Vec<(Seq, Bytes)>, Error>> {
        let state = self.state.read();
        let first = state.log.partition_point(|(seq, _)| *seq <= after);
        let mut batches = 0;
        let mut previous = None;
        let found = state.log[first..]
            .iter()
            .take_while(|(seq, _)| {
                if previous != Some(*seq) {
                    previous = Some(*seq);
                    batches += 1;
                }
                batches <= limit
            })
            .cloned()
            .collect();
        Box::pin(ready(Ok(found)))
    }
}

#[derive(Debug, Default)]
struct State {
    last: Seq,
    /// Versions of each key, oldest first.
    keys: BTreeMap<Bytes, Vec<Version>>,
    log: Vec<(Seq, Bytes)>,
    /// Snapshots in use, by their sequence number.
    held: BTreeMap<Seq, usize>,
    /// Keys whose older versions may be removed when no snapshot below the sequence number is in
    /// use.
    stale: VecDeque<(Seq, Bytes)>,
}

#[derive(Debug)]
struct Version {
    seq: Seq,
    value: Option<Bytes>,
}

impl State {
    fn get(&self, key: &[u8], at: Seq) -> ReadValue {
        let value = self.keys.get(key).and_then(|versions| seen(versions, at));
        ReadValue { value, seq: at }
    }

    fn scan(&self, scan: &Scan<'_>, at: Seq) -> ScanPage {
        let mut page = ScanPage {
            seq: at,
            ..ScanPage::default()
        };
        if !scan.to.is_empty() && scan.from >= scan.to {
            return page;
        }
        let range = self.keys.range::<[u8], _>(bounds(scan.from, scan.to));
        let live = |(key, versions): (&Bytes, &Vec<Version>)| {
            seen(versions, at).map(|value| (key.clone(), value))
        };
        if scan.reverse {
            page.fill(range.rev().filter_map(live), scan.limit);
        } else {
            page.fill(range.filter_map(live), scan.limit);
        }
        page
    }

    fn commit(&mut self, batch: Batch) -> Result<Seq, CommitError> {
        batch.check()?;
        for (index, require) in batch.require.iter().enumerate() {
            if !self.holds(require) {
                return Err(CommitError::Conflict(index));
            }
        }
        let mut sums: BTreeMap<Bytes, i64> = BTreeMap::new();
        for (key, delta) in batch.adds {
            let before = match self.get(&key, self.last).value {
                Some(value) => counter(&key, &value)?,
                None => 0,
            };
            let sum = sums.entry(key).or_insert(before);
            *sum = sum.wrapping_add(delta);
        }

        self.last += 1;
        let seq = self.last;
        for (key, sum) in sums {
            self.write(key, seq, Some(Bytes::copy_from_slice(&sum.to_be_bytes())));
        }
        for (key, value) in batch.puts {
            self.write(key, seq, Some(value));
        }
        for key in batch.deletes {
            self.write(key, seq, None);
        }
        self.log
            .extend(batch.log.into_iter().map(|record| (seq, record)));
        self.prune();
        Ok(seq)
    }

    fn holds(&self, require: &Precondition) -> bool {
        match require {
            Precondition::Same { key, value, .. } => self.get(key, self.last).value == *value,
            Precondition::Empty { from, to } => {
                let any = Scan {
                    from,
                    to,
                    limit: 1,
                    reverse: false,
                };
                self.scan(&any, self.last).pairs.is_empty()
            }
            Precondition::AtMost { counter, max } => {
                super::batch::decode_counter(self.get(counter, self.last).value.as_deref()) <= *max
            }
        }
    }

    fn write(&mut self, key: Bytes, seq: Seq, value: Option<Bytes>) {
        let versions = self.keys.entry(key.clone()).or_default();
        if !versions.is_empty() || value.is_none() {
            self.stale.push_back((seq, key));
        }
        versions.push(Version { seq, value });
    }

    /// Drops the versions that no snapshot can see.
    fn prune(&mut self) {
        let floor = self.held.keys().next().copied().unwrap_or(self.last);
        while self.stale.front().is_some_and(|(seq, _)| *seq <= floor) {
            let Some((_, key)) = self.stale.pop_front() else {
                return;
            };
            let Some(versions) = self.keys.get_mut(&key) else {
                continue;
            };
            let seen = versions.partition_point(|version| version.seq <= floor);
            let live = seen > 0 && versions[seen - 1].value.is_some();
            versions.drain(..seen - usize::from(live));
            if versions.is_empty() {
                self.keys.remove(&key);
            }
        }
    }
}

impl ScanPage {
    /// Takes pairs up to `limit` and notes whether there was one more.
    fn fill(&mut self, pairs: impl Iterator<Item = (Bytes, Bytes)>, limit: usize) {
        for pair in pairs {
            if self.pairs.len() == limit {
                self.more = true;
                return;
            }
            self.pairs.push(pair);
        }
    }
}

fn bounds<'a>(from: &'a [u8], to: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let end = if to.is_empty() {
        Bound::Unbounded
    } else {
        Bound::Excluded(to)
    };
    (Bound::Included(from), end)
}

fn seen(versions: &[Version], at: Seq) -> Option<Bytes> {
    let count = versions.partition_point(|version| version.seq <= at);
    versions[..count].last()?.value.clone()
}

fn counter(key: &[u8], value: &[u8]) -> Result<i64, Error> {
    match value.try_into() {
        Ok(bytes) => Ok(i64::from_be_bytes(bytes)),
        Err(_) => Err(Error::new(
            ErrorKind::Internal,
            format!(
                "key {} is no counter: its value has {} bytes",
                key.escape_ascii(),
                value.len()
            ),
        )),
    }
}

struct Snapshot {
    state: Arc<RwLock<State>>,
    seq: Seq,
}

impl KvRead for Snapshot {
    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<ReadValue, Error>> {
        Box::pin(ready(Ok(self.state.read().get(key, self.seq))))
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> BoxFuture<'a, Result<ScanPage, Error>> {
        Box::pin(ready(Ok(self.state.read().scan(&scan, self.seq))))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut state = self.state.write();
        if let Some(count) = state.held.get_mut(&self.seq) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(&self.seq);
            }
        }
        state.prune();
    }
}
