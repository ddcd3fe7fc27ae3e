//! The first step of every verb: look up the bucket, then check the caller's right.
//!
//! A verb checks once for each resource that it touches: a copy for its source and its target, a
//! bulk delete for each key. Verbs about an existing object check after they have found it, because
//! its owner, its list and its tags affect the decision.

use dewar_auth::{
    AccessDenied, Acl, Action, AuthorizeResult, BucketAccess, Caller, Details, Effect, Limit,
    ObjectAccess, Policy, Principal, Reason, Resource, User, UserKind, authorize, makes_only_new,
};
use dewar_catalog::record::FileRecord;
use dewar_catalog::{Actor, Tenant};
use dewar_namespace::{Bucket, ETagMatch, ResolvedName};
use dewar_types::{Error, ErrorKind, ObjectKey, Result, TenantName, UserId};

use crate::Inner;
use crate::access::{access_of, check_said, some_policy};
use crate::api::{BucketRef, WriteCondition};
use crate::document::document_of;
use crate::version_attributes::{BucketTags, Tags};

/// The access settings and facts of an existing object, for a decision.
#[derive(Clone, Debug)]
pub(crate) struct AccessFacts {
    pub(crate) owner: UserId,
    pub(crate) acl: Option<Acl>,
    pub(crate) tags: Vec<(String, String)>,
}

impl AccessFacts {
    /// The facts about a file.
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
        Ok(Self {
            owner: file.attributes.owner,
            acl,
            tags: pairs(&version.tags),
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
        let found = self.tree.catalog().tenant(&name).await?;
        // A tenant that does not exist has no buckets, and is not told apart from one without.
        found.ok_or_else(|| {
            Error::new(
                ErrorKind::NoSuchBucket,
                format!("there is no tenant {name}"),
            )
        })
    }

    /// Tells the accounts that the policy of a bucket has changed, or may have.
    pub(crate) fn bucket_policy_changed(&self, bucket: &Bucket) {
        let owner = bucket.record.attributes.owner;
        self.accounts
            .bucket_policy_changed(bucket.tenant.id, owner, bucket.id);
    }

    /// The facts for policies that are the same for every verb.
    pub(crate) fn details(&self) -> Details<'static> {
        Details {
            now: self.env.clock.now(),
            ..Details::default()
        }
    }

    /// Looks up a bucket by name. Users of its tenant learn if it does not exist, because they
    /// could learn it by creating one. For others a missing bucket looks like one that they may not
    /// see.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`]; [`ErrorKind::Denied`] if the caller's statements about it are
    /// wrong, or if the caller must not learn that it does not exist.
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
        self.disks.note_demand();
        let tenant = self.tenant(caller, bucket.tenant.as_ref()).await?;
        let Some(found) = self.tree.bucket(&tenant, &bucket.name).await? else {
            let message = format!("bucket {} does not exist", bucket.name);
            let kind = match caller.principal() {
                Principal::System => ErrorKind::NoSuchBucket,
                // Who comes with a token alone cannot make buckets either.
                Principal::User(user)
                    if user.tenant == tenant.name && !is_outsider(caller, user) =>
                {
                    ErrorKind::NoSuchBucket
                }
                Principal::User(_) | Principal::Anonymous => ErrorKind::Denied,
            };
            return Err(Error::new(kind, message));
        };
        Ok(found)
    }

    /// The bucket, for a caller who has the right to `action` on it, or on `key` in it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub(crate) async fn authorize_bucket(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &BucketRef,
        key: Option<&str>,
    ) -> Result<Bucket> {
        self.authorize_bucket_with(caller, action, bucket, key, &self.details())
            .await
    }

    /// The same, with facts for policies.
    ///
    /// # Errors
    /// As [`Inner::authorize_bucket`].
    pub(crate) async fn authorize_bucket_with(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &BucketRef,
        key: Option<&str>,
        details: &Details<'_>,
    ) -> Result<Bucket> {
        let found = self.bucket_of(caller, bucket).await?;
        self.authorize_in_bucket(caller, action, &found, key, details)?;
        Ok(found)
    }
}

impl Inner {
    /// Looks a name up for a write under a condition. The condition of the result also requires that
    /// the name does not exist if the caller's token allows to create and not to overwrite. The name
    /// is looked up only if a condition or a quota (`sized`) depends on it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] if the caller may not make the write depend on the existing object, or
    /// if the name exists and may not be overwritten.
    pub(crate) async fn write_target(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        key: &ObjectKey,
        asked: &WriteCondition,
        sized: bool,
    ) -> Result<(WriteCondition, Option<ResolvedName>)> {
        let none = asked.is_none() && !lets_only_create(caller, bucket, key);
        if none && !(sized && self.tree.has_quotas()) {
            return Ok((WriteCondition::NONE, None));
        }
        let found = self.tree.find_name(bucket, key).await?;
        let condition = self.judge_write(caller, bucket, key, asked, found.file())?;
        Ok((condition, Some(found)))
    }

    /// The same for a name that was looked up.
    ///
    /// # Errors
    /// As [`Inner::write_target`].
    pub(crate) fn judge_write(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        key: &ObjectKey,
        asked: &WriteCondition,
        file: Option<&FileRecord>,
    ) -> Result<WriteCondition> {
        if asked.compares() || !asked.if_match.is_empty() {
            self.authorize_comparison(caller, bucket, key, file)?;
        }
        let mut condition = asked.clone();
        if lets_only_create(caller, bucket, key) {
            if file.is_some() {
                let path = bucket.path(key.as_str());
                let why = "the token lets create but not overwrite";
                let message = format!("{path} exists, and {why}");
                self.authorizer
                    .record_refusal(caller, Action::PutObject, path, why);
                return Err(Error::new(ErrorKind::Denied, message));
            }
            condition.if_none_match = vec![ETagMatch::Any];
        }
        Ok(condition)
    }
}

/// Whether the caller's token allows to create the object and not to overwrite it.
fn lets_only_create(caller: &Caller, bucket: &Bucket, key: &ObjectKey) -> bool {
    let (tenant, name) = (&bucket.tenant.name, bucket.name.as_str());
    makes_only_new(caller, tenant, name, key.as_str())
}

impl Inner {
    /// Looks a name up if a condition compares with its current version, for a caller who may
    /// compare.
    ///
    /// # Errors
    /// As [`Inner::authorize_comparison`].
    pub(crate) async fn compared_name(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        key: &ObjectKey,
        asked: &WriteCondition,
    ) -> Result<Option<ResolvedName>> {
        if !asked.compares() {
            return Ok(None);
        }
        let found = self.tree.find_name(bucket, key).await?;
        self.authorize_comparison(caller, bucket, key, found.file())?;
        Ok(Some(found))
    }
}

impl Inner {
    /// Checks whether a caller may make a write depend on the existing object, because the result
    /// reveals something about it. A caller without the right to read could guess until the
    /// condition holds (S3 user guide, "Conditional requests": `If-Match` needs `s3:GetObject`).
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub(crate) fn authorize_comparison(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        key: &ObjectKey,
        file: Option<&FileRecord>,
    ) -> Result<()> {
        let access_facts = file.map(AccessFacts::of).transpose()?;
        let details = Details {
            stat: true,
            ..self.details()
        };
        let action = Action::GetObject;
        self.authorize_object(
            caller,
            action,
            bucket,
            key.as_str(),
            access_facts.as_ref(),
            &details,
        )
    }
}

/// Whether a caller has no identity beyond a token, or is restricted to a token's capabilities.
fn is_outsider(caller: &Caller, user: &User) -> bool {
    let limits = caller.bounds().map(|bounds| bounds.limits.iter());
    let capable = |limit: &Limit| matches!(limit, Limit::Capabilities(_) | Limit::Caveats(_));
    matches!(user.kind, UserKind::Federated { .. })
        || limits.is_some_and(|mut all| all.any(capable))
}

impl Inner {
    /// Checks whether a caller may do `action` on a bucket, or on `key` in it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub(crate) fn authorize_in_bucket(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &Bucket,
        key: Option<&str>,
        details: &Details<'_>,
    ) -> Result<()> {
        Ok(self.authorize_resource(caller, action, bucket, key, None, details)??)
    }

    /// Checks whether a caller may do `action` on an existing object. If none exists, a caller with
    /// the right to list may know that. Others are denied, so that they do not learn which objects
    /// exist.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub(crate) fn authorize_object(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &Bucket,
        key: &str,
        found: Option<&AccessFacts>,
        details: &Details<'_>,
    ) -> Result<()> {
        match found {
            Some(access_facts) => {
                let object = Some(access_facts.access());
                Ok(self.authorize_resource(
                    caller,
                    action,
                    bucket,
                    Some(key),
                    object,
                    details,
                )??)
            }
            None => {
                let details = Details {
                    prefix: Some(key),
                    stat: true,
                    ..*details
                };
                self.authorize_in_bucket(caller, Action::ListBucket, bucket, None, &details)
            }
        }
    }

    /// Checks whether a caller may set a list on an object that it writes at `key`. The caller owns
    /// the object, so it may set one if the bucket is not its account's. Anonymous callers own
    /// nothing, and may set one unless a statement denies it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub(crate) fn authorize_acl(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        key: &str,
        details: &Details<'_>,
    ) -> Result<()> {
        let mine = ObjectAccess {
            owner: caller.account(),
            acl: None,
            tags: &[],
        };
        let (action, key) = (Action::PutObjectAcl, Some(key));
        let forbidden = |denied: &AccessDenied| {
            let effect = Effect::Deny;
            matches!(denied.reason(), Reason::Statement { effect: found, .. } if *found == effect)
        };
        match self.authorize_resource(caller, action, bucket, key, Some(mine), details)? {
            Err(denied) if caller.user().is_some() || forbidden(&denied) => Err(denied.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The decision, apart from what can go wrong on the way to it.
    fn authorize_resource(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &Bucket,
        key: Option<&str>,
        object: Option<ObjectAccess<'_>>,
        details: &Details<'_>,
    ) -> Result<AuthorizeResult> {
        with_resource(caller, bucket, key, object, details, |resource, details| {
            self.authorizer
                .authorize_resource(caller, action, resource, details)
        })?
    }

    /// Whether a caller has a right that the request does not depend on. It is recorded only if the
    /// caller has it.
    ///
    /// # Errors
    /// As [`Inner::authorize_in_bucket`].
    pub(crate) fn authorize_optional(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &Bucket,
        key: Option<&str>,
        details: &Details<'_>,
    ) -> Result<()> {
        with_resource(caller, bucket, key, None, details, |resource, details| {
            Ok::<_, Error>(authorize(caller, action, resource, details)?)
        })??;
        self.authorize_in_bucket(caller, action, bucket, key, details)
    }
}

/// A bucket as a resource for decisions, with its access settings.
///
/// # Errors
/// Those of reading the settings.
fn with_resource<T>(
    caller: &Caller,
    bucket: &Bucket,
    key: Option<&str>,
    object: Option<ObjectAccess<'_>>,
    details: &Details<'_>,
    work: impl FnOnce(Resource<'_>, &Details<'_>) -> T,
) -> Result<T> {
    let documents = bucket
        .settings()
        .is_some_and(|settings| settings.documents != 0);
    let (access, tags) = if documents {
        let access = access_of(bucket)?;
        let tags = if some_policy(caller, &access, Policy::names_tags) {
            document_of::<BucketTags>(bucket)?
        } else {
            None
        };
        (Some(access), tags)
    } else {
        (None, None)
    };
    let access: Option<&BucketAccess> = access.as_ref();
    let details = Details {
        bucket_tags: tags.as_ref().map(|document| &document.tags),
        ..*details
    };
    let resource = Resource::Bucket {
        tenant: &bucket.tenant.name,
        bucket: bucket.name.as_str(),
        owner: bucket.record.attributes.owner,
        access,
        key,
        object,
    };
    Ok(work(resource, &details))
}

/// Tags as policies are asked about them.
pub(crate) fn pairs(tags: &Tags) -> Vec<(String, String)> {
    let pairs = tags.iter();
    pairs
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The caller as an actor in the catalog. Its new objects belong to its account.
pub(crate) fn actor<'a>(caller: &Caller, principal: &'a str) -> Actor<'a> {
    Actor {
        user: caller.account(),
        principal,
    }
}
