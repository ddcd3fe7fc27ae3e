//! Giving sessions: AssumeRole, AssumeRoleWithWebIdentity, GetSessionToken (STS API reference).
//!
//! Whether somebody may become a role is for the role's trust policy to say, and asked of
//! [`dewar_auth::assume`]. That a role does not exist looks like one that may not be assumed.

use std::sync::Arc;

use dewar_auth::token::{Issuer, VerifiedToken};
use dewar_auth::{
    Action, Bounds, Caller, CredentialError, Details, Origin, ParentCredential, Policy, PolicyKind,
    Principal, Resource, STORED_POLICY_BYTES_MAX, Secret, Session, SessionPrincipal, TokenFacts,
    User, UserKind, assume, role_arn,
};
use dewar_types::{Error, ErrorKind, Result, TenantName, Timestamp, UserId};

use super::bearer::{MappedIdentity, check_wire, claims_in_memory, not_taken};
use super::claim_names::ReferencedClaims;
use super::{Accounts, Role, aws_policy, is_aws_policy, refused};
use crate::claims::{SelectedClaims, claims_of, keep};
use crate::record::ROLE;
use crate::record::RoleRecord;
use crate::token_digest::{digest_of, token_name};

/// Seconds that sessions last.
const DURATION: std::ops::RangeInclusive<u32> = 900..=43_200;
/// What a session of a role lasts where nobody says.
const DURATION_DEFAULT: u32 = 3600;
/// Longest session that was got with another session, in seconds.
const CHAINED_MAX: u32 = 3600;
/// Most sessions that one comes from.
const CHAIN_MAX: usize = 4;
/// Longest policy of a session in bytes.
const POLICY_BYTES_MAX: usize = 2048;
/// Most policies of a session that stand for themselves, and most tags.
const POLICIES_MAX: usize = 10;
const TAGS_MAX: usize = 50;
/// The claim with tags for sessions.
const TAGS_CLAIM: &str = "https://aws.amazon.com/tags";

/// A request of AssumeRole.
#[derive(Clone, Debug, Default)]
pub struct AssumeRole {
    /// The role: `arn:aws:iam::ACCOUNT:role/PATH/NAME`.
    pub role: String,
    /// Name of the session.
    pub session: String,
    /// A policy that it is held to.
    pub policy: Option<String>,
    /// Policies of the role's account, by ARN, that it is held to.
    pub policies: Vec<String>,
    /// How many seconds it is to last.
    pub duration: Option<u32>,
    /// Its tags.
    pub tags: Vec<(String, String)>,
    /// The keys of those that go on.
    pub transitive: Vec<String>,
    /// The external id that was agreed with the caller.
    pub external_id: Option<String>,
    /// Name of the person or program behind the session.
    pub source_identity: Option<String>,
}

/// A request of AssumeRoleWithWebIdentity.
#[derive(Clone, Debug)]
pub struct WebIdentity {
    /// The login token.
    pub token: Secret,
    /// The rest is as for AssumeRole; tags are the token's.
    pub asked: AssumeRole,
}

/// A session that was given.
#[derive(Clone, Debug)]
pub struct IssuedSession {
    /// The session.
    pub session: Arc<Session>,
    /// Its token.
    pub token: Secret,
    /// The user that the bearer has become.
    pub user: User,
    /// Subject, audience and issuer of the login token, where there was one.
    pub login: Option<(String, String, String)>,
}

fn invalid(words: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, words.into())
}

fn denied() -> Error {
    Error::new(ErrorKind::Denied, "the role cannot be assumed")
}

/// A role that is asked for, as its trust policy is asked about it.
struct RequestedRole {
    tenant: TenantName,
    account: UserId,
    path: String,
    role: Role,
}

impl Accounts {
    /// Lets a caller become a role.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], also for a role that there is not; [`ErrorKind::InvalidArgument`],
    /// [`ErrorKind::MalformedPolicy`], [`ErrorKind::TooLarge`].
    pub async fn assume_role(&self, caller: &Caller, asked: AssumeRole) -> Result<IssuedSession> {
        self.authorizer.check_ready()?;
        let role = asked.role.clone();
        let given = self.become_role(caller, asked).await;
        self.tell_session(caller, Action::AssumeRole, role, &given);
        given
    }

    async fn become_role(&self, caller: &Caller, mut asked: AssumeRole) -> Result<IssuedSession> {
        check_wire(caller.origin())?;
        check_asked(&asked)?;
        let Principal::User(user) = caller.principal() else {
            return Err(denied());
        };
        let before = caller.bounds().and_then(|bounds| bounds.session.clone());
        if caller.bounds().is_some() && before.is_none() {
            return Err(denied());
        }
        let mut parents = Vec::new();
        if let Some(before) = &before {
            parents.clone_from(&before.parents);
            parents.push(ParentCredential {
                session: Some(before.access_key.clone()),
                id: UserId(before.became.id),
                issued: Some(before.issued),
                issuer: before.token.as_ref().map(|facts| facts.issuer),
            });
            // What was to go on goes on, and cannot be said anew.
            for key in &before.transitive {
                if asked.tags.iter().any(|(name, _)| name == key) {
                    return Err(invalid(format!("the tag {key:?} is the earlier session's")));
                }
                let tags = before.tags.iter().filter(|(name, _)| name == key);
                asked.tags.extend(tags.cloned());
                asked.transitive.push(key.clone());
            }
            if before.source_identity.is_some() && asked.source_identity != before.source_identity {
                if asked.source_identity.is_some() {
                    return Err(denied());
                }
                asked.source_identity.clone_from(&before.source_identity);
            }
        } else {
            parents.push(ParentCredential {
                session: None,
                id: user.id,
                issued: None,
                issuer: None,
            });
        }
        if parents.len() > CHAIN_MAX {
            return Err(Error::new(
                ErrorKind::Denied,
                "the session comes from too many others to give another",
            ));
        }
        let chained = before.is_some_and(|before| before.became.session.is_some());
        let wanted = self.requested_role(&asked.role).await?;
        let said = !asked.tags.is_empty();
        self.authorize_role(caller, Action::AssumeRole, &wanted, &asked)?;
        if said {
            self.authorize_role(caller, Action::TagSession, &wanted, &asked)?;
        }
        if asked.source_identity.is_some() {
            self.authorize_role(caller, Action::SetSourceIdentity, &wanted, &asked)?;
        }
        let most = if chained {
            CHAINED_MAX.min(wanted.role.max_session)
        } else {
            wanted.role.max_session
        };
        self.give(wanted, asked, most, parents, None).await
    }

    /// Lets whoever an issuer vouches for become a role.
    ///
    /// # Errors
    /// As [`Accounts::assume_role`]; [`ErrorKind::Unauthenticated`] for a token that is not taken,
    /// with [`CredentialError`] as its source.
    pub async fn assume_role_with_web_identity(
        &self,
        origin: Origin,
        web: WebIdentity,
    ) -> Result<IssuedSession> {
        self.authorizer.check_ready()?;
        let role = web.asked.role.clone();
        let action = Action::AssumeRoleWithWebIdentity;
        let named = token_name(&digest_of(web.token.reveal()));
        let became = self.vouched(origin, web, &named).await;
        match became {
            Ok((caller, given)) => {
                self.tell_session(&caller, action, role, &given);
                given
            }
            Err(error) => {
                let how = "web-identity";
                self.authorizer
                    .record_refused_login(origin, how, Some(&named), &error.to_string());
                Err(error)
            }
        }
    }

    /// Who a login token vouches for, and whether that becomes the role.
    async fn vouched(
        &self,
        origin: Origin,
        web: WebIdentity,
        named: &str,
    ) -> Result<(Caller, Result<IssuedSession>)> {
        check_wire(origin)?;
        let WebIdentity { token, asked } = web;
        check_asked(&asked)?;
        let owner = owner_field(&asked.role);
        let proven = self.prove_for(owner, token.reveal()).await?;
        let (issuer, token) = proven.map_err(not_taken)?;
        self.login(origin, &issuer, &token, asked, named).await
    }

    /// Whether whom a proven token vouches for becomes the role; `named` is what the token is called.
    pub(super) async fn login(
        &self,
        origin: Origin,
        issuer: &Issuer,
        token: &VerifiedToken,
        mut asked: AssumeRole,
        named: &str,
    ) -> Result<(Caller, Result<IssuedSession>)> {
        let (tags, transitive) = tags_of(token);
        asked.tags = tags;
        asked.transitive = transitive;
        check_tags(&asked, true)?;
        let SelectedClaims { claims, unkept } = claims_in_memory(issuer, token)?;
        let bounds = Bounds {
            credential: named.into(),
            expires: token.expires,
            provider: Some(issuer.name().into()),
            unassumed: true,
            claims,
            unkept,
            ..Bounds::default()
        };
        let caller = Caller::vouched(Arc::new(bounds), origin);
        let given = async {
            let wanted = self.requested_role(&asked.role).await?;
            self.authorize_role(&caller, Action::AssumeRoleWithWebIdentity, &wanted, &asked)?;
            if !asked.tags.is_empty() {
                self.authorize_role(&caller, Action::TagSession, &wanted, &asked)?;
            }
            let most = wanted.role.max_session;
            self.give(wanted, asked, most, Vec::new(), Some((issuer, token)))
                .await
        };
        let given = given.await;
        Ok((caller, given))
    }

    /// Tells the audit log of a session that was given or not, which is the caller's to know.
    fn tell_session(
        &self,
        caller: &Caller,
        action: Action,
        target: String,
        given: &Result<IssuedSession>,
    ) {
        let words;
        let outcome = match given {
            Ok(given) => {
                words = format!("session:{}", given.session.access_key);
                Ok((words.as_str(), given.session.expires))
            }
            Err(error) => {
                words = error.to_string();
                Err(words.as_str())
            }
        };
        self.authorizer
            .record_credential(caller, action.to_string(), target, outcome);
    }

    /// A session of a user itself, for a while.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for nobody and for who has only a session;
    /// [`ErrorKind::InvalidArgument`].
    pub async fn session_token(
        &self,
        caller: &Caller,
        duration: Option<u32>,
    ) -> Result<IssuedSession> {
        self.authorizer.check_ready()?;
        let given = self.own_session(caller, duration);
        self.tell_session(caller, Action::GetSessionToken, String::new(), &given);
        given
    }

    fn own_session(&self, caller: &Caller, duration: Option<u32>) -> Result<IssuedSession> {
        check_wire(caller.origin())?;
        let user = caller.user().filter(|_| caller.bounds().is_none());
        let Some(user) = user else {
            return Err(Error::new(
                ErrorKind::Denied,
                "GetSessionToken is for the keys of users, which do not end",
            ));
        };
        let duration = duration.unwrap_or(*DURATION.end());
        check_duration(duration, *DURATION.end())?;
        let became = SessionPrincipal {
            id: user.id.0,
            tenant: user.tenant.as_str().to_owned(),
            name: user.name.clone(),
            session: None,
        };
        let (issued, expires) = self.span(duration);
        let mut session = Session::begin(&*self.catalog.env().rng, issued, expires, became);
        session.parents.push(ParentCredential {
            session: None,
            id: user.id,
            issued: None,
            issuer: None,
        });
        self.sealed(session, user.clone(), None)
    }

    fn span(&self, duration: u32) -> (Timestamp, Timestamp) {
        let issued = self.catalog.env().clock.now();
        let expires = Timestamp::from_secs(issued.secs() + u64::from(duration));
        (issued, expires)
    }

    fn sealed(
        &self,
        session: Session,
        user: User,
        login: Option<(String, String, String)>,
    ) -> Result<IssuedSession> {
        let token = session
            .seal(&self.master, &*self.catalog.env().rng)
            .map_err(|error| Error::with_source(ErrorKind::TooLarge, error.to_string(), error))?;
        Ok(IssuedSession {
            session: Arc::new(session),
            token,
            user,
            login,
        })
    }

    /// The role of an ARN.
    async fn requested_role(&self, arn: &str) -> Result<RequestedRole> {
        let wrong = || invalid(format!("{arn:?} is no ARN of a role"));
        let parts: Vec<&str> = arn.splitn(6, ':').collect();
        let ["arn", partition, "iam", "", account, rest] = parts[..] else {
            return Err(wrong());
        };
        let path = rest.strip_prefix("role").ok_or_else(wrong)?;
        let (folder, name) = path.rsplit_once('/').ok_or_else(wrong)?;
        if !partition.starts_with("aws") || name.is_empty() {
            return Err(wrong());
        }
        let found = match account.parse::<UserId>() {
            Ok(id) if account.len() == 16 => {
                let root = self.user_by_id(id).await?.filter(|root| !root.disabled);
                let root = root.ok_or_else(denied)?;
                let full = format!("{}/{name}", root.name);
                (root.tenant.clone(), Some(id), full)
            }
            _ => {
                let tenant = TenantName::new(account).map_err(|_| wrong())?;
                (tenant, None, name.to_owned())
            }
        };
        let (tenant, account, full) = found;
        let role = match self.role(&tenant, &full).await {
            Ok(role) if role.path.strip_suffix('/') == Some(folder) => role,
            Ok(_) => return Err(denied()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(denied()),
            Err(error) => return Err(error),
        };
        // Policies are asked about the role in its own spelling, however it was written.
        let own = role
            .name
            .rsplit_once('/')
            .map_or(&*role.name, |(_, own)| own);
        Ok(RequestedRole {
            account: account.unwrap_or(UserId(role.id)),
            path: format!("role{}{own}", role.path),
            tenant,
            role,
        })
    }

    fn authorize_role(
        &self,
        caller: &Caller,
        action: Action,
        wanted: &RequestedRole,
        asked: &AssumeRole,
    ) -> Result<()> {
        let trust = Policy::parse(
            &wanted.role.trust,
            PolicyKind::Trust,
            STORED_POLICY_BYTES_MAX,
        );
        let trust = trust.map_err(|error| {
            let what = format!("the trust policy of role {}", wanted.role.name);
            Error::with_source(ErrorKind::Corrupt, what, error)
        })?;
        let resource = Resource::Identity {
            tenant: &wanted.tenant,
            account: wanted.account,
            path: &wanted.path,
            of_tenant: !wanted.role.name.contains('/'),
        };
        let details = Details {
            now: self.catalog.env().clock.now(),
            tags: Some(&asked.tags),
            role_session: Some(&asked.session),
            external_id: asked.external_id.as_deref(),
            source_identity: asked.source_identity.as_deref(),
            transitive: Some(&asked.transitive),
            client_trust: self.federation_config().client_trust,
            ..Details::default()
        };
        Ok(assume(caller, action, resource, &trust, &details)?)
    }

    async fn give(
        &self,
        wanted: RequestedRole,
        asked: AssumeRole,
        most: u32,
        parents: Vec<ParentCredential>,
        login: Option<(&Issuer, &VerifiedToken)>,
    ) -> Result<IssuedSession> {
        let duration = asked.duration.unwrap_or(DURATION_DEFAULT.min(most));
        check_duration(duration, most)?;
        let mut policies = Vec::new();
        policies.extend(asked.policy.clone());
        for arn in &asked.policies {
            policies.push(self.policy_text(&wanted, arn).await?);
        }
        let (tenant, name) = (&wanted.tenant, &wanted.role.name);
        let user = self.as_role(tenant, name, &asked.session).await?;
        let user = user.filter(|user| user.id.0 == wanted.role.id);
        let user = user.ok_or_else(denied)?;
        let became = SessionPrincipal {
            id: wanted.role.id,
            tenant: tenant.as_str().to_owned(),
            name: name.clone(),
            session: Some(asked.session),
        };
        let facts = match login {
            None => None,
            Some((issuer, token)) => {
                let mut named = self.named_claims(issuer, &user).await?;
                for text in &policies {
                    named.add_policy(issuer, text);
                }
                Some(facts_of(issuer, token, &named)?)
            }
        };
        let (issued, expires) = self.span(duration);
        let mut session = Session::begin(&*self.catalog.env().rng, issued, expires, became);
        session.policies = policies;
        session.tags = asked.tags;
        session.transitive = asked.transitive;
        session.parents = parents;
        session.token = facts;
        session.source_identity = asked.source_identity;
        let login = login.map(|(issuer, token)| {
            let audience = token.claims.values("aud");
            let audience = audience.first().map(|text| text.to_string());
            let url = issuer.url.clone();
            (token.subject.clone(), audience.unwrap_or_default(), url)
        });
        self.sealed(session, user, login)
    }

    /// The wording that counts of a policy of the role's account.
    async fn policy_text(&self, wanted: &RequestedRole, arn: &str) -> Result<String> {
        let none = || invalid(format!("there is no policy {arn:?} in the role's account"));
        if is_aws_policy(arn) {
            return Ok(aws_policy(arn).ok_or_else(none)?.text().to_owned());
        }
        let (account, root) = match wanted.role.name.split_once('/') {
            Some((root, _)) => (wanted.account.to_string(), Some(root)),
            None => (wanted.tenant.as_str().to_owned(), None),
        };
        let rest = arn.strip_prefix(&format!("arn:aws:iam::{account}:policy"));
        let (folder, name) = rest
            .and_then(|rest| rest.rsplit_once('/'))
            .ok_or_else(none)?;
        let full = match root {
            Some(root) => format!("{root}/{name}"),
            None => name.to_owned(),
        };
        let policy = match self.managed(&wanted.tenant, &full).await {
            Ok(policy) if policy.path.strip_suffix('/') == Some(folder) => policy,
            Ok(_) => return Err(none()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(none()),
            Err(error) => return Err(error),
        };
        let version = policy.versions.get(&policy.default).ok_or_else(none)?;
        Ok(version.text.clone())
    }
}

/// What a session keeps of a login token.
fn facts_of(
    issuer: &Issuer,
    token: &VerifiedToken,
    named: &ReferencedClaims,
) -> Result<TokenFacts> {
    let capabilities = token.capabilities.as_ref();
    let (claims, rank_of) = (claims_of(&token.claims), |name: &str| named.rank_of(name));
    let kept = keep(issuer.name(), claims, Vec::new(), rank_of, named.limits())?;
    Ok(TokenFacts {
        issuer: issuer.id,
        url: issuer.url.clone(),
        subject: token.subject.clone(),
        claims: kept.claims,
        scope: capabilities.map(|all| (all.text().to_owned(), all.base().text())),
        scitoken: token.claims.get("wlcg.ver").is_none() && token.claims.get("ver").is_some(),
        unkept: Some(kept.unkept),
    })
}

/// The account field of a role's ARN: whose providers may vouch for who becomes it.
fn owner_field(arn: &str) -> &str {
    arn.split(':').nth(4).unwrap_or_default()
}

/// Tags that an issuer gives the session, a pair for each value, and those of them that go on.
fn tags_of(token: &VerifiedToken) -> (Vec<(String, String)>, Vec<String>) {
    let given = token.claims.get(TAGS_CLAIM);
    let member = |name: &str| given.and_then(|value| value.get(name));
    let texts = |value: &serde_json::Value| {
        let all = value
            .as_array()
            .map_or(std::slice::from_ref(value), Vec::as_slice);
        let texts = all.iter().filter_map(serde_json::Value::as_str);
        texts.map(str::to_owned).collect::<Vec<_>>()
    };
    let tags = member("principal_tags").and_then(serde_json::Value::as_object);
    let tags = tags.into_iter().flatten();
    let tags = tags.flat_map(|(key, value)| {
        let values = texts(value).into_iter();
        values.map(|text| (key.clone(), text))
    });
    let keys = member("transitive_tag_keys").and_then(serde_json::Value::as_array);
    let keys = keys.into_iter().flatten();
    let keys = keys.filter_map(|key| key.as_str().map(str::to_owned));
    (tags.collect(), keys.collect())
}

fn check_duration(seconds: u32, most: u32) -> Result<()> {
    if seconds < *DURATION.start() || seconds > *DURATION.end() {
        return Err(invalid("DurationSeconds is 900 to 43200"));
    }
    if seconds > most {
        return Err(invalid(format!(
            "The requested DurationSeconds exceeds the {most} seconds that this session may last"
        )));
    }
    Ok(())
}

fn check_asked(asked: &AssumeRole) -> Result<()> {
    let fit = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    let name = |text: &str| (2..=64).contains(&text.len()) && text.chars().all(fit);
    if !name(&asked.session) {
        return Err(invalid(
            "RoleSessionName has 2 to 64 letters, digits and any of _+=,.@-",
        ));
    }
    if asked
        .source_identity
        .as_deref()
        .is_some_and(|text| !name(text))
    {
        return Err(invalid(
            "SourceIdentity has 2 to 64 letters, digits and any of _+=,.@-",
        ));
    }
    if asked.external_id.as_ref().is_some_and(|id| id.len() > 1224) {
        return Err(invalid("ExternalId has at most 1224 characters"));
    }
    if asked.policies.len() > POLICIES_MAX {
        return Err(invalid("at most 10 PolicyArns are allowed"));
    }
    if let Some(text) = &asked.policy {
        Policy::parse(text, PolicyKind::Identity, POLICY_BYTES_MAX).map_err(|error| {
            Error::with_source(ErrorKind::MalformedPolicy, error.to_string(), error)
        })?;
    }
    check_tags(asked, false)
}

/// Whether a session can have these tags. Those of a token may have several values.
fn check_tags(asked: &AssumeRole, of_token: bool) -> Result<()> {
    let mut keys: Vec<&String> = asked.tags.iter().map(|(key, _)| key).collect();
    keys.sort_by_key(|key| key.to_ascii_lowercase());
    let twice = keys.windows(2).any(|pair| {
        let values = of_token && pair[0] == pair[1];
        pair[0].eq_ignore_ascii_case(pair[1]) && !values
    });
    let fits =
        |(key, value): &(String, String)| (1..=128).contains(&key.len()) && value.len() <= 256;
    if twice || asked.tags.len() > TAGS_MAX || !asked.tags.iter().all(fits) {
        return Err(invalid(
            "at most 50 tags, keys of 1 to 128 and values of up to 256 bytes, each key once",
        ));
    }
    if !asked.transitive.iter().all(|key| keys.contains(&key)) {
        return Err(invalid(
            "TransitiveTagKeys names a tag that the session does not have",
        ));
    }
    Ok(())
}

/// The identity of a caller for GetCallerIdentity: id, account, ARN.
///
/// # Errors
/// [`CredentialError::Invalid`] for nobody.
pub fn caller_identity(caller: &Caller) -> Result<(String, String, String)> {
    let user = caller.user().ok_or_else(|| {
        refused(
            CredentialError::Invalid,
            "the request is not signed by anybody",
        )
    })?;
    let account = match user.kind {
        UserKind::Local => user.account.to_string(),
        UserKind::Role { .. } | UserKind::Federated { .. } => user.account_field(),
    };
    Ok((user.unique_id(), account, user.arn()))
}

impl Accounts {
    /// The roles of the issuer's tenant that the bearer of a token may become, by ARN.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn assumable(&self, becoming: &MappedIdentity) -> Result<Vec<String>> {
        let (issuer, token) = (&becoming.issuer, &becoming.token);
        let SelectedClaims { claims, unkept } = claims_in_memory(issuer, token)?;
        let bounds = Bounds {
            provider: Some(issuer.name().into()),
            unassumed: true,
            claims,
            unkept,
            ..Bounds::default()
        };
        let origin = Origin {
            address: None,
            secure: true,
        };
        let caller = Caller::vouched(Arc::new(bounds), origin);
        let mut found = Vec::new();
        for arn in self.role_arns(&issuer.tenant).await? {
            let wanted = match self.requested_role(&arn).await {
                Ok(wanted) => wanted,
                Err(error) if error.kind() == ErrorKind::Denied => continue,
                Err(error) => return Err(error),
            };
            let asked = AssumeRole {
                session: "test".into(),
                ..AssumeRole::default()
            };
            let action = Action::AssumeRoleWithWebIdentity;
            if self
                .authorize_role(&caller, action, &wanted, &asked)
                .is_ok()
            {
                found.push(arn);
            }
        }
        Ok(found)
    }

    /// The ARNs of all roles of a tenant, by name.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn role_arns(&self, tenant_name: &TenantName) -> Result<Vec<String>> {
        let tenant = match self.tenant_id(tenant_name).await {
            Ok(tenant) => tenant,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for record in self.entities::<RoleRecord>(ROLE, tenant_name, None).await? {
            let (account, name) = match record.name.split_once('/') {
                None => (tenant_name.as_str().to_owned(), record.name.as_str()),
                Some((root, name)) => match self.user_in(tenant, root).await {
                    Ok(root) => (root.id.to_string(), name),
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
            };
            found.push(role_arn(&account, &record.path, name));
        }
        Ok(found)
    }
}
