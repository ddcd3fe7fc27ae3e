//! The choice of disks for a new blob.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dewar_env::{Env, Space};
use dewar_types::{BlobId, DiskId, Error, ErrorKind, Layout, Result};
use parking_lot::Mutex;

use super::Pool;
use super::space::{SpaceAccounting, SpaceDemand};
use crate::format::ShardKind;

/// How long a disk that could not take a shard is given no new blobs, the first time. Its state may
/// be as good as ever: a file system without free inodes, shut down, or without rights.
const REST: Duration = Duration::from_secs(30);

/// The same at most: the time doubles until a shard succeeds.
const REST_MAX: Duration = Duration::from_secs(600);

/// Chooses disks by free space and health. Placement is declustered: every set of k+m disks of a
/// larger pool is used, and rebuilding one disk reads from all (RECORDS.md section 6).
#[derive(Debug)]
pub struct Placement {
    rooms: Arc<SpaceAccounting>,
    /// By command or condition.
    avoided: Mutex<BTreeSet<DiskId>>,
    /// By experience.
    resting: Arc<DiskBackoff>,
}

/// Disks that could not take a shard.
pub(crate) struct DiskBackoff {
    env: Env,
    disks: Mutex<BTreeMap<DiskId, BackoffEntry>>,
}

struct BackoffEntry {
    until: Duration,
    length: Duration,
}

impl DiskBackoff {
    /// A shard failed on a disk.
    pub(crate) fn failed(&self, disk: DiskId) {
        let now = self.env.clock.elapsed();
        let mut disks = self.disks.lock();
        let rest = disks.entry(disk).or_insert(BackoffEntry {
            until: Duration::ZERO,
            length: REST / 2,
        });
        // Shards that were under way together fail together.
        if rest.until <= now {
            rest.length = (rest.length * 2).min(REST_MAX);
            rest.until = now + rest.length;
        }
    }

    /// A shard is durable on a disk.
    pub(crate) fn worked(&self, disk: DiskId) {
        let mut disks = self.disks.lock();
        let now = self.env.clock.elapsed();
        if disks.get(&disk).is_some_and(|rest| rest.until <= now) {
            disks.remove(&disk);
        }
    }

    fn rests(&self, disk: DiskId) -> bool {
        let disks = self.disks.lock();
        disks
            .get(&disk)
            .is_some_and(|rest| rest.until > self.env.clock.elapsed())
    }
}

impl std::fmt::Debug for DiskBackoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resting").finish_non_exhaustive()
    }
}

impl Placement {
    /// Nothing is known of any disk yet.
    #[must_use]
    pub fn new(env: Env) -> Self {
        Self {
            rooms: Arc::default(),
            avoided: Mutex::default(),
            resting: Arc::new(DiskBackoff {
                env,
                disks: Mutex::default(),
            }),
        }
    }

    /// Where writers tell what became of their shards.
    pub(crate) fn resting(&self) -> &Arc<DiskBackoff> {
        &self.resting
    }

    /// Asks every disk for its free space. Call it every few seconds. Until the first call, all
    /// disks count as having enough.
    pub async fn refresh(&self, pool: &Pool) {
        for member in pool.members() {
            let asked = self.rooms.ask(member.id);
            if let Ok(space) = member.disk.space().await {
                self.rooms.saw(&asked, space);
            }
        }
    }

    /// Avoids these disks for new blobs from now on while there are m+1 others. Disks that are not
    /// in the set are not avoided any more.
    pub fn avoid(&self, disks: BTreeSet<DiskId>) {
        *self.avoided.lock() = disks;
    }

    /// The last reported free space less the bytes written since, by disk.
    #[must_use]
    pub fn space(&self) -> BTreeMap<DiskId, Space> {
        self.rooms.all()
    }

    /// Where writers tell how much they wrote.
    pub(crate) fn rooms(&self) -> &Arc<SpaceAccounting> {
        &self.rooms
    }

    /// Whether enough disks of a pool are alive for a new object, but too few of them have free
    /// space.
    #[must_use]
    pub fn is_full(&self, pool: &Pool, number: u16) -> bool {
        let Some(layout) = pool.layout_of(number) else {
            return false;
        };
        let (live, roomy) = self.candidates(pool, number, layout, SpaceDemand::Begin);
        live > usize::from(layout.m) && layout.narrowed_to(roomy.len()).is_none()
    }

    /// How many disks of a pool live for new blobs, and those of them that have room, with their bytes.
    fn candidates(
        &self,
        pool: &Pool,
        number: u16,
        layout: Layout,
        demand: SpaceDemand,
    ) -> (usize, Vec<(DiskId, Option<u64>)>) {
        let own = pool.writable().filter(|member| member.pool == number);
        let mut live: Vec<DiskId> = own.map(|member| member.id).collect();
        let avoided = self.avoided.lock();
        let wanted = live.iter().filter(|id| !avoided.contains(id)).count();
        // Where too few others are left, even what is in the journal could not be put in its place.
        if layout.narrowed_to(wanted).is_some() {
            live.retain(|id| !avoided.contains(id));
        }
        (live.len(), self.rooms.among(&live, demand))
    }

    /// The layout and the disks, in shard order, for a new blob of a pool. It is the pool's layout
    /// while enough of its disks are alive, otherwise the same m with a smaller k. A disk that
    /// failed a shard recently does not count as alive while there are m+1 others.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] when fewer than m+1 disks are alive, [`ErrorKind::NoSpace`] when
    /// enough are alive but too few have free space, [`ErrorKind::Unsupported`] for a pool that is
    /// not configured.
    pub fn choose(
        &self,
        pool: &Pool,
        number: u16,
        blob: BlobId,
        kind: ShardKind,
    ) -> Result<(Layout, Vec<DiskId>)> {
        let demand = match kind {
            ShardKind::Object => SpaceDemand::Begin,
            ShardKind::Segment => SpaceDemand::Seal,
        };
        let wide = pool.layout_of(number).ok_or_else(|| {
            let message = format!("pool {number} is not configured");
            Error::new(ErrorKind::Unsupported, message)
        })?;
        let (live, roomy) = self.candidates(pool, number, wide, demand);
        let mut ranked: Vec<(f64, DiskId)> = roomy
            .into_iter()
            .map(|(id, bytes)| (rank(blob, id, bytes.map_or(1.0, |b| b as f64)), id))
            .collect();
        let rests = |(_, id): &(f64, DiskId)| self.resting.rests(*id);
        let rested = ranked.iter().filter(|ranked| !rests(ranked)).count();
        if wide.narrowed_to(rested).is_some() {
            ranked.retain(|ranked| !rests(ranked));
        }
        let layout = wide.narrowed_to(ranked.len()).ok_or_else(|| {
            let need = usize::from(wide.m) + 1;
            if live < need {
                Error::new(
                    ErrorKind::Unavailable,
                    format!("{live} disks can be written to, {need} are needed"),
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
