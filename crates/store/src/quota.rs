//! Quotas: set and read by administrators, and read by users.
//!
//! They are enforced in one place, where versions are published (`dewar_namespace`). Verbs that know
//! the size of an upload check it before they accept bytes.

use std::fmt;
use std::sync::Arc;

use dewar_auth::{Action, Caller};
use dewar_catalog::Actor;
use dewar_catalog::record::CounterScope;
pub use dewar_catalog::{Quota, Usage};
use dewar_env::worker::{PauseGate, WorkOutcome, Worker};
use dewar_namespace::{Bucket, BucketQuery};
use dewar_types::{EntryId, Error, ErrorKind, ObjectKey, Result, TenantName, UserId};

use crate::api::BucketRef;
use crate::write::run_to_completion;
use crate::{Inner, SharedStore, Store};

/// Buckets read at once.
const PAGE: usize = 1000;

/// The group that is charged for a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargedGroup {
    /// `[TENANT:]NAME`; `None` for a removed group, which stays set until another group is given.
    pub name: Option<String>,
    /// The bucket or directory that has the group.
    pub by: String,
}

/// The target of a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaTarget {
    /// All buckets of a tenant.
    Tenant(TenantName),
    /// All data of an account, `[TENANT:]NAME`, in all buckets.
    User(String),
    /// All data of a group, `[TENANT:]NAME`, in all buckets.
    Group(String),
    /// A bucket; no tenant means the default one.
    Bucket(BucketRef),
    /// A directory and all below it.
    Directory(BucketRef, ObjectKey),
}

impl fmt::Display for QuotaTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(name) => write!(f, "tenant:{name}"),
            Self::User(name) => write!(f, "user:{name}"),
            Self::Group(name) => write!(f, "group:{name}"),
            Self::Bucket(bucket) => show_bucket(f, bucket),
            Self::Directory(bucket, path) => {
                show_bucket(f, bucket)?;
                write!(f, "/{path}")
            }
        }
    }
}

fn place_of(target: &QuotaTarget) -> Result<(&BucketRef, Option<&ObjectKey>)> {
    match target {
        QuotaTarget::Bucket(bucket) => Ok((bucket, None)),
        QuotaTarget::Directory(bucket, path) => Ok((bucket, Some(path))),
        _ => {
            let message = format!("{target} is no bucket and no directory");
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

fn show_bucket(f: &mut fmt::Formatter<'_>, bucket: &BucketRef) -> fmt::Result {
    match &bucket.tenant {
        Some(tenant) if !tenant.is_default() => write!(f, "/@{tenant}/{}", bucket.name),
        _ => write!(f, "/{}", bucket.name),
    }
}

/// A limit and how much of it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaReport {
    /// The target, as an administrator names it.
    pub target: String,
    /// Its limits.
    pub quota: Quota,
    /// The usage of the target.
    pub usage: Usage,
}

/// The limits that apply to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaState {
    /// The limits.
    pub quota: Quota,
    /// The usage that they limit.
    pub usage: Usage,
    /// The name of the innermost space around the path. A limited directory in it may have limits of
    /// its own, and these are reported.
    pub space: Option<String>,
}

/// The target in the catalog.
enum ResolvedTarget {
    CounterScope(CounterScope),
    Bucket(Box<Bucket>),
    Directory(Box<Bucket>, ObjectKey),
}

impl Store {
    /// Sets all limits of a target. Limits that are not given are removed. Existing data stays,
    /// even if it is over the limit. A directory must exist. It is counted separately from then on,
    /// which takes a walk over its content.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NoSuchBucket`]; [`ErrorKind::InvalidArgument`] for limits
    /// that contradict those of a space; those of the catalog.
    pub async fn set_quota(&self, target: &QuotaTarget, quota: Quota) -> Result<QuotaReport> {
        let tree = &self.inner.tree;
        let scope = match self.inner.resolve_target(target).await? {
            ResolvedTarget::CounterScope(scope) => {
                tree.limit(scope, quota).await?;
                scope
            }
            ResolvedTarget::Bucket(bucket) => {
                tree.limit_bucket(&bucket, quota).await?;
                CounterScope::Bucket(bucket.id)
            }
            ResolvedTarget::Directory(bucket, path) => {
                let tree = Arc::clone(tree);
                // Whoever asks may go before all is counted.
                let limited = run_to_completion(async move {
                    let actor = Actor {
                        user: UserId(0),
                        principal: "",
                    };
                    tree.limit_space(&actor, &bucket, &path, quota).await
                });
                CounterScope::Space(limited.await?)
            }
        };
        Ok(QuotaReport {
            target: target.to_string(),
            quota,
            usage: tree.catalog().usage(scope).await?,
        })
    }

    /// The limits and the usage of a target. A directory that was never limited is not counted.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NoSuchBucket`]; those of the catalog.
    pub async fn quota(&self, target: &QuotaTarget) -> Result<QuotaReport> {
        let tree = &self.inner.tree;
        let (scope, quota) = match self.inner.resolve_target(target).await? {
            ResolvedTarget::CounterScope(scope) => (scope, tree.quota(scope).unwrap_or_default()),
            ResolvedTarget::Bucket(bucket) => {
                let scope = CounterScope::Bucket(bucket.id);
                (scope, tree.quota(scope).unwrap_or_default())
            }
            ResolvedTarget::Directory(bucket, path) => {
                let found = tree.space(&bucket, &path).await?;
                let (id, quota) = found.ok_or_else(|| {
                    let message = format!("{target} has no quota and is not counted for itself");
                    Error::new(ErrorKind::NotFound, message)
                })?;
                (CounterScope::Space(id), quota)
            }
        };
        Ok(QuotaReport {
            target: target.to_string(),
            quota,
            usage: tree.catalog().usage(scope).await?,
        })
    }

    /// The group that is charged for new data at this target: the group of the innermost directory
    /// that has one, or of the bucket. `None` if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], [`ErrorKind::InvalidArgument`]; those of the catalog.
    pub async fn charged_group(&self, target: &QuotaTarget) -> Result<Option<ChargedGroup>> {
        let (bucket, path) = place_of(target)?;
        let bucket = self.inner.bucket_of(&Caller::system(), bucket).await?;
        let Some((id, dir)) = self.inner.tree.charged_group(&bucket, path).await? else {
            return Ok(None);
        };
        let owner = match dir {
            None => QuotaTarget::Bucket(named(&bucket)),
            Some(dir) => QuotaTarget::Directory(named(&bucket), dir),
        };
        Ok(Some(ChargedGroup {
            name: self.inner.accounts.group_by_id(id).await?,
            by: owner.to_string(),
        }))
    }

    /// Sets the group (`[TENANT:]NAME`) of a bucket or a directory, or removes it. New data there
    /// is charged to that group. Other targets cannot have a group.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::InvalidArgument`]; those
    /// of the catalog.
    pub async fn set_group(&self, target: &QuotaTarget, group: Option<&str>) -> Result<()> {
        let inner = &self.inner;
        let (bucket, path) = place_of(target)?;
        let bucket = inner.bucket_of(&Caller::system(), bucket).await?;
        let group = match group {
            None => None,
            Some(name) => Some(inner.accounts.group_called(name).await?),
        };
        let actor = Actor {
            user: UserId(0),
            principal: "",
        };
        inner.tree.set_group(&actor, &bucket, path, group).await
    }

    /// All quotas that are set.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn quotas(&self) -> Result<Vec<QuotaReport>> {
        let tree = &self.inner.tree;
        let mut reports = Vec::new();
        for set in tree.catalog().all_quotas().await? {
            let mut quota = set.quota;
            let target = match (set.scope, &set.place) {
                (CounterScope::Tenant(id), _) => {
                    let tenants = tree.catalog().tenants().await?;
                    let tenant = tenants.into_iter().find(|tenant| tenant.id == id);
                    tenant.map(|tenant| QuotaTarget::Tenant(tenant.name).to_string())
                }
                (CounterScope::User(id), _) => {
                    let name = self.account_called(id).await?;
                    name.map(|name| QuotaTarget::User(name).to_string())
                }
                (CounterScope::Group(id), _) => {
                    let group = self.inner.accounts.group_by_id(id).await?;
                    group.map(|name| QuotaTarget::Group(name).to_string())
                }
                (CounterScope::Bucket(id), _) => {
                    let bucket = self.inner.bucket_by_id(id).await?;
                    bucket.map(|bucket| QuotaTarget::Bucket(named(&bucket)).to_string())
                }
                (CounterScope::Space(id), Some((bucket, path))) => {
                    match self.inner.bucket_by_id(*bucket).await? {
                        None => None,
                        Some(bucket) => match self.inner.space_now(&bucket, path, id).await? {
                            None => None,
                            Some((path, limits)) => {
                                quota = limits;
                                let place = QuotaTarget::Directory(named(&bucket), path);
                                Some(place.to_string())
                            }
                        },
                    }
                }
                (CounterScope::Space(_), _) => None,
            };
            // What it was for is gone.
            let Some(target) = target else { continue };
            reports.push(QuotaReport {
                target,
                quota,
                usage: tree.catalog().usage(set.scope).await?,
            });
        }
        Ok(reports)
    }

    /// The name of an account for administrators, `[TENANT:]NAME`; `None` if the account does not
    /// exist.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn account_called(&self, id: UserId) -> Result<Option<String>> {
        let user = self.inner.accounts.user_by_id(id).await?;
        Ok(user.map(|user| match user.tenant.is_default() {
            true => user.name.clone(),
            false => format!("{}:{}", user.tenant, user.name),
        }))
    }

    /// The limits that apply to a path, with their usage: those of the innermost limited directory,
    /// otherwise those of the bucket. `None` if there are none. They come with the innermost space
    /// around the path.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for callers who may not list the bucket; [`ErrorKind::NoSuchBucket`].
    pub async fn quota_at(
        &self,
        caller: &Caller,
        bucket: &BucketRef,
        path: Option<&ObjectKey>,
    ) -> Result<Option<QuotaState>> {
        let prefix = path.map(ObjectKey::as_str);
        let admitted = self
            .inner
            .authorize_bucket(caller, Action::ListBucket, bucket, prefix);
        let bucket = admitted.await?;
        let tree = &self.inner.tree;
        let space = match path {
            Some(path) => tree.innermost_space(&bucket, path).await?,
            None => None,
        };
        let scope = CounterScope::Bucket(bucket.id);
        let nearest = space.or_else(|| Some((scope, tree.quota(scope)?)));
        match nearest {
            Some((scope, quota)) => Ok(Some(QuotaState {
                quota,
                usage: tree.catalog().usage(scope).await?,
                space: path
                    .and_then(|path| tree.named_space_at(&bucket, path))
                    .map(|space| space.name),
            })),
            None => Ok(None),
        }
    }
}

/// Counts limited directories whose count was interrupted by the end of an earlier process, once.
pub(crate) struct QuotaCountWorker(pub(crate) SharedStore);

impl Worker for QuotaCountWorker {
    const NAME: &'static str = "quota-count";

    async fn work(&mut self, gate: &PauseGate) -> Result<WorkOutcome> {
        self.0.count_spaces(gate).await?;
        Ok(WorkOutcome::Idle)
    }

    async fn wait(&mut self) {
        core::future::pending().await
    }
}

impl Inner {
    async fn count_spaces(&self, gate: &PauseGate) -> Result<()> {
        if !self.tree.has_quotas() {
            return Ok(());
        }
        for set in self.tree.catalog().all_quotas().await? {
            gate.pass().await;
            let (CounterScope::Space(id), Some((bucket, path))) = (set.scope, set.place) else {
                continue;
            };
            let Some(bucket) = self.bucket_by_id(bucket).await? else {
                continue;
            };
            let there = match self.tree.space(&bucket, &path).await {
                Ok(space) => space.is_some_and(|(found, _)| found == id),
                Err(error) if error.kind() == ErrorKind::NotFound => false,
                Err(error) => return Err(error),
            };
            let path = match there {
                true => path,
                // It was renamed, or what is above it.
                false => match self.tree.trace_space(&bucket, id).await? {
                    Some(path) => path,
                    None => continue,
                },
            };
            if self.tree.count_if_uncounted(&bucket, &path).await? {
                tracing::info!(path = bucket.path(path.as_str()), "counted for its quota");
            }
        }
        Ok(())
    }

    /// The present place of a limited directory, and its limits. It is looked up at its last place,
    /// otherwise it is searched after a rename. The new place is recorded, so that the search
    /// happens only once.
    async fn space_now(
        &self,
        bucket: &Bucket,
        last: &ObjectKey,
        id: EntryId,
    ) -> Result<Option<(ObjectKey, Quota)>> {
        let here = async |path: &ObjectKey| match self.tree.space(bucket, path).await {
            Ok(found) => Ok(found.filter(|(found, _)| *found == id)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        if let Some((_, limits)) = here(last).await? {
            return Ok(Some((last.clone(), limits)));
        }
        let Some(path) = self.tree.trace_space(bucket, id).await? else {
            return Ok(None);
        };
        Ok(here(&path).await?.map(|(_, limits)| (path, limits)))
    }

    async fn resolve_target(&self, target: &QuotaTarget) -> Result<ResolvedTarget> {
        let system = Caller::system();
        Ok(match target {
            QuotaTarget::Tenant(name) => {
                let found = self.tree.catalog().tenant(name).await?;
                let none = || Error::new(ErrorKind::NotFound, format!("there is no {target}"));
                ResolvedTarget::CounterScope(CounterScope::Tenant(found.ok_or_else(none)?.id))
            }
            QuotaTarget::User(name) => {
                let user = self.accounts.user(name).await?;
                if !user.is_root() {
                    let message = format!(
                        "what {target} makes belongs to its account: limit user:{}",
                        name.split_once('/').map_or(name.as_str(), |(root, _)| root)
                    );
                    return Err(Error::new(ErrorKind::InvalidArgument, message));
                }
                ResolvedTarget::CounterScope(CounterScope::User(user.id))
            }
            QuotaTarget::Group(name) => ResolvedTarget::CounterScope(CounterScope::Group(
                self.accounts.group_called(name).await?,
            )),
            QuotaTarget::Bucket(bucket) => {
                ResolvedTarget::Bucket(Box::new(self.bucket_of(&system, bucket).await?))
            }
            QuotaTarget::Directory(bucket, path) => {
                let bucket = self.bucket_of(&system, bucket).await?;
                ResolvedTarget::Directory(Box::new(bucket), path.clone())
            }
        })
    }

    pub(crate) async fn bucket_by_id(&self, id: EntryId) -> Result<Option<Bucket>> {
        for tenant in self.tree.catalog().tenants().await? {
            let mut after = None::<String>;
            loop {
                let query = BucketQuery {
                    owner: None,
                    prefix: "",
                    after: after.as_deref(),
                    max: PAGE,
                };
                let page = self.tree.buckets(&tenant, query).await?;
                let found = page
                    .buckets
                    .iter()
                    .find(|bucket| bucket.record.attributes.id == id);
                if let Some(found) = found {
                    return self.tree.bucket(&tenant, &found.name).await;
                }
                match page.buckets.last() {
                    Some(last) if page.truncated => after = Some(last.name.to_string()),
                    _ => break,
                }
            }
        }
        Ok(None)
    }
}

fn named(bucket: &Bucket) -> BucketRef {
    BucketRef {
        tenant: Some(bucket.tenant.name.clone()),
        name: bucket.name.clone(),
    }
}
