//! Free space of each disk: the last reported value, less the bytes written since.
//!
//! Disks are asked for their free space every few seconds, and a fast client writes hundreds of
//! megabytes in that time. Writers of shards therefore report their bytes and are told when to
//! stop. The reserve is for work that empties the disk. Bytes in flight while a disk is asked are
//! not in its answer, so they are still counted afterwards. Files of the journal and the index also
//! take space, but are not reported here. A disk is therefore asked more often when it is close to
//! its reserve.

use std::collections::BTreeMap;
use std::sync::Arc;

use dewar_env::Space;
use dewar_types::DiskId;
use parking_lot::Mutex;

/// A disk is asked again when this share of what it had above its reserve was given, or so many bytes.
const STALE_SHARE: u64 = 8;
const STALE_BYTES_MIN: u64 = 1 << 20;

/// What is asked of the room on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpaceDemand {
    /// A new object.
    Begin,
    /// Further bytes of an object that was begun when there was free space.
    GoOn,
    /// Sealing of small objects, and compaction: both empty the journal.
    Seal,
}

impl SpaceDemand {
    /// What it leaves free, in bytes. The journal leaves less: see [`Space::for_further_file`].
    fn leaves(self, space: &Space) -> u64 {
        let reserve = space.reserve();
        match self {
            Self::Begin => reserve,
            Self::GoOn => reserve / 2,
            Self::Seal => reserve / 4,
        }
    }

    fn fits(self, space: &Space, bytes: u64) -> bool {
        space.available.saturating_sub(bytes) > self.leaves(space)
    }
}

/// The room on all disks. Those that were never asked count as roomy.
#[derive(Debug, Default)]
pub(crate) struct SpaceAccounting {
    disks: Mutex<BTreeMap<DiskId, DiskSpace>>,
}

#[derive(Debug, Default)]
struct DiskSpace {
    /// The last reported value, less the bytes granted since. `None` until the disk was asked.
    space: Option<Space>,
    /// Bytes granted so far, and those of them that are not in flight any more.
    given: u64,
    landed: u64,
    /// Granted bytes after which the disk is asked again.
    stale_at: u64,
}

impl DiskSpace {
    fn give(&mut self, bytes: u64) {
        self.given = self.given.saturating_add(bytes);
        if let Some(space) = &mut self.space {
            space.available = space.available.saturating_sub(bytes);
        }
    }
}

/// A disk that is being asked.
#[derive(Debug)]
pub(crate) struct SpaceQuery {
    disk: DiskId,
    landed: u64,
}

/// Bytes on their way to a disk, until it is dropped.
#[must_use = "what is dropped counts as written"]
pub(crate) struct SpaceReservation {
    rooms: Arc<SpaceAccounting>,
    disk: DiskId,
    bytes: u64,
}

impl SpaceAccounting {
    /// A disk is about to be asked.
    pub(crate) fn ask(&self, disk: DiskId) -> SpaceQuery {
        let landed = self.disks.lock().get(&disk).map_or(0, |room| room.landed);
        SpaceQuery { disk, landed }
    }

    /// It said what room it has. Whatever had not landed when it was asked may not be in the answer.
    pub(crate) fn saw(&self, asked: &SpaceQuery, space: Space) {
        let mut disks = self.disks.lock();
        let room = disks.entry(asked.disk).or_default();
        let under_way = room.given - asked.landed;
        room.space = Some(Space {
            available: space.available.saturating_sub(under_way),
            ..space
        });
        let above = space.available.saturating_sub(space.reserve());
        room.stale_at = room.given + STALE_BYTES_MIN.max(above / STALE_SHARE);
    }

    /// As [`SpaceAccounting::ask`], if the disk should be asked before it is given more. One asks for all.
    pub(crate) fn ask_again(&self, disk: DiskId) -> Option<SpaceQuery> {
        let mut disks = self.disks.lock();
        let room = disks.get_mut(&disk)?;
        (room.space.is_some() && room.given >= room.stale_at).then(|| {
            room.stale_at = room.given + STALE_BYTES_MIN;
            SpaceQuery {
                disk,
                landed: room.landed,
            }
        })
    }

    /// As [`SpaceAccounting::give`], if there is room for these bytes.
    pub(crate) fn take(
        self: &Arc<Self>,
        disk: DiskId,
        demand: SpaceDemand,
        bytes: u64,
    ) -> Option<SpaceReservation> {
        let mut disks = self.disks.lock();
        let room = disks.entry(disk).or_default();
        let fits = (room.space.as_ref()).is_none_or(|space| demand.fits(space, bytes));
        fits.then(|| {
            room.give(bytes);
            SpaceReservation {
                rooms: Arc::clone(self),
                disk,
                bytes,
            }
        })
    }

    /// So many bytes are given to a disk.
    pub(crate) fn give(self: &Arc<Self>, disk: DiskId, bytes: u64) -> SpaceReservation {
        self.disks.lock().entry(disk).or_default().give(bytes);
        SpaceReservation {
            rooms: Arc::clone(self),
            disk,
            bytes,
        }
    }

    /// Whether a disk has room for this.
    pub(crate) fn has(&self, disk: DiskId, demand: SpaceDemand) -> bool {
        let disks = self.disks.lock();
        let space = disks.get(&disk).and_then(|room| room.space.as_ref());
        space.is_none_or(|space| demand.fits(space, 0))
    }

    /// Those of some disks that have room for this, with the bytes that they have, if that is known.
    pub(crate) fn among(&self, some: &[DiskId], demand: SpaceDemand) -> Vec<(DiskId, Option<u64>)> {
        let disks = self.disks.lock();
        let space = |id| disks.get(id).and_then(|room| room.space.as_ref());
        let known = some.iter().map(|id| (*id, space(id)));
        let roomy = known.filter(|(_, space)| space.is_none_or(|space| demand.fits(space, 0)));
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

impl Drop for SpaceReservation {
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
    fn what_is_written_counts_before_the_disk_is_asked_again() {
        let rooms = Arc::<SpaceAccounting>::default();
        let disk = DiskId(1);
        let wrote = |bytes| drop(rooms.give(disk, bytes));
        assert!(rooms.has(disk, SpaceDemand::Begin), "nothing is known");
        let space = Space {
            total: 1 << 30,
            available: 100 << 20,
        };
        rooms.saw(&rooms.ask(disk), space);
        wrote(35 << 20);
        assert!(rooms.has(disk, SpaceDemand::Begin));
        wrote(1 << 20);
        assert!(!rooms.has(disk, SpaceDemand::Begin) && rooms.has(disk, SpaceDemand::GoOn));
        wrote(32 << 20);
        assert!(!rooms.has(disk, SpaceDemand::GoOn) && rooms.has(disk, SpaceDemand::Seal));
        wrote(1 << 40);
        assert!(!rooms.has(disk, SpaceDemand::Seal));
        rooms.saw(&rooms.ask(disk), space);
        assert!(rooms.has(disk, SpaceDemand::Begin));
    }

    #[test]
    fn what_is_on_its_way_while_a_disk_is_asked_counts_on() {
        let rooms = Arc::<SpaceAccounting>::default();
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

    #[test]
    fn what_does_not_fit_is_not_taken() {
        let rooms = Arc::<SpaceAccounting>::default();
        let disk = DiskId(1);
        let take = |demand, mib: u64| rooms.take(disk, demand, mib << 20);
        assert!(
            take(SpaceDemand::GoOn, 1 << 30).is_some(),
            "nothing is known"
        );
        let space = Space {
            total: 1 << 30,
            available: 50 << 20,
        };
        let asked = rooms.ask(disk);
        rooms.saw(&asked, space);
        // 64 MiB are the reserve, of which objects take half.
        let held: Vec<_> = (0..20).map_while(|_| take(SpaceDemand::GoOn, 1)).collect();
        assert_eq!(held.len(), 17);
        assert!(take(SpaceDemand::Seal, 17).is_none());
        assert!(take(SpaceDemand::Seal, 16).is_some());
        assert!(take(SpaceDemand::Seal, 1).is_none());
    }

    /// A journal file is made between two answers: the second comes before it is written over.
    #[test]
    fn a_disk_is_asked_the_sooner_the_fuller_it_is() {
        let rooms = Arc::<SpaceAccounting>::default();
        let disk = DiskId(1);
        let space = |mib: u64| Space {
            total: 1 << 30,
            available: mib << 20,
        };
        assert!(
            rooms.ask_again(disk).is_none(),
            "a pool that was never looked at"
        );
        for (left, after) in [(64 + 800, 100), (64 + 80, 10), (64 + 8, 1), (64, 1), (3, 1)] {
            rooms.saw(&rooms.ask(disk), space(left));
            for _ in 0..after {
                assert!(rooms.ask_again(disk).is_none(), "{left}");
                drop(rooms.give(disk, 1 << 20));
            }
            assert!(rooms.ask_again(disk).is_some(), "{left}");
            assert!(rooms.ask_again(disk).is_none(), "somebody asks already");
        }
    }
}
