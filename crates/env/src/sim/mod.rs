//! Time and randomness under the control of a simulation; the simulated disks are in
//! [`crate::disk::sim`].

mod clock;
pub mod fail_points;
mod rng;

pub use clock::SimClock;
pub use rng::SimRng;
