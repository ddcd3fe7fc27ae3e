//! The way into every verb: find the bucket, then ask whether the caller may.
//!
//! A verb asks once for each thing that it touches: a copy for its source and its target, a bulk
//! delete for each key. Verbs about an object that is there ask when they have found it, since its
//! owner, its list and its tags have a say.

use dewar_auth::{Acl, Action, BucketAccess, Caller, Details, ObjectAccess, Resource, authorize};
use dewar_meta::ns::record::FileRecord;
use dewar_meta::ns::{Actor, Bucket, Tenant};
use dewar_types::{Error, ErrorKind, Result, TenantName, UserId};

use crate::Inner;
use crate::access::{access_of, check_said};
use crate::api::BucketRef;

/// What is known of an object that is there and has a say in who may.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) owner: UserId,
    pub(crate) acl: Option<Acl>,
    pub(crate) tags: Vec<(String, String)>,
}

impl Standing {
    /// Of a file that was found.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] for a list that cannot be read.
    pub(crate) fn of(file: &FileRecord) -> Result<Self> {
        let version = &file.current;
        let acl = version.acl.as_ref().map(|bytes| Acl::from_bytes(bytes));
        let acl = acl.transpose().map_err(|error| {
            let what = "an object's access control list";
            Error::with_source(ErrorKind::Corrupt, what, error)
        })?;
        let tags = version.tags.iter();
        Ok(Self {
            owner: file.attributes.owner,
            acl,
            tags: tags
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        })
    }

    pub(crate) fn access(&self) -> ObjectAccess<'_> {
        ObjectAccess {
            owner: self.owner,
            acl: self.acl.as_ref(),
            tags: &self.tags,
        }
    }
}

impl Inner {
    /// The tenant a bucket name resolves in.
    pub(crate) async fn tenant(
        &self,
        caller: &Caller,
        named: Option<&TenantName>,
    ) -> Result<Tenant> {
        let name = named.cloned().unwrap_or_else(|| caller.tenant());
        let found = self.tree.tenant(&name).await?;
        // A tenant that does not exist has no buckets, and is not told apart from one without.
        found.ok_or_else(|| {
            Error::new(
                ErrorKind::NoSuchBucket,
                format!("there is no tenant {name}"),
            )
        })
    }

    /// What policies may ask for that is so for every verb.
    pub(crate) fn details(&self) -> Details<'static> {
        Details {
            now: self.env.clock.now(),
            ..Details::default()
        }
    }

    /// The bucket of a name. That there is none is said to everybody: names of buckets are no
    /// secret in S3, whose clients tell 404 and 403 apart.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`]; [`ErrorKind::Denied`] where it is not as the caller said.
    pub(crate) async fn bucket_of(&self, caller: &Caller, bucket: &BucketRef) -> Result<Bucket> {
        let found = self.named_bucket(caller, bucket).await?;
        check_said(caller, &found, false)?;
        Ok(found)
    }

    /// The same for the bucket that a copy reads from.
    ///
    /// # Errors
    /// As [`Inner::bucket_of`].
    pub(crate) async fn source_bucket(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
    ) -> Result<Bucket> {
        let found = self.named_bucket(caller, bucket).await?;
        check_said(caller, &found, true)?;
        Ok(found)
    }

    async fn named_bucket(&self, caller: &Caller, bucket: &BucketRef) -> Result<Bucket> {
        self.upkeep.note_demand();
        let tenant = self.tenant(caller, bucket.tenant.as_ref()).await?;
        let Some(found) = self.tree.bucket(&tenant, &bucket.name).await? else {
            let message = format!("bucket {} does not exist", bucket.name);
            return Err(Error::new(ErrorKind::NoSuchBucket, message));
        };
        Ok(found)
    }

    /// The bucket, for a caller who may do `action` to it, or to `key` in it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub(crate) async fn admit(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &BucketRef,
        key: Option<&str>,
    ) -> Result<Bucket> {
        self.admit_with(caller, action, bucket, key, &self.details())
            .await
    }

    /// The same, with what policies may ask for.
    ///
    /// # Errors
    /// As [`Inner::admit`].
    pub(crate) async fn admit_with(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &BucketRef,
        key: Option<&str>,
        details: &Details<'_>,
    ) -> Result<Bucket> {
        let found = self.bucket_of(caller, bucket).await?;
        permit(caller, action, &found, key, details)?;
        Ok(found)
    }
}

/// Lets a caller do `action` to a bucket, or to `key` in it.
///
/// # Errors
/// [`ErrorKind::Denied`].
pub(crate) fn permit(
    caller: &Caller,
    action: Action,
    bucket: &Bucket,
    key: Option<&str>,
    details: &Details<'_>,
) -> Result<()> {
    ask(caller, action, bucket, key, None, details)
}

/// Lets a caller do `action` to an object that is there. Where there is none, whoever may list it
/// may know that; others are denied, so that they do not learn what exists.
///
/// # Errors
/// [`ErrorKind::Denied`].
pub(crate) fn permit_found(
    caller: &Caller,
    action: Action,
    bucket: &Bucket,
    key: &str,
    found: Option<&Standing>,
    details: &Details<'_>,
) -> Result<()> {
    match found {
        Some(standing) => {
            let object = Some(standing.access());
            ask(caller, action, bucket, Some(key), object, details)
        }
        None => {
            let details = Details {
                prefix: Some(key),
                ..*details
            };
            ask(caller, Action::ListBucket, bucket, None, None, &details)
        }
    }
}

fn ask(
    caller: &Caller,
    action: Action,
    bucket: &Bucket,
    key: Option<&str>,
    object: Option<ObjectAccess<'_>>,
    details: &Details<'_>,
) -> Result<()> {
    let documents = bucket
        .settings()
        .is_some_and(|settings| settings.documents != 0);
    let access = if documents {
        Some(access_of(bucket)?)
    } else {
        None
    };
    let access: Option<&BucketAccess> = access.as_ref();
    let resource = Resource::Bucket {
        tenant: &bucket.tenant.name,
        bucket: bucket.name.as_str(),
        owner: bucket.record.attributes.owner,
        access,
        key,
        object,
    };
    Ok(authorize(caller, action, resource, details)?)
}

/// The caller as the catalog writes it down: what it makes belongs to its account.
pub(crate) fn actor<'a>(caller: &Caller, principal: &'a str) -> Actor<'a> {
    Actor {
        user: caller.account(),
        principal,
    }
}
