//! Tenants and buckets.

use std::collections::BTreeMap;

use bytes::Bytes;
use dewar_catalog::record::{
    BucketSettings, ChangeKind, Counter, CounterScope, DirRecord, DocumentKind, ObjectLock, Record,
    Versioning,
};
use dewar_catalog::{Actor, Tenant, keys};
use dewar_kv::{Precondition, Scan};
use dewar_types::{BucketName, Error, ErrorKind, GroupId, ObjectKey, UserId};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::dirs::PrunePolicy;
use super::named_space::space_stays;
use super::retry::ConflictRetry;
use super::{Bucket, Tree};

/// Uploads aborted per page while a bucket is deleted.
const UPLOADS_PER_PAGE: usize = 100;
/// Buckets read at once.
const PAGE: usize = 1000;
/// Shortest name of a bucket.
const BUCKET_NAME_MIN: usize = 3;

/// Attributes of a new bucket.
#[derive(Clone, Debug, Default)]
pub struct NewBucket {
    /// The group that owns it.
    pub group: Option<GroupId>,
    /// Whether every front computes MD5.
    pub md5: bool,
    /// Whether replaced versions are kept.
    pub versioning: Versioning,
    /// Set if versions may be protected by retention and legal holds; needs versioning.
    pub object_lock: Option<ObjectLock>,
    /// Documents that it begins with.
    pub documents: BTreeMap<DocumentKind, Bytes>,
}

/// A query for the buckets of a tenant.
#[derive(Clone, Copy, Debug)]
pub struct BucketQuery<'a> {
    /// Only those of this owner.
    pub owner: Option<UserId>,
    /// Only names that begin with this.
    pub prefix: &'a str,
    /// Only names above this one.
    pub after: Option<&'a str>,
    /// Maximum number of buckets.
    pub max: usize,
}

/// A bucket in a list, without its documents, which a list does not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedBucket {
    /// Its name.
    pub name: BucketName,
    /// Owner, settings.
    pub record: DirRecord,
}

/// A page of buckets.
#[derive(Clone, Debug, Default)]
pub struct BucketPage {
    /// In byte order of their names.
    pub buckets: Vec<ListedBucket>,
    /// Whether there are more.
    pub truncated: bool,
}

/// The condition under which a bucket is empty enough to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptiness {
    /// It has no entry at all, as POSIX requires for directories.
    Bare,
    /// It has no entry that S3 shows. Directories and their limits are deleted with it.
    DirectoriesOnly,
}

impl Tree {
    /// Makes a bucket that belongs to `actor`. The result does not hold the documents; look the
    /// bucket up to get them.
    ///
    /// # Errors
    /// `AlreadyOwned` when the actor owns a bucket of that name, `AlreadyExists` when another user
    /// does; `Quota` if the documents do not fit.
    pub async fn create_bucket(
        &self,
        actor: &Actor<'_>,
        tenant: &Tenant,
        name: &BucketName,
        new: NewBucket,
    ) -> Result<Bucket, Error> {
        loop {
            if let Some(bucket) = self.bucket(tenant, name).await? {
                let kind = if bucket.record.attributes.owner == actor.user {
                    ErrorKind::AlreadyOwned
                } else {
                    ErrorKind::AlreadyExists
                };
                return Err(Error::new(kind, format!("bucket {name} exists")));
            }
            let id = self.ids().entry().await?;
            let mut stage = BatchBuilder::new(self);
            let record = DirRecord {
                attributes: stage.attributes(id, actor.user, new.group, 0o755),
                implicit: false,
                bucket: Some(BucketSettings {
                    created: stage.now(),
                    versioning: new.versioning,
                    md5: new.md5,
                    object_lock: new.object_lock,
                    documents: new.documents.keys().map(|kind| kind.mask()).sum(),
                    revision: 0,
                }),
                space: None,
            };
            let bucket = Bucket {
                tenant: tenant.clone(),
                name: name.clone(),
                id,
                record: record.clone(),
                documents: None,
            };
            let key = keys::dir(tenant.root(), name.as_str());
            stage.require(Precondition::absent(key.clone()));
            let documents = new.documents.clone().into_iter();
            let documents: BTreeMap<_, _> =
                documents.map(|(kind, bytes)| (kind, Some(bytes))).collect();
            if documents.is_empty() {
                stage.put_dir(key, record);
            } else {
                stage.put_documents(&bucket, documents).await?;
                stage.put(key, record.to_value());
            }
            let path = bucket.path("");
            let change = bucket.change(ChangeKind::CreateBucket, tenant.root(), id, &path);
            stage.log(actor, change).await?;
            if let CommitOutcome::Done = stage.commit().await? {
                return Ok(bucket);
            }
        }
    }

    /// Finds a bucket.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn bucket(
        &self,
        tenant: &Tenant,
        name: &BucketName,
    ) -> Result<Option<Bucket>, Error> {
        let key = keys::dir(tenant.root(), name.as_str());
        let since = self.cache.generation();
        Ok(self.dir_at(key, since).await?.ok().map(|dir| Bucket {
            tenant: tenant.clone(),
            name: name.clone(),
            id: dir.record.attributes.id,
            record: dir.record.clone(),
            documents: dir.documents.clone(),
        }))
    }

    /// A page of a tenant's buckets.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn buckets(
        &self,
        tenant: &Tenant,
        query: BucketQuery<'_>,
    ) -> Result<BucketPage, Error> {
        // Stored as `name/`, so `a-b` and `a.b` come before `a`: a name that is the beginning of
        // another comes later than its place. Reading goes on until none can come any more.
        let first = query.after.unwrap_or_default().max(query.prefix);
        let first = keys::entries_from(tenant.root(), first.as_bytes());
        let range = keys::entries(tenant.root()).starting(&first);
        let mut pages = range.pages(&**self.kv(), PAGE);
        let mut found = BTreeMap::new();
        'pages: while let Some(pairs) = pages.next().await? {
            for (key, value) in &pairs {
                let (_, name, _) = keys::parse_entry(key)?;
                let beyond = found.len() > query.max
                    && found.keys().next_back().is_some_and(|last: &String| {
                        // No beginning of the last name can come behind its shortest one.
                        let shortest = last.get(..BUCKET_NAME_MIN).unwrap_or(last);
                        *key > keys::dir(tenant.root(), shortest)
                    });
                if beyond || !name.starts_with(query.prefix) {
                    break 'pages;
                }
                let record = DirRecord::from_value(key, value)?;
                let owned = query
                    .owner
                    .is_none_or(|owner| owner == record.attributes.owner);
                if owned && query.after.is_none_or(|after| name > after) {
                    found.insert(name.to_owned(), record);
                    if found.len() > query.max.saturating_add(1) {
                        found.pop_last();
                    }
                }
            }
        }
        let truncated = query.max > 0 && found.len() > query.max;
        let buckets = found
            .into_iter()
            .take(query.max)
            .map(|(name, record)| {
                let name = BucketName::new(&name)?;
                Ok(ListedBucket { name, record })
            })
            .collect::<Result<_, Error>>()?;
        Ok(BucketPage { buckets, truncated })
    }

    /// Deletes an empty bucket. As with S3, uploads in progress do not prevent it: they are aborted
    /// first. If something is put into the bucket at the same time, the uploads and empty
    /// directories may be gone although the bucket stays.
    ///
    /// # Errors
    /// `NotEmpty` when it is not as `emptiness` requires; `NoSuchBucket`; `Conflict`.
    pub async fn delete_bucket(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        emptiness: Emptiness,
    ) -> Result<(), Error> {
        let path = bucket.path("");
        let mut turn = ConflictRetry::around(self, path.clone());
        loop {
            let chain = self.resolve(bucket, &[]).await?;
            if let Some((_, space)) = self.spaces_within(bucket, None).first() {
                return Err(space_stays(&space.name));
            }
            let empty = match emptiness {
                Emptiness::Bare => self.purge_empty(bucket.id, PrunePolicy::Implicit).await?,
                Emptiness::DirectoriesOnly => !self.holds_names(bucket.id).await?,
            };
            let not_empty = || {
                let message = format!("bucket {} is not empty", bucket.name);
                Error::new(ErrorKind::NotEmpty, message)
            };
            if !empty {
                return Err(not_empty());
            }
            // Before the directories: uploads are charged to spaces among them.
            self.abort_all(actor, bucket).await?;
            if emptiness == Emptiness::DirectoriesOnly
                && !self
                    .purge_empty(bucket.id, PrunePolicy::All(&chain.scopes()))
                    .await?
            {
                return Err(not_empty());
            }
            let mut stage = BatchBuilder::new(self);
            stage.watch(&chain);
            let key = chain.last().key.clone();
            stage.vanish(key.clone(), bucket.id);
            let uploads = keys::uploads(bucket.id);
            stage.require(Precondition::Empty {
                from: uploads.from,
                to: uploads.to,
            });
            stage.delete(key);
            stage.drop_documents(&chain.bucket_now());
            for counter in [
                Counter::Objects(CounterScope::Bucket(bucket.id)),
                Counter::Bytes(CounterScope::Bucket(bucket.id)),
            ] {
                stage.delete(counter.key());
            }
            let scope = CounterScope::Bucket(bucket.id);
            stage.delete(scope.quota_key());
            let change = bucket.change(
                ChangeKind::DeleteBucket,
                bucket.tenant.root(),
                bucket.id,
                &path,
            );
            stage.log(actor, change).await?;
            match stage.commit().await? {
                CommitOutcome::Done => {
                    self.quotas.forget(scope);
                    return Ok(());
                }
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    async fn abort_all(&self, actor: &Actor<'_>, bucket: &Bucket) -> Result<(), Error> {
        let range = keys::uploads(bucket.id);
        loop {
            let page = self
                .kv()
                .scan(Scan {
                    from: &range.from,
                    to: &range.to,
                    limit: UPLOADS_PER_PAGE,
                    reverse: false,
                })
                .await?;
            for (key, _) in &page.pairs {
                let (_, object, upload) = keys::parse_upload(key)?;
                let object = ObjectKey::new(&object)?;
                match self.abort_upload(actor, bucket, &object, upload).await {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::NoSuchUpload => {}
                    Err(error) => return Err(error),
                }
            }
            if !page.more {
                return Ok(());
            }
        }
    }
}
