//! Versioning of a bucket: whether it keeps versions, and how long nobody may remove them.

use dewar_auth::{Action, Caller, Details};
use dewar_namespace::Bucket;
use dewar_types::{Error, ErrorKind, Result};

use crate::api::{BucketRef, ObjectLock, Versioning};
use crate::authorize::actor;
use crate::limits::RETENTION_DAYS_MAX;
use crate::{Inner, Store};

impl Store {
    /// Whether a bucket keeps versions.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn get_versioning(&self, caller: &Caller, bucket: &BucketRef) -> Result<Versioning> {
        let action = Action::GetBucketVersioning;
        let found = self
            .inner
            .authorize_bucket(caller, action, bucket, None)
            .await?;
        Ok(found
            .settings()
            .map(|settings| settings.versioning)
            .unwrap_or_default())
    }

    /// Sets whether a bucket keeps versions. A bucket cannot return to the state of never having
    /// kept any.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`]; [`ErrorKind::BucketState`] if object
    /// lock needs versions.
    pub async fn set_versioning(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        versioning: Versioning,
    ) -> Result<()> {
        let action = Action::PutBucketVersioning;
        let found = self
            .inner
            .authorize_bucket(caller, action, bucket, None)
            .await?;
        let principal = caller.to_string();
        self.inner
            .tree
            .configure_bucket(&actor(caller, &principal), &found, |change| {
                let settings = &mut change.settings;
                if versioning != Versioning::Enabled && settings.object_lock.is_some() {
                    let message = "An Object Lock configuration is present on this bucket, so the \
                                   versioning state cannot be changed.";
                    return Err(Error::new(ErrorKind::BucketState, message));
                }
                if versioning != Versioning::Off {
                    settings.versioning = versioning;
                }
                Ok(())
            })
            .await
    }

    /// The object lock setting: whether versions may have retention and holds, and the default
    /// retention.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn get_object_lock(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
    ) -> Result<Option<ObjectLock>> {
        let action = Action::GetBucketObjectLockConfiguration;
        let found = self
            .inner
            .authorize_bucket(caller, action, bucket, None)
            .await?;
        Ok(found.settings().and_then(|settings| settings.object_lock))
    }

    /// Enables object lock in a bucket, and sets the default retention. It cannot be disabled.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`]; [`ErrorKind::BucketState`] if the bucket
    /// does not keep versions; [`ErrorKind::InvalidArgument`] for a time of zero or beyond a
    /// hundred years.
    pub async fn set_object_lock(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        lock: ObjectLock,
    ) -> Result<()> {
        if let Some(default) = lock.default {
            let days = u64::from(default.count) * if default.years { 365 } else { 1 };
            if !(1..=RETENTION_DAYS_MAX).contains(&days) {
                let message = "Default retention period must be a positive integer value.";
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
        }
        let action = Action::PutBucketObjectLockConfiguration;
        let found = self
            .inner
            .authorize_bucket(caller, action, bucket, None)
            .await?;
        let principal = caller.to_string();
        self.inner
            .tree
            .configure_bucket(&actor(caller, &principal), &found, |change| {
                if change.settings.versioning != Versioning::Enabled {
                    let message = "Versioning must be 'Enabled' on the bucket to apply a Object \
                                   Lock configuration";
                    return Err(Error::new(ErrorKind::BucketState, message));
                }
                change.settings.object_lock = Some(lock);
                Ok(())
            })
            .await
    }
}

impl Inner {
    /// Whether the caller may delete, or shorten the retention of, a version in governance mode.
    pub(crate) fn may_bypass(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        key: Option<&str>,
        details: &Details<'_>,
    ) -> bool {
        let action = Action::BypassGovernanceRetention;
        self.authorize_optional(caller, action, bucket, key, details)
            .is_ok()
    }
}
