//! Admin requests about policies and groups.

use dewar_auth::{Action, Caller, Origin};
use dewar_iam::{PolicyHolder, PolicyHolderKind};
use dewar_store::Store;
use dewar_store::api::BucketRef;
use dewar_types::{BucketName, Error, ErrorKind, ObjectKey, TenantName};

use crate::admin::{
    AdminError, Failure, GroupInfo, HolderName, IdentityReply, IdentityRequest, PolicyInfo,
};

type Result<T> = std::result::Result<T, AdminError>;

/// Answers.
pub(super) async fn answer(store: &Store, request: IdentityRequest) -> Result<IdentityReply> {
    let accounts = store.accounts();
    match request {
        IdentityRequest::PolicyPut {
            holder,
            policy,
            text,
        } => {
            accounts.put_policy(&named(holder)?, &policy, &text).await?;
        }
        IdentityRequest::PolicyRemove { holder, policy } => {
            accounts.delete_policy(&named(holder)?, &policy).await?;
        }
        IdentityRequest::PolicyList { holder } => {
            let (inline, attached) = accounts.policies_of(&named(holder)?).await?;
            let own = inline.into_iter().map(|(name, text)| PolicyInfo {
                name,
                text: Some(text),
            });
            let given = attached
                .into_iter()
                .map(|name| PolicyInfo { name, text: None });
            return Ok(IdentityReply::Policies(own.chain(given).collect()));
        }
        IdentityRequest::Explain { who, action, path } => {
            return explain(store, who.as_deref(), &action, &path).await;
        }
        IdentityRequest::GroupAdd { name } => {
            let (tenant, name) = split(&name)?;
            accounts.make_group(&tenant, name, "/").await?;
        }
        IdentityRequest::GroupRemove { name } => {
            let (tenant, name) = split(&name)?;
            accounts.remove_group(&tenant, name).await?;
        }
        IdentityRequest::GroupList { tenant } => {
            let tenant = tenant_named(tenant.as_deref().unwrap_or_default())?;
            let mut groups = Vec::new();
            for group in accounts.groups(&tenant, None).await? {
                let members = accounts.members(&tenant, &group.name).await?;
                groups.push(GroupInfo {
                    name: group.name,
                    members: members.into_iter().map(|user| user.name).collect(),
                });
            }
            return Ok(IdentityReply::Groups(groups));
        }
        IdentityRequest::GroupOwn { path, group } => {
            let target = super::quota::parse(&path)?;
            store.set_group(&target, group.as_deref()).await?;
        }
        IdentityRequest::GroupOf { path } => {
            let target = super::quota::parse(&path)?;
            let charged = store.charged_group(&target).await?;
            let (group, by) = charged.map(|found| (found.name, found.by)).unzip();
            let group = group.flatten();
            return Ok(IdentityReply::Charged { group, by });
        }
        IdentityRequest::GroupMember {
            group,
            user,
            member,
        } => {
            let (tenant, group) = split(&group)?;
            accounts.set_member(&tenant, &user, group, member).await?;
        }
    }
    Ok(IdentityReply::Done)
}

async fn explain(
    store: &Store,
    who: Option<&str>,
    action: &str,
    path: &str,
) -> Result<IdentityReply> {
    let invalid = |words: String| AdminError::new(Failure::Invalid, words);
    let action = Action::parse(action).ok_or_else(|| {
        invalid(format!(
            "{action:?} is no action; s3:GetObject would be one"
        ))
    })?;
    let caller = match who {
        Some(name) => match name.strip_prefix("role:") {
            None => Caller::for_user(store.accounts().user(name).await?),
            Some(role) => {
                let (tenant, role) = split(role)?;
                let user = store.accounts().as_role(&tenant, role, "explain").await?;
                let none =
                    || AdminError::new(Failure::NotFound, format!("there is no role {role:?}"));
                Caller::for_user(user.ok_or_else(none)?)
            }
        },
        None => Caller::anonymous(Origin {
            address: None,
            secure: true,
        }),
    };
    let rest = path.strip_prefix('/').unwrap_or(path);
    let (tenant, rest) = match rest.strip_prefix('@').and_then(|rest| rest.split_once('/')) {
        Some((tenant, rest)) => (tenant_named(tenant)?, rest),
        None => (TenantName::default(), rest),
    };
    let (bucket, key) = match rest.split_once('/') {
        Some((bucket, key)) if !key.is_empty() => (bucket, Some(key)),
        Some((bucket, _)) => (bucket, None),
        None => (rest, None),
    };
    let bucket = BucketRef {
        tenant: Some(tenant),
        name: BucketName::new(bucket).map_err(Error::from)?,
    };
    let key = key.map(ObjectKey::new).transpose().map_err(Error::from)?;
    let decision = store
        .explain(&caller, action, &bucket, key.as_ref())
        .await?;
    Ok(IdentityReply::Decision {
        allowed: decision.allowed,
        reason: decision.reason.to_string(),
    })
}

fn tenant_named(name: &str) -> Result<TenantName> {
    Ok(TenantName::new(name).map_err(Error::from)?)
}

fn split(text: &str) -> Result<(TenantName, &str)> {
    match text.split_once(':') {
        None => Ok((TenantName::default(), text)),
        Some((tenant, name)) => Ok((tenant_named(tenant)?, name)),
    }
}

fn named(holder: HolderName) -> Result<PolicyHolder> {
    let (kind, name) = match holder {
        HolderName::User(name) => (PolicyHolderKind::User, name),
        HolderName::Group(name) => (PolicyHolderKind::Group, name),
        HolderName::Role(name) => (PolicyHolderKind::Role, name),
    };
    let (tenant, name) = split(&name)?;
    if name.is_empty() {
        let error = Error::new(ErrorKind::InvalidName, "a name is missing");
        return Err(error.into());
    }
    Ok(PolicyHolder {
        kind,
        tenant,
        name: name.to_owned(),
    })
}
