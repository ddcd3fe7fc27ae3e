//! The way into every verb: resolve the bucket, then ask once whether the caller may.

use dewar_auth::{Action, Caller, Details, Resource, authorize};
use dewar_meta::ns::{Actor, Bucket, Tenant};
use dewar_types::{Error, ErrorKind, Result, TenantName};

use crate::Inner;
use crate::api::BucketRef;

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

    /// The bucket, for a caller who may do `action` to it, or to `key` in it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], for callers who are nobody also where there is no such bucket, so
    /// that they learn nothing; [`ErrorKind::NoSuchBucket`].
    pub(crate) async fn admit(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &BucketRef,
        key: Option<&str>,
    ) -> Result<Bucket> {
        self.upkeep.note_demand();
        let tenant = self.tenant(caller, bucket.tenant.as_ref()).await?;
        let Some(found) = self.tree.bucket(&tenant, &bucket.name).await? else {
            // Who may make buckets here may learn that this one does not exist.
            authorize(
                caller,
                action,
                Resource::Tenant(&tenant.name),
                &self.details(),
            )?;
            let message = format!("bucket {} does not exist", bucket.name);
            return Err(Error::new(ErrorKind::NoSuchBucket, message));
        };
        self.judge(caller, action, &found, key)?;
        Ok(found)
    }

    /// Whether a caller may do `action` to a bucket that was found, or to `key` in it. For what an
    /// admitted request asks for beside its action; the way in is [`Inner::admit`].
    pub(crate) fn judge(
        &self,
        caller: &Caller,
        action: Action,
        found: &Bucket,
        key: Option<&str>,
    ) -> Result<()> {
        let resource = Resource::Bucket {
            tenant: &found.tenant.name,
            bucket: found.name.as_str(),
            owner: found.record.attributes.owner,
            access: None,
            key,
            object: None,
        };
        Ok(authorize(caller, action, resource, &self.details())?)
    }
}

/// The caller as the catalog writes it down.
pub(crate) fn actor<'a>(caller: &Caller, principal: &'a str) -> Actor<'a> {
    Actor {
        user: caller.user_id(),
        principal,
    }
}
