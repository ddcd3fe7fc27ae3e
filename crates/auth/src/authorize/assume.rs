//! The decision whether a caller may assume a role.

use std::cell::OnceCell;

use super::{AccessDenied, Details, OwnPolicies, ReasonRef, Resource, beyond};
use crate::policy::PrincipalMatch;
use crate::policy::statement::PolicyRequest;
use crate::{Action, Caller, Principal, User};

/// Decides by a role's trust policy whether a caller may assume the role (IAM user guide, "Policies
/// to grant permissions to assume a role"). A caller whom the policy names as a user may assume it.
/// A caller whom it names only by the account also needs a policy of its own that allows it.
///
/// # Errors
/// [`AccessDenied`].
pub fn assume(
    caller: &Caller,
    action: Action,
    role: Resource<'_>,
    trust: &crate::Policy,
    details: &Details<'_>,
) -> Result<(), AccessDenied> {
    let named = OnceCell::new();
    let ask = PolicyRequest::new(caller, action, &role, details, &named);
    let (allowed, why) = trusted(&ask, trust);
    if allowed {
        return Ok(());
    }
    Err(AccessDenied::new(
        caller,
        action,
        &role,
        why.to_reason(caller),
    ))
}

fn trusted<'a>(ask: &'a PolicyRequest<'a>, trust: &'a crate::Policy) -> (bool, ReasonRef<'a>) {
    let user = match ask.caller.principal() {
        Principal::System => return (true, ReasonRef::System),
        Principal::User(user) if user.disabled => return (false, ReasonRef::Disabled),
        Principal::User(user) => Some(&**user),
        Principal::Anonymous => None,
    };
    let vouched = ask.caller.bounds().is_some_and(|bounds| bounds.unassumed);
    // Refused when it was set; a second look costs nothing.
    if user.is_none() && (!vouched || trust.trusts_a_realm(ask.details.client_trust)) {
        return (false, ReasonRef::Nothing);
    }
    let own = match OwnPolicies::of(ask, user) {
        Err(deny) => return (false, deny),
        Ok(own) => own,
    };
    let verdict = trust.verdict(&ask.of_resource());
    if let Some((index, statement)) = verdict.deny {
        return (
            false,
            ReasonRef::User("the role's trust policy", index, statement),
        );
    }
    if let Some(why) = beyond(ask) {
        return (false, why);
    }
    match verdict.allow {
        None => (false, ReasonRef::Nothing),
        Some((index, statement, PrincipalMatch::InPerson)) => (
            true,
            ReasonRef::User("the role's trust policy", index, statement),
        ),
        Some((index, statement, PrincipalMatch::ByAccount)) => {
            if user.is_some_and(User::is_root) {
                return (
                    true,
                    ReasonRef::User("the role's trust policy", index, statement),
                );
            }
            own.any()
                .map_or((false, ReasonRef::NoPolicyOfUser), |why| (true, why))
        }
    }
}
