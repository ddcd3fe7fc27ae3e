//! Macaroons: giving them, and from one to a caller.
//!
//! A macaroon is a session that is bound to its caveats (see [`dewar_auth::Macaroon`]). So it never may more
//! than its holder at the time of its use, and ends with whatever it comes from: the session, the login token, the
//! user, the role, the issuer; revoking any of these ends it.

use std::sync::Arc;

use dewar_auth::token::{Claims, Issuer, VerifiedToken};
use dewar_auth::{
    Bounds, Caller, Caveats, CredentialError, Limit, Macaroon, ParentCredential, Secret, Session,
    SessionKind, SessionPrincipal, TokenFacts, User, UserKind, before_caveat, is_claim_omitted,
};
use dewar_types::{Error, ErrorKind, Result, Timestamp, UserId};
use serde_json::{Map, Value};

use super::bearer::check_wire;
use super::sessions::capabilities_of;
use super::{Accounts, refused};
use crate::cache::AccountScope;
use crate::claims::{Claim, keep};

/// What macaroons last where nobody says, and at most, in seconds.
const SECONDS_DEFAULT: u64 = 3600;
const SECONDS_MAX: u64 = 24 * 3600;

/// A macaroon that is asked for.
#[derive(Clone, Debug, Default)]
pub struct MacaroonRequest {
    /// Caveats that narrow it.
    pub caveats: Vec<String>,
    /// How long it is to last, in seconds.
    pub seconds: Option<u64>,
    /// The address of the server, for people.
    pub location: String,
}

fn over(words: impl Into<String>) -> Error {
    refused(CredentialError::Invalid, words)
}

fn denied(words: &str) -> Error {
    Error::new(ErrorKind::Denied, words)
}

impl Accounts {
    /// Gives a macaroon of the caller, with the moment when it ends.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`] for nobody, and for who comes with a macaroon, which can be narrowed by itself;
    /// [`ErrorKind::InvalidArgument`] for caveats that are not known.
    pub async fn macaroon(
        &self,
        caller: &Caller,
        wish: MacaroonRequest,
    ) -> Result<(Secret, Timestamp)> {
        self.authorizer.check_ready()?;
        let about = wish.caveats.join("; ");
        let given = self.mint(caller, wish).await;
        let words;
        let outcome = match &given {
            Ok((_, id, ends)) => {
                words = format!("macaroon:{id}");
                Ok((words.as_str(), *ends))
            }
            Err(error) => {
                words = error.to_string();
                Err(words.as_str())
            }
        };
        self.authorizer
            .record_credential(caller, "macaroon:request", about, outcome);
        given.map(|(token, _, ends)| (token, ends))
    }

    async fn mint(
        &self,
        caller: &Caller,
        wish: MacaroonRequest,
    ) -> Result<(Secret, String, Timestamp)> {
        check_wire(caller.origin())?;
        let caveats = Caveats::parse(&wish.caveats).map_err(|error| {
            Error::with_source(ErrorKind::InvalidArgument, error.to_string(), error)
        })?;
        let Some(user) = caller.user() else {
            return Err(denied("macaroons are issued to authenticated clients only"));
        };
        let now = self.catalog.env().clock.now();
        let seconds = wish.seconds.unwrap_or(SECONDS_DEFAULT).min(SECONDS_MAX);
        let ends = Timestamp::from_secs(now.secs() + seconds);
        let ends = caller
            .bounds()
            .map_or(ends, |bounds| ends.min(bounds.expires));
        let ends = caveats.before().map_or(ends, |before| ends.min(before));
        if ends <= now {
            let words = "the macaroon would be over at once";
            return Err(Error::new(ErrorKind::InvalidArgument, words));
        }
        let session = self.held_by(user, caller.bounds(), now, ends).await?;
        let identifier = session.seal(&self.master, &*self.catalog.env().rng);
        let identifier = identifier
            .map_err(|error| Error::with_source(ErrorKind::TooLarge, error.to_string(), error))?;
        let root = session.secret();
        let mut macaroon = Macaroon::mint(&wish.location, identifier.reveal(), &root);
        for caveat in &wish.caveats {
            macaroon = macaroon.with(caveat);
        }
        let macaroon = macaroon.with(&before_caveat(ends));
        Ok((macaroon.text(), session.access_key, ends))
    }

    /// What a macaroon of somebody stands for.
    async fn held_by(
        &self,
        user: &User,
        bounds: Option<&Bounds>,
        now: Timestamp,
        ends: Timestamp,
    ) -> Result<Session> {
        let became = |session| SessionPrincipal {
            id: user.id.0,
            tenant: user.tenant.as_str().to_owned(),
            name: user.name.clone(),
            session,
        };
        let begin = |became, kind| {
            let mut session = Session::begin(&*self.catalog.env().rng, now, ends, became);
            session.kind = Some(kind);
            session
        };
        let Some(bounds) = bounds else {
            if user.kind != UserKind::Local {
                return Err(denied("such a caller gets no macaroon"));
            }
            let mut session = begin(became(None), SessionKind::Macaroon);
            session.parents.push(ParentCredential {
                session: None,
                id: user.id,
                issued: None,
                issuer: None,
            });
            return Ok(session);
        };
        let Some(before) = &bounds.session else {
            let token = self.facts_of_bearer(user, bounds).await?;
            let mut session = begin(became(None), SessionKind::MacaroonOfLogin);
            session.token = Some(token);
            return Ok(session);
        };
        if before.kind.is_some() {
            return Err(denied(
                "a macaroon gives no other: add a caveat to the one that is there",
            ));
        }
        let mut session = begin(before.became.clone(), SessionKind::Macaroon);
        session.policies.clone_from(&before.policies);
        session.tags.clone_from(&before.tags);
        session.token.clone_from(&before.token);
        session.source_identity.clone_from(&before.source_identity);
        session.parents.clone_from(&before.parents);
        session.parents.push(ParentCredential {
            session: Some(before.access_key.clone()),
            id: UserId(before.became.id),
            issued: Some(before.issued),
            issuer: before.token.as_ref().map(|facts| facts.issuer),
        });
        Ok(session)
    }

    /// What the login token said that a caller came with.
    async fn facts_of_bearer(&self, user: &User, bounds: &Bounds) -> Result<TokenFacts> {
        let provider = bounds.provider.as_deref().unwrap_or_default();
        let issuers = self.issuers().await?;
        let issuer = issuers.values().find(|issuer| issuer.name() == provider);
        let issuer = issuer.ok_or_else(|| denied("such a caller gets no macaroon"))?;
        let bare = |name: &str| {
            let rest = name.strip_prefix(provider)?;
            rest.strip_prefix(':').map(str::to_owned)
        };
        let claims = bounds.claims.iter();
        let claims: Vec<Claim> = claims
            .filter_map(|(name, values)| Some((bare(name)?, values.clone())))
            .collect();
        let subject = claims.iter().find(|(name, _)| name == "sub");
        let subject = subject.and_then(|(_, values)| values.first()).cloned();
        let has = |wanted: &str| claims.iter().any(|(name, _)| name == wanted);
        let scitoken = !has("wlcg.ver") && has("ver");
        let named = self.named_claims(issuer, user).await?;
        let rank_of = |name: &str| named.rank_of(name);
        let unkept = bounds.unkept.clone();
        let kept = keep(provider, claims, unkept, rank_of, named.limits())?;
        if issuer
            .rules
            .iter()
            .any(|rule| is_claim_omitted(&kept.unkept, &rule.claim))
        {
            let words = "the login token says too much for a macaroon: the issuer's rules ask for a claim \
                         that does not fit";
            return Err(Error::new(ErrorKind::TooLarge, words));
        }
        let capabilities = bounds.limits.iter().find_map(|limit| match limit {
            Limit::Capabilities(all) => Some((all.text().to_owned(), all.base().text())),
            _ => None,
        });
        Ok(TokenFacts {
            issuer: issuer.id,
            url: issuer.url.clone(),
            subject: subject.unwrap_or_default(),
            claims: kept.claims,
            scope: capabilities,
            scitoken,
            unkept: Some(kept.unkept),
        })
    }

    /// Who a macaroon speaks for now, and what it is held to.
    ///
    /// # Errors
    /// [`ErrorKind::Unauthenticated`].
    pub(super) async fn macaroon_bearer(
        &self,
        text: &str,
    ) -> Result<(User, Bounds, Vec<AccountScope>)> {
        let macaroon = Macaroon::parse(text).map_err(|error| over(error.to_string()))?;
        let session = Session::open(&self.master, macaroon.identifier())
            .map_err(|_| over("the macaroon is not of this deployment"))?;
        if session.kind.is_none() || !macaroon.is_rooted_in(&session.secret()) {
            return Err(over("the macaroon was changed"));
        }
        let caveats =
            Caveats::parse(macaroon.caveats()).map_err(|error| over(error.to_string()))?;
        let ends = caveats
            .before()
            .map_or(session.expires, |before| before.min(session.expires));
        if self.catalog.env().clock.now() >= ends {
            return Err(refused(
                CredentialError::Expired,
                "the macaroon has expired",
            ));
        }
        self.check_revoked(&session).await?;
        let (user, scopes) = self.speaks_for(&session).await?;
        if !caveats.lets_name(&user.name) {
            return Err(over("the macaroon is for somebody of another name"));
        }
        let mut bounds = self.session_bounds(&session, &user).await?;
        let caveats = caveats.within(user.tenant.clone());
        bounds.limits.push(Limit::Caveats(Arc::new(caveats)));
        bounds.credential = format!("macaroon:{}", session.access_key).into();
        bounds.expires = ends;
        bounds.session = Some(Arc::new(session));
        Ok((user, bounds, scopes))
    }

    /// Whoever the login token would become now that a macaroon was given for.
    pub(super) async fn login_again(
        &self,
        facts: &TokenFacts,
        expires: Timestamp,
    ) -> Result<(User, Vec<AccountScope>)> {
        let issuers = self.issuers().await?;
        let found = issuers
            .get(&facts.url)
            .filter(|issuer| issuer.id == facts.issuer);
        let issuer: Arc<Issuer> = found
            .filter(|issuer| !issuer.disabled)
            .cloned()
            .ok_or_else(|| over("the issuer that the macaroon came from is not let in any more"))?;
        // A rule that came later may ask for a claim that was not kept, and then nobody knows what the token
        // would become. Releases that did not write the list kept what the rules of their time asked for.
        let unkept = facts.unkept.as_deref().unwrap_or_default();
        let mut rules = issuer.rules.iter();
        if rules.any(|rule| is_claim_omitted(unkept, &rule.claim)) {
            return Err(over(
                "the issuer's rules have changed and ask for a claim that the macaroon does not keep: ask \
                 for a new one",
            ));
        }
        let mut members = Map::new();
        for (name, values) in &facts.claims {
            let name = name
                .strip_prefix(issuer.name())
                .and_then(|rest| rest.strip_prefix(':'));
            if let Some(name) = name {
                let values = values.iter().cloned().map(Value::String).collect();
                members.insert(name.to_owned(), Value::Array(values));
            }
        }
        let text = serde_json::to_vec(&Value::Object(members)).unwrap_or_default();
        let claims = Claims::parse(&text).map_err(|error| over(error.to_string()))?;
        let token = VerifiedToken {
            subject: facts.subject.clone(),
            expires,
            claims,
            capabilities: capabilities_of(facts)?,
        };
        let became = self.map_identity(issuer, token).await?;
        Ok(((*became.user).clone(), became.scopes))
    }
}
