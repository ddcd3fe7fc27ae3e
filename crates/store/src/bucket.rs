//! Buckets: list, create, look at, delete.

use dewar_auth::{Action, Caller, Resource, authorize};
use dewar_meta::ns::record::DirRecord;
use dewar_meta::ns::{Bucket, BucketQuery, NewBucket, Tenant};
use dewar_types::{BucketName, Error, ErrorKind, Result, UserId};

use crate::Store;
use crate::admit::actor;
use crate::api::{BucketInfo, BucketPage, BucketRef};
use crate::limits::{BUCKETS_PER_OWNER_MAX, PAGE_ITEMS_MAX};

impl Store {
    /// The caller's own buckets, by name.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for callers who are no user.
    pub async fn list_buckets(
        &self,
        caller: &Caller,
        after: Option<BucketName>,
        max: usize,
    ) -> Result<BucketPage> {
        let tenant = self.inner.tenant(caller, None).await?;
        authorize(
            caller,
            Action::ListAllMyBuckets,
            Resource::Tenant(&tenant.name),
            &self.inner.details(),
        )?;
        let query = BucketQuery {
            owner: caller.user().map(|user| user.id),
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

    /// Makes a bucket of the caller's.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; [`ErrorKind::AlreadyOwned`] where the caller has it already,
    /// [`ErrorKind::AlreadyExists`] where somebody else has; [`ErrorKind::Quota`].
    pub async fn create_bucket(&self, caller: &Caller, bucket: &BucketRef) -> Result<BucketInfo> {
        self.create_bucket_with(caller, bucket, NewBucket::default())
            .await
    }

    /// The same, with settings and documents that it begins with.
    ///
    /// # Errors
    /// As [`Store::create_bucket`].
    pub async fn create_bucket_with(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        new: NewBucket,
    ) -> Result<BucketInfo> {
        let tenant = self.inner.tenant(caller, bucket.tenant.as_ref()).await?;
        authorize(
            caller,
            Action::CreateBucket,
            Resource::Tenant(&tenant.name),
            &self.inner.details(),
        )?;
        let tree = &self.inner.tree;
        if let Some(there) = tree.bucket(&tenant, &bucket.name).await? {
            return Err(taken(caller, &there));
        }
        let query = BucketQuery {
            owner: Some(caller.user_id()),
            prefix: "",
            after: None,
            max: BUCKETS_PER_OWNER_MAX,
        };
        if tree.buckets(&tenant, query).await?.buckets.len() >= BUCKETS_PER_OWNER_MAX {
            let message = format!("{caller} has {BUCKETS_PER_OWNER_MAX} buckets already");
            return Err(Error::new(ErrorKind::Quota, message));
        }
        let principal = caller.to_string();
        match tree
            .create_bucket(&actor(caller, &principal), &tenant, &bucket.name, new)
            .await
        {
            Ok(bucket) => Ok(info_of(&bucket)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                match tree.bucket(&tenant, &bucket.name).await? {
                    Some(there) => Err(taken(caller, &there)),
                    None => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// A bucket's attributes.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn head_bucket(&self, caller: &Caller, bucket: &BucketRef) -> Result<BucketInfo> {
        let found = self
            .inner
            .admit(caller, Action::ListBucket, bucket, None)
            .await?;
        Ok(info_of(&found))
    }

    /// Removes an empty bucket; uploads in progress in it are given up.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotEmpty`].
    pub async fn delete_bucket(&self, caller: &Caller, bucket: &BucketRef) -> Result<()> {
        let found = self
            .inner
            .admit(caller, Action::DeleteBucket, bucket, None)
            .await?;
        let principal = caller.to_string();
        self.inner
            .tree
            .delete_bucket(&actor(caller, &principal), &found)
            .await
    }
}

fn taken(caller: &Caller, there: &Bucket) -> Error {
    let owner = there.record.attributes.owner;
    // The id 0 is nobody's, so it can own nothing.
    let own = owner == caller.user_id() && owner != UserId(0);
    let kind = if own {
        ErrorKind::AlreadyOwned
    } else {
        ErrorKind::AlreadyExists
    };
    Error::new(kind, format!("bucket {} exists already", there.name))
}

fn info_of(bucket: &Bucket) -> BucketInfo {
    bucket_info(&bucket.tenant, &bucket.name, &bucket.record)
}

fn bucket_info(tenant: &Tenant, name: &BucketName, record: &DirRecord) -> BucketInfo {
    let created = record.bucket.as_ref().map(|settings| settings.created);
    BucketInfo {
        tenant: tenant.name.clone(),
        name: name.clone(),
        owner: record.attributes.owner,
        created: created.unwrap_or_default(),
    }
}
