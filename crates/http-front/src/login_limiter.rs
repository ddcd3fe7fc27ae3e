//! A limit for failed logins with a password.
//!
//! Failures are counted for each user name at an address, and for each address. A client beyond its
//! limit is refused without a look at the password until the period ends. One address cannot lock a
//! user out who comes from another address. The number of counters is limited: when all are in use,
//! those of ended periods are removed, and otherwise new addresses share one counter.

use std::collections::BTreeMap;
use std::time::Duration;

use dewar_auth::Origin;
use dewar_types::Timestamp;
use parking_lot::Mutex;

use crate::BudgetHolder;
use crate::limits::{
    FAILED_LOGIN_COUNTERS_MAX, FAILED_LOGIN_PERIOD, FAILED_LOGINS_PER_ADDRESS_MAX,
    FAILED_LOGINS_PER_USER_MAX,
};

/// An address, with a user name or without.
type Key = (BudgetHolder, Option<String>);

/// The counter of clients for which there is no other one left.
const SHARED: Key = (BudgetHolder::Address(None), None);

/// Failures since the period began.
struct FailureCount {
    began: Timestamp,
    failures: u32,
}

/// Counts failed logins.
#[derive(Default)]
pub struct LoginLimiter(Mutex<BTreeMap<Key, FailureCount>>);

impl LoginLimiter {
    /// Whether this client may try a password now.
    ///
    /// # Errors
    /// The time after which it may.
    pub fn check(&self, origin: Origin, user: &str, now: Timestamp) -> Result<(), Duration> {
        let counts = self.0.lock();
        for (key, max) in keys(origin, user) {
            let own = counts.get(&key).map(|count| (count, max));
            let shared = || {
                let is_full = counts.len() >= FAILED_LOGIN_COUNTERS_MAX;
                let count = counts.get(&SHARED).filter(|_| is_full)?;
                Some((count, FAILED_LOGINS_PER_ADDRESS_MAX))
            };
            let Some((count, max)) = own.or_else(shared) else {
                continue;
            };
            let left = remaining(count, now);
            if count.failures >= max && !left.is_zero() {
                return Err(left);
            }
        }
        Ok(())
    }

    /// Counts a failed login.
    pub fn failed(&self, origin: Origin, user: &str, now: Timestamp) {
        let mut counts = self.0.lock();
        for (key, _) in keys(origin, user) {
            if !counts.contains_key(&key) && counts.len() >= FAILED_LOGIN_COUNTERS_MAX {
                counts.retain(|_, count| !remaining(count, now).is_zero());
            }
            let key = match counts.len() < FAILED_LOGIN_COUNTERS_MAX || counts.contains_key(&key) {
                true => key,
                false => SHARED,
            };
            let count = counts.entry(key).or_insert(FailureCount {
                began: now,
                failures: 0,
            });
            if remaining(count, now).is_zero() {
                (count.began, count.failures) = (now, 0);
            }
            count.failures = count.failures.saturating_add(1);
        }
    }
}

fn keys(origin: Origin, user: &str) -> [(Key, u32); 2] {
    let address = BudgetHolder::at(origin);
    [
        (
            (address.clone(), Some(user.to_owned())),
            FAILED_LOGINS_PER_USER_MAX,
        ),
        ((address, None), FAILED_LOGINS_PER_ADDRESS_MAX),
    ]
}

/// What is left of a period.
fn remaining(count: &FailureCount, now: Timestamp) -> Duration {
    let passed = Duration::from_nanos(now.0.saturating_sub(count.began.0));
    FAILED_LOGIN_PERIOD.saturating_sub(passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> Origin {
        Origin {
            address: Some([192, 0, 2, last].into()),
            secure: true,
        }
    }

    #[test]
    fn a_user_at_an_address_and_an_address_are_limited_apart() {
        let limiter = LoginLimiter::default();
        let now = Timestamp::from_secs(1000);
        for _ in 0..FAILED_LOGINS_PER_USER_MAX {
            assert_eq!(limiter.check(at(1), "ann", now), Ok(()));
            limiter.failed(at(1), "ann", now);
        }
        assert_eq!(limiter.check(at(1), "ann", now), Err(FAILED_LOGIN_PERIOD));
        assert_eq!(limiter.check(at(1), "bob", now), Ok(()));
        assert_eq!(limiter.check(at(2), "ann", now), Ok(()));
        for _ in FAILED_LOGINS_PER_USER_MAX..FAILED_LOGINS_PER_ADDRESS_MAX {
            limiter.failed(at(1), "bob", now);
        }
        assert!(limiter.check(at(1), "eve", now).is_err());
        let later = Timestamp::from_secs(1000 + FAILED_LOGIN_PERIOD.as_secs());
        assert_eq!(limiter.check(at(1), "ann", later), Ok(()));
    }

    #[test]
    fn counters_are_limited() {
        let limiter = LoginLimiter::default();
        let now = Timestamp::from_secs(1000);
        for user in 0..2 * FAILED_LOGIN_COUNTERS_MAX {
            limiter.failed(at(1), &user.to_string(), now);
        }
        assert!(limiter.0.lock().len() <= FAILED_LOGIN_COUNTERS_MAX + 1);
        // A client without a counter of its own is limited by the one that all of these share.
        assert!(limiter.check(at(2), "ann", now).is_err());
        let later = Timestamp::from_secs(1000 + FAILED_LOGIN_PERIOD.as_secs());
        assert_eq!(limiter.check(at(2), "ann", later), Ok(()));
    }
}
