//! Lifecycle: rules for the expiry and the moves of a bucket's objects.
//!
//! [`rules`] are a document of the bucket. [`evaluation`] applies them to a version, without the
//! catalog. [`scan`] walks the buckets with rules and does the actions that are due.

mod abandoned_uploads;
mod evaluation;
pub mod rules;
mod scan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

pub use evaluation::Expiry;
pub use rules::Lifecycle;

pub(crate) use scan::LifecycleWorker;

use dewar_auth::Caller;
use dewar_types::Result;

use crate::Store;
use crate::api::BucketRef;

/// How lifecycle is done.
#[derive(Clone, Debug)]
pub struct LifecycleConfig {
    /// Length of a day. Another length is for tests: then times are not rounded to midnight.
    pub day: Duration,
    /// Storage classes beside `STANDARD` that objects may have, with the numbers of their pools;
    /// `None` is the main one. `STANDARD` may be included, for its pool.
    pub classes: BTreeMap<String, Option<u16>>,
    /// Time after its last part when an incomplete upload ends. A rule of the bucket may end it
    /// earlier.
    pub uploads_expire_after: Duration,
    /// Whether Amazon's names are refused if `classes` does not have them. If not, they are labels:
    /// an object with one is stored in the pool of `STANDARD`.
    pub strict_classes: bool,
}

/// The default time that uploads wait for their next part.
pub const UPLOADS_EXPIRE_AFTER: Duration = Duration::from_secs(7 * 86_400);

/// Amazon's names of storage classes beside `STANDARD` that clients may send (S3 API reference,
/// "StorageClass"). Those of special buckets and file systems are not included.
const AMAZON: [&str; 7] = [
    "REDUCED_REDUNDANCY",
    "STANDARD_IA",
    "ONEZONE_IA",
    "INTELLIGENT_TIERING",
    "GLACIER",
    "DEEP_ARCHIVE",
    "GLACIER_IR",
];

/// A day as the rules of S3 mean it.
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

impl Default for LifecycleConfig {
    fn default() -> Self {
        Self {
            day: DAY,
            classes: BTreeMap::new(),
            uploads_expire_after: UPLOADS_EXPIRE_AFTER,
            strict_classes: false,
        }
    }
}

impl LifecycleConfig {
    /// Whether objects may have this storage class.
    #[must_use]
    pub fn knows(&self, class: &str) -> bool {
        class == STANDARD
            || self.classes.contains_key(class)
            || (!self.strict_classes && AMAZON.contains(&class))
    }

    /// The number of the pool of a storage class, `None` for the main one. Objects without a class
    /// are `STANDARD`. A class that is configured without a pool uses the main one. A class that is
    /// not configured uses the pool of `STANDARD`.
    #[must_use]
    pub fn pool_of(&self, class: Option<&str>) -> Option<u16> {
        let class = class.unwrap_or(STANDARD);
        let pool = self.classes.get(class);
        pool.or_else(|| self.classes.get(STANDARD))
            .copied()
            .flatten()
    }
}

/// The class of what says nothing.
pub const STANDARD: &str = "STANDARD";

impl Store {
    /// Sets the lifecycle rules of a bucket, and replaces existing ones.
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

#[cfg(test)]
mod class_tests {
    use super::*;

    #[test]
    fn names_of_amazon_are_labels_unless_the_setting_is_strict() {
        let mut config = LifecycleConfig {
            classes: [("STANDARD".to_owned(), Some(2)), ("COLD".to_owned(), None)].into(),
            ..LifecycleConfig::default()
        };
        for class in AMAZON {
            assert!(config.knows(class), "{class}");
            assert_eq!(config.pool_of(Some(class)), Some(2), "{class}");
        }
        assert_eq!(config.pool_of(Some("COLD")), None);
        assert!(config.knows("STANDARD") && !config.knows("OUTPOSTS") && !config.knows("glacier"));
        config.strict_classes = true;
        assert!(config.knows("COLD") && config.knows("STANDARD"));
        assert!(AMAZON.iter().all(|class| !config.knows(class)));
    }
}
