//! Reading: the runs of one state, newest first.
//!
//! A get asks one run after the other until a run has the key. Filters avoid nearly all reads of
//! runs without the key. A scan merges one cursor for each run that overlaps the range.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use dewar_env::BoxFuture;
use dewar_types::Result;

use super::cursor::Cursor;
use super::format::key_hash;
use super::sorted_run::SortedRun;
use crate::index::{IndexPage, IndexView};
use crate::{Scan, Seq};

/// Entries looked at before a scan lets others run: deletions may stand in the way for long.
const STEPS_BETWEEN_YIELDS: u32 = 2048;

/// The runs that make up one state of the index.
#[derive(Default)]
pub(super) struct Version {
    /// Newest first.
    pub(super) runs: Vec<Arc<SortedRun>>,
    pub(super) applied: Seq,
}

impl IndexView for Version {
    fn applied(&self) -> Seq {
        self.applied
    }

    fn get_now(&self, key: &[u8]) -> Option<Result<Option<Bytes>>> {
        let hash = key_hash(key);
        for run in &self.runs {
            match run.get_now(key, hash)? {
                Ok(None) => {}
                Ok(Some(known)) => return Some(Ok(known)),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(None))
    }

    fn get<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Bytes>>> {
        Box::pin(async move {
            let hash = key_hash(key);
            for run in &self.runs {
                let known = match run.get_now(key, hash) {
                    Some(known) => known?,
                    None => run.get(key, hash).await?,
                };
                if let Some(known) = known {
                    return Ok(known);
                }
            }
            Ok(None)
        })
    }

    fn scan<'a>(&'a self, scan: Scan<'a>) -> BoxFuture<'a, Result<IndexPage>> {
        Box::pin(self.merged(scan))
    }
}

impl Version {
    async fn merged(&self, scan: Scan<'_>) -> Result<IndexPage> {
        let mut page = IndexPage::default();
        if !scan.to.is_empty() && scan.from >= scan.to {
            return Ok(page);
        }
        let mut heads = BinaryHeap::new();
        for (age, run) in self.runs.iter().enumerate() {
            if !run.overlaps(scan.from, scan.to) {
                continue;
            }
            let cursor = Cursor::start(run, &scan).await?;
            if cursor.key().is_some() {
                heads.push(MergeHead { cursor, age });
            }
        }
        let mut keys = BytesMut::new();
        let mut last: Option<Vec<u8>> = None;
        let mut steps = 0;
        loop {
            let Some(mut head) = heads.peek_mut() else {
                break;
            };
            let Some(key) = head.cursor.key().filter(|key| within(key, &scan)) else {
                // The least of all keys is out of the range: so are the others.
                break;
            };
            // The newest run that knows a key comes first; what older ones say is history.
            if last.as_deref() != Some(key) {
                let before = last.get_or_insert_default();
                before.clear();
                before.extend_from_slice(key);
                if let Some(value) = head.cursor.value_bytes() {
                    if page.pairs.len() == scan.limit {
                        page.more = true;
                        break;
                    }
                    keys.extend_from_slice(key);
                    page.pairs.push((keys.split().freeze(), value));
                }
            }
            if head.cursor.advance_in_block()? {
                // Finds its place in the heap again.
                drop(head);
            } else {
                let MergeHead { mut cursor, age } = PeekMut::pop(head);
                if cursor.advance_to_next_block().await? {
                    heads.push(MergeHead { cursor, age });
                }
            }
            steps += 1;
            if steps % STEPS_BETWEEN_YIELDS == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(page)
    }
}

fn within(key: &[u8], scan: &Scan<'_>) -> bool {
    if scan.reverse {
        key >= scan.from
    } else {
        scan.to.is_empty() || key < scan.to
    }
}

/// A cursor in the heap: the greatest head is the next entry in the direction of the scan, of the
/// newest run that has it.
struct MergeHead {
    cursor: Cursor,
    /// 0 is the newest run.
    age: usize,
}

impl Ord for MergeHead {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = self.cursor.key().cmp(&other.cursor.key());
        let keys = if self.cursor.is_reverse() {
            keys
        } else {
            keys.reverse()
        };
        keys.then(other.age.cmp(&self.age))
    }
}

impl PartialOrd for MergeHead {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for MergeHead {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for MergeHead {}
