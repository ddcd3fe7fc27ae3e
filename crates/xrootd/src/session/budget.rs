//! Memory for bytes: limited for a connection, and for all of them together.
//!
//! While shared memory is available, a connection may hold up to its own limit. When it is used up,
//! each connection still continues with one small piece at a time. No connection can therefore
//! starve the others.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::door::ROOM_UNIT;

/// A connection's room for one direction.
pub(crate) struct Budget {
    own: Arc<Semaphore>,
    own_units: usize,
    floor: Arc<Semaphore>,
    least: usize,
    ahead: Arc<Semaphore>,
    common: Arc<Semaphore>,
}

/// How many answers of a connection may keep what was read ahead while they wait.
const AHEAD_MAX: usize = 4;

/// Room that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct BufferReservation {
    bytes: usize,
    permits: [Option<OwnedSemaphorePermit>; 2],
}

impl BufferReservation {
    /// How many bytes it is for.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back what is more than `bytes`.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let units = bytes.div_ceil(ROOM_UNIT).max(1);
        for permit in self.permits.iter_mut().flatten() {
            drop(permit.split(permit.num_permits().saturating_sub(units)));
        }
        self.bytes = self.bytes.min(bytes);
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
            ahead: Arc::new(Semaphore::new(AHEAD_MAX)),
            common,
        }
    }

    /// Room for `wanted` bytes, or for fewer: what there is less of waits.
    pub(crate) async fn take(&self, wanted: usize) -> BufferReservation {
        let units = wanted.div_ceil(ROOM_UNIT).clamp(1, self.own_units);
        // Neither semaphore is ever closed, so these are permits.
        let own = Arc::clone(&self.own).acquire_many_owned(units as u32).await;
        if let Ok(common) = Arc::clone(&self.common).try_acquire_many_owned(units as u32) {
            return BufferReservation {
                bytes: wanted.min(units * ROOM_UNIT),
                permits: [own.ok(), Some(common)],
            };
        }
        drop(own);
        let floor = Arc::clone(&self.floor).acquire_owned().await;
        BufferReservation {
            bytes: wanted.min(self.least),
            permits: [floor.ok(), None],
        }
    }

    /// The same, if nothing must be waited for and nothing is scarce.
    pub(crate) fn take_now(&self, wanted: usize) -> Option<BufferReservation> {
        let units = wanted.div_ceil(ROOM_UNIT).clamp(1, self.own_units) as u32;
        let own = Arc::clone(&self.own).try_acquire_many_owned(units).ok()?;
        let common = Arc::clone(&self.common)
            .try_acquire_many_owned(units)
            .ok()?;
        Some(BufferReservation {
            bytes: wanted.min(units as usize * ROOM_UNIT),
            permits: [Some(own), Some(common)],
        })
    }

    /// Room to keep so many bytes that were read ahead, while other room is waited for; nothing is
    /// waited for here.
    pub(crate) fn keep(&self, bytes: usize) -> Option<BufferReservation> {
        let units = bytes.div_ceil(ROOM_UNIT).max(1) as u32;
        let ahead = Arc::clone(&self.ahead).try_acquire_owned().ok()?;
        let common = Arc::clone(&self.common)
            .try_acquire_many_owned(units)
            .ok()?;
        Some(BufferReservation {
            bytes,
            permits: [Some(ahead), Some(common)],
        })
    }

    /// Room for all of `wanted` bytes, at most a connection's own: for what can be sent whole only.
    /// While the common room is used up it waits, in turn with others.
    pub(crate) async fn take_whole(&self, wanted: usize) -> BufferReservation {
        let units = wanted.div_ceil(ROOM_UNIT).clamp(1, self.own_units) as u32;
        let own = Arc::clone(&self.own).acquire_many_owned(units).await;
        let common = Arc::clone(&self.common).acquire_many_owned(units).await;
        BufferReservation {
            bytes: wanted,
            permits: [own.ok(), common.ok()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cannot_be_cut_waits_and_what_is_spare_goes_back() {
        let common = Arc::new(Semaphore::new(4));
        let budget = Budget::new(8 * ROOM_UNIT, ROOM_UNIT, Arc::clone(&common));
        let mut share = budget.take_now(4 * ROOM_UNIT).expect("room");
        assert!(budget.take_now(1).is_none());
        let whole = budget.take_whole(3 * ROOM_UNIT);
        let soon = tokio::time::timeout(std::time::Duration::from_millis(20), whole).await;
        assert!(soon.is_err(), "room that there is not");
        share.shrink(ROOM_UNIT);
        assert_eq!((share.bytes(), common.available_permits()), (ROOM_UNIT, 3));
        assert_eq!(
            budget.take_whole(3 * ROOM_UNIT).await.bytes(),
            3 * ROOM_UNIT
        );
    }

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
