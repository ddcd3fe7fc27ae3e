//! The keys of issuers: held in memory, refreshed beside the requests, kept through outages.
//!
//! # How they are kept
//! [`Accounts::keep_keys`] runs for as long as the server does and fetches each issuer's keys every
//! hour; a fetch that fails is tried again after a minute, then after two, up to a quarter of an
//! hour. The keys that were fetched last serve for two days, over restarts too, since they stand in the
//! catalog. They are written again when they have changed or are half an hour old. No request fetches
//! anything. A request with an unknown key asks for a fetch, at most every ten seconds for an
//! issuer. It waits a few seconds for that fetch, and the number of such requests is bounded. Issuers
//! are asked side by side, and none waits for another.
//!
//! The keys of providers that accounts let in for themselves are fetched only when a login asks for
//! them, also once an hour, and are kept in memory alone, of a bounded number of providers.
//!
//! # Cancellation
//! Dropping the future of a request only stops its waiting; dropping that of `keep_keys` stops
//! fetching, and what is held serves on until it is too old.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dewar_auth::fair_share::{FairShares, ShareOwner};
use dewar_auth::token::{
    Issuer, Jws, KeySet, LIFETIME_MAX, TokenError, VerifiedToken, check, claimed_issuer,
};
use dewar_env::BoxFuture;
use dewar_kv::{Batch, CommitError, Precondition};
use dewar_types::{Error, ErrorKind, Result, Timestamp};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::RwLock;
use tokio::sync::Notify;

use super::issuers::{key_of, keys_key_of};
use super::{Accounts, TRIES};
use crate::record::{IssuerKeysRecord, IssuerRecord, decode, encode};

/// How often keys are fetched (WLCG profile: 1 to 6 hours).
const EVERY: Duration = Duration::from_secs(3600);
/// How long they serve while no newer ones can be had (WLCG profile: 1 to 4 days).
const SERVE: Duration = Duration::from_secs(2 * 24 * 3600);
/// The first pause after a failure; it doubles.
const AGAIN: Duration = Duration::from_secs(60);
const AGAIN_MAX: Duration = Duration::from_secs(900);
/// Time between two fetches that unknown keys have asked for, unless configured for tests.
#[cfg(test)]
pub(super) const UNKNOWN_EVERY: Duration = Duration::from_secs(10);
/// How long a request waits for such a fetch.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(5);
/// How many requests wait so at once for issuers of the administrator; more are refused without waiting.
const WAITING_MAX: usize = 64;
/// The same for providers of accounts and tenants. One of these alone gets half of it.
const PROVIDER_WAITING_MAX: usize = 32;
/// So old is what the catalog has before it is written again though nothing has changed.
const KEPT_AGAIN: Duration = Duration::from_secs(EVERY.as_secs() / 2);
/// Providers of accounts whose keys are held; the one that was asked longest ago makes room.
const ON_DEMAND_MAX: usize = 256;
/// Longest sleep of the keeper, so that a change of the clock is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Fetches an issuer's keys from where its metadata says. The server's part: this crate opens no
/// connection.
pub trait FetchKeys: Send + Sync {
    /// The published set, as it came.
    ///
    /// # Errors
    /// Words that say which address failed and how.
    fn fetch<'a>(&'a self, issuer: &'a Issuer) -> BoxFuture<'a, Result<Vec<u8>>>;
}

/// How it stands with an issuer's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssuerKeyStatus {
    /// How many keys there are.
    pub keys: usize,
    /// When they were fetched.
    pub fetched: Option<Timestamp>,
    /// Why the last fetch failed, if it did.
    pub failed: Option<String>,
}

#[derive(Clone, Default)]
struct CachedKeySet {
    keys: Arc<KeySet>,
    fetched: Option<Timestamp>,
    failed: Option<String>,
    failures: u32,
    /// When a fetch began last.
    tried: Option<Timestamp>,
    /// Fetches that ended.
    tries: u64,
    /// Whether a request has asked for one.
    wanted: bool,
}

/// Keys by the id of their issuer, which one that is let in again under the same address does not have:
/// what was fetched for the old one is never the new one's.
pub(super) struct IssuerKeyCache {
    /// Time between two fetches that unknown keys have asked for; set once keys are kept.
    unknown_every: OnceLock<Duration>,
    all: RwLock<BTreeMap<u64, CachedKeySet>>,
    /// Providers whose keys are fetched when a login asks for them, with whose they are.
    on_demand: RwLock<BTreeMap<u64, (Arc<Issuer>, ShareOwner)>>,
    /// Somebody wants a fetch.
    wants: Notify,
    /// One has ended.
    ended: Notify,
    waiting: AtomicUsize,
    /// Requests that wait for providers.
    provider_waiting: Arc<FairShares>,
    /// For how many seconds a token may be good.
    lifetime_max: AtomicU64,
}

impl Default for IssuerKeyCache {
    fn default() -> Self {
        Self {
            unknown_every: OnceLock::new(),
            on_demand: RwLock::default(),
            all: RwLock::default(),
            wants: Notify::default(),
            ended: Notify::default(),
            waiting: AtomicUsize::default(),
            provider_waiting: FairShares::new(PROVIDER_WAITING_MAX),
            lifetime_max: AtomicU64::new(LIFETIME_MAX.as_secs()),
        }
    }
}

impl IssuerKeyCache {
    /// Makes room for the keys of a provider, which are fetched when they are asked for. `owner` is the
    /// account or tenant that let it in.
    pub(super) fn demand(&self, provider: &Arc<Issuer>, owner: &str) {
        let entry = (Arc::clone(provider), ShareOwner::named(owner));
        let mut on_demand = self.on_demand.write();
        let known = on_demand.insert(provider.id, entry);
        if known.is_some() || on_demand.len() <= ON_DEMAND_MAX {
            return;
        }
        let mut all = self.all.write();
        let oldest = on_demand
            .keys()
            .filter(|id| **id != provider.id)
            .min_by_key(|id| all.get(id).and_then(|held| held.tried))
            .copied();
        if let Some(oldest) = oldest {
            on_demand.remove(&oldest);
            all.remove(&oldest);
        }
    }

    /// Forgets a provider that is gone.
    pub(super) fn drop_on_demand(&self, id: u64) {
        self.on_demand.write().remove(&id);
        self.all.write().remove(&id);
    }

    /// Whose a provider is; `None` for an issuer of the administrator.
    fn provider_owner(&self, id: u64) -> Option<ShareOwner> {
        let on_demand = self.on_demand.read();
        on_demand.get(&id).map(|(_, owner)| owner.clone())
    }

    fn is_on_demand(&self, id: u64) -> bool {
        self.on_demand.read().contains_key(&id)
    }

    /// Providers whose keys somebody waits for.
    fn demanded(&self) -> Vec<Arc<Issuer>> {
        let on_demand = self.on_demand.read();
        let all = self.all.read();
        let wanted = |id: &u64| all.get(id).is_some_and(|held| held.wanted);
        let providers = on_demand.values().map(|(provider, _)| provider);
        let mut found = providers.cloned().collect::<Vec<_>>();
        found.retain(|provider| wanted(&provider.id));
        found
    }

    pub(super) fn drop_keys(&self, issuer: &Issuer) {
        self.all.write().remove(&issuer.id);
    }
}

fn after(time: Timestamp, span: Duration) -> Timestamp {
    let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Timestamp(time.0.saturating_add(nanos))
}

fn parsed(set: &[u8]) -> Result<KeySet> {
    KeySet::parse(set)
        .map_err(|error| Error::with_source(ErrorKind::InvalidArgument, error.to_string(), error))
}

impl CachedKeySet {
    fn due(&self, unknown_every: Duration) -> Timestamp {
        let Some(tried) = self.tried else {
            return Timestamp(0);
        };
        if self.wanted {
            return after(tried, unknown_every);
        }
        let pause = match self.failures {
            0 => EVERY,
            failures => AGAIN_MAX.min(AGAIN * 2u32.saturating_pow(failures.min(8) - 1)),
        };
        after(tried, pause)
    }

    fn serves(&self, now: Timestamp) -> bool {
        self.fetched
            .is_some_and(|fetched| now < after(fetched, SERVE))
    }
}

/// Refuses a subject that policies could not tell from one of another issuer. They know it as
/// `federated-user/ISSUER/SUBJECT`, and an issuer's name may begin with that of another.
fn no_subject_of_another<'a>(
    issuer: &Issuer,
    subject: &str,
    others: impl Iterator<Item = &'a Arc<Issuer>>,
) -> std::result::Result<(), TokenError> {
    let mut others = others.filter_map(|other| {
        let rest = other.name().strip_prefix(issuer.name())?;
        let rest = subject.strip_prefix(rest.strip_prefix('/')?)?;
        rest.starts_with('/').then_some(other)
    });
    match others.next() {
        None => Ok(()),
        Some(other) => Err(TokenError::Unfit(format!(
            "its sub reads like one of the issuer {}",
            other.url
        ))),
    }
}

impl Accounts {
    /// Sets for how long a bearer token may be good, from its `iat` to its `exp`. At least a second.
    pub fn limit_token_lifetime(&self, most: Duration) {
        self.held.lifetime_max.store(most.as_secs().max(1), Relaxed);
    }

    /// Keeps the keys of all issuers fresh, until it is dropped. Unknown keys make it fetch once in
    /// `unknown_every`, as the first call has it.
    pub async fn keep_keys(&self, fetcher: Arc<dyn FetchKeys>, unknown_every: Duration) {
        let unknown_every = *self.held.unknown_every.get_or_init(|| unknown_every);
        let mut under_way = FuturesUnordered::new();
        let mut asked = BTreeSet::new();
        loop {
            let wait = match self.due(&asked, unknown_every).await {
                Ok((due, wait)) => {
                    for issuer in due {
                        asked.insert(issuer.id);
                        let fetcher = &*fetcher;
                        under_way.push(async move {
                            self.fetch_one(fetcher, &issuer).await;
                            issuer.id
                        });
                    }
                    wait
                }
                Err(error) => {
                    tracing::warn!(%error, "issuers of tokens cannot be looked up");
                    AGAIN
                }
            };
            tokio::select! {
                biased;
                Some(issuer) = under_way.next() => {
                    asked.remove(&issuer);
                }
                () = self.held.wants.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Whose keys are due, but for those that are being `asked`, and how long nobody else's will be.
    async fn due(
        &self,
        asked: &BTreeSet<u64>,
        unknown_every: Duration,
    ) -> Result<(Vec<Arc<Issuer>>, Duration)> {
        let issuers = self.issuers().await?;
        let now = self.catalog.env().clock.now();
        let (mut due, mut next) = (Vec::new(), None);
        let demanded = self.held.demanded();
        let others = issuers
            .values()
            .chain(&demanded)
            .filter(|issuer| !issuer.disabled && !asked.contains(&issuer.id));
        for issuer in others {
            let at = self.held(issuer).await?.due(unknown_every);
            if at <= now {
                due.push(Arc::clone(issuer));
            } else {
                next = Some(next.map_or(at, |next: Timestamp| next.min(at)));
            }
        }
        let wait = next.map_or(SLEEP_MAX, |next| {
            Duration::from_nanos(next.0.saturating_sub(now.0))
        });
        Ok((due, wait.clamp(Duration::from_millis(100), SLEEP_MAX)))
    }

    async fn fetch_one(&self, fetcher: &dyn FetchKeys, issuer: &Issuer) {
        let began = self.catalog.env().clock.now();
        if let Some(held) = self.held.all.write().get_mut(&issuer.id) {
            held.tried = Some(began);
            held.wanted = false;
        }
        let fetched = fetcher.fetch(issuer).await;
        match fetched.and_then(|set| Ok((parsed(&set)?, set))) {
            Ok((keys, set)) => {
                if let Err(error) = self.take_keys(issuer, keys, set).await {
                    // They serve all the same.
                    tracing::warn!(issuer = issuer.url, %error, "the keys of an issuer cannot be written down");
                    if let Some(held) = self.held.all.write().get_mut(&issuer.id) {
                        held.failures = held.failures.saturating_add(1);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(issuer = issuer.url, %error, "the keys of an issuer cannot be fetched");
                if let Some(held) = self.held.all.write().get_mut(&issuer.id) {
                    held.failed = Some(error.to_string());
                    held.failures = held.failures.saturating_add(1);
                    held.tries += 1;
                }
            }
        }
        self.held.ended.notify_waiters();
    }

    /// Takes a published set up and keeps it in the catalog, if the issuer is still the one for which
    /// it was fetched.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for one that is none, which changes nothing; those of the
    /// catalog.
    pub async fn learn_keys(&self, issuer: &Issuer, set: &[u8]) -> Result<()> {
        self.take_keys(issuer, parsed(set)?, set.to_vec()).await
    }

    async fn take_keys(&self, issuer: &Issuer, keys: KeySet, set: Vec<u8>) -> Result<()> {
        let keys = Arc::new(keys);
        let now = self.catalog.env().clock.now();
        let on_demand = self.held.is_on_demand(issuer.id);
        let changed = {
            let mut all = self.held.all.write();
            let held = all.entry(issuer.id).or_default();
            let changed = held.keys != keys;
            *held = CachedKeySet {
                keys: Arc::clone(&keys),
                fetched: Some(now),
                failed: None,
                failures: 0,
                tried: Some(now),
                tries: held.tries + 1,
                wanted: false,
            };
            changed
        };
        if on_demand {
            return Ok(());
        }
        if changed {
            // Tokens that were proven with a key that is gone are to be looked at again.
            self.forget();
        }
        let record = IssuerKeysRecord { fetched: now, set };
        let kept = self.keep(issuer, &keys, &record).await;
        if matches!(kept, Ok(false)) {
            self.held.drop_keys(issuer);
        }
        kept.map(drop)
    }

    /// Writes down what was fetched for an issuer, unless that is there; false where it is no issuer any more.
    /// Nothing that is cached depends on it.
    async fn keep(
        &self,
        issuer: &Issuer,
        keys: &KeySet,
        record: &IssuerKeysRecord,
    ) -> Result<bool> {
        let keys_key = keys_key_of(&issuer.url);
        for _ in 0..TRIES {
            let key = key_of(&issuer.url);
            // Before the issuer: if that is still there afterwards, this is its own.
            let there = self.catalog.kv().get(&keys_key).await?.value;
            let there = there.and_then(|there| decode::<IssuerKeysRecord>(&there).ok());
            let read = self.catalog.kv().get(&key).await?;
            let now: Option<IssuerRecord> = read.value.as_deref().map(decode).transpose()?;
            if now.is_none_or(|now| now.id != issuer.id) {
                return Ok(false);
            }
            let fresh = |there: &IssuerKeysRecord| {
                let times = there.fetched..after(there.fetched, KEPT_AGAIN);
                times.contains(&record.fetched)
                    && KeySet::parse(&there.set).is_ok_and(|there| there == *keys)
            };
            if there.as_ref().is_some_and(fresh) {
                return Ok(true);
            }
            let batch = Batch {
                require: vec![Precondition::same(key, &read)],
                puts: vec![(keys_key.clone(), encode(record))],
                ..Batch::default()
            };
            match self.catalog.kv().commit(batch).await {
                Ok(_) => return Ok(true),
                // Somebody changes or removes it.
                Err(CommitError::Conflict(_)) => {}
                Err(CommitError::Failed(error)) => return Err(error),
            }
        }
        let message = format!("issuer {} changes too often to keep its keys", issuer.url);
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// What is held of an issuer; read from the catalog the first time.
    async fn held(&self, issuer: &Issuer) -> Result<CachedKeySet> {
        if let Some(held) = self.held.all.read().get(&issuer.id) {
            return Ok(held.clone());
        }
        let mut held = CachedKeySet::default();
        let key = keys_key_of(&issuer.url);
        // What the catalog has is an issuer's of the server, who may have them from another place.
        if !self.held.is_on_demand(issuer.id)
            && let Some(record) = self.read::<IssuerKeysRecord>(&key).await?
            && let Ok(keys) = KeySet::parse(&record.set)
        {
            held.keys = Arc::new(keys);
            held.fetched = Some(record.fetched);
        }
        let mut all = self.held.all.write();
        Ok(all.entry(issuer.id).or_insert(held).clone())
    }

    /// How it stands with an issuer's keys.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn key_standing(&self, issuer: &Issuer) -> Result<IssuerKeyStatus> {
        let held = self.held(issuer).await?;
        Ok(IssuerKeyStatus {
            keys: held.keys.len(),
            fetched: held.fetched,
            failed: held.failed,
        })
    }

    /// Proves a token: whose it is and what it says.
    ///
    /// # Errors
    /// The outer ones are those of the catalog, the inner what is wrong with the token.
    pub async fn prove(
        &self,
        token: &str,
    ) -> Result<std::result::Result<(Arc<Issuer>, VerifiedToken), TokenError>> {
        let jws = match Jws::parse(token) {
            Ok(jws) => jws,
            Err(error) => return Ok(Err(error)),
        };
        let url = match claimed_issuer(&jws) {
            Ok(url) => url,
            Err(error) => return Ok(Err(error)),
        };
        let issuers = self.issuers().await?;
        let Some(issuer) = issuers.get(&url).filter(|issuer| !issuer.disabled) else {
            return Ok(Err(TokenError::UnknownIssuer(url)));
        };
        self.prove_by(issuer, &jws).await
    }

    /// Proves a token of this issuer.
    pub(super) async fn prove_by(
        &self,
        issuer: &Arc<Issuer>,
        jws: &Jws<'_>,
    ) -> Result<std::result::Result<(Arc<Issuer>, VerifiedToken), TokenError>> {
        let mut held = self.held(issuer).await?;
        let now = self.catalog.env().clock.now();
        let known = held.keys.has(jws.key_id.as_deref());
        // Nobody fetches those of a provider on the hour.
        let old = self.held.is_on_demand(issuer.id)
            && held
                .fetched
                .is_none_or(|fetched| now >= after(fetched, EVERY));
        if (old || !(known && held.serves(now))) && self.ask_for_keys(issuer.id, &held).await {
            held = self.held(issuer).await?;
        }
        let now = self.catalog.env().clock.now();
        if !held.serves(now) {
            let why = match (held.fetched, held.failed) {
                (_, Some(why)) => why,
                (Some(_), None) => "they are older than two days".to_owned(),
                (None, None) => "they were never fetched".to_owned(),
            };
            return Ok(Err(TokenError::NoKeys(issuer.url.clone(), why)));
        }
        let issuers = self.issuers().await?;
        let lifetime_max = Duration::from_secs(self.held.lifetime_max.load(Relaxed));
        let token = check(jws, issuer, &held.keys, lifetime_max, now);
        let token = token.and_then(|token| {
            let others = issuers.values().filter(|other| other.url != issuer.url);
            no_subject_of_another(issuer, &token.subject, others)?;
            Ok(token)
        });
        Ok(token.map(|token| (Arc::clone(issuer), token)))
    }

    /// Asks the keeper for a fetch and waits for it; false where none will come.
    async fn ask_for_keys(&self, issuer: u64, before: &CachedKeySet) -> bool {
        /// Counts a waiting request for as long as it waits.
        struct WaitingRequest<'a>(&'a AtomicUsize);
        impl Drop for WaitingRequest<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Relaxed);
            }
        }
        let Some(unknown_every) = self.held.unknown_every.get() else {
            return false;
        };
        let now = self.catalog.env().clock.now();
        {
            let mut all = self.held.all.write();
            let Some(held) = all.get_mut(&issuer) else {
                return false;
            };
            if held.tries != before.tries {
                return true;
            }
            if held
                .tried
                .is_some_and(|tried| now < after(tried, *unknown_every))
            {
                return false;
            }
            held.wanted = true;
        }
        let (mut place, mut reservation) = (None, None);
        if let Some(owner) = self.held.provider_owner(issuer) {
            reservation = self.held.provider_waiting.take(&owner);
        } else if self.held.waiting.fetch_add(1, Relaxed) < WAITING_MAX {
            place = Some(WaitingRequest(&self.held.waiting));
        } else {
            self.held.waiting.fetch_sub(1, Relaxed);
        }
        if place.is_none() && reservation.is_none() {
            return false;
        }
        let waited = tokio::time::timeout(UNKNOWN_PATIENCE, async {
            loop {
                let mut ended = std::pin::pin!(self.held.ended.notified());
                ended.as_mut().enable();
                let tries = self.held.all.read().get(&issuer).map(|held| held.tries);
                if tries != Some(before.tries) {
                    return;
                }
                self.held.wants.notify_one();
                ended.await;
            }
        })
        .await;
        drop((place, reservation));
        waited.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::NewIssuer;

    fn issuer(id: u64, url: &str) -> Arc<Issuer> {
        let new = NewIssuer {
            url: url.to_owned(),
            audiences: vec!["here".to_owned()],
            ..NewIssuer::default()
        };
        let issuer = new.check().expect("an issuer");
        Arc::new(Issuer { id, ..issuer })
    }

    #[test]
    fn a_subject_is_no_subject_of_another_issuer() {
        let outer = issuer(1, "https://idp.example.org");
        let others = [
            issuer(2, "https://idp.example.org/realms/lab"),
            issuer(3, "https://idp.example.org.evil.org"),
        ];
        let is_fine = |subject| no_subject_of_another(&outer, subject, others.iter()).is_ok();
        for fine in [
            "ann",
            "realms/lab",
            "realms/labs/ann",
            "http://idp/users/1",
            "x/realms/lab/ann",
        ] {
            assert!(is_fine(fine), "{fine}");
        }
        assert!(!is_fine("realms/lab/ann") && !is_fine("realms/lab/a/b"));
        // The inner issuer's own are its own.
        assert!(no_subject_of_another(&others[0], "ann", [&outer].into_iter()).is_ok());
    }
}
