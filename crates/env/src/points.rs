//! Points in the code that a simulation watches and bends.
//!
//! In production each call is a constant and costs nothing. With the feature `sim`, and only on a
//! thread for which [`crate::sim::points`] were installed, it does what the simulation says:
//!
//! - [`safeguard`] stands where a rule is kept that protects data: a sync, a checksum compared, an
//!   order of two steps, a generation looked at. A simulation switches one off and must notice.
//! - [`reached`] stands on a rare branch, so that a simulation can prove that it came there.
//! - [`pause`] stands where tasks may overtake each other although no disk is asked.

/// Whether the safeguard of this name is on. It always is, except in a simulation that sabotages
/// it.
#[cfg(not(feature = "sim"))]
#[inline(always)]
#[must_use]
pub const fn safeguard(_name: &'static str) -> bool {
    true
}

/// Notes that a rare branch was taken.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub const fn reached(_name: &'static str) {}

/// A simulation may let other tasks run here.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub async fn pause(_name: &'static str) {}

#[cfg(feature = "sim")]
pub use crate::sim::points::{pause, reached, safeguard};
