//! Reads over the layers and the index, as of one sequence.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use dewar_types::Error;
use parking_lot::RwLock;

use super::memtable::{Memtable, MemtableLookup};
use super::{CHANGE_LOG, Inner, State};
use crate::index::IndexView;
use crate::{ReadValue, Scan, ScanPage, Seq};

/// Everything that a reader at `at` needs, kept for as long as it reads.
pub(super) struct Memtables {
    pub(super) at: Seq,
    active: Arc<RwLock<Memtable>>,
    frozen: Option<Arc<RwLock<Memtable>>>,
    view: Arc<dyn IndexView>,
}

impl Inner {
    pub(super) fn layers(&self) -> Memtables {
        self.layers_of(&self.state.read())
    }

    pub(super) fn layers_of(&self, state: &State) -> Memtables {
        Memtables {
            // Read under the lock: the index never holds what is beyond it.
            at: self.visible().max(state.view.applied()),
            active: Arc::clone(&state.active),
            frozen: state.frozen.clone(),
            view: Arc::clone(&state.view),
        }
    }
}

/// What the layers know of a key.
pub(super) fn look(
    active: &RwLock<Memtable>,
    frozen: Option<&RwLock<Memtable>>,
    key: &[u8],
    at: Seq,
) -> MemtableLookup {
    let mut known = MemtableLookup::default();
    active.read().look(key, at, &mut known);
    if let Some(frozen) = frozen.filter(|_| !known.complete()) {
        frozen.read().look(key, at, &mut known);
    }
    known
}

impl Memtables {
    pub(super) async fn get(&self, key: &[u8]) -> Result<ReadValue, Error> {
        let known = look(&self.active, self.frozen.as_deref(), key, self.at);
        let value = if known.complete() {
            known.over(None)
        } else {
            known.over(self.view.get(key).await?)
        };
        Ok(ReadValue {
            value,
            seq: self.at,
        })
    }

    /// A key's value after everything appended, durable or not, given what the index says.
    pub(super) fn value_appended(&self, key: &[u8], below: Bytes) -> Option<Bytes> {
        look(&self.active, self.frozen.as_deref(), key, Seq::MAX).over(Some(below))
    }

    pub(super) async fn scan(&self, scan: Scan<'_>) -> Result<ScanPage, Error> {
        let mut page = ScanPage {
            seq: self.at,
            ..ScanPage::default()
        };
        if !scan.to.is_empty() && scan.from >= scan.to {
            return Ok(page);
        }
        if scan.reverse {
            self.scan_back(&scan, &mut page).await?;
        } else {
            self.scan_on(&scan, &mut page).await?;
        }
        Ok(page)
    }

    /// Takes the index's pairs in portions and merges the layers' keys of the same stretch in.
    async fn scan_on(&self, scan: &Scan<'_>, page: &mut ScanPage) -> Result<(), Error> {
        let mut from = scan.from.to_vec();
        loop {
            // One more than wanted tells whether there is more.
            let limit = scan.limit.saturating_add(1) - page.pairs.len();
            let part = Scan {
                from: &from,
                to: scan.to,
                limit,
                reverse: false,
            };
            let below = self.view.scan(part).await?;
            let end = match below.pairs.last().filter(|_| below.more) {
                Some((last, _)) => [last, &[0][..]].concat(),
                None => scan.to.to_vec(),
            };
            self.merge(below.pairs, &from, &end, scan.limit, false, page);
            if page.more || !below.more {
                return Ok(());
            }
            from = end;
        }
    }

    async fn scan_back(&self, scan: &Scan<'_>, page: &mut ScanPage) -> Result<(), Error> {
        let mut to = scan.to.to_vec();
        loop {
            let limit = scan.limit.saturating_add(1) - page.pairs.len();
            let part = Scan {
                from: scan.from,
                to: &to,
                limit,
                reverse: true,
            };
            let below = self.view.scan(part).await?;
            let start = match below.pairs.last().filter(|_| below.more) {
                Some((last, _)) => last.to_vec(),
                None => scan.from.to_vec(),
            };
            let more = below.more;
            self.merge(below.pairs, &start, &to, scan.limit, true, page);
            if page.more || !more {
                return Ok(());
            }
            to = start;
        }
    }

    /// Merges the index's pairs of `from..to` with what the layers say of it, in scan order, up to
    /// `limit` pairs in the page.
    fn merge(
        &self,
        below: Vec<(Bytes, Bytes)>,
        from: &[u8],
        to: &[u8],
        limit: usize,
        reverse: bool,
        page: &mut ScanPage,
    ) {
        let active = self.active.read();
        let frozen = self.frozen.as_ref().map(|layer| layer.read());
        let mut below = below.into_iter().peekable();
        let mut upper = active.range(Bound::Included(from), to, self.at);
        let mut lower = frozen
            .as_ref()
            .map(|layer| layer.range(Bound::Included(from), to, self.at));
        let mut next_upper = step(&mut upper, reverse);
        let mut next_lower = lower.as_mut().and_then(|range| step(range, reverse));
        loop {
            let first = [next_upper, next_lower, below.peek().map(|(key, _)| key)]
                .into_iter()
                .flatten()
                .reduce(|a, b| if (a <= b) == reverse { b } else { a })
                .cloned();
            let Some(key) = first else { return };
            if next_upper == Some(&key) {
                next_upper = step(&mut upper, reverse);
            }
            if next_lower == Some(&key) {
                next_lower = lower.as_mut().and_then(|range| step(range, reverse));
            }
            let under = below
                .next_if(|(found, _)| *found == key)
                .map(|(_, value)| value);
            let mut known = MemtableLookup::default();
            active.look(&key, self.at, &mut known);
            if let Some(frozen) = &frozen {
                frozen.look(&key, self.at, &mut known);
            }
            // Change-log records are the engine's own, but for the scan that asks for them.
            let own = key.first() == Some(&CHANGE_LOG) && from.first() != Some(&CHANGE_LOG);
            if let Some(value) = known.over(under).filter(|_| !own) {
                if page.pairs.len() == limit {
                    page.more = true;
                    return;
                }
                page.pairs.push((key, value));
            }
        }
    }
}

fn step<'l, V: 'l>(
    range: &mut impl DoubleEndedIterator<Item = (&'l Bytes, V)>,
    reverse: bool,
) -> Option<&'l Bytes> {
    let next = if reverse {
        range.next_back()
    } else {
        range.next()
    };
    next.map(|(key, _)| key)
}
