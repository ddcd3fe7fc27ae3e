//! Access settings of buckets and objects: ownership, access control lists, policies, public access
//! blocks.

use std::sync::Arc;

use dewar_types::UserId;

use crate::{Acl, Policy};

/// The rule for the owner of objects that others write into a bucket (S3 user guide, "Controlling
/// ownership of objects").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// The bucket's owner, always; access control lists are off.
    BucketOwnerEnforced,
    /// The bucket's owner, if the writer grants it full control.
    BucketOwnerPreferred,
    /// The writer. This is what a bucket has for which nothing was set.
    #[default]
    ObjectWriter,
}

impl Ownership {
    /// Its name in S3's XML.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BucketOwnerEnforced => "BucketOwnerEnforced",
            Self::BucketOwnerPreferred => "BucketOwnerPreferred",
            Self::ObjectWriter => "ObjectWriter",
        }
    }

    /// The ownership of a name in S3's XML.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [
            Self::BucketOwnerEnforced,
            Self::BucketOwnerPreferred,
            Self::ObjectWriter,
        ]
        .into_iter()
        .find(|ownership| ownership.as_str() == name)
    }
}

/// The ways of public access that a bucket forbids to policies and lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "four independent switches of S3"
)]
pub struct PublicAccessBlock {
    /// Lists that grant to the public are refused.
    pub block_public_acls: bool,
    /// Grants to the public do not count.
    pub ignore_public_acls: bool,
    /// Policies that allow to the public are refused.
    pub block_public_policy: bool,
    /// A public policy gives rights only to the owner's account.
    pub restrict_public_buckets: bool,
}

/// The policy of a bucket with its text.
#[derive(Clone, Debug)]
pub struct BucketPolicy {
    /// The text, as it is stored.
    pub text: String,
    /// The compiled policy.
    pub policy: Arc<Policy>,
    /// Whether a statement that denies also binds the bucket's owner when it changes the policy.
    /// The owner sets this explicitly.
    pub locks_owner_out: bool,
}

/// The rule for who pays for requests to a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestPayment {
    /// Whether the requester pays, and not the bucket's owner.
    pub requester: bool,
}

/// The access settings of a bucket, compiled. They are cached with the bucket.
#[derive(Clone, Debug, Default)]
pub struct BucketAccess {
    /// Its policy.
    pub policy: Option<Arc<Policy>>,
    /// Whether a policy that denies also binds the bucket's owner when it changes the policy. The
    /// owner sets this explicitly.
    pub policy_locks_owner_out: bool,
    /// Its list, where it is not the private one.
    pub acl: Option<Arc<Acl>>,
    /// The rule for the owner of objects that others write; `None` where it was never set.
    pub ownership: Option<Ownership>,
    /// The public access block; `None` where it was never set.
    pub block: Option<PublicAccessBlock>,
}

impl BucketAccess {
    /// The rule for the owner of objects that others write, or the default.
    #[must_use]
    pub fn ownership(&self) -> Ownership {
        self.ownership.unwrap_or_default()
    }

    /// The public access block, or the default.
    #[must_use]
    pub fn block(&self) -> PublicAccessBlock {
        self.block.unwrap_or_default()
    }

    /// Whether the bucket is open to the public, by its policy or its list, within its public
    /// access block.
    #[must_use]
    pub fn is_public(&self) -> bool {
        let block = self.block();
        let by_policy = self
            .policy
            .as_ref()
            .is_some_and(|policy| policy.is_public());
        let lists = self.ownership() != Ownership::BucketOwnerEnforced && !block.ignore_public_acls;
        let by_acl = lists && self.acl.as_ref().is_some_and(|acl| acl.is_public());
        (by_policy && !block.restrict_public_buckets) || by_acl
    }
}

/// The access settings of an object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectAccess<'a> {
    /// The owner: an account, or 0 for an object without an owner.
    pub owner: UserId,
    /// Its list, where it is not the private one.
    pub acl: Option<&'a Acl>,
    /// Its tags.
    pub tags: &'a [(String, String)],
}
