//! Sessions: from a token to a key, and revoking them.
//!
//! A session that was revoked, or whose role, user, parent or issuer was, does not come back:
//! revoking writes down the moment, and whatever was given up to then does not count. Records of
//! that are dropped once no session can be that old.

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_auth::token::{BasePath, Capabilities};
use dewar_auth::{
    ALL_CLAIMS_OMITTED, AccessKey, Bounds, CredentialError, Limit, SESSION_KEY_PREFIX, Session,
    SessionKind, TokenFacts, User, UserKind, UserPolicies,
};
use dewar_catalog::keys as catalog;
use dewar_kv::{Batch, CommitError};
use dewar_types::{Error, ErrorKind, Result, TenantName, Timestamp, UserId};

use super::policies::PolicyCollection;
use super::{Accounts, PolicyHolderKind, refused};
use crate::cache::{AccountScope, CachedSession, CachedUser, LastUse};
use crate::compiled_policies::PolicyOwner;
use crate::names::{folded, is_of};
use crate::record::{REVOKED, ROLE, RevokedRecord, RoleRecord, decode, encode};
use crate::token_digest::digest_of;

/// For how long revoking is remembered: sessions last half a day, chains of them some hours more.
const REMEMBERED_SECS: u64 = 7 * 24 * 3600;

/// The sessions or tokens that are revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevokeTarget {
    /// One session, by its access key.
    Session(String),
    /// All sessions of a user, `[TENANT:]NAME`, and all that came from them.
    User(String),
    /// All sessions of a role, `[TENANT:]NAME`, and all that came from them.
    Role(String),
    /// All sessions that came from an issuer's tokens.
    Issuer(String),
}

fn over(words: &str) -> Error {
    refused(CredentialError::Invalid, words)
}

impl Accounts {
    pub(super) async fn open_session(&self, token: &str) -> Result<AccessKey> {
        let digest = digest_of(token);
        let now = self.catalog.env().clock.now();
        let (changes, found) = {
            let cache = self.cache.read();
            (cache.changes, cache.sessions.get(&digest).cloned())
        };
        if let Some(found) = found {
            if now >= found.expires {
                let removed = self.cache.write().sessions.remove(&digest);
                drop(removed);
                return Err(expired());
            }
            found.last_use.note(now);
            return Ok(found.key);
        }
        let session = Session::open(&self.master, token)
            .map_err(|error| refused(CredentialError::Invalid, error.to_string()))?;
        if session.kind.is_some() {
            return Err(over("what a macaroon stands for signs nothing"));
        }
        if now >= session.expires {
            return Err(expired());
        }
        self.check_revoked(&session).await?;
        let (user, scopes) = self.speaks_for(&session).await?;
        let bounds = self.session_bounds(&session, &user).await?;
        let expires = session.expires;
        let revision = u64::from_be_bytes(digest[..8].try_into().unwrap_or_default());
        let key = AccessKey {
            id: session.access_key.as_str().into(),
            secret: session.secret(),
            revision,
            user: Arc::new(user),
            bounds: Some(Arc::new(Bounds {
                session: Some(Arc::new(session)),
                ..bounds
            })),
        };
        let may_cache = self.compiled.may_cache();
        let mut cache = self.cache.write();
        if may_cache && cache.holds(changes, &scopes, None) {
            let cached = CachedSession {
                key: key.clone(),
                expires,
                scopes: scopes.into(),
                last_use: LastUse::at(now),
            };
            cache.put_session(digest, cached);
        }
        drop(cache);
        Ok(key)
    }

    /// The user or role that a session speaks for, with its policies as they are now; and the accounts
    /// by whose records that was decided, its own first.
    pub(super) async fn speaks_for(&self, session: &Session) -> Result<(User, Vec<AccountScope>)> {
        let (user, mut scopes) = self.spoken_for(session).await?;
        for parent in session.parents.iter().filter(|one| one.session.is_none()) {
            // Whether it is switched off is asked together with what is revoked.
            if let Some(user) = self.user_by_id(parent.id).await? {
                scopes.push(AccountScope::of_user(&user.name));
            }
        }
        Ok((user, scopes))
    }

    async fn spoken_for(&self, session: &Session) -> Result<(User, Vec<AccountScope>)> {
        if session.kind == Some(SessionKind::MacaroonOfLogin) {
            let facts = session.token.as_ref();
            let facts = facts.ok_or_else(|| over("the macaroon cannot be read"))?;
            return self.login_again(facts, session.expires).await;
        }
        let became = &session.became;
        let gone = || over("what the session speaks for is not there any more");
        let Some(name) = &became.session else {
            let cached = self.cached_user(UserId(became.id)).await?;
            let CachedUser { user, scopes, .. } = cached.ok_or_else(gone)?;
            if user.disabled || self.is_account_disabled(&user).await? {
                return Err(gone());
            }
            // Its own account first.
            let own = AccountScope::of_user(&user.name);
            let scopes = std::iter::once(own).chain(scopes.iter().cloned());
            return Ok(((*user).clone(), scopes.collect()));
        };
        let tenant = TenantName::new(&became.tenant)?;
        let user = self
            .as_role_with_scopes(&tenant, &became.name, name)
            .await?;
        let same = user.filter(|(user, _)| user.id.0 == became.id);
        same.ok_or_else(gone)
    }

    /// Somebody who has become a role; `None` where there is no such role, or its account is
    /// switched off.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn as_role(
        &self,
        tenant_name: &TenantName,
        name: &str,
        session: &str,
    ) -> Result<Option<User>> {
        let found = self.as_role_with_scopes(tenant_name, name, session).await?;
        Ok(found.map(|(user, _)| user))
    }

    /// The same with the accounts by whose records that was decided, its own first.
    async fn as_role_with_scopes(
        &self,
        tenant_name: &TenantName,
        name: &str,
        session: &str,
    ) -> Result<Option<(User, Vec<AccountScope>)>> {
        let tenant = match self.tenant_id(tenant_name).await {
            Ok(tenant) => tenant,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let key = catalog::identity(ROLE, tenant, &folded(name));
        let found = self.read::<RoleRecord>(&key).await?;
        let Some(role) = found.filter(|role| is_of(&role.name, name)) else {
            return Ok(None);
        };
        let id = UserId(role.id);
        let account = match role.name.split_once('/') {
            None => id,
            Some((root, _)) => match self.user_in(tenant, root).await {
                Ok(root) if !root.disabled => root.id,
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        let mut policies = PolicyCollection::of(account);
        let kind = PolicyHolderKind::Role;
        self.collect(&mut policies, kind, tenant, &role.name, &role.held)
            .await?;
        let own = AccountScope::of_entity(&role.name);
        let scopes = std::iter::once(own).chain(policies.scopes).collect();
        let user = User {
            account,
            path: role.path,
            policies: UserPolicies::new(policies.policies),
            kind: UserKind::Role {
                session: session.into(),
            },
            ..User::new(id, &role.name, tenant_name.clone(), role.created)
        };
        Ok(Some((user, scopes)))
    }

    /// What a session of a user or role is held to.
    pub(super) async fn session_bounds(&self, session: &Session, user: &User) -> Result<Bounds> {
        let mut limits = Vec::new();
        for text in &session.policies {
            let policy = self.compiled.get(PolicyOwner::Account(user.account), text);
            let policy = policy.map_err(|error| match error.kind() {
                ErrorKind::Busy(_) => error,
                _ => over("a policy of the session cannot be read"),
            })?;
            limits.push(Limit::Policy {
                source: "the session's policy".into(),
                policy,
            });
        }
        if session.became.session.is_none() {
            limits.push(Limit::NoIam);
        }
        let (mut provider, mut own_provider) = (None, false);
        let (mut claims, mut unkept) = (Vec::new(), Vec::new());
        if let Some(facts) = &session.token {
            let issuer = self.voucher(facts.issuer).await?;
            let Some(issuer) = issuer.filter(|issuer| issuer.url == facts.url) else {
                return Err(over(
                    "the issuer that the session came from is not let in any more",
                ));
            };
            provider = Some(issuer.name().into());
            let issuers = self.issuers().await?;
            own_provider = issuers.values().all(|server| server.id != issuer.id);
            claims.clone_from(&facts.claims);
            // A session of a release that did not say what it left out may have left out anything.
            let all = || vec![ALL_CLAIMS_OMITTED.to_owned()];
            unkept = facts.unkept.clone().unwrap_or_else(all);
            if let Some(capabilities) = capabilities_of(facts)? {
                limits.push(Limit::Capabilities(Arc::new(capabilities)));
            }
        }
        Ok(Bounds {
            credential: format!("session:{}", session.access_key).into(),
            expires: session.expires,
            provider,
            own_provider,
            claims,
            unkept,
            tags: session.tags.clone(),
            tag_keys: self.federation_config().session_tag_keys,
            limits,
            ..Bounds::default()
        })
    }

    /// Refuses a session that was revoked, itself or by what it comes from.
    pub(super) async fn check_revoked(&self, session: &Session) -> Result<()> {
        let revoked = self.revoked().await?;
        let hit = |key: String, issued: Timestamp| {
            revoked.get(&key).is_some_and(|until| issued <= *until)
        };
        let mut found = hit(session_key(&session.access_key), session.issued)
            || hit(id_key(session.became.id), session.issued);
        if let Some(facts) = &session.token {
            found |= hit(issuer_key(facts.issuer), session.issued);
        }
        for parent in &session.parents {
            // A key does not end, but revoking its user's sessions means those made with it, too.
            let issued = parent.issued.unwrap_or(session.issued);
            found |= hit(id_key(parent.id.0), issued);
            if let Some(issuer) = parent.issuer {
                let voucher = self.voucher(issuer).await?;
                found |= hit(issuer_key(issuer), issued) || voucher.is_none();
            }
            match &parent.session {
                Some(key) => found |= hit(session_key(key), issued),
                None => {
                    let user = self.user_by_id(parent.id).await?;
                    found |= user.is_none_or(|user| user.disabled);
                }
            }
        }
        match found {
            true => Err(over("the session was revoked")),
            false => Ok(()),
        }
    }

    async fn revoked(&self) -> Result<Arc<BTreeMap<String, Timestamp>>> {
        let changes = {
            let cache = self.cache.read();
            if let Some(revoked) = &cache.revoked {
                return Ok(Arc::clone(revoked));
            }
            cache.changes
        };
        let mut found = BTreeMap::new();
        for (key, value) in self.all(&revoked_range()).await? {
            let record: RevokedRecord = decode(&value)?;
            found.insert(String::from_utf8_lossy(&key[2..]).into_owned(), record.at);
        }
        let found = Arc::new(found);
        let mut cache = self.cache.write();
        if cache.holds(changes, &[], None) {
            cache.revoked = Some(Arc::clone(&found));
        }
        Ok(found)
    }

    /// Ends sessions: those that were given up to now.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] for a user, role or issuer that there is not;
    /// [`ErrorKind::InvalidArgument`] for what is no session's access key.
    pub async fn revoke(&self, what: &RevokeTarget) -> Result<()> {
        let keys = match what {
            RevokeTarget::Session(key)
                if key.starts_with(SESSION_KEY_PREFIX) && key.len() == 20 =>
            {
                vec![session_key(key)]
            }
            RevokeTarget::Session(key) => {
                let message = format!("{key:?} is no access key of a session");
                return Err(Error::new(ErrorKind::InvalidArgument, message));
            }
            RevokeTarget::User(name) => vec![id_key(self.user(name).await?.id.0)],
            RevokeTarget::Role(name) => {
                let (tenant, name) = crate::names::designation(name)?;
                vec![id_key(self.role(&tenant, name).await?.id)]
            }
            RevokeTarget::Issuer(url) => {
                // Providers that accounts let in for themselves under the same name mean the same.
                let mut ids = self.provider_ids(url).await?;
                match self.issuer_named(url).await {
                    Ok(issuer) => ids.push(issuer.id),
                    Err(error) if error.kind() == ErrorKind::NotFound && !ids.is_empty() => {}
                    Err(error) => return Err(error),
                }
                ids.into_iter().map(issuer_key).collect()
            }
        };
        let now = self.catalog.env().clock.now();
        let mut batch = Batch {
            puts: keys
                .iter()
                .map(|key| {
                    let record = encode(&RevokedRecord { at: now });
                    (catalog::user_by(REVOKED, key.as_bytes()), record)
                })
                .collect(),
            ..Batch::default()
        };
        for (old, value) in self.all(&revoked_range()).await? {
            let record: RevokedRecord = decode(&value)?;
            if record.at.secs().saturating_add(REMEMBERED_SECS) < now.secs()
                && !keys.iter().any(|key| old[2..] == *key.as_bytes())
            {
                batch.deletes.push(old);
            }
        }
        match self.commit(batch).await {
            Ok(_) => Ok(()),
            Err(CommitError::Conflict(_)) => Err(Error::new(
                ErrorKind::Conflict,
                "revoking collided with another change: say it again",
            )),
            Err(CommitError::Failed(error)) => Err(error.context("revoking sessions")),
        }
    }
}

/// The capabilities of a login token, as they are kept.
pub(super) fn capabilities_of(facts: &TokenFacts) -> Result<Option<Capabilities>> {
    let Some((scope, base)) = &facts.scope else {
        return Ok(None);
    };
    let parsed = BasePath::parse(base).and_then(|base| {
        Capabilities::parse(scope, &base, facts.scitoken)
            .ok()
            .flatten()
    });
    let parsed = parsed.ok_or_else(|| over("the scopes of the session cannot be read"))?;
    Ok(Some(parsed))
}

fn expired() -> Error {
    refused(CredentialError::Expired, "the session has expired")
}

fn revoked_range() -> catalog::KeyRange {
    catalog::KeyRange::prefix(catalog::user_by(REVOKED, b""))
}

fn session_key(access_key: &str) -> String {
    format!("session:{access_key}")
}

fn id_key(id: u64) -> String {
    format!("id:{id:016x}")
}

fn issuer_key(id: u64) -> String {
    format!("issuer:{id:016x}")
}
