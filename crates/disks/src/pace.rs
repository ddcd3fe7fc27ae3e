//! Speed limit of background work: a budget of bytes per second that yields to clients.
//!
//! Work asks before each piece and waits for its permission. While clients send requests, it keeps
//! to the *busy* rate. After [`IDLE_AFTER`] without a request, it may use the *idle* rate. Unused
//! budget is not saved, so there is no burst after a pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Time without a request after which clients count as idle.
pub const IDLE_AFTER: Duration = Duration::from_secs(1);

/// The longest nap, so that a changed rate is felt soon.
const NAP_MAX: Duration = Duration::from_millis(250);

/// The demand of clients; cheap to record, shared by all background work that must yield to it.
#[derive(Debug, Default)]
pub struct ClientLoad {
    asked: AtomicU64,
}

impl ClientLoad {
    /// Records a request of a client.
    pub fn note(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    fn seen(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

/// A budget; see the module.
#[derive(Debug)]
pub struct Pace {
    demand: Arc<ClientLoad>,
    busy: AtomicU64,
    idle: AtomicU64,
    turn: Mutex<Schedule>,
}

#[derive(Debug)]
struct Schedule {
    /// When the next piece may begin.
    next: Option<Instant>,
    seen: u64,
    quiet_since: Option<Instant>,
}

impl Pace {
    /// A budget in bytes per second; 0 means without limit.
    #[must_use]
    pub fn new(demand: Arc<ClientLoad>, busy: u64, idle: u64) -> Self {
        Self {
            demand,
            busy: AtomicU64::new(busy),
            idle: AtomicU64::new(idle),
            turn: Mutex::new(Schedule {
                next: None,
                seen: 0,
                quiet_since: None,
            }),
        }
    }

    /// Another budget from now on.
    pub fn set(&self, busy: u64, idle: u64) {
        self.busy.store(busy, Ordering::Relaxed);
        self.idle.store(idle, Ordering::Relaxed);
    }

    /// Waits until `bytes` more may be moved. Dropping it spends nothing.
    pub async fn take(&self, bytes: u64) {
        loop {
            let now = Instant::now();
            let wait = {
                let mut turn = self.turn.lock();
                let rate = self.rate(&mut turn, now);
                match turn.next {
                    Some(next) if rate > 0 && next > now => next - now,
                    _ => {
                        let cost = Duration::from_secs_f64(match rate {
                            0 => 0.0,
                            rate => bytes as f64 / rate as f64,
                        });
                        turn.next = Some(now + cost);
                        Duration::ZERO
                    }
                }
            };
            if wait.is_zero() {
                return;
            }
            tokio::time::sleep(wait.min(NAP_MAX)).await;
        }
    }

    fn rate(&self, turn: &mut Schedule, now: Instant) -> u64 {
        let seen = self.demand.seen();
        if seen != turn.seen || turn.quiet_since.is_none() {
            turn.seen = seen;
            turn.quiet_since = Some(now);
        }
        let quiet = turn
            .quiet_since
            .is_some_and(|since| now - since >= IDLE_AFTER);
        match quiet {
            true => self.idle.load(Ordering::Relaxed),
            false => self.busy.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn keeps_to_the_busy_rate_while_clients_ask_and_the_idle_rate_after() {
        let demand = Arc::new(ClientLoad::default());
        let pace = Pace::new(Arc::clone(&demand), 1_000, 10_000);
        let began = Instant::now();
        for _ in 0..10 {
            demand.note();
            pace.take(500).await;
        }
        // The first piece is free of waiting, its cost is paid by the second.
        assert!((began.elapsed().as_secs_f64() - 4.5).abs() < 0.05);
        tokio::time::sleep(IDLE_AFTER).await;
        let began = Instant::now();
        for _ in 0..11 {
            pace.take(5_000).await;
        }
        assert!((began.elapsed().as_secs_f64() - 5.0).abs() < 0.05);
    }

    #[tokio::test(start_paused = true)]
    async fn zero_is_without_limit_and_unused_time_is_not_saved() {
        let pace = Pace::new(Arc::default(), 0, 0);
        let began = Instant::now();
        for _ in 0..1000 {
            pace.take(u64::from(u32::MAX)).await;
        }
        assert!(began.elapsed().is_zero());
        pace.set(1_000, 1_000);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let began = Instant::now();
        for _ in 0..3 {
            pace.take(1_000).await;
        }
        assert!((began.elapsed().as_secs_f64() - 2.0).abs() < 0.05);
    }
}
