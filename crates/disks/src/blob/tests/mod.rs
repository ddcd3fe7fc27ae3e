//! Blobs on simulated disks: ranges, lost and lying disks, crashes at every write boundary.

mod repair;
mod survey;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_env::disk::sim::{SimLatency, SimOp, SimWorld};
use dewar_env::{CreateOptions, DiskErrorKind};
use dewar_types::{BlobId, ByteRange, DiskId, ErrorKind, Layout, Result};
use proptest::prelude::*;

use super::{BlobRecord, BlobStatus, BlobStore, ChecksummedBytes};
use crate::format::runs::page_at;
use crate::format::{HEADER_BYTES, OWNER_BYTES_MAX, ShardHeader, ShardKind};
use crate::pool::{DewarId, Member, Pool};

fn store(world: &SimWorld, layout: Layout) -> Arc<BlobStore> {
    let members = world
        .dyn_disks()
        .into_iter()
        .zip(1..)
        .map(|(disk, id)| Member {
            pool: 3,
            id: DiskId(id),
            disk,
        })
        .collect();
    let pool = Pool::new(world.env(), DewarId(7), 3, layout, members).expect("no id twice");
    Arc::new(BlobStore::new(Arc::new(pool)))
}

fn layout(k: u8, m: u8) -> Layout {
    Layout {
        unit: 8192,
        ..Layout::new(k, m).expect("valid")
    }
}

fn content(len: usize, seed: u64) -> Bytes {
    let mut x = seed | 1;
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

async fn write(store: &BlobStore, id: u64, bytes: &Bytes, piece: usize) -> Result<BlobRecord> {
    let mut writer = store.create(BlobId(id), ShardKind::Object)?;
    for part in bytes.chunks(piece.max(1)) {
        writer.write(bytes.slice_ref(part)).await?;
    }
    writer.seal(b"a test").await
}

async fn read(store: &Arc<BlobStore>, record: &BlobRecord, range: ByteRange) -> Result<Bytes> {
    store.open(Arc::new(record.clone()))?.read(range).await
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
fn every_layout_survives_the_loss_of_any_m_disks() {
    for (k, m) in [(1, 0), (1, 1), (2, 1), (3, 2), (4, 2), (8, 3)] {
        run(async {
            let disks = usize::from(k + m);
            let world = SimWorld::with_disks(1, disks);
            let store = store(&world, layout(k, m));
            let bytes = content(300_001, u64::from(k));
            let record = write(&store, 1, &bytes, 10_000).await.expect("written");
            for first in 0..disks {
                for second in 0..disks {
                    let gone: Vec<usize> = [first, second].into_iter().take(m.into()).collect();
                    gone.iter().for_each(|disk| world.disk(*disk).vanish());
                    let whole = ByteRange::whole(record.len);
                    assert_eq!(read(&store, &record, whole).await.expect("readable"), bytes);
                    let range = ByteRange {
                        start: 100_000,
                        end: 108_192,
                    };
                    let part = read(&store, &record, range).await.expect("readable");
                    assert_eq!(
                        part,
                        bytes.slice(100_000..108_192),
                        "{k}+{m} without {gone:?}"
                    );
                    gone.iter().for_each(|disk| world.disk(*disk).come_back());
                }
            }
        });
    }
}

#[test]
fn one_disk_too_many_is_an_error_not_wrong_bytes() {
    run(async {
        let world = SimWorld::with_disks(2, 6);
        let store = store(&world, layout(4, 2));
        let bytes = content(200_000, 3);
        let record = write(&store, 1, &bytes, 65_536).await.expect("written");
        (0..3).for_each(|disk| world.disk(disk).vanish());
        let error = read(&store, &record, ByteRange::whole(record.len))
            .await
            .expect_err("3 gone");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let error = store
            .create(BlobId(2), ShardKind::Object)
            .map(|_| ())
            .map(|()| 3);
        // Three live disks still take a 1+2 blob; two do not.
        assert_eq!(error.expect("1+2 fits"), 3);
        world.disk(3).vanish();
        let error = store
            .create(BlobId(3), ShardKind::Object)
            .map(|_| ())
            .expect_err("two disks");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    });
}

#[test]
fn writes_narrow_when_disks_are_missing_and_survive_m_more() {
    run(async {
        let world = SimWorld::with_disks(4, 6);
        let store = store(&world, layout(4, 2));
        world.disk(0).vanish();
        world.disk(5).vanish();
        let bytes = content(123_456, 9);
        let record = write(&store, 1, &bytes, 5_000).await.expect("written");
        assert_eq!(record.layout.to_string(), "2+2");
        assert!(record.missing.is_empty());
        world.disk(1).vanish();
        world.disk(2).vanish();
        assert_eq!(
            read(&store, &record, ByteRange::whole(record.len))
                .await
                .expect("left"),
            bytes
        );
    });
}

#[test]
fn a_disk_lost_in_the_middle_of_a_write_is_recorded_as_missing() {
    run(async {
        let world = SimWorld::with_disks(5, 6);
        let store = store(&world, layout(4, 2));
        let bytes = content(6_000_000, 11);
        let mut writer = store.create(BlobId(1), ShardKind::Object).expect("begun");
        writer.write(bytes.slice(..3_000_000)).await.expect("taken");
        world.disk(2).vanish();
        writer.write(bytes.slice(3_000_000..)).await.expect("taken");
        let record = writer.seal(b"").await.expect("five of six");
        assert_eq!(record.missing.len(), 1);
        world.disk(2).come_back();
        assert_eq!(
            read(&store, &record, ByteRange::whole(record.len))
                .await
                .expect("left"),
            bytes
        );

        // Two lost in the middle leave k: not enough to acknowledge.
        let mut writer = store.create(BlobId(2), ShardKind::Object).expect("begun");
        writer.write(bytes.slice(..3_000_000)).await.expect("taken");
        world.disk(1).vanish();
        world.disk(4).vanish();
        let outcome = match writer.write(bytes.slice(3_000_000..)).await {
            Ok(()) => writer.seal(b"").await.map(|_| ()),
            Err(error) => Err(error),
        };
        assert_eq!(
            outcome.expect_err("four of six").kind(),
            ErrorKind::Unavailable
        );
    });
}

#[test]
fn bad_pages_are_decoded_around_and_healed() {
    run(async {
        let world = SimWorld::with_disks(6, 6);
        let store = store(&world, layout(4, 2));
        let bytes = content(400_000, 13);
        let record = write(&store, 1, &bytes, 65_536).await.expect("written");
        // A page in each of two shards, well within what 4+2 survives.
        for shard in [0, 3] {
            let disk = record.disks[shard].0 as usize - 1;
            let path = record.shard_path(shard);
            world.disk(disk).flip_bit(&path, page_at(2) + 77, 3);
        }
        let whole = ByteRange::whole(record.len);
        assert_eq!(read(&store, &record, whole).await.expect("decoded"), bytes);
        assert_eq!(store.counts().bad_pages, 2);
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(store.counts().healed_pages, 2);
        let decoded = store.counts().decoded_bytes;
        assert_eq!(read(&store, &record, whole).await.expect("healed"), bytes);
        assert_eq!(
            store.counts().decoded_bytes,
            decoded,
            "nothing is left to decode around"
        );
        // Healed for good: the other shards may go now.
        for shard in [1, 2] {
            world.disk(record.disks[shard].0 as usize - 1).vanish();
        }
        assert_eq!(read(&store, &record, whole).await.expect("healed"), bytes);
    });
}

#[test]
fn bad_pages_beyond_repair_are_counted_and_told() {
    run(async {
        let world = SimWorld::with_disks(16, 6);
        let store = store(&world, layout(4, 2));
        let bytes = content(400_000, 13);
        let record = write(&store, 1, &bytes, 65_536).await.expect("written");
        for shard in [0, 3, 5] {
            let disk = record.disks[shard].0 as usize - 1;
            let path = record.shard_path(shard);
            world.disk(disk).flip_bit(&path, page_at(2) + 77, 3);
        }
        let whole = ByteRange::whole(record.len);
        let read = read(&store, &record, whole).await;
        assert_eq!(read.expect_err("three").kind(), ErrorKind::Corrupt);
        assert_eq!(store.counts().bad_pages, 3);
        let told = store.suspects().take();
        let shards: Vec<usize> = told.iter().map(|suspect| suspect.shard).collect();
        assert_eq!(shards, [0, 3, 5]);
    });
}

#[test]
fn slow_and_hanging_disks_are_read_around() {
    run(async {
        let world = SimWorld::with_disks(7, 6);
        let store = store(&world, layout(4, 2));
        let bytes = content(3_000_000, 17);
        let record = write(&store, 1, &bytes, 65_536).await.expect("written");
        for disk in 0..6 {
            world.disk(disk).set_cached(0);
        }
        world.disk(record.disks[0].0 as usize - 1).hang();
        world.disk(record.disks[2].0 as usize - 1).hang();
        let before = tokio::time::Instant::now();
        assert_eq!(
            read(&store, &record, ByteRange::whole(record.len))
                .await
                .expect("left"),
            bytes
        );
        // Simulated time, so exact: no read waited for a hanging disk's deadline.
        assert!(
            before.elapsed() < std::time::Duration::from_secs(3),
            "{:?}",
            before.elapsed()
        );
    });
}

#[test]
fn small_ranges_read_only_their_pages() {
    run(async {
        let world = SimWorld::with_disks(8, 6);
        let store = store(&world, Layout::new(4, 2).expect("valid"));
        let bytes = content(8 << 20, 19);
        let record = write(&store, 1, &bytes, 1 << 20).await.expect("written");
        for disk in 0..6 {
            world.disk(disk).set_cached(0);
        }
        let reads = || {
            (0..6)
                .map(|disk| world.disk(disk).counters().bytes_read)
                .collect::<Vec<_>>()
        };
        let before = reads();
        let range = ByteRange {
            start: 3_000_000,
            end: 3_008_192,
        };
        let part = read(&store, &record, range).await.expect("readable");
        assert_eq!(part, bytes.slice(3_000_000..3_008_192));
        let after = reads();
        let touched: Vec<u64> = before
            .iter()
            .zip(&after)
            .map(|(b, a)| a - b)
            .filter(|n| *n > 0)
            .collect();
        assert_eq!(touched.len(), 1, "one shard: {touched:?}");
        assert!(
            touched[0] <= 4 * 4096,
            "three pages and their slots: {touched:?}"
        );
    });
}

#[test]
fn windows_shrink_while_many_write_and_grow_again() {
    run(async {
        let world = SimWorld::with_disks(18, 6);
        let store = store(&world, layout(4, 2));
        let bytes = content(5_000_001, 18);
        let mut writer = store.create(BlobId(1), ShardKind::Object).expect("begun");
        let parts = |from: usize, to: usize| {
            let part = bytes.slice(from..to);
            (0..part.len())
                .step_by(50_001)
                .map(move |at| part.slice(at..part.len().min(at + 50_001)))
        };
        for part in parts(0, 1_500_000) {
            writer.write(part).await.expect("written");
        }
        assert_eq!(writer.window_bytes_max(), 1 << 20);
        let others = (2..300).map(|id| store.create(BlobId(id), ShardKind::Object));
        let others: Vec<_> = others.map(|other| other.expect("begun")).collect();
        for part in parts(1_500_000, 3_000_000) {
            writer.write(part).await.expect("written");
        }
        assert_eq!(writer.window_bytes_max(), 3 << 15, "of stripes of 32 KiB");
        drop(others);
        for part in parts(3_000_000, bytes.len()) {
            writer.write(part).await.expect("written");
        }
        assert_eq!(writer.window_bytes_max(), 1 << 20);
        let record = writer.seal(b"a test").await.expect("sealed");
        (0..2).for_each(|disk| world.disk(disk).vanish());
        let whole = ByteRange::whole(record.len);
        assert_eq!(read(&store, &record, whole).await.expect("readable"), bytes);
    });
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    run(async {
        let world = SimWorld::with_disks(9, 6);
        let store = store(&world, layout(4, 2));
        let mut writer = store.create(BlobId(1), ShardKind::Object).expect("begun");
        writer.write(content(3_000_000, 1)).await.expect("taken");
        drop(writer);
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        for disk in 0..6 {
            let left: Vec<String> = world
                .disk(disk)
                .paths()
                .into_iter()
                .filter(|p| p.contains("/00"))
                .collect();
            assert!(left.is_empty(), "{left:?}");
        }
    });
}

/// A seal that is dropped after any number of its steps leaves nothing either.
#[test]
fn a_dropped_seal_leaves_nothing() {
    for polls in 0.. {
        let sealed = run(async {
            let world = SimWorld::with_disks(9, 6);
            let latency = SimLatency {
                write: (Duration::from_millis(1), Duration::from_millis(30)),
                sync: (Duration::from_millis(1), Duration::from_millis(30)),
                ..SimLatency::default()
            };
            (0..6).for_each(|disk| world.disk(disk).set_latency(latency));
            let store = store(&world, layout(4, 2));
            let mut writer = store.create(BlobId(1), ShardKind::Object).expect("begun");
            writer.write(content(3_000_000, 1)).await.expect("taken");
            let mut seal = Box::pin(writer.seal(b""));
            for _ in 0..polls {
                let step = Duration::from_millis(3);
                if tokio::time::timeout(step, &mut seal).await.is_ok() {
                    return true;
                }
            }
            drop(seal);
            tokio::time::sleep(Duration::from_secs(60)).await;
            for disk in 0..6 {
                assert_eq!(world.disk(disk).paths(), [""; 0], "after {polls} polls");
            }
            false
        });
        if sealed {
            assert!(polls > 5, "{polls}");
            return;
        }
    }
}

/// Other files of new blobs are left alone: somebody may be writing them.
#[test]
fn what_a_writer_could_not_remove_is_swept_while_the_process_lives() {
    run(async {
        let world = SimWorld::with_disks(2, 6);
        let store = store(&world, layout(4, 2));
        let mut bad = None;
        for id in 1..100 {
            let record = write(&store, id, &content(3_000_000, id), 1 << 20).await;
            let record = record.expect("written");
            let Some(shard) = record.missing.first() else {
                let disk = world.disk(0);
                disk.fail_always(SimOp::Write, DiskErrorKind::Io);
                disk.fail_always(SimOp::Remove, DiskErrorKind::Io);
                continue;
            };
            bad = Some(record.disks[usize::from(*shard)]);
            break;
        }
        let bad = bad.expect("a shard was not written");
        let (members, unnamed) = (store.pool().members(), async |_| Ok(BlobStatus::Unnamed));
        let members: Vec<Member> = members.collect();
        assert!(
            members
                .iter()
                .all(|m| store.has_leftovers(m.id) == (m.id == bad))
        );
        let sweep = async |member| {
            let swept = store.sweep(member, BlobId(0), |_| Some(()), unnamed);
            swept.await.map(|swept| swept.removed)
        };
        let member = members.iter().find(|member| member.id == bad);
        let member = member.expect("it is one of them");
        sweep(member).await.expect_err("it cannot be removed yet");
        assert!(store.has_leftovers(bad));
        world.disk(0).heal();
        // Somebody works on it.
        let busy = store
            .sweep(member, BlobId(0), |_| None::<()>, unnamed)
            .await;
        assert_eq!(busy.expect("swept").busy, 1);
        for member in &members {
            let removed = sweep(member).await.expect("swept");
            assert_eq!(removed, u64::from(member.id == bad));
            assert!(!store.has_leftovers(member.id));
        }
        // The same for a whole blob that got no name.
        let record = write(&store, 100, &content(100, 1), 100).await;
        let record = record.expect("written");
        let away = record.disks[1];
        let number = away.0 as usize - 1;
        world.disk(number).vanish();
        store.take_back(&record).await;
        world.disk(number).come_back();
        for member in &members {
            assert_eq!(store.has_leftovers(member.id), member.id == away);
            let removed = sweep(member).await.expect("swept");
            assert_eq!(removed, u64::from(member.id == away));
        }
    });
}

/// What salvage finds when no catalog is left: every shard says whose it is.
#[test]
fn headers_describe_the_blob() {
    run(async {
        let world = SimWorld::with_disks(12, 6);
        let store = store(&world, layout(4, 2));
        for (id, kind, owner) in [
            (1, ShardKind::Object, &b"/bucket/key"[..]),
            (2, ShardKind::Segment, &[7; OWNER_BYTES_MAX + 1]),
        ] {
            let mut writer = store.create(BlobId(id), kind).expect("begun");
            writer.write(content(123_456, id)).await.expect("taken");
            let record = writer.seal(owner).await.expect("written");
            for shard in 0..6 {
                let member = store.pool().member(record.disks[shard]).expect("ours");
                let path = record.shard_path(shard);
                let file = member.disk.read_file(&path).await.expect("there");
                let header = ShardHeader::decode(&file[..HEADER_BYTES]).expect("decodes");
                assert_eq!(header.geometry(), Some(record.geometry().expect("valid")));
                assert_eq!(header.disk, member.id);
                assert_eq!(usize::from(header.shard), shard);
                assert_eq!((header.blob, header.generation), (record.id, 1));
                assert_eq!((header.kind, header.sealed), (kind, true));
                assert_eq!((header.cluster, header.pool), (7, 3));
                assert_eq!(header.owner, owner[..owner.len().min(OWNER_BYTES_MAX)]);
                let expected = record.geometry().expect("valid").file_len(shard);
                assert_eq!(file.len() as u64, expected, "shard {shard}");
            }
        }
    });
}

#[test]
fn full_disks_refuse_with_no_space() {
    run(async {
        let world = SimWorld::with_disks(10, 6);
        let store = store(&world, layout(4, 2));
        for disk in 0..6 {
            world
                .disk(disk)
                .fail_always(SimOp::Write, DiskErrorKind::Full);
        }
        let error = write(&store, 1, &content(3_000_000, 1), 65_536)
            .await
            .expect_err("full");
        assert!(
            matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Unavailable),
            "{:?}: {error}",
            error.kind()
        );
    });
}

/// After a crash at any operation, a blob whose seal returned is whole on every choice of k disks,
/// and the sweep takes what was never sealed.
/// Files of the journal take room beside writers, and say so to nobody.
#[test]
fn writers_see_what_else_takes_room() {
    run(async {
        let world = SimWorld::with_disks(1, 6);
        world
            .disks()
            .iter()
            .for_each(|disk| disk.set_capacity(64 << 20));
        let store = store(&world, layout(4, 2));
        store.placement().refresh(store.pool()).await;
        let bytes = content(4 << 20, 5);
        let mut writer = store.create(BlobId(1), ShardKind::Object).expect("room");
        for _ in 0..12 {
            writer.write(bytes.clone()).await.expect("room");
        }
        for disk in world.dyn_disks() {
            let options = CreateOptions {
                zeroed_bytes: 32 << 20,
                ..CreateOptions::default()
            };
            disk.create("journal-file", options).await.expect("room");
        }
        let mut more = 0;
        let error = loop {
            match writer.write(bytes.clone()).await {
                Ok(()) => more += 1,
                Err(error) => break error,
            }
            assert!(more < 48, "more than there is room for");
        };
        let full = matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Unavailable);
        assert!(full, "{:?}: {error}", error.kind());
        for disk in world.dyn_disks() {
            let space = disk.space().await.expect("an answer");
            assert!(space.available > space.reserve() / 4, "{space:?}");
        }
    });
}

#[test]
fn sealed_blobs_survive_a_crash_at_every_operation() {
    for at in 1.. {
        let done = run(async move {
            let world = SimWorld::with_disks(at, 4);
            let first = store(&world, layout(2, 2));
            let bytes = content(50_000, at);
            world.crash_after(at);
            let sealed = tokio::select! {
                biased;
                () = world.wait_for_power_failure() => None,
                sealed = write(&first, 1, &bytes, 9_999) => sealed.ok(),
            };
            let done = !world.power_failed();
            let world = world.crash(at);
            let store = store(&world, layout(2, 2));
            if let Some(record) = &sealed {
                for gone in 0..3 {
                    world.disk(gone).vanish();
                    world.disk(gone + 1).vanish();
                    let whole = ByteRange::whole(record.len);
                    assert_eq!(read(&store, record, whole).await.expect("durable"), bytes);
                    world.disk(gone).come_back();
                    world.disk(gone + 1).come_back();
                }
            }
            let members: Vec<Member> = store.pool().members().collect();
            let lookup = async |_| Ok(BlobStatus::Unnamed);
            for member in &members {
                store
                    .sweep(member, BlobId(2), |_| Some(()), lookup)
                    .await
                    .expect("swept");
                let left: Vec<String> = member
                    .disk
                    .list("blobs/0000-000000000")
                    .await
                    .expect("listed")
                    .into_iter()
                    .map(|entry| entry.name)
                    .collect();
                assert!(left.is_empty(), "{left:?}");
            }
            done
        });
        if done {
            assert!(at >= 16, "the write is {at} operations long");
            return;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_range_of_any_blob_is_what_was_written(
        (k, m) in prop_oneof![Just((1u8, 0u8)), Just((2, 1)), Just((4, 2)), Just((3, 2))],
        len in 0usize..200_000,
        piece in 1usize..70_000,
        cuts in (0.0f64..1.0, 0.0f64..1.0),
        cached in any::<bool>(),
        gone in proptest::option::of(0usize..6),
        seed in any::<u64>(),
    ) {
        run(async move {
            let world = SimWorld::with_disks(seed, usize::from(k + m));
            let store = store(&world, layout(k, m));
            let bytes = content(len, seed);
            let record = write(&store, 1, &bytes, piece).await.expect("written");
            for disk in 0..usize::from(k + m) {
                world.disk(disk).set_cached(if cached { 1_000_000 } else { 0 });
            }
            if let Some(gone) = gone.filter(|gone| m > 0 && *gone < usize::from(k + m)) {
                world.disk(gone).vanish();
            }
            let at = |cut: f64| (cut * (len + 1) as f64) as u64;
            let (a, b) = (at(cuts.0).min(at(cuts.1)), at(cuts.0).max(at(cuts.1)));
            let range = ByteRange { start: a, end: b.min(len as u64) };
            let part = read(&store, &record, range).await.expect("readable");
            assert_eq!(part, bytes.slice(range.start as usize..range.end as usize));
        });
    }
}

/// Disks that look well but take no files must not be chosen again and again: with two of six, no
/// write would ever find enough others.
#[test]
fn disks_that_fail_shards_are_given_a_rest() {
    run(async {
        let world = SimWorld::with_disks(1, 6);
        let store = store(&world, layout(4, 2));
        let bytes = content(200_000, 1);
        for disk in [1, 4] {
            let disk = world.disk(disk);
            disk.fail_always(SimOp::Create, DiskErrorKind::Io);
        }
        let first = write(&store, 1, &bytes, 50_000).await;
        assert_eq!(
            first.expect_err("four of six").kind(),
            ErrorKind::Unavailable
        );
        for id in 2..20 {
            let record = write(&store, id, &bytes, 50_000)
                .await
                .expect("around them");
            assert_eq!((record.layout.k, record.layout.m), (2, 2));
            assert_eq!(record.missing, []);
            for away in [DiskId(2), DiskId(5)] {
                assert!(!record.disks.contains(&away));
            }
        }
        // Tried again after a while, and after a longer one when that fails.
        tokio::time::sleep(Duration::from_secs(31)).await;
        write(&store, 20, &bytes, 50_000)
            .await
            .expect_err("tried again");
        tokio::time::sleep(Duration::from_secs(31)).await;
        write(&store, 21, &bytes, 50_000)
            .await
            .expect("around them");
        for disk in [1, 4] {
            world.disk(disk).heal();
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
        let record = write(&store, 22, &bytes, 50_000)
            .await
            .expect("all are back");
        assert_eq!(record.disks.len(), 6);
        // With too few others they are tried in any case.
        for disk in 0..6 {
            let disk = world.disk(disk);
            disk.fail_next(SimOp::Create, DiskErrorKind::Io);
        }
        write(&store, 23, &bytes, 50_000).await.expect_err("all");
        write(&store, 24, &bytes, 50_000).await.expect("at once");
    });
}

/// Downloads that nobody takes from must not hold a window and what is read ahead each.
#[test]
fn a_crowd_of_idle_streams_shares_its_room() {
    run(async {
        let world = SimWorld::with_disks(1, 6);
        let store = store(&world, layout(4, 2));
        let bytes = content(4 << 20, 1);
        let record = Arc::new(write(&store, 1, &bytes, 1 << 20).await.expect("written"));
        let whole = ByteRange::whole(bytes.len() as u64);
        let mut streams = Vec::new();
        for _ in 0..400 {
            let reader = store.open(Arc::clone(&record)).expect("opened");
            let mut stream = reader.stream(whole);
            let first = stream.next().await.expect("more").expect("read");
            streams.push((stream, first));
        }
        let windows = |(stream, _): &&(super::BlobStream, Bytes)| stream.holds() > 1 << 20;
        assert!(streams.iter().filter(windows).count() <= 128);
        let stripes = streams
            .iter()
            .filter(|(stream, _)| stream.holds() <= 32 << 10);
        assert!(stripes.count() >= 100);
        // All the same, everything comes, also to who came last.
        let (mut stream, first) = streams.pop().expect("streams");
        let mut all = first.to_vec();
        while let Some(part) = stream.next().await {
            all.extend_from_slice(&part.expect("read"));
        }
        assert!(all == bytes);
        // And who comes when the others are gone has it all.
        streams.clear();
        let mut stream = store.open(record).expect("opened").stream(whole);
        stream.next().await.expect("more").expect("read");
        assert!(stream.holds() >= 1 << 20);
    });
}

/// Whoever sends pages with their checksums has those that they are stored with, wherever the page lies
/// as it is stored: with what is in memory and what is not, over ends of units, stripes and runs of pages.
#[test]
fn the_checksums_of_stored_pages_come_along() {
    run(async {
        let page = dewar_types::PAGE_BYTES;
        for (len, cached) in [
            (1 << 20, 0),
            (1 << 20, 1_000_000),
            (20 << 20, 0),
            (100_001, 0),
        ] {
            let world = SimWorld::with_disks(3, 6);
            (0..6).for_each(|disk| world.disk(disk).set_cached(cached));
            let store = store(&world, layout(4, 2));
            let bytes = content(len, 9);
            let record = write(&store, 1, &bytes, 70_000).await.expect("written");
            for start in [0, 4096, 5000, 40_960] {
                let reader = store.open(Arc::new(record.clone())).expect("opened");
                let range = ByteRange {
                    start: start as u64,
                    end: len as u64,
                };
                let mut stream = reader.stream(range);
                let mut at = start;
                while let Some(mut part) = stream.next_verified().await.transpose().expect("read") {
                    let mut front = part.split_to(part.bytes().len() / 2);
                    for part in [&mut front, &mut part] {
                        let end = at + part.bytes().len();
                        for begin in (at.next_multiple_of(page)..end).step_by(page) {
                            let to = (begin + page).min(len);
                            let known = part.page_crc(begin - at, to - begin);
                            let whole = to <= end;
                            let expected = whole.then(|| dewar_checksum::crc32c(&bytes[begin..to]));
                            assert_eq!(known, expected, "{begin} of {len} from {start}");
                            assert_eq!(part.page_crc(begin - at, to - begin - 1), None);
                            assert_eq!(part.page_crc(begin - at + 1, to - begin - 1), None);
                        }
                        at = end;
                    }
                }
                assert_eq!(at, len);
            }
            // What is decoded was not stored like that.
            world.disk(0).vanish();
            world.disk(1).vanish();
            let reader = store.open(Arc::new(record.clone())).expect("opened");
            let mut stream = reader.stream(ByteRange::whole(len as u64));
            let mut unknown = 0;
            while let Some(part) = stream.next_verified().await.transpose().expect("read") {
                let first = part.bytes().len().min(page);
                unknown += usize::from(part.page_crc(0, first).is_none());
            }
            assert!(unknown > 0);
        }
    });
}

fn paged(offset: u64, bytes: Bytes, of: impl Fn(&[u8]) -> u32) -> ChecksummedBytes {
    let first = (4096 - offset as usize % 4096).min(bytes.len());
    let (head, tail) = bytes.split_at(first);
    let pages = [head].into_iter().chain(tail.chunks(4096));
    let crcs = pages.filter(|page| !page.is_empty()).map(of).collect();
    ChecksummedBytes::new(offset, bytes, crcs)
}

/// Whatever changes bytes between the check of what came and the disk, it shows when they are read.
#[test]
fn what_is_stored_is_the_checksum_that_came() {
    run(async {
        let world = SimWorld::with_disks(1, 1);
        let store = store(&world, layout(1, 0));
        let bytes = content(100_000, 5);
        let changed = paged(0, bytes.clone(), |page| dewar_checksum::crc32c(page) ^ 1);
        let mut writer = store
            .create(BlobId(1), ShardKind::Object)
            .expect("a writer");
        writer.write_paged(&changed).await.expect("taken");
        let record = writer.seal(b"").await.expect("sealed");
        let first = ByteRange {
            start: 0,
            end: 4096,
        };
        // There is no other shard to decode it from.
        let error = read(&store, &record, first).await.expect_err("changed");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        // The last page is a short one, of which more could have come.
        let last = ByteRange {
            start: 98_304,
            end: 100_000,
        };
        let read = read(&store, &record, last).await.expect("read");
        assert_eq!(read, bytes.slice(98_304..));
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pages_that_came_with_checksums_are_stored_soundly(
        pieces in proptest::collection::vec((1usize..40_000, any::<bool>()), 1..12),
        whole in any::<bool>(),
        shift in 0u64..4096,
    ) {
        run(async move {
            let world = SimWorld::with_disks(3, 3);
            let store = store(&world, layout(2, 1));
            let total = pieces.iter().map(|(len, _)| len.next_multiple_of(4096)).sum();
            let bytes = content(total, 3);
            let mut writer = store.create(BlobId(1), ShardKind::Object).expect("a writer");
            let mut at = 0;
            for (len, known) in pieces {
                let len = if whole { len.next_multiple_of(4096) } else { len };
                let piece = bytes.slice(at..at + len);
                let piece = match known {
                    // Pages of the client's that are not ours do no harm.
                    true => paged(at as u64 + shift * u64::from(!whole), piece, dewar_checksum::crc32c),
                    false => ChecksummedBytes::from(piece),
                };
                writer.write_paged(&piece).await.expect("taken");
                at += len;
            }
            let record = writer.seal(b"").await.expect("sealed");
            for disk in 0..3 {
                world.disk(disk).vanish();
                let all = ByteRange::whole(at as u64);
                assert_eq!(read(&store, &record, all).await.expect("read"), bytes.slice(..at));
                world.disk(disk).come_back();
            }
        });
    }
}
