//! What stands on buckets and objects that decides who may, and the verbs that change it.
//!
//! The decision itself is `dewar_auth`'s ([`dewar_auth::authorize`]); here is what it is told. A
//! bucket's policy, list, ownership and block are documents that stand in the cache with the
//! bucket, read and compiled once.

mod acl;
mod documents;
mod policy;

use std::sync::Arc;

use dewar_auth::{BucketAccess, Caller, Limit, Policy};
use dewar_meta::ns::Bucket;
use dewar_types::{Error, ErrorKind, Result, UserId};

pub(crate) use acl::ObjectOwner;
pub(crate) use documents::{
    AclDocument, BlockDocument, OwnershipDocument, PaymentDocument, PolicyDocument,
};

use crate::document::document_of;

/// What stands on a bucket.
pub(crate) fn access_of(bucket: &Bucket) -> Result<BucketAccess> {
    let policy = document_of::<PolicyDocument>(bucket)?;
    Ok(BucketAccess {
        policy_locks_owner_out: policy.as_ref().is_some_and(|policy| policy.locks_owner_out),
        policy: policy.map(|policy| Arc::clone(&policy.policy)),
        acl: document_of::<AclDocument>(bucket)?.map(|document| Arc::clone(&document.0)),
        ownership: document_of::<OwnershipDocument>(bucket)?.map(|document| document.0),
        block: document_of::<BlockDocument>(bucket)?.map(|document| document.0),
    })
}

/// Whether a policy that matters for the caller tells names in the bucket apart. Capabilities reach
/// whole directories, so that both ends were asked for is enough.
pub(crate) fn policies_tell_keys_apart(caller: &Caller, bucket: &Bucket) -> Result<bool> {
    let access = access_of(bucket)?;
    Ok(some_policy(caller, &access, Policy::tells_keys_apart))
}

/// Whether something is so of the bucket's policy, or of one that the caller has or is held to.
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

/// Holds the caller to what it said about the bucket's owner and about who pays.
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
        && document_of::<PaymentDocument>(bucket)?.is_some_and(|payment| payment.requester)
        && (caller.user().is_none() || !facts.pays())
    {
        return denied(format!(
            "requests to bucket {} are paid by who asks",
            bucket.name
        ));
    }
    Ok(())
}
