//! Points in the code that a simulation observes and controls.
//!
//! In production each call is a constant and costs nothing. With the feature `sim`, and only on a
//! thread with installed [`crate::sim::fail_points`], the simulation decides its effect:
//!
//! - [`safeguard`] marks a step that protects data: a sync, the comparison of a checksum, the order
//!   of two steps, the check of a generation. A simulation switches one off and must fail then.
//! - [`coverage_mark`] marks a rare branch, so that a simulation can prove that it was taken.
//!   [`InterruptionMark`] marks work that may be cut short.
//! - [`pause`] marks a point where tasks may overtake each other without a disk operation.

/// Whether the safeguard of this name is on. It always is, except in a simulation that switches it
/// off.
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

/// Work of several steps. Records a rare branch if it is dropped before its end, as when a process
/// dies in the middle of it.
#[derive(Debug)]
#[must_use]
pub struct InterruptionMark {
    cut_short: Option<&'static str>,
}

impl InterruptionMark {
    /// The work begins. `cut_short` is passed to [`coverage_mark`] if the work does not come to its
    /// end.
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
