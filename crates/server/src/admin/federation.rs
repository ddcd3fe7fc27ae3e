//! Issuers of tokens, roles and sessions in the admin API.

use dewar_auth::Secret;
use serde::{Deserialize, Serialize};

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

/// A request about issuers, roles or sessions.
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
    /// Test a token: its user and rights here.
    TokenTest {
        /// The token.
        #[serde(with = "super::secret_text")]
        token: Secret,
    },
    /// Make a role.
    RoleAdd(RoleAdd),
    /// The roles of a tenant.
    RoleList {
        /// The tenant; the default one if absent.
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

/// The reply to such a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FederationReply {
    /// It is done.
    Done,
    /// Issuers, by address.
    Issuers(Vec<IssuerInfo>),
    /// The user and rights of a token.
    Token(Box<TokenInfo>),
    /// Roles, by name.
    Roles(Vec<RoleInfo>),
}
