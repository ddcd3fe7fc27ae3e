//! Users and the keys that prove them.

use std::fmt;
use std::sync::Arc;

use dewar_env::BoxFuture;
use dewar_types::{Result, TenantName, Timestamp, UserId};
use thiserror::Error;

use crate::{Bounds, Caller, Origin, Policy, Secret};

/// A local user.
///
/// A user that an administrator added is an account, like the root of an account at AWS. It owns
/// what it creates, and needs no policy to use it. Users that it adds over the IAM API belong to
/// its account. They have only the rights that policies give them, and what they create belongs to
/// the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Never reused; 0 is never assigned.
    pub id: UserId,
    /// The name, unique within the tenant: `ann`, or `ann/robot` for a user of ann's account.
    pub name: String,
    /// The user's tenant.
    pub tenant: TenantName,
    /// Disabled users keep their data and have no rights.
    pub disabled: bool,
    /// When the user was added.
    pub created: Timestamp,
    /// The root user of its account: itself, if an administrator added it.
    pub account: UserId,
    /// The IAM path of the user within its account, as in `/physics/`.
    pub path: String,
    /// The display name; the user's name if none was set.
    pub display_name: Option<String>,
    /// The mail address; unique in the deployment.
    pub email: Option<String>,
    /// Whether it manages the users, groups and policies of its whole tenant.
    pub tenant_admin: bool,
    /// The policies that apply to the user.
    pub policies: UserPolicies,
    /// The kind of user, if it is not a user from the catalog.
    pub kind: UserKind,
}

/// The kind of a [`User`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UserKind {
    /// A user of this deployment.
    #[default]
    Local,
    /// A person or user that has assumed a role.
    Role {
        /// The session's name.
        session: Arc<str>,
    },
    /// A person whom an issuer vouches for, without a user here.
    Federated {
        /// The issuer, as policies name it.
        provider: Arc<str>,
        /// Its name for whom it vouches for.
        subject: Arc<str>,
    },
}

impl User {
    /// A user that an administrator added; it is an account of its own.
    #[must_use]
    pub fn new(id: UserId, name: &str, tenant: TenantName, created: Timestamp) -> Self {
        Self {
            id,
            name: name.to_owned(),
            tenant,
            disabled: false,
            created,
            account: id,
            path: "/".into(),
            display_name: None,
            email: None,
            tenant_admin: false,
            policies: UserPolicies::default(),
            kind: UserKind::Local,
        }
    }

    /// Whether the account is its own.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.id == self.account && self.kind == UserKind::Local
    }

    /// The name within the account.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.name
            .rsplit_once('/')
            .map_or(&self.name, |(_, name)| name)
    }

    /// The name to show to people.
    #[must_use]
    pub fn shown_name(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }

    /// Its ARN: `arn:aws:iam::ACCOUNT:root`, `arn:aws:iam::ACCOUNT:user/PATH/NAME`, of a session
    /// `arn:aws:sts::ACCOUNT:assumed-role/NAME/SESSION`.
    #[must_use]
    pub fn arn(&self) -> String {
        match &self.kind {
            UserKind::Local if self.is_root() => format!("arn:aws:iam::{}:root", self.account),
            UserKind::Local => format!(
                "arn:aws:iam::{}:user{}{}",
                self.account,
                self.path,
                self.short_name()
            ),
            UserKind::Role { session } => format!(
                "arn:aws:sts::{}:assumed-role/{}/{session}",
                self.account_field(),
                self.short_name()
            ),
            UserKind::Federated { provider, subject } => format!(
                "arn:aws:sts::{}:federated-user/{provider}/{subject}",
                self.tenant
            ),
        }
    }

    /// The ARN of what policies are on: the role's, for a session of one.
    #[must_use]
    pub fn source_arn(&self) -> String {
        match &self.kind {
            UserKind::Role { .. } => role_arn(&self.account_field(), &self.path, self.short_name()),
            UserKind::Local | UserKind::Federated { .. } => self.arn(),
        }
    }

    /// The account field of the user's ARN. For roles of a tenant it is the tenant's name.
    #[must_use]
    pub fn account_field(&self) -> String {
        match &self.kind {
            UserKind::Role { .. } if !self.name.contains('/') => self.tenant.as_str().to_owned(),
            UserKind::Federated { .. } => self.tenant.as_str().to_owned(),
            UserKind::Role { .. } | UserKind::Local => self.account.to_string(),
        }
    }

    /// Its id as policies see it: of a session with its name behind.
    #[must_use]
    pub fn unique_id(&self) -> String {
        match &self.kind {
            UserKind::Local => self.id.to_string(),
            UserKind::Role { session } => format!("{}:{session}", self.id),
            UserKind::Federated { subject, .. } => format!("{}:{subject}", self.id),
        }
    }

    /// Whether an ARN with `account` in its account field and `rest` behind it names this user:
    /// `user/PATH/NAME`, `role/PATH/NAME` and `assumed-role/NAME/SESSION` for sessions.
    ///
    /// A name is unique within its account. A tenant's name in the account field therefore names
    /// users and roles of the tenant itself: users that are an account of their own, roles of the
    /// tenant, logins. It never names users and roles of accounts.
    pub(crate) fn is_named(&self, account: &str, rest: &str) -> bool {
        let of_tenant = match &self.kind {
            UserKind::Local => self.is_root(),
            UserKind::Role { .. } => !self.name.contains('/'),
            UserKind::Federated { .. } => true,
        };
        let same = match of_tenant {
            true => self.tenant.as_str() == account,
            false => self.is_of_account(account),
        };
        same && self.is_at(rest)
    }

    /// Whether such an ARN may have been written for this user: the account field is its account's id
    /// or its tenant's name, and the rest is its own. Namesakes in the accounts of a tenant share such
    /// an ARN, so that it can only take rights away.
    pub(crate) fn shares_name(&self, account: &str, rest: &str) -> bool {
        (self.is_of_account(account) || self.tenant.as_str() == account) && self.is_at(rest)
    }

    fn is_of_account(&self, account: &str) -> bool {
        account.len() == 16 && account.parse() == Ok(self.account)
    }

    /// Whether what stands in an ARN behind the account is its own.
    fn is_at(&self, rest: &str) -> bool {
        let at = |path: &str| path.strip_prefix(self.path.as_str()) == Some(self.short_name());
        match &self.kind {
            UserKind::Local => rest.strip_prefix("user").is_some_and(at),
            UserKind::Role { session } => {
                let one = || {
                    let (name, of) = rest.strip_prefix("assumed-role/")?.split_once('/')?;
                    Some(name == self.short_name() && of == &**session)
                };
                rest.strip_prefix("role").is_some_and(at) || one().unwrap_or_default()
            }
            UserKind::Federated { provider, subject } => {
                let one = rest.strip_prefix("federated-user/");
                let one = one.and_then(|rest| rest.strip_prefix(&**provider));
                one.and_then(|rest| rest.strip_prefix('/')) == Some(&**subject)
            }
        }
    }
}

/// The ARN of a role.
#[must_use]
pub fn role_arn(account: &str, path: &str, name: &str) -> String {
    format!("arn:aws:iam::{account}:role{path}{name}")
}

/// A policy that a user has, itself or by a group.
#[derive(Clone, Debug)]
pub struct UserPolicy {
    /// The source of the policy, for people: `user ann`, `group readers`, with the policy's name.
    pub source: Arc<str>,
    /// The policy itself.
    pub policy: Arc<Policy>,
    /// Whether the manager of the tenant gave the policy. Such a policy also covers resources of
    /// other accounts of the tenant. A policy that an account gives to its own users does not.
    pub tenant_wide: bool,
}

/// All policies that a user has. Cheap to clone.
#[derive(Clone, Default)]
pub struct UserPolicies(Option<Arc<[UserPolicy]>>);

impl UserPolicies {
    /// These.
    #[must_use]
    pub fn new(policies: Vec<UserPolicy>) -> Self {
        Self((!policies.is_empty()).then(|| policies.into()))
    }

    /// One by one.
    pub fn iter(&self) -> std::slice::Iter<'_, UserPolicy> {
        self.0.as_deref().unwrap_or_default().iter()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl PartialEq for UserPolicies {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Eq for UserPolicies {}

impl fmt::Debug for UserPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|policy| &policy.source))
            .finish()
    }
}

/// An access key, as S3 clients sign with it.
#[derive(Clone, Debug)]
pub struct AccessKey {
    /// The public half.
    pub id: Arc<str>,
    /// The secret half, in clear.
    pub secret: Secret,
    /// A number that changes whenever id, secret or state of the key change. Keys derived from the
    /// secret may be cached under (id, revision).
    pub revision: u64,
    /// The owner of the key.
    pub user: Arc<User>,
    /// The session's restrictions, for a key of a session.
    pub bounds: Option<Arc<Bounds>>,
}

/// The reason why a session or token is refused. The message of the error around it has more
/// details.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CredentialError {
    /// It is none, or not for here.
    #[error("the credential is not valid here")]
    Invalid,
    /// Its time is over.
    #[error("the credential has expired")]
    Expired,
    /// The issuer's keys cannot be had now; it may be taken later.
    #[error("the issuer of the credential cannot be asked")]
    Unreachable,
    /// It came over a wire that others can read.
    #[error("the credential came without TLS")]
    Clear,
}

/// Lookup of access keys and users, for the fronts.
pub trait CredentialStore: Send + Sync {
    /// The key with this id, if it exists and neither it nor its user is disabled.
    fn access_key<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<AccessKey>>>;

    /// The key of a session, from its token. The front must check that this key signed the request.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Unauthenticated`] for a malformed, expired or revoked token;
    /// [`crate::CredentialError`] is its source.
    fn session<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<AccessKey>>;

    /// The caller that a bearer token identifies (`Authorization: Bearer`, XRootD's `ztn`). All
    /// fronts use this method for tokens.
    ///
    /// # Errors
    /// As [`CredentialStore::session`].
    fn bearer<'a>(&'a self, token: &'a str, origin: Origin) -> BoxFuture<'a, Result<Caller>>;
}
