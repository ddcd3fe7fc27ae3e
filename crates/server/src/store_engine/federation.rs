//! Admin requests about issuers of tokens, roles and sessions.

use std::collections::BTreeMap;

use dewar_auth::Secret;
use dewar_auth::token::{BasePath, MappingRule, MappingTarget};
use dewar_iam::{
    Accounts, FetchKeys as _, NewIssuer, PolicyHolder, PolicyHolderKind, RevokeTarget, Role,
    RoleChange,
};
use dewar_store::Store;
use dewar_types::{Error, ErrorKind, TenantName};
use serde_json::{Value, json};

use crate::admin::{
    AdminError, Failure, FederationReply, FederationRequest, IssuerAdd, IssuerInfo, RevokeRequest,
    RoleAdd, RoleInfo, TokenInfo,
};
use crate::issuers::WebKeys;

type Result<T> = std::result::Result<T, AdminError>;

/// Answers.
pub(super) async fn answer(
    store: &Store,
    web: &WebKeys,
    request: FederationRequest,
) -> Result<FederationReply> {
    let accounts = store.accounts();
    match request {
        FederationRequest::IssuerAdd(wish) => return issuer_add(accounts, web, wish).await,
        FederationRequest::IssuerList {} => return issuers(accounts).await,
        FederationRequest::IssuerRemove { url } => accounts.remove_issuer(&url).await?,
        FederationRequest::IssuerSet { url, disabled } => {
            accounts.set_issuer_disabled(&url, disabled).await?;
        }
        FederationRequest::TokenTest { token } => return token_test(accounts, web, &token).await,
        FederationRequest::RoleAdd(wish) => return role_add(accounts, wish).await,
        FederationRequest::RoleList { tenant } => {
            let tenant = tenant_named(tenant.as_deref().unwrap_or_default())?;
            let mut found = Vec::new();
            for arn in accounts.role_arns(&tenant).await? {
                found.push(role_info(accounts, &tenant, arn).await?);
            }
            return Ok(FederationReply::Roles(found));
        }
        FederationRequest::RoleRemove { name } => {
            let (tenant, name) = split(&name)?;
            let holder = holder(&tenant, name);
            let (inline, attached) = accounts.policies_of(&holder).await?;
            for policy in inline.keys() {
                accounts.delete_policy(&holder, policy).await?;
            }
            for policy in &attached {
                accounts.detach_policy(&holder, policy).await?;
            }
            accounts.remove_role(&tenant, name).await?;
        }
        FederationRequest::Revoke(wish) => {
            let what = match wish {
                RevokeRequest::Session(key) => RevokeTarget::Session(key),
                RevokeRequest::User(name) => RevokeTarget::User(name),
                RevokeRequest::Role(name) => RevokeTarget::Role(name),
                RevokeRequest::Issuer(url) => RevokeTarget::Issuer(url),
            };
            accounts.revoke(&what).await?;
        }
    }
    Ok(FederationReply::Done)
}

fn invalid(words: impl Into<String>) -> AdminError {
    AdminError::new(Failure::Invalid, words)
}

async fn issuer_add(
    accounts: &Accounts,
    web: &WebKeys,
    wish: IssuerAdd,
) -> Result<FederationReply> {
    let rule = |becomes: fn(String) -> MappingTarget| {
        move |(claim, value, name): (String, String, String)| MappingRule {
            claim,
            value,
            becomes: becomes(name),
        }
    };
    let users = wish.users.into_iter().map(rule(MappingTarget::User));
    let groups = wish.groups.into_iter().map(rule(MappingTarget::Group));
    let new = NewIssuer {
        url: wish.url,
        audiences: wish.audiences,
        keys_url: wish.keys_url,
        origins: wish.origins,
        tenant: tenant_named(wish.tenant.as_deref().unwrap_or_default())?,
        base: wish.base,
        rules: users.chain(groups).collect(),
    };
    let url = new.url.clone();
    let keys = match web.fetch(&new.check()?).await {
        Ok(keys) => Some(keys),
        Err(error) if wish.unreached => {
            tracing::warn!(issuer = url, %error, "let in without its keys");
            None
        }
        Err(error) => {
            let words = format!(
                "{}; nothing was changed (--unreached lets it in all the same)",
                error.message()
            );
            return Err(AdminError::new(Failure::Unavailable, words));
        }
    };
    accounts.add_issuer(new, keys.as_deref()).await?;
    let FederationReply::Issuers(mut all) = issuers(accounts).await? else {
        return Ok(FederationReply::Done);
    };
    all.retain(|info| info.url == url);
    Ok(FederationReply::Issuers(all))
}

async fn issuers(accounts: &Accounts) -> Result<FederationReply> {
    let mut found = Vec::new();
    for info in accounts.issuer_list().await? {
        let issuer = info.issuer;
        let standing = accounts.key_standing(&issuer).await?;
        let rules = issuer.rules.iter().map(|rule| {
            let (kind, name) = match &rule.becomes {
                MappingTarget::User(name) => ("user", name),
                MappingTarget::Group(name) => ("group", name),
            };
            format!("{}={} is {kind} {name}", rule.claim, rule.value)
        });
        found.push(IssuerInfo {
            url: issuer.url.clone(),
            name: issuer.name().to_owned(),
            audiences: issuer.audiences.clone(),
            base: issuer.base.as_ref().map(BasePath::text),
            rules: rules.collect(),
            disabled: issuer.disabled,
            keys: standing.keys,
            fetched: standing.fetched.map(|time| time.secs()),
            failed: standing.failed,
        });
    }
    Ok(FederationReply::Issuers(found))
}

async fn token_test(accounts: &Accounts, web: &WebKeys, token: &Secret) -> Result<FederationReply> {
    let mut judged = accounts.evaluate_token(token.reveal().trim()).await?;
    // With no server running nobody has fetched for a while.
    if let Err(dewar_auth::token::TokenError::UnknownKey { issuer, .. }) = &judged
        && let issuer = accounts.issuer_named(issuer).await?
        && let Ok(keys) = web.fetch(&issuer).await
    {
        accounts.learn_keys(&issuer, &keys).await?;
        judged = accounts.evaluate_token(token.reveal().trim()).await?;
    }
    let info = match judged {
        Err(error) => TokenInfo {
            why: Some(error.to_string()),
            ..TokenInfo::default()
        },
        Ok(becoming) => {
            let token = &becoming.token;
            let capabilities = token.capabilities.as_ref();
            let claims = token.claims.names().map(|name| {
                let values = token.claims.values(name).into_iter().map(Into::into);
                (name.to_owned(), values.collect::<Vec<String>>())
            });
            let base = becoming.issuer.base.as_ref().map(BasePath::text);
            TokenInfo {
                taken: true,
                why: None,
                issuer: Some(becoming.issuer.url.clone()),
                subject: Some(token.subject.clone()),
                expires: Some(token.expires.secs()),
                user: Some(becoming.user.name.clone()),
                local: becoming.user.kind == dewar_auth::UserKind::Local,
                groups: becoming.groups.clone(),
                capabilities: capabilities.map(|all| all.text().to_owned()),
                base: base.filter(|_| capabilities.is_some()),
                roles: accounts.assumable(&becoming).await?,
                claims: claims.filter(|(_, values)| !values.is_empty()).collect(),
            }
        }
    };
    Ok(FederationReply::Token(Box::new(info)))
}

/// The trust policy that a role of an issuer's users has.
fn trust_of(provider: &str, claims: &[(String, String)]) -> Result<String> {
    if claims.is_empty() {
        return Err(invalid(
            "--issuer without --claim would let in every user of the issuer; --claim 'sub=*' says so \
             if that is meant",
        ));
    }
    let mut by_claim: BTreeMap<(bool, &str), Vec<&str>> = BTreeMap::new();
    for (claim, value) in claims {
        if claim.is_empty() || value.is_empty() {
            return Err(invalid("--claim takes CLAIM=VALUE"));
        }
        let pattern = value.contains(['*', '?']);
        by_claim.entry((pattern, claim)).or_default().push(value);
    }
    let mut conditions: BTreeMap<&str, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for ((pattern, claim), values) in by_claim {
        let operator = if pattern {
            "ForAnyValue:StringLike"
        } else {
            "ForAnyValue:StringEquals"
        };
        let key = format!("{provider}:{claim}");
        conditions.entry(operator).or_default().insert(key, values);
    }
    let trust: Value = json!({
        "Version": "2012-10-17",
        "Statement": [{
            "Effect": "Allow",
            "Principal": {"Federated": provider},
            "Action": ["sts:AssumeRoleWithWebIdentity", "sts:TagSession"],
            "Condition": conditions,
        }],
    });
    Ok(trust.to_string())
}

async fn role_add(accounts: &Accounts, wish: RoleAdd) -> Result<FederationReply> {
    let (tenant, name) = split(&wish.name)?;
    let trust = match (&wish.issuer, &wish.trust) {
        (Some(issuer), None) => {
            let issuer = accounts.issuer_named(issuer).await?;
            trust_of(issuer.name(), &wish.claims)?
        }
        (None, Some(trust)) => trust.clone(),
        _ => return Err(invalid("a role needs an issuer or a trust policy")),
    };
    if let Some((root, _)) = name.split_once('/') {
        accounts.user_of(&tenant, root).await?;
    }
    let change = RoleChange {
        trust: Some(trust),
        description: wish.description,
        max_session: wish.max_session,
    };
    let role = accounts.make_role(&tenant, name, "/", change).await?;
    if let Some(policy) = &wish.policy {
        let holder = holder(&tenant, name);
        let short = name.rsplit_once('/').map_or(name, |(_, short)| short);
        if let Err(error) = accounts.put_policy(&holder, short, policy).await {
            accounts.remove_role(&tenant, name).await?;
            return Err(error.into());
        }
    }
    let arn = arn_of(accounts, &tenant, &role).await?;
    let role = accounts.shown_role(role).await?;
    Ok(FederationReply::Roles(vec![info_of(role, arn)]))
}

async fn arn_of(accounts: &Accounts, tenant: &TenantName, role: &Role) -> Result<String> {
    let user = accounts.as_role(tenant, &role.name, "arn").await?;
    let none = || {
        AdminError::new(
            Failure::NotFound,
            format!("there is no role {:?}", role.name),
        )
    };
    Ok(user.ok_or_else(none)?.source_arn())
}

fn info_of(role: Role, arn: String) -> RoleInfo {
    RoleInfo {
        arn,
        name: role.name,
        max_session: role.max_session,
        trust: role.trust,
    }
}

/// A role by the ARN that was made of it.
async fn role_info(accounts: &Accounts, tenant: &TenantName, arn: String) -> Result<RoleInfo> {
    let name = arn.rsplit_once('/').map_or("", |(_, name)| name).to_owned();
    let account = arn.split(':').nth(4).unwrap_or_default();
    let full = match account.parse() {
        Ok(id) if account.len() == 16 => {
            let root = accounts.user_by_id(id).await?;
            let root = root.map(|root| root.name.clone()).unwrap_or_default();
            format!("{root}/{name}")
        }
        _ => name,
    };
    let role = accounts.role(tenant, &full).await?;
    Ok(info_of(accounts.shown_role(role).await?, arn))
}

fn holder(tenant: &TenantName, name: &str) -> PolicyHolder {
    PolicyHolder {
        kind: PolicyHolderKind::Role,
        tenant: tenant.clone(),
        name: name.to_owned(),
    }
}

fn tenant_named(name: &str) -> Result<TenantName> {
    Ok(TenantName::new(name).map_err(Error::from)?)
}

fn split(text: &str) -> Result<(TenantName, &str)> {
    let (tenant, name) = match text.split_once(':') {
        None => (TenantName::default(), text),
        Some((tenant, name)) => (tenant_named(tenant)?, name),
    };
    if name.is_empty() {
        return Err(Error::new(ErrorKind::InvalidName, "a name is missing").into());
    }
    Ok((tenant, name))
}
