//! Roles of the tenant, for who manages it. Such a caller makes roles as `dewar role add` does; its
//! account may have some too, which earlier versions made, and finds them when the tenant has none
//! of the name.

use dewar_auth::{Action, role_arn};
use dewar_types::{Error, ErrorKind, Result, UserId};

use super::Identities;
use crate::accounts::{Role, RoleChange};

impl Identities<'_> {
    /// The ARN of a role of the account or of the tenant.
    #[must_use]
    pub fn role_arn(&self, role: &Role) -> String {
        match role.name.split_once('/') {
            Some((_, name)) => role_arn(&self.account.to_string(), &role.path, name),
            None => role_arn(self.tenant.as_str(), &role.path, &role.name),
        }
    }

    /// Makes a role of the tenant.
    pub(super) async fn create_role_of_tenant(
        &self,
        name: &str,
        path: &str,
        change: RoleChange,
    ) -> Result<Role> {
        let resource = format!("role{path}{name}");
        self.authorize_in_tenant(Action::CreateRole, UserId(0), &resource)?;
        if name.contains('/') {
            let message = format!("role name {name:?}: a slash is not allowed");
            return Err(Error::new(ErrorKind::InvalidName, message));
        }
        let accounts = self.accounts;
        match accounts.role(&self.tenant, &self.full(name)).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(_) => {
                let message = format!("role {name} exists already");
                return Err(Error::new(ErrorKind::AlreadyExists, message));
            }
        }
        let role = accounts.make_role(&self.tenant, name, path, change).await;
        accounts.shown_role(role?).await
    }

    /// A role of the tenant that the caller manages; `None` where there is none of this name.
    pub(super) async fn role_of_tenant(&self, action: Action, name: &str) -> Result<Option<Role>> {
        // With a slash it would be an account's.
        if !self.manages_tenant() || name.contains('/') {
            return Ok(None);
        }
        match self.accounts.role(&self.tenant, name).await {
            Ok(role) => {
                let path = format!("role{}{}", role.path, role.name);
                self.authorize_in_tenant(action, UserId(role.id), &path)?;
                self.accounts.shown_role(role).await.map(Some)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}
