//! Usage for administrators: what the buckets, the accounts and the pools hold. The right of an
//! administrator to know is not checked.

use std::collections::BTreeMap;

use dewar_auth::Caller;
use dewar_catalog::record::CounterScope;
use dewar_namespace::BucketQuery;
use dewar_types::{BlobId, Result, UserId};

use crate::Store;
use crate::access::access_of;
use crate::api::{BucketInfo, BucketRef, Versioning};
use crate::bucket::{bucket_info, info_of};
use crate::document::document_of;
use crate::encryption::BucketEncryption;
use crate::lifecycle::Lifecycle;
use crate::quota::{Quota, Usage};

/// Buckets read at once.
const PAGE: usize = 1000;

/// A bucket and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketReport {
    /// Name, owner and age.
    pub bucket: BucketInfo,
    /// Whether it keeps replaced versions.
    pub versioning: Versioning,
    /// Its content: all versions count.
    pub usage: Usage,
}

/// A bucket with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSettingsReport {
    /// The bucket and what it holds.
    pub report: BucketReport,
    /// Its limits.
    pub quota: Quota,
    /// `[TENANT:]NAME` of the group that is charged for new data.
    pub group: Option<String>,
    /// Whether new objects are encrypted that do not say.
    pub encrypted: bool,
    /// Whether versions can be protected by retention and legal holds.
    pub object_lock: bool,
    /// Whether it has a policy.
    pub policy: bool,
    /// Whether anybody may read or write something in it without a credential.
    pub public: bool,
    /// Number of its lifecycle rules.
    pub lifecycle_rules: usize,
}

/// The usage of the disks of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUsage {
    /// Large objects or parts of them, and segments of small ones.
    pub blobs: u64,
    /// Their content in bytes.
    pub bytes: u64,
    /// The bytes of their shards on the disks, parity included.
    pub stored_bytes: u64,
}

impl Store {
    /// All buckets of all tenants, with what they hold.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn bucket_reports(&self) -> Result<Vec<BucketReport>> {
        let tree = &self.inner.tree;
        let mut reports = Vec::new();
        for tenant in tree.catalog().tenants().await? {
            let mut after = None::<String>;
            loop {
                let query = BucketQuery {
                    owner: None,
                    prefix: "",
                    after: after.as_deref(),
                    max: PAGE,
                };
                let page = tree.buckets(&tenant, query).await?;
                for listed in &page.buckets {
                    let scope = CounterScope::Bucket(listed.record.attributes.id);
                    let settings = listed.record.bucket.as_ref();
                    reports.push(BucketReport {
                        bucket: bucket_info(&tenant, &listed.name, &listed.record),
                        versioning: settings.map(|it| it.versioning).unwrap_or_default(),
                        usage: tree.catalog().usage(scope).await?,
                    });
                }
                match page.buckets.last() {
                    Some(last) if page.truncated => after = Some(last.name.to_string()),
                    _ => break,
                }
            }
        }
        Ok(reports)
    }

    /// A bucket with its settings.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::NoSuchBucket`]; those of the catalog.
    pub async fn bucket_settings(&self, bucket: &BucketRef) -> Result<BucketSettingsReport> {
        let inner = &self.inner;
        let found = inner.bucket_of(&Caller::system(), bucket).await?;
        let scope = CounterScope::Bucket(found.id);
        let settings = found.settings();
        let group = match found.record.attributes.group {
            Some(id) => inner.accounts.group_by_id(id).await?,
            None => None,
        };
        let lifecycle = document_of::<Lifecycle>(&found)?;
        let access = access_of(&found)?;
        Ok(BucketSettingsReport {
            report: BucketReport {
                bucket: info_of(&found),
                versioning: settings.map(|it| it.versioning).unwrap_or_default(),
                usage: inner.tree.catalog().usage(scope).await?,
            },
            quota: inner.tree.quota(scope).unwrap_or_default(),
            group,
            encrypted: document_of::<BucketEncryption>(&found)?.is_some(),
            object_lock: settings.is_some_and(|it| it.object_lock.is_some()),
            policy: access.policy.is_some(),
            public: access.is_public(),
            lifecycle_rules: lifecycle.map_or(0, |lifecycle| lifecycle.rules.len()),
        })
    }

    /// The usage of the accounts that own content, by the ids of the accounts.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn account_usage(&self) -> Result<Vec<(UserId, Usage)>> {
        self.inner.tree.catalog().account_usage().await
    }

    /// The usage of the pools, by their numbers. This reads the records of all blobs.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn pool_usage(&self) -> Result<BTreeMap<u16, PoolUsage>> {
        let mut pools = BTreeMap::<u16, PoolUsage>::new();
        let mut from = Some(BlobId(0));
        while let Some(at) = from {
            let page = self.inner.table.encodings(at, PAGE).await?;
            for encoding in &page.encodings {
                let record = &encoding.record;
                let geometry = record.geometry()?;
                let usage = pools.entry(record.pool).or_default();
                usage.blobs += 1;
                usage.bytes += record.len;
                let shards = 0..record.layout.shards();
                let stored = shards.map(|shard| geometry.shard_len(shard));
                usage.stored_bytes += stored.sum::<u64>();
            }
            from = page.next;
        }
        Ok(pools)
    }
}

/// Bytes of content that fit on the disks when each file takes its share of parity: on the disks of
/// the pool that new files are put into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsableSpace {
    /// Used and free bytes together.
    pub total: u64,
    /// Bytes that may still be written; 0 while no file can be.
    pub free: u64,
}

impl UsableSpace {
    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.total.saturating_sub(self.free)
    }
}

impl Store {
    /// The space of the pool of files without a storage class, as it was seen some seconds ago.
    #[must_use]
    pub fn usable_space(&self) -> UsableSpace {
        self.usable_space_in(self.usual_pool())
    }

    /// The space of a pool, as it was seen some seconds ago.
    #[must_use]
    pub fn usable_space_in(&self, pool: u16) -> UsableSpace {
        let (mut total, mut free) = (0u64, 0u64);
        for space in self.space_in(pool).values() {
            total = total.saturating_add(space.total);
            free = free.saturating_add(space.available.min(space.total));
        }
        let Ok(layout) = self.layout_for_new_blob(pool) else {
            let total = total.max(1);
            return UsableSpace { total, free: 0 };
        };
        let (k, shards) = (u64::from(layout.k), layout.shards() as u64);
        let data = |bytes: u64| bytes / shards.max(1) * k;
        UsableSpace {
            total: data(total),
            free: data(free),
        }
    }
}
