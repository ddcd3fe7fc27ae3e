//! Checking preconditions against all appended records, durable or not.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use dewar_types::Error;
use parking_lot::RwLock;

use super::memtable::{Memtable, MemtableLookup};
use super::{Inner, State};
use crate::index::IndexView;
use crate::{Precondition, Scan, Seq, batch};

/// Keys of an allegedly empty range that are read from the index at once.
const RANGE_PAGE: usize = 1024;

/// What the index says of the keys that preconditions are about, read without a lock.
pub(super) struct IndexPrefetch {
    view: Arc<dyn IndexView>,
    /// Values by the index of the precondition.
    values: BTreeMap<usize, Option<Bytes>>,
    ranges: BTreeMap<usize, Range>,
}

/// The index's keys of a range, as far as they were read.
#[derive(Default)]
struct Range {
    keys: Vec<Bytes>,
    /// Whether reading stopped at a key that exists.
    partial: bool,
}

impl IndexPrefetch {
    /// Whether the index has not been fed since.
    pub(super) fn current(&self, state: &State) -> bool {
        Arc::ptr_eq(&self.view, &state.view)
    }
}

impl Inner {
    /// Reads what judging may need from the index.
    pub(super) async fn read_ahead(
        &self,
        require: &[Precondition],
    ) -> Result<IndexPrefetch, Error> {
        let layers = self.layers();
        let view = Arc::clone(&self.state.read().view);
        let applied = view.applied();
        let mut ahead = IndexPrefetch {
            view: Arc::clone(&view),
            values: BTreeMap::new(),
            ranges: BTreeMap::new(),
        };
        for (at, require) in require.iter().enumerate() {
            match require {
                // The layers tell whether it changed since it was read: no value is needed.
                Precondition::Same { read_at, .. } if *read_at >= applied && *read_at > 0 => {}
                Precondition::Same { key, .. } | Precondition::AtMost { counter: key, .. } => {
                    let value = match view.get_now(key) {
                        Some(value) => value?,
                        None => view.get(key).await?,
                    };
                    ahead.values.insert(at, value);
                }
                Precondition::Empty { from, to } => {
                    ahead
                        .ranges
                        .insert(at, self.range_ahead(&*view, &layers, from, to).await?);
                }
            }
        }
        Ok(ahead)
    }

    /// The index's keys of a range, up to and including the first that the layers do not say is
    /// gone: no more is needed to know that the range is not empty.
    async fn range_ahead(
        &self,
        view: &dyn IndexView,
        layers: &super::read::Memtables,
        from: &Bytes,
        to: &Bytes,
    ) -> Result<Range, Error> {
        let mut range = Range::default();
        let mut start = from.to_vec();
        loop {
            let scan = Scan {
                from: &start,
                to,
                limit: RANGE_PAGE,
                reverse: false,
            };
            let page = view.scan(scan).await?;
            for (key, _) in page.pairs {
                // What was appended counts, durable or not.
                let there = layers.value_appended(&key, Bytes::new()).is_some();
                range.keys.push(key);
                if there {
                    range.partial = true;
                    return Ok(range);
                }
            }
            match range.keys.last().filter(|_| page.more) {
                Some(last) => start = [last, &[0][..]].concat(),
                None => return Ok(range),
            }
        }
    }
}

/// Whether all preconditions hold; else which does not, and the newest batch it collides with.
pub(super) fn judge(
    require: &[Precondition],
    active: &Memtable,
    frozen: Option<&RwLock<Memtable>>,
    ahead: &IndexPrefetch,
) -> Result<(), (usize, Seq)> {
    let frozen = frozen.map(RwLock::read);
    let frozen = frozen.as_deref();
    for (at, require) in require.iter().enumerate() {
        let holds = match require {
            Precondition::Same {
                key,
                value,
                read_at,
            } => same(
                key,
                value.as_ref(),
                *read_at,
                active,
                frozen,
                ahead.values.get(&at),
            ),
            Precondition::Empty { from, to } => {
                empty(from, to, active, frozen, ahead.ranges.get(&at))
            }
            Precondition::AtMost { counter, max } => {
                let below = ahead.values.get(&at).cloned().flatten();
                let now = appended(counter, active, frozen).over(below);
                if batch::decode_counter(now.as_deref()) <= *max {
                    Ok(())
                } else {
                    Err(touched(counter, active, frozen).unwrap_or(0))
                }
            }
        };
        if let Err(collided) = holds {
            return Err((at, collided));
        }
    }
    Ok(())
}

fn touched(key: &[u8], active: &Memtable, frozen: Option<&Memtable>) -> Option<Seq> {
    active
        .touched(key)
        .or_else(|| frozen.and_then(|layer| layer.touched(key)))
}

/// What the layers know of a key, durable or not.
fn appended(key: &[u8], active: &Memtable, frozen: Option<&Memtable>) -> MemtableLookup {
    let mut known = MemtableLookup::default();
    active.look(key, Seq::MAX, &mut known);
    if let Some(frozen) = frozen {
        frozen.look(key, Seq::MAX, &mut known);
    }
    known
}

fn same(
    key: &[u8],
    value: Option<&Bytes>,
    read_at: Seq,
    active: &Memtable,
    frozen: Option<&Memtable>,
    below: Option<&Option<Bytes>>,
) -> Result<(), Seq> {
    let touched = touched(key, active, frozen);
    // What was read at a durable moment and not touched since is as it was.
    match (touched, below) {
        (None, None) => return Ok(()),
        (Some(seq), _) if read_at > 0 && seq <= read_at && below.is_none() => return Ok(()),
        _ => {}
    }
    let known = appended(key, active, frozen);
    let collided = touched.unwrap_or(0);
    if !known.complete() && below.is_none() {
        // A counter was added to since it was read, and its base is not at hand. Its value is then
        // another, but for additions of nothing, which a retry sees too.
        return Err(collided);
    }
    let now = known.over(below.cloned().flatten());
    if now.as_ref() == value {
        Ok(())
    } else {
        Err(collided)
    }
}

fn empty(
    from: &Bytes,
    to: &Bytes,
    active: &Memtable,
    frozen: Option<&Memtable>,
    below: Option<&Range>,
) -> Result<(), Seq> {
    let value = |key: &[u8], under: Option<Bytes>| appended(key, active, frozen).over(under);
    let keys = below.map_or(&[][..], |range| &range.keys);
    for key in keys {
        if value(key, Some(Bytes::new())).is_some() {
            return Err(touched(key, active, frozen).unwrap_or(0));
        }
    }
    if let Some(last) = keys
        .last()
        .filter(|_| below.is_some_and(|range| range.partial))
    {
        // The key that reading stopped at went meanwhile; what lies behind it is not known.
        return Err(touched(last, active, frozen).unwrap_or(0));
    }
    let layers = [Some(active), frozen];
    for layer in layers.into_iter().flatten() {
        for (key, _) in layer.range(Bound::Included(from), to, Seq::MAX) {
            if value(key, None).is_some() {
                return Err(touched(key, active, frozen).unwrap_or(0));
            }
        }
    }
    Ok(())
}
