//! Bearer tokens: claims about the caller that an issuer has signed (RFC 7519, WLCG common JWT
//! profile 1.3, SciTokens 2.0).
//!
//! # Order of a check
//! The token is parsed. Its issuer is looked up by the exact text of `iss`, before any other claim
//! is used. Its signature is verified with a key of that issuer alone. Audience and times are
//! checked last. Only then does a [`VerifiedToken`] exist, and rules map it to a user. This module does not
//! fetch or cache keys: a check never waits.
//!
//! | module | content |
//! |---|---|
//! | `jws` | the three parts, the closed list of algorithms |
//! | `keys` | an issuer's published keys |
//! | `claims` | the claims of a token |
//! | `capability` | `storage.*` scopes, which restrict the bearer |
//! | `issuer` | configured issuers and their mapping rules |

mod capability;
mod claims;
mod issuer;
mod jws;
mod keys;
#[cfg(test)]
mod tests;

use std::time::Duration;

use dewar_types::Timestamp;
use thiserror::Error;

pub(crate) use capability::covers_listing;
pub use capability::{Capabilities, CapabilityDecision, Right};
pub use claims::Claims;
pub use issuer::{
    BasePath, Issuer, MappingRule, MappingTarget, audience, check_url, is_loopback, origin_of,
    provider_name,
};
pub use jws::{Algorithm, Jws, TOKEN_BYTES_MAX};
pub use keys::{KEY_SET_BYTES_MAX, KeySet};

/// How far the clocks of issuers may be off, in seconds.
pub const SKEW_SECS: i64 = 60;

/// The audience for every storage of WLCG. It is accepted if the issuer's entry lists it.
pub const ANY_WLCG: &str = "https://wlcg.cern.ch/jwt/v1/any";

/// Default limit on the lifetime of a token, from `iat` to `exp`.
pub const LIFETIME_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Longest subject in bytes.
const SUBJECT_BYTES_MAX: usize = 512;

/// The reason why a token is refused. It contains no token and no part of a signature.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TokenError {
    /// No token, or one that cannot be read.
    #[error("not a token: {0}")]
    Malformed(&'static str),
    /// Signed in a way that is not allowed.
    #[error("the token is signed with {0:?}; RS256, ES256 and their longer siblings are allowed")]
    Algorithm(String),
    /// From an issuer that is not configured, or that is switched off.
    #[error("the token's issuer {0:?} is not known here")]
    UnknownIssuer(String),
    /// Signed with a key that the issuer does not publish.
    #[error("the issuer {issuer} has no key {key:?}")]
    UnknownKey {
        /// The issuer.
        issuer: String,
        /// The key's name; empty if the token has none.
        key: String,
    },
    /// The keys of the issuer cannot be had, or are too old.
    #[error("the keys of issuer {0} are not there: {1}")]
    NoKeys(String, String),
    /// Not signed by the key that it names.
    #[error("the signature is not the issuer's")]
    Signature,
    /// A claim that must be there is not.
    #[error("the token has no {0}")]
    Missing(&'static str),
    /// Not for this service.
    #[error("the token is for {found:?}, not for {wanted:?}")]
    Audience {
        /// The audiences of the token.
        found: Vec<String>,
        /// The expected audiences.
        wanted: Vec<String>,
    },
    /// Over.
    #[error("the token expired {0} seconds ago")]
    Expired(i64),
    /// Not yet.
    #[error("the token is valid in {0} seconds")]
    Early(i64),
    /// Good for longer than is allowed, from `iat` to `exp`.
    #[error(
        "the token is good for {found} s from its iat to its exp, and {most} s are allowed \
         (security.token_lifetime_max)"
    )]
    Lifetime {
        /// Seconds.
        found: i64,
        /// Seconds that are allowed.
        most: u64,
    },
    /// Something in it that is of no known kind: a version, a purpose.
    #[error("{0}")]
    Unfit(String),
    /// A capability that cannot be.
    #[error("a scope cannot be: {0}")]
    Scope(String),
    /// The published keys of an issuer are not a key set.
    #[error("{0}")]
    Keys(&'static str),
}

impl TokenError {
    /// Whether it is only that its time is over.
    #[must_use]
    pub fn is_expiry(&self) -> bool {
        matches!(self, Self::Expired(_))
    }
}

/// A verified token: it is from its issuer, for this service and valid now.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedToken {
    /// The subject of the token.
    pub subject: String,
    /// When it ends, without any skew.
    pub expires: Timestamp,
    /// Everything that it says.
    pub claims: Claims,
    /// The scopes that restrict the bearer. Without any, groups decide.
    pub capabilities: Option<Capabilities>,
}

/// The issuer that a token claims, to find its keys. It is not verified.
///
/// # Errors
/// [`TokenError::Malformed`], [`TokenError::Missing`].
pub fn claimed_issuer(jws: &Jws<'_>) -> Result<String, TokenError> {
    let claims = Claims::parse(&jws.payload)?;
    let issuer = claims.text("iss").ok_or(TokenError::Missing("iss"))?;
    if issuer.len() > 1024 {
        return Err(TokenError::Malformed("its iss is longer than 1024 bytes"));
    }
    Ok(issuer.to_owned())
}

/// Checks a token against its issuer and the issuer's keys. Its lifetime may be at most
/// `lifetime_max`.
///
/// # Errors
/// [`TokenError`]: the first error, in the order of the module's page.
pub fn check(
    jws: &Jws<'_>,
    issuer: &Issuer,
    keys: &KeySet,
    lifetime_max: Duration,
    now: Timestamp,
) -> Result<VerifiedToken, TokenError> {
    let key_id = jws.key_id.as_deref();
    if !keys.has(key_id) {
        return Err(TokenError::UnknownKey {
            issuer: issuer.url.clone(),
            key: key_id.unwrap_or_default().to_owned(),
        });
    }
    if !keys.verifies(key_id, jws.algorithm, jws.message, &jws.signature) {
        return Err(TokenError::Signature);
    }
    let claims = Claims::parse(&jws.payload)?;
    if claims.text("iss") != Some(issuer.url.as_str()) {
        return Err(TokenError::UnknownIssuer(
            claims.text("iss").unwrap_or_default().to_owned(),
        ));
    }
    check_audience(&claims, issuer)?;
    let expires = check_times(&claims, lifetime_max, now)?;
    check_purpose(&claims)?;
    let subject = claims.text("sub").ok_or(TokenError::Missing(
        "sub (Keycloak leaves it out without its client scope \"basic\")",
    ))?;
    if subject.is_empty() || subject.len() > SUBJECT_BYTES_MAX {
        return Err(TokenError::Unfit(
            "its sub is empty or longer than 512 bytes".into(),
        ));
    }
    let scitoken = check_version(&claims)?;
    // Without a base a capability gives nothing, but it still narrows.
    let nowhere = BasePath::default();
    let base = issuer.base.as_ref().unwrap_or(&nowhere);
    let scope = match claims.values("scope") {
        words if words.is_empty() => claims.values("scp").join(" "),
        words => words.join(" "),
    };
    Ok(VerifiedToken {
        subject: subject.to_owned(),
        expires,
        capabilities: Capabilities::parse(&scope, base, scitoken)?,
        claims,
    })
}

fn check_audience(claims: &Claims, issuer: &Issuer) -> Result<(), TokenError> {
    let found = claims.values("aud");
    if found.is_empty() {
        return Err(TokenError::Missing("aud"));
    }
    let ours = |text: &str| {
        issuer
            .audiences
            .iter()
            .any(|wanted| audience(wanted) == audience(text))
    };
    if found.iter().any(|text| ours(text)) {
        return Ok(());
    }
    Err(TokenError::Audience {
        found: found.into_iter().take(8).map(Into::into).collect(),
        wanted: issuer.audiences.clone(),
    })
}

fn check_times(
    claims: &Claims,
    lifetime_max: Duration,
    now: Timestamp,
) -> Result<Timestamp, TokenError> {
    let now = i64::try_from(now.secs()).unwrap_or(i64::MAX);
    let expires = claims.seconds("exp").ok_or(TokenError::Missing("exp"))?;
    if now >= expires.saturating_add(SKEW_SECS) {
        return Err(TokenError::Expired(now.saturating_sub(expires)));
    }
    let issued = claims.seconds("iat").ok_or(TokenError::Missing("iat"))?;
    for begins in claims.seconds("nbf").into_iter().chain([issued]) {
        if begins.saturating_sub(SKEW_SECS) > now {
            return Err(TokenError::Early(begins.saturating_sub(now)));
        }
    }
    let lifetime = expires.saturating_sub(issued);
    if lifetime > i64::try_from(lifetime_max.as_secs()).unwrap_or(i64::MAX) {
        return Err(TokenError::Lifetime {
            found: lifetime,
            most: lifetime_max.as_secs(),
        });
    }
    Ok(Timestamp::from_secs(
        u64::try_from(expires).unwrap_or_default(),
    ))
}

/// Issuers sign other documents with the same keys, and some of those have an audience. This check
/// refuses them.
fn check_purpose(claims: &Claims) -> Result<(), TokenError> {
    if claims.get("events").is_some() {
        return Err(TokenError::Unfit(
            "it tells of an event and is nobody's credential".into(),
        ));
    }
    match claims.text("typ") {
        Some(kind @ ("Refresh" | "Offline" | "Logout")) => Err(TokenError::Unfit(format!(
            "it is a {kind} token, not one for access"
        ))),
        _ => Ok(()),
    }
}

/// Whether it is a SciToken; versions that are not known are refused.
fn check_version(claims: &Claims) -> Result<bool, TokenError> {
    if let Some(version) = claims.get("wlcg.ver") {
        let major = version.as_str().and_then(|text| text.split('.').next());
        if major != Some("1") {
            return Err(TokenError::Unfit(format!(
                "its wlcg.ver is {version}, not 1.x"
            )));
        }
        return Ok(false);
    }
    let version = claims.text("ver").unwrap_or_default();
    match version.split_once(':') {
        Some(("scitoken" | "scitokens", "1.0" | "2.0")) => Ok(true),
        Some(("scitoken" | "scitokens", other)) => Err(TokenError::Unfit(format!(
            "its SciTokens version is {other:?}"
        ))),
        _ => Ok(false),
    }
}
