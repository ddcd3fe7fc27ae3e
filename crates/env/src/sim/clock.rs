//! Time that follows tokio's clock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use dewar_types::Timestamp;
use tokio::time::Instant;

use crate::Clock;

/// Follows `tokio::time`, which a simulation pauses and advances; the wall clock can be set.
/// It starts at its first use.
#[derive(Debug)]
pub struct SimClock {
    start: OnceLock<Instant>,
    base: Timestamp,
    skew_ns: AtomicI64,
}

impl SimClock {
    /// A wall clock that begins at `base`.
    #[must_use]
    pub fn new(base: Timestamp) -> Self {
        Self {
            start: OnceLock::new(),
            base,
            skew_ns: AtomicI64::new(0),
        }
    }

    /// Sets the wall clock forward, or back by a negative number of nanoseconds.
    pub fn jump(&self, by_ns: i64) {
        self.skew_ns.fetch_add(by_ns, Ordering::Relaxed);
    }
}

impl Default for SimClock {
    /// Begins at 2026-01-01.
    fn default() -> Self {
        Self::new(Timestamp(1_767_225_600_000_000_000))
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let skew = self.skew_ns.load(Ordering::Relaxed);
        Timestamp(
            self.base
                .0
                .saturating_add(elapsed)
                .saturating_add_signed(skew),
        )
    }

    fn elapsed(&self) -> Duration {
        self.start.get_or_init(Instant::now).elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn follows_the_paused_clock() {
        let clock = SimClock::new(Timestamp(100));
        assert_eq!(clock.now(), Timestamp(100));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(clock.elapsed(), Duration::from_secs(3));
        clock.jump(-1_000_000_000);
        assert_eq!(clock.now(), Timestamp(2_000_000_100));
        assert_eq!(clock.elapsed(), Duration::from_secs(3));
    }
}
