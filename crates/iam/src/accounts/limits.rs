//! How much an account may make over the IAM API: the quotas of AWS, unless configured otherwise.
//!
//! They hold for what belongs to an account (`ann/robot`), whoever makes it. Only an administrator makes records of a tenant,
//! and the users whose accounts these are.

use dewar_types::{Error, ErrorKind, Result};

use super::{Accounts, PolicyHolderKind};
use crate::names::account_of;

/// Quotas of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountLimits {
    /// Users.
    pub users: usize,
    /// Groups.
    pub groups: usize,
    /// Roles.
    pub roles: usize,
    /// Managed policies.
    pub policies: usize,
    /// Access keys of a user, for CreateAccessKey. The administrator's command may add more.
    pub keys_per_user: usize,
    /// Groups of a user.
    pub groups_per_user: usize,
    /// Managed policies of a user, group or role.
    pub attached_policies: usize,
    /// Characters of a managed policy, white space not counted.
    pub managed_policy_chars: usize,
    /// The same of all inline policies of a user.
    pub user_policy_chars: usize,
    /// The same of a group.
    pub group_policy_chars: usize,
    /// The same of a role.
    pub role_policy_chars: usize,
}

impl Default for AccountLimits {
    fn default() -> Self {
        Self {
            users: 5000,
            groups: 300,
            roles: 1000,
            policies: 1500,
            keys_per_user: 2,
            groups_per_user: 10,
            attached_policies: 10,
            managed_policy_chars: 6144,
            user_policy_chars: 2048,
            group_policy_chars: 5120,
            role_policy_chars: 10_240,
        }
    }
}

impl AccountLimits {
    /// Characters of all inline policies of somebody.
    pub(super) fn inline_chars(&self, kind: PolicyHolderKind) -> usize {
        match kind {
            PolicyHolderKind::User => self.user_policy_chars,
            PolicyHolderKind::Group => self.group_policy_chars,
            PolicyHolderKind::Role => self.role_policy_chars,
        }
    }

    /// How many of something an account may have.
    fn count(&self, kind: EntityKind) -> (&'static str, usize) {
        match kind {
            EntityKind::User => ("UsersPerAccount", self.users),
            EntityKind::Group => ("GroupsPerAccount", self.groups),
            EntityKind::Role => ("RolesPerAccount", self.roles),
            EntityKind::Policy => ("PoliciesPerAccount", self.policies),
        }
    }
}

/// What an account has a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntityKind {
    User,
    Group,
    Role,
    Policy,
}

/// Characters of a policy as AWS counts them.
pub(super) fn policy_chars(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

/// A quota is used up, in AWS's words.
pub(super) fn exceeded(quota: &str, max: usize) -> Error {
    let message = format!("Cannot exceed quota for {quota}: {max}");
    Error::new(ErrorKind::Quota, message)
}

impl Accounts {
    /// The quotas of accounts.
    #[must_use]
    pub fn limits(&self) -> AccountLimits {
        *self.limits.read()
    }

    /// Sets the quotas of accounts. Existing records stay.
    pub fn set_limits(&self, limits: AccountLimits) {
        *self.limits.write() = limits;
    }

    /// Refuses what would be one too many of an account. Held until it is made, so that nothing is made
    /// beside it.
    ///
    /// # Errors
    /// [`ErrorKind::Quota`].
    pub(super) async fn within_quota(
        &self,
        kind: EntityKind,
        name: &str,
        range: &dewar_catalog::keys::KeyRange,
    ) -> Result<Option<tokio::sync::MutexGuard<'_, ()>>> {
        if account_of(name).is_none() {
            return Ok(None);
        }
        let making = self.making.lock().await;
        let (quota, max) = self.limits().count(kind);
        if self.all(range).await?.len() >= max {
            return Err(exceeded(quota, max));
        }
        Ok(Some(making))
    }

    /// Refuses a managed policy of an account that is too long.
    ///
    /// # Errors
    /// [`ErrorKind::Quota`].
    pub(super) fn check_managed_size(&self, name: &str, text: &str) -> Result<()> {
        let max = self.limits().managed_policy_chars;
        if account_of(name).is_some() && policy_chars(text) > max {
            return Err(exceeded("PolicySize", max));
        }
        Ok(())
    }
}
