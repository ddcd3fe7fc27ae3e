//! Lifecycle: what expires in a bucket, and when.
//!
//! [`rules`] are a document of the bucket; [`judge`] says what they mean for a version, and knows no
//! catalog; [`scan`] walks the buckets that have rules and does what is due.

mod abandoned;
mod judge;
pub mod rules;
mod scan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

pub use judge::Expiry;
pub use rules::Lifecycle;

pub(crate) use scan::lifecycle;

use dewar_auth::Caller;
use dewar_types::Result;

use crate::Store;
use crate::api::BucketRef;

/// How lifecycle is done.
#[derive(Clone, Debug)]
pub struct LifecycleConfig {
    /// How long a day lasts. Another length than a day is for tests: then nothing is rounded to
    /// midnight.
    pub day: Duration,
    /// Names of storage classes beside `STANDARD` that objects may have, and the numbers of the pools that
    /// their bytes are in; `None` is the main one. `STANDARD` may be among them, for its pool.
    pub classes: BTreeMap<String, Option<u16>>,
    /// How long after its last part an upload ends that nobody completes; a rule of the bucket may end it
    /// earlier.
    pub uploads_expire_after: Duration,
}

/// How long uploads wait for their next part unless configured otherwise.
pub const UPLOADS_EXPIRE_AFTER: Duration = Duration::from_secs(7 * 86_400);

/// A day as the rules of S3 mean it.
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

impl Default for LifecycleConfig {
    fn default() -> Self {
        Self {
            day: DAY,
            classes: BTreeMap::new(),
            uploads_expire_after: UPLOADS_EXPIRE_AFTER,
        }
    }
}

impl LifecycleConfig {
    /// Whether objects may have this storage class.
    #[must_use]
    pub fn knows(&self, class: &str) -> bool {
        class == STANDARD || self.classes.contains_key(class)
    }

    /// The number of the pool of a storage class, `None` for the main one. What has no class is `STANDARD`.
    #[must_use]
    pub fn pool_of(&self, class: Option<&str>) -> Option<u16> {
        let class = class.unwrap_or(STANDARD);
        self.classes.get(class).copied().flatten()
    }
}

/// The class of what says nothing.
pub const STANDARD: &str = "STANDARD";

impl Store {
    /// Sets what expires in a bucket, in place of what is set.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Denied`], [`dewar_types::ErrorKind::NoSuchBucket`]; those of
    /// [`Lifecycle::check`].
    pub async fn set_lifecycle(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        lifecycle: &Lifecycle,
    ) -> Result<()> {
        lifecycle.check(|class| self.inner.lifecycle.knows(class))?;
        self.put_bucket_document(caller, bucket, lifecycle).await
    }
}
