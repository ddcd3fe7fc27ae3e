//! Limits for listings: their cost, and the number of expensive ones that an account may run at
//! once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dewar_auth::Caller;
use dewar_auth::fair_share::ShareOwner;
use dewar_namespace::{LIST_NAMES_MAX, ListBudget, ListGate};
use dewar_types::{Error, ErrorKind, Result, UserId};
use parking_lot::Mutex;

/// When a listing that was refused may be asked for again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Interval at which a listing in progress checks whether it may continue.
pub(crate) const GATE_RETRY_AFTER: Duration = Duration::from_millis(50);

/// Limits of listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingConfig {
    /// Most names that a page of a listing reads, including names that it does not show.
    pub names_max: usize,
    /// Most concurrent listings of an account that read many names without showing them.
    pub expensive_max: usize,
}

impl Default for ListingConfig {
    fn default() -> Self {
        Self {
            names_max: LIST_NAMES_MAX,
            expensive_max: 4,
        }
    }
}

/// The running expensive listings by account, and in it by the persons of an issuer.
type RunningListings = BTreeMap<UserId, BTreeMap<ShareOwner, usize>>;

/// The running expensive listings. Anonymous callers count as one account.
#[derive(Debug, Default)]
pub(crate) struct ExpensiveListings {
    config: ListingConfig,
    running: Arc<Mutex<RunningListings>>,
}

/// A listing that counts until this is dropped.
struct ListingPermit {
    running: Arc<Mutex<RunningListings>>,
    account: UserId,
    of: ShareOwner,
}

impl Drop for ListingPermit {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        if let Some(of_account) = running.get_mut(&self.account) {
            if let Some(count) = of_account.get_mut(&self.of) {
                *count -= 1;
                if *count == 0 {
                    of_account.remove(&self.of);
                }
            }
            if of_account.is_empty() {
                running.remove(&self.account);
            }
        }
    }
}

impl ExpensiveListings {
    pub(crate) fn new(config: ListingConfig) -> Self {
        Self {
            config,
            running: Arc::default(),
        }
    }

    /// The gate of a listing for a caller. It refuses with [`ErrorKind::Busy`] when the listing
    /// turns out to be expensive and the account already runs as many such listings as it may.
    pub(crate) fn gate(&self, caller: &Caller) -> AccountGate<'_> {
        self.gate_of(caller.account(), ShareOwner::of(caller))
    }

    fn gate_of(&self, account: UserId, of: ShareOwner) -> AccountGate<'_> {
        AccountGate {
            listings: self,
            account,
            of,
            permit: Mutex::new(None),
        }
    }

    fn admit(&self, account: UserId, of: &ShareOwner) -> Result<ListingPermit> {
        let mut running = self.running.lock();
        let found = running.get(&account);
        let all: usize = found.map_or(0, |found| found.values().sum());
        let own = found.and_then(|found| found.get(of)).copied().unwrap_or(0);
        let free = self.config.expensive_max.saturating_sub(all);
        // A person of an issuer leaves some to the others.
        if free == 0 || (of.is_person() && own >= free) {
            let message = "too many listings of this account pass over deleted names";
            return Err(Error::new(ErrorKind::Busy(AGAIN_AFTER), message));
        }
        let of_account = running.entry(account).or_default();
        of_account.insert(of.clone(), own + 1);
        Ok(ListingPermit {
            running: Arc::clone(&self.running),
            account,
            of: of.clone(),
        })
    }
}

/// Counts one listing of an account once it is expensive, until it is dropped.
pub(crate) struct AccountGate<'l> {
    listings: &'l ExpensiveListings,
    account: UserId,
    of: ShareOwner,
    permit: Mutex<Option<ListingPermit>>,
}

impl AccountGate<'_> {
    /// The cost limit of the listing.
    pub(crate) fn budget(&self) -> ListBudget<'_> {
        ListBudget {
            names_max: self.listings.config.names_max,
            gate: Some(self),
        }
    }
}

impl ListGate for AccountGate<'_> {
    fn admit(&self) -> Result<()> {
        *self.permit.lock() = Some(self.listings.admit(self.account, &self.of)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_has_its_share_of_expensive_listings() {
        let listings = ExpensiveListings::new(ListingConfig {
            expensive_max: 1,
            ..ListingConfig::default()
        });
        let gate = |id| listings.gate_of(UserId(id), ShareOwner::named("account"));
        let first = gate(1);
        first.admit().expect("there is room for one");
        let refused = gate(1).admit().expect_err("one too many");
        assert_eq!(refused.kind(), ErrorKind::Busy(AGAIN_AFTER));
        gate(2).admit().expect("others have their own");
        drop(first);
        gate(1).admit().expect("there is room again");
        assert!(listings.running.lock().is_empty());
    }

    #[test]
    fn a_person_leaves_listings_to_the_others_of_its_issuer() {
        let listings = ExpensiveListings::new(ListingConfig::default());
        let all_of = |name: &str| {
            let next = || {
                let gate = listings.gate_of(UserId(1), ShareOwner::named(name));
                gate.admit().ok().map(|()| gate)
            };
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        let eve = all_of("federated 1:eve");
        let alice = all_of("federated 1:alice");
        assert_eq!((eve.len(), alice.len()), (2, 1));
        // The users of an account are one.
        drop((eve, alice));
        assert_eq!(all_of("account 1").len(), 4);
        assert!(listings.running.lock().is_empty());
    }
}
