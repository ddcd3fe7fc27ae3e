//! The keys of issuers: held in memory, refreshed beside the requests, kept through outages.
//!
//! # How they are kept
//! [`Accounts::keep_keys`] runs for as long as the server does and fetches each issuer's keys every
//! hour; a fetch that fails is tried again after a minute, then after two, up to a quarter of an
//! hour. What was fetched last serves for two days, over restarts too, since it stands in the
//! catalog, where it is written again when it has changed or is half an hour old. No request fetches
//! anything: one with a key that is not known asks for a fetch, at most every ten seconds for an
//! issuer, and waits for that one a few seconds, as one of a bounded number of such requests. Issuers
//! are asked side by side, and none waits for another.
//!
//! # Cancellation
//! Dropping the future of a request only stops its waiting; dropping that of `keep_keys` stops
//! fetching, and what is held serves on until it is too old.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use dewar_auth::token::{
    Issuer, Jws, KeySet, LIFETIME_MAX, Token, TokenError, check, claimed_issuer,
};
use dewar_env::BoxFuture;
use dewar_meta::kv::{Batch, CommitError, Require};
use dewar_types::{Error, ErrorKind, Result, Timestamp};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use parking_lot::RwLock;
use tokio::sync::Notify;

use super::issuers::{key_of, keys_key_of};
use super::record::{IssuerKeysRecord, IssuerRecord, decode, encode};
use super::{Accounts, TRIES};

/// How often keys are fetched (WLCG profile: 1 to 6 hours).
const EVERY: Duration = Duration::from_secs(3600);
/// How long they serve while no newer ones can be had (WLCG profile: 1 to 4 days).
const SERVE: Duration = Duration::from_secs(2 * 24 * 3600);
/// The first pause after a failure; it doubles.
const AGAIN: Duration = Duration::from_secs(60);
const AGAIN_MAX: Duration = Duration::from_secs(900);
/// Time between two fetches that unknown keys have asked for, unless configured for tests.
pub(super) const UNKNOWN_EVERY: Duration = Duration::from_secs(10);
/// How long a request waits for such a fetch.
const UNKNOWN_PATIENCE: Duration = Duration::from_secs(5);
/// How many requests wait so at once; more are refused without waiting.
const WAITING_MAX: usize = 64;
/// So old is what the catalog has before it is written again though nothing has changed.
const KEPT_AGAIN: Duration = Duration::from_secs(EVERY.as_secs() / 2);
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
pub struct KeyStanding {
    /// How many keys there are.
    pub keys: usize,
    /// When they were fetched.
    pub fetched: Option<Timestamp>,
    /// Why the last fetch failed, if it did.
    pub failed: Option<String>,
}

#[derive(Clone, Default)]
struct Held {
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
pub(super) struct HeldKeys {
    /// Time between two fetches that unknown keys have asked for.
    unknown_every: RwLock<Duration>,
    all: RwLock<BTreeMap<u64, Held>>,
    /// Somebody wants a fetch.
    wants: Notify,
    /// One has ended.
    ended: Notify,
    kept: AtomicBool,
    waiting: AtomicUsize,
    /// For how many seconds a token may be good.
    lifetime_max: AtomicU64,
}

impl Default for HeldKeys {
    fn default() -> Self {
        Self {
            unknown_every: RwLock::new(UNKNOWN_EVERY),
            all: RwLock::default(),
            wants: Notify::default(),
            ended: Notify::default(),
            kept: AtomicBool::default(),
            waiting: AtomicUsize::default(),
            lifetime_max: AtomicU64::new(LIFETIME_MAX.as_secs()),
        }
    }
}

impl HeldKeys {
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

impl Held {
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
    /// `unknown_every`.
    pub async fn keep_keys(&self, fetcher: Arc<dyn FetchKeys>, unknown_every: Duration) {
        *self.held.unknown_every.write() = unknown_every;
        self.held.kept.store(true, Relaxed);
        let mut under_way = FuturesUnordered::new();
        let mut asked = BTreeSet::new();
        loop {
            let wait = match self.due(&asked).await {
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
    async fn due(&self, asked: &BTreeSet<u64>) -> Result<(Vec<Arc<Issuer>>, Duration)> {
        let issuers = self.issuers().await?;
        let now = self.env.clock.now();
        let (mut due, mut next) = (Vec::new(), None);
        let unknown_every = *self.held.unknown_every.read();
        let others = issuers
            .values()
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
        let began = self.env.clock.now();
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
        let now = self.env.clock.now();
        let changed = {
            let mut all = self.held.all.write();
            let held = all.entry(issuer.id).or_default();
            let changed = held.keys != keys;
            *held = Held {
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
            let there = self.kv.get(&keys_key).await?.value;
            let there = there.and_then(|there| decode::<IssuerKeysRecord>(&there).ok());
            let read = self.kv.get(&key).await?;
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
                require: vec![Require::same(key, &read)],
                puts: vec![(keys_key.clone(), encode(record))],
                ..Batch::default()
            };
            match self.kv.commit(batch).await {
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
    async fn held(&self, issuer: &Issuer) -> Result<Held> {
        if let Some(held) = self.held.all.read().get(&issuer.id) {
            return Ok(held.clone());
        }
        let mut held = Held::default();
        let key = keys_key_of(&issuer.url);
        if let Some(record) = self.read::<IssuerKeysRecord>(&key).await?
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
    pub async fn key_standing(&self, issuer: &Issuer) -> Result<KeyStanding> {
        let held = self.held(issuer).await?;
        Ok(KeyStanding {
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
    ) -> Result<std::result::Result<(Arc<Issuer>, Token), TokenError>> {
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
        let mut held = self.held(issuer).await?;
        let known = held.keys.has(jws.key_id.as_deref());
        if !(known && held.serves(self.env.clock.now()))
            && self.ask_for_keys(issuer.id, &held).await
        {
            held = self.held(issuer).await?;
        }
        let now = self.env.clock.now();
        if !held.serves(now) {
            let why = match (held.fetched, held.failed) {
                (_, Some(why)) => why,
                (Some(_), None) => "they are older than two days".to_owned(),
                (None, None) => "they were never fetched".to_owned(),
            };
            return Ok(Err(TokenError::NoKeys(url, why)));
        }
        let lifetime_max = Duration::from_secs(self.held.lifetime_max.load(Relaxed));
        let token = check(&jws, issuer, &held.keys, lifetime_max, now);
        let token = token.and_then(|token| {
            let others = issuers.values().filter(|other| other.url != issuer.url);
            no_subject_of_another(issuer, &token.subject, others)?;
            Ok(token)
        });
        Ok(token.map(|token| (Arc::clone(issuer), token)))
    }

    /// Asks the keeper for a fetch and waits for it; false where none will come.
    async fn ask_for_keys(&self, issuer: u64, before: &Held) -> bool {
        /// Counts a waiting request for as long as it waits.
        struct Place<'a>(&'a AtomicUsize);
        impl Drop for Place<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Relaxed);
            }
        }
        if !self.held.kept.load(Relaxed) {
            return false;
        }
        let now = self.env.clock.now();
        let unknown_every = *self.held.unknown_every.read();
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
                .is_some_and(|tried| now < after(tried, unknown_every))
            {
                return false;
            }
            held.wanted = true;
        }
        let place = Place(&self.held.waiting);
        if self.held.waiting.fetch_add(1, Relaxed) >= WAITING_MAX {
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
        drop(place);
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
