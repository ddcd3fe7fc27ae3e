//! Groups and roles.

use dewar_auth::{Policy, PolicyKind, User};
use dewar_catalog::keys as catalog;
use dewar_catalog::record::{Counter, CounterScope};
use dewar_kv::{Batch, Precondition};
use dewar_types::{Error, ErrorKind, GroupId, Result, TenantId, TenantName, Timestamp};
use minicbor::{Decode, Encode};

use super::Accounts;
use super::keys::shown;
use super::limits::{EntityKind, exceeded};
use super::references::{group_key, group_place};
use super::users::{bare, user_key};
use crate::names::{account_of, check_name, check_path, designation, exists, folded, is_of, none};
use crate::record::{
    AttachedPolicies, GROUP, GroupRecord, ROLE, RoleRecord, UserRecord, decode, encode,
};

/// Most groups of a user.
const GROUPS_MAX: usize = 32;
/// Longest policy of who may become a role, in bytes.
const TRUST_BYTES_MAX: usize = 20 * 1024;
/// Sessions last from 15 minutes to 12 hours.
const SESSION_SECONDS: std::ops::RangeInclusive<u32> = 900..=43_200;

/// A group of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its id.
    pub id: u64,
    /// With the account's name before it.
    pub name: String,
    /// As IAM has it.
    pub path: String,
    /// When it was made.
    pub created: Timestamp,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Its id.
    pub id: u64,
    /// With the account's name before it.
    pub name: String,
    /// As IAM has it.
    pub path: String,
    /// When it was made.
    pub created: Timestamp,
    /// The trust policy: it says which callers may assume the role.
    pub trust: String,
    /// A description for people.
    pub description: Option<String>,
    /// Longest session in seconds.
    pub max_session: u32,
}

/// A change of a role.
#[derive(Clone, Debug, Default)]
pub struct RoleChange {
    /// The trust policy: it says which callers may assume the role.
    pub trust: Option<String>,
    /// A description for people.
    pub description: Option<String>,
    /// Longest session in seconds.
    pub max_session: Option<u32>,
}

impl Accounts {
    /// All records of a kind, of an account (`root`) or of the whole tenant.
    pub(super) async fn entities<T: for<'b> Decode<'b, ()> + Encode<()>>(
        &self,
        kind: u8,
        tenant: &TenantName,
        root: Option<&str>,
    ) -> Result<Vec<T>> {
        let tenant = self.tenant_id(tenant).await?;
        let prefix = root.map(|root| folded(&format!("{root}/")));
        let range = catalog::identities(kind, tenant, prefix.as_deref().unwrap_or_default());
        let values = self.all(&range).await?;
        values.iter().map(|(_, value)| decode(value)).collect()
    }

    /// Makes a group.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`], [`ErrorKind::InvalidName`].
    pub async fn make_group(&self, tenant: &TenantName, name: &str, path: &str) -> Result<Group> {
        check_name("group", name)?;
        check_path(path)?;
        let record = GroupRecord {
            id: self.new_id().await?,
            name: name.to_owned(),
            path: path.to_owned(),
            created: self.catalog.env().clock.now(),
            held: AttachedPolicies::default(),
        };
        let id = self.make_tenant(tenant).await?;
        let _making = self
            .within_quota(EntityKind::Group, name, &own_of(GROUP, id, name))
            .await?;
        let key = catalog::identity(GROUP, id, &folded(name));
        let puts = vec![(key, encode(&record)), group_place(tenant, &record)];
        self.add(puts, || exists("group", name)).await?;
        Ok(record.into())
    }

    /// A group.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn group(&self, tenant: &TenantName, name: &str) -> Result<Group> {
        let key = catalog::identity(GROUP, self.tenant_id(tenant).await?, &folded(name));
        let found = self.read::<GroupRecord>(&key).await?;
        let found = found.filter(|record| is_of(&record.name, name));
        found.map(Into::into).ok_or_else(|| none("group", name))
    }

    /// The id of the group called `[TENANT:]NAME`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn group_called(&self, text: &str) -> Result<GroupId> {
        let (tenant, name) = designation(text)?;
        Ok(GroupId(self.group(&tenant, name).await?.id))
    }

    /// The name of the group of an id: `[TENANT:]NAME`.
    pub async fn group_by_id(&self, id: GroupId) -> Result<Option<String>> {
        for tenant in self.catalog.tenants().await? {
            let groups: Vec<GroupRecord> = self.entities(GROUP, &tenant.name, None).await?;
            if let Some(group) = groups.into_iter().find(|group| group.id == id.0) {
                return Ok(Some(shown(tenant.name.as_str(), &group.name)));
            }
        }
        Ok(None)
    }

    /// Groups of an account, or of the tenant where none is named.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn groups(&self, tenant: &TenantName, root: Option<&str>) -> Result<Vec<Group>> {
        let records: Vec<GroupRecord> = self.entities(GROUP, tenant, root).await?;
        let of = |name: &str| account_of(name) == root;
        let groups = records.into_iter().filter(|record| of(&record.name));
        Ok(groups.map(Into::into).collect())
    }

    /// Gives a group another name or path. Its members stay: they refer to it by its id, and all
    /// that changes is changed in one batch.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::AlreadyExists`].
    pub async fn change_group(
        &self,
        tenant: &TenantName,
        name: &str,
        new_name: Option<&str>,
        new_path: Option<&str>,
    ) -> Result<Group> {
        if let Some(new) = new_name {
            check_name("group", new)?;
        }
        if let Some(path) = new_path {
            check_path(path)?;
        }
        let id = self.tenant_id(tenant).await?;
        let key = catalog::identity(GROUP, id, &folded(name));
        let moved = new_name.map(|new| catalog::identity(GROUP, id, &folded(new)));
        let moved = moved.filter(|moved| *moved != key);
        if let (Some(moved), Some(new)) = (&moved, new_name)
            && self.read::<GroupRecord>(moved).await?.is_some()
        {
            return Err(exists("group", new));
        }
        // Whoever still refers to it by its name would be lost.
        let _joining = self.joining.lock().await;
        self.refer_by_id_to(tenant, name).await?;
        let change = |record: &mut GroupRecord, batch: &mut Batch| {
            if let Some(new) = new_name {
                new.clone_into(&mut record.name);
            }
            if let Some(path) = new_path {
                path.clone_into(&mut record.path);
            }
            batch.puts.push(group_place(tenant, record));
            if let Some(moved) = &moved {
                batch.require.push(Precondition::absent(moved.clone()));
                batch.puts.push((moved.clone(), encode(&*record)));
                batch.deletes.push(key.clone());
            }
            Ok(record.clone())
        };
        let record = self.edit(&key, || none("group", name), change).await?;
        Ok(record.into())
    }

    /// Removes a group without members and policies to which nothing is charged.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Conflict`] while it has members, policies, limits or
    /// objects. Nobody could see or change them after the removal, and they would still be counted.
    pub async fn remove_group(&self, tenant: &TenantName, name: &str) -> Result<()> {
        let scope = CounterScope::Group(GroupId(self.group(tenant, name).await?.id));
        self.check_nothing_charged(scope, name).await?;
        match self.remove_uncharged_group(tenant, name).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.check_nothing_charged(scope, name).await?;
                Err(error)
            }
            outcome => outcome,
        }
    }

    /// Removes a group if nothing is charged to it at the moment of the removal.
    pub(super) async fn remove_uncharged_group(
        &self,
        tenant: &TenantName,
        name: &str,
    ) -> Result<()> {
        let key = catalog::identity(GROUP, self.tenant_id(tenant).await?, &folded(name));
        // A user that joins meanwhile comes before the look at the members, or is refused.
        let _removal = self.begin_removal(&key, "group", name).await?;
        self.group(tenant, name).await?;
        if !self.members(tenant, name).await?.is_empty() {
            return Err(in_use("group", name, "members"));
        }
        let remove = |record: &mut GroupRecord, batch: &mut Batch| {
            if record.held != AttachedPolicies::default() {
                return Err(in_use("group", name, "policies"));
            }
            batch.deletes.push(key.clone());
            batch.deletes.push(group_key(record.id));
            let scope = CounterScope::Group(GroupId(record.id));
            for counter in [Counter::Objects(scope), Counter::Bytes(scope)] {
                batch.require.push(Precondition::AtMost {
                    counter: counter.key(),
                    max: 0,
                });
            }
            let limits = scope.quota_key();
            batch.require.push(Precondition::Empty {
                to: catalog::just_after(&limits),
                from: limits,
            });
            Ok(())
        };
        self.edit(&key, || none("group", name), remove).await
    }

    /// Refuses to remove a group that has limits, or to which objects are charged.
    async fn check_nothing_charged(&self, scope: CounterScope, name: &str) -> Result<()> {
        let usage = self.catalog.usage(scope).await?;
        let limits = self.catalog.kv().get(&scope.quota_key()).await?;
        let why = if limits.value.is_some() {
            "limits: `dewar quota remove` first".to_owned()
        } else if usage.objects > 0 || usage.bytes > 0 {
            format!("{} objects that are charged to it", usage.objects)
        } else {
            return Ok(());
        };
        let message = format!("the group {name} has {why}");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Puts a user into a group, or takes it out. That it was so already is no error.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Quota`] beyond 32 groups.
    pub async fn set_member(
        &self,
        tenant: &TenantName,
        user: &str,
        group: &str,
        member: bool,
    ) -> Result<()> {
        let _joining = self.joining.lock().await;
        // A user can be taken out of a group that is not there: nothing else lets it in again.
        let id = match self.group(tenant, group).await {
            Ok(group) => Some(group.id),
            Err(error) if error.kind() == ErrorKind::NotFound && !member => None,
            Err(error) => return Err(error),
        };
        let tenant = self.tenant_id(tenant).await?;
        if member {
            let key = catalog::identity(GROUP, tenant, &folded(group));
            self.check_not_removed(&key, "group", group)?;
        }
        let key = user_key(tenant, user);
        let change = |record: &mut UserRecord, _: &mut Batch| {
            record.groups.retain(|name| folded(name) != folded(group));
            record.group_ids.retain(|other| Some(*other) != id);
            record.group_ids.extend(id.filter(|_| member));
            let max = match account_of(&record.name) {
                Some(_) => self.limits().groups_per_user,
                None => GROUPS_MAX,
            };
            if member && record.groups.len() + record.group_ids.len() > max {
                return Err(exceeded("GroupsPerUser", max));
            }
            Ok(())
        };
        self.edit(&key, || none("user", user), change).await
    }

    /// The users in a group, by name.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn members(&self, tenant: &TenantName, group: &str) -> Result<Vec<User>> {
        let id = self.group(tenant, group).await?.id;
        let mut found = Vec::new();
        let range = catalog::users(self.tenant_id(tenant).await?);
        for (_, value) in self.all(&range).await? {
            let record: UserRecord = decode(&value)?;
            let named = |name: &String| folded(name) == folded(group);
            let by_name = !self.is_by_id() && record.groups.iter().any(named);
            if record.group_ids.contains(&id) || by_name {
                found.push(bare(&record)?);
            }
        }
        Ok(found)
    }

    /// The groups that a user is in.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Corrupt`] for a group that is not there.
    pub async fn groups_of(&self, tenant: &TenantName, user: &str) -> Result<Vec<Group>> {
        let tenant = self.tenant_id(tenant).await?;
        let record = self.user_in(tenant, user).await?;
        let groups = self.groups_referred(tenant, &record).await?;
        Ok(groups.into_iter().map(Into::into).collect())
    }

    /// Makes a role that those may become who the policy `trust` names.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedPolicy`], [`ErrorKind::AlreadyExists`], [`ErrorKind::InvalidName`],
    /// [`ErrorKind::InvalidArgument`] for sessions that are too short or too long.
    pub async fn make_role(
        &self,
        tenant: &TenantName,
        name: &str,
        path: &str,
        change: RoleChange,
    ) -> Result<Role> {
        check_name("role", name)?;
        check_path(path)?;
        let mut record = RoleRecord {
            id: self.new_id().await?,
            name: name.to_owned(),
            path: path.to_owned(),
            created: self.catalog.env().clock.now(),
            held: AttachedPolicies::default(),
            trust: String::new(),
            description: None,
            max_session: 3600,
        };
        let client_trust = self.federation_config().client_trust;
        change_role(&mut record, &change)?;
        check_trust(&record.trust, client_trust)?;
        record.trust = self.stored_policy(&record.trust, None).await?;
        let tenant = self.make_tenant(tenant).await?;
        let _making = self
            .within_quota(EntityKind::Role, name, &own_of(ROLE, tenant, name))
            .await?;
        let key = catalog::identity(ROLE, tenant, &folded(name));
        self.add(vec![(key, encode(&record))], || exists("role", name))
            .await?;
        Ok(record.into())
    }

    /// A role.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn role(&self, tenant: &TenantName, name: &str) -> Result<Role> {
        let key = catalog::identity(ROLE, self.tenant_id(tenant).await?, &folded(name));
        let found = self.read::<RoleRecord>(&key).await?;
        let found = found.filter(|record| is_of(&record.name, name));
        found.map(Into::into).ok_or_else(|| none("role", name))
    }

    /// Roles of an account, or of the tenant where none is named.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn roles(&self, tenant: &TenantName, root: Option<&str>) -> Result<Vec<Role>> {
        let records: Vec<RoleRecord> = self.entities(ROLE, tenant, root).await?;
        let of = |name: &str| account_of(name) == root;
        let roles = records.into_iter().filter(|record| of(&record.name));
        Ok(roles.map(Into::into).collect())
    }

    /// Changes a role.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::MalformedPolicy`], [`ErrorKind::InvalidArgument`].
    pub async fn change_role(
        &self,
        tenant: &TenantName,
        name: &str,
        change: RoleChange,
    ) -> Result<Role> {
        let key = catalog::identity(ROLE, self.tenant_id(tenant).await?, &folded(name));
        let client_trust = self.federation_config().client_trust;
        let mut change = change;
        if let Some(trust) = &change.trust {
            check_trust(trust, client_trust)?;
            let before = self.role(tenant, name).await?.trust;
            change.trust = Some(self.stored_policy(trust, Some(&before)).await?);
        }
        let edit = |record: &mut RoleRecord, _: &mut Batch| {
            change_role(record, &change)?;
            Ok(record.clone())
        };
        let record = self.edit(&key, || none("role", name), edit).await?;
        Ok(record.into())
    }

    /// Removes a role without policies.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Conflict`] while it has some.
    pub async fn remove_role(&self, tenant: &TenantName, name: &str) -> Result<()> {
        let key = catalog::identity(ROLE, self.tenant_id(tenant).await?, &folded(name));
        let remove = |record: &mut RoleRecord, batch: &mut Batch| {
            if record.held != AttachedPolicies::default() {
                return Err(in_use("role", name, "policies"));
            }
            batch.deletes.push(key.clone());
            Ok(())
        };
        self.edit(&key, || none("role", name), remove).await
    }
}

/// All of a kind that belong to the account of something.
pub(super) fn own_of(kind: u8, tenant: TenantId, name: &str) -> catalog::KeyRange {
    let root = account_of(name).unwrap_or_default();
    catalog::identities(kind, tenant, &folded(&format!("{root}/")))
}

fn check_trust(text: &str, client_trust: bool) -> Result<()> {
    let policy = Policy::parse(text, PolicyKind::Trust, TRUST_BYTES_MAX).map_err(|error| {
        Error::with_source(ErrorKind::MalformedPolicy, error.to_string(), error)
    })?;
    if policy.trusts_a_realm(client_trust) {
        let message = "the policy would let in every user of the issuer: it needs a condition on a \
                       claim that tells them apart, like groups or sub (a sub that is like \"*\" \
                       says that all are meant)";
        return Err(Error::new(ErrorKind::MalformedPolicy, message));
    }
    Ok(())
}

/// Changes the record of a role. Its trust policy has been checked.
fn change_role(record: &mut RoleRecord, change: &RoleChange) -> Result<()> {
    if let Some(trust) = &change.trust {
        record.trust.clone_from(trust);
    }
    if let Some(description) = &change.description {
        if description.len() > 1000 {
            let message = "a description has at most 1000 bytes";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        record.description = Some(description.clone()).filter(|text| !text.is_empty());
    }
    if let Some(seconds) = change.max_session {
        if !SESSION_SECONDS.contains(&seconds) {
            let message = "sessions last 900 to 43200 seconds";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        record.max_session = seconds;
    }
    Ok(())
}

fn in_use(what: &str, name: &str, why: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("{what} {name} has {why}"))
}

impl From<GroupRecord> for Group {
    fn from(record: GroupRecord) -> Self {
        Self {
            id: record.id,
            name: record.name,
            path: record.path,
            created: record.created,
        }
    }
}

impl From<RoleRecord> for Role {
    fn from(record: RoleRecord) -> Self {
        Self {
            id: record.id,
            name: record.name,
            path: record.path,
            created: record.created,
            trust: record.trust,
            description: record.description,
            max_session: record.max_session,
        }
    }
}
