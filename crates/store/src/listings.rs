//! What listings may cost, and how many expensive ones an account may run at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dewar_meta::ns::{LIST_NAMES_MAX, ListBudget};
use dewar_types::{Error, ErrorKind, Result, UserId};
use parking_lot::Mutex;

/// When a listing that was refused may be asked for again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long a listing that has begun waits before it looks whether it may go on.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Limits of listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListingConfig {
    /// Most names that a page of a listing looks at, whether it shows them or not.
    pub names_max: usize,
    /// Most listings of an account at once that pass over many names without showing them.
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

/// The expensive listings that are running, by account; who is nobody counts as one account.
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

    /// Runs a listing of an account within its budget.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when it turns out to be expensive and the account runs as many such listings
    /// as it may; what the listing says.
    pub(crate) async fn run<T>(
        &self,
        account: UserId,
        listing: impl AsyncFnOnce(ListBudget<'_>) -> Result<T>,
    ) -> Result<T> {
        let permit = Mutex::new(None);
        let admit = || {
            *permit.lock() = Some(self.admit(account)?);
            Ok(())
        };
        let budget = ListBudget {
            names_max: self.config.names_max,
            admit: Some(&admit),
        };
        listing(budget).await
    }

    /// The same for a listing that has begun to answer: it waits instead of being refused.
    ///
    /// # Errors
    /// What the listing says.
    pub(crate) async fn go_on<T>(
        &self,
        account: UserId,
        listing: impl AsyncFn(ListBudget<'_>) -> Result<T>,
    ) -> Result<T> {
        loop {
            match self.run(account, &listing).await {
                Err(error) if matches!(error.kind(), ErrorKind::Busy(_)) => {
                    tokio::time::sleep(LOOK_AGAIN_AFTER).await;
                }
                outcome => return outcome,
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_account_has_its_share_of_expensive_listings() {
        let listings = ExpensiveListings::new(ListingConfig {
            expensive_max: 1,
            ..ListingConfig::default()
        });
        let (one, two) = (UserId(1), UserId(2));
        let expensive = async |account| {
            let run = listings.run(account, async |budget| {
                budget.admit.map_or(Ok(()), |ask| ask())
            });
            run.await.map_err(|error| error.kind())
        };
        let outer = listings.run(one, async |budget| {
            budget.admit.map_or(Ok(()), |ask| ask())?;
            assert_eq!(expensive(one).await, Err(ErrorKind::Busy(AGAIN_AFTER)));
            assert_eq!(expensive(two).await, Ok(()));
            Ok(())
        });
        outer.await.expect("admitted");
        assert_eq!(expensive(one).await, Ok(()));
        assert!(listings.running.lock().is_empty());
    }
}
