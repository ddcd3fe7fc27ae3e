//! The engine on simulated disks: the contract, and a model over crashes at every operation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_env::disk::sim::{SimLatency, SimWorld};
use dewar_journal::{Journal, JournalConfig};
use dewar_types::{BlobId, DiskId, Error, ErrorKind};

use super::{CHANGE_LOG, EmbeddedConfig, EmbeddedKv};
use crate::index::{Entry, Index, IndexView, MemoryIndex};
use crate::{Batch, InlineData, Kv, KvRead, Precondition, Scan, Seq};

fn journal_config(m: usize) -> JournalConfig {
    JournalConfig {
        file_bytes: 2 << 20,
        files_max: 8,
        ..JournalConfig::new(m)
    }
}

/// Layers so small that feeding happens all the time.
fn small() -> EmbeddedConfig {
    EmbeddedConfig {
        layer_keys: 20,
        keep_changes: true,
        ..EmbeddedConfig::default()
    }
}

fn disks(world: &SimWorld) -> Vec<(DiskId, Arc<dyn dewar_env::Disk>)> {
    world
        .dyn_disks()
        .into_iter()
        .zip(1..)
        .map(|(disk, id)| (DiskId(id), disk))
        .collect()
}

async fn open(
    world: &SimWorld,
    index: Arc<dyn Index>,
    m: usize,
) -> Result<(EmbeddedKv, Vec<(Seq, InlineData)>), dewar_types::Error> {
    open_as(world, index, m, small()).await
}

async fn open_as(
    world: &SimWorld,
    index: Arc<dyn Index>,
    m: usize,
    config: EmbeddedConfig,
) -> Result<(EmbeddedKv, Vec<(Seq, InlineData)>), dewar_types::Error> {
    let (journal, recovery) = Journal::open(world.env(), disks(world), journal_config(m))
        .await
        .map_err(|error| {
            dewar_types::Error::new(dewar_types::ErrorKind::Unavailable, error.to_string())
        })?;
    let mut carries = Vec::new();
    let kv = EmbeddedKv::open(journal, recovery, index, config, |seq, batch| {
        carries.extend(batch.carry.take().map(|carry| (seq, carry)));
    })
    .await?;
    Ok((kv, carries))
}

async fn fresh() -> Arc<dyn Kv> {
    let world = SimWorld::with_disks(1, 4);
    let env = world.env();
    Journal::create(&env, &disks(&world), &journal_config(1))
        .await
        .expect("created");
    let (kv, _) = open(&world, Arc::new(MemoryIndex::new()), 1)
        .await
        .expect("opened");
    Arc::new(kv)
}

mod contract {
    use super::{Arc, Kv, fresh};

    crate::kv_contract!(async { fresh().await as Arc<dyn Kv> });
}

/// What a scan began to read must not be folded away under it by the writes that follow.
#[test]
fn a_scan_under_way_keeps_its_moment() {
    run(async {
        let kv = fresh().await;
        let put = |value: &'static [u8]| Batch {
            puts: vec![(Bytes::from_static(b"k"), Bytes::from_static(value))],
            ..Batch::default()
        };
        kv.commit(put(b"first")).await.expect("committed");
        let scan = kv.scan(Scan {
            from: b"k",
            to: b"l",
            limit: 10,
            reverse: false,
        });
        for _ in 0..3 {
            kv.commit(put(b"later")).await.expect("committed");
        }
        let page = scan.await.expect("read");
        let values: Vec<_> = page.pairs.iter().map(|(_, value)| &value[..]).collect();
        assert_eq!(values, [b"first"]);
    });
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(future)
}

fn key(number: u64) -> Bytes {
    format!("e{number:04}").into()
}

/// A small generator, so that a seed says everything.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn random_batch(chance: &mut Chance, number: u64) -> Batch {
    let mut batch = Batch::default();
    let mut used = std::collections::BTreeSet::new();
    for _ in 0..=chance.below(3) {
        let at = chance.below(40);
        if !used.insert(at) {
            continue;
        }
        if chance.below(4) == 0 {
            batch.deletes.push(key(at));
        } else {
            batch.puts.push((key(at), format!("{number}").into()));
        }
    }
    batch
        .adds
        .push((Bytes::from_static(b"c"), 1 + chance.below(3) as i64));
    if chance.below(3) == 0 {
        batch.carry = Some(InlineData {
            segment: BlobId(number),
            offset: 0,
            bytes: vec![vec![number as u8; chance.below(3000) as usize + 1].into()],
        });
    }
    batch
}

fn apply(model: &mut BTreeMap<Bytes, Bytes>, batch: &Batch) {
    for (key, value) in &batch.puts {
        model.insert(key.clone(), value.clone());
    }
    for key in &batch.deletes {
        model.remove(key);
    }
    for (key, delta) in &batch.adds {
        let before = model.get(key).map_or(0, |v| {
            i64::from_be_bytes(v[..].try_into().expect("a counter"))
        });
        model.insert(
            key.clone(),
            Bytes::copy_from_slice(&(before + delta).to_be_bytes()),
        );
    }
}

async fn content(kv: &dyn KvRead) -> BTreeMap<Bytes, Bytes> {
    let mut found = BTreeMap::new();
    let mut from = Vec::new();
    loop {
        let scan = Scan {
            from: &from,
            to: &[],
            limit: 7,
            reverse: false,
        };
        let page = kv.scan(scan).await.expect("readable");
        found.extend(page.pairs.iter().cloned());
        match page.pairs.last().filter(|_| page.more) {
            Some((last, _)) => from = [last, &[0][..]].concat(),
            None => return found,
        }
    }
}

/// Commits random batches until the power fails at operation `at`; reopens with any one of the
/// disks away and compares with the model: all that was acknowledged, at most one more, nothing
/// half there.
fn crash_at(at: u64, seed: u64) -> bool {
    run(async move {
        let world = SimWorld::with_disks(seed, 4);
        let env = world.env();
        Journal::create(&env, &disks(&world), &journal_config(1))
            .await
            .expect("created");
        // The index is on medium of its own here: what it applied, it keeps.
        let index: Arc<dyn Index> = Arc::new(MemoryIndex::new());
        let mut chance = Chance(seed);
        let mut model = BTreeMap::new();
        let mut last: Option<Batch> = None;
        world.crash_after(at);
        let work = async {
            let (kv, _) = open(&world, Arc::clone(&index), 1).await.ok()?;
            for number in 0..150 {
                let batch = random_batch(&mut chance, number);
                last = Some(batch.clone());
                kv.commit(batch.clone()).await.ok()?;
                apply(&mut model, &batch);
                last = None;
            }
            kv.close(Duration::from_secs(60)).await.ok()
        };
        let done = tokio::select! {
            biased;
            () = world.wait_for_power_failure() => false,
            done = work => done.is_some(),
        };
        let world = world.crash(seed);
        let gone = (seed % 4) as usize;
        world.disk(gone).vanish();
        let present: Vec<_> = disks(&world)
            .into_iter()
            .enumerate()
            .filter(|(n, _)| *n != gone)
            .map(|(_, d)| d)
            .collect();
        let opened = Journal::open(world.env(), present, journal_config(1)).await;
        let (journal, recovery) = opened.expect("one of four may be away");
        let kv = EmbeddedKv::open(journal, recovery, index, small(), |_, _| {})
            .await
            .expect("opened");
        let mut found = content(&kv).await;
        found.retain(|key, _| key[0] != CHANGE_LOG);
        if found != model {
            // The batch that was under way may be there, then wholly.
            let batch = last.expect("only what was under way may differ");
            apply(&mut model, &batch);
            assert_eq!(found, model, "seed {seed}, crash at {at}");
        }
        done
    })
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_every_operation() {
    let mut at = 1;
    let mut crashes = 0;
    loop {
        let done = crash_at(at, at * 7 + 3);
        crashes += 1;
        if done {
            break;
        }
        at += 1 + at / 40;
    }
    assert!(crashes > 60, "only {crashes} places to crash at");
}

#[test]
fn carries_come_back_at_recovery_until_they_are_released() {
    run(async {
        let world = SimWorld::with_disks(3, 3);
        let env = world.env();
        Journal::create(&env, &disks(&world), &journal_config(1))
            .await
            .expect("created");
        let index: Arc<dyn Index> = Arc::new(MemoryIndex::new());
        let (kv, _) = open(&world, Arc::clone(&index), 1).await.expect("opened");
        let hold = kv.journal().hold("segments", 0);
        let mut sent = Vec::new();
        for number in 0..50u64 {
            let carry = InlineData {
                segment: BlobId(1),
                offset: number as u32 * 100,
                bytes: vec![vec![number as u8; 100].into()],
            };
            let batch = Batch {
                puts: vec![(key(number), Bytes::new())],
                carry: Some(carry.clone()),
                ..Batch::default()
            };
            sent.push((kv.commit(batch).await.expect("committed"), carry));
        }
        kv.close(Duration::from_secs(60)).await.expect("closed");
        drop(hold);
        let world = world.crash(1);
        let (kv, carries) = open(&world, index, 1).await.expect("opened");
        assert_eq!(
            carries, sent,
            "the index is fed, but the carries are still needed"
        );
        assert_eq!(content(&kv).await.len(), 50);
    });
}

#[test]
fn many_writers_share_syncs() {
    run(async {
        let world = SimWorld::with_disks(5, 4);
        let env = world.env();
        Journal::create(&env, &disks(&world), &journal_config(2))
            .await
            .expect("created");
        let (kv, _) = open(&world, Arc::new(MemoryIndex::new()), 2)
            .await
            .expect("opened");
        for disk in 0..4 {
            world.disk(disk).set_latency(SimLatency {
                read: (Duration::ZERO, Duration::ZERO),
                write: (Duration::ZERO, Duration::ZERO),
                sync: (Duration::from_millis(2), Duration::from_millis(2)),
            });
        }
        let before: u64 = (0..4)
            .map(|n| world.disk(n).counters().durable_writes)
            .sum();
        let tasks: Vec<_> = (0..64u64)
            .map(|writer| {
                let kv = kv.clone();
                tokio::spawn(async move {
                    for number in 0..20 {
                        let batch = Batch {
                            puts: vec![(key(writer * 100 + number), Bytes::new())],
                            ..Batch::default()
                        };
                        kv.commit(batch).await.expect("committed");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("ended well");
        }
        let after: u64 = (0..4)
            .map(|n| world.disk(n).counters().durable_writes)
            .sum();
        let per_disk = (after - before) / 4;
        assert!(
            per_disk * 8 < 64 * 20,
            "{per_disk} syncs a disk for {} commits",
            64 * 20
        );
    });
}

#[test]
fn an_emptied_range_is_empty_even_if_the_index_still_has_it() {
    run(async {
        let kv = fresh().await;
        let number_of_keys = 3000u64;
        for number in 0..number_of_keys {
            let batch = Batch {
                puts: vec![(key(number), Bytes::new())],
                ..Batch::default()
            };
            kv.commit(batch).await.expect("committed");
        }
        let empty = || Precondition::Empty {
            from: Bytes::from_static(b"e"),
            to: Bytes::from_static(b"f"),
        };
        for number in 0..number_of_keys {
            let batch = Batch {
                require: vec![empty()],
                ..Batch::default()
            };
            assert!(
                number > 20 || kv.commit(batch).await.is_err(),
                "key {number} is still there"
            );
            let batch = Batch {
                deletes: vec![key(number)],
                ..Batch::default()
            };
            kv.commit(batch).await.expect("committed");
        }
        let batch = Batch {
            require: vec![empty()],
            ..Batch::default()
        };
        kv.commit(batch).await.expect("empty now");
    });
}

/// A small object of 64 KiB under one of three keys.
fn small_object(n: u64) -> Batch {
    Batch {
        puts: vec![(key(n % 3), n.to_string().into())],
        carry: Some(InlineData {
            segment: BlobId(1),
            offset: 0,
            bytes: vec![vec![7; 64 << 10].into()],
        }),
        ..Batch::default()
    }
}

/// Small objects fill the journal long before their keys fill a layer: their bytes count, too.
#[test]
fn the_index_is_fed_before_small_objects_fill_the_journal() {
    run(async {
        let world = SimWorld::with_disks(6, 3);
        Journal::create(&world.env(), &disks(&world), &journal_config(1))
            .await
            .expect("created");
        let index: Arc<dyn Index> = Arc::new(MemoryIndex::new());
        // The journal has room for 12 MiB of ordinary records.
        let few = |layer_log_bytes| EmbeddedConfig {
            layer_log_bytes,
            ..EmbeddedConfig::default()
        };
        let opened = open_as(&world, Arc::clone(&index), 1, few(2 << 20)).await;
        let (kv, _) = opened.expect("opened");
        let mut last = 0;
        for n in 0..600 {
            let committed = kv.commit(small_object(n));
            let committed = tokio::time::timeout(Duration::from_secs(60), committed).await;
            last = committed.expect("the journal is full").expect("committed");
        }
        let status = kv.journal().status();
        assert!(
            last - status.floor <= 2 * (2 << 20) / (64 << 10) + 2,
            "{status:?}"
        );

        // What a life with larger layers leaves is fed when it is replayed.
        let world = world.crash(1);
        let rarely = few(usize::MAX);
        let opened = open_as(&world, Arc::clone(&index), 1, rarely).await;
        let (kv, _) = opened.expect("opened");
        let mut count = 0;
        // It is fed all the same when it holds too much of the journal; not just after that.
        while count < 100 || last - index.applied() < 20 {
            last = kv.commit(small_object(count)).await.expect("committed");
            count += 1;
            assert!(count < 300, "{}", index.applied());
        }
        let world = world.crash(2);
        let opened = open_as(&world, Arc::clone(&index), 1, few(1 << 20)).await;
        let (kv, _) = opened.expect("opened");
        let (applied, floor) = (index.applied(), kv.journal().status().floor);
        assert!(last - applied <= (1 << 20) / (64 << 10) + 1, "{applied}");
        assert_eq!(floor, applied, "the journal may let them go");
        for n in 0..3 {
            let read = kv.get(&key(n)).await.expect("read");
            let written = (0..count).rev().find(|written| written % 3 == n);
            let value = written.expect("more than three").to_string();
            assert_eq!(read.value.as_deref(), Some(value.as_bytes()));
        }
    });
}

/// A group takes whole blocks of the journal, however small its one record is.
#[test]
fn the_index_is_fed_before_many_small_groups_fill_the_journal() {
    run(async {
        let world = SimWorld::with_disks(7, 3);
        let log = JournalConfig {
            file_bytes: 64 << 10,
            files_max: 6,
            ..JournalConfig::new(1)
        };
        Journal::create(&world.env(), &disks(&world), &log)
            .await
            .expect("created");
        let opened = Journal::open(world.env(), disks(&world), log).await;
        let (journal, recovery) = opened.expect("opened");
        let index: Arc<dyn Index> = Arc::new(MemoryIndex::new());
        let config = EmbeddedConfig::default();
        let kv = EmbeddedKv::open(journal, recovery, index, config, |_, _| {});
        let kv = kv.await.expect("opened");
        for n in 0..500 {
            let batch = Batch {
                puts: vec![(key(n % 3), n.to_string().into())],
                ..Batch::default()
            };
            let committed = tokio::time::timeout(Duration::from_secs(60), kv.commit(batch)).await;
            committed.expect("the journal is full").expect("committed");
        }
    });
}

/// An index on disks without room.
#[derive(Default)]
struct Full {
    index: MemoryIndex,
    roomy: std::sync::atomic::AtomicBool,
}

impl Index for Full {
    fn view(&self) -> Arc<dyn IndexView> {
        self.index.view()
    }

    fn apply(&self, entries: Vec<Entry>, upto: Seq) -> dewar_env::BoxFuture<'_, Result<(), Error>> {
        if !self.roomy.load(std::sync::atomic::Ordering::Relaxed) {
            let error = Error::new(ErrorKind::NoSpace, "no disk has room");
            return Box::pin(std::future::ready(Err(error)));
        }
        self.index.apply(entries, upto)
    }

    fn applied(&self) -> Seq {
        self.index.applied()
    }

    fn kept(&self) -> Seq {
        self.index.kept()
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_an_index_that_takes_nothing_is_told_and_goes_on_later() {
    let world = SimWorld::with_disks(1, 4);
    Journal::create(&world.env(), &disks(&world), &journal_config(1))
        .await
        .expect("made");
    let config = EmbeddedConfig {
        overlay_bytes_max: 20_000,
        ..small()
    };
    let index = Arc::new(Full::default());
    let (kv, _) = open_as(&world, Arc::clone(&index) as _, 1, config)
        .await
        .expect("opens");
    let put = async |n: u64| {
        let batch = Batch {
            puts: vec![(format!("key{n}").into(), vec![1; 500].into())],
            ..Batch::default()
        };
        tokio::time::timeout(Duration::from_secs(60), kv.commit(batch))
            .await
            .expect("answered")
    };
    let mut n = 0;
    let error = loop {
        match put(n).await {
            Ok(_) => n += 1,
            Err(crate::CommitError::Failed(error)) => break error,
            Err(other) => panic!("{other:?}"),
        }
        assert!(n < 1000, "it is bounded");
    };
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    index
        .roomy
        .store(true, std::sync::atomic::Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    put(n).await.expect("there is room again");
}
