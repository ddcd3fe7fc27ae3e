//! Users and the keys that prove them.

use std::fmt;
use std::sync::Arc;

use dewar_env::BoxFuture;
use dewar_types::{Result, TenantName, Timestamp, UserId};

use crate::{Policy, Secret};

/// A local user.
///
/// A user that an administrator added is an account of its own, like the root of an account at
/// AWS: what it makes is its, and it needs no policy to use it. The users that it makes in turn,
/// over the IAM API, belong to its account; they may do what policies give them and nothing else,
/// and what they make belongs to the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Never given twice; 0 is nobody's.
    pub id: UserId,
    /// Unique within the tenant: `ann`, or `ann/robot` for a user of ann's account.
    pub name: String,
    /// Whose user it is.
    pub tenant: TenantName,
    /// Disabled users keep what they own and may do nothing.
    pub disabled: bool,
    /// When the user was added.
    pub created: Timestamp,
    /// The user whose account it belongs to: itself, if an administrator added it.
    pub account: UserId,
    /// Where it stands among the users of its account, as in `/physics/`.
    pub path: String,
    /// What people call it; the name, where nothing else was given.
    pub display_name: Option<String>,
    /// Where mail reaches it; unique in the deployment.
    pub email: Option<String>,
    /// Whether it manages the users, groups and policies of its whole tenant.
    pub tenant_admin: bool,
    /// What policies say about it.
    pub policies: UserPolicies,
}

impl User {
    /// A user that an administrator added, an account of its own.
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
        }
    }

    /// Whether the account is its own.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.id == self.account
    }

    /// The name within the account.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.name
            .rsplit_once('/')
            .map_or(&self.name, |(_, name)| name)
    }

    /// What to show to people.
    #[must_use]
    pub fn shown_name(&self) -> &str {
        self.display_name.as_deref().unwrap_or(&self.name)
    }

    /// Its ARN: `arn:aws:iam::ACCOUNT:root`, or `arn:aws:iam::ACCOUNT:user/PATH/NAME`.
    #[must_use]
    pub fn arn(&self) -> String {
        if self.is_root() {
            format!("arn:aws:iam::{}:root", self.account)
        } else {
            format!(
                "arn:aws:iam::{}:user{}{}",
                self.account,
                self.path,
                self.short_name()
            )
        }
    }

    /// Whether `path`, as an ARN has it behind `user`, is its own.
    pub(crate) fn is_at(&self, path: &str) -> bool {
        path.strip_prefix(self.path.as_str()) == Some(self.short_name())
    }
}

/// A policy that a user has, itself or by a group.
#[derive(Clone, Debug)]
pub struct UserPolicy {
    /// Where it comes from, for people: `user ann`, `group readers`, with the policy's name.
    pub source: Arc<str>,
    /// What it says.
    pub policy: Arc<Policy>,
    /// Whether it was given by who manages the tenant, so that it gives rights to what other
    /// accounts of the tenant have. What an account gives to its own users does not.
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
    /// Changes whenever id, secret or state of the key change, so that keys derived from the
    /// secret may be cached under (id, revision).
    pub revision: u64,
    /// Whose key it is.
    pub user: Arc<User>,
}

/// Where fronts look keys up.
pub trait Credentials: Send + Sync {
    /// The key with this id, if it exists and neither it nor its user is disabled.
    fn access_key<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<AccessKey>>>;
}
