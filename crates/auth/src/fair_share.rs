//! Fair shares of a limited number of resources: connections, waiting keys, running copies and
//! computations.
//!
//! A user may take another one while it has fewer than are free. So a single user gets half of all,
//! a second one a quarter, and a late one still finds something, unless all are held one by one by
//! different users.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::network::client_network;
use crate::{Caller, UserKind};

/// Begins the names of persons.
const PERSON: &str = "federated ";

/// The holder of a share: an account, with all its users and roles, a person for whom an issuer
/// vouches, or an address whose clients are not asked for credentials.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShareOwner(Arc<str>);

impl ShareOwner {
    /// That of a caller.
    #[must_use]
    pub fn of(caller: &Caller) -> Self {
        Self(match caller.user() {
            Some(user) if matches!(user.kind, UserKind::Federated { .. }) => {
                format!("{PERSON}{}", user.unique_id()).into()
            }
            _ => format!("account {}", caller.account()).into(),
        })
    }

    /// All clients of an address. IPv6 addresses of one network of 64 bits are one owner.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        Self(format!("address {}", client_network(address)).into())
    }

    /// Whether it is a person for whom an issuer vouches. Such persons share the account of the issuer.
    #[must_use]
    pub fn is_person(&self) -> bool {
        self.0.starts_with(PERSON)
    }

    /// The owner of that name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self(name.into())
    }
}

/// Reservations that are shared.
pub struct FairShares {
    held: Mutex<Usage>,
}

struct Usage {
    max: usize,
    all: usize,
    by: BTreeMap<ShareOwner, usize>,
}

/// One of [`FairShares`], until it is dropped.
pub struct SharePermit {
    shares: Arc<FairShares>,
    of: ShareOwner,
}

impl FairShares {
    /// So many.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            held: Mutex::new(Usage {
                max,
                all: 0,
                by: BTreeMap::new(),
            }),
        })
    }

    /// So many from now on. Permits beyond the new limit stay until they are dropped.
    pub fn set_max(&self, max: usize) {
        self.held.lock().max = max;
    }

    /// A reservation, if this one does not hold as many as are free.
    #[must_use]
    pub fn take(self: &Arc<Self>, of: &ShareOwner) -> Option<SharePermit> {
        let mut held = self.held.lock();
        let own = held.by.get(of).copied().unwrap_or_default();
        if own >= held.max.saturating_sub(held.all) {
            return None;
        }
        held.all += 1;
        held.by.insert(of.clone(), own + 1);
        Some(SharePermit {
            shares: Arc::clone(self),
            of: of.clone(),
        })
    }

    /// The free ones.
    #[must_use]
    pub fn free(&self) -> usize {
        let held = self.held.lock();
        held.max.saturating_sub(held.all)
    }
}

impl SharePermit {
    /// The holder.
    #[must_use]
    pub fn owner(&self) -> &ShareOwner {
        &self.of
    }
}

impl Drop for SharePermit {
    fn drop(&mut self) {
        let mut held = self.shares.held.lock();
        held.all -= 1;
        if let Some(own) = held.by.get_mut(&self.of) {
            *own -= 1;
            if *own == 0 {
                held.by.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_more_than_is_left() {
        let shares = FairShares::new(16);
        let all_of = |name: &str| {
            let of = ShareOwner::named(name);
            std::iter::from_fn(|| shares.take(&of)).collect::<Vec<_>>()
        };
        let counts: Vec<Vec<SharePermit>> = ["a", "b", "c", "d", "e"].map(all_of).into();
        let counted: Vec<usize> = counts.iter().map(Vec::len).collect();
        assert_eq!(counted, [8, 4, 2, 1, 1]);
        assert!(shares.take(&ShareOwner::named("f")).is_none());
        drop(counts);
        assert_eq!(shares.free(), 16);
        assert!(shares.held.lock().by.is_empty());
        // One is for whoever comes first.
        let one = FairShares::new(1);
        let held = one.take(&ShareOwner::named("a")).expect("free");
        assert!(one.take(&ShareOwner::named("b")).is_none());
        drop(held);
        assert!(one.take(&ShareOwner::named("b")).is_some());
    }

    #[test]
    fn what_is_held_stays_when_there_are_fewer() {
        let shares = FairShares::new(4);
        let (a, b) = (ShareOwner::named("a"), ShareOwner::named("b"));
        let held = [shares.take(&a), shares.take(&a)].map(|held| held.expect("free"));
        shares.set_max(1);
        assert_eq!(shares.free(), 0);
        assert!(shares.take(&a).is_none() && shares.take(&b).is_none());
        shares.set_max(3);
        assert!(shares.take(&a).is_none());
        assert_eq!(shares.take(&b).expect("free").owner(), &b);
        drop(held);
        assert_eq!(shares.free(), 3);
    }

    #[test]
    fn an_ipv6_network_is_one_owner() {
        let of = |text: &str| ShareOwner::at(text.parse().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:3"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
