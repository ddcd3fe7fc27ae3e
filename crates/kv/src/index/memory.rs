//! An index in memory, for tests; it is lost when it is dropped.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use dewar_env::BoxFuture;
use dewar_types::Result;
use parking_lot::RwLock;

use super::{Entry, Index, IndexPage, IndexView, check_batch};
use crate::{Scan, Seq};

/// A map and the last batch that is in it. A batch that comes while a view is in use copies the
/// map.
#[derive(Default)]
pub struct MemoryIndex {
    state: RwLock<State>,
}

#[derive(Clone, Default)]
struct State {
    map: Arc<BTreeMap<Bytes, Bytes>>,
    applied: Seq,
}

impl MemoryIndex {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Index for MemoryIndex {
    fn view(&self) -> Arc<dyn IndexView> {
        Arc::new(self.state.read().clone())
    }

    fn apply(&self, entries: Vec<Entry>, upto: Seq) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let mut state = self.state.write();
            check_batch(&entries, upto, state.applied)?;
            let map = Arc::make_mut(&mut state.map);
            for (key, value) in entries {
                match value {
                    Some(value) => map.insert(key, value),
                    None => map.remove(&key),
                };
            }
            state.applied = upto;
            Ok(())
        })
    }

    fn applied(&self) -> Seq {
        self.state.read().applied
    }

    fn kept(&self) -> Seq {
        self.applied()
    }
}

impl IndexView for State {
    fn applied(&self) -> Seq {
        self.applied
    }

    fn get_now(&self, key: &[u8]) -> Option<Result<Option<Bytes>>> {
        Some(Ok(self.map.get(key).cloned()))
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Bytes>>> {
        Box::pin(async move { Ok(self.map.get(key).cloned()) })
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> BoxFuture<'a, Result<IndexPage>> {
        Box::pin(async move {
            if !scan.to.is_empty() && scan.from >= scan.to {
                return Ok(IndexPage::default());
            }
            let end = match scan.to {
                [] => Bound::Unbounded,
                to => Bound::Excluded(to),
            };
            let range = self.map.range::<[u8], _>((Bound::Included(scan.from), end));
            let own = |(key, value): (&Bytes, &Bytes)| (key.clone(), value.clone());
            // One more than asked for tells whether the limit cut it short.
            let wanted = scan.limit.saturating_add(1);
            let mut pairs: Vec<_> = if scan.reverse {
                range.rev().take(wanted).map(own).collect()
            } else {
                range.take(wanted).map(own).collect()
            };
            let more = pairs.len() > scan.limit;
            pairs.truncate(scan.limit);
            Ok(IndexPage { pairs, more })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(key: &'static str, value: Option<&'static str>) -> Entry {
        (key.into(), value.map(Bytes::from))
    }

    fn all(reverse: bool, limit: usize) -> Scan<'static> {
        Scan {
            from: b"",
            to: b"",
            limit,
            reverse,
        }
    }

    #[tokio::test]
    async fn views_stay_as_they_were() {
        let index = MemoryIndex::new();
        let first = vec![pair("a", Some("1")), pair("b", Some("2"))];
        index.apply(first, 3).await.unwrap();
        let old = index.view();
        let second = vec![pair("a", None), pair("c", Some("3"))];
        index.apply(second, 7).await.unwrap();
        assert_eq!((old.applied(), index.applied()), (3, 7));
        assert_eq!(old.get(b"a").await.unwrap().unwrap(), "1");
        assert_eq!(old.get(b"c").await.unwrap(), None);
        let new = index.view();
        assert_eq!(new.get_now(b"a").unwrap().unwrap(), None);
        let page = new.scan(all(true, 1)).await.unwrap();
        assert_eq!(page.pairs, [("c".into(), "3".into())]);
        assert!(page.more);
        assert!(!new.scan(all(false, 2)).await.unwrap().more);
    }

    #[tokio::test]
    async fn refuses_disorder() {
        let index = MemoryIndex::new();
        let twice = vec![pair("a", None), pair("a", None)];
        assert!(index.apply(twice, 1).await.is_err());
        index.apply(Vec::new(), 5).await.unwrap();
        assert!(index.apply(Vec::new(), 4).await.is_err());
        assert_eq!(index.applied(), 5);
    }
}
