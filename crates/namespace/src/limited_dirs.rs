//! The limited directories in memory, with their places.
//!
//! The quota record of a limited directory holds its place. The batch of a rename notes the new places of
//! the limited directories in what it renames. Releases before did not, so at opening each place is
//! compared with the tree. A directory that is not at its place counts as below every directory of its
//! bucket, until [`super::Tree::trace_space`] finds it.

use std::collections::BTreeMap;

use dewar_catalog::keys;
use dewar_catalog::record::{CounterScope, DirRecord, QuotaRecord, Record};
use dewar_kv::{Kv, KvRead};
use dewar_types::{EntryId, Error, ObjectKey};
use parking_lot::RwLock;

/// Records read at once.
const PAGE: usize = 1000;

/// A bucket and a path in it.
type Place = (EntryId, String);

#[derive(Debug, Default)]
pub(super) struct LimitedDirs {
    places: RwLock<Places>,
    /// One reads records at a time, so that memory gets the newest last.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Places {
    by_id: BTreeMap<EntryId, Place>,
    by_place: BTreeMap<Place, EntryId>,
    /// Directories that are not where they were, with the bucket if it is known.
    astray: BTreeMap<EntryId, Option<EntryId>>,
}

impl Places {
    fn forget(&mut self, id: EntryId) {
        self.astray.remove(&id);
        if let Some(place) = self.by_id.remove(&id)
            && self.by_place.get(&place) == Some(&id)
        {
            self.by_place.remove(&place);
        }
    }

    fn put(&mut self, id: EntryId, place: Place) {
        self.forget(id);
        self.by_place.insert(place.clone(), id);
        self.by_id.insert(id, place);
    }

    fn lose(&mut self, id: EntryId, bucket: Option<EntryId>) {
        self.forget(id);
        self.astray.insert(id, bucket);
    }
}

impl LimitedDirs {
    /// # Errors
    /// Errors of the engine.
    pub(super) async fn load(kv: &dyn Kv) -> Result<Self, Error> {
        let limited = Self::default();
        let mut pages = CounterScope::space_quotas().pages(kv, PAGE);
        while let Some(pairs) = pages.next().await? {
            for (key, value) in &pairs {
                let CounterScope::Space(id) = CounterScope::of_quota_key(key)? else {
                    continue;
                };
                let place = QuotaRecord::from_value(key, value)?.place;
                let is_there = match &place {
                    Some(place) => is_at(kv, id, place).await?,
                    None => false,
                };
                let mut places = limited.places.write();
                match place {
                    Some(place) if is_there => places.put(id, place),
                    place => places.lose(id, place.map(|(bucket, _)| bucket)),
                }
            }
        }
        Ok(limited)
    }

    /// Takes the records of these directories as they are in the catalog, after a batch that changed
    /// them.
    pub(super) async fn reload(&self, kv: &dyn Kv, ids: &[EntryId]) {
        let _one = self.reading.lock().await;
        for &id in ids {
            let place = place_of(kv, id).await;
            let mut places = self.places.write();
            match place {
                Ok(None) => places.forget(id),
                Ok(Some(Some(place))) => places.put(id, place),
                Ok(Some(None)) => places.lose(id, None),
                Err(error) => {
                    tracing::error!(%error, %id, "the quota of a directory cannot be read");
                    places.lose(id, None);
                }
            }
        }
    }

    /// Whether a directory is limited, or may have a limited one in it.
    pub(super) fn may_be_within(&self, bucket: EntryId, path: &ObjectKey) -> bool {
        let places = self.places.read();
        let mut astray = places.astray.values();
        astray.any(|of| of.is_none_or(|of| of == bucket))
            || within(&places, bucket, path).next().is_some()
    }

    /// The limited directories at a path and below it, with their paths.
    pub(super) fn within(&self, bucket: EntryId, path: &ObjectKey) -> Vec<(EntryId, String)> {
        let places = self.places.read();
        let inside = within(&places, bucket, path);
        inside.map(|(id, path)| (id, path.to_owned())).collect()
    }
}

fn within<'p>(
    places: &'p Places,
    bucket: EntryId,
    path: &ObjectKey,
) -> impl Iterator<Item = (EntryId, &'p str)> {
    let own = (bucket, path.as_str().to_owned());
    let below = (bucket, format!("{path}/"));
    let prefix = below.clone();
    let own = places.by_place.get_key_value(&own).into_iter();
    let below = places.by_place.range(below..);
    let below =
        below.take_while(move |((of, path), _)| *of == bucket && path.starts_with(&prefix.1));
    own.chain(below).map(|((_, path), id)| (*id, path.as_str()))
}

/// The place in the quota record of a directory, if it has one.
async fn place_of(kv: &dyn Kv, id: EntryId) -> Result<Option<Option<Place>>, Error> {
    let key = CounterScope::Space(id).quota_key();
    match kv.get(&key).await?.value {
        Some(value) => Ok(Some(QuotaRecord::from_value(&key, &value)?.place)),
        None => Ok(None),
    }
}

/// Whether a directory is at a place. One that cannot be read is not.
async fn is_at(kv: &dyn KvRead, id: EntryId, (bucket, path): &Place) -> Result<bool, Error> {
    let mut dir = *bucket;
    for name in path.split('/') {
        let key = keys::dir(dir, name);
        let Some(value) = kv.get(&key).await?.value else {
            return Ok(false);
        };
        let Ok(record) = DirRecord::from_value(&key, &value) else {
            return Ok(false);
        };
        dir = record.attributes.id;
    }
    Ok(dir == id)
}
