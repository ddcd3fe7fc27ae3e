//! Who may: lists, ownership, policies.

use dewar_auth::{Acl, CannedAcl, Ownership, Permission};
use dewar_types::UserId;

use crate::version_attributes::Tags;

/// Who is granted something, as a client names it.
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
    /// What writes access logs.
    LogDelivery,
}

/// An access control list as a client asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewAcl {
    /// One of those that have names.
    Canned(CannedAcl),
    /// These grants, and none to the owner beside.
    Grants(Vec<(GranteeName, Permission)>),
    /// The same, with the canonical id of whom the client takes for the owner.
    Document {
        /// The owner.
        owner: String,
        /// The grants.
        grants: Vec<(GranteeName, Permission)>,
    },
}

/// What a new bucket shall be like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketOptions {
    /// Its list, if not the private one.
    pub acl: Option<NewAcl>,
    /// Who owns what others write, if not as the configuration says.
    pub ownership: Option<Ownership>,
    /// Where the client says that it shall be, for policies: the door has seen that it is here.
    pub location: Option<String>,
    /// Its tags, which need the right to tag buckets.
    pub tags: Tags,
}

/// An account as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountName {
    /// Its id.
    pub id: UserId,
    /// What people call it; nothing for nobody, and for a user that is gone.
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
    /// What people call an account of the list.
    #[must_use]
    pub fn display_name(&self, id: UserId) -> Option<&str> {
        let found = self.accounts.iter().find(|account| account.id == id);
        found.and_then(|account| account.display_name.as_deref())
    }
}
