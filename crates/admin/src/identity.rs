//! Policies and groups.

use std::fmt;

use dewar_auth::{Action, Caller, Origin};
use dewar_iam::{PolicyHolder, PolicyHolderKind};
use dewar_store::api::BucketRef;
use dewar_types::{BucketName, Error, ObjectKey, TenantName};
use serde::{Deserialize, Serialize};

use crate::command::{AdminCommand, CommandEntry, CommandSpec, Done};
use crate::context::AdminContext;
use crate::error::{AdminError, Failure, Result};
use crate::names::{split_tenant, target_named, tenant_named};

/// The name of a reply that has nothing to report.
const DONE: &str = "identity";

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<PolicyPut>(),
    CommandEntry::of::<PolicyRemove>(),
    CommandEntry::of::<PolicyList>(),
    CommandEntry::of::<PolicyExplain>(),
    CommandEntry::of::<GroupAdd>(),
    CommandEntry::of::<GroupRemove>(),
    CommandEntry::of::<GroupList>(),
    CommandEntry::of::<GroupOwn>(),
    CommandEntry::of::<GroupOf>(),
    CommandEntry::of::<GroupMember>(),
];

/// The holder of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HolderName {
    /// A user, `[TENANT:]NAME`.
    User(String),
    /// A group, `[TENANT:]NAME`.
    Group(String),
    /// A role, `[TENANT:]NAME`.
    Role(String),
}

/// Puts a policy on a user, group or role.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyPut {
    /// On which.
    pub holder: HolderName,
    /// Under which name.
    pub policy: String,
    /// The document.
    pub text: String,
}

/// Takes a policy away.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRemove {
    /// From which.
    pub holder: HolderName,
    /// Of which name.
    pub policy: String,
}

/// Lists the policies of a user, group or role.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyList {
    /// Of which.
    pub holder: HolderName,
}

/// Explains whether a caller may do something, and the reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyExplain {
    /// The user, `[TENANT:]NAME`, or `role:[TENANT:]NAME`; an anonymous caller if absent.
    pub who: Option<String>,
    /// The action, as policies name it: `s3:GetObject`.
    pub action: String,
    /// `/BUCKET[/KEY]`, or `/@TENANT/BUCKET[/KEY]`.
    pub path: String,
}

/// Makes a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupAdd {
    /// `[TENANT:]NAME`.
    pub name: String,
}

/// Removes a group without members and policies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRemove {
    /// `[TENANT:]NAME`.
    pub name: String,
}

/// Lists the groups of a tenant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupList {
    /// The tenant; the default one if absent.
    pub tenant: Option<String>,
}

/// Gives a bucket or directory a group, or takes it away.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupOwn {
    /// `/BUCKET[/DIRECTORY]`, or `/@TENANT/BUCKET[/DIRECTORY]`.
    pub path: String,
    /// `[TENANT:]NAME`; none takes it away.
    pub group: Option<String>,
}

/// Asks for the group that is charged for new data at a path.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupOf {
    /// As for [`GroupOwn`]; it need not be there.
    pub path: String,
}

/// Puts a user into a group or takes it out.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupMember {
    /// `[TENANT:]NAME`.
    pub group: String,
    /// The user's name in the same tenant.
    pub user: String,
    /// In, or out.
    pub member: bool,
}

/// A policy on a user or group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyInfo {
    /// Its name.
    pub name: String,
    /// The document; `None` for a managed policy that is only attached to the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupInfo {
    /// Its name.
    pub name: String,
    /// Its members.
    pub members: Vec<String>,
}

/// The group that is charged at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChargedGroupInfo {
    /// `[TENANT:]NAME`; `None` if nobody is charged, or if the group was removed.
    pub group: Option<String>,
    /// The bucket or directory that has the group; `None` if nobody is charged.
    pub by: Option<String>,
}

/// A decision about a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionInfo {
    /// Whether it is allowed.
    pub allowed: bool,
    /// The reason, in words.
    pub reason: String,
}

impl AdminCommand for PolicyPut {
    const SPEC: CommandSpec =
        CommandSpec::changes("identity.policy_put", "admin:policy-put").replies(DONE);
    type Reply = Done;

    fn target(&self) -> String {
        format!("{} of {}", self.policy, self.holder)
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let (accounts, holder) = (admin.store.accounts(), self.holder.parse()?);
        accounts
            .put_policy(&holder, &self.policy, &self.text)
            .await?;
        Ok(Done::Done)
    }
}

impl AdminCommand for PolicyRemove {
    const SPEC: CommandSpec =
        CommandSpec::changes("identity.policy_remove", "admin:policy-remove").replies(DONE);
    type Reply = Done;

    fn target(&self) -> String {
        format!("{} of {}", self.policy, self.holder)
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let (accounts, holder) = (admin.store.accounts(), self.holder.parse()?);
        accounts.delete_policy(&holder, &self.policy).await?;
        Ok(Done::Done)
    }
}

impl AdminCommand for PolicyList {
    const SPEC: CommandSpec = CommandSpec::reads("identity.policy_list", "admin:policy-list")
        .replies("identity.policies");
    type Reply = Vec<PolicyInfo>;

    fn target(&self) -> String {
        self.holder.to_string()
    }

    async fn run(self, admin: &AdminContext) -> Result<Vec<PolicyInfo>> {
        let (accounts, holder) = (admin.store.accounts(), self.holder.parse()?);
        let (inline, attached) = accounts.policies_of(&holder).await?;
        let own = inline.into_iter().map(|(name, text)| PolicyInfo {
            name,
            text: Some(text),
        });
        let given = attached
            .into_iter()
            .map(|name| PolicyInfo { name, text: None });
        Ok(own.chain(given).collect())
    }
}

impl AdminCommand for PolicyExplain {
    const SPEC: CommandSpec =
        CommandSpec::reads("identity.explain", "admin:policy-explain").replies("identity.decision");
    type Reply = DecisionInfo;

    fn target(&self) -> String {
        format!("{} {}", self.action, self.path)
    }

    async fn run(self, admin: &AdminContext) -> Result<DecisionInfo> {
        let invalid = |words: String| AdminError::new(Failure::Invalid, words);
        let action = &self.action;
        let action = Action::parse(action).ok_or_else(|| {
            invalid(format!(
                "{action:?} is no action; s3:GetObject would be one"
            ))
        })?;
        let caller = match &self.who {
            Some(name) => caller_named(admin, name).await?,
            None => Caller::anonymous(Origin {
                address: None,
                secure: true,
            }),
        };
        let (bucket, key) = object_named(&self.path)?;
        let decision = admin
            .store
            .explain(&caller, action, &bucket, key.as_ref())
            .await?;
        Ok(DecisionInfo {
            allowed: decision.allowed,
            reason: decision.reason.to_string(),
        })
    }
}

impl AdminCommand for GroupAdd {
    const SPEC: CommandSpec =
        CommandSpec::changes("identity.group_add", "admin:group-add").replies(DONE);
    type Reply = Done;

    fn target(&self) -> String {
        self.name.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let (tenant, name) = split_tenant(&self.name)?;
        let accounts = admin.store.accounts();
        accounts.make_group(&tenant, name, "/").await?;
        Ok(Done::Done)
    }
}

impl AdminCommand for GroupRemove {
    const SPEC: CommandSpec =
        CommandSpec::changes("identity.group_remove", "admin:group-remove").replies(DONE);
    type Reply = Done;

    fn target(&self) -> String {
        self.name.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let (tenant, name) = split_tenant(&self.name)?;
        let accounts = admin.store.accounts();
        accounts.remove_group(&tenant, name).await?;
        Ok(Done::Done)
    }
}

impl AdminCommand for GroupList {
    const SPEC: CommandSpec =
        CommandSpec::reads("identity.group_list", "admin:group-list").replies("identity.groups");
    type Reply = Vec<GroupInfo>;

    async fn run(self, admin: &AdminContext) -> Result<Vec<GroupInfo>> {
        let accounts = admin.store.accounts();
        let tenant = tenant_named(self.tenant.as_deref().unwrap_or_default())?;
        let mut groups = Vec::new();
        for group in accounts.groups(&tenant, None).await? {
            let members = accounts.members(&tenant, &group.name).await?;
            groups.push(GroupInfo {
                name: group.name,
                members: members.into_iter().map(|user| user.name).collect(),
            });
        }
        Ok(groups)
    }
}

impl AdminCommand for GroupOwn {
    const SPEC: CommandSpec =
        CommandSpec::changes("identity.group_own", "admin:group-own").replies(DONE);
    type Reply = Done;

    fn target(&self) -> String {
        format!(
            "{}: {}",
            self.path,
            self.group.as_deref().unwrap_or("nobody")
        )
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let target = target_named(&self.path)?;
        admin
            .store
            .set_group(&target, self.group.as_deref())
            .await?;
        Ok(Done::Done)
    }
}

impl AdminCommand for GroupOf {
    const SPEC: CommandSpec =
        CommandSpec::reads("identity.group_of", "admin:group-of").replies("identity.charged");
    type Reply = ChargedGroupInfo;

    fn target(&self) -> String {
        self.path.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<ChargedGroupInfo> {
        let target = target_named(&self.path)?;
        let charged = admin.store.charged_group(&target).await?;
        let (group, by) = charged.map(|found| (found.name, found.by)).unzip();
        let group = group.flatten();
        Ok(ChargedGroupInfo { group, by })
    }
}

impl AdminCommand for GroupMember {
    const SPEC: CommandSpec = CommandSpec::changes("identity.group_member", "admin:group-join")
        .replies(DONE)
        .or_records("admin:group-leave");
    type Reply = Done;

    fn action(&self) -> &'static str {
        match self.member {
            true => "admin:group-join",
            false => "admin:group-leave",
        }
    }

    fn target(&self) -> String {
        format!("{} and group {}", self.user, self.group)
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let (tenant, group) = split_tenant(&self.group)?;
        let accounts = admin.store.accounts();
        let set = accounts.set_member(&tenant, &self.user, group, self.member);
        set.await?;
        Ok(Done::Done)
    }
}

impl HolderName {
    fn parse(&self) -> Result<PolicyHolder> {
        let (kind, name) = match self {
            Self::User(name) => (PolicyHolderKind::User, name),
            Self::Group(name) => (PolicyHolderKind::Group, name),
            Self::Role(name) => (PolicyHolderKind::Role, name),
        };
        let (tenant, name) = split_tenant(name)?;
        Ok(PolicyHolder {
            kind,
            tenant,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for HolderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "user {name}"),
            Self::Group(name) => write!(f, "group {name}"),
            Self::Role(name) => write!(f, "role {name}"),
        }
    }
}

/// The caller that a user, or a session of `role:[TENANT:]NAME`, would be.
async fn caller_named(admin: &AdminContext, name: &str) -> Result<Caller> {
    let accounts = admin.store.accounts();
    let Some(role) = name.strip_prefix("role:") else {
        return Ok(Caller::for_user(accounts.user(name).await?));
    };
    let (tenant, role) = split_tenant(role)?;
    let user = accounts.as_role(&tenant, role, "explain").await?;
    let none = || AdminError::new(Failure::NotFound, format!("there is no role {role:?}"));
    Ok(Caller::for_user(user.ok_or_else(none)?))
}

/// The bucket, and the key if there is one, of `[/@TENANT]/BUCKET[/KEY]`.
fn object_named(path: &str) -> Result<(BucketRef, Option<ObjectKey>)> {
    let rest = path.strip_prefix('/').unwrap_or(path);
    let (tenant, rest) = match rest.strip_prefix('@').and_then(|rest| rest.split_once('/')) {
        Some((tenant, rest)) => (tenant_named(tenant)?, rest),
        None => (TenantName::default(), rest),
    };
    let (bucket, key) = match rest.split_once('/') {
        Some((bucket, key)) if !key.is_empty() => (bucket, Some(key)),
        Some((bucket, _)) => (bucket, None),
        None => (rest, None),
    };
    let bucket = BucketRef {
        tenant: Some(tenant),
        name: BucketName::new(bucket).map_err(Error::from)?,
    };
    let key = key.map(ObjectKey::new).transpose().map_err(Error::from)?;
    Ok((bucket, key))
}
