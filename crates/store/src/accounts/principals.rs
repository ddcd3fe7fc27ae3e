//! Whom bucket policies and trust policies name: users and roles of accounts are stored by their
//! ids, as AWS does.
//!
//! A name can be given to somebody else, an id cannot: a policy that names a user goes with the user
//! when it is renamed, and means nobody when the user is gone. Readers of the policy see an ARN
//! while there is such a user or role, and the id afterwards. An ARN that names nobody yet stays as
//! it is written. A user that is an account of its own stays in its ARN too: its id alone means all
//! of the account.

use std::collections::BTreeMap;

use dewar_auth::{principals_of, role_arn, with_principals};
use dewar_types::{Error, ErrorKind, Result, TenantId, TenantName, UserId};

use super::record::RoleRecord;
use super::users::bare;
use super::{Accounts, ROLE, Role, account_of};

/// Digits of an id.
const ID_CHARS: usize = 16;

impl Accounts {
    /// A policy as it is stored.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedPolicy`] for what is no JSON; those of the catalog.
    pub(crate) async fn stored_policy(&self, text: &str) -> Result<String> {
        let mut ids = BTreeMap::new();
        for arn in principals_of(text).map_err(malformed)? {
            if let Some(id) = self.principal_id(&arn).await? {
                ids.insert(arn, UserId(id).to_string());
            }
        }
        with_principals(text, &ids).map_err(malformed)
    }

    /// A stored policy as it is shown.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedPolicy`] for what is no JSON; those of the catalog.
    pub(crate) async fn shown_policy(&self, text: &str) -> Result<String> {
        let mut arns = BTreeMap::new();
        for principal in principals_of(text).map_err(malformed)? {
            let id = Some(&principal).filter(|text| text.len() == ID_CHARS);
            if let Some(id) = id.and_then(|text| text.parse().ok())
                && let Some(arn) = self.principal_arn(id).await?
            {
                arns.insert(principal, arn);
            }
        }
        with_principals(text, &arns).map_err(malformed)
    }

    /// A role with its trust policy as it is shown.
    ///
    /// # Errors
    /// As [`Accounts::role`].
    pub async fn shown_role(&self, role: Role) -> Result<Role> {
        let trust = self.shown_policy(&role.trust).await?;
        Ok(Role { trust, ..role })
    }

    /// The id of the user or role of an ARN that has this very name and path.
    async fn principal_id(&self, arn: &str) -> Result<Option<u64>> {
        let parts: Vec<&str> = arn.splitn(6, ':').collect();
        let ["arn", _, "iam", "", account, rest] = parts[..] else {
            return Ok(None);
        };
        let Some((kind, path)) = rest
            .split_at_checked(4)
            .filter(|(_, path)| path.starts_with('/'))
        else {
            return Ok(None);
        };
        let (folder, name) = path.rsplit_once('/').unwrap_or_default();
        let root = match account.parse::<UserId>() {
            Ok(id) if account.len() == ID_CHARS => self.record_by_id(id).await?,
            _ => None,
        };
        let (tenant, full) = match (&root, TenantName::new(account)) {
            (Some(root), _) if root.account.is_none() => (
                TenantName::new(&root.tenant)?,
                format!("{}/{name}", root.name),
            ),
            (None, Ok(tenant)) if kind == "role" => (tenant, name.to_owned()),
            _ => return Ok(None),
        };
        let id = match self.tenant_id(&tenant).await {
            Ok(id) => id,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let found = match kind {
            "user" => self.user_in(id, &full).await.map(|user| {
                let path = user.path.unwrap_or_else(|| "/".into());
                (user.id.0, user.name, path)
            }),
            "role" => self
                .role(&tenant, &full)
                .await
                .map(|role| (role.id, role.name, role.path)),
            _ => return Ok(None),
        };
        match found {
            Ok((id, own, path)) if own == full && path.strip_suffix('/') == Some(folder) => {
                Ok(Some(id))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The ARN of the user of an account, or of the role, that has an id.
    async fn principal_arn(&self, id: UserId) -> Result<Option<String>> {
        if let Some(user) = self.record_by_id(id).await? {
            let user = bare(&user)?;
            return Ok(Some(user.arn()).filter(|_| !user.is_root()));
        }
        for tenant in self.tree.tenants().await? {
            let roles: Vec<RoleRecord> = self.entities(ROLE, &tenant.name, None).await?;
            let Some(role) = roles.into_iter().find(|role| role.id == id.0) else {
                continue;
            };
            return self.arn_of_role(&tenant.name, tenant.id, &role).await;
        }
        Ok(None)
    }

    async fn arn_of_role(
        &self,
        tenant: &TenantName,
        id: TenantId,
        role: &RoleRecord,
    ) -> Result<Option<String>> {
        let name = role
            .name
            .rsplit_once('/')
            .map_or(&*role.name, |(_, name)| name);
        let account = match account_of(&role.name) {
            None => tenant.as_str().to_owned(),
            Some(root) => match self.user_in(id, root).await {
                Ok(root) => root.id.to_string(),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        Ok(Some(role_arn(&account, &role.path, name)))
    }
}

fn malformed(error: dewar_auth::PolicyError) -> Error {
    Error::with_source(ErrorKind::MalformedPolicy, error.to_string(), error)
}
