//! References of users to groups, by id.
//!
//! A reference that leads nowhere fails the lookup of whoever has it: the group could have denied
//! something.
//!
//! Catalogs of earlier releases refer to groups by name. Opening such a catalog turns these
//! references into ids, one user at a time. Either form of a user means the
//! same, so that a crash in between leaves nothing half done; the next opening goes on. A name that
//! leads to no group stays a name and never leads to a later group.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use dewar_catalog::keys as catalog;
use dewar_kv::Batch;
use dewar_types::{Error, ErrorKind, Result, TenantId, TenantName};
use parking_lot::Mutex;

use super::users::user_key;
use super::{Accounts, TRIES};
use crate::names::{folded, is_of, none};
use crate::record::{GROUP, GROUP_BY_ID, GroupRecord, IdIndexRecord, UserRecord, decode, encode};

/// Something that is referred to and is not there.
pub(super) fn dangling(source: &str, what: &str, name: &str) -> Error {
    let message = format!("{source} refers to {what} {name}, which is not there");
    Error::new(ErrorKind::Corrupt, message)
}

/// Under which key a group is found by its id.
pub(super) fn group_key(id: u64) -> Bytes {
    catalog::user_by(GROUP_BY_ID, &id.to_be_bytes())
}

/// What leads from a group's id to its name.
pub(super) fn group_place(tenant: &TenantName, record: &GroupRecord) -> (Bytes, Bytes) {
    let place = IdIndexRecord {
        tenant: tenant.as_str().to_owned(),
        name: record.name.clone(),
    };
    (group_key(record.id), encode(&place))
}

/// A group or policy that is being removed, until this is dropped.
#[derive(Debug)]
pub(super) struct Removal<'a> {
    removals: &'a Mutex<BTreeSet<Bytes>>,
    key: Bytes,
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        self.removals.lock().remove(&self.key);
    }
}

fn being_removed(what: &str, name: &str) -> Error {
    let message = format!("{what} {name} is being removed");
    Error::new(ErrorKind::Conflict, message)
}

impl Accounts {
    /// Begins to remove a group or policy: nobody gets it any more. Those that have it can be looked for
    /// afterwards without a lock.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] while another request removes it.
    pub(super) async fn begin_removal(
        &self,
        key: &Bytes,
        what: &str,
        name: &str,
    ) -> Result<Removal<'_>> {
        // Those who are about to get it come before.
        let _joining = self.joining.lock().await;
        if !self.removals.lock().insert(key.clone()) {
            return Err(being_removed(what, name));
        }
        Ok(Removal {
            removals: &self.removals,
            key: key.clone(),
        })
    }

    /// Refuses a group or policy that is being removed. The caller holds `joining`.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`].
    pub(super) fn check_not_removed(&self, key: &Bytes, what: &str, name: &str) -> Result<()> {
        match self.removals.lock().contains(key) {
            true => Err(being_removed(what, name)),
            false => Ok(()),
        }
    }

    /// Whether what is referred to by name is not there.
    pub(super) fn is_by_id(&self) -> bool {
        self.by_id.load(Relaxed)
    }

    /// The groups that a user's record refers to.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] for one that is not there.
    pub(super) async fn groups_referred(
        &self,
        tenant: TenantId,
        record: &UserRecord,
    ) -> Result<Vec<GroupRecord>> {
        let source = format!("user {}", record.name);
        let mut groups = Vec::with_capacity(record.groups.len() + record.group_ids.len());
        for name in &record.groups {
            let found = match self.is_by_id() {
                true => None,
                false => self.group_named(tenant, name).await?,
            };
            groups.push(found.ok_or_else(|| dangling(&source, "group", name))?);
        }
        for id in &record.group_ids {
            let found = self.group_referred(tenant, *id).await?;
            let id = format!("{id:016x}");
            groups.push(found.ok_or_else(|| dangling(&source, "the group with the id", &id))?);
        }
        Ok(groups)
    }

    async fn group_named(&self, tenant: TenantId, name: &str) -> Result<Option<GroupRecord>> {
        let key = catalog::identity(GROUP, tenant, &folded(name));
        let found = self.read::<GroupRecord>(&key).await?;
        Ok(found.filter(|group| is_of(&group.name, name)))
    }

    /// The group of an id, if it is there.
    pub(super) async fn group_referred(
        &self,
        tenant: TenantId,
        id: u64,
    ) -> Result<Option<GroupRecord>> {
        let mut before = None;
        // A group that is renamed between the two reads is looked for again.
        for _ in 0..TRIES {
            let Some(place) = self.read::<IdIndexRecord>(&group_key(id)).await? else {
                return Ok(None);
            };
            let found = self.group_named(tenant, &place.name).await?;
            if let Some(group) = found.filter(|group| group.id == id) {
                return Ok(Some(group));
            }
            if before.as_ref() == Some(&place) {
                return Ok(None);
            }
            before = Some(place);
        }
        Ok(None)
    }

    /// The same as [`Accounts::refer_by_id`] for a catalog that may take no writes now: it serves as
    /// it is.
    pub async fn try_refer_by_id(&self) {
        if let Err(error) = self.refer_by_id().await {
            tracing::warn!(%error, "the members of groups are still kept by the groups' names");
        }
    }

    /// Turns all references by name into references by id. Does nothing to a catalog that has none.
    ///
    /// # Errors
    /// Those of the catalog; references by name lead where they did then.
    pub async fn refer_by_id(&self) -> Result<()> {
        for tenant in self.catalog.tenants().await? {
            let groups: Vec<GroupRecord> = self.entities(GROUP, &tenant.name, None).await?;
            for group in &groups {
                self.add_group_place(&tenant.name, group).await?;
            }
            if groups.is_empty() {
                continue;
            }
            for (_, value) in self.all(&catalog::users(tenant.id)).await? {
                let user: UserRecord = decode(&value)?;
                for name in &user.groups {
                    if let Some(group) = self.group_named(tenant.id, name).await? {
                        self.refer_user_by_id(tenant.id, &user.name, &group).await?;
                    }
                }
            }
        }
        self.by_id.store(true, Relaxed);
        Ok(())
    }

    /// The same for one group. The caller holds `joining`.
    pub(super) async fn refer_by_id_to(&self, tenant: &TenantName, name: &str) -> Result<()> {
        if self.is_by_id() {
            return Ok(());
        }
        let id = self.tenant_id(tenant).await?;
        let group = self.group_named(id, name).await?;
        let group = group.ok_or_else(|| none("group", name))?;
        self.add_group_place(tenant, &group).await?;
        for member in self.members(tenant, name).await? {
            self.refer_user_by_id(id, &member.name, &group).await?;
        }
        Ok(())
    }

    /// Lets a group of an old catalog be found by its id.
    async fn add_group_place(&self, tenant: &TenantName, group: &GroupRecord) -> Result<()> {
        if self
            .read::<IdIndexRecord>(&group_key(group.id))
            .await?
            .is_some()
        {
            return Ok(());
        }
        let change = |record: &mut GroupRecord, batch: &mut Batch| {
            let (key, place) = group_place(tenant, record);
            batch.puts.push((key, place));
            Ok(())
        };
        let tenant = self.tenant_id(tenant).await?;
        let key = catalog::identity(GROUP, tenant, &folded(&group.name));
        self.edit(&key, || none("group", &group.name), change).await
    }

    async fn refer_user_by_id(
        &self,
        tenant: TenantId,
        user: &str,
        group: &GroupRecord,
    ) -> Result<()> {
        let change = |record: &mut UserRecord, _: &mut Batch| {
            let before = record.groups.len();
            record
                .groups
                .retain(|name| folded(name) != folded(&group.name));
            if record.groups.len() < before && !record.group_ids.contains(&group.id) {
                record.group_ids.push(group.id);
            }
            Ok(())
        };
        let key = user_key(tenant, user);
        self.edit(&key, || none("user", user), change).await
    }
}
