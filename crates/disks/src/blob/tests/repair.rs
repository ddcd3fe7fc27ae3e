//! Checking and rebuilding shards.

use dewar_env::Space;
use dewar_types::Error;

use super::*;
use crate::blob::{CheckOutcome, Damage, RebuildTarget};
use crate::format::SLOT_BYTES;
use crate::format::runs::{file_len, page_count, slot_at};
use crate::pace::Pace;

fn unhurried() -> Pace {
    Pace::new(Arc::default(), 0, 0)
}

async fn check(store: &BlobStore, record: &BlobRecord, shard: usize) -> CheckOutcome {
    let checked = store.check(record, shard, &unhurried()).await;
    checked.expect("the record is sound")
}

fn damage(checked: CheckOutcome) -> Damage {
    match checked {
        CheckOutcome::Damaged(damage) => damage,
        other => panic!("{other:?}"),
    }
}

/// Where a shard is, and on which of the world's disks.
fn place(record: &BlobRecord, shard: usize) -> (usize, String) {
    let disk = record.disks[shard].0 as usize - 1;
    (disk, record.shard_path(shard))
}

async fn mend(store: &Arc<BlobStore>, record: &BlobRecord, shards: &[usize]) -> Result<u64> {
    let mut targets = Vec::new();
    for &shard in shards {
        let damage = match check(store, record, shard).await {
            CheckOutcome::Good => continue,
            CheckOutcome::Damaged(damage) => damage,
            CheckOutcome::Unreachable => return Err(Error::new(ErrorKind::Unavailable, "no disk")),
        };
        targets.push(RebuildTarget {
            shard,
            disk: record.disks[shard],
            damage,
        });
    }
    let record = Arc::new(record.clone());
    let (now, rebuilt) = store.rebuild(&record, &targets, &unhurried()).await?;
    assert_eq!(now.disks, record.disks);
    Ok(rebuilt.written)
}

#[test]
fn a_check_finds_every_flipped_bit_and_nothing_else() {
    run(async {
        let world = SimWorld::with_disks(1, 6);
        let store = store(&world, layout(4, 2));
        // The last stripe is not full, and its last unit is not a whole number of pages.
        let bytes = content(5_000_003, 4);
        let record = write(&store, 1, &bytes, 70_000).await.expect("written");
        for shard in 0..6 {
            assert_eq!(check(&store, &record, shard).await, CheckOutcome::Good);
            let (disk, path) = place(&record, shard);
            let disk = world.disk(disk);
            let len = disk.peek(&path).expect("there").len() as u64;
            let geometry = record.geometry().expect("sound");
            let pages = page_count(geometry.shard_len(shard));
            for offset in [
                0,
                77,
                slot_at(0),
                slot_at(pages - 1) + 3,
                page_at(3) + 5,
                len - 1,
            ] {
                assert!(disk.flip_bit(&path, offset, 2));
                let found = damage(check(&store, &record, shard).await);
                assert_eq!(found.header, offset < HEADER_BYTES as u64, "{offset}");
                let bad = found.pages.iter().map(|p| p.end - p.start).sum::<u64>();
                assert_eq!(bad, u64::from(!found.header), "{offset}: {found:?}");
                assert!(disk.flip_bit(&path, offset, 2));
            }
            // Slots of pages that do not exist are nobody's.
            let beyond = slot_at(pages - 1) + SLOT_BYTES as u64;
            if pages < 1024 {
                assert!(disk.flip_bit(&path, beyond, 1));
                assert_eq!(check(&store, &record, shard).await, CheckOutcome::Good);
            }
        }
    });
}

#[test]
fn what_is_bad_is_written_again_and_only_that() {
    run(async {
        let world = SimWorld::with_disks(2, 6);
        let store = store(&world, layout(4, 2));
        let bytes = content(9_000_001, 5);
        let record = write(&store, 1, &bytes, 100_000).await.expect("written");
        let before: Vec<_> = (0..6)
            .map(|shard| {
                let (disk, path) = place(&record, shard);
                world.disk(disk).peek(&path).expect("there")
            })
            .collect();
        let (lost, lost_path) = place(&record, 5);
        assert!(world.disk(lost).lose_file(&lost_path));
        let (rotten, rotten_path) = place(&record, 1);
        for page in [0, 1, 7, 300] {
            assert!(
                world
                    .disk(rotten)
                    .flip_bit(&rotten_path, page_at(page) + 100, 1)
            );
        }
        assert!(world.disk(rotten).flip_bit(&rotten_path, 5, 1));
        let found = damage(check(&store, &record, 1).await);
        assert_eq!(found.pages, [0..2, 7..8, 300..301]);
        let written = mend(&store, &record, &[1, 5]).await.expect("rebuilt");
        let geometry = record.geometry().expect("sound");
        assert_eq!(written, 4 * 4096 + geometry.shard_len(5));
        for (shard, before) in before.iter().enumerate() {
            assert_eq!(
                check(&store, &record, shard).await,
                CheckOutcome::Good,
                "{shard}"
            );
            let (disk, path) = place(&record, shard);
            assert_eq!(
                world.disk(disk).peek(&path).as_ref(),
                Some(before),
                "{shard}"
            );
        }
    });
}

#[test]
fn more_bad_pages_than_parity_are_mended_where_no_page_has_too_many() {
    run(async {
        let world = SimWorld::with_disks(3, 6);
        let store = store(&world, layout(4, 2));
        let bytes = content(3_000_000, 6);
        let record = write(&store, 1, &bytes, 100_000).await.expect("written");
        for shard in 0..6 {
            let (disk, path) = place(&record, shard);
            let at = page_at(10 + shard as u64);
            assert!(world.disk(disk).flip_bit(&path, at, 0));
        }
        // All at once, and then one by one as a scrub that looks at one disk would.
        mend(&store, &record, &[0, 1, 2]).await.expect("rebuilt");
        for shard in 3..6 {
            mend(&store, &record, &[shard]).await.expect("rebuilt");
        }
        for shard in 0..6 {
            assert_eq!(check(&store, &record, shard).await, CheckOutcome::Good);
        }
    });
}

#[test]
fn a_shard_moves_to_another_disk_and_the_blob_survives_as_before() {
    run(async {
        let world = SimWorld::with_disks(4, 7);
        let store = store(&world, layout(4, 2));
        let bytes = content(1_234_567, 7);
        let record = write(&store, 1, &bytes, 100_000).await.expect("written");
        let spare = (1..8).map(DiskId).find(|id| !record.disks.contains(id));
        let spare = spare.expect("seven disks, six shards");
        let (gone, _) = place(&record, 2);
        world.disk(gone).vanish();
        assert_eq!(check(&store, &record, 2).await, CheckOutcome::Unreachable);
        let target = RebuildTarget {
            shard: 2,
            disk: spare,
            damage: Damage::default(),
        };
        // Leftovers of a try that a crash cut short are of no use.
        let leftover = world.dyn_disks()[spare.0 as usize - 1]
            .create(&record.shard_path(2), dewar_env::CreateOptions::default())
            .await
            .expect("created");
        leftover
            .write_at(0, vec![content(50_000, 1)])
            .await
            .expect("written");
        let old = Arc::new(record.clone());
        let pace = unhurried();
        let (now, _) = store
            .rebuild(&old, &[target], &pace)
            .await
            .expect("rebuilt");
        assert_eq!(now.disks[2], spare);
        assert_eq!(now.generation, record.generation);
        for shard in 0..6 {
            assert_eq!(check(&store, &now, shard).await, CheckOutcome::Good);
        }
        let (disk, path) = place(&now, 2);
        let file = world.disk(disk).peek(&path).expect("there");
        assert!(!world.disk(disk).is_dirty(&path));
        let header = ShardHeader::decode(&file).expect("a header");
        assert_eq!((header.shard, header.disk), (2, spare));
        assert_eq!(header.owner, b"a test");
        let geometry = record.geometry().expect("sound");
        assert_eq!(file.len() as u64, file_len(geometry.shard_len(2)));
        // Two others may go now.
        for shard in [0, 5] {
            world.disk(place(&now, shard).0).vanish();
        }
        let whole = ByteRange::whole(now.len);
        assert_eq!(read(&store, &now, whole).await.expect("readable"), bytes);
    });
}

#[test]
fn shards_that_only_move_help_to_rebuild_the_lost_ones() {
    run(async {
        let world = SimWorld::with_disks(1, 10);
        let store = store(&world, layout(4, 2));
        let bytes = content(700_001, 4);
        let record = write(&store, 1, &bytes, 70_000).await.expect("written");
        let spare: Vec<DiskId> = (1..=10)
            .map(DiskId)
            .filter(|disk| !record.disks.contains(disk))
            .collect();
        // As many are lost as may be, and two disks are to be emptied at the same time.
        for shard in [0, 1] {
            world.disk(place(&record, shard).0).vanish();
        }
        let targets: Vec<RebuildTarget> = (0..4)
            .map(|shard| RebuildTarget {
                shard,
                disk: spare[shard],
                damage: Damage::default(),
            })
            .collect();
        let record = Arc::new(record);
        let rebuilt = store.rebuild(&record, &targets, &unhurried()).await;
        let (now, _) = rebuilt.expect("four can be read");
        assert_eq!(now.disks[..4], spare[..4]);
        for shard in 0..6 {
            assert_eq!(
                check(&store, &now, shard).await,
                CheckOutcome::Good,
                "{shard}"
            );
        }
    });
}

#[test]
fn a_rebuild_that_a_crash_cuts_short_harms_nothing_and_can_be_repeated() {
    let bytes = content(700_001, 8);
    for ops in 1.. {
        let finished = run(async {
            let world = SimWorld::with_disks(ops, 6);
            let before = store(&world, layout(4, 2));
            let record = write(&before, 1, &bytes, 100_000).await.expect("written");
            let (disk, path) = place(&record, 0);
            assert!(world.disk(disk).lose_file(&path));
            let (disk, path) = place(&record, 4);
            assert!(world.disk(disk).flip_bit(&path, page_at(2), 3));
            world.crash_after(ops);
            let finished = mend(&before, &record, &[0, 4]).await.is_ok();
            let world = world.crash(ops);
            let after = store(&world, layout(4, 2));
            let whole = ByteRange::whole(record.len);
            assert_eq!(read(&after, &record, whole).await.expect("readable"), bytes);
            for shard in [0, 4] {
                let checked = check(&after, &record, shard).await;
                assert!(
                    !finished || checked == CheckOutcome::Good,
                    "{ops}: {checked:?}"
                );
                if checked != CheckOutcome::Good {
                    mend(&after, &record, &[shard]).await.expect("rebuilt");
                }
                assert_eq!(check(&after, &record, shard).await, CheckOutcome::Good);
            }
            finished
        });
        if finished {
            assert!(ops >= 8, "{ops} operations");
            break;
        }
    }
}

#[test]
fn a_blob_is_laid_out_again_when_disks_return() {
    run(async {
        let world = SimWorld::with_disks(5, 6);
        let store = store(&world, layout(4, 2));
        world.disk(1).vanish();
        let bytes = content(2_000_000, 9);
        let record = write(&store, 1, &bytes, 100_000).await.expect("written");
        assert_eq!(record.layout.to_string(), "3+2");
        world.disk(1).come_back();
        let mut writer = store
            .encode_anew(&record, ShardKind::Object)
            .expect("disks live");
        let mut stream = store
            .open(Arc::new(record.clone()))
            .expect("sound")
            .stream(ByteRange::whole(record.len));
        while let Some(part) = stream.next().await {
            writer.write(part.expect("readable")).await.expect("taken");
        }
        let now = writer.seal(b"a test").await.expect("sealed");
        assert_eq!(
            (now.layout.to_string().as_str(), now.generation),
            ("4+2", 2)
        );
        store.remove(&record).await;
        let whole = ByteRange::whole(now.len);
        assert_eq!(read(&store, &now, whole).await.expect("readable"), bytes);
        for shard in 0..6 {
            assert_eq!(check(&store, &now, shard).await, CheckOutcome::Good);
        }
    });
}

/// A disk that is written full by a repair would have no room for deletes: a shard that is made anew
/// stops before the reserve, and one that is mended where it lies takes no more than it had.
#[test]
fn a_rebuild_keeps_to_the_reserve() {
    run(async {
        let world = SimWorld::with_disks(1, 7);
        let store = store(&world, layout(4, 2));
        let bytes = content(40_000_000, 4);
        let record = write(&store, 1, &bytes, 1 << 20).await.expect("written");
        let spare = (1..=7).map(DiskId).find(|id| !record.disks.contains(id));
        let spare = spare.expect("seven disks, six shards");
        let full = Space {
            total: 64 << 20,
            available: 5 << 20,
        };
        let rooms = store.placement().rooms();
        (1..=7).for_each(|id| rooms.saw(&rooms.ask(DiskId(id)), full));
        let record = Arc::new(record);
        let target = |disk, pages| RebuildTarget {
            shard: 0,
            disk,
            damage: Damage::whole(pages),
        };
        let pages = page_count(record.geometry().expect("sound").shard_len(0));
        let there = [target(record.disks[0], pages)];
        let mended = store.rebuild(&record, &there, &unhurried()).await;
        assert!(mended.expect("in its place").1.written > 9 << 20);
        let error = store
            .rebuild(&record, &[target(spare, pages)], &unhurried())
            .await;
        assert_eq!(error.expect_err("no room").kind(), ErrorKind::NoSpace);
        // It went on to half of the reserve.
        let left = store.placement().space()[&spare].available;
        assert!(left <= 2 << 20 && left > 0, "{left}");
    });
}

/// What is avoided is no room, though it is empty: small objects are sealed into blobs.
#[test]
fn a_pool_whose_only_room_is_on_disks_to_be_emptied_is_full() {
    run(async {
        let world = SimWorld::with_disks(1, 6);
        let store = store(&world, layout(2, 1));
        let (placement, pool) = (store.placement(), store.pool());
        let space = |available| Space {
            total: 1 << 30,
            available,
        };
        let rooms = placement.rooms();
        (1..=6).for_each(|id| {
            let left = if id <= 3 { 0 } else { 1 << 29 };
            rooms.saw(&rooms.ask(DiskId(id)), space(left));
        });
        assert!(!placement.is_full(pool, pool.number()));
        placement.avoid((4..=6).map(DiskId).collect());
        assert!(placement.is_full(pool, pool.number()));
        let chosen = placement.choose(pool, pool.number(), BlobId(9), ShardKind::Object);
        assert_eq!(chosen.expect_err("full").kind(), ErrorKind::NoSpace);
    });
}
