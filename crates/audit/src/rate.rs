//! Limits on the records of one account that are written one by one.
//!
//! The log has a limited size, so an account with very many records would displace those of all
//! others. Beyond its rate, the records of an account are only counted, and one record per minute
//! has their number.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

use dewar_auth::{AuditEvent, AuditOutcome, AuditRecord};
use dewar_types::{Timestamp, UserId};

use crate::set::AuditSet;

/// Accounts and addresses that are counted separately in a minute. Further ones share one rate.
const SOURCES_MAX: usize = 4096;

/// Persons of one issuer that are counted separately in a minute. Further ones share what is left of
/// the rate of its account.
const PERSONS_MAX: usize = 512;

/// Actions that are counted separately when records of a source are not written one by one.
const ACTIONS_MAX: usize = 128;

/// Sources with a summary record of their own. A last record covers all others.
const SKIPPED_MAX: usize = 64;

/// Seconds of a window.
const WINDOW_SECS: u64 = 60;

/// The rates, in records of one account and minute.
#[derive(Clone, Copy, Debug)]
pub struct AuditRates {
    /// Of allowed actions on data.
    pub data: u32,
    /// Of refusals, of logins and sessions, and of the IAM API, each with this limit. Anonymous
    /// callers count as one account, of which one address uses half at most.
    pub security: u32,
}

/// The classes of records with separate rates, so that many records of one class cannot hide those
/// of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateClass {
    /// Allowed and about data.
    Data,
    /// Refused.
    Refusals,
    /// Allowed logins and sessions.
    Logins,
    /// Allowed calls of the IAM API and the like.
    Access,
}

impl RateClass {
    const ALL: [Self; 4] = [Self::Data, Self::Refusals, Self::Logins, Self::Access];

    fn of(set: AuditSet, record: &AuditRecord) -> Self {
        match (set, record.event) {
            (AuditSet::Data, _) => Self::Data,
            _ if record.outcome == AuditOutcome::Refused => Self::Refusals,
            (_, AuditEvent::Login | AuditEvent::Session) => Self::Logins,
            _ => Self::Access,
        }
    }

    fn set(self) -> AuditSet {
        match self {
            Self::Data => AuditSet::Data,
            Self::Refusals | Self::Logins | Self::Access => AuditSet::Security,
        }
    }
}

/// The source of records that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Account(UserId),
    /// A person for whom the issuer with that account vouches. The account counts its persons, too.
    Person(UserId, String),
    /// Nobody in particular from an address, or from a network of 64 bits.
    Address(Option<IpAddr>),
    /// Nobody in particular, from wherever.
    Nobody,
    /// All that no room was left for.
    Others,
}

impl Source {
    fn of(record: &AuditRecord) -> Self {
        if record.account != UserId(0) && record.federated {
            return Self::Person(record.account, record.who.clone());
        }
        if record.account != UserId(0) {
            return Self::Account(record.account);
        }
        let address = record.origin.address.map(|address| address.to_canonical());
        Self::Address(address.map(|address| match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(v6) => {
                let network = v6.to_bits() & !u128::from(u64::MAX);
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
        }))
    }
}

/// The counters of a source in one class.
#[derive(Debug, Default)]
struct SourceCount {
    taken: u32,
    skipped: u64,
    /// Persons of an account that are counted separately.
    persons: usize,
    who: String,
    actions: BTreeMap<String, u64>,
}

/// Records that were only counted in a window that is over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SkippedRecords {
    pub(crate) set: AuditSet,
    pub(crate) who: String,
    pub(crate) count: u64,
    pub(crate) why: String,
}

/// Counts the records of a minute.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    rates: AuditRates,
    window: u64,
    /// By class.
    counts: [BTreeMap<Source, SourceCount>; 4],
    skipped: Vec<SkippedRecords>,
}

impl RateLimiter {
    pub(crate) fn new(rates: AuditRates) -> Self {
        Self {
            rates,
            window: 0,
            counts: Default::default(),
            skipped: Vec::new(),
        }
    }

    /// Whether a record is written. One that is not is counted.
    pub(crate) fn admits(&mut self, now: Timestamp, set: AuditSet, record: &AuditRecord) -> bool {
        self.begin(now);
        if matches!(record.event, AuditEvent::Admin | AuditEvent::Log) {
            return true;
        }
        let class = RateClass::of(set, record);
        let most = match class.set() {
            AuditSet::Data => self.rates.data,
            AuditSet::Security => self.rates.security,
        };
        let mut source = Source::of(record);
        let counts = &mut self.counts[class as usize];
        let is_nobody = matches!(source, Source::Address(_));
        let is_new = !counts.contains_key(&source);
        // A person has as many as are left to the others of its issuer.
        let mut share = if is_nobody { most.div_ceil(2) } else { most };
        let mut account = None;
        if let Source::Person(issuer, _) = source {
            let all = counts.entry(Source::Account(issuer)).or_default();
            share = most.saturating_sub(all.taken);
            account = Some(Source::Account(issuer));
            if is_new && (all.persons >= PERSONS_MAX || share == 0) {
                (source, share) = (Source::Account(issuer), most);
                account = None;
            } else if is_new {
                all.persons += 1;
            }
        } else if is_new && counts.len() >= SOURCES_MAX {
            source = Source::Others;
        }
        let nobody_is_over = is_nobody
            && counts
                .get(&Source::Nobody)
                .is_some_and(|all| all.taken >= most);
        let mine = counts.entry(source).or_default();
        if mine.taken >= share || nobody_is_over {
            mine.skip(record);
            return false;
        }
        mine.taken += 1;
        if let Some(account) = account {
            counts.entry(account).or_default().taken += 1;
        }
        if is_nobody {
            counts.entry(Source::Nobody).or_default().taken += 1;
        }
        true
    }

    /// Ends the window if its time is over.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        let window = now.secs() / WINDOW_SECS;
        if window != self.window {
            self.window = window;
            self.end();
        }
    }

    /// Ends the window: its counted records can be taken.
    pub(crate) fn end(&mut self) {
        for (class, counts) in RateClass::ALL.into_iter().zip(&mut self.counts) {
            let set = class.set();
            let over = std::mem::take(counts).into_values();
            let mut over: Vec<_> = over.filter(|count| count.skipped > 0).collect();
            over.sort_by_key(|count| std::cmp::Reverse(count.skipped));
            let rest = over.split_off(over.len().min(SKIPPED_MAX));
            self.skipped
                .extend(over.into_iter().map(|count| count.told(set)));
            if !rest.is_empty() {
                self.skipped.push(SkippedRecords::of_many(set, &rest));
            }
        }
    }

    /// Takes the counts of windows that have ended.
    pub(crate) fn take_skipped(&mut self) -> Vec<SkippedRecords> {
        std::mem::take(&mut self.skipped)
    }

    /// Whether records of this window or an earlier one were only counted.
    pub(crate) fn has_skipped(&self) -> bool {
        let skips = |count: &SourceCount| count.skipped > 0;
        !self.skipped.is_empty() || self.counts.iter().any(|all| all.values().any(skips))
    }

    /// Whether a window with such records is over.
    pub(crate) fn is_due(&mut self, now: Timestamp) -> bool {
        self.begin(now);
        !self.skipped.is_empty()
    }
}

impl SkippedRecords {
    fn of_many(set: AuditSet, rest: &[SourceCount]) -> Self {
        let count = rest.iter().map(|count| count.skipped).sum();
        let sources = rest.len();
        Self {
            set,
            who: "others".to_owned(),
            count,
            why: format!(
                "{count} decisions of {sources} further accounts or addresses were only counted"
            ),
        }
    }
}

impl SourceCount {
    fn skip(&mut self, record: &AuditRecord) {
        self.skipped += record.count;
        self.who.clone_from(&record.who);
        let action = match self.actions.len() < ACTIONS_MAX {
            false if !self.actions.contains_key(&*record.action) => "others",
            _ => &*record.action,
        };
        *self.actions.entry(action.to_owned()).or_default() += record.count;
    }

    fn told(self, set: AuditSet) -> SkippedRecords {
        let mut why = format!(
            "{} decisions of this account or address were only counted, since it has more than its rate:",
            self.skipped
        );
        for (action, count) in &self.actions {
            // Writing to a text never fails.
            let _ = write!(why, " {action} {count},");
        }
        why.pop();
        SkippedRecords {
            set,
            who: self.who,
            count: self.skipped,
            why,
        }
    }
}

#[cfg(test)]
mod tests {
    use dewar_auth::{Caller, Origin};

    use super::*;

    const RATES: AuditRates = AuditRates {
        data: 100,
        security: 10,
    };

    fn record(account: u64, address: &str) -> AuditRecord {
        let origin = Origin {
            address: address.parse().ok(),
            secure: true,
        };
        AuditRecord {
            account: UserId(account),
            by_nobody: account == 0,
            ..AuditRecord::of(&Caller::anonymous(origin), "s3:PutObject", "/data/a".into())
        }
    }

    fn second(secs: u64) -> Timestamp {
        Timestamp(secs * 1_000_000_000)
    }

    #[test]
    fn an_account_has_a_rate_of_its_own() {
        let mut limiter = RateLimiter::new(RATES);
        let mut taken = |account, at, times| {
            let record = record(account, "192.0.2.7");
            let admits = |_: &u32| limiter.admits(second(at), AuditSet::Data, &record);
            (0..times).filter(admits).count()
        };
        assert_eq!(taken(1, 60, 500), 100);
        assert_eq!(taken(2, 60, 50), 50);
        assert_eq!(taken(1, 120, 500), 100);
        let skipped = limiter.take_skipped();
        assert_eq!(skipped.len(), 1);
        assert_eq!((skipped[0].count, skipped[0].set), (400, AuditSet::Data));
        assert!(skipped[0].why.ends_with("s3:PutObject 400"), "{skipped:?}");
        assert!(limiter.has_skipped() && !limiter.is_due(second(130)));
        assert!(limiter.is_due(second(180)));
    }

    #[test]
    fn a_person_leaves_some_of_the_rate_to_the_others_of_its_issuer() {
        let mut limiter = RateLimiter::new(RATES);
        let mut taken = |who: &str, times| {
            let record = AuditRecord {
                who: who.to_owned(),
                federated: true,
                ..record(7, "192.0.2.7")
            };
            let admits = |_: &u32| limiter.admits(second(60), AuditSet::Data, &record);
            (0..times).filter(admits).count()
        };
        assert_eq!(taken("eve@issuer", 700), 50);
        assert_eq!(taken("alice@issuer", 3), 3);
        assert!(taken("bob@issuer", 700) > 10);
        // All of them together have the rate of one account.
        let others: usize = (0..2000).map(|n| taken(&format!("{n}@issuer"), 10)).sum();
        assert!(others < 47, "{others}");
        let account =
            |counts: &BTreeMap<Source, SourceCount>| counts[&Source::Account(UserId(7))].taken;
        assert_eq!(
            account(&limiter.counts[RateClass::Data as usize]),
            RATES.data
        );
        let count = limiter.counts[RateClass::Data as usize].len();
        assert!(count <= PERSONS_MAX + 1, "{count}");
        limiter.end();
        let eve = |skipped: &SkippedRecords| skipped.who == "eve@issuer" && skipped.count == 650;
        assert!(limiter.take_skipped().iter().any(eve));
    }

    #[test]
    fn refusals_hide_nothing_that_was_allowed() {
        let mut limiter = RateLimiter::new(RATES);
        let mut refused = record(1, "192.0.2.7");
        refused.outcome = AuditOutcome::Refused;
        let tries = 0..10_000;
        let admits = |_: &u32| limiter.admits(second(60), AuditSet::Security, &refused);
        assert!(tries.filter(admits).count() < 10_000);
        let allowed = record(1, "192.0.2.7");
        assert!(limiter.admits(second(60), AuditSet::Security, &allowed));
    }

    #[test]
    fn an_address_has_half_of_the_rate_of_nobody() {
        let mut limiter = RateLimiter::new(RATES);
        let mut taken = |address: &str, times| {
            let record = record(0, address);
            let admits = |_: &u32| limiter.admits(second(0), AuditSet::Security, &record);
            (0..times).filter(admits).count()
        };
        assert_eq!(taken("2001:db8::1", 20), 5);
        assert_eq!(taken("2001:db8::2", 20), 0, "the same network");
        assert_eq!(taken("192.0.2.1", 3), 3);
        assert_eq!(taken("192.0.2.2", 20), 2);
        limiter.end();
        assert_eq!(
            limiter
                .take_skipped()
                .iter()
                .map(|one| one.count)
                .sum::<u64>(),
            53
        );
    }

    #[test]
    fn what_it_keeps_is_bounded_and_administrators_have_no_rate() {
        let mut limiter = RateLimiter::new(AuditRates {
            data: 1,
            security: 1,
        });
        for account in 1..10_000 {
            for _ in 0..2 {
                limiter.admits(second(0), AuditSet::Data, &record(account, ""));
            }
        }
        assert!(limiter.counts[0].len() <= SOURCES_MAX + 2);
        limiter.end();
        assert_eq!(limiter.take_skipped().len(), SKIPPED_MAX + 1);
        let admin = AuditRecord {
            event: AuditEvent::Admin,
            ..record(0, "")
        };
        assert!((0..10).all(|_| limiter.admits(second(0), AuditSet::Security, &admin)));
    }
}
