//! Access settings of buckets and objects: ACLs, policies, ownership, public access block.
//!
//! The decision is made by [`dewar_auth::Authorizer`]. This module collects its input. A bucket's
//! policy, list, ownership and block are documents that are cached with the bucket, read and
//! compiled once.

mod acl;
mod documents;
mod policy;

use std::sync::Arc;

use dewar_auth::{
    Acl, BucketAccess, BucketPolicy, Caller, Limit, Ownership, Policy, PublicAccessBlock,
    RequestPayment,
};
use dewar_namespace::Bucket;
use dewar_types::{Error, ErrorKind, Result, UserId};

pub(crate) use acl::ObjectOwner;

use crate::document::document_of;

/// The access settings of a bucket.
pub(crate) fn access_of(bucket: &Bucket) -> Result<BucketAccess> {
    let policy = document_of::<BucketPolicy>(bucket)?;
    Ok(BucketAccess {
        policy_locks_owner_out: policy.as_ref().is_some_and(|policy| policy.locks_owner_out),
        policy: policy.map(|policy| Arc::clone(&policy.policy)),
        acl: document_of::<Acl>(bucket)?,
        ownership: document_of::<Ownership>(bucket)?.map(|ownership| *ownership),
        block: document_of::<PublicAccessBlock>(bucket)?.map(|block| *block),
    })
}

/// Whether a policy that applies to the caller distinguishes names in the bucket. Capabilities
/// cover whole directories, so a check of both ends is enough for them.
pub(crate) fn policies_tell_keys_apart(caller: &Caller, bucket: &Bucket) -> Result<bool> {
    let access = access_of(bucket)?;
    Ok(some_policy(caller, &access, Policy::tells_keys_apart))
}

/// Whether a test holds for the bucket's policy, or for one of the caller's own or restricting
/// policies.
pub(crate) fn some_policy(
    caller: &Caller,
    access: &BucketAccess,
    is_so: impl Fn(&Policy) -> bool,
) -> bool {
    let own = caller.user().map(|user| user.policies.iter());
    let mut own = own.into_iter().flatten();
    let limits = caller.bounds().map(|bounds| bounds.limits.iter());
    let mut limits = limits.into_iter().flatten();
    let limited = |limit: &Limit| match limit {
        Limit::Policy { policy, .. } => is_so(policy),
        Limit::Capabilities(_) | Limit::Caveats(_) | Limit::NoIam => false,
    };
    access.policy.as_deref().is_some_and(&is_so)
        || limits.any(limited)
        || own.any(|policy| is_so(&policy.policy))
}

/// Checks the caller's statements about the bucket's owner and about the payer.
pub(crate) fn check_said(caller: &Caller, bucket: &Bucket, source: bool) -> Result<()> {
    let owner = bucket.record.attributes.owner;
    let Some(facts) = caller.facts() else {
        return Ok(());
    };
    let denied = |message: String| Err(Error::new(ErrorKind::Denied, message));
    let expected = if source {
        facts.expected_source_owner()
    } else {
        facts.expected_owner()
    };
    if let Some(expected) = expected
        && expected.parse::<UserId>() != Ok(owner)
    {
        return denied(format!("bucket {} is not {expected}'s", bucket.name));
    }
    let others = caller.account() != owner;
    if others
        && document_of::<RequestPayment>(bucket)?.is_some_and(|payment| payment.requester)
        && (caller.user().is_none() || !facts.pays())
    {
        return denied(format!(
            "requests to bucket {} are paid by the requester",
            bucket.name
        ));
    }
    Ok(())
}
