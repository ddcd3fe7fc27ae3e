//! Further disk failures that an encoding survives, and the possible ways to repair it now.

use std::collections::{BTreeMap, BTreeSet};

use crate::blob::{BlobRecord, KnownBadShards};
use crate::format::ShardSet;
use crate::pool::Pool;
use dewar_env::{DiskState, Space};
use dewar_types::{DiskId, Layout};

use super::stale_disk::UnverifiedBlobs;

/// The states of the disks and the decisions about them, at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskView {
    /// The layout of each pool.
    layouts: BTreeMap<u16, Layout>,
    /// Disks whose pages can be read now.
    readable: BTreeSet<DiskId>,
    /// Those that can be written to.
    writable: BTreeSet<DiskId>,
    /// Disks that accept shards of other disks of their pools: with free space, and not to be
    /// emptied.
    rebuild_targets: BTreeMap<DiskId, u16>,
    /// To be emptied: their shards move while they can still be read.
    draining: BTreeSet<DiskId>,
    /// Disks absent for so long that their shards are rebuilt elsewhere, if there is space.
    out: BTreeSet<DiskId>,
    /// Declared lost: they never come back.
    removed: BTreeSet<DiskId>,
    /// Disks whose folder of shards was lost, and whose remaining shards are not known yet.
    lost_shard_dirs: BTreeSet<DiskId>,
    /// Disks in doubt. Their shards that have not been read since do not count.
    doubted: BTreeMap<DiskId, UnverifiedBlobs>,
    /// Disks that repair may write to, if not to all. On other disks, an old copy could not be
    /// detected after such a write.
    settled: Option<BTreeSet<DiskId>>,
}

/// The state of an encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redundancy {
    /// Shards that are there as far as is known.
    pub(crate) good: ShardSet,
    /// Shards to be written again where they are.
    pub(crate) bad: ShardSet,
    /// Shards that need another disk, and the available disks for them.
    pub(crate) moves: Vec<(usize, DiskId)>,
    /// Whether it should be encoded again: in a wider layout because disks are back, or in a
    /// narrower one because a disk leaves and no other can replace it.
    pub(crate) anew: bool,
    /// Failures that it survives: good shards beyond the needed k. Negative if it cannot be read
    /// now.
    pub(crate) margin: i32,
}

impl DiskView {
    pub(crate) fn new(
        pool: &Pool,
        space: &BTreeMap<DiskId, Space>,
        draining: &BTreeSet<DiskId>,
        removed: &BTreeSet<DiskId>,
        out: BTreeSet<DiskId>,
    ) -> Self {
        let mut disks = Self {
            layouts: pool.layouts().collect(),
            draining: draining.clone(),
            out,
            removed: removed.clone(),
            ..Self::default()
        };
        for member in pool.members() {
            let state = member.disk.state();
            if removed.contains(&member.id) {
                continue;
            }
            if state.readable() {
                disks.readable.insert(member.id);
            }
            if let DiskState::Online { .. } = state {
                disks.writable.insert(member.id);
                let roomy = space
                    .get(&member.id)
                    .is_none_or(|space| space.available > space.reserve());
                if roomy && !draining.contains(&member.id) {
                    disks.rebuild_targets.insert(member.id, member.pool);
                }
            }
        }
        disks
    }

    /// The same, with nothing on these disks that is known to be there.
    pub(crate) fn without(mut self, lost_shard_dirs: &BTreeSet<DiskId>) -> Self {
        self.lost_shard_dirs.clone_from(lost_shard_dirs);
        self
    }

    /// The same, without shards in doubt. `settled` are the disks that can be repaired.
    pub(super) fn doubting(
        mut self,
        doubted: BTreeMap<DiskId, UnverifiedBlobs>,
        settled: BTreeSet<DiskId>,
    ) -> Self {
        self.doubted = doubted;
        self.settled = Some(settled);
        self
    }

    /// Everything on a disk counts again.
    pub(super) fn trust(&mut self, disk: DiskId) {
        self.doubted.remove(&disk);
    }

    fn may_mend(&self, disk: DiskId) -> bool {
        let settled = self.settled.as_ref();
        self.writable.contains(&disk) && settled.is_none_or(|settled| settled.contains(&disk))
    }

    /// Counts disks as away.
    pub(crate) fn distrust(&mut self, disks: &BTreeSet<DiskId>) {
        self.readable.retain(|disk| !disks.contains(disk));
    }

    /// The state of an encoding, and the possible repair.
    pub(crate) fn standing(&self, record: &BlobRecord, findings: &KnownBadShards) -> Redundancy {
        let known_bad = findings.bad();
        let is_sound =
            |shard: usize| !known_bad.contains(shard) && !record.missing.contains(&(shard as u8));
        let mut good = ShardSet::EMPTY;
        let mut bad = ShardSet::EMPTY;
        let mut homeless = Vec::new();
        let mut doomed = false;
        for (shard, disk) in record.disks.iter().enumerate() {
            let sound = is_sound(shard);
            let doubted = self.doubted.get(disk);
            let trusted = !doubted.is_some_and(|doubted| doubted.holds(record.id));
            if sound
                && trusted
                && self.readable.contains(disk)
                && !self.lost_shard_dirs.contains(disk)
            {
                good = good.with(shard);
            }
            if self.removed.contains(disk) || self.draining.contains(disk) {
                doomed = true;
                homeless.push(shard);
            } else if self.out.contains(disk) && !self.readable.contains(disk) {
                homeless.push(shard);
            } else if !sound && self.writable.contains(disk) {
                if self.may_mend(*disk) {
                    bad = bad.with(shard);
                }
            } else if !sound && self.readable.contains(disk) {
                // It cannot be written again where it is, and may never be.
                homeless.push(shard);
            }
        }
        let mut spare = self
            .takers_in(record.pool)
            .filter(|disk| !record.disks.contains(disk) && self.may_mend(*disk))
            // Spread by blob, or the lowest id would take everything.
            .collect::<Vec<_>>();
        if !spare.is_empty() {
            let first = record.id.0 as usize % spare.len();
            spare.rotate_left(first);
        }
        let stuck = homeless.len() > spare.len();
        // What nobody takes stays where it is for the time being, but whole.
        for &shard in homeless.iter().skip(spare.len()) {
            if !is_sound(shard) && self.may_mend(record.disks[shard]) {
                bad = bad.with(shard);
            }
        }
        let moves: Vec<(usize, DiskId)> = homeless.into_iter().zip(spare).collect();
        let layout = self.layouts.get(&record.pool);
        let could =
            layout.and_then(|layout| layout.narrowed_to(self.takers_in(record.pool).count()));
        let wider = could.is_some_and(|could| could.k > record.layout.k);
        let narrower = doomed && stuck && could.is_some_and(|could| could.k < record.layout.k);
        let margin = good.len() as i32 - i32::from(record.layout.k);
        Redundancy {
            good,
            bad,
            moves,
            // Only what can be read can be encoded anew.
            anew: (wider || narrower) && margin >= 0,
            margin,
        }
    }

    fn takers_in(&self, pool: u16) -> impl Iterator<Item = DiskId> {
        let rebuild_targets = self.rebuild_targets.iter();
        rebuild_targets
            .filter(move |(_, of)| **of == pool)
            .map(|(disk, _)| *disk)
    }

    /// Failures that an encoding is to survive: those of its pool's layout.
    pub(crate) fn meant(&self, record: &BlobRecord) -> i32 {
        let meant = self.meant_in(record.pool);
        meant.unwrap_or(i32::from(record.layout.m))
    }

    /// Failures that data in a pool is to survive; `None` for a pool that is not configured.
    pub(crate) fn meant_in(&self, pool: u16) -> Option<i32> {
        let layout = self.layouts.get(&pool);
        layout.map(|layout| i32::from(layout.m))
    }

    /// The layout of new encodings of a pool now, and the layout if a disk accepts no data any
    /// more; `None` if too few disks remain.
    pub(crate) fn layouts_without(
        &self,
        pool: u16,
        disk: DiskId,
    ) -> (Option<Layout>, Option<Layout>) {
        let layout = self.layouts.get(&pool);
        let narrowed =
            |rebuild_targets: usize| layout.and_then(|layout| layout.narrowed_to(rebuild_targets));
        let left = self.takers_in(pool).filter(|taker| *taker != disk).count();
        (narrowed(self.takers_in(pool).count()), narrowed(left))
    }

    /// Whether a disk has been away for too long.
    pub(crate) fn is_out(&self, disk: DiskId) -> bool {
        self.out.contains(&disk)
    }
}

impl Redundancy {
    /// Whether there is something to do, and it can be done.
    pub(crate) fn is_actionable(&self) -> bool {
        // A bad shard may have but a few bad pages, so it is worth a try with any margin.
        self.anew || !self.bad.is_empty() || (self.margin >= 0 && !self.moves.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use dewar_types::{BlobId, Timestamp};

    use super::*;

    const LAYOUT: Layout = Layout {
        k: 2,
        m: 1,
        unit: 4096,
    };

    fn record(missing: Vec<u8>) -> BlobRecord {
        BlobRecord {
            id: BlobId(7),
            pool: 0,
            generation: 1,
            layout: LAYOUT,
            len: 8192,
            disks: (1..=3).map(DiskId).collect(),
            missing,
            written: Some(Timestamp(1)),
        }
    }

    fn disks(writable: &[u128], draining: &[u128]) -> DiskView {
        let draining: BTreeSet<DiskId> = draining.iter().copied().map(DiskId).collect();
        let writable: BTreeSet<DiskId> = writable.iter().copied().map(DiskId).collect();
        DiskView {
            layouts: [(0, LAYOUT), (1, LAYOUT)].into(),
            readable: (1..=4).map(DiskId).collect(),
            rebuild_targets: writable
                .difference(&draining)
                .map(|disk| (*disk, 0))
                .collect(),
            writable,
            draining,
            ..DiskView::default()
        }
    }

    #[test]
    fn a_bad_shard_leaves_a_disk_that_cannot_be_written() {
        let bad = record(vec![0]);
        let standing = |disks: DiskView| disks.standing(&bad, &KnownBadShards::default());
        let in_place = standing(disks(&[1, 2, 3, 4], &[]));
        assert_eq!((in_place.bad.len(), in_place.moves.len()), (1, 0));
        let away = standing(disks(&[2, 3, 4], &[]));
        assert_eq!((away.bad.len(), away.moves), (0, vec![(0, DiskId(4))]));
        let nowhere = standing(disks(&[2, 3], &[]));
        assert!(!nowhere.is_actionable());
    }

    #[test]
    fn a_bad_shard_on_a_disk_to_be_emptied_is_mended_there_where_no_other_takes_it() {
        let bad = record(vec![0]);
        let standing = |disks: DiskView| disks.standing(&bad, &KnownBadShards::default());
        let moves = standing(disks(&[1, 2, 3, 4], &[1]));
        assert_eq!((moves.bad.len(), moves.moves), (0, vec![(0, DiskId(4))]));
        let stays = standing(disks(&[1, 2, 3], &[1]));
        assert_eq!((stays.bad.len(), stays.moves.len()), (1, 0));
    }

    #[test]
    fn only_disks_of_its_pool_take_what_is_homeless() {
        let mut away = disks(&[2, 3, 4], &[]);
        let bad = record(vec![0]);
        away.rebuild_targets.insert(DiskId(4), 1);
        let elsewhere = away.standing(&bad, &KnownBadShards::default());
        assert_eq!(elsewhere.moves, vec![], "a disk of another pool");
        away.rebuild_targets.insert(DiskId(4), 0);
        let moves = away.standing(&bad, &KnownBadShards::default()).moves;
        assert_eq!(moves, vec![(0, DiskId(4))]);
    }

    #[test]
    fn a_blob_is_laid_out_wider_only_for_disks_of_its_pool() {
        let narrow = BlobRecord {
            layout: Layout { k: 1, ..LAYOUT },
            disks: vec![DiskId(1), DiskId(2)],
            ..record(Vec::new())
        };
        let mut all = disks(&[1, 2, 3], &[]);
        assert!(all.standing(&narrow, &KnownBadShards::default()).anew);
        all.rebuild_targets.insert(DiskId(3), 1);
        assert!(!all.standing(&narrow, &KnownBadShards::default()).anew);
        assert_eq!(all.layouts_without(1, DiskId(3)), (None, None));
        let (now, then) = all.layouts_without(0, DiskId(1));
        assert_eq!((now.map(|layout| layout.k), then), (Some(1), None));
    }
}
