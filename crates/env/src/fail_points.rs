//! Points in the code that a simulation watches and bends.
//!
//! In production each call is a constant and costs nothing. With the feature `sim`, and only on a
//! thread for which [`crate::sim::fail_points`] were installed, it does what the simulation says:
//!
//! - [`safeguard`] stands where a rule is kept that protects data: a sync, a checksum compared, an
//!   order of two steps, a generation looked at. A simulation switches one off and must notice.
//! - [`coverage_mark`] stands on a rare branch, so that a simulation can prove that it came there;
//!   [`InterruptionMark`] around work that may be cut short.
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
pub const fn coverage_mark(_name: &'static str) {}

/// A simulation may let other tasks run here.
#[cfg(not(feature = "sim"))]
#[inline(always)]
pub async fn pause(_name: &'static str) {}

/// Work that takes several steps; notes a rare branch when it is dropped before its end, as by a
/// process that dies in the middle of it.
#[derive(Debug)]
#[must_use]
pub struct InterruptionMark {
    cut_short: Option<&'static str>,
}

impl InterruptionMark {
    /// The work begins. `cut_short` is what [`coverage_mark`] is told if it does not come to its end.
    pub const fn new(cut_short: &'static str) -> Self {
        Self {
            cut_short: Some(cut_short),
        }
    }

    /// It has come to its end.
    pub fn done(mut self) {
        self.cut_short = None;
    }
}

impl Drop for InterruptionMark {
    fn drop(&mut self) {
        if let Some(name) = self.cut_short {
            coverage_mark(name);
        }
    }
}

#[cfg(feature = "sim")]
pub use crate::sim::fail_points::{coverage_mark, pause, safeguard};
