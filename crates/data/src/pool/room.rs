//! The room on each disk: what it said last, less what was written since.
//!
//! Disks are asked every few seconds, in which a fast client writes hundreds of megabytes. So whoever
//! writes shards says how much, and is told when to stop: the reserve is for what empties the disk.

use std::collections::BTreeMap;

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
    disks: Mutex<BTreeMap<DiskId, Space>>,
}

impl Rooms {
    /// A disk said what room it has.
    pub(crate) fn saw(&self, disk: DiskId, space: Space) {
        self.disks.lock().insert(disk, space);
    }

    /// So many bytes were given to a disk.
    pub(crate) fn wrote(&self, disk: DiskId, bytes: u64) {
        if let Some(space) = self.disks.lock().get_mut(&disk) {
            space.available = space.available.saturating_sub(bytes);
        }
    }

    /// Whether a disk has room for this.
    pub(crate) fn has(&self, disk: DiskId, demand: Demand) -> bool {
        let disks = self.disks.lock();
        disks.get(&disk).is_none_or(|space| demand.fits(space))
    }

    /// Those of some disks that have room for this, with the bytes that they have, if that is known.
    pub(crate) fn among(&self, some: &[DiskId], demand: Demand) -> Vec<(DiskId, Option<u64>)> {
        let disks = self.disks.lock();
        let known = some.iter().map(|id| (*id, disks.get(id)));
        let roomy = known.filter(|(_, space)| space.is_none_or(|space| demand.fits(space)));
        roomy
            .map(|(id, space)| (id, space.map(|space| space.available)))
            .collect()
    }

    /// What each disk has.
    pub(crate) fn all(&self) -> BTreeMap<DiskId, Space> {
        self.disks.lock().clone()
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
        let rooms = Rooms::default();
        let disk = DiskId(1);
        assert!(rooms.has(disk, Demand::Begin), "nothing is known");
        let space = Space {
            total: 1 << 30,
            available: 100 << 20,
        };
        rooms.saw(disk, space);
        rooms.wrote(disk, 35 << 20);
        assert!(rooms.has(disk, Demand::Begin));
        rooms.wrote(disk, 1 << 20);
        assert!(!rooms.has(disk, Demand::Begin) && rooms.has(disk, Demand::GoOn));
        rooms.wrote(disk, 32 << 20);
        assert!(!rooms.has(disk, Demand::GoOn) && rooms.has(disk, Demand::Seal));
        rooms.wrote(disk, u64::MAX);
        assert!(!rooms.has(disk, Demand::Seal));
        rooms.saw(disk, space);
        assert!(rooms.has(disk, Demand::Begin));
    }
}
