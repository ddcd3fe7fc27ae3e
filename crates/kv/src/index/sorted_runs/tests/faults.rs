use std::time::Duration;

use dewar_env::DiskErrorKind;
use dewar_env::disk::sim::SimOp;

use super::*;

async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn heals_what_rots() {
    for seed in 0..10 {
        let world = SimWorld::with_disks(seed, 2);
        let index = create(&world, 2).await.unwrap();
        let model = fill(&index, &SimRng::new(seed), 5).await;
        index.stop().await;
        let world = world.crash(seed);
        let flipped = world.disk(0).rot("index/", 30);
        // A disk whose manifest is bad is not believed: its runs are all copied anew.
        let copied = flipped.iter().any(|(path, _)| path.ends_with("manifest"));
        let index = open(&world, 2).await.unwrap();
        check(&*index.view(), &model).await;
        index.verify().await.unwrap();
        settle().await;
        assert_eq!(index.verify().await.unwrap(), 0, "all is mended");
        let status = index.status().await;
        assert!(status.healed > 0 || copied, "{status:?}");
        // With the good copy gone the mended one serves.
        index.stop().await;
        let world = world.crash(seed);
        world.disk(1).vanish();
        let index = open(&world, 2).await.unwrap();
        check(&*index.view(), &model).await;
    }
}

#[tokio::test(start_paused = true)]
async fn mends_unreadable_pages_and_survives_wrong_reads() {
    let world = SimWorld::with_disks(1, 2);
    let index = create(&world, 2).await.unwrap();
    let model = fill(&index, &SimRng::new(1), 4).await;
    for path in world.disk(0).paths() {
        if path.ends_with(".run") {
            world.disk(0).spoil(&path, 0, 5000);
        }
    }
    check(&*index.view(), &model).await;
    index.verify().await.unwrap();
    settle().await;
    assert_eq!(index.verify().await.unwrap(), 0);
    let faults = dewar_env::disk::sim::SimFaults {
        flip_on_read: 200_000,
        read_error: 100_000,
        ..Default::default()
    };
    world.disk(1).set_faults(faults);
    world.disk(1).set_cached(0);
    index.stop().await;
    let index = open(&world, 2).await.unwrap();
    for _ in 0..5 {
        check(&*index.view(), &model).await;
    }
}

#[tokio::test(start_paused = true)]
async fn never_serves_what_is_wrong_everywhere() {
    let world = SimWorld::with_disks(2, 2);
    let index = create(&world, 2).await.unwrap();
    let entries = (0..200).map(|n| (key(n), Some(vec![1; 400].into())));
    let mut entries: Vec<Entry> = entries.collect();
    entries.sort();
    index.apply(entries, 1).await.unwrap();
    index.stop().await;
    let world = world.crash(2);
    for disk in world.disks() {
        for path in disk.paths().iter().filter(|p| p.ends_with(".run")) {
            assert!(disk.flip_bit(path, 1000, 3));
        }
    }
    let index = open(&world, 2).await.unwrap();
    let scan = Scan {
        from: b"",
        to: b"",
        limit: 1000,
        reverse: false,
    };
    let error = index.view().scan(scan.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(index.lost_pieces() > 0, "what a read misses is known");
    assert!(index.verify().await.is_err());
    // Nothing can be mended, and nobody goes on trying: time passes only when all is quiet.
    settle().await;
    index.retry_lost().await;
    assert!(index.lost_pieces() > 0);
    // One disk has it again.
    for path in world.disk(1).paths() {
        if path.ends_with(".run") {
            assert!(world.disk(1).flip_bit(&path, 1000, 3));
        }
    }
    index.retry_lost().await;
    assert_eq!(index.lost_pieces(), 0);
    settle().await;
    assert_eq!(index.verify().await.unwrap(), 0, "the other is mended");
    index.view().scan(scan).await.unwrap();
}

/// What was read once is as good as a copy, as long as it is in memory.
#[tokio::test(start_paused = true)]
async fn what_no_disk_has_is_written_from_memory() {
    let world = SimWorld::with_disks(4, 2);
    let index = create(&world, 2).await.unwrap();
    let model = fill(&index, &SimRng::new(4), 5).await;
    check(&*index.view(), &model).await;
    for disk in world.disks() {
        for path in disk.paths().iter().filter(|path| path.ends_with(".run")) {
            for offset in [5, 300] {
                assert!(disk.flip_bit(path, offset, 3));
            }
        }
    }
    assert!(index.verify().await.unwrap() > 0);
    settle().await;
    assert_eq!((index.verify().await.unwrap(), index.lost_pieces()), (0, 0));
    index.stop().await;
    let index = open(&world, 2).await.unwrap();
    check(&*index.view(), &model).await;
}

/// A power failure between the manifests of two disks leaves a new state on one of them. What rots
/// there nobody else has, but the state before is whole and the journal has the rest.
#[tokio::test(start_paused = true)]
async fn a_state_that_one_disk_alone_names_must_be_readable() {
    for seed in 0..4 {
        let world = SimWorld::with_disks(seed, 2);
        let index = create(&world, 2).await.unwrap();
        let model = fill(&index, &SimRng::new(seed), 3).await;
        index.settle().await;
        let before = world.disk(1).image();
        let newer = vec![(key(1), Some(vec![7; 3000].into()))];
        index.apply(newer, 4).await.unwrap();
        index.stop().await;
        let runs = |world: &SimWorld| -> Vec<String> {
            let paths = world.disk(0).paths().into_iter();
            paths.filter(|path| path.ends_with(".run")).collect()
        };
        let known = runs(&world.crash(seed));
        let world = world.crash(seed);
        world.disk(1).restore(&before);
        // As long as it can be read it counts.
        let index = open(&world, 2).await.unwrap();
        assert_eq!(index.applied(), 4);
        index.stop().await;
        let world = world.crash(seed);
        world.disk(1).restore(&before);
        let before: Vec<String> = world.disk(1).paths();
        let new = known.iter().find(|path| !before.contains(path)).unwrap();
        assert!(world.disk(0).flip_bit(new, 1000, 3));
        assert_eq!(RunIndex::probe(disks(&world), &config(2)).await.unwrap(), 3);
        let index = open(&world, 2).await.unwrap();
        assert_eq!(index.applied(), 3);
        check(&*index.view(), &model).await;
        assert_eq!(index.status().await.copies, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn replaces_a_holder_that_fails() {
    for op in [
        SimOp::Create,
        SimOp::Write,
        SimOp::Sync,
        SimOp::Rename,
        SimOp::SyncDir,
    ] {
        for kind in [DiskErrorKind::Io, DiskErrorKind::Full] {
            let world = SimWorld::with_disks(3, 3);
            let index = create(&world, 2).await.unwrap();
            let rng = SimRng::new(3);
            let mut model = fill(&index, &rng, 3).await;
            world.disk(0).fail_always(op, kind);
            let entries = batch(&rng, 50, 300);
            put(&mut model, &entries);
            index.apply(entries, 4).await.unwrap();
            let status = index.status().await;
            assert_eq!(status.holders, [DiskId(2), DiskId(3)], "{op:?} {kind:?}");
            assert_eq!(status.copies, 2);
            check(&*index.view(), &model).await;
            index.stop().await;
            let after = world.crash(4);
            after.disk(0).vanish();
            after.disk(2).vanish();
            let index = open(&after, 2).await.unwrap();
            check(&*index.view(), &model).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fails_whole_without_enough_disks_and_goes_on_later() {
    let world = SimWorld::with_disks(4, 2);
    let index = create(&world, 2).await.unwrap();
    let rng = SimRng::new(4);
    let mut model = fill(&index, &rng, 7).await;
    world.disk(0).set_capacity(0);
    let entries = batch(&rng, 50, 300);
    let error = index.apply(entries.clone(), 8).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    assert_eq!(index.applied(), 7);
    check(&*index.view(), &model).await;

    world.disk(0).set_capacity(1 << 30);
    world.disk(1).fail_next(SimOp::Rename, DiskErrorKind::Io);
    let error = index.apply(entries.clone(), 8).await;
    assert!(error.is_err(), "its manifest is on one disk only");
    check(&*index.view(), &model).await;

    put(&mut model, &entries);
    index.apply(entries, 8).await.unwrap();
    index.settle().await;
    settle().await;
    check(&*index.view(), &model).await;
    let status = index.status().await;
    assert_eq!((status.copies, status.applied), (2, 8));
    let files: usize = world.disks().iter().map(|d| d.paths().len()).sum();
    assert_eq!(
        files,
        2 * (status.runs + 1),
        "what failed is gone: {:?}",
        world.disk(0).paths()
    );
}

/// That nothing but the runs and manifests of its holders is on the disks.
async fn assert_no_leftovers(world: &SimWorld, index: &RunIndex) {
    tokio::time::sleep(Duration::from_secs(20)).await;
    let status = index.status().await;
    for (disk, id) in world.disks().iter().zip((1..).map(DiskId)) {
        let runs = disk.paths().into_iter().filter(|p| p.ends_with(".run"));
        let expected = if status.holders.contains(&id) {
            status.runs
        } else {
            0
        };
        let runs: Vec<String> = runs.collect();
        assert_eq!(runs.len(), expected, "{id}: {runs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_disk_did_not_let_go_is_removed_when_it_does() {
    let world = SimWorld::with_disks(13, 3);
    let index = create(&world, 2).await.unwrap();
    let rng = SimRng::new(13);
    let mut model = fill(&index, &rng, 3).await;
    // What was merged is in use until the disk is away.
    let view = index.view();
    for upto in 4..20 {
        let entries = batch(&rng, 50, 300);
        put(&mut model, &entries);
        index.apply(entries, upto).await.unwrap();
    }
    index.settle().await;
    world.disk(0).vanish();
    drop(view);
    settle().await;
    let left = world.disk(0).paths().len();
    assert!(left > index.status().await.runs + 1, "{left} files");
    world.disk(0).come_back();
    assert_no_leftovers(&world, &index).await;

    // It hangs while a batch is written, and is no holder any more when it answers again.
    world.disk(1).hang();
    let entries = batch(&rng, 50, 300);
    put(&mut model, &entries);
    index.apply(entries, 20).await.unwrap();
    assert_eq!(index.status().await.holders, [DiskId(1), DiskId(3)]);
    world.disk(1).resume();
    assert_no_leftovers(&world, &index).await;

    // The folder cannot be synced at the end of writing.
    world
        .disk(0)
        .fail_always(SimOp::SyncDir, DiskErrorKind::Full);
    world.disk(0).fail_always(SimOp::Remove, DiskErrorKind::Io);
    let entries = batch(&rng, 50, 300);
    put(&mut model, &entries);
    index.apply(entries, 21).await.unwrap();
    assert_eq!(index.status().await.holders, [DiskId(3), DiskId(2)]);
    world.disk(0).heal();
    assert_no_leftovers(&world, &index).await;
    check(&*index.view(), &model).await;
    index.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_closed_index_keeps_its_files_though_a_disk_waits_to_be_swept() {
    let world = SimWorld::with_disks(14, 2);
    let index = create(&world, 2).await.unwrap();
    let rng = SimRng::new(14);
    let mut model = fill(&index, &rng, 3).await;
    let old = index.view();
    for upto in 4..20 {
        let entries = batch(&rng, 50, 300);
        put(&mut model, &entries);
        index.apply(entries, upto).await.unwrap();
    }
    index.settle().await;
    world.disk(0).vanish();
    drop(old);
    settle().await;
    world.disk(0).come_back();
    index.stop().await;
    // Somebody still reads: the task that removes files goes on.
    let view = index.view();
    drop(index);
    tokio::time::sleep(Duration::from_secs(20)).await;
    check(&*view, &model).await;
    drop(view);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let index = open(&world, 2).await.unwrap();
    assert_eq!((index.applied(), index.status().await.copies), (19, 2));
    check(&*index.view(), &model).await;
    assert_no_leftovers(&world, &index).await;
}

#[tokio::test(start_paused = true)]
async fn files_are_opened_anew_on_a_disk_that_was_away() {
    let world = SimWorld::with_disks(15, 2);
    let index = create(&world, 2).await.unwrap();
    let rng = SimRng::new(15);
    let mut model = fill(&index, &rng, 5).await;
    index.settle().await;
    world.disk(0).pull();
    world.disk(0).come_back();
    assert_eq!(index.look().await, []);
    world.disk(1).vanish();
    index.verify().await.unwrap();
    check(&*index.view(), &model).await;
    world.disk(1).come_back();
    assert_eq!(index.look().await, []);

    // It comes back as it was before the last batch: what it lacks is written to it.
    let old = world.disk(0).image();
    let entries = batch(&rng, 50, 300);
    put(&mut model, &entries);
    index.apply(entries, 6).await.unwrap();
    index.settle().await;
    world.disk(0).pull();
    world.disk(0).restore(&old);
    world.disk(0).come_back();
    assert_eq!(index.look().await, [DiskId(1)]);
    assert_eq!(index.copies(), 1);
    index.set_disks(disks(&world)).await.unwrap();
    assert_eq!(index.copies(), 2);
    world.disk(1).vanish();
    index.verify().await.unwrap();
    check(&*index.view(), &model).await;
}

#[tokio::test(start_paused = true)]
async fn follows_disks_that_leave_and_come_back() {
    let world = SimWorld::with_disks(6, 3);
    let all = disks(&world);
    let index = RunIndex::create(world.env(), all.clone(), config(2), 0);
    let index = index.await.unwrap();
    let rng = SimRng::new(6);
    let mut model = fill(&index, &rng, 5).await;
    let old = (index.view(), model.clone());
    world.disk(0).vanish();
    let without: Disks = all[1..].to_vec();
    index.set_disks(without.clone()).await.unwrap();
    let status = index.status().await;
    assert_eq!(
        (status.copies, status.holders),
        (2, vec![DiskId(2), DiskId(3)])
    );
    let entries = batch(&rng, 50, 300);
    put(&mut model, &entries);
    index.apply(entries, 6).await.unwrap();

    // It comes back old, and nothing of it is believed or left.
    world.disk(0).come_back();
    index.set_disks(all.clone()).await.unwrap();
    assert_eq!(index.status().await.holders, [DiskId(2), DiskId(3)]);
    let left = world.disk(0).paths();
    assert!(!left.iter().any(|path| path.ends_with(".run")), "{left:?}");

    // Too few: the batch fails, what is there is served.
    let error = index.set_disks(without[..1].to_vec()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(
        index.apply(Vec::new(), 7).await.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    check(&*index.view(), &model).await;
    check(&*old.0, &old.1).await;
    index.set_disks(without).await.unwrap();
    index.apply(Vec::new(), 7).await.unwrap();
    index.verify().await.unwrap();
    check(&*index.view(), &model).await;

    // Opened anew, disks are others: what is whole on them is believed again.
    let written = |world: &SimWorld| world.disk(2).counters().bytes_written;
    let before = written(&world);
    index.set_disks(disks(&world)).await.unwrap();
    assert_eq!(index.status().await.copies, 2);
    assert!(
        written(&world) - before < 2000,
        "only a manifest is written"
    );
    index.apply(Vec::new(), 8).await.unwrap();
    check(&*index.view(), &model).await;
}

#[tokio::test(start_paused = true)]
async fn is_copied_from_disks_that_all_leave_at_once() {
    let world = SimWorld::with_disks(6, 4);
    let all = disks(&world);
    let index = RunIndex::create(world.env(), all.clone(), config(2), 0);
    let index = index.await.unwrap();
    let model = fill(&index, &SimRng::new(6), 5).await;
    assert_eq!(index.status().await.holders, [DiskId(1), DiskId(2)]);
    index.set_disks(all[2..].to_vec()).await.unwrap();
    let status = index.status().await;
    assert_eq!(
        (status.copies, status.holders),
        (2, vec![DiskId(3), DiskId(4)])
    );
    // They are not needed any more.
    world.disk(0).vanish();
    world.disk(1).vanish();
    index.verify().await.unwrap();
    check(&*index.view(), &model).await;
}

/// What cannot be written, or synced, counts as it may, and is read all the same.
#[tokio::test(start_paused = true)]
async fn copies_on_disks_that_take_no_writes_are_read() {
    let world = SimWorld::with_disks(6, 3);
    let index = create(&world, 2).await.unwrap();
    let model = fill(&index, &SimRng::new(6), 5).await;
    assert_eq!(index.status().await.holders, [DiskId(1), DiskId(2)]);
    drop(index);
    // Opened where all is read-only.
    (0..3).for_each(|disk| world.disk(disk).set_read_only(true));
    let index = open(&world, 2).await.unwrap();
    assert_eq!(index.copies(), 2);
    assert_eq!(
        index.kept(),
        0,
        "the journal is kept where no copy can be made"
    );
    check(&*index.view(), &model).await;
    drop(index);
    (0..3).for_each(|disk| world.disk(disk).set_read_only(false));
    // Away, and back without the right to write: it is all that is left.
    let index = open(&world, 2).await.unwrap();
    world.disk(0).vanish();
    world.disk(0).come_back();
    world.disk(0).set_read_only(true);
    world.disk(1).vanish();
    index.look().await;
    index.verify().await.unwrap();
    check(&*index.view(), &model).await;
    world.disk(0).set_read_only(false);
    world.disk(1).come_back();
    index.look().await;
    // Back, and its syncs fail: it counts no more.
    world.disk(0).vanish();
    world.disk(0).come_back();
    world.disk(0).fail_next(SimOp::SyncDir, DiskErrorKind::Io);
    index.look().await;
    world.disk(1).vanish();
    index.verify().await.unwrap();
    check(&*index.view(), &model).await;
    assert_eq!(index.copies(), 0);
}

/// Runs that only an older view reads end when it does; a disk that left meanwhile is left alone.
#[tokio::test(start_paused = true)]
async fn what_is_on_a_disk_that_left_stays_there() {
    let world = SimWorld::with_disks(6, 3);
    let all = disks(&world);
    let index = RunIndex::create(world.env(), all.clone(), config(2), 0);
    let index = index.await.unwrap();
    let rng = SimRng::new(6);
    let mut model = fill(&index, &rng, 2).await;
    let old = index.view();
    for upto in 3..20 {
        let entries = batch(&rng, 50, 300);
        put(&mut model, &entries);
        index.apply(entries, upto).await.unwrap();
        index.settle().await;
    }
    assert!(index.status().await.merges > 0);
    index.set_disks(all[1..].to_vec()).await.unwrap();
    let left = world.disk(0).paths();
    drop(old);
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(world.disk(0).paths(), left);
    check(&*index.view(), &model).await;
}

#[tokio::test(start_paused = true)]
async fn what_leaves_is_read_until_there_is_room_for_copies() {
    let world = SimWorld::with_disks(6, 3);
    let all = disks(&world);
    let index = RunIndex::create(world.env(), all[..2].to_vec(), config(2), 0);
    let index = index.await.unwrap();
    let model = fill(&index, &SimRng::new(6), 5).await;
    let error = index.set_disks(all[2..].to_vec()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(index.copies(), 0, "what left does not count");
    check(&*index.view(), &model).await;
    // One comes back as it was, and is a copy again.
    index.set_disks(all[1..].to_vec()).await.unwrap();
    let status = index.status().await;
    assert_eq!(
        (status.copies, status.holders),
        (2, vec![DiskId(2), DiskId(3)])
    );
    index.verify().await.unwrap();
    check(&*index.view(), &model).await;
}

#[tokio::test(start_paused = true)]
async fn a_stale_disk_does_not_win() {
    let world = SimWorld::with_disks(8, 3);
    let index = create(&world, 2).await.unwrap();
    let rng = SimRng::new(8);
    let mut model = fill(&index, &rng, 4).await;
    index.stop().await;
    let old = world.disk(0).image();
    let world = world.crash(8);
    let index = open(&world, 2).await.unwrap();
    for upto in 5..30 {
        let entries = batch(&rng, 50, 300);
        put(&mut model, &entries);
        index.apply(entries, upto).await.unwrap();
    }
    index.settle().await;
    index.stop().await;
    let world = world.crash(9);
    world.disk(0).restore(&old);
    let index = open(&world, 2).await.unwrap();
    assert_eq!(index.applied(), 29);
    check(&*index.view(), &model).await;
    let status = index.status().await;
    assert_eq!(status.copies, 2);
    index.stop().await;
    // Its old manifest alone is an older state, as far as its runs are there.
    let world = world.crash(10);
    world.disk(0).restore(&old);
    world.disk(1).vanish();
    world.disk(2).vanish();
    let index = open(&world, 2).await.unwrap();
    assert_eq!((index.applied(), index.status().await.copies), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn a_hung_holder_is_replaced() {
    let world = SimWorld::with_disks(9, 3);
    let index = create(&world, 2).await.unwrap();
    let rng = SimRng::new(9);
    let mut model = fill(&index, &rng, 4).await;
    world.disk(1).hang();
    check(&*index.view(), &model).await;
    let entries = batch(&rng, 50, 300);
    put(&mut model, &entries);
    index.apply(entries, 5).await.unwrap();
    check(&*index.view(), &model).await;
    let status = index.status().await;
    assert_eq!(status.holders, [DiskId(1), DiskId(3)]);
}

#[tokio::test(start_paused = true)]
async fn copies_are_counted_while_they_are_made() {
    let world = SimWorld::with_disks(11, 4);
    let index = std::sync::Arc::new(create(&world, 3).await.unwrap());
    let model = fill(&index, &SimRng::new(11), 4).await;
    index.settle().await;
    assert_eq!((index.copies(), index.copies_wanted()), (3, 3));
    world.disk(1).vanish();
    assert_eq!(index.copies(), 2, "what is away counts no more");
    let slow = (Duration::from_secs(2), Duration::from_secs(3));
    world.disk(3).set_latency(dewar_env::disk::sim::SimLatency {
        write: slow,
        sync: slow,
        ..Default::default()
    });
    let (copying, all) = (std::sync::Arc::clone(&index), disks(&world));
    let copying = tokio::spawn(async move { copying.set_disks(all).await });
    settle().await;
    assert_eq!(index.copies(), 2, "half a copy is none");
    copying.await.unwrap().unwrap();
    assert_eq!(index.copies(), 3);
    check(&*index.view(), &model).await;
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_somebody_removes_holds_no_copy_and_is_made_anew() {
    for (count, lost) in [(3, vec![0]), (2, vec![1]), (2, vec![0, 1])] {
        let world = SimWorld::with_disks(12, count);
        let all = disks(&world);
        let made = RunIndex::create(world.env(), all.clone(), config(2), 0);
        let index = made.await.unwrap();
        let model = fill(&index, &SimRng::new(12), 4).await;
        index.settle().await;
        assert_eq!(index.look().await, []);
        for n in &lost {
            world.disk(*n).lose_folder("index");
        }
        let found = index.look().await;
        let expected: Vec<DiskId> = lost.iter().map(|n| DiskId(*n as u128 + 1)).collect();
        assert_eq!(found, expected);
        assert_eq!(index.copies(), 2 - lost.len());
        // What is open can still be read, and is all that is left in the last case.
        check(&*index.view(), &model).await;
        index.set_disks(all).await.unwrap();
        assert_eq!(index.copies(), 2);
        assert_eq!(index.look().await, []);
        index.stop().await;
        if count == 2 {
            // What was made anew stands by itself.
            let world = world.crash(13);
            world.disk(1 - lost[0]).vanish();
            let index = open(&world, 2).await.unwrap();
            check(&*index.view(), &model).await;
        }
    }
}
