//! Whom bucket policies and trust policies name: users and roles of accounts are stored by their
//! ids, as AWS does.
//!
//! A name can be given to somebody else, an id cannot: a policy that names a user goes with the user
//! when it is renamed, and means nobody when the user is gone. Readers of the policy see an ARN
//! while there is such a user or role, and the id afterwards. An ARN that names nobody yet stays as
//! it is written. A user that is an account of its own stays in its ARN too: its id alone means all
//! of the account.
//!
//! An ARN that takes rights away (`Principal` of a statement that denies) stays beside the id. A
//! namesake of the user, or a later user of that name, is denied too.

use std::collections::{BTreeMap, BTreeSet};

use dewar_auth::{principals_of, role_arn, shown_principals, stored_principals};
use dewar_types::{Error, ErrorKind, Result, TenantId, TenantName, UserId};

use super::users::bare;
use super::{Accounts, Role};
use crate::names::account_of;
use crate::record::{ROLE, RoleRecord};

/// Digits of an id.
const ID_CHARS: usize = 16;

impl Accounts {
    /// A policy as it is stored, in the place of the one `before`.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedPolicy`] for a text that is no JSON, and for an id that belongs to no
    /// account and that the policy before did not have: a reader of the policy would learn the name.
    /// Those of the catalog.
    pub async fn stored_policy(&self, text: &str, before: Option<&str>) -> Result<String> {
        let before = before.map_or(Ok(Vec::new()), principals_of);
        let before = before.map_err(malformed)?;
        let mut ids = BTreeMap::new();
        for principal in principals_of(text).map_err(malformed)? {
            if let Some(id) = self.principal_id(&principal).await? {
                ids.insert(principal, UserId(id).to_string());
            } else if let Some(id) = id_of(&principal).filter(|_| !before.contains(&principal)) {
                let account = self.record_by_id(id).await?;
                if account.is_none_or(|record| record.account.is_some()) {
                    let message = format!("principal {principal:?} is no account");
                    return Err(Error::new(ErrorKind::MalformedPolicy, message));
                }
            }
        }
        stored_principals(text, &ids).map_err(malformed)
    }

    /// A stored policy as it is shown.
    ///
    /// # Errors
    /// [`ErrorKind::MalformedPolicy`] for what is no JSON; those of the catalog.
    pub async fn shown_policy(&self, text: &str) -> Result<String> {
        let arns = self.principal_arns([text]).await?;
        shown_principals(text, &arns).map_err(malformed)
    }

    /// A role with its trust policy as it is shown.
    ///
    /// # Errors
    /// As [`Accounts::role`].
    pub async fn shown_role(&self, role: Role) -> Result<Role> {
        let trust = self.shown_policy(&role.trust).await?;
        Ok(Role { trust, ..role })
    }

    /// Roles with their trust policies as they are shown.
    ///
    /// # Errors
    /// As [`Accounts::role`].
    pub async fn shown_roles(&self, roles: Vec<Role>) -> Result<Vec<Role>> {
        let texts = roles.iter().map(|role| role.trust.as_str());
        let arns = self.principal_arns(texts).await?;
        let shown = roles.into_iter().map(|role| {
            let trust = shown_principals(&role.trust, &arns).map_err(malformed)?;
            Ok(Role { trust, ..role })
        });
        shown.collect()
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

    /// The ARNs of the users of accounts, and of the roles, whose ids stand in policies. However many ids
    /// there are, roles are looked through once.
    async fn principal_arns<'a>(
        &self,
        texts: impl IntoIterator<Item = &'a str>,
    ) -> Result<BTreeMap<String, String>> {
        let mut ids = BTreeSet::new();
        for text in texts {
            let principals = principals_of(text).map_err(malformed)?;
            ids.extend(principals.iter().filter_map(|text| id_of(text)));
        }
        let (mut arns, mut others) = (BTreeMap::new(), BTreeSet::new());
        for id in ids {
            let Some(user) = self.record_by_id(id).await? else {
                others.insert(id);
                continue;
            };
            let user = bare(&user)?;
            if !user.is_root() {
                arns.insert(id.to_string(), user.arn());
            }
        }
        if others.is_empty() {
            return Ok(arns);
        }
        for tenant in self.catalog.tenants().await? {
            let roles: Vec<RoleRecord> = self.entities(ROLE, &tenant.name, None).await?;
            for role in roles
                .iter()
                .filter(|role| others.contains(&UserId(role.id)))
            {
                let arn = self.arn_of_role(&tenant.name, tenant.id, role).await?;
                arns.extend(arn.map(|arn| (UserId(role.id).to_string(), arn)));
            }
            tokio::task::yield_now().await;
        }
        Ok(arns)
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

/// The id that a principal is, if it is one.
fn id_of(principal: &str) -> Option<UserId> {
    let id = Some(principal).filter(|text| text.len() == ID_CHARS);
    id.and_then(|text| text.parse().ok())
}

fn malformed(error: dewar_auth::PolicyError) -> Error {
    Error::with_source(ErrorKind::MalformedPolicy, error.to_string(), error)
}
