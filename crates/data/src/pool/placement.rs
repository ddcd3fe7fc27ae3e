//! Which disks a new blob goes to.

use std::collections::{BTreeMap, BTreeSet};

use dewar_env::Space;
use dewar_types::{BlobId, DiskId, Error, ErrorKind, Layout, Result};
use parking_lot::Mutex;

use super::Pool;

/// The most that is kept free on a disk, in bytes.
const RESERVE_BYTES_MAX: u64 = 256 << 20;

/// A disk of `total` bytes with less room than this takes no new blobs: deletes, compaction, repair
/// and the catalog need it.
#[must_use]
pub fn reserve_bytes(total: u64) -> u64 {
    RESERVE_BYTES_MAX.min(total / 16)
}

/// Chooses disks by room and health; declustered, so that every set of k+m disks of a larger pool
/// is used and rebuilding one disk reads from all (RECORDS.md section 6).
#[derive(Debug, Default)]
pub struct Placement {
    space: Mutex<BTreeMap<DiskId, Space>>,
    avoided: Mutex<BTreeSet<DiskId>>,
}

impl Placement {
    /// Asks every disk for its room. Call it every few seconds; until the first call all disks
    /// count as roomy.
    pub async fn refresh(&self, pool: &Pool) {
        for member in pool.members() {
            if let Ok(space) = member.disk.space().await {
                self.space.lock().insert(member.id, space);
            }
        }
    }

    /// These disks take no new blobs from now on, and no others are avoided.
    pub fn avoid(&self, disks: BTreeSet<DiskId>) {
        *self.avoided.lock() = disks;
    }

    /// The room last seen, by disk.
    #[must_use]
    pub fn space(&self) -> BTreeMap<DiskId, Space> {
        self.space.lock().clone()
    }

    /// The layout and the disks, in shard order, for a new blob: the pool's layout while enough
    /// disks live, else the same m with a smaller k.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when fewer than m+1 disks live, [`ErrorKind::NoSpace`] when
    /// enough live but too few have room.
    pub fn choose(&self, pool: &Pool, blob: BlobId) -> Result<(Layout, Vec<DiskId>)> {
        let avoided = self.avoided.lock().clone();
        let live: Vec<DiskId> = pool
            .writable()
            .map(|member| member.id)
            .filter(|id| !avoided.contains(id))
            .collect();
        let space = self.space.lock();
        let roomy = |id: &DiskId| {
            space
                .get(id)
                .is_none_or(|s| s.available > reserve_bytes(s.total))
        };
        let mut ranked: Vec<(f64, DiskId)> = live
            .iter()
            .filter(|id| roomy(id))
            .map(|id| {
                let weight = space.get(id).map_or(1.0, |s| s.available as f64);
                (rank(blob, *id, weight), *id)
            })
            .collect();
        let layout = pool.layout().narrowed_to(ranked.len()).ok_or_else(|| {
            let need = usize::from(pool.layout().m) + 1;
            if live.len() < need {
                Error::new(
                    ErrorKind::Unavailable,
                    format!("{} disks can be written to, {need} are needed", live.len()),
                )
            } else {
                Error::new(
                    ErrorKind::NoSpace,
                    format!("{} disks have room, {need} are needed", ranked.len()),
                )
            }
        })?;
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        Ok((
            layout,
            ranked
                .into_iter()
                .take(layout.shards())
                .map(|(_, id)| id)
                .collect(),
        ))
    }
}

/// Weighted rendezvous hashing: a disk is first with a probability that follows its room.
fn rank(blob: BlobId, disk: DiskId, weight: f64) -> f64 {
    let mut x = blob.0 ^ (disk.0 as u64) ^ ((disk.0 >> 64) as u64).rotate_left(32);
    for _ in 0..2 {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
    }
    let uniform = ((x >> 11) as f64 + 1.0) / ((1u64 << 53) as f64 + 1.0);
    weight.max(1.0) / -uniform.ln()
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
    fn ranks_spread_by_weight() {
        let mut first = [0u32; 4];
        for blob in 0..40_000 {
            let best = (0..4u128).max_by(|a, b| {
                let w = |d: u128| if d == 0 { 3.0 } else { 1.0 };
                let r = |d: u128| rank(BlobId(blob), DiskId((d << 64) | (d * 7)), w(d) * 1e9);
                r(*a).total_cmp(&r(*b))
            });
            first[best.expect("four disks") as usize] += 1;
        }
        // Weights 3:1:1:1, so half and three sixths.
        assert!((18_500..21_500).contains(&first[0]), "{first:?}");
        assert!(
            first[1..].iter().all(|n| (5_900..7_500).contains(n)),
            "{first:?}"
        );
    }
}
