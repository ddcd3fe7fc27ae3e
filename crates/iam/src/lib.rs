//! Identity and access management: users, groups, roles, policies, access keys, sessions, issuers,
//! providers and shares, and the verbs of the IAM and STS APIs.
//!
//! [`Accounts`] owns the records and finds the caller of a credential. [`Identities`] has the verbs of
//! the IAM API for one caller. Administrators use [`Accounts`] itself. Both take decisions from
//! [`dewar_auth::Authorizer`]. The crate knows the catalog and no tree of names: the charges of a group
//! are counters of the catalog, and the store reports changed bucket policies by
//! [`Accounts::bucket_policy_changed`].

mod accounts;
mod cache;
mod claims;
mod compiled_policies;
mod identity;
mod names;
mod record;
#[cfg(test)]
mod tests;
mod token_digest;

pub use accounts::{
    AccountLimits, Accounts, AssumeRole, AwsPolicy, FederationConfig, FetchKeys, Group,
    IssuedSession, IssuerInfo, IssuerKeyStatus, KeyInfo, MacaroonRequest, ManagedPolicy,
    MappedIdentity, NewIssuer, NewShare, NewUser, POLICY_VERSIONS_MAX, PolicyHolder,
    PolicyHolderKind, PolicyVersion, Provider, ProviderChange, ProviderOwner, RevokeTarget, Role,
    RoleChange, ShareInfo, UserChange, WebIdentity, aws_policies, aws_policy, caller_identity,
    is_aws_policy,
};
pub use identity::{Identities, ProviderInfo};
