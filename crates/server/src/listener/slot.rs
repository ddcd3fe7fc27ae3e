//! The connection limit of a door, and the limits of single addresses.
//!
//! Anybody can open connections without authenticating, so one address may have only a part of a
//! door's connections in that way. An IPv6 network of 64 bits counts as one address, because a host
//! can choose its own address within it. Addresses that many clients share (proxies, gateways, this
//! machine itself) may have half of the connections. A connection leaves this count when its client
//! authenticates, and never enters it again.
//!
//! From then on it counts in the share of that client: an account, or a person of an issuer, may
//! have another connection only while it has fewer than are free ([`FairShares`]). If a connection
//! carries requests of several clients, as those of proxies do, it counts for the last one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use dewar_auth::fair_share::{FairShares, ShareOwner, SharePermit};
use dewar_auth::{AcceptedConnection, client_network};
use parking_lot::Mutex;

use super::{Limits, ListenerContext};

/// The number of connections that every address may hold: a browser or a transfer tool opens a few
/// at once.
const ADDRESS_MIN: usize = 16;

/// Shared addresses may hold one in so many of a door's connections.
const SHARED_PART: usize = 2;

/// A door is crowded when less than one in this many of its connections is free.
const CROWDED_PART: usize = 8;

/// Most connections that are being refused with an answer at once, and at most one per this number
/// of a door's limit. Further ones are closed without an answer.
const REFUSALS_MAX: usize = 64;
const REFUSALS_PART: usize = 16;

/// The connections of one door.
pub struct Slots {
    pub(super) open: AtomicUsize,
    /// Connections whose clients have authenticated.
    clients: Arc<FairShares>,
    /// Connections whose clients have not authenticated, by address.
    guests: Mutex<BTreeMap<IpAddr, usize>>,
    /// Connections that are being refused.
    refusals: AtomicUsize,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            open: AtomicUsize::default(),
            // The limit is set whenever a connection is taken from it.
            clients: FairShares::new(0),
            guests: Mutex::default(),
            refusals: AtomicUsize::default(),
        }
    }
}

impl Slots {
    /// Connections that are open now.
    pub(super) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }
}

/// The number of connections that clients of one address may have before they authenticate.
fn share(limits: &Limits, address: IpAddr) -> usize {
    let address = address.to_canonical();
    let mut shared = limits.shared_addresses.iter();
    let part = match address.is_loopback() || shared.any(|network| network.contains(address)) {
        true => limits.unauthenticated_share.min(SHARED_PART),
        false => limits.unauthenticated_share,
    };
    (limits.connections_max / part.max(1)).max(ADDRESS_MIN)
}

/// One of the possible connections of a door, until it is dropped.
pub struct ConnectionSlot {
    pub(super) door: Arc<ListenerContext>,
    block: IpAddr,
    /// Its share of a client; `None` until the client has authenticated.
    client: Mutex<Option<SharePermit>>,
    is_refused: AtomicBool,
}

impl ConnectionSlot {
    /// `None` if the door has no connection left, or none for this address.
    pub(super) fn take(door: &Arc<ListenerContext>, address: IpAddr) -> Option<Self> {
        let limits = door.limits.load();
        let (max, share) = (limits.connections_max, share(&limits, address));
        let block = client_network(address);
        {
            let mut guests = door.slots.guests.lock();
            let held = guests.get(&block).copied().unwrap_or_default();
            if held >= share {
                return None;
            }
            let open = &door.slots.open;
            let taken =
                open.fetch_update(Relaxed, Relaxed, |open| (open < max).then_some(open + 1));
            taken.ok()?;
            guests.insert(block, held + 1);
        }
        door.metrics.accepted.inc();
        door.metrics.open.inc();
        Some(Self {
            door: Arc::clone(door),
            block,
            client: Mutex::new(None),
            is_refused: AtomicBool::new(false),
        })
    }

    /// Whether its client has not authenticated and few connections are left for others.
    pub(super) fn is_hurried(&self) -> bool {
        self.client.lock().is_none() && self.is_crowded()
    }

    /// Whether a client of it had no share left, so that it must be closed.
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused.load(Relaxed)
    }

    fn leave_guests(&self) {
        let mut guests = self.door.slots.guests.lock();
        if let Some(held) = guests.get_mut(&self.block) {
            *held -= 1;
            if *held == 0 {
                guests.remove(&self.block);
            }
        }
    }
}

impl AcceptedConnection for ConnectionSlot {
    fn authenticated(&self, client: &ShareOwner) -> bool {
        let mut present = self.client.lock();
        if present.as_ref().is_some_and(|of| of.owner() == client) {
            return true;
        }
        let clients = &self.door.slots.clients;
        clients.set_max(self.door.limits.load().connections_max);
        let Some(permit) = clients.take(client) else {
            drop(present);
            self.is_refused.store(true, Relaxed);
            self.door.metrics.refused.inc();
            return false;
        };
        if present.replace(permit).is_none() {
            self.leave_guests();
        }
        true
    }

    fn is_crowded(&self) -> bool {
        let max = self.door.limits.load().connections_max;
        max.saturating_sub(self.door.slots.open()) < max / CROWDED_PART
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        if self.client.get_mut().is_none() {
            self.leave_guests();
        }
        self.door.slots.open.fetch_sub(1, Relaxed);
        self.door.metrics.open.dec();
    }
}

/// A connection that is being refused, until it is dropped.
pub(super) struct RefusedConnection(Arc<ListenerContext>);

impl RefusedConnection {
    /// `None` if as many as may be are being refused.
    pub(super) fn take(door: &Arc<ListenerContext>) -> Option<Self> {
        let part = door.limits.load().connections_max / REFUSALS_PART;
        let max = part.clamp(1, REFUSALS_MAX);
        let refusals = &door.slots.refusals;
        let taken = refusals.fetch_update(Relaxed, Relaxed, |now| (now < max).then_some(now + 1));
        taken.is_ok().then(|| Self(Arc::clone(door)))
    }
}

impl Drop for RefusedConnection {
    fn drop(&mut self) {
        self.0.slots.refusals.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::tests::{LIMITS, door};

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn ann() -> ShareOwner {
        ShareOwner::named("ann")
    }

    #[test]
    fn a_client_leaves_connections_to_others() {
        let door = door(
            Limits {
                connections_max: 16,
                unauthenticated_share: 1,
                ..LIMITS
            },
            None,
        );
        let take = || ConnectionSlot::take(&door, ip("192.0.2.1")).expect("room");
        let many = |client: &ShareOwner| -> Vec<_> {
            let taken = std::iter::from_fn(|| Some(take()));
            taken
                .take_while(|slot| slot.authenticated(client))
                .collect()
        };
        let bob = ShareOwner::named("bob");
        let mut held = many(&ann());
        let more = many(&bob);
        assert_eq!((held.len(), more.len()), (8, 4));
        assert_eq!(door.metrics.refused.get(), 2);
        // A connection that goes from one client to another counts for the last one.
        let last = held.pop().expect("one");
        assert!(!last.is_refused() && !last.authenticated(&bob) && last.is_refused());
        drop((last, more));
        let last = held.pop().expect("one");
        assert!(last.authenticated(&bob) && !last.is_refused());
        assert_eq!(many(&ann()).len(), 2);
        drop((held, last));
        // With a larger limit there is more for all of them.
        door.limits.store(Arc::new(Limits {
            connections_max: 64,
            unauthenticated_share: 1,
            ..LIMITS
        }));
        assert_eq!(many(&ann()).len(), 32);
        // Nothing is left of it.
        assert!(door.slots.guests.lock().is_empty());
        assert_eq!((door.slots.open(), door.slots.clients.free()), (0, 64));
    }

    #[test]
    fn an_address_holds_a_part_until_its_clients_authenticate() {
        let door = door(
            Limits {
                connections_max: 320,
                unauthenticated_share: 16,
                shared_addresses: vec![dewar_auth::Network::parse("10.1.0.0/16").expect("one")],
                ..LIMITS
            },
            None,
        );
        let take = |text: &str| ConnectionSlot::take(&door, ip(text));
        let many = |text: &str| -> Vec<_> { std::iter::from_fn(|| take(text)).collect() };
        let held = many("192.0.2.1");
        assert_eq!(held.len(), 20);
        assert!(take("::ffff:192.0.2.1").is_none());
        // One that has proven itself makes room, once.
        assert!(held[0].authenticated(&ann()));
        assert!(held[0].authenticated(&ann()));
        let more = take("192.0.2.1").expect("room");
        assert!(take("192.0.2.1").is_none());
        drop(held);
        assert_eq!(many("192.0.2.1").len(), 19);
        drop(more);
        // A host chooses its address within 64 bits.
        let held: Vec<_> = (0..40)
            .filter_map(|n| take(&format!("2001:db8::{n:x}")))
            .collect();
        assert_eq!(held.len(), 20);
        let other = take("2001:db8:0:1::1").expect("another network");
        drop((held, other));
        for shared in ["10.1.2.3", "127.0.0.1", "::1"] {
            assert_eq!(many(shared).len(), 160, "{shared}");
        }
        // Nothing is left of it.
        assert!(door.slots.guests.lock().is_empty());
        assert_eq!((door.slots.open(), door.metrics.open.get()), (0, 0));
    }

    #[test]
    fn the_share_can_be_all_and_is_never_next_to_nothing() {
        let of = |connections_max, unauthenticated_share| {
            let limits = Limits {
                connections_max,
                unauthenticated_share,
                ..LIMITS
            };
            share(&limits, ip("192.0.2.1"))
        };
        assert_eq!(of(4096, 16), 256);
        assert_eq!(of(4096, 1), 4096);
        assert_eq!(of(64, 16), ADDRESS_MIN);
        let limits = Limits {
            unauthenticated_share: 1,
            ..LIMITS
        };
        assert_eq!(share(&limits, ip("127.0.0.1")), LIMITS.connections_max);
    }

    #[test]
    fn a_crowded_door_hurries_who_has_not_authenticated() {
        let door = door(
            Limits {
                connections_max: 16,
                unauthenticated_share: 1,
                ..LIMITS
            },
            None,
        );
        let held: Vec<_> = (0..14)
            .filter_map(|_| ConnectionSlot::take(&door, ip("192.0.2.1")))
            .collect();
        assert!(!held[0].is_hurried());
        let _more = ConnectionSlot::take(&door, ip("192.0.2.1")).expect("room");
        assert!(held[0].is_hurried());
        assert!(held[0].authenticated(&ann()));
        assert!(!held[0].is_hurried() && held[0].is_crowded() && held[1].is_hurried());
    }
}
