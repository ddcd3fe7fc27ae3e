//! Bearer tokens: from a proven token to a caller, for every door.
//!
//! A token that brings capabilities acts within its issuer's base and within the capabilities; its
//! groups do not count (WLCG profile 1.3, "Interpretation of authorization"). One without acts as
//! what the issuer's rules make of it. Either way bucket policies have their say, and what denies
//! denies.

use std::sync::Arc;

use dewar_auth::token::{BasePath, Issuer, MappingTarget, SKEW_SECS, TokenError, VerifiedToken};
use dewar_auth::{
    Bounds, Caller, CredentialError, IDENTITY_POLICY_BYTES_MAX, Limit, Origin, Policy, PolicyKind,
    User, UserKind, UserPolicies, UserPolicy,
};
use dewar_catalog::keys as catalog;
use dewar_types::{Error, ErrorKind, Result, Timestamp, UserId};

use super::policies::PolicyCollection;
use super::{Accounts, PolicyHolderKind, refused};
use crate::cache::{AccountScope, CachedBearer, LastUse};
use crate::claims::{ClaimLimits, ClaimRank, SelectedClaims, claims_of, keep};
use crate::names::{folded, is_of};
use crate::record::{GROUP, GroupRecord};
use crate::token_digest::{Digest, digest_of, token_name};

/// The identity that a token maps to, and the reasons why it is not another.
#[derive(Clone, Debug)]
pub struct MappedIdentity {
    /// The issuer.
    pub issuer: Arc<Issuer>,
    /// The verified token.
    pub token: VerifiedToken,
    /// The user that the token maps to.
    pub user: Arc<User>,
    /// Local groups that it is in by the issuer's rules.
    pub groups: Vec<String>,
    /// Accounts by whose records it was decided.
    pub(super) scopes: Vec<AccountScope>,
}

/// Whether secrets may come over this wire: TLS, or this machine itself.
pub(super) fn check_wire(origin: Origin) -> Result<()> {
    if origin.is_confidential() {
        return Ok(());
    }
    Err(refused(
        CredentialError::Clear,
        "tokens are taken over TLS only, or from this machine",
    ))
}

/// What a front may tell of a token that is not taken. What is wrong inside it is its bearer's to
/// know.
pub(super) fn not_taken(error: TokenError) -> Error {
    let why = match &error {
        TokenError::Expired(_) => CredentialError::Expired,
        TokenError::NoKeys(..) | TokenError::UnknownKey { .. } => CredentialError::Unreachable,
        _ => CredentialError::Invalid,
    };
    refused(why, error.to_string())
}

impl Accounts {
    pub(super) async fn bearer_of(&self, token: &str, origin: Origin) -> Result<Caller> {
        let digest = digest_of(token);
        let found = self.bearer_proven(token, digest, origin).await;
        if let Err(error) = &found {
            let (named, why) = (token_name(&digest), error.to_string());
            self.authorizer
                .record_refused_login(origin, "token", Some(&named), &why);
        }
        found
    }

    async fn bearer_proven(&self, token: &str, digest: Digest, origin: Origin) -> Result<Caller> {
        check_wire(origin)?;
        let now = self.catalog.env().clock.now();
        let (changes, found) = {
            let cache = self.cache.read();
            (cache.changes, cache.bearers.get(&digest).cloned())
        };
        if let Some(found) = found {
            // Other clocks are not quite like this one; what was given here ends by this one.
            let skew = match found.bounds.session {
                None => SKEW_SECS.unsigned_abs(),
                Some(_) => 0,
            };
            let ends = found.bounds.expires.secs().saturating_add(skew);
            if now.secs() >= ends {
                let removed = self.cache.write().bearers.remove(&digest);
                drop(removed);
                return Err(refused(CredentialError::Expired, "the token has expired"));
            }
            found.last_use.note(now);
            return Ok(Caller::by_token(found.user, found.bounds, origin));
        }
        let (bearer, said) = self.bearer_new(token, &token_name(&digest)).await?;
        let (user, bounds) = (Arc::clone(&bearer.user), Arc::clone(&bearer.bounds));
        let caller = Caller::by_token(user, bounds, origin);
        self.authorizer.record_login(&caller, "token", said);
        let may_cache = self.compiled.may_cache();
        let mut cache = self.cache.write();
        if may_cache && cache.holds(changes, &bearer.scopes, None) {
            cache.bearers.insert(digest, bearer, token.len());
        }
        drop(cache);
        Ok(caller)
    }

    /// Proves a token that was not seen lately, and says who vouches for it.
    async fn bearer_new(&self, token: &str, named: &str) -> Result<(CachedBearer, String)> {
        // No signed token is without dots.
        if !token.contains('.') {
            let (user, bounds, scopes) = self.macaroon_bearer(token).await?;
            let bearer = CachedBearer {
                user: Arc::new(user),
                bounds: Arc::new(bounds),
                scopes: scopes.into(),
                last_use: LastUse::at(self.catalog.env().clock.now()),
            };
            return Ok((bearer, "a macaroon".to_owned()));
        }
        let (issuer, token) = self.prove(token).await?.map_err(not_taken)?;
        let said = format!("{} vouches for {}", issuer.url, token.subject);
        let becoming = self.map_identity(issuer, token).await?;
        let bearer = CachedBearer {
            bounds: Arc::new(bounds_of(&becoming, named)?),
            scopes: becoming.scopes.into(),
            user: becoming.user,
            last_use: LastUse::at(self.catalog.env().clock.now()),
        };
        Ok((bearer, said))
    }

    /// Maps a token to a user: [`MappedIdentity`], or the reason of the refusal.
    ///
    /// # Errors
    /// The outer ones are those of the catalog and of rules that lead nowhere.
    pub async fn evaluate_token(
        &self,
        token: &str,
    ) -> Result<std::result::Result<MappedIdentity, TokenError>> {
        match self.prove(token).await? {
            Ok((issuer, token)) => Ok(Ok(self.map_identity(issuer, token).await?)),
            Err(error) => Ok(Err(error)),
        }
    }

    pub(super) async fn map_identity(
        &self,
        issuer: Arc<Issuer>,
        token: VerifiedToken,
    ) -> Result<MappedIdentity> {
        let fitting = || issuer.rules.iter().filter(|rule| rule.fits(&token.claims));
        let named = fitting().find_map(|rule| match &rule.becomes {
            MappingTarget::User(name) => Some(name.clone()),
            MappingTarget::Group(_) => None,
        });
        let mut groups = Vec::new();
        if token.capabilities.is_none() {
            for rule in fitting() {
                if let MappingTarget::Group(name) = &rule.becomes
                    && !groups.contains(name)
                {
                    groups.push(name.clone());
                }
            }
        }
        let local = match named {
            Some(name) => Some(self.user_with_scopes(&name).await.map_err(|error| {
                if let ErrorKind::Busy(_) = error.kind() {
                    return error;
                }
                let words = format!("the token becomes user {name}, but {}", error.message());
                refused(CredentialError::Invalid, words)
            })?),
            None => None,
        };
        let nobody_here = || (federated(&issuer, &token), Vec::new());
        let (mut user, scopes) = local.unwrap_or_else(nobody_here);
        if user.disabled || self.is_account_disabled(&user).await? {
            let words = format!(
                "the token maps to user {}, and this user is disabled",
                user.name
            );
            return Err(refused(CredentialError::Invalid, words));
        }
        let mut policies = PolicyCollection {
            account: user.account,
            policies: user.policies.iter().cloned().collect(),
            scopes: scopes.into_iter().collect(),
        };
        let tenant = self.tenant_id(&issuer.tenant).await?;
        for name in &groups {
            let key = catalog::identity(GROUP, tenant, &folded(name));
            let group = self.read::<GroupRecord>(&key).await?;
            let group = group.filter(|group| is_of(&group.name, name));
            let group = group.ok_or_else(|| {
                let words = format!("the token becomes one of group {name}, which is not there");
                refused(CredentialError::Invalid, words)
            })?;
            let kind = PolicyHolderKind::Group;
            self.collect(&mut policies, kind, tenant, &group.name, &group.held)
                .await?;
        }
        if token.capabilities.is_some()
            && let Some(base) = &issuer.base
        {
            policies.policies.push(UserPolicy {
                source: format!("issuer {}", issuer.url).into(),
                policy: Arc::new(base_policy(base)?),
                tenant_wide: true,
            });
        }
        user.policies = UserPolicies::new(policies.policies);
        Ok(MappedIdentity {
            user: Arc::new(user),
            issuer,
            token,
            groups,
            scopes: policies.scopes.into_iter().collect(),
        })
    }

    /// Whether the account that a user belongs to is switched off, and all of it with it.
    pub(super) async fn is_account_disabled(&self, user: &User) -> Result<bool> {
        if user.account == user.id || user.kind != UserKind::Local {
            return Ok(false);
        }
        let root = self.user_by_id(user.account).await?;
        Ok(root.is_none_or(|root| root.disabled))
    }
}

/// Somebody who is no user here. What such a one makes belongs to the issuer.
fn federated(issuer: &Issuer, token: &VerifiedToken) -> User {
    let name = format!("{}@{}", token.subject, issuer.name());
    let id = UserId(issuer.id);
    User {
        kind: UserKind::Federated {
            provider: issuer.name().into(),
            subject: token.subject.as_str().into(),
        },
        ..User::new(id, &name, issuer.tenant.clone(), Timestamp::default())
    }
}

/// What an issuer's capabilities are cut out of: everything at and below its base.
fn base_policy(base: &BasePath) -> Result<Policy> {
    let tenant = base.tenant.as_str();
    let resources: Vec<String> = if base.path.is_empty() {
        vec![format!("arn:aws:s3::{tenant}:*")]
    } else {
        let path = base.path.join("/");
        let bucket = &base.path[0];
        vec![
            format!("arn:aws:s3::{tenant}:{bucket}"),
            format!("arn:aws:s3::{tenant}:{path}"),
            format!("arn:aws:s3::{tenant}:{path}/*"),
        ]
    };
    let text = policy_text(&resources);
    Policy::parse(&text, PolicyKind::Identity, IDENTITY_POLICY_BYTES_MAX)
        .map_err(|error| Error::with_source(ErrorKind::Corrupt, "the base of an issuer", error))
}

fn policy_text(resources: &[String]) -> String {
    let quoted = resources.iter().map(|text| {
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{escaped}\"")
    });
    let list = quoted.collect::<Vec<_>>().join(",");
    format!(
        "{{\"Version\":\"2012-10-17\",\"Statement\":[{{\"Sid\":\"Base\",\"Effect\":\"Allow\",\
         \"Action\":\"s3:*\",\"Resource\":[{list}]}}]}}"
    )
}

/// What a token narrows its bearer to, and what it says.
pub(super) fn bounds_of(becoming: &MappedIdentity, credential: &str) -> Result<Bounds> {
    let (issuer, token) = (&becoming.issuer, &becoming.token);
    let capabilities = token.capabilities.clone();
    let limit = capabilities.map(|all| Limit::Capabilities(Arc::new(all)));
    let SelectedClaims { claims, unkept } = claims_in_memory(issuer, token)?;
    Ok(Bounds {
        credential: credential.into(),
        expires: token.expires,
        provider: Some(issuer.name().into()),
        claims,
        unkept,
        limits: limit.into_iter().collect(),
        ..Bounds::default()
    })
}

/// The claims of a token, for whoever comes with the token itself.
pub(super) fn claims_in_memory(issuer: &Issuer, token: &VerifiedToken) -> Result<SelectedClaims> {
    let (claims, limits) = (claims_of(&token.claims), ClaimLimits::IN_MEMORY);
    let rank_of = |_: &str| ClaimRank::Unnamed;
    keep(issuer.name(), claims, Vec::new(), rank_of, limits)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn secrets_come_over_tls_or_from_this_machine() {
        let from = |address: &str, secure| {
            let address: Option<IpAddr> = address.parse().ok();
            check_wire(Origin { address, secure }).is_ok()
        };
        assert!(from("192.0.2.1", true));
        assert!(from("127.0.0.1", false));
        assert!(from("::1", false));
        assert!(from("::ffff:127.0.0.1", false));
        assert!(from("a unix socket", false));
        assert!(!from("192.0.2.1", false));
        assert!(!from("::ffff:192.0.2.1", false));
    }

    #[test]
    fn the_base_of_an_issuer_ends_where_it_says() {
        let base = BasePath::parse("/atlas/data").expect("a base");
        let policy = base_policy(&base).expect("a policy");
        assert_eq!(policy.statements(), 1);
        let odd = BasePath::parse("/atlas/with \"quotes\" and \\").expect("a base");
        base_policy(&odd).expect("a policy");
        assert!(BasePath::parse("/atlas/*").is_none());
    }
}
