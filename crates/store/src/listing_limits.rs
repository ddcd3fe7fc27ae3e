//! Limits for listings: their cost, and the number of expensive ones that an account may run at
//! once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

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

/// The running expensive listings, by account. Anonymous callers count as one account.
#[derive(Debug, Default)]
pub(crate) struct ExpensiveListings {
    config: ListingConfig,
    running: Arc<Mutex<BTreeMap<UserId, usize>>>,
}

/// A listing that counts until this is dropped.
struct ListingPermit {
    running: Arc<Mutex<BTreeMap<UserId, usize>>>,
    account: UserId,
}

impl Drop for ListingPermit {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        if let Some(count) = running.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
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

    /// The gate of a listing for an account. It refuses with [`ErrorKind::Busy`] when the listing
    /// turns out to be expensive and the account already runs as many such listings as it may.
    pub(crate) fn gate(&self, account: UserId) -> AccountGate<'_> {
        AccountGate {
            listings: self,
            account,
            permit: Mutex::new(None),
        }
    }

    fn admit(&self, account: UserId) -> Result<ListingPermit> {
        let mut running = self.running.lock();
        let count = running.entry(account).or_default();
        if *count >= self.config.expensive_max {
            let message = "too many listings of this account pass over deleted names";
            return Err(Error::new(ErrorKind::Busy(AGAIN_AFTER), message));
        }
        *count += 1;
        Ok(ListingPermit {
            running: Arc::clone(&self.running),
            account,
        })
    }
}

/// Counts one listing of an account once it is expensive, until it is dropped.
pub(crate) struct AccountGate<'l> {
    listings: &'l ExpensiveListings,
    account: UserId,
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
        *self.permit.lock() = Some(self.listings.admit(self.account)?);
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
        let (one, two) = (UserId(1), UserId(2));
        let first = listings.gate(one);
        first.admit().expect("there is room for one");
        let refused = listings.gate(one).admit().expect_err("one too many");
        assert_eq!(refused.kind(), ErrorKind::Busy(AGAIN_AFTER));
        listings.gate(two).admit().expect("others have their own");
        drop(first);
        listings.gate(one).admit().expect("there is room again");
        assert!(listings.running.lock().is_empty());
    }
}
