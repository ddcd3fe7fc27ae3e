//! Segments on simulated disks and a table in memory: every slot that is alive reads back exactly,
//! whatever happens to its segment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dewar_env::disk::sim::{SimOp, SimWorld};
use dewar_env::{BoxFuture, DiskErrorKind};
use dewar_types::{BlobId, DiskId, Error, ErrorKind, Layout, Result};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::{
    Compaction, DeadBytes, DeadPage, SEGMENT_BYTES, SegmentRecord, SegmentTable, Segments,
    UNSEALED_MAX,
};
use crate::blob::{BlobRecord, BlobStore};
use crate::pool::{DewarId, Member, Pool};

/// When a commit of the table goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    No,
    /// It does not happen.
    Before,
    /// It happens, and an error is told.
    After,
}

#[derive(Default)]
struct Rows {
    minted: u64,
    seq: u64,
    released: u64,
    segments: BTreeMap<BlobId, Vec<u8>>,
    blobs: BTreeMap<BlobId, Vec<u8>>,
    dead: BTreeMap<BlobId, BTreeMap<u32, u32>>,
    freed: Vec<BlobRecord>,
    /// What the journal holds: (seq, segment, offset, bytes).
    journal: Vec<(u64, BlobId, u32, Bytes)>,
}

struct Table {
    rows: Mutex<Rows>,
    failing: Mutex<Failing>,
    marks_read: AtomicU64,
}

impl Table {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            rows: Mutex::default(),
            failing: Mutex::new(Failing::No),
            marks_read: AtomicU64::new(0),
        })
    }

    fn commit<T>(&self, change: impl FnOnce(&mut Rows) -> Result<T>) -> Result<T> {
        let lost = || Err(Error::new(ErrorKind::Unavailable, "the answer is lost"));
        let failing = core::mem::replace(&mut *self.failing.lock(), Failing::No);
        match failing {
            Failing::Before => lost(),
            Failing::After => change(&mut self.rows.lock()).and_then(|_| lost()),
            Failing::No => change(&mut self.rows.lock()),
        }
    }

    fn fail(&self, failing: Failing) {
        *self.failing.lock() = failing;
    }

    fn mark_dead(&self, segment: BlobId, offset: u32, len: u32) {
        let mut rows = self.rows.lock();
        let twice = rows.dead.entry(segment).or_default().insert(offset, len);
        assert_eq!(twice, None, "{segment} {offset} died twice");
    }
}

fn conflict() -> Error {
    Error::new(ErrorKind::Conflict, "another record by now")
}

impl SegmentTable for Table {
    fn mint(&self) -> BoxFuture<'_, Result<BlobId>> {
        let mut rows = self.rows.lock();
        rows.minted += 1;
        let id = BlobId(rows.minted);
        Box::pin(async move { Ok(id) })
    }

    fn segment(&self, segment: BlobId) -> BoxFuture<'_, Result<Option<SegmentRecord>>> {
        let bytes = self.rows.lock().segments.get(&segment).cloned();
        Box::pin(async move { bytes.map(|b| SegmentRecord::from_bytes(&b)).transpose() })
    }

    fn blob(&self, blob: BlobId) -> BoxFuture<'_, Result<Option<BlobRecord>>> {
        let bytes = self.rows.lock().blobs.get(&blob).cloned();
        Box::pin(async move { bytes.map(|b| BlobRecord::from_bytes(&b)).transpose() })
    }

    fn seal<'a>(
        &'a self,
        segment: BlobId,
        record: &'a SegmentRecord,
        holes: &'a [(u32, u32)],
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.commit(|rows| {
                if rows.segments.contains_key(&segment) {
                    return Err(conflict());
                }
                rows.segments.insert(segment, record.to_bytes());
                if !holes.is_empty() {
                    rows.dead
                        .entry(segment)
                        .or_default()
                        .extend(holes.iter().copied());
                }
                Ok(())
            })
        })
    }

    fn dead(&self, segment: BlobId) -> BoxFuture<'_, Result<Vec<(u32, u32)>>> {
        self.marks_read.fetch_add(1, Ordering::Relaxed);
        let rows = self.rows.lock();
        let dead = rows.dead.get(&segment).cloned().unwrap_or_default();
        Box::pin(async move { Ok(dead.into_iter().collect()) })
    }

    fn dead_total(&self, segment: BlobId) -> BoxFuture<'_, Result<u64>> {
        let rows = self.rows.lock();
        let dead = rows.dead.get(&segment);
        let sum = dead.map_or(0, |dead| dead.values().map(|len| u64::from(*len)).sum());
        Box::pin(async move { Ok(sum) })
    }

    fn dead_bytes(&self, from: BlobId, limit: usize) -> BoxFuture<'_, Result<DeadPage>> {
        let rows = self.rows.lock();
        let mut found = rows.dead.range(from..);
        let mut page = DeadPage::default();
        for (segment, dead) in found.by_ref().take(limit) {
            let bytes = dead.values().map(|len| u64::from(*len)).sum();
            if bytes > 0 {
                let segment = *segment;
                page.dead.push(DeadBytes { segment, bytes });
            }
        }
        page.next = found.next().map(|(segment, _)| *segment);
        Box::pin(async move { Ok(page) })
    }

    fn is_read(&self, _: BlobId) -> bool {
        false
    }

    fn compacted(&self, change: Compaction) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.commit(|rows| {
                for (segment, was, _) in &change.segments {
                    if rows.segments.get(segment) != Some(&was.to_bytes()) {
                        return Err(conflict());
                    }
                }
                for (segment, _, becomes) in &change.segments {
                    match becomes {
                        Some(record) => rows.segments.insert(*segment, record.to_bytes()),
                        None => rows.segments.remove(segment),
                    };
                    let dead = rows.dead.entry(*segment).or_default();
                    for (offset, len) in &change.honoured[segment] {
                        assert_eq!(dead.remove(offset), Some(*len));
                    }
                    if becomes.is_none() {
                        assert_eq!(rows.dead.remove(segment), Some(BTreeMap::new()));
                    }
                }
                if let Some(blob) = &change.packed {
                    rows.blobs.insert(blob.id, blob.to_bytes());
                }
                rows.freed.extend(change.freed.iter().cloned());
                Ok(())
            })
        })
    }

    fn last_seq(&self) -> u64 {
        self.rows.lock().seq
    }

    fn release(&self, seq: u64) {
        let mut rows = self.rows.lock();
        rows.released = rows.released.max(seq);
    }
}

struct Bench {
    world: SimWorld,
    table: Arc<Table>,
    blobs: Arc<BlobStore>,
    segments: Arc<Segments>,
}

/// A slot that something names.
#[derive(Clone, Debug)]
struct Named {
    segment: BlobId,
    offset: u32,
    bytes: Bytes,
}

impl Bench {
    fn new(seed: u64) -> Self {
        Self::on(SimWorld::with_disks(seed, 4), Table::new())
    }

    fn on(world: SimWorld, table: Arc<Table>) -> Self {
        let layout = Layout {
            unit: 8192,
            ..Layout::new(2, 1).expect("valid")
        };
        let members = world
            .dyn_disks()
            .into_iter()
            .zip(1..)
            .map(|(disk, id)| Member {
                pool: 0,
                id: DiskId(id),
                disk,
            })
            .collect();
        let pool = Pool::new(world.env(), DewarId(7), 0, layout, members).expect("no id twice");
        let blobs = Arc::new(BlobStore::new(Arc::new(pool)));
        let segments = Segments::new(Arc::clone(&blobs), Arc::clone(&table) as _);
        Self {
            world,
            table,
            blobs,
            segments,
        }
    }

    async fn put(&self, bytes: Bytes) -> Named {
        let mut slot = self
            .segments
            .reserve(bytes.len() as u32)
            .await
            .expect("room");
        slot.fill(bytes.clone());
        let named = Named {
            segment: slot.segment(),
            offset: slot.offset(),
            bytes,
        };
        tokio::task::yield_now().await;
        let mut rows = self.table.rows.lock();
        rows.seq += 1;
        let seq = rows.seq;
        let entry = (seq, named.segment, named.offset, named.bytes.clone());
        rows.journal.push(entry);
        drop(rows);
        slot.settle();
        named
    }

    fn delete(&self, named: &Named) {
        let len = named.bytes.len() as u32;
        self.table.mark_dead(named.segment, named.offset, len);
    }

    async fn check(&self, named: &Named) {
        let len = named.bytes.len() as u32;
        let read = self.segments.read(named.segment, named.offset, len).await;
        let read = read.unwrap_or_else(|e| panic!("{}+{}: {e}", named.segment, named.offset));
        assert!(
            read == named.bytes,
            "{}+{} reads otherwise",
            named.segment,
            named.offset
        );
    }

    async fn seal_all(&self) {
        self.segments.close_current();
        while self.segments.seal_next().await.expect("sealed") {}
    }

    /// What the free worker does once the grace time is over.
    async fn free(&self) {
        let freed = core::mem::take(&mut self.table.rows.lock().freed);
        for blob in freed {
            self.blobs.remove(&blob).await;
            self.table.rows.lock().blobs.remove(&blob.id);
        }
    }

    async fn compact_all(&self) {
        while self.segments.compact_step().await.expect("compacted") > 0 {}
        self.free().await;
    }

    fn files(&self) -> Vec<String> {
        (0..4)
            .flat_map(|disk| self.world.disk(disk).paths())
            .collect()
    }

    /// The machine after a power failure, its memory refilled from the journal.
    async fn crash(self, seed: u64) -> Self {
        let again = Self::on(self.world.crash(seed), self.table);
        let kept: Vec<_> = {
            let rows = again.table.rows.lock();
            // The journal frees whole files, so that records of sealed segments may be there too.
            let kept = |entry: &&(u64, BlobId, u32, Bytes)| {
                entry.0 > rows.released || rows.segments.contains_key(&entry.1)
            };
            rows.journal.iter().filter(kept).cloned().collect()
        };
        for (seq, segment, offset, bytes) in kept {
            again.segments.restore(seq, 0, segment, offset, bytes);
        }
        again.segments.restored().await.expect("asked");
        again
    }
}

fn content(len: usize, seed: u64) -> Bytes {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect::<Vec<u8>>()
        .into()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(future)
}

#[test]
fn slots_of_many_tasks_read_back_from_memory_and_from_disk() {
    run(async {
        let bench = Arc::new(Bench::new(1));
        let sealer = Arc::clone(&bench);
        let sealing = tokio::spawn(async move {
            loop {
                sealer.segments.sealable().await;
                sealer.segments.seal_next().await.expect("sealed");
            }
        });
        let tasks: Vec<_> = (0..24u64)
            .map(|task| {
                let bench = Arc::clone(&bench);
                tokio::spawn(async move {
                    let mut all = Vec::new();
                    for n in 0..40 {
                        let len = 1 + (task * 7919 + n * 104_729) as usize % 90_000;
                        let named = bench.put(content(len, task * 1000 + n)).await;
                        bench.check(&named).await;
                        all.push(named);
                    }
                    all
                })
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await.expect("ended"));
        }
        sealing.abort();
        bench.seal_all().await;
        assert_eq!(bench.segments.unsealed_bytes(), 0);
        let segments = bench.table.rows.lock().segments.len();
        assert!(segments >= 3, "{segments} segments");
        let mut places: Vec<(BlobId, u32, u32)> = Vec::new();
        for named in &all {
            bench.check(named).await;
            places.push((named.segment, named.offset, named.bytes.len() as u32));
        }
        places.sort_unstable();
        assert!(
            places
                .windows(2)
                .all(|two| two[0].0 != two[1].0 || two[0].1 + two[0].2 <= two[1].1),
            "slots overlap"
        );
        let rows = bench.table.rows.lock();
        assert_eq!(rows.released, rows.seq, "the journal is let go");
    });
}

#[test]
fn what_is_given_up_is_a_hole_and_dead_at_sealing() {
    run(async {
        let bench = Bench::new(2);
        let first = bench.put(content(100, 1)).await;
        let mut abandoned = bench.segments.reserve(50).await.expect("room");
        abandoned.fill(content(50, 2));
        let (segment, at) = (abandoned.segment(), abandoned.offset());
        let unfilled = bench.segments.reserve(30).await.expect("room");
        let mut open = bench.segments.reserve(20).await.expect("room");
        open.fill(content(20, 3));
        let kept = Named {
            segment,
            offset: open.offset(),
            bytes: content(20, 3),
        };
        bench.check(&kept).await;
        bench.segments.close_current();
        assert!(
            !bench.segments.seal_next().await.expect("none"),
            "three are open"
        );
        abandoned.abandon();
        drop(unfilled);
        assert!(
            !bench.segments.seal_next().await.expect("none"),
            "one is open"
        );
        // Filled and dropped: the batch may have happened.
        drop(open);
        assert!(bench.segments.seal_next().await.expect("sealed"));
        bench.check(&first).await;
        bench.check(&kept).await;
        let dead = bench.table.dead(segment).await.expect("there");
        assert_eq!(dead, [(at, 80)]);
        for len in [0, SEGMENT_BYTES + 1] {
            assert!(bench.segments.reserve(len).await.is_err(), "{len} bytes");
        }
        // A segment of holes only is not written at all.
        drop(bench.segments.reserve(10).await.expect("room"));
        bench.seal_all().await;
        assert_eq!(bench.table.rows.lock().segments.len(), 1);
    });
}

#[test]
fn writers_wait_while_too_much_is_unsealed() {
    run(async {
        let bench = Bench::new(3);
        let mut slots = Vec::new();
        for _ in 0..UNSEALED_MAX {
            slots.push(bench.segments.reserve(SEGMENT_BYTES).await.expect("room"));
        }
        let segments = Arc::clone(&bench.segments);
        let waiting = tokio::spawn(async move { segments.reserve(1).await });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!waiting.is_finished());
        assert!(!bench.segments.seal_next().await.expect("none is settled"));
        slots.pop().expect("five").settle();
        assert!(!waiting.is_finished());
        let more = bench.segments.seal_next().await.expect("settled");
        // The last one is full but open, until somebody wants more than it has.
        assert!(more || !waiting.is_finished());
        slots.remove(0).settle();
        assert!(bench.segments.seal_next().await.expect("settled"));
        let slot = tokio::time::timeout(Duration::from_secs(1), waiting).await;
        let slot = slot.expect("goes on").expect("ended").expect("room");
        assert_eq!(slot.offset(), 0);
    });
}

#[test]
fn sealing_that_fails_is_tried_again_and_nothing_is_written_twice() {
    run(async {
        let bench = Bench::new(4);
        let named = bench.put(content(70_000, 1)).await;
        bench.segments.close_current();
        for disk in 0..4 {
            let disk = bench.world.disk(disk);
            disk.fail_always(SimOp::Write, DiskErrorKind::Full);
        }
        let error = bench.segments.seal_next().await.expect_err("full");
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        bench.check(&named).await;
        assert_eq!(bench.files(), [""; 0]);
        assert_eq!(bench.table.rows.lock().released, 0);
        (0..4).for_each(|disk| bench.world.disk(disk).heal());

        bench.table.fail(Failing::Before);
        bench.segments.seal_next().await.expect_err("no answer");
        bench.check(&named).await;
        let (files, ops) = (bench.files(), bench.world.ops());
        assert_eq!(files.len(), 3);
        bench.table.fail(Failing::After);
        bench.segments.seal_next().await.expect_err("no answer");
        bench.check(&named).await;
        assert!(bench.segments.seal_next().await.expect("it had happened"));
        assert_eq!((bench.files(), bench.world.ops()), (files, ops));
        bench.check(&named).await;
        assert!(!bench.segments.seal_next().await.expect("nothing left"));
    });
}

#[test]
fn a_step_reads_no_marks_while_nothing_is_mostly_dead() {
    run(async {
        let bench = Bench::new(5);
        for n in 0..20 {
            let dead = bench.put(content(4_000, n)).await;
            bench.put(content(6_000, n)).await;
            bench.delete(&dead);
            bench.seal_all().await;
        }
        assert_eq!(bench.segments.compact_step().await.expect("looked"), 0);
        assert_eq!(bench.table.marks_read.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_reader_with_a_stale_place_finds_the_new_one() {
    run(async {
        let bench = Bench::new(6);
        let dead = bench.put(content(50_000, 1)).await;
        let named = bench.put(content(20_000, 2)).await;
        bench.seal_all().await;
        bench.check(&named).await;
        let stale = bench.segments.places.lock().by_id[&named.segment].clone();
        bench.delete(&dead);
        assert_eq!(
            bench.segments.compact_step().await.expect("compacted"),
            50_000
        );
        let put_back = || {
            bench
                .segments
                .places
                .lock()
                .put(named.segment, stale.clone())
        };
        put_back();
        bench.check(&named).await;
        bench.free().await;
        put_back();
        bench.check(&named).await;
        assert_ne!(bench.segments.places.lock().by_id[&named.segment], stale);
        let error = bench.segments.read(dead.segment, dead.offset, 50_000).await;
        assert_eq!(error.expect_err("gone").kind(), ErrorKind::Corrupt);
    });
}

#[test]
fn packed_segments_are_compacted_again_together() {
    run(async {
        let bench = Bench::new(7);
        let mut kept = Vec::new();
        for n in 0..4 {
            for _ in 0..3 {
                let dead = bench.put(content(5_000, n)).await;
                kept.push(bench.put(content(4_000, n + 100)).await);
                bench.delete(&dead);
            }
            bench.seal_all().await;
        }
        bench.compact_all().await;
        let packed = bench.table.rows.lock().blobs.len();
        assert_eq!(
            (packed, bench.files().len()),
            (1, 3),
            "one blob of three shards"
        );
        for named in &kept {
            bench.check(named).await;
        }
        // The first segments die wholly; their record goes only when the shared blob does.
        for named in kept.drain(..5) {
            bench.delete(&named);
        }
        bench.compact_all().await;
        assert_eq!(
            bench.table.rows.lock().segments.len(),
            4,
            "5 of 12 is not half"
        );
        bench.delete(&kept.remove(0));
        bench.compact_all().await;
        assert_eq!(bench.table.rows.lock().segments.len(), 2);
        assert_eq!(bench.files().len(), 3);
        for named in &kept {
            bench.check(named).await;
        }
        for named in kept.drain(..) {
            bench.delete(&named);
        }
        bench.compact_all().await;
        assert_eq!(bench.files(), [""; 0]);
        let rows = bench.table.rows.lock();
        assert!(rows.segments.is_empty() && rows.blobs.is_empty() && rows.dead.is_empty());
    });
}

#[test]
fn a_compaction_whose_answer_is_lost_is_settled_by_the_next_step() {
    for failing in [Failing::Before, Failing::After] {
        run(async {
            let bench = Bench::new(8);
            let dead = bench.put(content(50_000, 1)).await;
            let named = bench.put(content(20_000, 2)).await;
            bench.seal_all().await;
            bench.delete(&dead);
            bench.table.fail(failing);
            bench.segments.compact_step().await.expect_err("no answer");
            bench.check(&named).await;
            bench.compact_all().await;
            bench.check(&named).await;
            assert_eq!(bench.files().len(), 3, "{failing:?}: {:?}", bench.files());
        });
    }
}

#[test]
fn a_segment_whose_sealing_was_not_noticed_is_not_compacted_before_it_is() {
    run(async {
        let bench = Bench::new(12);
        let dead = bench.put(content(50_000, 1)).await;
        bench.segments.close_current();
        bench.table.fail(Failing::After);
        bench.segments.seal_next().await.expect_err("no answer");
        bench.delete(&dead);
        bench.compact_all().await;
        bench.free().await;
        assert!(bench.segments.seal_next().await.expect("it had happened"));
        bench.compact_all().await;
        bench.free().await;
        assert_eq!(bench.files(), [""; 0]);
        let rows = bench.table.rows.lock();
        assert!(rows.segments.is_empty() && rows.dead.is_empty());
    });
}

#[test]
fn what_cannot_be_compacted_does_not_stop_the_rest() {
    run(async {
        let bench = Bench::new(9);
        let mut kept = Vec::new();
        for n in 0..2 {
            // The first is the worst, and cannot be read any more.
            let dead = bench.put(content(90_000 - n * 10_000, 1)).await;
            kept.push(bench.put(content(20_000, 2)).await);
            bench.delete(&dead);
            bench.seal_all().await;
        }
        let files = bench.files();
        let bad = format!("{}.", kept[0].segment);
        for disk in 0..4 {
            for path in files.iter().filter(|path| path.contains(&bad)) {
                bench.world.disk(disk).lose_file(path);
            }
        }
        bench.segments.compact_step().await.expect_err("unreadable");
        // Both were picked; the next steps find out which of them it is.
        bench.segments.compact_step().await.expect_err("unreadable");
        let gained = bench.segments.compact_step().await.expect("the other");
        assert_eq!(gained, 80_000);
        bench.check(&kept[1]).await;
    });
}

#[derive(Clone, Debug)]
enum Step {
    Put(usize),
    Abandon(usize),
    Delete(usize),
    Seal,
    Compact,
    Free,
    Crash,
    Loss(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1usize..30_000).prop_map(Step::Put),
        1 => (1usize..30_000).prop_map(Step::Abandon),
        8 => any::<usize>().prop_map(Step::Delete),
        4 => Just(Step::Seal),
        3 => Just(Step::Compact),
        2 => Just(Step::Free),
        1 => Just(Step::Crash),
        2 => any::<bool>().prop_map(Step::Loss),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_live_slot_reads_back_whatever_happens(
        steps in proptest::collection::vec(step(), 1..80),
        seed in any::<u64>(),
    ) {
        run(async move {
            let mut bench = Bench::new(seed);
            let mut live: Vec<Named> = Vec::new();
            for (n, step) in (0..).zip(steps) {
                match step {
                    Step::Put(len) => live.push(bench.put(content(len, seed ^ n)).await),
                    Step::Abandon(len) => {
                        let mut slot = bench.segments.reserve(len as u32).await.expect("room");
                        slot.fill(content(len, n));
                        slot.abandon();
                    }
                    Step::Delete(which) if !live.is_empty() => {
                        let gone = live.swap_remove(which % live.len());
                        bench.delete(&gone);
                    }
                    Step::Delete(_) => {}
                    Step::Seal => bench.seal_all().await,
                    Step::Compact => {
                        bench.segments.compact_step().await.expect("compacted");
                    }
                    Step::Free => bench.free().await,
                    Step::Crash => bench = bench.crash(seed ^ n).await,
                    Step::Loss(true) => bench.world.disk((seed % 4) as usize).vanish(),
                    Step::Loss(false) => bench.world.disk((seed % 4) as usize).come_back(),
                }
                for named in &live {
                    bench.check(named).await;
                }
            }
            bench.world.disk((seed % 4) as usize).come_back();
            for gone in live.drain(..) {
                bench.delete(&gone);
            }
            bench.seal_all().await;
            bench.compact_all().await;
            let rows = bench.table.rows.lock();
            prop_assert!(rows.segments.is_empty(), "{:?}", rows.segments.keys());
            prop_assert!(rows.blobs.is_empty(), "{:?}", rows.blobs.keys());
            Ok(())
        })?;
    }
}
