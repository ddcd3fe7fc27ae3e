//! Issuers of tokens, roles and sessions, as the admin socket speaks of them.

use dewar_auth::Secret;
use serde::{Deserialize, Serialize};

/// An issuer to let in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerAdd {
    /// Exactly what `iss` says.
    pub url: String,
    /// Whom its tokens may be for.
    pub audiences: Vec<String>,
    /// Where its keys are, if not where its metadata says.
    pub keys_url: Option<String>,
    /// Other origins that metadata and keys may be at.
    pub origins: Vec<String>,
    /// The tenant of its users.
    pub tenant: Option<String>,
    /// Where its capabilities lead: `/BUCKET/DIR`.
    pub base: Option<String>,
    /// Claim, value, user.
    pub users: Vec<(String, String, String)>,
    /// Claim, value, group.
    pub groups: Vec<(String, String, String)>,
    /// Let it in though it does not answer now.
    pub unreached: bool,
}

/// An issuer that was let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuerInfo {
    /// Exactly what `iss` says.
    pub url: String,
    /// As policies name it.
    pub name: String,
    /// Whom its tokens may be for.
    pub audiences: Vec<String>,
    /// Where its capabilities lead.
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
    /// Claim and value; of a claim that is named more than once one value is enough.
    pub claims: Vec<(String, String)>,
    /// A trust policy instead.
    pub trust: Option<String>,
    /// What it may do.
    pub policy: Option<String>,
    /// Longest session in seconds.
    pub max_session: Option<u32>,
    /// What people wrote about it.
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
    /// Who may become it.
    pub trust: String,
}

/// What a token would become.
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
    /// Whom it speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When it ends, seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Who it is here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether that is a user of this deployment.
    pub local: bool,
    /// Groups by the issuer's rules.
    pub groups: Vec<String>,
    /// Capabilities, as the token has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<String>,
    /// What they are relative to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Roles that its bearer may become.
    pub roles: Vec<String>,
    /// What rules and trust policies can look at: claims with their values.
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

/// What an administrator asks about who comes from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FederationRequest {
    /// Let an issuer in; its keys are fetched first.
    IssuerAdd(IssuerAdd),
    /// The issuers.
    IssuerList {},
    /// Do not let an issuer in any more.
    IssuerRemove {
        /// Its address or name.
        url: String,
    },
    /// Switch an issuer off or on.
    IssuerSet {
        /// Its address or name.
        url: String,
        /// Off, or on.
        disabled: bool,
    },
    /// What would a token become?
    TokenTest {
        /// The token.
        #[serde(with = "super::secret_text")]
        token: Secret,
    },
    /// Make a role.
    RoleAdd(RoleAdd),
    /// The roles of a tenant.
    RoleList {
        /// Which; the default one if absent.
        tenant: Option<String>,
    },
    /// Remove a role with its policies.
    RoleRemove {
        /// `[TENANT:]NAME`.
        name: String,
    },
    /// End sessions.
    Revoke(RevokeRequest),
}

/// What is replied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FederationReply {
    /// It is done.
    Done,
    /// Issuers, by address.
    Issuers(Vec<IssuerInfo>),
    /// What a token would become.
    Token(Box<TokenInfo>),
    /// Roles, by name.
    Roles(Vec<RoleInfo>),
}
