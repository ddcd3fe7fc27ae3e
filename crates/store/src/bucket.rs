//! Buckets: list, create, look at, delete.

use std::collections::BTreeMap;

use bytes::Bytes;
use dewar_auth::{Acl, Action, Caller, CannedAcl, Details, Ownership, Principal, Resource, User};
use dewar_catalog::record::{CounterScope, DirRecord};
use dewar_catalog::{Tenant, Usage};
use dewar_namespace::{Bucket, BucketQuery, NewBucket};
use dewar_types::{BucketName, Error, ErrorKind, Result, UserId};

use crate::Store;
use crate::api::{BucketInfo, BucketOptions, BucketPage, BucketRef, Emptiness, NewAcl};
use crate::authorize::{actor, pairs};
use crate::document::{Document, DocumentKind};
use crate::limits::{BUCKETS_PER_OWNER_MAX, PAGE_ITEMS_MAX, TAGS_PER_BUCKET_MAX};
use crate::version_attributes::{BucketTags, check_tags};

/// The list that says nothing.
const PRIVATE: NewAcl = NewAcl::Canned(CannedAcl::Private);

impl Store {
    /// The buckets of the caller's account, by name; none for anonymous callers.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub async fn list_buckets(
        &self,
        caller: &Caller,
        after: Option<BucketName>,
        max: usize,
    ) -> Result<BucketPage> {
        if matches!(caller.principal(), Principal::Anonymous) {
            return Ok(BucketPage::default());
        }
        let tenant = self.inner.tenant(caller, None).await?;
        self.inner.authorizer.authorize(
            caller,
            Action::ListAllMyBuckets,
            Resource::Tenant(&tenant.name),
            &self.inner.details(),
        )?;
        let query = BucketQuery {
            owner: caller.user().map(|user| user.account),
            prefix: "",
            after: after.as_ref().map(BucketName::as_str),
            max: max.clamp(1, PAGE_ITEMS_MAX),
        };
        let page = self.inner.tree.buckets(&tenant, query).await?;
        Ok(BucketPage {
            buckets: page
                .buckets
                .iter()
                .map(|bucket| bucket_info(&tenant, &bucket.name, &bucket.record))
                .collect(),
            next: page
                .buckets
                .last()
                .filter(|_| page.truncated)
                .map(|last| last.name.clone()),
        })
    }

    /// Creates a bucket of the caller's account.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; [`ErrorKind::AlreadyOwned`] if the caller's account already owns it;
    /// [`ErrorKind::AlreadyExists`] if another account owns it, or for a different list;
    /// [`ErrorKind::Quota`]; [`ErrorKind::AclsGrant`] for a list where lists are off.
    pub async fn create_bucket(&self, caller: &Caller, bucket: &BucketRef) -> Result<BucketInfo> {
        let (new, options) = (NewBucket::default(), BucketOptions::default());
        self.create_bucket_with(caller, bucket, new, &options).await
    }

    /// The same, with first settings and documents.
    ///
    /// # Errors
    /// As [`Store::create_bucket`].
    pub async fn create_bucket_with(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        new: NewBucket,
        options: &BucketOptions,
    ) -> Result<BucketInfo> {
        let tenant = self.inner.tenant(caller, bucket.tenant.as_ref()).await?;
        let own = caller.tenant() == tenant.name;
        let asked = Resource::Bucket {
            tenant: &tenant.name,
            bucket: bucket.name.as_str(),
            // In another tenant nobody has an account.
            owner: if own { caller.account() } else { UserId(0) },
            access: None,
            key: None,
            object: None,
        };
        let tags = pairs(&options.tags);
        let details = Details {
            location: options.location.as_deref(),
            tags: (!tags.is_empty()).then_some(&tags),
            ..self.inner.details()
        };
        let authorizer = &self.inner.authorizer;
        authorizer.authorize(caller, Action::CreateBucket, asked, &details)?;
        if !tags.is_empty() {
            check_tags(&options.tags, TAGS_PER_BUCKET_MAX)?;
            authorizer.authorize(caller, BucketTags::PUT, asked, &details)?;
        }
        self.make_bucket(caller, &tenant, &bucket.name, new, options)
            .await
    }

    /// Creates a bucket of an account, on behalf of an administrator.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyOwned`], [`ErrorKind::AlreadyExists`], [`ErrorKind::Quota`];
    /// [`ErrorKind::InvalidArgument`] for a user who is not the root user of an account, because
    /// buckets belong to accounts.
    pub async fn create_bucket_for(
        &self,
        owner: User,
        bucket: &BucketName,
        new: NewBucket,
    ) -> Result<BucketInfo> {
        if !owner.is_root() {
            let message = format!("buckets belong to accounts, and {} has none", owner.name);
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let owner = Caller::for_user(owner);
        let tenant = self.inner.tenant(&owner, None).await?;
        self.make_bucket(&owner, &tenant, bucket, new, &BucketOptions::default())
            .await
    }

    async fn make_bucket(
        &self,
        caller: &Caller,
        tenant: &Tenant,
        name: &BucketName,
        mut new: NewBucket,
        options: &BucketOptions,
    ) -> Result<BucketInfo> {
        let documents = self.first_documents(caller, options).await?;
        let tree = &self.inner.tree;
        if let Some(there) = tree.bucket(tenant, name).await? {
            return Err(taken(caller, &there, options));
        }
        let query = BucketQuery {
            owner: Some(caller.account()),
            prefix: "",
            after: None,
            max: BUCKETS_PER_OWNER_MAX,
        };
        if tree.buckets(tenant, query).await?.buckets.len() >= BUCKETS_PER_OWNER_MAX {
            let message = format!("{caller} has {BUCKETS_PER_OWNER_MAX} buckets already");
            return Err(Error::new(ErrorKind::Quota, message));
        }
        let principal = caller.to_string();
        new.documents.extend(documents);
        match tree
            .create_bucket(&actor(caller, &principal), tenant, name, new)
            .await
        {
            Ok(bucket) => Ok(info_of(&bucket)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                match tree.bucket(tenant, name).await? {
                    Some(there) => Err(taken(caller, &there, options)),
                    None => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The first documents of a new bucket. Without an ownership document, writers own their
    /// objects. So that rule is not stored.
    async fn first_documents(
        &self,
        caller: &Caller,
        options: &BucketOptions,
    ) -> Result<BTreeMap<DocumentKind, Bytes>> {
        let mut documents = BTreeMap::new();
        if !options.tags.is_empty() {
            let document = BucketTags {
                tags: options.tags.clone(),
            };
            documents.insert(BucketTags::KIND, document.to_bytes());
        }
        let default = Some(self.inner.ownership).filter(|own| *own != Ownership::ObjectWriter);
        let ownership = options.ownership.or(default);
        if let Some(ownership) = ownership {
            documents.insert(Ownership::KIND, ownership.to_bytes().into());
        }
        if let Some(wish) = &options.acl {
            let owner = caller.account();
            let acl = self.inner.acl_wanted(wish, owner, owner, None).await?;
            let enforced = ownership == Some(Ownership::BucketOwnerEnforced);
            if enforced && acl.grants_others() {
                let message = "Bucket cannot have ACLs set with ObjectOwnership's \
                               BucketOwnerEnforced setting";
                return Err(Error::new(ErrorKind::AclsGrant, message));
            }
            if !acl.is_private() {
                documents.insert(Acl::KIND, acl.to_bytes().into());
            }
        }
        Ok(documents)
    }

    /// A bucket's attributes.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn head_bucket(&self, caller: &Caller, bucket: &BucketRef) -> Result<BucketInfo> {
        let details = Details {
            stat: true,
            ..self.inner.details()
        };
        let found = self
            .inner
            .authorize_bucket_with(caller, Action::ListBucket, bucket, None, &details)
            .await?;
        Ok(info_of(&found))
    }

    /// The usage of a bucket, for callers who may list it. All versions count.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn bucket_usage(&self, caller: &Caller, bucket: &BucketRef) -> Result<Usage> {
        let action = Action::ListBucket;
        let found = self
            .inner
            .authorize_bucket(caller, action, bucket, None)
            .await?;
        self.inner
            .tree
            .catalog()
            .usage(CounterScope::Bucket(found.id))
            .await
    }

    /// Removes a bucket if it is empty in the sense of `emptiness`. Uploads in progress in it are
    /// given up.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotEmpty`].
    pub async fn delete_bucket(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        emptiness: Emptiness,
    ) -> Result<()> {
        let found = self
            .inner
            .authorize_bucket(caller, Action::DeleteBucket, bucket, None)
            .await?;
        let principal = caller.to_string();
        let deleted = self
            .inner
            .tree
            .delete_bucket(&actor(caller, &principal), &found, emptiness)
            .await;
        self.inner.bucket_policy_changed(&found);
        deleted
    }
}

fn taken(caller: &Caller, there: &Bucket, options: &BucketOptions) -> Error {
    let owner = there.record.attributes.owner;
    // The id 0 is nobody's, so it can own nothing.
    let own = owner == caller.account() && owner != UserId(0);
    // Making it again with another list would change it, which making does not.
    let listed = there.document(Acl::KIND).is_some();
    let same = listed == options.acl.as_ref().is_some_and(|wish| *wish != PRIVATE);
    let kind = if own && same {
        ErrorKind::AlreadyOwned
    } else {
        ErrorKind::AlreadyExists
    };
    Error::new(kind, format!("bucket {} exists already", there.name))
}

pub(crate) fn info_of(bucket: &Bucket) -> BucketInfo {
    bucket_info(&bucket.tenant, &bucket.name, &bucket.record)
}

pub(crate) fn bucket_info(tenant: &Tenant, name: &BucketName, record: &DirRecord) -> BucketInfo {
    let created = record.bucket.as_ref().map(|settings| settings.created);
    BucketInfo {
        tenant: tenant.name.clone(),
        name: name.clone(),
        owner: record.attributes.owner,
        created: created.unwrap_or_default(),
    }
}
