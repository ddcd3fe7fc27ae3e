//! The verbs of the IAM API: users, groups, roles, policies and keys of the caller's account, under
//! policy. An administrator on the admin socket uses [`crate::Accounts`] itself.
//!
//! Names are those within the account, as IAM has them. Every decision is about the record that
//! was found, in that record's own spelling and path, whatever the caller wrote. A user that is an
//! account of its own is found by its name or its id, by itself and by who manages its tenant.
//! For everybody else it does not exist, and neither do users of other accounts.

mod providers;
mod roles;

pub use providers::ProviderInfo;

use dewar_auth::{Action, Caller, Details, Resource, Secret, User, UserKind, authorize};
use dewar_types::{Error, ErrorKind, Result, TenantName, UserId};

use crate::accounts::{
    AccountLimits, Accounts, Group, KeyInfo, ManagedPolicy, NewUser, PolicyHolder,
    PolicyHolderKind, Role, RoleChange, UserChange, is_aws_policy,
};

/// The IAM API for one caller.
pub struct Identities<'a> {
    accounts: &'a Accounts,
    caller: &'a Caller,
    tenant: TenantName,
    account: UserId,
    /// The name of the user whose account it is.
    root: String,
    /// The policy that is given or taken, where that is what is asked for.
    about: Option<String>,
}

fn nobody() -> Error {
    Error::new(ErrorKind::Denied, "the caller is no user")
}

impl Accounts {
    /// The IAM API for a caller.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for callers who are no user.
    pub async fn identities<'a>(&'a self, caller: &'a Caller) -> Result<Identities<'a>> {
        let user = caller.user().ok_or_else(nobody)?;
        let root = self.user_by_id(user.account).await?;
        Ok(Identities {
            accounts: self,
            caller,
            tenant: user.tenant.clone(),
            account: user.account,
            root: root.ok_or_else(nobody)?.name.clone(),
            about: None,
        })
    }
}

impl Identities<'_> {
    /// The account's id, as ARNs have it.
    #[must_use]
    pub fn account(&self) -> UserId {
        self.account
    }

    /// The caller.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for callers who are no user.
    pub fn caller(&self) -> Result<&User> {
        self.caller.user().ok_or_else(nobody)
    }

    /// Whether the caller manages the whole tenant: its roles and providers are the tenant's.
    fn manages_tenant(&self) -> bool {
        self.caller.user().is_some_and(|user| user.tenant_admin)
    }

    fn full(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    fn details(&self) -> Details<'_> {
        Details {
            now: self.accounts.catalog.env().clock.now(),
            policy_arn: self.about.as_deref(),
            ..Details::default()
        }
    }

    /// A user, as policies see it.
    fn resource<'r>(&'r self, user: &User, path: &'r str) -> Resource<'r> {
        Resource::Identity {
            tenant: &self.tenant,
            account: user.account,
            path,
            of_tenant: user.is_root(),
        }
    }

    fn authorize(&self, action: Action, resource: Resource<'_>) -> Result<()> {
        self.accounts
            .authorizer
            .authorize(self.caller, action, resource, &self.details())
    }

    /// Asks for something of the own account, like `user/path/name`.
    fn authorize_own(&self, action: Action, path: &str) -> Result<()> {
        let resource = Resource::Identity {
            tenant: &self.tenant,
            account: self.account,
            path,
            of_tenant: false,
        };
        self.authorize(action, resource)
    }

    /// Asks for something of the tenant, which belongs to no account but perhaps is one.
    fn authorize_in_tenant(&self, action: Action, account: UserId, path: &str) -> Result<()> {
        let resource = Resource::Identity {
            tenant: &self.tenant,
            account,
            path,
            of_tenant: true,
        };
        self.authorize(action, resource)
    }

    /// The user of a name, or the caller, for who may do `action` to it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; [`ErrorKind::NotFound`]; [`ErrorKind::InvalidArgument`] without a name
    /// from a caller who is no user itself, like a session of a role.
    pub async fn user(&self, action: Action, name: Option<&str>) -> Result<User> {
        let found = match name {
            None => self.caller_itself().await?,
            Some(name) => self.user_named(action, name).await?,
        };
        if let Some(user) = found {
            let path = user_path(&user);
            self.authorize(action, self.resource(&user, &path))?;
            return Ok(user);
        }
        let name = name.unwrap_or_default();
        self.authorize_own(action, &format!("user/{name}"))?;
        let message = format!("there is no user {name:?}");
        Err(Error::new(ErrorKind::NotFound, message))
    }

    /// The caller, as the catalog has it.
    async fn caller_itself(&self) -> Result<Option<User>> {
        let caller = self.caller()?;
        if caller.kind != UserKind::Local {
            let message = "Must specify userName when calling with non-User credentials";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let found = self.accounts.user_by_id(caller.id).await?;
        Ok(found.map(|user| (*user).clone()))
    }

    /// The user of a name in the account; by name or id the caller itself, and, for who manages the
    /// tenant, a user that is an account of its own.
    async fn user_named(&self, action: Action, name: &str) -> Result<Option<User>> {
        let accounts = self.accounts;
        let absent = |error: &Error| error.kind() == ErrorKind::NotFound;
        match accounts.user_of(&self.tenant, &self.full(name)).await {
            Err(error) if absent(&error) => {}
            found => return found.map(Some),
        }
        let caller = self.caller()?;
        let by_name = caller.is_root() && caller.name == name;
        if caller.kind == UserKind::Local && (by_name || name.parse() == Ok(caller.id)) {
            return self.caller_itself().await;
        }
        let root = match accounts.user_of(&self.tenant, name).await {
            Err(error) if absent(&error) => match name.parse() {
                Ok(id) => accounts.user_by_id(id).await?.map(|user| (*user).clone()),
                Err(_) => None,
            },
            found => Some(found?),
        };
        Ok(root.filter(|root| self.manages(action, root)))
    }

    /// Whether the caller manages the tenant, as far as this action on this account's own user
    /// goes. Nothing is told to the audit log: who does not is answered as if there was no such user.
    fn manages(&self, action: Action, root: &User) -> bool {
        let path = user_path(root);
        let by_tenant = root.account != self.account
            || self.caller.user().is_some_and(|user| user.tenant_admin);
        let reaches = root.is_root() && root.tenant == self.tenant && by_tenant;
        let resource = self.resource(root, &path);
        reaches && authorize(self.caller, action, resource, &self.details()).is_ok()
    }

    fn holder(&self, kind: PolicyHolderKind, name: String) -> PolicyHolder {
        PolicyHolder {
            kind,
            tenant: self.tenant.clone(),
            name,
        }
    }

    /// A user, group or role for who may do `action` to it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; [`ErrorKind::NotFound`].
    pub async fn find(
        &self,
        action: Action,
        kind: PolicyHolderKind,
        name: &str,
    ) -> Result<PolicyHolder> {
        match kind {
            PolicyHolderKind::User => {
                let user = self.user(action, Some(name)).await?;
                Ok(self.holder(kind, user.name))
            }
            PolicyHolderKind::Group => {
                let group = self.group(action, name).await?;
                Ok(self.holder(kind, group.name))
            }
            PolicyHolderKind::Role => {
                let role = self.role(action, name).await?;
                Ok(self.holder(kind, role.name))
            }
        }
    }

    /// The same, for giving or taking a policy: who may is asked with the policy's own ARN, or with
    /// `arn` where there is no such policy.
    async fn about(&self, arn: &str) -> Result<Self> {
        let about = match self.policy_at(arn).await {
            Ok(policy) => self.policy_arn(&policy),
            Err(error) if error.kind() == ErrorKind::NotFound => arn.to_owned(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            tenant: self.tenant.clone(),
            root: self.root.clone(),
            about: Some(about),
            ..*self
        })
    }

    /// Gives a policy that stands for itself to a user, group or role, or takes it away.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`], [`ErrorKind::Quota`].
    pub async fn set_attached(
        &self,
        action: Action,
        kind: PolicyHolderKind,
        name: &str,
        arn: &str,
        attached: bool,
    ) -> Result<()> {
        let iam = self.about(arn).await?;
        let holder = iam.find(action, kind, name).await?;
        let policy = iam.policy(action, arn).await?;
        match attached {
            true => self.accounts.attach_policy(&holder, &policy.name).await,
            false => self.accounts.detach_policy(&holder, &policy.name).await,
        }
    }

    /// Makes a user of the account.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::AlreadyExists`], [`ErrorKind::InvalidName`],
    /// [`ErrorKind::InvalidArgument`].
    pub async fn create_user(&self, name: &str, path: &str) -> Result<User> {
        self.authorize_own(Action::CreateUser, &format!("user{path}{name}"))?;
        let new = NewUser {
            name: self.full(name),
            tenant: self.tenant.clone(),
            path: path.to_owned(),
            ..NewUser::default()
        };
        self.accounts.make_user(new).await
    }

    /// The users of the account but its own, by name.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub async fn list_users(&self) -> Result<Vec<User>> {
        self.authorize_own(Action::ListUsers, "user/")?;
        self.accounts.users_of(&self.tenant, &self.root).await
    }

    /// Gives a user another name or path. The caller needs the right to do so for both what the
    /// user is called now and what it is to be called.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`], [`ErrorKind::AlreadyExists`].
    pub async fn update_user(
        &self,
        name: &str,
        new_name: Option<&str>,
        new_path: Option<&str>,
    ) -> Result<()> {
        let user = self.user(Action::UpdateUser, Some(name)).await?;
        if user.is_root() && new_name.is_some() {
            let message = "a user that is an account of its own keeps its name";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        if !user.is_root() {
            let path = new_path.unwrap_or(&user.path);
            let name = new_name.unwrap_or(user.short_name());
            self.authorize_own(Action::UpdateUser, &format!("user{path}{name}"))?;
        }
        let change = UserChange {
            name: new_name.map(|new| self.full(new)),
            path: new_path.map(str::to_owned),
            ..UserChange::default()
        };
        let designation = self.designation(&user.name);
        self.accounts.change_user(&designation, change).await?;
        Ok(())
    }

    fn designation(&self, name: &str) -> String {
        if self.tenant.is_default() {
            name.to_owned()
        } else {
            format!("{}:{name}", self.tenant)
        }
    }

    /// Removes a user that has no keys, policies and groups.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`]; [`ErrorKind::Conflict`] while it has some.
    pub async fn delete_user(&self, name: &str) -> Result<()> {
        let user = self.user(Action::DeleteUser, Some(name)).await?;
        if user.is_root() {
            let message = "a user that is an account of its own is removed by the administrator";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let accounts = self.accounts;
        let designation = self.designation(&user.name);
        let keys = accounts.access_keys(Some(&designation)).await?;
        let groups = accounts.groups_of(&self.tenant, &user.name).await?;
        if !keys.is_empty() || !groups.is_empty() || !user.policies.is_empty() {
            let message = "Cannot delete entity, must remove keys, policies and groups first.";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        accounts.remove_user(&designation).await
    }

    /// Adds a key for a user, or for the caller. The secret is returned this once.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn create_key(&self, name: Option<&str>) -> Result<(User, KeyInfo, Secret)> {
        let user = self.user(Action::CreateAccessKey, name).await?;
        let designation = self.designation(&user.name);
        let (id, secret) = self.accounts.add_own_key(&designation).await?;
        let keys = self.accounts.access_keys(Some(&designation)).await?;
        let key = keys.into_iter().find(|key| key.access_key == id);
        let key = key.ok_or_else(|| {
            let message = format!("access key {id:?} was removed meanwhile");
            Error::new(ErrorKind::NotFound, message)
        })?;
        Ok((user, key, secret))
    }

    /// The keys of a user, or of the caller.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn list_keys(&self, name: Option<&str>) -> Result<(User, Vec<KeyInfo>)> {
        let user = self.user(Action::ListAccessKeys, name).await?;
        let designation = self.designation(&user.name);
        let keys = self.accounts.access_keys(Some(&designation)).await?;
        Ok((user, keys))
    }

    /// Switches a key of a user's, or of the caller's, off or on; or removes it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; [`ErrorKind::NotFound`], also for another's key.
    pub async fn change_key(
        &self,
        name: Option<&str>,
        id: &str,
        disabled: Option<bool>,
    ) -> Result<()> {
        let action = match disabled {
            Some(_) => Action::UpdateAccessKey,
            None => Action::DeleteAccessKey,
        };
        let user = self.user(action, name).await?;
        let accounts = self.accounts;
        let designation = self.designation(&user.name);
        let keys = accounts.access_keys(Some(&designation)).await?;
        if !keys.iter().any(|key| key.access_key == id) {
            let message = format!("there is no access key {id:?}");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        match disabled {
            Some(disabled) => accounts.set_key_disabled(id, disabled).await,
            None => accounts.remove_key(id).await,
        }
    }

    /// Makes a group.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::AlreadyExists`], [`ErrorKind::InvalidName`].
    pub async fn create_group(&self, name: &str, path: &str) -> Result<Group> {
        self.authorize_own(Action::CreateGroup, &format!("group{path}{name}"))?;
        let full = self.full(name);
        self.accounts.make_group(&self.tenant, &full, path).await
    }

    /// A group, for who may do `action` to it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn group(&self, action: Action, name: &str) -> Result<Group> {
        let found = self.accounts.group(&self.tenant, &self.full(name)).await;
        let path = match &found {
            Ok(group) => format!("group{}{}", group.path, short(&group.name)),
            Err(_) => format!("group/{name}"),
        };
        self.authorize_own(action, &path)?;
        found
    }

    /// The groups of the account.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub async fn list_groups(&self) -> Result<Vec<Group>> {
        self.authorize_own(Action::ListGroups, "group/")?;
        self.accounts.groups(&self.tenant, Some(&self.root)).await
    }

    /// A group's users.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn members(&self, name: &str) -> Result<(Group, Vec<User>)> {
        let group = self.group(Action::GetGroup, name).await?;
        let members = self.accounts.members(&self.tenant, &group.name).await?;
        Ok((group, members))
    }

    /// Gives a group another name or path. The caller needs the right to do so for both what the
    /// group is called now and what it is to be called.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`], [`ErrorKind::AlreadyExists`].
    pub async fn update_group(
        &self,
        name: &str,
        new_name: Option<&str>,
        new_path: Option<&str>,
    ) -> Result<()> {
        let group = self.group(Action::UpdateGroup, name).await?;
        let path = new_path.unwrap_or(&group.path);
        let called = new_name.unwrap_or(short(&group.name));
        self.authorize_own(Action::UpdateGroup, &format!("group{path}{called}"))?;
        let new_name = new_name.map(|new| self.full(new));
        self.accounts
            .change_group(&self.tenant, &group.name, new_name.as_deref(), new_path)
            .await?;
        Ok(())
    }

    /// Removes a group without members and policies.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`], [`ErrorKind::Conflict`].
    pub async fn delete_group(&self, name: &str) -> Result<()> {
        let group = self.group(Action::DeleteGroup, name).await?;
        self.accounts.remove_group(&self.tenant, &group.name).await
    }

    /// Puts a user into a group, or takes it out.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn set_member(&self, group: &str, user: &str, member: bool) -> Result<()> {
        let action = if member {
            Action::AddUserToGroup
        } else {
            Action::RemoveUserFromGroup
        };
        let group = self.group(action, group).await?;
        let user = self.user(Action::GetUser, Some(user)).await?;
        if user.account != self.account {
            let message = "users of other accounts are in groups of the tenant only";
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        self.accounts
            .set_member(&self.tenant, &user.name, &group.name, member)
            .await
    }

    /// The groups that a user is in.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn groups_of(&self, user: &str) -> Result<Vec<Group>> {
        let user = self.user(Action::ListGroupsForUser, Some(user)).await?;
        self.accounts.groups_of(&self.tenant, &user.name).await
    }

    /// Makes a role.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::AlreadyExists`], [`ErrorKind::MalformedPolicy`],
    /// [`ErrorKind::InvalidName`], [`ErrorKind::InvalidArgument`].
    pub async fn create_role(&self, name: &str, path: &str, change: RoleChange) -> Result<Role> {
        if self.manages_tenant() {
            return self.create_role_of_tenant(name, path, change).await;
        }
        self.authorize_own(Action::CreateRole, &format!("role{path}{name}"))?;
        let full = self.full(name);
        let accounts = self.accounts;
        let role = accounts.make_role(&self.tenant, &full, path, change).await;
        accounts.shown_role(role?).await
    }

    /// A role, for who may do `action` to it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn role(&self, action: Action, name: &str) -> Result<Role> {
        if let Some(role) = self.role_of_tenant(action, name).await? {
            return Ok(role);
        }
        let found = self.accounts.role(&self.tenant, &self.full(name)).await;
        let path = match &found {
            Ok(role) => format!("role{}{}", role.path, short(&role.name)),
            Err(_) => format!("role/{name}"),
        };
        self.authorize_own(action, &path)?;
        self.accounts.shown_role(found?).await
    }

    /// The roles of the account.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub async fn list_roles(&self) -> Result<Vec<Role>> {
        self.authorize_own(Action::ListRoles, "role/")?;
        let accounts = self.accounts;
        let mut found = accounts.roles(&self.tenant, Some(&self.root)).await?;
        if self.manages_tenant() {
            found.extend(accounts.roles(&self.tenant, None).await?);
        }
        accounts.shown_roles(found).await
    }

    /// Changes a role.
    ///
    /// # Errors
    /// As [`Identities::create_role`]; [`ErrorKind::NotFound`].
    pub async fn update_role(&self, action: Action, name: &str, change: RoleChange) -> Result<()> {
        let role = self.role(action, name).await?;
        self.accounts
            .change_role(&self.tenant, &role.name, change)
            .await?;
        Ok(())
    }

    /// Removes a role without policies.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`], [`ErrorKind::Conflict`].
    pub async fn delete_role(&self, name: &str) -> Result<()> {
        let role = self.role(Action::DeleteRole, name).await?;
        self.accounts.remove_role(&self.tenant, &role.name).await
    }

    /// Makes a policy that stands for itself.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::AlreadyExists`], [`ErrorKind::MalformedPolicy`].
    pub async fn create_policy(
        &self,
        name: &str,
        path: &str,
        description: Option<String>,
        text: &str,
    ) -> Result<ManagedPolicy> {
        self.authorize_own(Action::CreatePolicy, &format!("policy{path}{name}"))?;
        let full = self.full(name);
        self.accounts
            .make_policy(&self.tenant, &full, path, description, text)
            .await
    }

    /// A policy by its ARN, for who may do `action` to it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn policy(&self, action: Action, arn: &str) -> Result<ManagedPolicy> {
        let found = self.policy_at(arn).await;
        let path = match &found {
            Ok(policy) => Some(policy_path(policy)),
            Err(_) if is_aws_policy(arn) => Some("policy/".to_owned()),
            Err(_) => self.rest_of(arn).map(str::to_owned),
        };
        // An ARN of another account names nothing here, and asking for it tells nothing.
        if let Some(path) = path {
            self.authorize_own(action, &path)?;
        }
        found
    }

    /// What stands behind the account in an ARN of this account.
    fn rest_of<'arn>(&self, arn: &'arn str) -> Option<&'arn str> {
        arn.strip_prefix(&format!("arn:aws:iam::{}:", self.account))
    }

    /// The policy that has this ARN, path and all.
    async fn policy_at(&self, arn: &str) -> Result<ManagedPolicy> {
        let none = || Error::new(ErrorKind::NotFound, format!("there is no policy {arn:?}"));
        if is_aws_policy(arn) {
            return self.accounts.managed(&self.tenant, arn).await;
        }
        let rest = self
            .rest_of(arn)
            .and_then(|rest| rest.strip_prefix("policy"));
        let (folder, name) = rest
            .and_then(|rest| rest.rsplit_once('/'))
            .ok_or_else(none)?;
        let policy = match self.accounts.managed(&self.tenant, &self.full(name)).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(none()),
            found => found?,
        };
        match policy.path.strip_suffix('/') == Some(folder) {
            true => Ok(policy),
            false => Err(none()),
        }
    }

    /// The ARN of a policy of the account, or of one of AWS.
    #[must_use]
    pub fn policy_arn(&self, policy: &ManagedPolicy) -> String {
        if is_aws_policy(&policy.name) {
            return policy.name.clone();
        }
        format!("arn:aws:iam::{}:{}", self.account, policy_path(policy))
    }

    /// The same, to be changed: none of AWS's.
    async fn own_policy(&self, action: Action, arn: &str) -> Result<ManagedPolicy> {
        let policy = self.policy(action, arn).await?;
        if is_aws_policy(&policy.name) {
            let message = format!("{arn} is a managed policy of AWS and cannot be changed");
            return Err(Error::new(ErrorKind::Denied, message));
        }
        Ok(policy)
    }

    /// The policies of the account.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub async fn list_policies(&self) -> Result<Vec<ManagedPolicy>> {
        self.authorize_own(Action::ListPolicies, "policy/")?;
        self.accounts
            .managed_policies(&self.tenant, Some(&self.root))
            .await
    }

    /// Removes a policy that nobody has.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`], [`ErrorKind::Conflict`].
    pub async fn delete_policy(&self, arn: &str) -> Result<()> {
        let policy = self.own_policy(Action::DeletePolicy, arn).await?;
        self.accounts
            .remove_managed(&self.tenant, &policy.name)
            .await
    }

    /// Adds a wording to a policy.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`], [`ErrorKind::MalformedPolicy`],
    /// [`ErrorKind::Quota`].
    pub async fn reword_policy(
        &self,
        arn: &str,
        text: &str,
        default: bool,
    ) -> Result<(ManagedPolicy, u32)> {
        let policy = self.own_policy(Action::CreatePolicyVersion, arn).await?;
        let accounts = self.accounts;
        let number = accounts
            .reword_policy(&self.tenant, &policy.name, text, default)
            .await?;
        let policy = accounts.managed(&self.tenant, &policy.name).await?;
        Ok((policy, number))
    }

    /// Says which wording of a policy counts, or removes one that does not.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`], [`ErrorKind::Conflict`].
    pub async fn choose_wording(&self, arn: &str, number: u32, remove: bool) -> Result<()> {
        let action = if remove {
            Action::DeletePolicyVersion
        } else {
            Action::SetDefaultPolicyVersion
        };
        let policy = self.own_policy(action, arn).await?;
        self.accounts
            .choose_wording(&self.tenant, &policy.name, number, remove)
            .await
    }

    /// How many of what the account may have.
    #[must_use]
    pub fn limits(&self) -> AccountLimits {
        self.accounts.limits()
    }

    /// How many users, groups, roles and policies the account has.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub async fn summary(&self) -> Result<[(&'static str, usize); 4]> {
        self.authorize_own(Action::GetAccountSummary, "*")?;
        let (accounts, tenant, root) = (self.accounts, &self.tenant, self.root.as_str());
        Ok([
            ("Users", accounts.users_of(tenant, root).await?.len()),
            ("Groups", accounts.groups(tenant, Some(root)).await?.len()),
            ("Roles", accounts.roles(tenant, Some(root)).await?.len()),
            (
                "Policies",
                accounts.managed_policies(tenant, Some(root)).await?.len(),
            ),
        ])
    }
}

/// The name within the account.
fn short(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, name)| name)
}

/// What stands behind the account in a user's ARN.
fn user_path(user: &User) -> String {
    match user.is_root() {
        true => "root".to_owned(),
        false => format!("user{}{}", user.path, user.short_name()),
    }
}

/// What stands behind the account in a policy's ARN.
fn policy_path(policy: &ManagedPolicy) -> String {
    format!("policy{}{}", policy.path, short(&policy.name))
}
