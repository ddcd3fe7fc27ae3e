//! Lifecycle: what expires in a bucket, and when.
//!
//! [`rules`] are a document of the bucket; [`evaluation`] says what they mean for a version, and knows no
//! catalog; [`scan`] walks the buckets that have rules and does what is due.

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
    /// Whether Amazon's names are refused where `classes` does not have them. Else they are labels: what has
    /// one is where `STANDARD` is.
    pub strict_classes: bool,
}

/// How long uploads wait for their next part unless configured otherwise.
pub const UPLOADS_EXPIRE_AFTER: Duration = Duration::from_secs(7 * 86_400);

/// Amazon's names of storage classes beside `STANDARD`, as clients may ask for them (S3 API reference,
/// "StorageClass"). Those of special buckets and file systems are not among them.
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

    /// The number of the pool of a storage class, `None` for the main one. What has no class is `STANDARD`,
    /// and a class that is only a label is where that is.
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
