//! Users and the keys that prove them.

use std::sync::Arc;

use dewar_env::BoxFuture;
use dewar_types::{Result, TenantName, Timestamp, UserId};

use crate::Secret;

/// A local user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Never given twice; 0 is nobody's.
    pub id: UserId,
    /// Unique within the tenant.
    pub name: String,
    /// Whose user it is.
    pub tenant: TenantName,
    /// Disabled users keep what they own and may do nothing.
    pub disabled: bool,
    /// When the user was added.
    pub created: Timestamp,
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
