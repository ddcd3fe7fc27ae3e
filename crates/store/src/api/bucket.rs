//! Buckets.

use dewar_types::{BucketName, TenantName, Timestamp, UserId};

/// A bucket as a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketRef {
    /// Whose; `None` means the caller's own tenant.
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

/// What there is to know about a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketInfo {
    /// Its tenant.
    pub tenant: TenantName,
    /// Its name.
    pub name: BucketName,
    /// Who owns it.
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
