//! What stands on buckets and objects that decides who may: ownership, lists, policy, blocks.

use std::sync::Arc;

use dewar_types::UserId;

use crate::{Acl, Policy};

/// Who owns what others write into a bucket (S3 user guide, "Controlling ownership of objects").
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

/// What neither a policy nor a list may open to the public.
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
    /// A policy that allows to the public allows to the owner's account only.
    pub restrict_public_buckets: bool,
}

/// What stands on a bucket, ready to be asked; kept with the bucket.
#[derive(Clone, Debug, Default)]
pub struct BucketAccess {
    /// Its policy.
    pub policy: Option<Arc<Policy>>,
    /// Whether the owner may change the policy whatever it denies. Off where the owner said that
    /// it is to be locked out.
    pub policy_locks_owner_out: bool,
    /// Its list, where it is not the private one.
    pub acl: Option<Arc<Acl>>,
    /// Who owns what others write.
    pub ownership: Option<Ownership>,
    /// What is kept from the public.
    pub block: Option<PublicAccessBlock>,
}

impl BucketAccess {
    /// Who owns what others write.
    #[must_use]
    pub fn ownership(&self) -> Ownership {
        self.ownership.unwrap_or_default()
    }

    /// What is kept from the public.
    #[must_use]
    pub fn block(&self) -> PublicAccessBlock {
        self.block.unwrap_or_default()
    }

    /// Whether the bucket is open to the public, by its policy or its list, as far as the block
    /// leaves it so.
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

/// What stands on an object.
#[derive(Clone, Copy, Debug)]
pub struct ObjectAccess<'a> {
    /// Who owns it: an account, or 0 for nobody in particular.
    pub owner: UserId,
    /// Its list, where it is not the private one.
    pub acl: Option<&'a Acl>,
    /// Its tags.
    pub tags: &'a [(String, String)],
}
