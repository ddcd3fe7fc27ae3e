//! Real time. Only this file of the crate reads it.
//!
//! The rest of Dewar takes time from its environment so that a simulation can control it. A load
//! driver measures the real world, so it reads the real clocks. This exception is kept in one file
//! so that it is visible.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant, SystemTime};

/// The monotonic clock.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Seconds since 1970 (UTC), 0 if the machine's clock is before that.
#[must_use]
pub fn unix_s() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

/// CPU time that this process has used so far, user and system, all threads.
#[must_use]
pub fn process_cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(t.tv_sec).unwrap_or(0),
        u32::try_from(t.tv_nsec).unwrap_or(0),
    )
}
