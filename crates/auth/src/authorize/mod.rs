//! The authorization decision: may this caller perform this action on this resource?
//!
//! Only the store asks it, once for everything that a verb touches. The rules, in order (IAM user
//! guide, "Policy evaluation logic"; S3 user guide, "How Amazon S3 authorizes a request"):
//!
//! 1. Dewar itself may do everything, a disabled user nothing.
//! 2. A matching statement that denies is final, whether it is on the bucket or on the user. The
//!    one exception: a bucket's owner may always change the bucket's policy, so that an error in a
//!    policy can be corrected. An owner can give up this exception.
//! 3. The owner of the resource may do everything.
//! 4. A user of the owner's account may do what its own policies allow, or what the bucket's policy
//!    allows to it by name.
//! 5. Others may do what the bucket's policy or an access control list allows, within the public
//!    access block. Users that are not an account of their own also need a policy of their own that
//!    allows it.
//! 6. A policy given by the manager of the tenant allows in the whole tenant.
//! 7. Everything else is denied.
//! 8. The policy of a session and the capabilities of a token restrict the result of the rules
//!    above and never extend it. One exception: permissions that a bucket's policy gives to the
//!    session's own ARN need not be within the session's policy, which may still deny them.
//!
//! The decision for an owner on a bucket without policy allocates no memory.

mod assume;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;

use dewar_types::{Error, ErrorKind, TenantName, Timestamp, UserId};
use thiserror::Error as ThisError;

use crate::acl::{Grant, Permission};
use crate::policy::statement::PolicyRequest;
use crate::policy::{Effect, PrincipalMatch, Statement, Verdict};
use crate::token::CapabilityDecision;
use crate::{Action, BucketAccess, Caller, Level, Limit, ObjectAccess, Ownership, Principal, User};

pub use assume::assume;

/// The resource of an action.
#[derive(Clone, Copy, Debug)]
pub enum Resource<'a> {
    /// A tenant as a whole: listing one's buckets.
    Tenant(&'a TenantName),
    /// A bucket or something in it.
    Bucket {
        /// The bucket's tenant.
        tenant: &'a TenantName,
        /// The bucket's name.
        bucket: &'a str,
        /// The bucket's owner, an account.
        owner: UserId,
        /// The bucket's access settings; `None` if none were ever set.
        access: Option<&'a BucketAccess>,
        /// The key, where the action is about one.
        key: Option<&'a str>,
        /// The existing object, if the action applies to one.
        object: Option<ObjectAccess<'a>>,
    },
    /// A user, group, role or policy.
    Identity {
        /// Its tenant.
        tenant: &'a TenantName,
        /// The account that it belongs to.
        account: UserId,
        /// As its ARN has it: `user/path/name`.
        path: &'a str,
        /// Whether it is a user of an account, or belongs to the tenant. Only a manager of the
        /// tenant gives and takes rights of the latter.
        of_tenant: bool,
    },
}

impl Resource<'_> {
    /// Its tenant.
    #[must_use]
    pub fn tenant(&self) -> &TenantName {
        match self {
            Self::Tenant(tenant) | Self::Bucket { tenant, .. } | Self::Identity { tenant, .. } => {
                tenant
            }
        }
    }
}

/// As people write it: `/bucket/key`, `/@tenant/bucket/key`, an ARN.
impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(tenant) => write!(f, "tenant {tenant:?}"),
            Self::Bucket {
                tenant,
                bucket,
                key,
                ..
            } => {
                f.write_str("/")?;
                if !tenant.is_default() {
                    write!(f, "@{tenant}/")?;
                }
                f.write_str(bucket)?;
                match key {
                    Some(key) => write!(f, "/{key}"),
                    None => Ok(()),
                }
            }
            Self::Identity { account, path, .. } => write!(f, "arn:aws:iam::{account}:{path}"),
        }
    }
}

/// The facts about a request that a verb knows and policies may test.
#[derive(Clone, Copy, Debug, Default)]
pub struct Details<'a> {
    /// When it is decided.
    pub now: Timestamp,
    /// The prefix of a listing; empty where the client named none.
    pub prefix: Option<&'a str>,
    /// The delimiter of a listing.
    pub delimiter: Option<&'a str>,
    /// Most keys of a page: the client's number, or the default.
    pub max_keys: Option<usize>,
    /// The source of a copy: `bucket/key`, with the tenant before it if it differs from the
    /// target's.
    pub copy_source: Option<&'a str>,
    /// The version that the request names.
    pub version: Option<&'a str>,
    /// Tags for the object, bucket or session, where they do not come in a header.
    pub tags: Option<&'a [(String, String)]>,
    /// Tags that the bucket has.
    pub bucket_tags: Option<&'a BTreeMap<String, String>>,
    /// Whether a write creates an object, and not only a part that may become one.
    pub creates: Option<bool>,
    /// The ETag that the object must have for the request to continue, where it does not come in a
    /// header.
    pub if_match: Option<&'a str>,
    /// The retention mode and its end, as requested in a document.
    pub retention: Option<(&'a str, Timestamp)>,
    /// Whether a document requests a legal hold, or removes it.
    pub legal_hold: Option<bool>,
    /// The location of a bucket to be created.
    pub location: Option<&'a str>,
    /// The rule for the owner of objects that others write, where a document sets it.
    pub ownership: Option<Ownership>,
    /// Whether the request asks only for existence, length and digests. A caller with the right to
    /// write to a path may know these.
    pub stat: bool,
    /// The name that a session is to have.
    pub role_session: Option<&'a str>,
    /// The external id that was agreed with the caller, for a role with several users.
    pub external_id: Option<&'a str>,
    /// The source identity: the name of the person behind a session.
    pub source_identity: Option<&'a str>,
    /// The keys of session tags that are passed on to sessions made from this one.
    pub transitive: Option<&'a [String]>,
    /// The policy that is to be given or taken.
    pub policy_arn: Option<&'a str>,
    /// Whether a trust policy may let in all users of a provider whose tokens are for a certain
    /// client.
    pub client_trust: bool,
}

/// A denied request.
#[derive(Debug, ThisError, Clone, PartialEq, Eq)]
#[error("{caller} may not {action} on {resource}: {reason}")]
pub struct AccessDenied {
    caller: Box<str>,
    action: Action,
    resource: Box<str>,
    reason: Reason,
}

impl AccessDenied {
    fn new(caller: &Caller, action: Action, resource: &Resource<'_>, reason: Reason) -> Self {
        Self {
            caller: caller.to_string().into(),
            action,
            resource: resource.to_string().into(),
            reason,
        }
    }

    /// The reason for the decision.
    #[must_use]
    pub fn reason(&self) -> &Reason {
        &self.reason
    }
}

impl From<AccessDenied> for Error {
    fn from(denied: AccessDenied) -> Self {
        Self::with_source(ErrorKind::Denied, denied.to_string(), denied)
    }
}

/// The result of a decision and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the caller may.
    pub allowed: bool,
    /// Why, or why not.
    pub reason: Reason,
}

impl Decision {
    /// As [`fn@authorize`] would have it.
    ///
    /// # Errors
    /// [`AccessDenied`] where it was.
    pub fn into_result(
        self,
        caller: &Caller,
        action: Action,
        resource: &Resource<'_>,
    ) -> Result<(), AccessDenied> {
        if self.allowed {
            return Ok(());
        }
        Err(AccessDenied::new(caller, action, resource, self.reason))
    }
}

/// The reason for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Dewar itself asks.
    System,
    /// The user is disabled.
    Disabled,
    /// It belongs to the caller's account, whose user this is.
    Owner,
    /// The caller manages the tenant.
    TenantAdmin,
    /// A statement of a policy.
    Statement {
        /// The place of the policy: `the bucket's policy`, `user ann, policy x`.
        source: String,
        /// The effect of the statement.
        effect: Effect,
        /// Its id, if it has one.
        sid: Option<String>,
        /// Its place in the document, from 0.
        index: usize,
        /// A claim that the statement tests and that the caller's session does not contain.
        unkept: Option<Box<str>>,
    },
    /// A grant of an access control list.
    Grant {
        /// Whether the list is on the object, not on the bucket.
        on_object: bool,
        /// The granted permission.
        permission: Permission,
    },
    /// The bucket's policy allows it, but is public, and the public access block restricts it.
    Restricted,
    /// The bucket allows the caller's account, but no policy of the user does.
    NoPolicyOfUser,
    /// The policy that was given with the session does not allow it.
    SessionPolicy(String),
    /// The capabilities of the token do not cover it.
    Capabilities(String),
    /// The caveats of the macaroon, or the share, do not let it happen.
    Caveats(String),
    /// Sessions of this kind do not manage users and keys.
    NoIam,
    /// Nothing allows it.
    Nothing,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("Dewar itself may do everything"),
            Self::Disabled => f.write_str("the user is disabled"),
            Self::Owner => f.write_str("it is the owner's"),
            Self::TenantAdmin => f.write_str("the administrator of the tenant may"),
            Self::Statement {
                source,
                effect,
                sid,
                index,
                unkept,
            } => {
                let does = match effect {
                    Effect::Allow => "allows",
                    Effect::Deny => "denies",
                };
                write!(f, "statement {}", index + 1)?;
                if let Some(sid) = sid {
                    write!(f, " ({sid:?})")?;
                }
                write!(f, " of {source} {does} it")?;
                match unkept {
                    Some(claim) => write!(
                        f,
                        ": it asks for the claim {claim:?}, which the session does not carry; a new \
                         session does"
                    ),
                    None => Ok(()),
                }
            }
            Self::Grant {
                on_object,
                permission,
            } => {
                let on = if *on_object { "object" } else { "bucket" };
                write!(
                    f,
                    "the {on}'s access control list grants {}",
                    permission.as_str()
                )
            }
            Self::Restricted => f.write_str(
                "the bucket's policy is public, which its public access block restricts",
            ),
            Self::NoPolicyOfUser => {
                f.write_str("the bucket lets the account in, but no policy of the user's allows it")
            }
            Self::SessionPolicy(source) => write!(f, "{source} does not allow it"),
            Self::Capabilities(scope) => {
                write!(f, "the token's scopes do not cover it: {scope}")
            }
            Self::Caveats(caveats) => write!(f, "the caveats do not let it happen: {caveats}"),
            Self::NoIam => f.write_str("a session of a user does not manage users and keys"),
            Self::Nothing => f.write_str("nothing allows it"),
        }
    }
}

/// The reason for a decision, without copies.
enum ReasonRef<'a> {
    System,
    Disabled,
    Owner,
    TenantAdmin,
    Bucket(usize, &'a Statement),
    User(&'a str, usize, &'a Statement),
    Grant(bool, Permission),
    Restricted,
    NoPolicyOfUser,
    SessionPolicy(&'a str),
    Capabilities(&'a str),
    Caveats(&'a str),
    NoIam,
    Nothing,
}

impl ReasonRef<'_> {
    fn to_reason(&self, caller: &Caller) -> Reason {
        let lacks = |claim: &&str| caller.bounds().is_some_and(|b| b.lacks_claim(claim));
        let statement = |source: &str, index: usize, statement: &Statement| Reason::Statement {
            source: source.to_owned(),
            effect: statement.effect,
            sid: statement.sid.as_deref().map(str::to_owned),
            index,
            unkept: statement.claims().find(lacks).map(Into::into),
        };
        match self {
            Self::System => Reason::System,
            Self::Disabled => Reason::Disabled,
            Self::Owner => Reason::Owner,
            Self::TenantAdmin => Reason::TenantAdmin,
            Self::Bucket(index, which) => statement("the bucket's policy", *index, which),
            Self::User(source, index, which) => statement(source, *index, which),
            Self::Grant(on_object, permission) => Reason::Grant {
                on_object: *on_object,
                permission: *permission,
            },
            Self::Restricted => Reason::Restricted,
            Self::NoPolicyOfUser => Reason::NoPolicyOfUser,
            Self::SessionPolicy(source) => Reason::SessionPolicy((*source).to_owned()),
            Self::Capabilities(scope) => Reason::Capabilities((*scope).to_owned()),
            Self::Caveats(caveats) => Reason::Caveats((*caveats).to_owned()),
            Self::NoIam => Reason::NoIam,
            Self::Nothing => Reason::Nothing,
        }
    }
}

/// Decides.
///
/// # Errors
/// [`AccessDenied`] unless something allows the action: the default is to deny.
pub fn authorize(
    caller: &Caller,
    action: Action,
    resource: Resource<'_>,
    details: &Details<'_>,
) -> Result<(), AccessDenied> {
    let named = OnceCell::new();
    let ask = PolicyRequest::new(caller, action, &resource, details, &named);
    let (allowed, why) = decide(&ask);
    if allowed {
        return Ok(());
    }
    Err(AccessDenied::new(
        caller,
        action,
        &resource,
        why.to_reason(caller),
    ))
}

/// Decides, and says what decided either way.
#[must_use]
pub fn explain(
    caller: &Caller,
    action: Action,
    resource: Resource<'_>,
    details: &Details<'_>,
) -> Decision {
    let named = OnceCell::new();
    let ask = PolicyRequest::new(caller, action, &resource, details, &named);
    let (allowed, why) = decide(&ask);
    Decision {
        allowed,
        reason: why.to_reason(caller),
    }
}

/// Whether a caller who may write an object may only write new names, because its token allows it
/// to create and not to overwrite. The store enforces it.
#[must_use]
pub fn makes_only_new(caller: &Caller, tenant: &TenantName, bucket: &str, key: &str) -> bool {
    let Some(bounds) = caller.bounds() else {
        return false;
    };
    let resource = Resource::Bucket {
        tenant,
        bucket,
        owner: UserId(0),
        access: None,
        key: Some(key),
        object: None,
    };
    bounds.limits.iter().any(|limit| match limit {
        Limit::Capabilities(capabilities) => {
            let details = Details::default();
            capabilities.lets(Action::PutObject, &resource, &details) != CapabilityDecision::Always
        }
        Limit::Caveats(caveats) => {
            let details = Details::default();
            let origin = caller.origin();
            caveats.lets(Action::PutObject, &resource, &details, origin)
                != CapabilityDecision::Always
        }
        Limit::Policy { .. } | Limit::NoIam => false,
    })
}

/// The action or resource that the caller's session or token does not cover.
fn beyond<'a>(ask: &PolicyRequest<'a>) -> Option<ReasonRef<'a>> {
    let bounds = ask.caller.bounds()?;
    bounds.limits.iter().find_map(|limit| match limit {
        _ if limit.forbids_service(ask.action) => Some(ReasonRef::NoIam),
        Limit::NoIam => None,
        Limit::Capabilities(capabilities) => {
            let lets = capabilities.lets(ask.action, ask.resource, ask.details);
            (lets == CapabilityDecision::Never)
                .then(|| ReasonRef::Capabilities(capabilities.text()))
        }
        Limit::Caveats(caveats) => {
            let origin = ask.caller.origin();
            let lets = caveats.lets(ask.action, ask.resource, ask.details, origin);
            (lets == CapabilityDecision::Never).then(|| ReasonRef::Caveats(caveats.text()))
        }
        Limit::Policy { source, policy } => {
            let verdict = policy.verdict(ask);
            match (verdict.deny, verdict.allow) {
                (Some((index, statement)), _) => Some(ReasonRef::User(source, index, statement)),
                (None, None) if is_session_named(ask) => None,
                (None, None) => Some(ReasonRef::SessionPolicy(source)),
                (None, Some(_)) => None,
            }
        }
    })
}

/// Whether the bucket's policy allows it to the caller's session by its own ARN. This right is in
/// addition to those within the session's policy (IAM user guide, "Session policies"). Scopes and
/// caveats still restrict it.
fn is_session_named(ask: &PolicyRequest<'_>) -> bool {
    let Resource::Bucket {
        owner,
        access: Some(access),
        object,
        ..
    } = *ask.resource
    else {
        return false;
    };
    let lists = access.ownership() != Ownership::BucketOwnerEnforced;
    let foreign = lists && object.is_some_and(|object| object.owner != owner);
    let policy = access.policy.as_deref().filter(|_| !foreign);
    policy.is_some_and(|policy| policy.allows_session(&ask.of_resource()))
}

/// Decides: first the rules for every caller, then the restrictions of sessions and tokens, which
/// only take away.
fn decide<'a>(ask: &'a PolicyRequest<'a>) -> (bool, ReasonRef<'a>) {
    let (allowed, why) = decide_unbound(ask);
    match allowed.then(|| beyond(ask)).flatten() {
        Some(why) => (false, why),
        None => (allowed, why),
    }
}

fn decide_unbound<'a>(ask: &'a PolicyRequest<'a>) -> (bool, ReasonRef<'a>) {
    let user = match ask.caller.principal() {
        Principal::System => return (true, ReasonRef::System),
        Principal::User(user) if user.disabled => return (false, ReasonRef::Disabled),
        Principal::User(user) => Some(&**user),
        Principal::Anonymous => None,
    };
    let own = match OwnPolicies::of(ask, user) {
        Err(deny) => return (false, deny),
        Ok(own) => own,
    };
    match *ask.resource {
        Resource::Tenant(tenant) => match user {
            Some(user) if user.tenant != *tenant => (false, ReasonRef::Nothing),
            Some(user) if user.is_root() => (true, ReasonRef::Owner),
            _ => own.alone(),
        },
        Resource::Identity {
            tenant,
            account,
            of_tenant,
            ..
        } => of_identity(ask, user, tenant, account, of_tenant, own),
        Resource::Bucket {
            owner,
            access,
            object,
            ..
        } => of_bucket(ask, user, owner, access, object, own),
    }
}

/// The decision of a user's own policies.
struct OwnPolicies<'a> {
    allow: Option<ReasonRef<'a>>,
    /// Of those that reach the whole tenant.
    tenant_wide: Option<ReasonRef<'a>>,
}

impl<'a> OwnPolicies<'a> {
    /// Asks them all; a statement that denies is the error.
    fn of(ask: &PolicyRequest<'a>, user: Option<&'a User>) -> Result<Self, ReasonRef<'a>> {
        let mut own = Self {
            allow: None,
            tenant_wide: None,
        };
        let Some(user) = user else { return Ok(own) };
        for policy in user.policies.iter() {
            let verdict = policy
                .policy
                .verdict(&ask.of_user_policy(policy.tenant_wide));
            if let Some((index, statement)) = verdict.deny {
                return Err(ReasonRef::User(&policy.source, index, statement));
            }
            if let Some((index, statement, _)) = verdict.allow {
                let place = if policy.tenant_wide {
                    &mut own.tenant_wide
                } else {
                    &mut own.allow
                };
                place.get_or_insert(ReasonRef::User(&policy.source, index, statement));
            }
        }
        Ok(own)
    }

    fn any(self) -> Option<ReasonRef<'a>> {
        self.allow.or(self.tenant_wide)
    }

    fn alone(self) -> (bool, ReasonRef<'a>) {
        self.any()
            .map_or((false, ReasonRef::Nothing), |why| (true, why))
    }
}

fn of_identity<'a>(
    ask: &PolicyRequest<'a>,
    user: Option<&User>,
    tenant: &TenantName,
    account: UserId,
    of_tenant: bool,
    own: OwnPolicies<'a>,
) -> (bool, ReasonRef<'a>) {
    let Some(user) = user else {
        return (false, ReasonRef::Nothing);
    };
    if user.tenant != *tenant {
        return (false, ReasonRef::Nothing);
    }
    if user.tenant_admin {
        return (true, ReasonRef::TenantAdmin);
    }
    if let Some(why) = own.tenant_wide {
        return (true, why);
    }
    // A key of an account's own user has all rights of the account: only that user makes one.
    let itself = user.is_root() && user.account == account;
    let beyond = changes_rights(ask.action) || (changes_keys(ask.action) && !itself);
    let mine = user.account == account && !(of_tenant && beyond);
    match own.allow {
        _ if !mine => (false, ReasonRef::Nothing),
        _ if user.is_root() => (true, ReasonRef::Owner),
        Some(why) => (true, why),
        None => (false, ReasonRef::Nothing),
    }
}

/// Whether an action adds or removes access keys of its resource, and so all of the resource's
/// rights.
fn changes_keys(action: Action) -> bool {
    matches!(
        action,
        Action::CreateAccessKey | Action::UpdateAccessKey | Action::DeleteAccessKey
    )
}

/// Whether an action adds or removes rights of its resource.
fn changes_rights(action: Action) -> bool {
    matches!(
        action,
        Action::PutUserPolicy
            | Action::DeleteUserPolicy
            | Action::AttachUserPolicy
            | Action::DetachUserPolicy
            | Action::PutGroupPolicy
            | Action::DeleteGroupPolicy
            | Action::AttachGroupPolicy
            | Action::DetachGroupPolicy
            | Action::AddUserToGroup
            | Action::RemoveUserFromGroup
            | Action::CreateGroup
            | Action::DeleteGroup
            | Action::UpdateGroup
            | Action::DeleteUser
            | Action::UpdateUser
    )
}

fn of_bucket<'a>(
    ask: &PolicyRequest<'a>,
    user: Option<&User>,
    owner: UserId,
    access: Option<&'a BucketAccess>,
    object: Option<ObjectAccess<'_>>,
    own: OwnPolicies<'a>,
) -> (bool, ReasonRef<'a>) {
    let own_account = user.is_some_and(|user| user.account == owner);
    let root = user.is_some_and(User::is_root);
    let policy = access.and_then(|access| access.policy.as_deref());
    let verdict = policy.map_or_else(Verdict::default, |policy| {
        policy.verdict(&ask.of_resource())
    });
    let locked_out = access.is_some_and(|access| access.policy_locks_owner_out);
    let mends = own_account && root && is_about_policy(ask.action) && !locked_out;
    if let Some((index, statement)) = verdict.deny
        && !mends
    {
        return (false, ReasonRef::Bucket(index, statement));
    }
    let lists = access.map_or(Ownership::default(), BucketAccess::ownership)
        != Ownership::BucketOwnerEnforced;
    let foreign = lists && object.is_some_and(|object| object.owner != owner);
    if own_account && root && !foreign {
        return (true, ReasonRef::Owner);
    }
    let block = access.map(BucketAccess::block).unwrap_or_default();
    let public = policy.is_some_and(crate::Policy::is_public);
    let restricted = public && block.restrict_public_buckets && !own_account;
    let by_policy = verdict.allow.filter(|_| !restricted && !foreign);
    let account = user.map(|user| user.account);
    let grant = lists.then(|| {
        granted(
            ask.action,
            account,
            access,
            object,
            block.ignore_public_acls,
        )
    });
    let grant = grant
        .flatten()
        .map(|(on, grant)| ReasonRef::Grant(on, grant.permission));
    // In person is enough within the account; by its account a user is let in as far as its own
    // policies let it.
    if own_account && !foreign {
        if let Some((index, statement, PrincipalMatch::InPerson)) = by_policy {
            return (true, ReasonRef::Bucket(index, statement));
        }
        return own.alone();
    }
    let outside = by_policy
        .map(|(index, statement, _)| ReasonRef::Bucket(index, statement))
        .or(grant);
    let same_tenant = user.is_some_and(|user| user.tenant == *ask.resource.tenant());
    match outside {
        Some(why) if user.is_none() || root => (true, why),
        Some(_) => match own.any() {
            Some(why) => (true, why),
            None => (false, ReasonRef::NoPolicyOfUser),
        },
        None if same_tenant && own.tenant_wide.is_some() => {
            (true, own.tenant_wide.unwrap_or(ReasonRef::Nothing))
        }
        None if restricted && verdict.allow.is_some() => (false, ReasonRef::Restricted),
        None => (false, ReasonRef::Nothing),
    }
}

/// The grant that allows it to an account (`None`: anonymous), and whether it is on the object.
fn granted(
    action: Action,
    account: Option<UserId>,
    access: Option<&BucketAccess>,
    object: Option<ObjectAccess<'_>>,
    ignore_public: bool,
) -> Option<(bool, Grant)> {
    if action.level() == Level::Object
        && let Some(permission) = Permission::on_object(action)
    {
        let object = object?;
        // Its owner may always look at the list and mend it.
        let mends = matches!(permission, Permission::ReadAcp | Permission::WriteAcp);
        let owned = account == Some(object.owner);
        let grant = match object.acl {
            Some(acl) if !(owned && mends) => acl.grant(account, permission, ignore_public),
            _ => owned.then_some(Grant {
                grantee: crate::Grantee::User(object.owner),
                permission: Permission::FullControl,
            }),
        };
        return grant.map(|grant| (true, grant));
    }
    // What a list has no permission for is its owner's: tags, retention.
    if let Some(object) = object {
        let owned = account == Some(object.owner);
        return owned.then_some((
            true,
            Grant {
                grantee: crate::Grantee::User(object.owner),
                permission: Permission::FullControl,
            },
        ));
    }
    let permission = Permission::on_bucket(action)?;
    let acl = access.and_then(|access| access.acl.as_ref())?;
    let grant = acl.grant(account, permission, ignore_public)?;
    Some((false, grant))
}

fn is_about_policy(action: Action) -> bool {
    matches!(
        action,
        Action::GetBucketPolicy | Action::PutBucketPolicy | Action::DeleteBucketPolicy
    )
}

#[cfg(test)]
mod tests;
