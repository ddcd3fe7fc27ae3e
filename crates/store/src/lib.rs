//! The verbs: put, get, head, list, copy, delete, multipart, rename, once, for every protocol.
//!
//! A front translates a wire request into a request of [`api`], calls one verb with a
//! [`dewar_auth::Caller`], and translates the answer or the [`dewar_types::Error`] back. The store
//! decides about access, resolves paths, places bytes, and creates versions. Each verb has a file
//! of that name, and calls [`dewar_auth::authorize`] exactly once, through `admit`.
//!
//! Order of every write (invariant I1): large content is durable on its disks before the batch that
//! names it is committed. Small content is in that batch. Only the workers free content, after the
//! batch that removed its last name.
//!
//! Cancellation: dropping the future of a verb before its batch is committed leaves nothing. The
//! commit itself runs in a separate task, so that it is never interrupted.

mod access;
pub mod api;
mod attributes;
mod authorize;
mod bucket;
mod content_log;
mod content_reader;
mod content_writer;
mod copy;
pub mod cors;
mod delete;
mod digests;
mod disk_removal;
pub mod document;
mod encryption;
mod extent_reader;
pub mod file;
mod get;
mod info;
mod key_rotation;
pub mod lifecycle;
pub mod limits;
mod list;
mod listing_limits;
mod multipart;
mod multipart_digest;
mod names_at_risk;
pub mod quota;
mod rename;
pub mod space;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod tiering;
pub mod usage;
pub mod version_attributes;
mod versioning;
pub mod workers;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_auth::fair_share::FairShares;
use dewar_auth::{Authorizer, MasterKeys, Ownership};
use dewar_checksum::Md5Lanes;
use dewar_disks::blob::{BlobCounts, BlobStore};
use dewar_disks::segment::Segments;
use dewar_disks::{BlobTable, Disks};
use dewar_env::{Env, Space};
use dewar_iam::Accounts;
use dewar_namespace::Tree;
use dewar_types::{DiskId, Layout, Result};

pub use content_reader::{ContentReader, RangeReader};
pub use content_writer::{ContentWriter, Snapshot};
pub use dewar_namespace::UploadUsage;
pub use digests::DigestLimits;
pub use encryption::{BucketEncryption, CustomerKey, Encryption, EncryptionMode};
pub use key_rotation::{MasterKeyInfo, PendingRewraps};
pub use listing_limits::ListingConfig;
pub use multipart::{CreatedUpload, PartUpload};
pub use multipart_digest::join_parts;
pub use names_at_risk::{LedgerDepth, UnderReplicated};

use digests::DigestPasses;
use lifecycle::LifecycleConfig;
use listing_limits::ExpensiveListings;

/// The parts of a store.
pub struct StoreParts {
    /// Clock and randomness.
    pub env: Env,
    /// The tree of names.
    pub tree: Arc<Tree>,
    /// The content on the disks.
    pub disks: Arc<Disks>,
    /// The master keys, which encrypt secrets.
    pub master: Arc<MasterKeys>,
    /// Largest object that counts as small, in bytes.
    pub small_bytes_max: u32,
    /// Smallest part of an upload but its last, in bytes.
    pub part_bytes_min: u64,
    /// How lifecycle is done, and which storage classes there are.
    pub lifecycle: LifecycleConfig,
    /// Limits for listings.
    pub listing: ListingConfig,
    /// The default rule for the owner of objects that others write into new buckets.
    pub ownership: Ownership,
    /// Limits for computing digests.
    pub digests: DigestLimits,
}

/// The inside of a store, shared with writers, readers and workers.
pub(crate) struct Inner {
    env: Env,
    tree: Arc<Tree>,
    blobs: Arc<BlobStore>,
    segments: Arc<Segments>,
    table: Arc<BlobTable>,
    disks: Arc<Disks>,
    accounts: Arc<Accounts>,
    authorizer: Arc<Authorizer>,
    master: Arc<MasterKeys>,
    /// The master key was replaced.
    rotated: tokio::sync::Notify,
    lanes: Md5Lanes,
    small_bytes_max: u32,
    part_bytes_min: u64,
    lifecycle: LifecycleConfig,
    listings: ExpensiveListings,
    ownership: Ownership,
    digests: DigestPasses,
    tree_walks: Arc<FairShares>,
}

pub(crate) type SharedStore = Arc<Inner>;

/// One namespace with its content; cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: SharedStore,
}

impl Store {
    /// A store of these parts. Also start its [`workers`], otherwise nothing is ever sealed or
    /// freed.
    #[must_use]
    pub fn new(parts: StoreParts) -> Self {
        let authorizer = Arc::<Authorizer>::default();
        let accounts = Accounts::new(
            parts.tree.catalog().clone(),
            Arc::clone(&parts.master),
            Arc::clone(&authorizer),
        );
        Self {
            inner: Arc::new(Inner {
                env: parts.env,
                tree: parts.tree,
                blobs: Arc::clone(parts.disks.blobs()),
                segments: Arc::clone(parts.disks.segments()),
                table: Arc::clone(parts.disks.table()),
                disks: parts.disks,
                accounts: Arc::new(accounts),
                authorizer,
                master: parts.master,
                rotated: tokio::sync::Notify::new(),
                lanes: Md5Lanes::new(),
                small_bytes_max: parts.small_bytes_max,
                part_bytes_min: parts.part_bytes_min,
                lifecycle: parts.lifecycle,
                listings: ExpensiveListings::new(parts.listing),
                ownership: parts.ownership,
                digests: DigestPasses::new(parts.digests),
                tree_walks: FairShares::new(limits::TREE_WALKS_MAX),
            }),
        }
    }

    /// Clock and randomness.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// The content on the disks, and its upkeep.
    #[must_use]
    pub fn disks(&self) -> &Arc<Disks> {
        &self.inner.disks
    }

    /// Users and keys.
    #[must_use]
    pub fn accounts(&self) -> &Arc<Accounts> {
        &self.inner.accounts
    }

    /// The authorizer of all verbs, for the records of logins.
    #[must_use]
    pub fn authorizer(&self) -> &Authorizer {
        &self.inner.authorizer
    }

    /// The tree of names, for operations without a verb.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.inner.tree
    }

    /// Counters of the blobs since the start.
    #[must_use]
    pub fn blob_counts(&self) -> BlobCounts {
        self.inner.blobs.counts()
    }

    /// The layout that a new blob of the main pool would have now.
    ///
    /// # Errors
    /// As [`Store::room_in`].
    pub fn room(&self) -> Result<Layout> {
        self.layout_for_new_blob(self.inner.blobs.pool().number())
    }

    /// The layout that a new blob of a pool would have now.
    ///
    /// # Errors
    /// The error that a PUT would get: `Unavailable` when too few disks are online, `NoSpace` when
    /// too few of them have free space.
    pub fn layout_for_new_blob(&self, pool: u16) -> Result<Layout> {
        self.inner.layout_for_new_blob(pool)
    }

    /// Room on each disk, as it was seen some seconds ago.
    #[must_use]
    pub fn space(&self) -> BTreeMap<DiskId, Space> {
        self.inner.blobs.placement().space()
    }

    /// The same on the disks of a pool.
    #[must_use]
    pub fn space_in(&self, pool: u16) -> BTreeMap<DiskId, Space> {
        let disks = self.inner.blobs.pool();
        let mut space = self.space();
        space.retain(|id, _| disks.member(*id).is_some_and(|disk| disk.pool == pool));
        space
    }

    /// The number of the pool of objects without a storage class.
    #[must_use]
    pub fn usual_pool(&self) -> u16 {
        self.inner.number_of(self.inner.pool_of_class(None))
    }

    /// Asks the disks for their room now.
    pub async fn refresh_space(&self) {
        let blobs = &self.inner.blobs;
        blobs.placement().refresh(blobs.pool()).await;
    }

    /// The small objects' segments.
    #[must_use]
    pub fn segments(&self) -> &Arc<Segments> {
        &self.inner.segments
    }
}
