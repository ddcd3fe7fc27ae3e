//! Buckets.

use dewar_types::{BucketName, TenantName, Timestamp, UserId};

/// A bucket as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketRef {
    /// The tenant; `None` means the caller's own one.
    pub tenant: Option<TenantName>,
    /// Its name.
    pub name: BucketName,
}

impl BucketRef {
    /// A bucket of the caller's tenant.
    #[must_use]
    pub fn own(name: BucketName) -> Self {
        Self { tenant: None, name }
    }
}

/// Bucket metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketInfo {
    /// Its tenant.
    pub tenant: TenantName,
    /// Its name.
    pub name: BucketName,
    /// The owner.
    pub owner: UserId,
    /// When it was made.
    pub created: Timestamp,
}

/// A part of the list of buckets, in byte order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketPage {
    /// The buckets.
    pub buckets: Vec<BucketInfo>,
    /// The name to continue after, when there are more.
    pub next: Option<BucketName>,
}
