//! The two clocks: wall-clock time and elapsed time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dewar_types::Timestamp;

/// The two clocks a storage system needs.
pub trait Clock: Send + Sync {
    /// Wall-clock time; may jump when an administrator or NTP sets it.
    fn now(&self) -> Timestamp;

    /// Time since some fixed start; never goes back.
    fn elapsed(&self) -> Duration;
}

/// The operating system's clocks.
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// Starts counting [`Clock::elapsed`] now.
    #[must_use]
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the one place that asks the system"
    )]
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the one place that asks the system"
    )]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}
