//! Time and chance that a simulation owns; the simulated disks are in [`crate::disk::sim`].

mod clock;
pub mod fail_points;
mod rng;

pub use clock::SimClock;
pub use rng::SimRng;
