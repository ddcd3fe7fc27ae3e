//! The room on each disk: what it said last, less what was written since.
//!
//! Disks are asked every few seconds, in which a fast client writes hundreds of megabytes. So whoever
//! writes shards says how much, and is told when to stop: the reserve is for what empties the disk. What
//! is on its way while a disk is asked is not in its answer, and counts on.

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_env::Space;
use dewar_types::DiskId;
use parking_lot::Mutex;

/// The most that is kept free on a disk, in bytes.
const RESERVE_BYTES_MAX: u64 = 256 << 20;

/// A disk of `total` bytes with less room than this takes no new blobs: deletes, compaction, repair
/// and the catalog need it.
#[must_use]
pub fn reserve_bytes(total: u64) -> u64 {
    RESERVE_BYTES_MAX.min(total / 16)
}

/// What is asked of the room on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// A new object.
    Begin,
    /// More of an object that was begun when there was room.
    GoOn,
    /// What small objects are sealed into, and moved to by compaction: it empties the journal.
    Seal,
}

impl Demand {
    fn fits(self, space: &Space) -> bool {
        let reserve = reserve_bytes(space.total);
        let kept = match self {
            Self::Begin => reserve,
            Self::GoOn => reserve / 2,
            Self::Seal => reserve / 4,
        };
        space.available > kept
    }
}

/// The room on all disks. Those that were never asked count as roomy.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    disks: Mutex<BTreeMap<DiskId, Room>>,
}

#[derive(Debug, Default)]
struct Room {
    /// What it said last, less what was given since. `None` until it was asked.
    space: Option<Space>,
    /// Bytes that it was ever given, and those of them that are no longer on their way.
    given: u64,
    landed: u64,
}

/// A disk that is being asked.
#[derive(Debug)]
pub(crate) struct Asked {
    disk: DiskId,
    landed: u64,
}

/// Bytes on their way to a disk, until it is dropped.
#[must_use = "what is dropped counts as written"]
pub(crate) struct Given {
    rooms: Arc<Rooms>,
    disk: DiskId,
    bytes: u64,
}

impl Rooms {
    /// A disk is about to be asked.
    pub(crate) fn ask(&self, disk: DiskId) -> Asked {
        let landed = self.disks.lock().get(&disk).map_or(0, |room| room.landed);
        Asked { disk, landed }
    }

    /// It said what room it has. Whatever had not landed when it was asked may not be in the answer.
    pub(crate) fn saw(&self, asked: &Asked, space: Space) {
        let mut disks = self.disks.lock();
        let room = disks.entry(asked.disk).or_default();
        let under_way = room.given - asked.landed;
        room.space = Some(Space {
            available: space.available.saturating_sub(under_way),
            ..space
        });
    }

    /// So many bytes are given to a disk.
    pub(crate) fn give(self: &Arc<Self>, disk: DiskId, bytes: u64) -> Given {
        let mut disks = self.disks.lock();
        let room = disks.entry(disk).or_default();
        room.given = room.given.saturating_add(bytes);
        if let Some(space) = &mut room.space {
            space.available = space.available.saturating_sub(bytes);
        }
        Given {
            rooms: Arc::clone(self),
            disk,
            bytes,
        }
    }

    /// Whether a disk has room for this.
    pub(crate) fn has(&self, disk: DiskId, demand: Demand) -> bool {
        let disks = self.disks.lock();
        let space = disks.get(&disk).and_then(|room| room.space.as_ref());
        space.is_none_or(|space| demand.fits(space))
    }

    /// Those of some disks that have room for this, with the bytes that they have, if that is known.
    pub(crate) fn among(&self, some: &[DiskId], demand: Demand) -> Vec<(DiskId, Option<u64>)> {
        let disks = self.disks.lock();
        let space = |id| disks.get(id).and_then(|room| room.space.as_ref());
        let known = some.iter().map(|id| (*id, space(id)));
        let roomy = known.filter(|(_, space)| space.is_none_or(|space| demand.fits(space)));
        roomy
            .map(|(id, space)| (id, space.map(|space| space.available)))
            .collect()
    }

    /// What each disk has.
    pub(crate) fn all(&self) -> BTreeMap<DiskId, Space> {
        let disks = self.disks.lock();
        let known = disks.iter();
        known
            .filter_map(|(id, room)| Some((*id, room.space?)))
            .collect()
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if let Some(room) = self.rooms.disks.lock().get_mut(&self.disk) {
            room.landed = room.landed.saturating_add(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_follows_small_disks() {
        assert_eq!(reserve_bytes(0), 0);
        assert_eq!(reserve_bytes(1 << 30), 64 << 20);
        assert_eq!(reserve_bytes(4 << 30), 256 << 20);
        assert_eq!(reserve_bytes(1 << 44), 256 << 20);
    }

    #[test]
    fn what_is_written_counts_before_the_disk_is_asked_again() {
        let rooms = Arc::<Rooms>::default();
        let disk = DiskId(1);
        let wrote = |bytes| drop(rooms.give(disk, bytes));
        assert!(rooms.has(disk, Demand::Begin), "nothing is known");
        let space = Space {
            total: 1 << 30,
            available: 100 << 20,
        };
        rooms.saw(&rooms.ask(disk), space);
        wrote(35 << 20);
        assert!(rooms.has(disk, Demand::Begin));
        wrote(1 << 20);
        assert!(!rooms.has(disk, Demand::Begin) && rooms.has(disk, Demand::GoOn));
        wrote(32 << 20);
        assert!(!rooms.has(disk, Demand::GoOn) && rooms.has(disk, Demand::Seal));
        wrote(1 << 40);
        assert!(!rooms.has(disk, Demand::Seal));
        rooms.saw(&rooms.ask(disk), space);
        assert!(rooms.has(disk, Demand::Begin));
    }

    #[test]
    fn what_is_on_its_way_while_a_disk_is_asked_counts_on() {
        let rooms = Arc::<Rooms>::default();
        let disk = DiskId(1);
        let space = Space {
            total: 1 << 30,
            available: 100 << 20,
        };
        let left = || rooms.all()[&disk].available >> 20;
        let before = rooms.give(disk, 10 << 20);
        let asked = rooms.ask(disk);
        let meanwhile = rooms.give(disk, 20 << 20);
        drop(before);
        drop(meanwhile);
        rooms.saw(&asked, space);
        assert_eq!(left(), 70);
        let later = rooms.give(disk, 5 << 20);
        assert_eq!(left(), 65);
        rooms.saw(&rooms.ask(disk), space);
        assert_eq!(left(), 95);
        drop(later);
        rooms.saw(&rooms.ask(disk), space);
        assert_eq!(left(), 100);
    }
}
