//! Policies: on users, groups and roles, and those that stand for themselves.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use dewar_auth::{User, UserPolicies, UserPolicy};
use dewar_catalog::keys as catalog;
use dewar_kv::Batch;
use dewar_types::{Error, ErrorKind, Result, TenantId, TenantName, Timestamp, UserId};

use super::entities::own_of;
use super::limits::{EntityKind, exceeded, policy_chars};
use super::references::dangling;
use super::users::{bare, default_tenant, user_key};
use super::{Accounts, aws_policy, is_aws_policy};
use crate::cache::AccountScope;
use crate::compiled_policies::{PolicyOwner, compile};
use crate::names::{account_of, check_name, check_path, exists, folded, is_of, none};
use crate::record::{
    AttachedPolicies, GROUP, GroupRecord, POLICY, PolicyRecord, PolicyVersionRecord, ROLE,
    RoleRecord, UserRecord, encode,
};

/// Most policies of one kind on a user, group or role.
const HELD_MAX: usize = 32;
/// Most wordings of a policy (IAM: 5).
pub const POLICY_VERSIONS_MAX: usize = 5;

/// The kinds of records that have policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyHolderKind {
    /// A user.
    User,
    /// A group.
    Group,
    /// A role.
    Role,
}

/// A user, group or role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyHolder {
    /// The kind of the holder.
    pub kind: PolicyHolderKind,
    /// Its tenant.
    pub tenant: TenantName,
    /// Its name, with the account's before it: `ann/readers`.
    pub name: String,
}

impl PolicyHolderKind {
    /// As ARNs and messages have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
            Self::Role => "role",
        }
    }
}

/// A policy that stands for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedPolicy {
    /// Its id.
    pub id: u64,
    /// With the account's name before it.
    pub name: String,
    /// As IAM has it.
    pub path: String,
    /// When it was made.
    pub created: Timestamp,
    /// When it was changed.
    pub updated: Timestamp,
    /// A description for people.
    pub description: Option<String>,
    /// Its wordings by number.
    pub versions: BTreeMap<u32, PolicyVersion>,
    /// The one that counts.
    pub default: u32,
}

/// One wording of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyVersion {
    /// As it was written.
    pub text: String,
    /// When.
    pub created: Timestamp,
}

/// A record on which policies stand.
trait PolicyHolderRecord {
    fn held(&mut self) -> &mut AttachedPolicies;
}

impl PolicyHolderRecord for UserRecord {
    fn held(&mut self) -> &mut AttachedPolicies {
        &mut self.held
    }
}

impl PolicyHolderRecord for GroupRecord {
    fn held(&mut self) -> &mut AttachedPolicies {
        &mut self.held
    }
}

impl PolicyHolderRecord for RoleRecord {
    fn held(&mut self) -> &mut AttachedPolicies {
        &mut self.held
    }
}

impl Accounts {
    async fn edit_held<R>(
        &self,
        holder: &PolicyHolder,
        change: impl Fn(&mut AttachedPolicies) -> Result<R>,
    ) -> Result<R> {
        let tenant = self.tenant_id(&holder.tenant).await?;
        let name = holder.name.as_str();
        let absent = || none(holder.kind.as_str(), name);
        let kind = match holder.kind {
            PolicyHolderKind::User => {
                let key = user_key(tenant, name);
                let edit = |record: &mut UserRecord, _: &mut Batch| change(record.held());
                return self.edit(&key, absent, edit).await;
            }
            PolicyHolderKind::Group => GROUP,
            PolicyHolderKind::Role => ROLE,
        };
        let key = catalog::identity(kind, tenant, &folded(name));
        if kind == GROUP {
            let edit = |record: &mut GroupRecord, _: &mut Batch| change(record.held());
            self.edit(&key, absent, edit).await
        } else {
            let edit = |record: &mut RoleRecord, _: &mut Batch| change(record.held());
            self.edit(&key, absent, edit).await
        }
    }

    /// Puts a policy on a user, group or role.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedPolicy`]; [`ErrorKind::NotFound`]; [`ErrorKind::Quota`] beyond 32.
    pub async fn put_policy(&self, holder: &PolicyHolder, policy: &str, text: &str) -> Result<()> {
        check_name("policy", policy)?;
        compile(text)?;
        let chars = |held: &AttachedPolicies| {
            held.inline
                .values()
                .map(|text| policy_chars(text))
                .sum::<usize>()
        };
        let max = self.limits().inline_chars(holder.kind);
        self.edit_held(holder, |held| {
            let before = chars(held);
            held.inline.insert(policy.to_owned(), text.to_owned());
            let after = chars(held);
            // What was longer before there was a limit may become shorter.
            if account_of(&holder.name).is_some() && after > max && after > before {
                let (kind, name) = (holder.kind.as_str(), &holder.name);
                let message =
                    format!("Maximum policy size of {max} bytes exceeded for {kind} {name}");
                return Err(Error::new(ErrorKind::Quota, message));
            }
            if held.inline.len() > HELD_MAX {
                return Err(too_many("policies"));
            }
            Ok(())
        })
        .await
    }

    /// Takes a policy away from a user, group or role.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn delete_policy(&self, holder: &PolicyHolder, policy: &str) -> Result<()> {
        self.edit_held(holder, |held| {
            let gone = held.inline.remove(policy);
            gone.map(drop).ok_or_else(|| none("policy", policy))
        })
        .await
    }

    /// The policies on a user, group or role, by name; and the names of those that stand for
    /// themselves.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn policies_of(
        &self,
        holder: &PolicyHolder,
    ) -> Result<(BTreeMap<String, String>, Vec<String>)> {
        self.edit_held(holder, |held| {
            Ok((held.inline.clone(), held.attached.clone()))
        })
        .await
    }

    /// Gives a policy that stands for itself to a user, group or role.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Quota`] beyond 32.
    pub async fn attach_policy(&self, holder: &PolicyHolder, policy: &str) -> Result<()> {
        // Nobody removes it meanwhile.
        let _joining = self.joining.lock().await;
        let name = self.managed(&holder.tenant, policy).await?.name;
        let key = self.policy_key(&holder.tenant, &name).await?;
        self.check_not_removed(&key, "policy", &name)?;
        let own_max = self.limits().attached_policies;
        self.edit_held(holder, |held| {
            if !held.attached.contains(&name) {
                held.attached.push(name.clone());
            }
            let (quota, max) = match (holder.kind, account_of(&holder.name)) {
                (PolicyHolderKind::User, Some(_)) => ("PoliciesPerUser", own_max),
                (PolicyHolderKind::Group, Some(_)) => ("PoliciesPerGroup", own_max),
                (PolicyHolderKind::Role, Some(_)) => ("PoliciesPerRole", own_max),
                (_, None) => ("attached policies", HELD_MAX),
            };
            if held.attached.len() > max {
                return Err(exceeded(quota, max));
            }
            Ok(())
        })
        .await
    }

    /// Takes it away again.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn detach_policy(&self, holder: &PolicyHolder, policy: &str) -> Result<()> {
        self.edit_held(holder, |held| {
            let before = held.attached.len();
            held.attached.retain(|name| folded(name) != folded(policy));
            if held.attached.len() == before {
                return Err(none("attached policy", policy));
            }
            Ok(())
        })
        .await
    }

    /// Makes a policy that stands for itself.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedPolicy`], [`ErrorKind::AlreadyExists`], [`ErrorKind::InvalidName`].
    pub async fn make_policy(
        &self,
        tenant: &TenantName,
        name: &str,
        path: &str,
        description: Option<String>,
        text: &str,
    ) -> Result<ManagedPolicy> {
        check_name("policy", name)?;
        check_path(path)?;
        compile(text)?;
        self.check_managed_size(name, text)?;
        let now = self.catalog.env().clock.now();
        let version = PolicyVersionRecord {
            text: text.to_owned(),
            created: now,
        };
        let record = PolicyRecord {
            id: self.new_id().await?,
            name: name.to_owned(),
            path: path.to_owned(),
            created: now,
            updated: now,
            description,
            versions: BTreeMap::from([(1, version)]),
            default: 1,
        };
        let key = self.policy_key(tenant, name).await?;
        let own = own_of(POLICY, self.tenant_id(tenant).await?, name);
        let _making = self.within_quota(EntityKind::Policy, name, &own).await?;
        self.add(vec![(key, encode(&record))], || exists("policy", name))
            .await?;
        Ok(record.into())
    }

    async fn policy_key(&self, tenant: &TenantName, name: &str) -> Result<Bytes> {
        let tenant = self.tenant_id(tenant).await?;
        Ok(catalog::identity(POLICY, tenant, &folded(name)))
    }

    /// A policy that stands for itself.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub async fn managed(&self, tenant: &TenantName, name: &str) -> Result<ManagedPolicy> {
        if is_aws_policy(name) {
            let found = aws_policy(name).map(Into::into);
            return found.ok_or_else(|| none("policy", name));
        }
        let key = self.policy_key(tenant, name).await?;
        let found = self.read::<PolicyRecord>(&key).await?;
        let found = found.filter(|record| is_of(&record.name, name));
        found.map(Into::into).ok_or_else(|| none("policy", name))
    }

    /// All of an account (`root`), or of the tenant where none is named.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn managed_policies(
        &self,
        tenant: &TenantName,
        root: Option<&str>,
    ) -> Result<Vec<ManagedPolicy>> {
        let records: Vec<PolicyRecord> = self.entities(POLICY, tenant, root).await?;
        let of = |name: &str| account_of(name) == root;
        Ok(records
            .into_iter()
            .filter(|record| of(&record.name))
            .map(Into::into)
            .collect())
    }

    /// Adds a wording; the oldest that does not count goes when there are five.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedPolicy`], [`ErrorKind::NotFound`].
    pub async fn reword_policy(
        &self,
        tenant: &TenantName,
        name: &str,
        text: &str,
        default: bool,
    ) -> Result<u32> {
        compile(text)?;
        self.check_managed_size(name, text)?;
        let key = self.policy_key(tenant, name).await?;
        let now = self.catalog.env().clock.now();
        let change = |record: &mut PolicyRecord, _: &mut Batch| {
            if record.versions.len() >= POLICY_VERSIONS_MAX {
                return Err(too_many("versions of a policy"));
            }
            let number = record
                .versions
                .keys()
                .next_back()
                .map_or(1, |last| last + 1);
            let version = PolicyVersionRecord {
                text: text.to_owned(),
                created: now,
            };
            record.versions.insert(number, version);
            record.updated = now;
            if default {
                record.default = number;
            }
            Ok(number)
        };
        self.edit(&key, || none("policy", name), change).await
    }

    /// Says which wording counts, or removes one that does not.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Conflict`] when the one that counts is to go.
    pub async fn choose_wording(
        &self,
        tenant: &TenantName,
        name: &str,
        number: u32,
        remove: bool,
    ) -> Result<()> {
        let key = self.policy_key(tenant, name).await?;
        let change = |record: &mut PolicyRecord, _: &mut Batch| {
            if !record.versions.contains_key(&number) {
                return Err(none("version of the policy", &format!("v{number}")));
            }
            match (remove, record.default == number) {
                (true, true) => {
                    let message = "the version that counts cannot be removed";
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
                (true, false) => {
                    record.versions.remove(&number);
                }
                (false, _) => record.default = number,
            }
            Ok(())
        };
        self.edit(&key, || none("policy", name), change).await
    }

    /// Removes a policy that nobody has.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Conflict`] while somebody has it.
    pub async fn remove_managed(&self, tenant: &TenantName, name: &str) -> Result<()> {
        let key = self.policy_key(tenant, name).await?;
        let _removal = self.begin_removal(&key, "policy", name).await?;
        let policy = self.managed(tenant, name).await?;
        if let Some(holder) = self.holders_of(tenant, &policy.name).await?.first() {
            let message = format!("{} {} has the policy", holder.kind.as_str(), holder.name);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let remove = |_: &mut PolicyRecord, batch: &mut Batch| {
            batch.deletes.push(key.clone());
            Ok(())
        };
        self.edit(&key, || none("policy", name), remove).await
    }

    /// The users, groups and roles that a managed policy is attached to.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn holders_of(&self, tenant: &TenantName, policy: &str) -> Result<Vec<PolicyHolder>> {
        let id = self.tenant_id(tenant).await?;
        let mut found = Vec::new();
        let mut note = |kind, name: &str, held: &AttachedPolicies| {
            if held
                .attached
                .iter()
                .any(|name| folded(name) == folded(policy))
            {
                found.push(PolicyHolder {
                    kind,
                    tenant: tenant.clone(),
                    name: name.to_owned(),
                });
            }
        };
        for (_, value) in self.all(&catalog::users(id)).await? {
            let record: UserRecord = crate::record::decode(&value)?;
            note(PolicyHolderKind::User, &record.name, &record.held);
        }
        for record in self.entities::<GroupRecord>(GROUP, tenant, None).await? {
            note(PolicyHolderKind::Group, &record.name, &record.held);
        }
        for record in self.entities::<RoleRecord>(ROLE, tenant, None).await? {
            note(PolicyHolderKind::Role, &record.name, &record.held);
        }
        Ok(found)
    }

    /// The user of a record, with all its policies compiled.
    pub(super) async fn whole(&self, record: UserRecord) -> Result<User> {
        Ok(self.whole_with_scopes(record).await?.0)
    }

    /// The same with the accounts by whose records that was decided.
    pub(super) async fn whole_with_scopes(
        &self,
        record: UserRecord,
    ) -> Result<(User, Vec<AccountScope>)> {
        let mut user = bare(&record)?;
        let tenant = match user.tenant.is_default() {
            true => default_tenant(),
            false => self.tenant_id(&user.tenant).await?,
        };
        let mut policies = PolicyCollection::of(user.account);
        policies.scopes.insert(AccountScope::of_user(&record.name));
        let kind = PolicyHolderKind::User;
        self.collect(&mut policies, kind, tenant, &record.name, &record.held)
            .await?;
        for group in self.groups_referred(tenant, &record).await? {
            let kind = PolicyHolderKind::Group;
            self.collect(&mut policies, kind, tenant, &group.name, &group.held)
                .await?;
        }
        user.policies = UserPolicies::new(policies.policies);
        Ok((user, policies.scopes.into_iter().collect()))
    }

    /// Adds what stands on a user, group or role. A document that cannot be read (it was when it was
    /// written), or a policy that is not there, fails the lookup: leaving it out could leave out
    /// what denies.
    pub(super) async fn collect(
        &self,
        policies: &mut PolicyCollection,
        kind: PolicyHolderKind,
        tenant: TenantId,
        name: &str,
        held: &AttachedPolicies,
    ) -> Result<()> {
        let source = format!("{} {name}", kind.as_str());
        let tenant_wide = !name.contains('/');
        let PolicyCollection {
            account,
            policies,
            scopes,
        } = policies;
        let account = PolicyOwner::Account(*account);
        let owner_of = |name: &str| match account_of(name) {
            Some(_) => account,
            None => PolicyOwner::Tenant(tenant),
        };
        scopes.insert(AccountScope::of_entity(name));
        // A group of the tenant has members of many accounts.
        let owner = match kind {
            PolicyHolderKind::Group => owner_of(name),
            PolicyHolderKind::User | PolicyHolderKind::Role => account,
        };
        for (policy, text) in &held.inline {
            policies.push(UserPolicy {
                source: format!("{source}, policy {policy}").into(),
                policy: self.compiled.get(owner, text)?,
                tenant_wide,
            });
        }
        for policy in &held.attached {
            if let Some(aws) = aws_policy(policy) {
                policies.push(UserPolicy {
                    source: format!("{source}, policy {policy} v{}", aws.version()).into(),
                    policy: self.compiled.get(PolicyOwner::Server, aws.text())?,
                    tenant_wide,
                });
                continue;
            }
            scopes.insert(AccountScope::of_entity(policy));
            let key = catalog::identity(POLICY, tenant, &folded(policy));
            let found = self.read::<PolicyRecord>(&key).await?;
            let record = found.filter(|record| is_of(&record.name, policy));
            let record = record.ok_or_else(|| dangling(&source, "policy", policy))?;
            let version = record.versions.get(&record.default);
            let version = version
                .ok_or_else(|| dangling(&source, "the default version of policy", policy))?;
            policies.push(UserPolicy {
                source: format!("{source}, policy {policy} v{}", record.default).into(),
                policy: self.compiled.get(owner_of(policy), &version.text)?,
                tenant_wide,
            });
        }
        Ok(())
    }
}

/// Policies that somebody has.
pub(super) struct PolicyCollection {
    /// To which those are charged that are not the tenant's.
    pub(super) account: UserId,
    pub(super) policies: Vec<UserPolicy>,
    /// Accounts by whose records it was decided which these are.
    pub(super) scopes: BTreeSet<AccountScope>,
}

impl PolicyCollection {
    /// An empty one, of somebody of an account.
    pub(super) fn of(account: UserId) -> Self {
        Self {
            account,
            policies: Vec::new(),
            scopes: BTreeSet::new(),
        }
    }
}

fn too_many(what: &str) -> Error {
    Error::new(ErrorKind::Quota, format!("there are too many {what}"))
}

impl From<PolicyRecord> for ManagedPolicy {
    fn from(record: PolicyRecord) -> Self {
        Self {
            id: record.id,
            name: record.name,
            path: record.path,
            created: record.created,
            updated: record.updated,
            description: record.description,
            versions: record
                .versions
                .into_iter()
                .map(|(number, version)| {
                    let version = PolicyVersion {
                        text: version.text,
                        created: version.created,
                    };
                    (number, version)
                })
                .collect(),
            default: record.default,
        }
    }
}
