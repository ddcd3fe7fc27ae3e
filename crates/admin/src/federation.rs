//! Issuers of tokens, roles and sessions.

use std::collections::BTreeMap;

use dewar_auth::Secret;
use dewar_auth::token::{BasePath, MappingRule, MappingTarget, TokenError};
use dewar_iam::{
    Accounts, NewIssuer, PolicyHolder, PolicyHolderKind, RevokeTarget, Role, RoleChange,
};
use dewar_types::TenantName;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::command::{AdminCommand, CommandEntry, CommandSpec, Done};
use crate::context::AdminContext;
use crate::error::{AdminError, Failure, Result};
use crate::names::{split_tenant, tenant_named};

/// The name of a reply that has nothing to report.
const DONE: &str = "federation";

pub(crate) const COMMANDS: &[CommandEntry] = &[
    CommandEntry::of::<IssuerAdd>(),
    CommandEntry::of::<IssuerList>(),
    CommandEntry::of::<IssuerRemove>(),
    CommandEntry::of::<IssuerSet>(),
    CommandEntry::of::<TokenTest>(),
    CommandEntry::of::<RoleAdd>(),
    CommandEntry::of::<RoleList>(),
    CommandEntry::of::<RoleRemove>(),
    CommandEntry::of::<RevokeRequest>(),
];

/// An issuer to add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerAdd {
    /// Exactly what `iss` says.
    pub url: String,
    /// The accepted audiences of its tokens.
    pub audiences: Vec<String>,
    /// The address of its keys, if it is not the one in its metadata.
    pub keys_url: Option<String>,
    /// Other origins that metadata and keys may be at.
    pub origins: Vec<String>,
    /// The tenant of its users.
    pub tenant: Option<String>,
    /// The path that its capabilities are relative to: `/BUCKET/DIR`.
    pub base: Option<String>,
    /// Claim, value, user.
    pub users: Vec<(String, String, String)>,
    /// Claim, value, group.
    pub groups: Vec<(String, String, String)>,
    /// Let it in though it does not answer now.
    pub unreached: bool,
}

/// A configured issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerInfo {
    /// Exactly what `iss` says.
    pub url: String,
    /// As policies name it.
    pub name: String,
    /// The accepted audiences of its tokens.
    pub audiences: Vec<String>,
    /// The path that its capabilities are relative to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Its rules, for people.
    pub rules: Vec<String>,
    /// Whether it is switched off.
    pub disabled: bool,
    /// How many keys there are.
    pub keys: usize,
    /// When they were fetched, seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fetched: Option<u64>,
    /// Why the last fetch failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A role to make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleAdd {
    /// `[TENANT:]NAME`, or `[TENANT:]ROOT/NAME` for one of ROOT's account.
    pub name: String,
    /// The issuer whose users may become it.
    pub issuer: Option<String>,
    /// Claims and values. If a claim is listed more than once, one of its values is enough.
    pub claims: Vec<(String, String)>,
    /// A trust policy instead.
    pub trust: Option<String>,
    /// The policy of the role.
    pub policy: Option<String>,
    /// Longest session in seconds.
    pub max_session: Option<u32>,
    /// The description.
    pub description: Option<String>,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleInfo {
    /// Its ARN.
    pub arn: String,
    /// Its name, with the account's before it.
    pub name: String,
    /// Longest session in seconds.
    pub max_session: u32,
    /// The trust policy.
    pub trust: String,
}

/// The user and the rights that a token would get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenInfo {
    /// Whether it is taken.
    pub taken: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When it ends, seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// The user that the token is mapped to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether that is a user of this deployment.
    pub local: bool,
    /// Groups by the issuer's rules.
    pub groups: Vec<String>,
    /// Capabilities, as the token has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<String>,
    /// The path that the capabilities are relative to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Roles that its bearer may become.
    pub roles: Vec<String>,
    /// The claims with their values, as rules and trust policies can test them.
    pub claims: Vec<(String, Vec<String>)>,
}

/// Sessions to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RevokeRequest {
    /// One, by its access key.
    Session(String),
    /// All of a user, `[TENANT:]NAME`.
    User(String),
    /// All of a role, `[TENANT:]NAME`.
    Role(String),
    /// All that came from an issuer's tokens.
    Issuer(String),
}

/// Lists the issuers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerList {}

/// Does not let an issuer in any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerRemove {
    /// Its address or name.
    pub url: String,
}

/// Switches an issuer off or on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerSet {
    /// Its address or name.
    pub url: String,
    /// Off, or on.
    pub disabled: bool,
}

/// Tests a token: its user and rights here.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenTest {
    /// The token.
    #[serde(with = "crate::secret_text")]
    pub token: Secret,
}

/// Lists the roles of a tenant.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleList {
    /// The tenant; the default one if absent.
    pub tenant: Option<String>,
}

/// Removes a role with its policies.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleRemove {
    /// `[TENANT:]NAME`.
    pub name: String,
}

impl AdminCommand for IssuerAdd {
    const SPEC: CommandSpec = CommandSpec::changes("federation.issuer_add", "admin:issuer-add")
        .replies("federation.issuers");
    type Reply = Vec<IssuerInfo>;

    fn target(&self) -> String {
        self.url.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Vec<IssuerInfo>> {
        let (accounts, web) = (admin.store.accounts(), &admin.web_keys);
        let rule = |becomes: fn(String) -> MappingTarget| {
            move |(claim, value, name): (String, String, String)| MappingRule {
                claim,
                value,
                becomes: becomes(name),
            }
        };
        let users = self.users.into_iter().map(rule(MappingTarget::User));
        let groups = self.groups.into_iter().map(rule(MappingTarget::Group));
        let new = NewIssuer {
            url: self.url,
            audiences: self.audiences,
            keys_url: self.keys_url,
            origins: self.origins,
            tenant: tenant_named(self.tenant.as_deref().unwrap_or_default())?,
            base: self.base,
            rules: users.chain(groups).collect(),
        };
        let url = new.url.clone();
        let keys = match web.fetch(&new.check()?).await {
            Ok(keys) => Some(keys),
            Err(error) if self.unreached => {
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
        let mut all = issuers(accounts).await?;
        all.retain(|info| info.url == url);
        Ok(all)
    }
}

impl AdminCommand for IssuerList {
    const SPEC: CommandSpec = CommandSpec::reads("federation.issuer_list", "admin:issuer-list")
        .replies("federation.issuers");
    type Reply = Vec<IssuerInfo>;

    async fn run(self, admin: &AdminContext) -> Result<Vec<IssuerInfo>> {
        issuers(admin.store.accounts()).await
    }
}

impl AdminCommand for IssuerRemove {
    const SPEC: CommandSpec =
        CommandSpec::changes("federation.issuer_remove", "admin:issuer-remove").replies(DONE);
    type Reply = Done;

    fn target(&self) -> String {
        self.url.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        admin.store.accounts().remove_issuer(&self.url).await?;
        Ok(Done::Done)
    }
}

impl AdminCommand for IssuerSet {
    const SPEC: CommandSpec = CommandSpec::changes("federation.issuer_set", "admin:issuer-disable")
        .replies(DONE)
        .or_records("admin:issuer-enable");
    type Reply = Done;

    fn action(&self) -> &'static str {
        match self.disabled {
            true => "admin:issuer-disable",
            false => "admin:issuer-enable",
        }
    }

    fn target(&self) -> String {
        self.url.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let accounts = admin.store.accounts();
        let set = accounts.set_issuer_disabled(&self.url, self.disabled);
        set.await?;
        Ok(Done::Done)
    }
}

impl AdminCommand for TokenTest {
    const SPEC: CommandSpec = CommandSpec::reads("federation.token_test", "admin:issuer-test")
        .replies("federation.token");
    type Reply = TokenInfo;

    async fn run(self, admin: &AdminContext) -> Result<TokenInfo> {
        let (accounts, web) = (admin.store.accounts(), &admin.web_keys);
        let token = self.token.reveal().trim();
        let mut judged = accounts.evaluate_token(token).await?;
        // With no server running nobody has fetched for a while.
        if let Err(TokenError::UnknownKey { issuer, .. }) = &judged
            && let issuer = accounts.issuer_named(issuer).await?
            && let Ok(keys) = web.fetch(&issuer).await
        {
            accounts.learn_keys(&issuer, &keys).await?;
            judged = accounts.evaluate_token(token).await?;
        }
        Ok(match judged {
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
        })
    }
}

impl AdminCommand for RoleAdd {
    const SPEC: CommandSpec =
        CommandSpec::changes("federation.role_add", "admin:role-add").replies("federation.roles");
    type Reply = Vec<RoleInfo>;

    fn target(&self) -> String {
        self.name.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Vec<RoleInfo>> {
        let accounts = admin.store.accounts();
        let (tenant, name) = split_tenant(&self.name)?;
        let trust = match (&self.issuer, &self.trust) {
            (Some(issuer), None) => {
                let issuer = accounts.issuer_named(issuer).await?;
                trust_of(issuer.name(), &self.claims)?
            }
            (None, Some(trust)) => trust.clone(),
            _ => return Err(invalid("a role needs an issuer or a trust policy")),
        };
        if let Some((root, _)) = name.split_once('/') {
            accounts.user_of(&tenant, root).await?;
        }
        let change = RoleChange {
            trust: Some(trust),
            description: self.description,
            max_session: self.max_session,
        };
        let role = accounts.make_role(&tenant, name, "/", change).await?;
        if let Some(policy) = &self.policy {
            let holder = holder(&tenant, name);
            let short = name.rsplit_once('/').map_or(name, |(_, short)| short);
            if let Err(error) = accounts.put_policy(&holder, short, policy).await {
                accounts.remove_role(&tenant, name).await?;
                return Err(error.into());
            }
        }
        let arn = arn_of(accounts, &tenant, &role).await?;
        let role = accounts.shown_role(role).await?;
        Ok(vec![info_of(role, arn)])
    }
}

impl AdminCommand for RoleList {
    const SPEC: CommandSpec =
        CommandSpec::reads("federation.role_list", "admin:role-list").replies("federation.roles");
    type Reply = Vec<RoleInfo>;

    async fn run(self, admin: &AdminContext) -> Result<Vec<RoleInfo>> {
        let accounts = admin.store.accounts();
        let tenant = tenant_named(self.tenant.as_deref().unwrap_or_default())?;
        let mut found = Vec::new();
        for arn in accounts.role_arns(&tenant).await? {
            found.push(role_info(accounts, &tenant, arn).await?);
        }
        Ok(found)
    }
}

impl AdminCommand for RoleRemove {
    const SPEC: CommandSpec =
        CommandSpec::changes("federation.role_remove", "admin:role-remove").replies(DONE);
    type Reply = Done;

    fn target(&self) -> String {
        self.name.clone()
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let accounts = admin.store.accounts();
        let (tenant, name) = split_tenant(&self.name)?;
        let holder = holder(&tenant, name);
        let (inline, attached) = accounts.policies_of(&holder).await?;
        for policy in inline.keys() {
            accounts.delete_policy(&holder, policy).await?;
        }
        for policy in &attached {
            accounts.detach_policy(&holder, policy).await?;
        }
        accounts.remove_role(&tenant, name).await?;
        Ok(Done::Done)
    }
}

impl AdminCommand for RevokeRequest {
    const SPEC: CommandSpec =
        CommandSpec::changes("federation.revoke", "admin:session-revoke").replies(DONE);
    type Reply = Done;

    fn target(&self) -> String {
        match self {
            Self::Session(key) => format!("session {key}"),
            Self::User(name) => format!("user {name}"),
            Self::Role(name) => format!("role {name}"),
            Self::Issuer(url) => format!("issuer {url}"),
        }
    }

    async fn run(self, admin: &AdminContext) -> Result<Done> {
        let what = match self {
            Self::Session(key) => RevokeTarget::Session(key),
            Self::User(name) => RevokeTarget::User(name),
            Self::Role(name) => RevokeTarget::Role(name),
            Self::Issuer(url) => RevokeTarget::Issuer(url),
        };
        admin.store.accounts().revoke(&what).await?;
        Ok(Done::Done)
    }
}

fn invalid(words: impl Into<String>) -> AdminError {
    AdminError::new(Failure::Invalid, words)
}

async fn issuers(accounts: &Accounts) -> Result<Vec<IssuerInfo>> {
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
    Ok(found)
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
