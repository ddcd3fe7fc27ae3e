//! Whether somebody may become a role.

use std::cell::OnceCell;

use super::{Denied, Details, OwnPolicies, Resource, Why, beyond};
use crate::policy::Meant;
use crate::policy::statement::Ask;
use crate::{Action, Caller, Principal, User};

/// Whether a caller may become a role, by the role's trust policy (IAM user guide, "Policies to
/// grant permissions to assume a role"): whom it names in person may, whom it names by the account
/// needs a policy of its own for it too.
///
/// # Errors
/// [`Denied`].
pub fn assume(
    caller: &Caller,
    action: Action,
    role: Resource<'_>,
    trust: &crate::Policy,
    details: &Details<'_>,
) -> Result<(), Denied> {
    let named = OnceCell::new();
    let ask = Ask::new(caller, action, &role, details, &named);
    let (allowed, why) = trusted(&ask, trust);
    if allowed {
        return Ok(());
    }
    Err(Denied::new(caller, action, &role, why.to_reason(caller)))
}

fn trusted<'a>(ask: &'a Ask<'a>, trust: &'a crate::Policy) -> (bool, Why<'a>) {
    let user = match ask.caller.principal() {
        Principal::System => return (true, Why::System),
        Principal::User(user) if user.disabled => return (false, Why::Disabled),
        Principal::User(user) => Some(&**user),
        Principal::Anonymous => None,
    };
    let vouched = ask.caller.bounds().is_some_and(|bounds| bounds.unassumed);
    // Refused when it was set; a second look costs nothing.
    if user.is_none() && (!vouched || trust.trusts_a_realm(ask.details.client_trust)) {
        return (false, Why::Nothing);
    }
    let own = match OwnPolicies::of(ask, user) {
        Err(deny) => return (false, deny),
        Ok(own) => own,
    };
    let verdict = trust.verdict(&ask.of_resource());
    if let Some((index, statement)) = verdict.deny {
        return (
            false,
            Why::User("the role's trust policy", index, statement),
        );
    }
    if let Some(why) = beyond(ask) {
        return (false, why);
    }
    match verdict.allow {
        None => (false, Why::Nothing),
        Some((index, statement, Meant::InPerson)) => {
            (true, Why::User("the role's trust policy", index, statement))
        }
        Some((index, statement, Meant::ByAccount)) => {
            if user.is_some_and(User::is_root) {
                return (true, Why::User("the role's trust policy", index, statement));
            }
            own.any()
                .map_or((false, Why::NoPolicyOfUser), |why| (true, why))
        }
    }
}
