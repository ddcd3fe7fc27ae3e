//! The tree of names: tenants, buckets, directories, files, versions, uploads.
//!
//! # For readers of the code
//! A [`Tree`] turns the verbs of a store into batches for the key-value seam ([`dewar_kv`]). It
//! knows no policy and moves no bytes: content comes as [`Extent`]s that name blobs, and what the
//! data layer stores about blobs ([`keys::blob`], [`keys::segment`]) is opaque here.
//!
//! ```text
//! let bucket = tree.bucket(&tenant, &name).await?;          // authorise with bucket.record
//! let found = tree.find_name(&bucket, &key).await?;          // record of the current version
//! let id = tree.ids().version().await?;                      // before the bytes are written
//! let name = NameRef::new(&bucket, &key, Some(found));
//! let published = tree.publish(&actor, name, new, &condition, &extra).await?;
//! ```
//!
//! # How a change works
//! Every change reads the records that it needs and makes one batch ([`batch_builder`]). The
//! preconditions of the batch require that these records are unchanged. After a lost race, the
//! records are read again ([`retry`]). The preconditions cover every directory from the bucket
//! down, the entry itself, the source of a copy and the touched reference counts. Changes are
//! therefore serializable.
//!
//! - **Paths** are resolved through a cache of directories ([`cache`]), so a put of `a/b/c/d` in
//!   known directories reads the entry and nothing else.
//! - **Versions** ([`versions`]): the current one is in the file's record, older ones are in a
//!   range of their own. Names without history have no extra cost.
//! - **References.** A blob or slot has one reference per extent that names it, in versions and in
//!   parts. No count is recorded for exactly one. The batch that removes the last reference queues
//!   the blob ([`Catalog::unnamed_blobs`]) or marks the slot dead.
//! - **Implicit directories** are made with the first key below them and are invisible when they
//!   contain no live entry. A change that removes an entry leaves a hint for
//!   [`Tree::reclaim_empty_dirs`].
//! - **Counters** of tenant, bucket, spaces on the path, owner and group are changed in the same
//!   batch, and their limits ([`quota`]) are checked with it. [`charge`] defines the amounts.
//! - **Documents of buckets** (policy, CORS and the like) are read with the bucket and cached with
//!   it ([`Bucket::document`], [`Tree::configure_bucket`]).
//! - **The change log** has one record per change of an entry ([`ChangeRecord`]).
//!
//! # Crashes and cancellation
//! A verb is one batch, which is applied completely or not at all. After an error of the engine, or
//! when a future is dropped, the batch may or may not have been applied; repeating the verb is
//! harmless. Ids that were minted and not used are lost and never given again ([`Ids`]).
//! [`Tree::delete_many`] and the removal of empty directories take several batches, each complete
//! in itself.
//!
//! # Limits
//! Symlinks are stored but nothing makes them.

#![allow(
    clippy::large_enum_variant,
    reason = "most entries are files, and boxing them would cost an allocation for each"
)]

mod adopt;
mod attributes;
pub mod audit;
mod batch_builder;
mod bucket;
mod bucket_change;
mod cache;
mod charge;
mod condition;
mod copy;
mod delete;
mod dirs;
mod documents;
mod effort;
mod handle;
mod limited_dirs;
mod list;
mod list_versions;
mod lock_index;
mod locks;
mod multipart;
mod named_space;
mod node;
mod publish;
mod quota;
mod quota_table;
mod reclaim;
mod recount;
mod relocate;
mod removal;
mod rename;
mod reservation;
mod resolve;
mod retry;
mod space;
mod space_table;
#[cfg(test)]
mod tests;
mod version_attributes;
mod versions;
mod walk;

use std::borrow::Cow;
use std::sync::Arc;

use dewar_catalog::record::{
    ChangeRecord, ContentCopy, Entry, Extent, FileRecord, LongRecord, PartRun, Record,
    VersionRecord,
};
use dewar_catalog::{Actor, Catalog, Ids, keys, tables};
use dewar_env::Env;
use dewar_kv::{Kv, Seq};
use dewar_types::{Error, ErrorKind, ObjectKey, TenantName, VersionId, Zone};
use minicbor::bytes::ByteVec;

pub use bucket::{BucketPage, BucketQuery, Emptiness, ListedBucket, NewBucket};
pub use bucket_change::{BucketChange, DOCUMENT_BYTES_MAX};
pub use charge::METADATA_FREE;
pub use condition::{ETagMatch, IfRange, ReadCondition, WriteCondition};
pub use copy::CopyOptions;
pub use delete::{DeleteOutcome, DeleteTarget};
pub use dirs::DirOptions;
pub use documents::{BucketDocument, BucketDocuments};
pub use effort::{LIST_NAMES_MAX, ListBudget, ListGate};
pub use handle::Bucket;
pub use list::{LIST_MAX, ListQuery, Listed, Listing};
pub use list_versions::{ListedVersion, VersionListing, VersionQuery};
pub use locks::{LockGrant, NameLock};
pub use multipart::{
    CompleteFn, CompletePart, CompletedObject, ListedUpload, NewPart, NewUpload, OpenUploadEntry,
    PART_NUMBER_MAX, PartNames, PartPage, UploadPage, UploadQuery, UploadUsage,
};
pub use named_space::{NewSpace, SPACES_MAX, space_stays};
pub use node::{Hierarchy, ParentDirectory, ResolvedNode};
pub use publish::{DataChanges, NewVersion, Published};
pub use quota::SuspendedQuotas;
pub use reclaim::ReclaimReport;
pub use relocate::Relocation;
pub use removal::FreeingStep;
pub use rename::{CrossDeviceError, RenameOptions, ReplaceRule};
pub use reservation::Reservation;
pub use resolve::{NameRef, ResolvedName};
pub use version_attributes::VersionAttributes;
pub use versions::ChangeContext;

use cache::DirCache;
use limited_dirs::LimitedDirs;
use lock_index::LockIndex;
use quota_table::Quotas;
use retry::ContentionLocks;
use space_table::Spaces;

/// Directories remembered.
const DIRS_CACHED: usize = 65_536;

/// Default for the memory of the cache of directories with documents of buckets, in bytes. A
/// directory without documents takes about 600.
pub const DIRS_CACHED_BYTES_DEFAULT: usize = 64 << 20;

/// The tree; cheap to clone, clones share everything.
#[derive(Clone)]
pub struct Tree {
    catalog: Catalog,
    cache: Arc<DirCache>,
    contended: Arc<ContentionLocks>,
    quotas: Arc<Quotas>,
    /// Held while a step frees removed content, and while a space is counted.
    freeing: Arc<tokio::sync::Mutex<()>>,
    /// Held while a batch that removes the counters of a space is committed, or one that looked whether
    /// a space has some.
    space_drops: Arc<tokio::sync::Mutex<()>>,
    spaces: Arc<Spaces>,
    limited: Arc<LimitedDirs>,
    /// Held while a lock of WebDAV is granted or removed.
    lock_grants: Arc<tokio::sync::Mutex<()>>,
    locks: Arc<parking_lot::RwLock<LockIndex>>,
}

impl Tree {
    /// The tree in `kv`, minting ids for `zone`. Makes the default tenant if there is none.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn open(kv: Arc<dyn Kv>, env: Env, zone: Zone) -> Result<Self, Error> {
        let catalog = Catalog::new(kv, env, zone);
        let quotas = Arc::new(Quotas::load(&catalog).await?);
        let spaces = Arc::new(Spaces::load(&catalog).await?);
        let limited = Arc::new(LimitedDirs::load(&**catalog.kv()).await?);
        let tree = Self {
            catalog,
            cache: Arc::new(DirCache::new(DIRS_CACHED, DIRS_CACHED_BYTES_DEFAULT)),
            contended: Arc::new(ContentionLocks::new()),
            quotas,
            freeing: Arc::default(),
            space_drops: Arc::default(),
            spaces,
            limited,
            lock_grants: Arc::default(),
            locks: Arc::default(),
        };
        let default = TenantName::default();
        if tree.catalog().tenant(&default).await?.is_none() {
            let actor = Actor {
                user: dewar_types::UserId(0),
                principal: "",
            };
            match tree.catalog().create_tenant(&actor, &default).await {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        tree.load_locks().await?;
        Ok(tree)
    }

    /// Limits the memory of the cache of directories with documents of buckets, in bytes.
    pub fn set_cached_bytes_max(&self, bytes: usize) {
        self.cache.set_bytes_max(bytes);
    }

    /// How much they take now, about, in bytes.
    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        self.cache.memory_bytes()
    }

    /// The catalog that holds the tree.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The source of ids.
    #[must_use]
    pub fn ids(&self) -> &Arc<Ids> {
        self.catalog.ids()
    }

    /// The engine below.
    #[must_use]
    pub fn kv(&self) -> &Arc<dyn Kv> {
        self.catalog.kv()
    }

    /// The file that `key` holds.
    ///
    /// # Errors
    /// `NoSuchBucket`; errors of the engine.
    pub async fn lookup(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
    ) -> Result<Option<FileRecord>, Error> {
        Ok(match self.find_name(bucket, key).await?.entry {
            Some(Entry::File(file)) if file.is_live() => Some(file),
            _ => None,
        })
    }

    /// The extents of a version's `copy`-th copy, in order.
    ///
    /// # Errors
    /// `NotFound` when the version is gone or has no such copy; errors of the engine.
    pub async fn extents<'v>(
        &self,
        version: &'v VersionRecord,
        copy: usize,
    ) -> Result<Cow<'v, [Extent]>, Error> {
        let gone = || {
            Error::new(
                ErrorKind::NotFound,
                format!("version {} is gone, or has no copy {copy}", version.id),
            )
        };
        let stored = version.copies.get(copy).ok_or_else(gone)?;
        self.load_extents(version.id, copy, stored)
            .await?
            .ok_or_else(gone)
    }

    /// The sizes of a version's parts, equal neighbours as one run; `None` when it was not uploaded
    /// in parts or is gone.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn part_runs(&self, version: &VersionRecord) -> Result<Option<Vec<PartRun>>, Error> {
        let Some(parts) = &version.parts else {
            return Ok(None);
        };
        let mut runs = parts.runs.clone();
        for chunk in 0..parts.chunks {
            match self.long(version.id, keys::PARTS_LIST, chunk).await? {
                Some(long) => runs.extend(long.runs),
                None => return Ok(None),
            }
        }
        Ok(Some(runs))
    }

    /// The checksums of a version's parts; empty when it has none over its parts or is gone.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn part_digests(&self, version: &VersionRecord) -> Result<Vec<ByteVec>, Error> {
        let Some(parts) = &version.parts else {
            return Ok(Vec::new());
        };
        let mut digests = parts.digests.clone();
        for chunk in 0..parts.digest_chunks {
            match self
                .long(version.id, keys::PART_DIGESTS_LIST, chunk)
                .await?
            {
                Some(long) => digests.extend(long.digests),
                None => return Ok(Vec::new()),
            }
        }
        Ok(digests)
    }

    /// A copy's extents; `None` when its long list is gone.
    async fn load_extents<'v>(
        &self,
        id: VersionId,
        list: usize,
        copy: &'v ContentCopy,
    ) -> Result<Option<Cow<'v, [Extent]>>, Error> {
        if copy.chunks == 0 {
            return Ok(Some(Cow::Borrowed(&copy.extents)));
        }
        let mut extents = copy.extents.clone();
        for chunk in 0..copy.chunks {
            match self.long(id, list as u8, chunk).await? {
                Some(long) => extents.extend(long.extents),
                None => return Ok(None),
            }
        }
        Ok(Some(Cow::Owned(extents)))
    }

    async fn long(&self, id: VersionId, list: u8, chunk: u16) -> Result<Option<LongRecord>, Error> {
        let key = keys::long(id, list, chunk);
        match self.kv().get(&key).await?.value {
            Some(value) => LongRecord::from_value(&key, &value).map(Some),
            None => Ok(None),
        }
    }

    /// Change-log records after `after`, in commit order, of at most `limit` batches.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn changes(
        &self,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<(Seq, ChangeRecord)>, Error> {
        let records = self.kv().changes(after, limit).await?;
        records
            .into_iter()
            .map(|(seq, value)| {
                Ok((
                    seq,
                    ChangeRecord::from_value(&[tables::CHANGE_LOG.prefix], &value)?,
                ))
            })
            .collect()
    }
}
