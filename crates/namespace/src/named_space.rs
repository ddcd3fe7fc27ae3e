//! Named spaces: limited directories that administrators give a name, a group and virtual
//! organisations.
//!
//! The records are few and are kept in memory as they are in the catalog. A name belongs to the id of
//! its directory, and the record holds the path, so that a report needs no walk. A rename of a directory
//! changes the paths of the spaces in it, in its own batch. The directory of a space is not removed
//! before its name is: each batch that removes a counted directory requires that no record names it.

use std::sync::Arc;

use dewar_catalog::record::{CounterScope, Record, SpaceMark, SpaceRecord};
use dewar_catalog::{Actor, Quota, Tenant, keys};
use dewar_types::{EntryId, Error, ErrorKind, GroupId, ObjectKey, TenantId};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::resolve::{ResolvedPath, not_found};
use super::space_table::SpacesHold;
use super::{Bucket, Tree};

/// Most named spaces of all tenants. All are kept in memory and shown in each report.
pub const SPACES_MAX: usize = 1000;

/// A space that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSpace {
    /// Its name, which no other space of the tenant has.
    pub name: String,
    /// The group that owns new content in it; `None` leaves the group of the directory as it is.
    pub group: Option<GroupId>,
    /// The virtual organisations that it is for.
    pub vos: Vec<String>,
    /// Its limits.
    pub quota: Quota,
}

impl Tree {
    /// All named spaces with the ids of their directories, from memory.
    #[must_use]
    pub fn spaces(&self) -> Vec<(EntryId, SpaceRecord)> {
        self.spaces.all()
    }

    /// The named space of a tenant, from memory.
    #[must_use]
    pub fn space_called(&self, tenant: TenantId, name: &str) -> Option<(EntryId, SpaceRecord)> {
        self.spaces.called(tenant, name)
    }

    /// The named spaces at a directory and below it, or in the whole bucket (no path), from memory.
    #[must_use]
    pub fn spaces_within(
        &self,
        bucket: &Bucket,
        path: Option<&ObjectKey>,
    ) -> Vec<(EntryId, SpaceRecord)> {
        self.spaces.within(bucket, path)
    }

    /// The innermost named space that a path is in, or is, from memory. The path need not exist.
    #[must_use]
    pub fn named_space_at(&self, bucket: &Bucket, path: &ObjectKey) -> Option<SpaceRecord> {
        self.spaces.around(bucket, path)
    }

    /// Gives a directory a name and limits, and counts its present content.
    ///
    /// # Errors
    /// `NotFound` when there is no such directory; `AlreadyExists` when the directory has a name, or
    /// another space of the tenant has this one; `InvalidArgument` for limits beyond those of the
    /// directories and the bucket around it, or below those of spaces in it; `TooLarge` beyond
    /// [`SPACES_MAX`]; `Conflict`; errors of the engine.
    pub async fn add_space(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        path: &ObjectKey,
        new: NewSpace,
    ) -> Result<EntryId, Error> {
        let hold = self.spaces.hold().await;
        let all = self.spaces.all();
        if all.len() >= SPACES_MAX {
            let message = format!("there are {SPACES_MAX} spaces, which is the most");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        if self.space_called(bucket.tenant.id, &new.name).is_some() {
            let message = format!("there is a space {} already", new.name);
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let chain = self.dir_chain(bucket, path).await?;
        let place = bucket.path(path.as_str());
        if !self.stands(&chain).await? {
            return Err(not_found(&place));
        }
        let id = chain.last_id();
        if let Some(name) = self.spaces.name(id) {
            let message = format!("{place} is the space {name} already");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        self.check_outer_quotas(&chain, new.quota)?;
        self.check_inner_quotas(bucket, Some(path), new.quota)
            .await?;
        // Before the mark, or what is put meanwhile would not know that there is any limit.
        self.quotas.put(CounterScope::Space(id), Quota::default());
        let key = keys::space(id);
        let absent = self.kv().get(&key).await?;
        let record = SpaceRecord {
            name: new.name,
            tenant: bucket.tenant.id,
            bucket: bucket.name.to_string(),
            path: path.as_str().to_owned(),
            group: new.group.or(chain.last().record.attributes.group),
            vos: new.vos,
        };
        let marked = self.remark(actor, bucket, Some(path), |directory, stage| {
            stage.keep_hold(&hold);
            directory.implicit = false;
            directory.space = Some(marked_with(directory.space.as_ref(), new.quota));
            if new.group.is_some() {
                directory.attributes.group = new.group;
            }
            Self::note_space(stage, id, new.quota, (bucket.id, path));
            if directory.attributes.id == id {
                stage.same(key.clone(), &absent);
                stage.put_space(&hold, id, &record);
            } else {
                // Another directory has the path by now.
                stage.lose();
            }
        });
        marked.await?;
        drop(hold);
        self.count_space(bucket, path).await?;
        Ok(id)
    }

    /// Removes the name of a space. The directory stays, with its content, its limits and its group.
    ///
    /// # Errors
    /// `NotFound`; `Conflict`; errors of the engine.
    pub async fn remove_space(&self, tenant: &Tenant, name: &str) -> Result<SpaceRecord, Error> {
        let hold = self.spaces.hold().await;
        let Some((id, record)) = self.space_called(tenant.id, name) else {
            let message = format!("there is no space {name}");
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        let mut stage = BatchBuilder::new(self);
        stage.remove_space(&hold, id);
        match stage.commit().await? {
            CommitOutcome::Done => Ok(record),
            CommitOutcome::Lost => {
                let message = format!("the space {name} is being changed");
                Err(Error::new(ErrorKind::Conflict, message))
            }
        }
    }

    /// Refuses limits that are larger than those of a directory or of the bucket around the last
    /// directory of the chain.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(super) fn check_outer_quotas(
        &self,
        chain: &ResolvedPath,
        quota: Quota,
    ) -> Result<(), Error> {
        let bucket = CounterScope::Bucket(chain.bucket.id);
        let around = chain.above();
        let limits = self.quota(bucket).map(|quota| (bucket, quota));
        for (scope, outer) in limits.into_iter().chain(around.quotas()) {
            let Some(excess) = excess(quota, outer) else {
                continue;
            };
            let what = self.scope_words(scope);
            let message = format!("{what} around it may hold {excess}");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        Ok(())
    }

    /// Refuses limits of a directory, or of the bucket (no path), that are smaller than those of a named
    /// space in it.
    ///
    /// # Errors
    /// `InvalidArgument`; errors of the engine.
    pub(super) async fn check_inner_quotas(
        &self,
        bucket: &Bucket,
        path: Option<&ObjectKey>,
        quota: Quota,
    ) -> Result<(), Error> {
        for (_, space) in self.spaces.within(bucket, path) {
            let key = ObjectKey::new(&space.path)?;
            if path == Some(&key) {
                continue;
            }
            let Some((_, inner)) = self.space(bucket, &key).await? else {
                continue;
            };
            if let Some(excess) = excess(inner, quota) {
                let name = &space.name;
                let message = format!(
                    "the space {name} in it has a larger quota, and it would hold {excess}"
                );
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
        }
        Ok(())
    }

    /// The paths that the spaces of a renamed directory have from now on.
    pub(super) fn stage_renamed_spaces(
        &self,
        stage: &mut BatchBuilder<'_>,
        hold: &Arc<SpacesHold>,
        (bucket, from): (&Bucket, &ObjectKey),
        to: &ObjectKey,
    ) {
        for (id, mut space) in self.spaces.within(bucket, Some(from)) {
            let rest = space.path.get(from.as_str().len()..).unwrap_or_default();
            space.path = format!("{to}{rest}");
            stage.put_space(hold, id, &space);
        }
    }

    /// A space shows the group of its directory.
    pub(super) fn stage_space_group(
        &self,
        stage: &mut BatchBuilder<'_>,
        hold: &Arc<SpacesHold>,
        directory: EntryId,
        group: Option<GroupId>,
    ) {
        let spaces = self.spaces.all().into_iter();
        for (id, space) in spaces.filter(|(id, _)| *id == directory) {
            stage.put_space(hold, id, &SpaceRecord { group, ..space });
        }
    }

    /// Refuses the removal of a counted directory that has a name, and requires that it gets none.
    ///
    /// # Errors
    /// `NotEmpty`; errors of the engine.
    pub(super) async fn require_no_name(
        &self,
        stage: &mut BatchBuilder<'_>,
        directory: EntryId,
    ) -> Result<(), Error> {
        let key = keys::space(directory);
        let read = self.kv().get(&key).await?;
        if let Some(value) = &read.value {
            return Err(space_stays(&SpaceRecord::from_value(&key, value)?.name));
        }
        stage.same(key, &read);
        Ok(())
    }

    /// What a scope is, for people.
    pub(super) fn scope_words(&self, scope: CounterScope) -> String {
        let what = match scope {
            CounterScope::Tenant(_) => "the tenant",
            CounterScope::Bucket(_) => "the bucket",
            CounterScope::Space(id) => match self.spaces.name(id) {
                Some(name) => return format!("the space {name}"),
                None => "the directory",
            },
            CounterScope::User(_) => "the owner",
            CounterScope::Group(_) => "the group",
        };
        what.to_owned()
    }
}

/// The refusal to remove the directory of a space.
#[must_use]
pub fn space_stays(name: &str) -> Error {
    let message = format!(
        "the directory of the space {name} is removed only after `dewar space remove {name}`"
    );
    Error::new(ErrorKind::NotEmpty, message)
}

/// The mark of a directory with these limits.
pub(super) fn marked_with(before: Option<&SpaceMark>, quota: Quota) -> SpaceMark {
    SpaceMark {
        counted: before.is_some_and(|mark| mark.counted),
        max_bytes: quota.max_bytes,
        max_objects: quota.max_objects,
        soft_bytes: quota.soft_bytes,
        soft_objects: quota.soft_objects,
    }
}

/// The outer limit that an inner one exceeds, in words.
fn excess(inner: Quota, outer: Quota) -> Option<String> {
    let over = |inner: Option<u64>, outer: Option<u64>| {
        let outer = outer?;
        inner.is_none_or(|inner| inner > outer).then_some(outer)
    };
    // A space always limits bytes, and may leave the number of objects to what is around it.
    if let Some(outer) = over(inner.max_bytes, outer.max_bytes) {
        return Some(format!("only {outer} bytes"));
    }
    let objects = over(inner.max_objects.or(outer.max_objects), outer.max_objects);
    objects.map(|outer| format!("only {outer} objects"))
}

impl BatchBuilder<'_> {
    /// Puts the record of a space.
    pub(super) fn put_space(&mut self, hold: &Arc<SpacesHold>, id: EntryId, record: &SpaceRecord) {
        self.put(keys::space(id), record.to_value());
        self.changes_spaces(hold);
    }

    /// Removes the record of a space.
    fn remove_space(&mut self, hold: &Arc<SpacesHold>, id: EntryId) {
        self.delete(keys::space(id));
        self.changes_spaces(hold);
    }
}
