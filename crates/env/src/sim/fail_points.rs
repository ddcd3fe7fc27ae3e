//! Control of the points of [`crate::safeguard`], [`crate::coverage_mark`] and [`crate::pause`] by
//! a simulation.
//!
//! The state belongs to a thread, since a simulated machine runs on one. Simulations that run side
//! by side, and tests without one, therefore do not see each other.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::SimRng;

thread_local! {
    static POINTS: RefCell<Option<FailPoints>> = const { RefCell::new(None) };
}

/// The settings of the points of this thread, and the record of the points that were reached.
#[derive(Debug)]
pub struct FailPoints {
    off: Option<String>,
    /// Millionths of pauses that yield.
    pauses: u32,
    rng: SimRng,
    /// How often each rare branch was taken.
    pub reached: BTreeMap<&'static str, u64>,
    /// Number of calls of each safeguard.
    pub safeguards: BTreeMap<&'static str, u64>,
}

impl FailPoints {
    /// All safeguards on but `off`; of a million pauses `pauses` yield.
    #[must_use]
    pub fn new(seed: u64, off: Option<&str>, pauses: u32) -> Self {
        Self {
            off: off.map(str::to_owned),
            pauses,
            rng: SimRng::new(seed),
            reached: BTreeMap::new(),
            safeguards: BTreeMap::new(),
        }
    }

    /// Installs these settings for this thread until [`take`], and returns those that they replace.
    pub fn install(self) -> Option<Self> {
        POINTS.with(|points| points.borrow_mut().replace(self))
    }
}

/// Removes the points of this thread and returns them.
pub fn take() -> Option<FailPoints> {
    POINTS.with(|points| points.borrow_mut().take())
}

/// See [`crate::fail_points`].
#[must_use]
pub fn safeguard(name: &'static str) -> bool {
    POINTS.with(|points| match &mut *points.borrow_mut() {
        Some(points) => {
            *points.safeguards.entry(name).or_default() += 1;
            points.off.as_deref() != Some(name)
        }
        None => true,
    })
}

/// See [`crate::fail_points`].
pub fn coverage_mark(name: &'static str) {
    POINTS.with(|points| {
        if let Some(points) = &mut *points.borrow_mut() {
            *points.reached.entry(name).or_default() += 1;
        }
    });
}

/// See [`crate::fail_points`].
pub async fn pause(_name: &'static str) {
    loop {
        let yields = POINTS.with(|points| match &*points.borrow() {
            Some(points) => points.rng.chance(points.pauses),
            None => false,
        });
        if !yields {
            return;
        }
        tokio::task::yield_now().await;
    }
}
