//! Access control: lists, ownership, policies.

use dewar_auth::{Acl, CannedAcl, Ownership, Permission};
use dewar_types::UserId;

use crate::version_attributes::Tags;

/// A grantee, as a client names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GranteeName {
    /// An account by its canonical id.
    Id(String),
    /// An account by its user's mail address.
    Email(String),
    /// Everybody.
    Everyone,
    /// Everybody with a key.
    Authenticated,
    /// The writer of access logs.
    LogDelivery,
}

/// An access control list in a client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewAcl {
    /// One of those that have names.
    Canned(CannedAcl),
    /// These grants, without a further one for the owner.
    Grants(Vec<(GranteeName, Permission)>),
    /// The same, with the canonical id of the owner that the client names.
    Document {
        /// The owner.
        owner: String,
        /// The grants.
        grants: Vec<(GranteeName, Permission)>,
    },
}

/// The options of a new bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketOptions {
    /// Its list, if not the private one.
    pub acl: Option<NewAcl>,
    /// The rule for the owner of objects that others write; the configured default if `None`.
    pub ownership: Option<Ownership>,
    /// The location that the client asks for, for policies. The front has checked that it is this
    /// deployment.
    pub location: Option<String>,
    /// Its tags, which need the right to tag buckets.
    pub tags: Tags,
}

/// An account as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountName {
    /// Its id.
    pub id: UserId,
    /// The display name; `None` for id 0, and for a user that was deleted.
    pub display_name: Option<String>,
}

/// A list with names for its accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAcl {
    /// The list.
    pub acl: Acl,
    /// Its owner and the accounts that it grants something to.
    pub accounts: Vec<AccountName>,
}

impl NamedAcl {
    /// The display name of an account in the list.
    #[must_use]
    pub fn display_name(&self, id: UserId) -> Option<&str> {
        let found = self.accounts.iter().find(|account| account.id == id);
        found.and_then(|account| account.display_name.as_deref())
    }
}
