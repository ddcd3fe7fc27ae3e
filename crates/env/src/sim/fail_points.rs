//! What a simulation does at the points of [`crate::safeguard`], [`crate::coverage_mark`] and
//! [`crate::pause`].
//!
//! The state belongs to a thread, since a simulated machine runs on one: simulations side by side,
//! and tests that have none, do not see each other.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::SimRng;

thread_local! {
    static POINTS: RefCell<Option<FailPoints>> = const { RefCell::new(None) };
}

/// What the points of this thread do, and what was seen at them.
#[derive(Debug)]
pub struct FailPoints {
    off: Option<String>,
    /// Millionths of pauses that yield.
    pauses: u32,
    rng: SimRng,
    /// How often each rare branch was taken.
    pub reached: BTreeMap<&'static str, u64>,
    /// How often each safeguard was asked for.
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

    /// Makes them those of this thread until [`take`]; whoever is replaced comes back.
    pub fn install(self) -> Option<Self> {
        POINTS.with(|points| points.borrow_mut().replace(self))
    }
}

/// Takes the points of this thread away.
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
