//! Keys that clients leave for destinations.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dewar_auth::Origin;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::fair_share::{FairShares, ShareOwner, SharePermit};
use crate::callers::Proof;

/// Keys that may wait for their destinations at the same time. Nobody's may be more than are left for
/// others.
const KEYS_MAX: usize = 2_000;

/// How long a destination that comes before its key waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Who left a key: what they proved, and from where.
#[derive(Clone)]
pub(crate) struct Grantor {
    pub(crate) proof: Proof,
    pub(crate) origin: Origin,
}

/// What a key opens, and to whom.
pub(crate) struct Grant {
    /// The canonical path.
    pub(crate) path: String,
    /// The client as it names itself: `user.pid`.
    pub(crate) origin: String,
    /// Where the destination's host has its addresses.
    pub(crate) hosts: Vec<IpAddr>,
    /// Whose rights count, those that they have when the key is used.
    pub(crate) giver: Grantor,
    pub(crate) until: Instant,
    /// Whose share of the keys it is in.
    pub(crate) sharer: ShareOwner,
}

/// Why a key is not left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyRejected {
    /// It waits already.
    Twice,
    /// Too many wait, of all or of this one.
    Full,
}

/// A key that waits.
struct PendingKey {
    grant: Grant,
    /// Number of this key among all that were left; the same key may have been left before.
    number: u64,
    _place: SharePermit,
}

#[derive(Default)]
struct PendingKeys {
    by_key: BTreeMap<String, PendingKey>,
    /// How many were left so far.
    left: u64,
}

/// The keys that wait.
pub(crate) struct Keys {
    waiting: Mutex<PendingKeys>,
    shares: Arc<FairShares>,
    came: Notify,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            shares: FairShares::new(KEYS_MAX),
            came: Notify::new(),
        }
    }
}

/// Takes a key back when the client's file is closed.
pub(crate) struct KeyGuard {
    keys: Weak<Keys>,
    key: String,
    number: u64,
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        if let Some(keys) = self.keys.upgrade() {
            let mut waiting = keys.waiting.lock();
            // This one may be over, and its client have left it again on another connection.
            if let Entry::Occupied(key) = waiting.by_key.entry(std::mem::take(&mut self.key))
                && key.get().number == self.number
            {
                key.remove();
            }
        }
    }
}

impl Keys {
    /// Leaves a key; it waits until what this returns is dropped, and no longer than it should.
    ///
    /// # Errors
    /// [`KeyRejected`]. One that waits already may be known to somebody who should not know it, so that one
    /// ends too.
    pub(crate) fn leave(
        self: &Arc<Self>,
        key: &str,
        grant: Grant,
    ) -> Result<KeyGuard, KeyRejected> {
        let mut waiting = self.waiting.lock();
        let now = Instant::now();
        let place = self.shares.take(&grant.sharer).or_else(|| {
            waiting.by_key.retain(|_, key| key.grant.until > now);
            self.shares.take(&grant.sharer)
        });
        let place = place.ok_or(KeyRejected::Full)?;
        waiting.left += 1;
        let number = waiting.left;
        let waits = PendingKey {
            grant,
            number,
            _place: place,
        };
        match waiting.by_key.entry(key.to_owned()) {
            Entry::Occupied(old) if old.get().grant.until > now => {
                old.remove();
                return Err(KeyRejected::Twice);
            }
            Entry::Occupied(mut old) => {
                old.insert(waits);
            }
            Entry::Vacant(free) => {
                free.insert(waits);
            }
        }
        drop(waiting);
        self.came.notify_waiters();
        Ok(KeyGuard {
            keys: Arc::downgrade(self),
            key: key.to_owned(),
            number,
        })
    }

    /// Uses a key up. One that is not there yet is waited for a little.
    pub(crate) async fn redeem(
        &self,
        key: &str,
        path: &str,
        origin: &str,
        from: IpAddr,
    ) -> Option<Grantor> {
        let until = Instant::now() + PATIENCE;
        loop {
            let came = self.came.notified();
            if let Some(outcome) = self.take(key, path, origin, from) {
                return outcome;
            }
            timeout_at(until, came).await.ok()?;
        }
    }

    /// `None` where there is no such key, `Some(None)` where it is not for this one.
    fn take(&self, key: &str, path: &str, origin: &str, from: IpAddr) -> Option<Option<Grantor>> {
        let mut waiting = self.waiting.lock();
        let waiting = &mut waiting.by_key;
        let now = Instant::now();
        if waiting.get(key)?.grant.until <= now {
            waiting.remove(key);
            return Some(None);
        }
        let who = origin.split('@').next().unwrap_or_default();
        // Whoever knows the key and comes for something else, or from elsewhere, knows too much: it
        // does not stay.
        let PendingKey { grant, _place, .. } = waiting.remove(key)?;
        let from = from.to_canonical();
        let near = |host: &IpAddr| *host == from || (host.is_loopback() && from.is_loopback());
        let fits = grant.path == path && grant.origin == who && grant.hosts.iter().any(near);
        Some(fits.then_some(grant.giver))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef01234567";

    fn grant(seconds: u64) -> Grant {
        Grant {
            path: "/b/x".to_owned(),
            origin: "ann.7".to_owned(),
            hosts: vec!["10.0.0.1".parse().expect("an address")],
            giver: Grantor {
                proof: Proof::User(dewar_types::UserId(7)),
                origin: Origin {
                    address: None,
                    secure: false,
                },
            },
            until: Instant::now() + Duration::from_secs(seconds),
            sharer: ShareOwner::named("ann"),
        }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_good_once_for_one_host_one_file_and_one_client() {
        let keys = Arc::new(Keys::default());
        let redeem =
            |key: &'static str, path: &'static str, who: &'static str, from: &'static str| {
                let keys = Arc::clone(&keys);
                async move { keys.redeem(key, path, who, address(from)).await.is_some() }
            };
        let left = keys.leave(KEY, grant(10)).expect("left");
        assert!(redeem(KEY, "/b/x", "ann.7@host", "::ffff:10.0.0.1").await);
        assert!(
            !redeem(KEY, "/b/x", "ann.7@host", "10.0.0.1").await,
            "twice"
        );
        drop(left);
        for (path, who, from) in [
            ("/b/y", "ann.7@host", "10.0.0.1"),
            ("/b/x", "bob.7@host", "10.0.0.1"),
            ("/b/x", "ann.7@host", "10.0.0.2"),
        ] {
            let _left = keys.leave(KEY, grant(10)).expect("left");
            assert!(!redeem(KEY, path, who, from).await, "{path} {who} {from}");
            // And then it is over for the right one too.
            assert!(!redeem(KEY, "/b/x", "ann.7@host", "10.0.0.1").await);
        }
        // Time, the client's own end, and the same key twice.
        let _late = keys.leave(KEY, grant(10)).expect("left");
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(!redeem(KEY, "/b/x", "ann.7@host", "10.0.0.1").await);
        drop(keys.leave(KEY, grant(10)).expect("left"));
        assert!(!redeem(KEY, "/b/x", "ann.7@host", "10.0.0.1").await);
        let _one = keys.leave(KEY, grant(10)).expect("left");
        assert!(keys.leave(KEY, grant(10)).is_err());
        assert!(!redeem(KEY, "/b/x", "ann.7@host", "10.0.0.1").await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_left_again_is_not_taken_back_by_the_first_file() {
        let keys = Arc::new(Keys::default());
        let redeem = || keys.redeem(KEY, "/b/x", "ann.7@host", address("10.0.0.1"));
        for over in ["redeemed", "late"] {
            let first = keys.leave(KEY, grant(10)).expect("left");
            match over {
                "redeemed" => assert!(redeem().await.is_some()),
                _ => tokio::time::advance(Duration::from_secs(11)).await,
            }
            let again = keys.leave(KEY, grant(10)).expect("left again");
            drop(first);
            assert!(redeem().await.is_some(), "{over}");
            drop(again);
        }
        let again = keys.leave(KEY, grant(10)).expect("left");
        drop(again);
        assert!(redeem().await.is_none(), "its own file ends it");
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_before_the_key_waits_a_little() {
        let keys = Arc::new(Keys::default());
        let waiting = {
            let keys = Arc::clone(&keys);
            tokio::spawn(async move {
                keys.redeem(KEY, "/b/x", "ann.7@host", address("10.0.0.1"))
                    .await
                    .is_some()
            })
        };
        tokio::time::sleep(PATIENCE / 2).await;
        let _left = keys.leave(KEY, grant(10)).expect("left");
        assert!(waiting.await.expect("ended"));
        let before = Instant::now();
        assert!(
            keys.redeem(KEY, "/b/x", "ann.7@host", address("10.0.0.1"))
                .await
                .is_none()
        );
        assert_eq!(before.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn one_user_leaves_room_for_the_keys_of_others() {
        let keys = Arc::new(Keys::default());
        let leave = |number: usize, seconds, sharer: &str| {
            let sharer = ShareOwner::named(sharer);
            let grant = Grant {
                sharer,
                ..grant(seconds)
            };
            keys.leave(&format!("{KEY}{number}"), grant)
        };
        let mut left: Vec<KeyGuard> = (0..KEYS_MAX)
            .map_while(|n| leave(n, 10, "ann").ok())
            .collect();
        assert_eq!(left.len(), KEYS_MAX / 2);
        assert_eq!(leave(9000, 10, "ann").err(), Some(KeyRejected::Full));
        left.push(leave(9000, 99, "bob").expect("room for another"));
        // What is over counts no more, though its file is open still.
        tokio::time::advance(Duration::from_secs(11)).await;
        left.push(leave(9001, 10, "ann").expect("room again"));
        drop(left);
        assert_eq!(keys.shares.free(), KEYS_MAX);
    }
}
