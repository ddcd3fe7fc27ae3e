//! Spaces: directories with a quota that administrators name, and what they hold.
//!
//! A space has a name, an owner group and virtual organisations beside the quota of its directory.
//! Administrators make and remove spaces. Users see the space that they may list.

use std::sync::Arc;

use dewar_auth::{Action, Caller, Details};
use dewar_catalog::record::{CounterScope, SpaceRecord};
use dewar_catalog::{Actor, Quota, Tenant, Usage};
use dewar_namespace::{Bucket, DirOptions, Hierarchy, NewSpace};
use dewar_types::{BucketName, EntryId, Error, ErrorKind, ObjectKey, Result, TenantName, UserId};

use crate::api::{BucketRef, ObjectRef};
use crate::file::directory::DIRECTORY_MODE;
use crate::quota::QuotaTarget;
use crate::write::run_to_completion;
use crate::{Inner, Store};

/// Longest name of a space, in bytes.
pub const SPACE_NAME_BYTES_MAX: usize = 64;

/// Most virtual organisations of a space.
pub const SPACE_VOS_MAX: usize = 32;

/// Longest name of a virtual organisation, in bytes.
pub const VO_BYTES_MAX: usize = 255;

/// Names that no space may have. XRootD and the storage report use them for what is in no space, and for
/// all of them.
const RESERVED_NAMES: [&str; 2] = [PUBLIC_SPACE, "all"];

/// The name of what is in no space.
pub const PUBLIC_SPACE: &str = "public";

/// A space that an administrator makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddSpace {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// The bucket.
    pub bucket: BucketRef,
    /// The directory. It is made if it does not exist.
    pub path: ObjectKey,
    /// Its limits, of which bytes are one.
    pub quota: Quota,
    /// `[TENANT:]NAME` of the group that owns new content in it. Without it, the group of the directory
    /// stays as it is.
    pub group: Option<String>,
    /// The virtual organisations that it is for.
    pub vos: Vec<String>,
}

/// A space and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceReport {
    /// Its name.
    pub name: String,
    /// The tenant of its bucket, in which the name is unique.
    pub tenant: TenantName,
    /// Its directory: `/BUCKET/PATH` or `/@TENANT/BUCKET/PATH`.
    pub path: String,
    /// `[TENANT:]NAME` of its owner group, if it has one.
    pub group: Option<String>,
    /// The virtual organisations that it is for.
    pub vos: Vec<String>,
    /// Its limits.
    pub quota: Quota,
    /// Its content.
    pub usage: Usage,
    /// Whether it is in another space, which counts its content too.
    pub inner: bool,
}

/// A space as XRootD and other protocols report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceUsage {
    /// Its name.
    pub name: String,
    /// Its limits.
    pub quota: Quota,
    /// Its content.
    pub usage: Usage,
}

impl Store {
    /// Makes a directory a space, and counts its content, which takes a walk over it. A directory that
    /// does not exist is made, for the owner of the bucket.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`]; [`ErrorKind::NotFound`] for a group that does not exist;
    /// [`ErrorKind::AlreadyExists`] for a name or a directory of another space;
    /// [`ErrorKind::InvalidArgument`] for a malformed name, no limit of bytes, and limits that
    /// contradict those around it or in it; those of the catalog.
    pub async fn add_space(&self, new: AddSpace) -> Result<SpaceReport> {
        check_words(&new)?;
        let inner = &self.inner;
        let bucket = inner.bucket_of(&Caller::system(), &new.bucket).await?;
        let group = match &new.group {
            Some(name) => Some(inner.accounts.group_called(name).await?),
            None => None,
        };
        let tree = Arc::clone(&inner.tree);
        let (path, name) = (new.path, new.name.clone());
        let owner = bucket.record.attributes.owner;
        let tenant = bucket.tenant.clone();
        let mut space = NewSpace {
            name: new.name,
            group,
            vos: new.vos,
            quota: new.quota,
        };
        // Whoever asks may go before all is counted.
        let made = run_to_completion(async move {
            let options = DirOptions {
                group: None,
                mode: DIRECTORY_MODE,
                make_parents: true,
                existing: true,
                hierarchy: Hierarchy::Strict,
            };
            // A name that is taken is refused below, and no directory is made for it.
            if tree.space_called(bucket.tenant.id, &space.name).is_none() {
                let owner = administrator(owner);
                tree.make_dir(&owner, &bucket, &path, options).await?;
            }
            let limits = match tree.space(&bucket, &path).await {
                Ok(found) => found.map(|(_, limits)| limits).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::NotFound => Quota::default(),
                Err(error) => return Err(error),
            };
            // Limits that are not given stay.
            space.quota = Quota {
                max_bytes: space.quota.max_bytes.or(limits.max_bytes),
                max_objects: space.quota.max_objects.or(limits.max_objects),
                soft_bytes: space.quota.soft_bytes.or(limits.soft_bytes),
                soft_objects: space.quota.soft_objects.or(limits.soft_objects),
            };
            tree.add_space(&administrator(UserId(0)), &bucket, &path, space)
                .await
        });
        let id = made.await?;
        match inner.tree.space_called(tenant.id, &name) {
            Some((found, record)) if found == id => inner.space_report(id, record, tenant).await,
            _ => Err(no_space(&name)),
        }
    }

    /// Removes the name of a space, `[TENANT:]NAME`. Its directory stays, with its content, its quota
    /// and its group.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; those of the catalog.
    pub async fn remove_space(&self, tenant: &TenantName, name: &str) -> Result<()> {
        let found = self.inner.tree.catalog().tenant(tenant).await?;
        let tenant = found.ok_or_else(|| no_space(name))?;
        let tree = Arc::clone(&self.inner.tree);
        let name = name.to_owned();
        let removed = run_to_completion(async move { tree.remove_space(&tenant, &name).await });
        removed.await.map(drop)
    }

    /// All spaces, by tenant and name. This reads a few records of each, however large it is.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn spaces(&self) -> Result<Vec<SpaceReport>> {
        let inner = &self.inner;
        let tenants = inner.tree.catalog().tenants().await?;
        let mut reports = Vec::new();
        for (id, record) in inner.tree.spaces() {
            let tenant = tenants.iter().find(|tenant| tenant.id == record.tenant);
            let Some(tenant) = tenant else { continue };
            reports.push(inner.space_report(id, record, tenant.clone()).await?);
        }
        reports.sort_by(|a, b| (&a.tenant, &a.name).cmp(&(&b.tenant, &b.name)));
        Ok(reports)
    }

    /// Refuses to remove or replace a directory if spaces are at or below it, for a caller who may list it.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`]; [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn require_no_spaces(&self, caller: &Caller, directory: &ObjectRef) -> Result<()> {
        let prefix = format!("{}/", directory.key);
        let details = Details {
            prefix: Some(&prefix),
            ..self.inner.details()
        };
        let (action, bucket) = (Action::ListBucket, &directory.bucket);
        let admitted = self
            .inner
            .authorize_bucket_with(caller, action, bucket, None, &details);
        let bucket = admitted.await?;
        self.inner.refuse_spaces_within(&bucket, &directory.key)
    }

    /// The content of all tenants together, in spaces and outside.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn whole_usage(&self) -> Result<Usage> {
        let catalog = self.inner.tree.catalog();
        let mut whole = Usage::default();
        for tenant in catalog.tenants().await? {
            whole += catalog.usage(CounterScope::Tenant(tenant.id)).await?;
        }
        Ok(whole)
    }

    /// The space of the caller's tenant that has a name, or the one of a tenant, `TENANT:NAME`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], also for callers who may not list its directory.
    pub async fn space_named(&self, caller: &Caller, name: &str) -> Result<SpaceUsage> {
        let inner = &self.inner;
        let (tenant, name) = match name.split_once(':') {
            Some((tenant, name)) => (Some(TenantName::new(tenant)?), name),
            None => (None, name),
        };
        let own = || caller.user().map(|user| user.tenant.clone());
        let tenant: TenantName = tenant.or_else(own).unwrap_or_default();
        let found = inner.tree.catalog().tenant(&tenant).await?;
        let tenant = found.ok_or_else(|| no_space(name))?;
        let space = inner.tree.space_called(tenant.id, name);
        let (id, record) = space.ok_or_else(|| no_space(name))?;
        let bucket = BucketRef {
            tenant: Some(tenant.name.clone()),
            name: BucketName::new(&record.bucket)?,
        };
        let directory = format!("{}/", record.path);
        let listed = inner.authorize_bucket(caller, Action::ListBucket, &bucket, Some(&directory));
        match listed.await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Denied => return Err(no_space(name)),
            Err(error) => return Err(error),
        }
        let report = inner.space_report(id, record, tenant).await?;
        Ok(SpaceUsage {
            name: report.name,
            quota: report.quota,
            usage: report.usage,
        })
    }
}

impl Inner {
    async fn space_report(
        &self,
        id: EntryId,
        record: SpaceRecord,
        tenant: Tenant,
    ) -> Result<SpaceReport> {
        let reference = BucketRef {
            tenant: Some(tenant.name.clone()),
            name: BucketName::new(&record.bucket)?,
        };
        let path = ObjectKey::new(&record.path)?;
        let bucket = self.bucket_of(&Caller::system(), &reference).await?;
        let limits = match self.tree.space(&bucket, &path).await {
            Ok(space) => space.filter(|(found, _)| *found == id),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let group = match record.group {
            Some(id) => self.accounts.group_by_id(id).await?,
            None => None,
        };
        Ok(SpaceReport {
            inner: self.is_in_another_space(&bucket, &path),
            path: QuotaTarget::Directory(reference, path).to_string(),
            name: record.name,
            tenant: tenant.name,
            group,
            vos: record.vos,
            quota: limits.map(|(_, quota)| quota).unwrap_or_default(),
            usage: self.tree.catalog().usage(CounterScope::Space(id)).await?,
        })
    }

    fn is_in_another_space(&self, bucket: &Bucket, path: &ObjectKey) -> bool {
        let Some((above, _)) = path.as_str().rsplit_once('/') else {
            return false;
        };
        let above = ObjectKey::new(above);
        above.is_ok_and(|above| self.tree.named_space_at(bucket, &above).is_some())
    }

    /// Refuses to remove a directory with its content if spaces are at or below it. They go only by a
    /// command of an administrator.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`].
    pub(crate) fn refuse_spaces_within(
        &self,
        bucket: &Bucket,
        directory: &ObjectKey,
    ) -> Result<()> {
        match self.tree.spaces_within(bucket, Some(directory)).first() {
            Some((_, space)) => Err(dewar_namespace::space_stays(&space.name)),
            None => Ok(()),
        }
    }
}

fn administrator(user: UserId) -> Actor<'static> {
    Actor {
        user,
        principal: "",
    }
}

fn no_space(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no space {name}"))
}

fn check_words(new: &AddSpace) -> Result<()> {
    let invalid = |message: String| Err(Error::new(ErrorKind::InvalidArgument, message));
    let name = &new.name;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > SPACE_NAME_BYTES_MAX || !name.bytes().all(plain) {
        return invalid(format!(
            "{name:?} is no name of a space: 1 to {SPACE_NAME_BYTES_MAX} letters, digits, '-', '_' or '.'"
        ));
    }
    if RESERVED_NAMES.contains(&name.as_str()) {
        return invalid(format!("the name {name} is reserved"));
    }
    if new.quota.max_bytes.is_none() {
        return invalid(format!("the space {name} needs a limit of bytes"));
    }
    if new.vos.len() > SPACE_VOS_MAX {
        return invalid(format!("a space has at most {SPACE_VOS_MAX} VOs"));
    }
    let fits = |vo: &String| {
        let graphic = vo.bytes().all(|byte| byte.is_ascii_graphic());
        (1..=VO_BYTES_MAX).contains(&vo.len()) && graphic
    };
    match new.vos.iter().find(|vo| !fits(vo)) {
        Some(vo) => invalid(format!(
            "{vo:?} is no VO: 1 to {VO_BYTES_MAX} visible characters"
        )),
        None => Ok(()),
    }
}
