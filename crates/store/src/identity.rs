//! The verbs of the IAM API: users, groups, roles, policies and keys of the caller's account, under
//! policy. An administrator on the admin socket uses [`crate::Accounts`] itself.
//!
//! Names are those within the account, as IAM has them. A user that is an account of its own is
//! found by its name or its id, by itself and by who manages its tenant.

mod providers;
mod roles;

pub use providers::ProviderInfo;

use dewar_auth::{Action, Caller, Details, Resource, Secret, User};
use dewar_types::{Error, ErrorKind, Result, TenantName, UserId};

use crate::Store;
use crate::accounts::{
    Accounts, Group, Holder, HolderKind, KeyInfo, ManagedPolicy, NewUser, Role, RoleChange,
    UserChange, is_aws_policy,
};

/// The IAM API for one caller.
pub struct Identities<'a> {
    store: &'a Store,
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

impl Store {
    /// The IAM API for a caller.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for callers who are no user.
    pub async fn identities<'a>(&'a self, caller: &'a Caller) -> Result<Identities<'a>> {
        let user = caller.user().ok_or_else(nobody)?;
        let root = self.inner.accounts.user_by_id(user.account).await?;
        Ok(Identities {
            store: self,
            caller,
            tenant: user.tenant.clone(),
            account: user.account,
            root: root.ok_or_else(nobody)?.name.clone(),
            about: None,
        })
    }
}

impl Identities<'_> {
    /// The same, for giving or taking a policy: who may is asked with its ARN.
    #[must_use]
    pub fn about(&self, arn: &str) -> Self {
        Self {
            tenant: self.tenant.clone(),
            root: self.root.clone(),
            about: Some(arn.to_owned()),
            ..*self
        }
    }

    fn accounts(&self) -> &Accounts {
        &self.store.inner.accounts
    }

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

    fn permit(&self, action: Action, account: UserId, path: &str, of_tenant: bool) -> Result<()> {
        let resource = Resource::Identity {
            tenant: &self.tenant,
            account,
            path,
            of_tenant,
        };
        let details = Details {
            now: self.store.inner.env.clock.now(),
            policy_arn: self.about.as_deref(),
            ..Details::default()
        };
        self.store
            .inner
            .audit
            .permit(self.caller, action, resource, &details)
    }

    /// Asks for something of the own account, like `user/path/name`.
    fn permit_own(&self, action: Action, path: &str) -> Result<()> {
        self.permit(action, self.account, path, false)
    }

    /// The user of a name, or the caller, for who may do `action` to it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; [`ErrorKind::NotFound`].
    pub async fn user(&self, action: Action, name: Option<&str>) -> Result<User> {
        let accounts = self.accounts();
        let found = match name {
            None => accounts.user_of(&self.tenant, &self.caller()?.name).await,
            Some(name) => match accounts.user_of(&self.tenant, &self.full(name)).await {
                Err(error) if error.kind() == ErrorKind::NotFound => self.root_user(name).await,
                found => found,
            },
        };
        match found {
            Ok(user) => {
                let path = format!("user{}{}", user.path, user.short_name());
                self.permit(action, user.account, &path, user.is_root())?;
                Ok(user)
            }
            Err(error) => {
                let path = format!("user/{}", name.unwrap_or_default());
                self.permit_own(action, &path)?;
                Err(error)
            }
        }
    }

    /// A user that is an account of its own, by name or id.
    async fn root_user(&self, name: &str) -> Result<User> {
        let accounts = self.accounts();
        if let Ok(id) = name.parse::<UserId>()
            && let Some(user) = accounts.user_by_id(id).await?
            && user.tenant == self.tenant
        {
            return accounts.user_of(&self.tenant, &user.name).await;
        }
        accounts.user_of(&self.tenant, name).await
    }

    fn holder(&self, kind: HolderKind, name: String) -> Holder {
        Holder {
            kind,
            tenant: self.tenant.clone(),
            name,
        }
    }

    /// A user, group or role for who may do `action` to it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; [`ErrorKind::NotFound`].
    pub async fn find(&self, action: Action, kind: HolderKind, name: &str) -> Result<Holder> {
        match kind {
            HolderKind::User => {
                let user = self.user(action, Some(name)).await?;
                Ok(self.holder(kind, user.name))
            }
            HolderKind::Group => {
                let group = self.group(action, name).await?;
                Ok(self.holder(kind, group.name))
            }
            HolderKind::Role => {
                let role = self.role(action, name).await?;
                Ok(self.holder(kind, role.name))
            }
        }
    }

    /// Makes a user of the account.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::AlreadyExists`], [`ErrorKind::InvalidName`],
    /// [`ErrorKind::InvalidArgument`].
    pub async fn create_user(&self, name: &str, path: &str) -> Result<User> {
        self.permit_own(Action::CreateUser, &format!("user{path}{name}"))?;
        let new = NewUser {
            name: self.full(name),
            tenant: self.tenant.clone(),
            path: path.to_owned(),
            ..NewUser::default()
        };
        self.accounts().make_user(new).await
    }

    /// The users of the account but its own, by name.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub async fn list_users(&self) -> Result<Vec<User>> {
        self.permit_own(Action::ListUsers, "user/")?;
        self.accounts().users_of(&self.tenant, &self.root).await
    }

    /// Gives a user another name or path.
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
        let change = UserChange {
            name: new_name.map(|new| self.full(new)),
            path: new_path.map(str::to_owned),
            ..UserChange::default()
        };
        let designation = self.designation(&user.name);
        self.accounts().change_user(&designation, change).await?;
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
        let accounts = self.accounts();
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
        let (id, secret) = self.accounts().add_key(&designation, None, None).await?;
        let keys = self.accounts().access_keys(Some(&designation)).await?;
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
        let keys = self.accounts().access_keys(Some(&designation)).await?;
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
        let accounts = self.accounts();
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
        self.permit_own(Action::CreateGroup, &format!("group{path}{name}"))?;
        let full = self.full(name);
        self.accounts().make_group(&self.tenant, &full, path).await
    }

    /// A group, for who may do `action` to it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn group(&self, action: Action, name: &str) -> Result<Group> {
        let found = self.accounts().group(&self.tenant, &self.full(name)).await;
        let path = found.as_ref().map_or("/", |group| &group.path);
        self.permit_own(action, &format!("group{path}{name}"))?;
        found
    }

    /// The groups of the account.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub async fn list_groups(&self) -> Result<Vec<Group>> {
        self.permit_own(Action::ListGroups, "group/")?;
        self.accounts().groups(&self.tenant, Some(&self.root)).await
    }

    /// A group's users.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn members(&self, name: &str) -> Result<(Group, Vec<User>)> {
        let group = self.group(Action::GetGroup, name).await?;
        let members = self.accounts().members(&self.tenant, &group.name).await?;
        Ok((group, members))
    }

    /// Gives a group another name or path.
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
        let new_name = new_name.map(|new| self.full(new));
        self.accounts()
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
        self.store.remove_group(&self.tenant, &group.name).await
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
        self.accounts()
            .set_member(&self.tenant, &user.name, &group.name, member)
            .await
    }

    /// The groups that a user is in.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn groups_of(&self, user: &str) -> Result<Vec<Group>> {
        let user = self.user(Action::ListGroupsForUser, Some(user)).await?;
        self.accounts().groups_of(&self.tenant, &user.name).await
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
        self.permit_own(Action::CreateRole, &format!("role{path}{name}"))?;
        let full = self.full(name);
        self.accounts()
            .make_role(&self.tenant, &full, path, change)
            .await
    }

    /// A role, for who may do `action` to it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn role(&self, action: Action, name: &str) -> Result<Role> {
        if let Some(role) = self.role_of_tenant(action, name).await? {
            return Ok(role);
        }
        let found = self.accounts().role(&self.tenant, &self.full(name)).await;
        let path = found.as_ref().map_or("/", |role| &role.path);
        self.permit_own(action, &format!("role{path}{name}"))?;
        found
    }

    /// The roles of the account.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub async fn list_roles(&self) -> Result<Vec<Role>> {
        self.permit_own(Action::ListRoles, "role/")?;
        let accounts = self.accounts();
        let mut roles = accounts.roles(&self.tenant, Some(&self.root)).await?;
        if self.manages_tenant() {
            roles.extend(accounts.roles(&self.tenant, None).await?);
        }
        Ok(roles)
    }

    /// Changes a role.
    ///
    /// # Errors
    /// As [`Identities::create_role`]; [`ErrorKind::NotFound`].
    pub async fn update_role(&self, action: Action, name: &str, change: RoleChange) -> Result<()> {
        let role = self.role(action, name).await?;
        self.accounts()
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
        self.accounts().remove_role(&self.tenant, &role.name).await
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
        self.permit_own(Action::CreatePolicy, &format!("policy{path}{name}"))?;
        let full = self.full(name);
        self.accounts()
            .make_policy(&self.tenant, &full, path, description, text)
            .await
    }

    /// A policy by its ARN, for who may do `action` to it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`].
    pub async fn policy(&self, action: Action, arn: &str) -> Result<ManagedPolicy> {
        let none = || Error::new(ErrorKind::NotFound, format!("there is no policy {arn:?}"));
        if is_aws_policy(arn) {
            let found = self.accounts().managed(&self.tenant, arn).await;
            let name = arn.rsplit_once('/').map_or(arn, |(_, name)| name);
            self.permit_own(action, &format!("policy/{name}"))?;
            return found;
        }
        let own = format!("arn:aws:iam::{}:policy/", self.account);
        let rest = arn.strip_prefix(&own).ok_or_else(none)?;
        let name = rest.rsplit_once('/').map_or(rest, |(_, name)| name);
        let found = self
            .accounts()
            .managed(&self.tenant, &self.full(name))
            .await;
        self.permit_own(action, &format!("policy/{rest}"))?;
        found
    }

    /// The same, to be changed: none of AWS's.
    async fn own_policy(&self, action: Action, arn: &str) -> Result<ManagedPolicy> {
        let policy = self.policy(action, arn).await?;
        if is_aws_policy(&policy.name) {
            let message = format!("{arn} is AWS's, which nobody changes");
            return Err(Error::new(ErrorKind::Denied, message));
        }
        Ok(policy)
    }

    /// The policies of the account.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub async fn list_policies(&self) -> Result<Vec<ManagedPolicy>> {
        self.permit_own(Action::ListPolicies, "policy/")?;
        self.accounts()
            .managed_policies(&self.tenant, Some(&self.root))
            .await
    }

    /// Removes a policy that nobody has.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NotFound`], [`ErrorKind::Conflict`].
    pub async fn delete_policy(&self, arn: &str) -> Result<()> {
        let policy = self.own_policy(Action::DeletePolicy, arn).await?;
        self.accounts()
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
        let accounts = self.accounts();
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
        self.accounts()
            .choose_wording(&self.tenant, &policy.name, number, remove)
            .await
    }

    /// How many users, groups, roles and policies the account has.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    pub async fn summary(&self) -> Result<[(&'static str, usize); 4]> {
        self.permit_own(Action::GetAccountSummary, "*")?;
        let (accounts, tenant, root) = (self.accounts(), &self.tenant, self.root.as_str());
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
