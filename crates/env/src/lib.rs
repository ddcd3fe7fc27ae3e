//! The outside world: clock, randomness and disks, behind traits.
//!
//! Production code gets [`Env`] and [`Disk`]s as arguments and never calls the operating system
//! itself. A simulation can therefore control time, randomness and every fault (DESIGN.md section
//! 10). Timers (`tokio::time::sleep`, `timeout`) and `tokio::spawn` may be used directly: a
//! current-thread runtime with a paused clock makes them deterministic.

mod clock;
pub mod disk;
pub mod fail_points;
mod progress;
mod rng;
#[cfg(feature = "sim")]
pub mod sim;
pub mod worker;

use std::sync::Arc;

pub use clock::{Clock, RealClock};
pub use disk::real::{IoClass, RealDisk, RealDiskConfig};
pub use disk::{
    Access, CreateOptions, DirEntry, Disk, DiskError, DiskErrorKind, DiskFile, DiskState, Space,
};
pub use fail_points::{InterruptionMark, coverage_mark, pause, safeguard};
pub use progress::WorkProgress;
pub use rng::{RealRng, Rng};

/// A boxed future, as the object-safe traits of Dewar return it.
pub type BoxFuture<'a, T> = core::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Clock and randomness; cheap to clone.
#[derive(Clone)]
pub struct Env {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of random numbers.
    pub rng: Arc<dyn Rng>,
}

impl Env {
    /// The operating system's clock and random numbers.
    #[must_use]
    pub fn real() -> Self {
        Self {
            clock: Arc::new(RealClock::new()),
            rng: Arc::new(RealRng),
        }
    }
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}
