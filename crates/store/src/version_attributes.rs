//! Settings of a version beside its content: tags, retention, legal hold. Each can be read and
//! changed later, for the current version or a named one.

use std::collections::BTreeMap;

use dewar_auth::{Action, Caller, Details};
use dewar_catalog::record::{Retention, RetentionMode, VersionRecord};
use dewar_namespace::{Bucket, ChangeContext, NameRef, ResolvedName, VersionAttributes};
use dewar_types::{Error, ErrorKind, ObjectKey, Result, VersionName};
use minicbor::{Decode, Encode};

use crate::api::{BucketRef, ObjectRef};
use crate::authorize::{actor, pairs};
use crate::document::Document;
use crate::info::shown_name;
use crate::limits::{TAG_KEY_CHARS_MAX, TAG_VALUE_CHARS_MAX, TAGS_PER_OBJECT_MAX};
use crate::{Inner, Store};

/// Tags by their keys.
pub type Tags = BTreeMap<String, String>;

/// The tags of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct BucketTags {
    /// By their keys.
    #[n(0)]
    pub tags: Tags,
}

crate::cbor_document!(BucketTags, format 1, Tags, get GetBucketTagging, put PutBucketTagging, delete PutBucketTagging);

/// Checks tags against S3's limits: their number, and their lengths in UTF-16 code units.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] with the exceeded limit.
pub fn check_tags(tags: &Tags, max: usize) -> Result<()> {
    let refuse = |message: String| Err(Error::new(ErrorKind::InvalidArgument, message));
    if tags.len() > max {
        return refuse(format!("{} tags; at most {max} are allowed", tags.len()));
    }
    let chars = |text: &str| text.encode_utf16().count();
    for (key, value) in tags {
        if key.is_empty() || chars(key) > TAG_KEY_CHARS_MAX {
            return refuse(format!("the tag key {key:?} is empty or too long"));
        }
        if chars(value) > TAG_VALUE_CHARS_MAX {
            return refuse(format!("the value of the tag {key:?} is too long"));
        }
    }
    Ok(())
}

impl Inner {
    /// Checks whether the caller may set these attributes on a new version of a key. Otherwise a caller
    /// with only the right to write could make versions that even the bucket's owner cannot delete.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; errors in the attributes.
    pub(crate) fn check_version_attributes(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        key: &ObjectKey,
        attributes: &VersionAttributes,
        details: &Details<'_>,
    ) -> Result<()> {
        for (asked, action) in [
            (attributes.retention.is_some(), Action::PutObjectRetention),
            (attributes.legal_hold.is_some(), Action::PutObjectLegalHold),
            // Policies may look at tags, and so may rules that delete.
            (attributes.tags.is_some(), Action::PutObjectTagging),
        ] {
            if asked {
                self.authorize_in_bucket(caller, action, bucket, Some(key.as_str()), details)?;
            }
        }
        if let Some(tags) = &attributes.tags {
            check_tags(tags, TAGS_PER_OBJECT_MAX)?;
        }
        if attributes.retention.is_some() || attributes.legal_hold.is_some() {
            need_object_lock(bucket.settings().and_then(|set| set.object_lock).is_some())?;
        }
        if let Some(until) = attributes.retention.map(|retention| retention.until)
            && until <= self.env.clock.now()
        {
            let message = "The retain until date must be in the future!";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        match &attributes.storage_class {
            Some(class) if !self.lifecycle.knows(class) => Err(Error::new(
                ErrorKind::NoSuchStorageClass,
                format!("{class} is no storage class"),
            )),
            _ => Ok(()),
        }
    }
}

fn need_object_lock(locks: bool) -> Result<()> {
    if locks {
        return Ok(());
    }
    let message = "Bucket is missing Object Lock Configuration";
    Err(Error::new(ErrorKind::NotConfigured, message))
}

/// The action on the current version or on a named one.
fn of(version: Option<VersionName>, current: Action, named: Action) -> Action {
    match version {
        None => current,
        Some(_) => named,
    }
}

impl Store {
    /// The tags of a version, and the version's name.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::NoSuchVersion`], [`ErrorKind::DeleteMarker`].
    pub async fn get_tags(
        &self,
        caller: &Caller,
        object: &ObjectRef,
        version: Option<VersionName>,
    ) -> Result<(Tags, Option<VersionName>)> {
        let action = of(
            version,
            Action::GetObjectTagging,
            Action::GetObjectVersionTagging,
        );
        let details = self.inner.details();
        let (bucket, found) = self
            .authorized_version_of(caller, action, object, version, &details)
            .await?;
        let name = shown_name(&bucket, &found);
        Ok((found.tags, name))
    }

    /// Sets the tags of a version and replaces existing ones; an empty set removes them. Returns
    /// the version's name.
    ///
    /// # Errors
    /// As [`Store::get_tags`]; [`ErrorKind::InvalidArgument`] for tags beyond the limits.
    pub async fn set_tags(
        &self,
        caller: &Caller,
        object: &ObjectRef,
        version: Option<VersionName>,
        tags: Tags,
    ) -> Result<Option<VersionName>> {
        check_tags(&tags, TAGS_PER_OBJECT_MAX)?;
        let action = of(
            version,
            Action::PutObjectTagging,
            Action::PutObjectVersionTagging,
        );
        let asked = pairs(&tags);
        let details = Details {
            tags: Some(&asked),
            ..self.inner.details()
        };
        self.change(
            caller,
            action,
            object,
            version,
            &details,
            |attributes, _| {
                attributes.tags = Some(tags.clone());
                Ok(())
            },
        )
        .await
    }

    /// Removes the tags of a version. Returns the version's name.
    ///
    /// # Errors
    /// As [`Store::get_tags`].
    pub async fn delete_tags(
        &self,
        caller: &Caller,
        object: &ObjectRef,
        version: Option<VersionName>,
    ) -> Result<Option<VersionName>> {
        let action = of(
            version,
            Action::DeleteObjectTagging,
            Action::DeleteObjectVersionTagging,
        );
        let details = self.inner.details();
        self.change(
            caller,
            action,
            object,
            version,
            &details,
            |attributes, _| {
                attributes.tags = None;
                Ok(())
            },
        )
        .await
    }

    /// The retention of a version, if it has one.
    ///
    /// # Errors
    /// As [`Store::get_tags`]; [`ErrorKind::NotConfigured`] in a bucket without object lock.
    pub async fn get_retention(
        &self,
        caller: &Caller,
        object: &ObjectRef,
        version: Option<VersionName>,
    ) -> Result<Option<Retention>> {
        let details = self.inner.details();
        let action = Action::GetObjectRetention;
        let (bucket, found) = self
            .authorized_version_of(caller, action, object, version, &details)
            .await?;
        need_object_lock(bucket.settings().and_then(|set| set.object_lock).is_some())?;
        Ok(found.retention)
    }

    /// Sets the retention of a version. It can only be extended, except in governance mode by a
    /// caller who has the right to `bypass` it and asks for that.
    ///
    /// # Errors
    /// As [`Store::get_retention`]; [`ErrorKind::Locked`] for a shorter retention;
    /// [`ErrorKind::InvalidArgument`] for a time in the past.
    pub async fn set_retention(
        &self,
        caller: &Caller,
        object: &ObjectRef,
        version: Option<VersionName>,
        retention: Option<Retention>,
        bypass: bool,
    ) -> Result<()> {
        let key = object.key.as_str();
        let action = Action::PutObjectRetention;
        let details = Details {
            retention: retention.map(|asked| (mode_name(asked.mode), asked.until)),
            ..self.inner.details()
        };
        let (bucket, found, _) = self
            .authorized_version_in(caller, action, object, version, &details)
            .await?;
        let bypass = bypass && self.inner.may_bypass(caller, &bucket, Some(key), &details);
        let path = bucket.path(key);
        let change = |attributes: &mut VersionAttributes, around: ChangeContext| {
            need_object_lock(around.object_lock.is_some())?;
            if retention.is_some_and(|retention| retention.until <= around.now) {
                let message = "The retain until date must be in the future!";
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
            if let Some(before) = attributes.retention
                && before.until > around.now
                && !grows(before, retention)
                && !(bypass && before.mode == RetentionMode::Governance)
            {
                let message = format!("{path} is kept longer");
                return Err(Error::new(ErrorKind::Locked, message));
            }
            attributes.retention = retention;
            Ok(())
        };
        let principal = caller.to_string();
        let name = NameRef::new(&bucket, &object.key, Some(found));
        self.inner
            .tree
            .change_version(&actor(caller, &principal), name, version, change)
            .await?;
        Ok(())
    }

    /// Whether a version has a legal hold; `None` if it was never set.
    ///
    /// # Errors
    /// As [`Store::get_retention`].
    pub async fn get_legal_hold(
        &self,
        caller: &Caller,
        object: &ObjectRef,
        version: Option<VersionName>,
    ) -> Result<Option<bool>> {
        let details = self.inner.details();
        let action = Action::GetObjectLegalHold;
        let (bucket, found) = self
            .authorized_version_of(caller, action, object, version, &details)
            .await?;
        need_object_lock(bucket.settings().and_then(|set| set.object_lock).is_some())?;
        Ok(found.legal_hold)
    }

    /// Sets or removes the legal hold of a version.
    ///
    /// # Errors
    /// As [`Store::get_retention`].
    pub async fn set_legal_hold(
        &self,
        caller: &Caller,
        object: &ObjectRef,
        version: Option<VersionName>,
        hold: bool,
    ) -> Result<()> {
        let action = Action::PutObjectLegalHold;
        let details = Details {
            legal_hold: Some(hold),
            ..self.inner.details()
        };
        self.change(
            caller,
            action,
            object,
            version,
            &details,
            |attributes, around| {
                need_object_lock(around.object_lock.is_some())?;
                attributes.legal_hold = Some(hold);
                Ok(())
            },
        )
        .await?;
        Ok(())
    }

    /// Sets the tags of a bucket and replaces existing ones.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`]; [`ErrorKind::TooLarge`].
    pub async fn set_bucket_tags(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        tags: &BucketTags,
    ) -> Result<()> {
        let asked = pairs(&tags.tags);
        let details = Details {
            tags: Some(&asked),
            ..self.inner.details()
        };
        let action = BucketTags::PUT;
        let found = self
            .inner
            .authorize_bucket_with(caller, action, bucket, None, &details)
            .await?;
        self.put_document(caller, &found, tags).await
    }

    async fn authorized_version_of(
        &self,
        caller: &Caller,
        action: Action,
        object: &ObjectRef,
        version: Option<VersionName>,
        details: &Details<'_>,
    ) -> Result<(Bucket, VersionRecord)> {
        let (bucket, _, version) = self
            .authorized_version_in(caller, action, object, version, details)
            .await?;
        Ok((bucket, version))
    }

    /// The same with the name as it was looked up, for a change of the version.
    async fn authorized_version_in(
        &self,
        caller: &Caller,
        action: Action,
        object: &ObjectRef,
        version: Option<VersionName>,
        details: &Details<'_>,
    ) -> Result<(Bucket, ResolvedName, VersionRecord)> {
        let (inner, key) = (&self.inner, &object.key);
        let bucket = inner.bucket_of(caller, &object.bucket).await?;
        let found = inner.tree.find_name(&bucket, key).await?;
        let name = (&bucket, key, found.clone());
        let file = inner
            .authorized_version_in(caller, action, name, version, details)
            .await?;
        Ok((bucket, found, file.current))
    }

    async fn change(
        &self,
        caller: &Caller,
        action: Action,
        object: &ObjectRef,
        version: Option<VersionName>,
        details: &Details<'_>,
        change: impl Fn(&mut VersionAttributes, ChangeContext) -> Result<()>,
    ) -> Result<Option<VersionName>> {
        // Its owner, its list and its tags have a say, so it is looked at before.
        let (bucket, found, _) = self
            .authorized_version_in(caller, action, object, version, details)
            .await?;
        let principal = caller.to_string();
        let name = NameRef::new(&bucket, &object.key, Some(found));
        let version = self
            .inner
            .tree
            .change_version(&actor(caller, &principal), name, version, change)
            .await?;
        Ok(shown_name(&bucket, &version))
    }
}

/// A mode as policies write it.
fn mode_name(mode: RetentionMode) -> &'static str {
    match mode {
        RetentionMode::Governance => "GOVERNANCE",
        RetentionMode::Compliance => "COMPLIANCE",
    }
}

/// Whether nothing that was promised is taken back.
fn grows(before: Retention, after: Option<Retention>) -> bool {
    // The stricter mode promises more, but whoever may only add time may not choose the mode.
    after.is_some_and(|after| after.mode == before.mode && after.until >= before.until)
}
