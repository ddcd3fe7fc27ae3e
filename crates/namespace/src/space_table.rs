//! The named spaces in memory, and the lock that orders changes of limited directories.

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_catalog::record::{Record, SpaceRecord};
use dewar_catalog::{Catalog, keys, tables};
use dewar_kv::Kv;
use dewar_types::{EntryId, Error, ObjectKey, TenantId};
use parking_lot::RwLock;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use super::Bucket;

/// Records read at once.
const PAGE: usize = 1000;

/// The named spaces in memory.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    by_directory: RwLock<BTreeMap<EntryId, SpaceRecord>>,
    /// Held shared while a directory without limited ones in it is renamed. Held exclusively while
    /// spaces or the limits of directories change, while a directory with limited ones in it is renamed,
    /// and while a directory is removed with its content.
    ///
    /// The order of locks: this one, then a lock of [`super::retry`], then
    /// [`super::Tree::space_drops`]. Nobody who has a later one waits for an earlier one.
    changing: Arc<tokio::sync::RwLock<()>>,
}

/// A hold on the named spaces.
pub(super) enum SpacesHold {
    /// Nobody changes them meanwhile.
    Shared { _guard: OwnedRwLockReadGuard<()> },
    /// Nobody else changes them, and no directory is renamed.
    Exclusive { _guard: OwnedRwLockWriteGuard<()> },
}

impl Spaces {
    /// # Errors
    /// Errors of the engine.
    pub(super) async fn load(catalog: &Catalog) -> Result<Self, Error> {
        let spaces = Self::default();
        spaces.reload(&**catalog.kv()).await?;
        Ok(spaces)
    }

    /// Takes the records as they are in the catalog.
    ///
    /// # Errors
    /// Errors of the engine.
    pub(super) async fn reload(&self, kv: &dyn Kv) -> Result<(), Error> {
        let mut read = BTreeMap::new();
        let mut pages = tables::SPACE.keys().pages(kv, PAGE);
        while let Some(page) = pages.next().await? {
            for (key, value) in &page {
                let record = SpaceRecord::from_value(key, value);
                // One damaged record must not keep the server from opening.
                match (keys::parse_space(key), record) {
                    (Ok(id), Ok(record)) => drop(read.insert(id, record)),
                    (Err(error), _) | (_, Err(error)) => {
                        tracing::warn!(%error, "the record of a space cannot be read");
                    }
                }
            }
        }
        *self.by_directory.write() = read;
        Ok(())
    }

    /// The name of a space, by its directory.
    pub(super) fn name(&self, directory: EntryId) -> Option<String> {
        let spaces = self.by_directory.read();
        spaces.get(&directory).map(|space| space.name.clone())
    }

    /// The space of a tenant that has a name.
    pub(super) fn called(&self, tenant: TenantId, name: &str) -> Option<(EntryId, SpaceRecord)> {
        let spaces = self.by_directory.read();
        let mut spaces = spaces.iter();
        let found = spaces.find(|(_, space)| space.tenant == tenant && space.name == name);
        found.map(|(id, space)| (*id, space.clone()))
    }

    /// The innermost space that a path is in, or is.
    pub(super) fn around(&self, bucket: &Bucket, path: &ObjectKey) -> Option<SpaceRecord> {
        let spaces = self.by_directory.read();
        let around = spaces.values().filter(|space| {
            let rest = path.as_str().strip_prefix(&space.path);
            let inside = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            is_in_bucket(space, bucket) && inside
        });
        around.max_by_key(|space| space.path.len()).cloned()
    }

    pub(super) fn all(&self) -> Vec<(EntryId, SpaceRecord)> {
        let spaces = self.by_directory.read();
        spaces
            .iter()
            .map(|(id, space)| (*id, space.clone()))
            .collect()
    }

    /// The spaces at a directory and below it, or in the whole bucket (no path).
    pub(super) fn within(
        &self,
        bucket: &Bucket,
        path: Option<&ObjectKey>,
    ) -> Vec<(EntryId, SpaceRecord)> {
        let spaces = self.by_directory.read();
        let inside = spaces.iter().filter(|(_, space)| {
            is_in_bucket(space, bucket) && path.is_none_or(|path| is_within(&space.path, path))
        });
        inside.map(|(id, space)| (*id, space.clone())).collect()
    }

    /// A hold that others may have as well.
    pub(super) async fn hold_shared(&self) -> Arc<SpacesHold> {
        let guard = Arc::clone(&self.changing).read_owned().await;
        Arc::new(SpacesHold::Shared { _guard: guard })
    }

    /// An exclusive hold.
    pub(super) async fn hold(&self) -> Arc<SpacesHold> {
        let guard = Arc::clone(&self.changing).write_owned().await;
        Arc::new(SpacesHold::Exclusive { _guard: guard })
    }
}

fn is_in_bucket(space: &SpaceRecord, bucket: &Bucket) -> bool {
    space.tenant == bucket.tenant.id && space.bucket == bucket.name.as_str()
}

/// Whether a path is a directory or is below it.
fn is_within(path: &str, directory: &ObjectKey) -> bool {
    let rest = path.strip_prefix(directory.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
