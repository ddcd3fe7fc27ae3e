//! Room for bytes: bounded for a connection, and for all of them together.
//!
//! While the common room lasts, a connection may hold up to its own bound. When it is used up,
//! each connection still goes on with one small piece at a time, so nobody starves and nobody can
//! make others starve.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::door::ROOM_UNIT;

/// A connection's room for one direction.
pub(crate) struct Budget {
    own: Arc<Semaphore>,
    own_units: usize,
    floor: Arc<Semaphore>,
    least: usize,
    common: Arc<Semaphore>,
}

/// Room that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: usize,
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

impl Share {
    /// How many bytes it is for.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Budget {
    /// At most `max` bytes of the `common` room, and `least` where that is used up.
    pub(crate) fn new(max: usize, least: usize, common: Arc<Semaphore>) -> Self {
        let own_units = max / ROOM_UNIT;
        Self {
            own: Arc::new(Semaphore::new(own_units)),
            own_units,
            floor: Arc::new(Semaphore::new(1)),
            least,
            common,
        }
    }

    /// Room for `wanted` bytes, or for fewer: what there is less of waits.
    pub(crate) async fn take(&self, wanted: usize) -> Share {
        let units = wanted.div_ceil(ROOM_UNIT).clamp(1, self.own_units);
        // Neither semaphore is ever closed, so these are permits.
        let own = Arc::clone(&self.own).acquire_many_owned(units as u32).await;
        if let Ok(common) = Arc::clone(&self.common).try_acquire_many_owned(units as u32) {
            return Share {
                bytes: wanted.min(units * ROOM_UNIT),
                _permits: [own.ok(), Some(common)],
            };
        }
        drop(own);
        let floor = Arc::clone(&self.floor).acquire_owned().await;
        Share {
            bytes: wanted.min(self.least),
            _permits: [floor.ok(), None],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_comes_late_still_gets_a_little() {
        let common = Arc::new(Semaphore::new(4));
        let greedy = Budget::new(8 * ROOM_UNIT, ROOM_UNIT, Arc::clone(&common));
        let all = greedy.take(4 * ROOM_UNIT).await;
        assert_eq!(all.bytes(), 4 * ROOM_UNIT);
        let other = Budget::new(8 * ROOM_UNIT, ROOM_UNIT, Arc::clone(&common));
        let little = other.take(3 * ROOM_UNIT).await;
        assert_eq!(little.bytes(), ROOM_UNIT);
        let more = tokio::time::timeout(std::time::Duration::from_millis(20), other.take(1));
        assert!(more.await.is_err(), "one small piece at a time");
        drop(little);
        drop(all);
        assert_eq!(other.take(3 * ROOM_UNIT).await.bytes(), 3 * ROOM_UNIT);
    }
}
