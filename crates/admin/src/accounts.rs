//! Users and access keys.

use dewar_auth::{Caller, Secret, User};
use dewar_iam::NewUser;
use dewar_types::{Error, ErrorKind, TenantName};
use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec, Done};
use crate::context::AdminContext;
use crate::error::{AdminError, Failure, Result};
use crate::secret_text;
use crate::time_text::rfc3339;

/// Users or keys in one page.
const PAGE_ITEMS: usize = 1000;

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<UserAdd>(),
    CommandEntry::of::<UserList>(),
    CommandEntry::of::<UserRemove>(),
    CommandEntry::of::<UserSet>(),
    CommandEntry::of::<KeyAdd>(),
    CommandEntry::of::<KeyList>(),
    CommandEntry::of::<KeyRemove>(),
    CommandEntry::of::<KeySet>(),
];

/// Whether a user or a key may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountState {
    /// It may.
    Enabled,
    /// A disabled user keeps its data and has no rights.
    Disabled,
}

/// A user to add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserAdd {
    /// Its name; `ROOT/NAME` for a user of ROOT's account.
    pub name: String,
    /// Its tenant, made if there is none; the default one if absent.
    #[serde(default)]
    pub tenant: Option<String>,
    /// The display name.
    #[serde(default)]
    pub display_name: Option<String>,
    /// The mail address.
    #[serde(default)]
    pub email: Option<String>,
    /// Whether it manages the users and policies of its tenant.
    #[serde(default)]
    pub tenant_admin: bool,
}

/// A local user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserInfo {
    /// Unique within the tenant; `TENANT:NAME` outside the default one.
    pub name: String,
    /// Its id, in 16 hexadecimal digits; never reused. Access control lists use this id.
    pub id: String,
    /// The root user of its account; the user itself, if it is an account of its own.
    pub account: String,
    /// As policies name it.
    pub arn: String,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The mail address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// Whether it manages the users and policies of its tenant.
    pub tenant_admin: bool,
    /// Whether it may do anything.
    pub state: AccountState,
    /// When it was added, RFC 3339 in UTC.
    pub created: String,
}

/// The request of `key add`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyAdd {
    /// The user who gets the key.
    pub user: String,
    /// The public half; generated if absent. Both halves are given, or none.
    pub access_key: Option<String>,
    /// The secret half.
    #[serde(default, with = "secret_text::option")]
    pub secret_key: Option<Secret>,
}

/// A key that was just made: the only time its secret is shown.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewKey {
    /// The owner of the key.
    pub user: String,
    /// The public half.
    pub access_key: String,
    /// The secret half.
    #[serde(with = "secret_text")]
    pub secret_key: Secret,
}

/// An access key without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyInfo {
    /// The public half.
    pub access_key: String,
    /// The owner of the keys.
    pub user: String,
    /// Whether it may be used.
    pub state: AccountState,
    /// Whether its user is enabled: a key of a disabled user does not work.
    pub user_state: AccountState,
    /// When it was added, RFC 3339 in UTC.
    pub created: String,
}

/// A part of a list in the order of names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListPage<T> {
    /// The items, at most some thousand.
    pub items: Vec<T>,
    /// The `after` of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// Lists users by name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserList {
    /// Only those after this name.
    pub after: Option<String>,
}

/// Removes a user who owns no bucket, with all keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserRemove {
    /// Its name.
    pub name: String,
}

/// Disables or enables a user.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserSet {
    /// Its name.
    pub name: String,
    /// The new state.
    pub state: AccountState,
}

/// Lists access keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyList {
    /// Only those of this user.
    pub user: Option<String>,
    /// Only those after this one.
    pub after: Option<String>,
}

/// Removes an access key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRemove {
    /// Its public half.
    pub access_key: String,
}

/// Disables or enables an access key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeySet {
    /// Its public half.
    pub access_key: String,
    /// The new state.
    pub state: AccountState,
}

impl AdminCommand for UserAdd {
    const SPEC: CommandSpec = CommandSpec::changes("user_add", "admin:user-add").replies("user");
    type Reply = UserInfo;

    fn target(&self) -> String {
        self.name.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<UserInfo> {
        let new = NewUser {
            name: self.name,
            tenant: TenantName::new(self.tenant.as_deref().unwrap_or_default())
                .map_err(Error::from)?,
            path: String::new(),
            display_name: self.display_name,
            email: self.email,
            tenant_admin: self.tenant_admin,
        };
        Ok(user_info(&admin.store.accounts().make_user(new).await?))
    }
}

impl AdminCommand for UserList {
    const SPEC: CommandSpec = CommandSpec::reads("user_list", "admin:user-list").replies("users");
    type Reply = ListPage<UserInfo>;

    async fn run(self, admin: &AdminContext) -> Result<ListPage<UserInfo>> {
        let users = admin.store.accounts().users().await?;
        let mut users: Vec<_> = users.iter().map(user_info).collect();
        users.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(page(users, self.after, |user| user.name.clone()))
    }
}

impl AdminCommand for UserRemove {
    const SPEC: CommandSpec =
        CommandSpec::changes("user_remove", "admin:user-remove").replies_done();
    type Reply = Done;

    fn target(&self) -> String {
        self.name.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let name = &self.name;
        let accounts = admin.store.accounts();
        let mut user = accounts.user(name).await?;
        if user.is_root()
            && !accounts
                .users_of(&user.tenant, &user.name)
                .await?
                .is_empty()
        {
            let message = format!("user {name} has an account with users");
            return Err(AdminError::new(Failure::InUse, message));
        }
        // Of a disabled one it must be known too whether buckets are left.
        user.disabled = false;
        let caller = Caller::for_user(user);
        let owned = admin.store.list_buckets(&caller, None, 1).await?;
        if let Some(bucket) = owned.buckets.first() {
            let message = format!("user {name} owns buckets, {} among them", bucket.name);
            return Err(AdminError::new(Failure::InUse, message));
        }
        accounts.remove_user(name).await?;
        Ok(Done::Done)
    }
}

impl AdminCommand for UserSet {
    const SPEC: CommandSpec = CommandSpec::changes("user_set", "admin:user-set").replies("user");
    type Reply = UserInfo;

    fn target(&self) -> String {
        format!("{}: {:?}", self.name, self.state)
    }

    async fn run(self, admin: &AdminContext) -> Result<UserInfo> {
        let accounts = admin.store.accounts();
        let disabled = self.state == AccountState::Disabled;
        accounts.set_user_disabled(&self.name, disabled).await?;
        Ok(user_info(&accounts.user(&self.name).await?))
    }
}

impl AdminCommand for KeyAdd {
    const SPEC: CommandSpec = CommandSpec::changes("key_add", "admin:key-add").replies("new_key");
    type Reply = NewKey;

    fn target(&self) -> String {
        let key = self.access_key.as_deref().unwrap_or("a new key");
        format!("{key} of {}", self.user)
    }

    /// The key is durable when this returns.
    async fn run(self, admin: &AdminContext) -> Result<NewKey> {
        let accounts = admin.store.accounts();
        let added = accounts.add_key(&self.user, self.access_key, self.secret_key);
        let (access_key, secret_key) = added.await?;
        Ok(NewKey {
            user: self.user,
            access_key,
            secret_key,
        })
    }
}

impl AdminCommand for KeyList {
    const SPEC: CommandSpec = CommandSpec::reads("key_list", "admin:key-list").replies("keys");
    type Reply = ListPage<KeyInfo>;

    async fn run(self, admin: &AdminContext) -> Result<ListPage<KeyInfo>> {
        let accounts = admin.store.accounts();
        let keys = accounts.access_keys(self.user.as_deref()).await?;
        let keys = keys.iter().map(key_info).collect();
        Ok(page(keys, self.after, |key| key.access_key.clone()))
    }
}

impl AdminCommand for KeyRemove {
    const SPEC: CommandSpec = CommandSpec::changes("key_remove", "admin:key-remove").replies_done();
    type Reply = Done;

    fn target(&self) -> String {
        self.access_key.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        admin.store.accounts().remove_key(&self.access_key).await?;
        Ok(Done::Done)
    }
}

impl AdminCommand for KeySet {
    const SPEC: CommandSpec = CommandSpec::changes("key_set", "admin:key-set").replies("key");
    type Reply = KeyInfo;

    fn target(&self) -> String {
        format!("{}: {:?}", self.access_key, self.state)
    }

    async fn run(self, admin: &AdminContext) -> Result<KeyInfo> {
        let accounts = admin.store.accounts();
        let (access_key, disabled) = (&self.access_key, self.state == AccountState::Disabled);
        accounts.set_key_disabled(access_key, disabled).await?;
        let keys = accounts.access_keys(None).await?;
        let key = keys.iter().find(|key| key.access_key == *access_key);
        let none = || {
            let message = format!("there is no access key {access_key:?}");
            Error::new(ErrorKind::NotFound, message)
        };
        Ok(key_info(key.ok_or_else(none)?))
    }
}

/// The page after a name, of items in the order of their names.
pub(crate) fn page<T>(
    mut items: Vec<T>,
    after: Option<String>,
    name: impl Fn(&T) -> String,
) -> ListPage<T> {
    if let Some(after) = after {
        items.retain(|item| name(item) > after);
    }
    let more = items.len() > PAGE_ITEMS;
    items.truncate(PAGE_ITEMS);
    let next = items.last().filter(|_| more).map(name);
    ListPage { items, next }
}

fn state(disabled: bool) -> AccountState {
    if disabled {
        AccountState::Disabled
    } else {
        AccountState::Enabled
    }
}

fn user_info(user: &User) -> UserInfo {
    UserInfo {
        name: match user.tenant.as_str() {
            "" => user.name.clone(),
            tenant => format!("{tenant}:{}", user.name),
        },
        id: user.id.to_string(),
        account: user.account.to_string(),
        arn: user.arn(),
        display_name: user.display_name.clone(),
        email: user.email.clone(),
        tenant_admin: user.tenant_admin,
        state: state(user.disabled),
        created: rfc3339(user.created),
    }
}

fn key_info(key: &dewar_iam::KeyInfo) -> KeyInfo {
    KeyInfo {
        access_key: key.access_key.clone(),
        user: key.user.clone(),
        state: state(key.disabled),
        user_state: state(key.user_disabled),
        created: rfc3339(key.created),
    }
}
