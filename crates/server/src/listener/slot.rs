//! The connection limit of a door, and the limits of single addresses.
//!
//! Anybody can open connections without authenticating, so one address may have only a part of a
//! door's connections in that way. An IPv6 network of 64 bits counts as one address, because a host
//! can choose its own address within it. Addresses that many clients share (proxies, gateways, this
//! machine itself) may have half of the connections. A connection leaves this count when its client
//! authenticates, and never enters it again.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use dewar_auth::AcceptedConnection;
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
#[derive(Debug, Default)]
pub struct Slots {
    pub(super) open: AtomicUsize,
    /// Connections whose clients have not authenticated, by address.
    guests: Mutex<BTreeMap<IpAddr, usize>>,
    /// Connections that are being refused.
    refusals: AtomicUsize,
}

impl Slots {
    /// Connections that are open now.
    pub(super) fn open(&self) -> usize {
        self.open.load(Relaxed)
    }
}

/// The network that counts as one address.
fn block(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into()
        }
        ip => ip,
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
    is_guest: AtomicBool,
}

impl ConnectionSlot {
    /// `None` if the door has no connection left, or none for this address.
    pub(super) fn take(door: &Arc<ListenerContext>, address: IpAddr) -> Option<Self> {
        let limits = door.limits.load();
        let (max, share) = (limits.connections_max, share(&limits, address));
        let block = block(address);
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
            is_guest: AtomicBool::new(true),
        })
    }

    /// Whether its client has not authenticated and few connections are left for others.
    pub(super) fn is_hurried(&self) -> bool {
        self.is_guest.load(Relaxed) && self.is_crowded()
    }

    fn leave_guests(&self) {
        if !self.is_guest.swap(false, Relaxed) {
            return;
        }
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
    fn authenticated(&self) {
        if self.is_guest.load(Relaxed) {
            self.leave_guests();
        }
    }

    fn is_crowded(&self) -> bool {
        let max = self.door.limits.load().connections_max;
        max.saturating_sub(self.door.slots.open()) < max / CROWDED_PART
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.leave_guests();
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
        held[0].authenticated();
        held[0].authenticated();
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
        held[0].authenticated();
        assert!(!held[0].is_hurried() && held[0].is_crowded() && held[1].is_hurried());
    }
}
