//! The queue of third-party copies: how many run, and which of the waiting ones runs next.
//!
//! - **Shares.** A share is a collaboration (an issuer of tokens and a group) or a local account. The
//!   next copy is one of the share with the fewest running ones, and within the share one of the user
//!   with the fewest. Among equals, the one that was served longest ago is next. A user's own copies
//!   run in the order in which they came.
//! - **Newcomers.** A user starts another copy only while it runs fewer than are free, and a share only
//!   while it runs fewer than three times as many as are free. So a user alone gets half of all places,
//!   a collaboration alone three quarters, and a newcomer always finds a place at once.
//! - **Bounds.** A user may have as many waiting copies as are free for others to wait, and a share three
//!   times as many. A copy that has waited for [`QueueLimits::wait_max`] fails.
//!
//! The queue has no task and no clock of its own: places are given when copies come and go.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dewar_auth::{Caller, UserKind};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// A share runs fewer than so many times the number of free places when it starts another copy, and the same
/// holds for copies that wait.
const SHARE_OF_FREE: usize = 3;

/// Limits of a [`TransferQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Most copies that run at once.
    pub active_max: usize,
    /// Most copies that wait at once.
    pub waiting_max: usize,
    /// Longest wait of a copy.
    pub wait_max: Duration,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            active_max: 200,
            waiting_max: 4_000,
            wait_max: Duration::from_secs(300),
        }
    }
}

/// The user of a copy, and the share that it counts in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueShare {
    /// An issuer with the user's first group, or a local account.
    pub share: Arc<str>,
    /// The user.
    pub user: Arc<str>,
}

impl QueueShare {
    /// That of a caller.
    #[must_use]
    pub fn of(caller: &Caller) -> Self {
        let account = || format!("account {}", caller.account()).into();
        let Some(user) = caller.user() else {
            let share: Arc<str> = account();
            return Self {
                user: Arc::clone(&share),
                share,
            };
        };
        match &user.kind {
            UserKind::Federated { provider, subject } => Self {
                share: match first_group(caller, provider) {
                    Some(group) => format!("issuer {provider} {group}").into(),
                    None => format!("issuer {provider}").into(),
                },
                user: format!("subject {subject}@{provider}").into(),
            },
            // The client chooses the name of a session, so a role is one user.
            UserKind::Role { .. } => Self {
                share: account(),
                user: format!("role {} of {}", caller.user_id(), caller.account()).into(),
            },
            // A name is unique in its tenant only.
            UserKind::Local => Self {
                share: account(),
                user: format!("user {} of {}", caller.user_id(), caller.account()).into(),
            },
        }
    }
}

/// The first group of a token, in alphabetical order: a user in several groups has one share.
fn first_group<'a>(caller: &'a Caller, provider: &str) -> Option<&'a str> {
    let claims = &caller.bounds()?.claims;
    let groups = claims.iter().filter(|(name, _)| {
        let name = name
            .strip_prefix(provider)
            .and_then(|rest| rest.strip_prefix(':'));
        matches!(name, Some("wlcg.groups" | "groups"))
    });
    groups
        .flat_map(|(_, values)| values.iter().map(String::as_str))
        .min()
}

/// Too many copies wait, of all or of this user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("too many copies wait")]
pub struct QueueFull;

/// A copy waited for [`QueueLimits::wait_max`] and did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no place became free within {} s", .0.as_secs())]
pub struct WaitedTooLong(pub Duration);

/// The queue. Share it between fronts.
pub struct TransferQueue {
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    limits: QueueLimits,
    active: usize,
    waiting: usize,
    /// Copies that came, and copies that were started, so far.
    came: u64,
    started: u64,
    shares: BTreeMap<Arc<str>, Share>,
    /// Those of each user over all shares.
    users: BTreeMap<Arc<str>, Counts>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    active: usize,
    waiting: usize,
}

#[derive(Default)]
struct Share {
    counts: Counts,
    /// When its last copy was started, as a number among all.
    served: u64,
    users: BTreeMap<Arc<str>, UserQueue>,
}

#[derive(Default)]
struct UserQueue {
    active: usize,
    served: u64,
    waiting: VecDeque<Ticket>,
}

struct Ticket {
    number: u64,
    start: oneshot::Sender<()>,
}

/// The place of a copy: in the queue until [`QueuePlace::admitted`] returns, then among those that
/// run. Drop it when the copy ends.
pub struct QueuePlace {
    queue: Arc<TransferQueue>,
    share: QueueShare,
    number: u64,
    start: Option<oneshot::Receiver<()>>,
    wait_max: Duration,
}

impl TransferQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(limits: QueueLimits) -> Arc<Self> {
        Arc::new(Self {
            places: Mutex::new(Places {
                limits,
                ..Places::default()
            }),
        })
    }

    /// Sets other limits. Copies beyond a lower limit go on.
    pub fn set_limits(&self, limits: QueueLimits) {
        let mut places = self.places.lock();
        places.limits = limits;
        places.start_waiting();
    }

    /// Takes a place in the queue.
    ///
    /// # Errors
    /// [`QueueFull`].
    pub fn enter(self: &Arc<Self>, share: &QueueShare) -> Result<QueuePlace, QueueFull> {
        let mut places = self.places.lock();
        let places = &mut *places;
        let own = places.users.get(&share.user).copied().unwrap_or_default();
        let free = places.limits.waiting_max.saturating_sub(places.waiting);
        // A copy for which there is a place does not wait, so it counts against no bound.
        let of_share = places.shares.get(&share.share);
        let of_share = of_share.map_or(0, |share| share.counts.waiting);
        let is_full = own.waiting >= free || of_share >= free.saturating_mul(SHARE_OF_FREE);
        if is_full && !places.has_place_for(share) {
            return Err(QueueFull);
        }
        places.came += 1;
        let (start, started) = oneshot::channel();
        let number = places.came;
        places.count(share, |counts| counts.waiting += 1);
        places.waiting += 1;
        let queues = &mut places
            .shares
            .entry(Arc::clone(&share.share))
            .or_default()
            .users;
        let own = queues.entry(Arc::clone(&share.user)).or_default();
        own.waiting.push_back(Ticket { number, start });
        places.start_waiting();
        Ok(QueuePlace {
            queue: Arc::clone(self),
            share: share.clone(),
            number,
            start: Some(started),
            wait_max: places.limits.wait_max,
        })
    }

    /// Copies that run, and copies that wait.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let places = self.places.lock();
        (places.active, places.waiting)
    }
}

impl Places {
    fn free(&self) -> usize {
        self.limits.active_max.saturating_sub(self.active)
    }

    /// Whether a copy of this share would run at once.
    fn has_place_for(&self, share: &QueueShare) -> bool {
        let free = self.free();
        let active = |counts: Option<Counts>| counts.unwrap_or_default().active;
        let of_share = self.shares.get(&share.share).map(|share| share.counts);
        active(of_share) < free.saturating_mul(SHARE_OF_FREE)
            && active(self.users.get(&share.user).copied()) < free
    }

    /// Changes the counts of a user and of its share.
    fn count(&mut self, of: &QueueShare, change: impl Fn(&mut Counts)) {
        change(self.users.entry(Arc::clone(&of.user)).or_default());
        let share = self.shares.entry(Arc::clone(&of.share)).or_default();
        change(&mut share.counts);
    }

    /// Starts waiting copies while there are places for them.
    fn start_waiting(&mut self) {
        while let Some(next) = self.next() {
            self.started += 1;
            let started = self.started;
            let Some(share) = self.shares.get_mut(&next.share) else {
                return;
            };
            share.served = started;
            let Some(own) = share.users.get_mut(&next.user) else {
                return;
            };
            own.served = started;
            let Some(ticket) = own.waiting.pop_front() else {
                return;
            };
            own.active += 1;
            self.active += 1;
            self.waiting -= 1;
            self.count(&next, |counts| {
                counts.waiting -= 1;
                counts.active += 1;
            });
            // A place whose copy went in between is given back when it is dropped.
            let _ = ticket.start.send(());
        }
    }

    /// Whose copy is next, if there is a place for one.
    fn next(&self) -> Option<QueueShare> {
        let free = self.free();
        if free == 0 {
            return None;
        }
        let user_of = |share: &Share| {
            let users = share.users.iter();
            let users = users.filter(|(name, own)| {
                let all = self.users.get(*name).copied().unwrap_or_default();
                !own.waiting.is_empty() && all.active < free
            });
            let next = users.min_by_key(|(_, own)| (own.active, own.served));
            next.map(|(name, _)| Arc::clone(name))
        };
        let shares = self.shares.iter().filter(|(_, share)| {
            share.counts.waiting > 0 && share.counts.active < free.saturating_mul(SHARE_OF_FREE)
        });
        let mut shares: Vec<_> = shares.collect();
        shares.sort_by_key(|(_, share)| (share.counts.active, share.served));
        shares.into_iter().find_map(|(name, share)| {
            Some(QueueShare {
                share: Arc::clone(name),
                user: user_of(share)?,
            })
        })
    }

    /// Takes a copy out, whether it runs or waits.
    fn leave(&mut self, of: &QueueShare, number: u64) {
        let Some(share) = self.shares.get_mut(&of.share) else {
            return;
        };
        let Some(own) = share.users.get_mut(&of.user) else {
            return;
        };
        let before = own.waiting.len();
        own.waiting.retain(|ticket| ticket.number != number);
        let waited = own.waiting.len() < before;
        if waited {
            self.waiting -= 1;
        } else {
            own.active -= 1;
            self.active -= 1;
        }
        if own.active == 0 && own.waiting.is_empty() {
            share.users.remove(&of.user);
        }
        self.count(of, |counts| match waited {
            true => counts.waiting -= 1,
            false => counts.active -= 1,
        });
        let is_idle = |counts: &Counts| counts.active == 0 && counts.waiting == 0;
        if self
            .shares
            .get(&of.share)
            .is_some_and(|share| is_idle(&share.counts))
        {
            self.shares.remove(&of.share);
        }
        if self.users.get(&of.user).is_some_and(is_idle) {
            self.users.remove(&of.user);
        }
        self.start_waiting();
    }
}

impl QueuePlace {
    /// Waits until the copy may run. The result is immediate if it may run already.
    ///
    /// # Errors
    /// [`WaitedTooLong`]. Cancelling loses nothing.
    pub async fn admitted(&mut self) -> Result<(), WaitedTooLong> {
        let Some(start) = &mut self.start else {
            return Ok(());
        };
        match timeout(self.wait_max, start).await {
            Ok(_) => {
                self.start = None;
                Ok(())
            }
            Err(_) => Err(WaitedTooLong(self.wait_max)),
        }
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.queue.places.lock().leave(&self.share, self.number);
    }
}

#[cfg(test)]
mod tests {
    use dewar_auth::User;
    use dewar_types::{TenantName, Timestamp, UserId};

    use super::*;

    fn share(share: &str, user: &str) -> QueueShare {
        QueueShare {
            share: share.into(),
            user: user.into(),
        }
    }

    fn queue(active_max: usize) -> Arc<TransferQueue> {
        TransferQueue::new(QueueLimits {
            active_max,
            waiting_max: 100,
            wait_max: Duration::from_secs(300),
        })
    }

    fn runs(place: &mut QueuePlace) -> bool {
        let start = place.start.as_mut();
        start.is_none_or(|start| start.try_recv().is_ok())
    }

    fn running(places: &mut [QueuePlace]) -> usize {
        // A received start is gone, so each is asked once.
        places
            .iter_mut()
            .filter_map(|place| runs(place).then_some(()))
            .count()
    }

    fn enter(queue: &Arc<TransferQueue>, of: &QueueShare, count: usize) -> Vec<QueuePlace> {
        let enter = |_| queue.enter(of).expect("there is room to wait");
        (0..count).map(enter).collect()
    }

    #[test]
    fn users_are_told_apart_by_more_than_a_name_that_they_choose() {
        let user = |id: u64, tenant: &str| {
            let tenant = TenantName::new(tenant).expect("a tenant");
            User::new(UserId(id), "ann", tenant, Timestamp::from_secs(1))
        };
        let share = |user: User| QueueShare::of(&Caller::for_user(user));
        let (one, other) = (share(user(1, "one")), share(user(2, "other")));
        assert_ne!(one.user, other.user);
        assert_ne!(one.share, other.share);
        let session = |session: &str| {
            share(User {
                kind: UserKind::Role {
                    session: session.into(),
                },
                account: UserId(1),
                ..user(3, "one")
            })
        };
        assert_eq!(session("a"), session("b"));
        assert_ne!(session("a").user, one.user);
        assert_eq!(session("a").share, one.share);
    }

    #[test]
    fn a_newcomer_finds_a_place_whoever_came_before() {
        let queue = queue(16);
        let ann = share("atlas", "ann");
        let mut anns = enter(&queue, &ann, 20);
        assert_eq!(running(&mut anns), 8);
        let mut bens = enter(&queue, &share("atlas", "ben"), 20);
        // The share keeps a quarter free.
        assert_eq!(running(&mut bens), 4);
        let mut caries = enter(&queue, &share("cms", "cary"), 20);
        assert_eq!(running(&mut caries), 2);
        assert_eq!(queue.counts(), (14, 46));
    }

    #[test]
    fn one_place_is_given_to_shares_in_turn() {
        let queue = queue(1);
        let mut first = queue.enter(&share("atlas", "ann")).expect("free");
        assert!(runs(&mut first));
        let users = [
            ("atlas", "ann"),
            ("atlas", "ben"),
            ("cms", "cary"),
            ("atlas", "ann"),
        ];
        let mut waiting: Vec<(usize, QueuePlace)> = users
            .iter()
            .enumerate()
            .map(|(at, (of, user))| (at, queue.enter(&share(of, user)).expect("room")))
            .collect();
        let mut order = Vec::new();
        let mut current = first;
        while !waiting.is_empty() {
            drop(current);
            let next = waiting.iter_mut().position(|(_, place)| runs(place));
            let (at, place) = waiting.remove(next.expect("one was started"));
            order.push(at);
            current = place;
        }
        // Another share first, then the other user, then ann's in their order.
        assert_eq!(order, [2, 1, 0, 3]);
        drop(current);
        assert_eq!(queue.counts(), (0, 0));
        let places = queue.places.lock();
        assert!(places.shares.is_empty() && places.users.is_empty());
    }

    #[test]
    fn waiting_is_bounded_for_each_user_and_share_and_for_all() {
        let queue = TransferQueue::new(QueueLimits {
            active_max: 1,
            waiting_max: 8,
            wait_max: Duration::from_secs(1),
        });
        let _runs = queue.enter(&share("a", "ann")).expect("free");
        let all_of =
            |of: &QueueShare| std::iter::from_fn(|| queue.enter(of).ok()).collect::<Vec<_>>();
        let users = [
            ("a", "ann"),
            ("a", "ben"),
            // Three quarters of all are of one share.
            ("a", "cary"),
            ("b", "dan"),
            ("c", "eve"),
            ("d", "fay"),
        ];
        let counts = users.map(|(of, user)| all_of(&share(of, user)));
        let counted = counts.map(|places| places.len());
        assert_eq!(counted, [4, 2, 0, 1, 1, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_and_leaves_nothing() {
        let queue = queue(1);
        let ann = share("a", "ann");
        let first = queue.enter(&ann).expect("free");
        let mut second = queue.enter(&ann).expect("room");
        let mut third = queue.enter(&ann).expect("room");
        let refused = second.admitted().await;
        assert_eq!(refused, Err(WaitedTooLong(Duration::from_secs(300))));
        drop(second);
        assert_eq!(queue.counts(), (1, 1));
        drop(first);
        assert_eq!(third.admitted().await, Ok(()));
        assert_eq!(queue.counts(), (1, 0));
        // Asked again, it still runs.
        assert_eq!(third.admitted().await, Ok(()));
        drop(third);
        assert_eq!(queue.counts(), (0, 0));
    }

    #[test]
    fn a_place_that_was_given_and_not_taken_is_free_again() {
        let queue = queue(1);
        let ann = share("a", "ann");
        let first = queue.enter(&ann).expect("free");
        let second = queue.enter(&ann).expect("room");
        drop(first);
        assert_eq!(queue.counts(), (1, 0));
        drop(second);
        assert_eq!(queue.counts(), (0, 0));
    }

    #[test]
    fn more_places_start_more() {
        let queue = queue(1);
        let ann = share("a", "ann");
        let mut places = enter(&queue, &ann, 4);
        assert_eq!(running(&mut places), 1);
        queue.set_limits(QueueLimits {
            active_max: 8,
            ..QueueLimits::default()
        });
        assert_eq!(queue.counts(), (4, 0));
    }
}
