use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::disk::contract;
use crate::{Access, CreateOptions, Disk, DiskErrorKind, DiskState};

const SECOND: Duration = Duration::from_secs(1);

fn kind<T>(result: Result<T>) -> DiskErrorKind {
    match result {
        Ok(_) => panic!("should have failed"),
        Err(error) => error.kind(),
    }
}

async fn synced(disk: &SimDisk, path: &str, bytes: &'static [u8]) {
    let file = disk.create(path, CreateOptions::default()).await.unwrap();
    file.write_at(0, vec![bytes.into()]).await.unwrap();
    file.sync().await.unwrap();
    disk.sync_dir(super::names::parent(path)).await.unwrap();
}

/// Writes, syncs and renames; what the caller was told is durable comes back.
async fn workload(disk: &SimDisk, told: &mut Vec<&'static str>) -> Result<()> {
    let file = disk.create("dir/log", CreateOptions::default()).await?;
    file.write_at(0, vec![Bytes::from(vec![1; 10_000])]).await?;
    file.sync().await?;
    disk.sync_dir("dir").await?;
    told.push("log");
    disk.replace_file("epoch", "one".into()).await?;
    told.push("one");
    disk.replace_file("epoch", "two".into()).await?;
    told.push("two");
    let options = CreateOptions {
        zeroed_bytes: 65536,
        direct: true,
    };
    let journal = disk.create("j", options).await?;
    disk.sync_dir("").await?;
    told.push("zeros");
    journal
        .write_durable(8192, vec![Bytes::from(vec![7; 4096])])
        .await?;
    told.push("sevens");
    file.write_at(4096, vec![Bytes::from(vec![2; 10_000])])
        .await?;
    disk.rename("dir/log", "dir/old").await?;
    disk.sync_dir("dir").await?;
    told.push("old");
    let file = disk.open("dir/old", Access::Write).await?;
    file.sync().await?;
    told.push("twos");
    Ok(())
}

async fn check(after: &SimDisk, told: &[&str]) {
    let has = |what| told.contains(&what);
    let log = match after.read_file("dir/old").await {
        Ok(log) => Some(log),
        Err(_) if !has("old") => after.read_file("dir/log").await.ok(),
        Err(error) => panic!("{error}"),
    };
    assert!(log.is_some() || !has("log"));
    if let Some(log) = log.filter(|_| has("log")) {
        assert!(log.len() >= 10_000);
        assert!(log[..4096].iter().all(|b| *b == 1));
        assert!(log[4096..10_000].iter().all(|b| matches!(b, 1 | 2)));
        if has("twos") {
            assert!(log[4096..].iter().all(|b| *b == 2) && log.len() == 14_096);
        }
    }
    match after.read_file("epoch").await {
        Ok(epoch) if epoch == "two" => assert!(has("one")),
        Ok(epoch) => assert!(epoch == "one" && !has("two"), "{epoch:?}"),
        Err(_) => assert!(!has("one")),
    }
    if has("zeros") {
        let journal = after.read_file("j").await.unwrap();
        assert_eq!(journal.len(), 65536);
        assert!(journal[..8192].iter().all(|b| *b == 0));
        if has("sevens") {
            assert!(journal[8192..12288].iter().all(|b| *b == 7));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_crash_keeps_what_was_acknowledged() {
    let mut ops = 0;
    let mut outcomes = BTreeSet::new();
    loop {
        ops += 1;
        let mut finished = false;
        for seed in 0..20 {
            let world = SimWorld::with_disks(seed, 1);
            world.crash_after(ops);
            let mut told = Vec::new();
            let result = workload(&world.disk(0), &mut told).await;
            assert_eq!(result.is_err(), world.power_failed());
            finished |= result.is_ok();
            let after = world.crash(seed + 1000);
            check(&after.disk(0), &told).await;
            outcomes.insert((ops, after.disk(0).paths(), told.len()));
        }
        if finished {
            break;
        }
    }
    assert!(ops > 20 && outcomes.len() > 30, "{ops} {}", outcomes.len());
}

#[tokio::test(start_paused = true)]
async fn a_run_repeats_from_its_seed() {
    let run = async |seed| {
        let world = SimWorld::with_disks(seed, 2);
        let disk = world.disk(1);
        disk.set_faults(SimFaults {
            write_error: 100_000,
            ..SimFaults::default()
        });
        let mut told = Vec::new();
        // Some seeds fail, some do not.
        let _ = workload(&disk, &mut told).await;
        let after = world.crash(3).disk(1);
        let contents: Vec<_> = after.paths().iter().map(|p| after.peek(p)).collect();
        (told.len(), disk.counters(), contents)
    };
    for seed in 0..20 {
        assert_eq!(run(seed).await, run(seed).await);
    }
}

#[tokio::test(start_paused = true)]
async fn the_death_of_the_process_loses_nothing_and_settles_nothing() {
    let world = SimWorld::with_disks(1, 1);
    let disk = world.disk(0);
    let file = disk.create("a", CreateOptions::default()).await.unwrap();
    file.write_at(0, vec!["unsynced".into()]).await.unwrap();
    let next = world.kill(2);
    assert_eq!(kind(file.read_at(0, 8).await), DiskErrorKind::Missing);
    assert_eq!(next.disk(0).read_file("a").await.unwrap(), "unsynced");
    assert!(next.disk(0).is_dirty("a"));
    let lost = (0..20).any(|seed| next.crash(seed).disk(0).paths().is_empty());
    assert!(lost);
}

#[tokio::test(start_paused = true)]
async fn a_removed_file_stays_readable_until_the_disk_is_away() {
    let world = SimWorld::with_disks(1, 1);
    let disk = world.disk(0);
    disk.set_cached(1_000_000);
    synced(&disk, "a", b"hello").await;
    let file = disk.open("a", Access::Read).await.unwrap();
    disk.remove("a").await.unwrap();
    synced(&disk, "a", b"other").await;
    assert_eq!(file.read_at(0, 9).await.unwrap(), "hello");
    assert_eq!(file.read_now(1, 3).unwrap().unwrap(), "ell");

    let mut watch = disk.watch();
    disk.vanish();
    assert_eq!(*watch.borrow_and_update(), DiskState::Missing);
    assert!(file.read_now(0, 5).is_none());
    assert_eq!(kind(file.read_at(0, 5).await), DiskErrorKind::Missing);
    assert_eq!(kind(disk.list("").await), DiskErrorKind::Missing);
    disk.come_back();
    assert_eq!(disk.state(), DiskState::Online { returns: 1 });
    assert_eq!(file.read_at(0, 9).await.unwrap(), "hello");
}

#[tokio::test(start_paused = true)]
async fn a_pulled_disk_loses_what_was_not_synced() {
    let lost = async |seed| {
        let disk = SimWorld::with_disks(seed, 1).disk(0);
        synced(&disk, "a", b"durable").await;
        let file = disk.open("a", Access::Write).await.unwrap();
        file.write_at(0, vec!["pending".into()]).await.unwrap();
        disk.pull();
        disk.come_back();
        assert_eq!(kind(file.read_at(0, 9).await), DiskErrorKind::Io);
        assert_eq!(kind(file.sync().await), DiskErrorKind::Io);
        assert!(file.read_now(0, 5).is_none());
        let file = disk.open("a", Access::Read).await.unwrap();
        let read = file.read_at(0, 9).await.unwrap();
        assert!(read == "durable" || read == "pending", "{read:?}");
        read == "durable"
    };
    let mut outcomes = BTreeSet::new();
    for seed in 0..20 {
        outcomes.insert(lost(seed).await);
    }
    assert_eq!(outcomes.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_hang_ends_in_a_time_out_and_the_write_comes_late() {
    let world = SimWorld::with_disks(1, 1);
    let disk = world.disk(0);
    synced(&disk, "a", b"old").await;
    let file = disk.open("a", Access::Write).await.unwrap();
    disk.hang();
    let before = tokio::time::Instant::now();
    assert_eq!(
        kind(file.write_at(0, vec!["new".into()]).await),
        DiskErrorKind::TimedOut
    );
    assert_eq!(before.elapsed(), 5 * SECOND);
    assert_eq!(disk.state(), DiskState::Hung);
    // Now at once.
    assert_eq!(kind(file.read_at(0, 3).await), DiskErrorKind::TimedOut);
    assert!(file.read_now(0, 3).is_none());
    assert_eq!(before.elapsed(), 5 * SECOND);
    assert_eq!(disk.peek("a").unwrap(), "old");
    disk.resume();
    assert_eq!(disk.state(), DiskState::Online { returns: 1 });
    assert_eq!(file.read_at(0, 3).await.unwrap(), "new");

    // A hang that is shorter than the deadline only delays.
    disk.hang();
    let (read, ()) = tokio::join!(biased; file.read_at(0, 3), async {
        tokio::time::sleep(SECOND).await;
        disk.resume();
    });
    assert_eq!(read.unwrap(), "new");
    assert_eq!(disk.state(), DiskState::Online { returns: 1 });
}

#[tokio::test(start_paused = true)]
async fn a_slow_disk_takes_its_time_and_one_past_the_deadline_is_hung() {
    let world = SimWorld::with_disks(1, 1);
    let disk = world.disk(0);
    disk.set_latency(SimLatency {
        write: (SECOND, SECOND),
        sync: (8 * SECOND, 8 * SECOND),
        ..SimLatency::default()
    });
    let before = tokio::time::Instant::now();
    let file = disk.create("a", CreateOptions::default()).await.unwrap();
    file.write_at(0, vec!["x".into()]).await.unwrap();
    assert_eq!(before.elapsed(), 2 * SECOND);
    assert_eq!(kind(file.sync().await), DiskErrorKind::TimedOut);
    assert_eq!(disk.state(), DiskState::Hung);
    tokio::time::sleep(4 * SECOND).await;
    assert_eq!(disk.state(), DiskState::Online { returns: 1 });
    assert!(!disk.is_dirty("a"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_sync_poisons_until_the_restart() {
    let world = SimWorld::with_disks(1, 1);
    let disk = world.disk(0);
    synced(&disk, "a", b"old").await;
    let file = disk.open("a", Access::Write).await.unwrap();
    file.write_at(0, vec!["new".into()]).await.unwrap();
    disk.fail_next(SimOp::Sync, DiskErrorKind::Io);
    assert_eq!(kind(file.sync().await), DiskErrorKind::Io);
    assert_eq!(disk.state(), DiskState::Poisoned);
    assert_eq!(kind(file.sync().await), DiskErrorKind::Poisoned);
    assert_eq!(kind(disk.remove("a").await), DiskErrorKind::Poisoned);
    assert_eq!(file.read_at(0, 3).await.unwrap(), "new");
    let next = world.crash(1);
    assert_eq!(next.disk(0).state(), DiskState::Online { returns: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_growth_and_lets_room_be_made() {
    let world = SimWorld::with_disks(1, 1);
    let disk = world.disk(0);
    disk.set_capacity(16384);
    let options = CreateOptions {
        zeroed_bytes: 8192,
        direct: false,
    };
    let file = disk.create("a", options).await.unwrap();
    assert_eq!(disk.space().await.unwrap().available, 8192);
    let big = vec![Bytes::from(vec![1; 12288])];
    assert_eq!(kind(file.write_at(8192, big).await), DiskErrorKind::Full);
    assert_eq!(disk.space().await.unwrap().available, 0);
    file.write_at(0, vec!["in place".into()]).await.unwrap();
    assert_eq!(kind(disk.create("b", options).await), DiskErrorKind::Full);
    disk.remove("a").await.unwrap();
    assert_eq!(disk.space().await.unwrap().available, 0);
    drop(file);
    // The name may still come back after a power failure, so its room is not free yet.
    disk.sync_dir("").await.unwrap();
    assert_eq!(disk.space().await.unwrap().available, 16384);
}

#[tokio::test(start_paused = true)]
async fn a_disk_lies_when_told_to() {
    let world = SimWorld::with_disks(5, 1);
    let disk = world.disk(0);
    synced(&disk, "a", b"aaaa").await;
    let file = disk.open("a", Access::Write).await.unwrap();
    disk.lose_next_write();
    file.write_at(0, vec!["bbbb".into()]).await.unwrap();
    assert_eq!(file.read_at(0, 9).await.unwrap(), "aaaa");

    let options = CreateOptions {
        zeroed_bytes: 40960,
        direct: true,
    };
    let big = disk.create("big", options).await.unwrap();
    disk.misdirect_next_write();
    let page = Bytes::from(vec![9; 4096]);
    big.write_durable(4096, vec![page.clone()]).await.unwrap();
    assert_ne!(big.read_at(4096, 4096).await.unwrap(), page);

    let flipped = disk.rot("big", 3);
    assert_eq!(flipped.len(), 3);
    assert!(disk.flip_bit("a", 1, 0) && !disk.flip_bit("a", 4, 0));
    assert_eq!(disk.peek("a").unwrap()[1], b'a' ^ 1);
    disk.spoil("a", 0, 1);
    assert_eq!(kind(file.read_at(0, 4).await), DiskErrorKind::Io);
    disk.tamper("a", 0, b"cccc");
    assert_eq!(file.read_at(0, 4).await.unwrap(), "cccc");
    assert!(disk.lose_file("a"));
    assert_eq!(kind(disk.read_file("a").await), DiskErrorKind::NotFound);
    disk.set_read_only(true);
    assert_eq!(
        kind(big.write_at(0, vec![page]).await),
        DiskErrorKind::Refused
    );
}

#[tokio::test(start_paused = true)]
async fn disks_can_be_exchanged_and_come_back_old() {
    let world = SimWorld::with_disks(1, 2);
    let old = {
        synced(&world.disk(0), "name", b"zero").await;
        synced(&world.disk(1), "name", b"one").await;
        world.disk(0).image()
    };
    synced(&world.disk(0), "later", b"x").await;
    world.swap(0, 1);
    assert_eq!(world.disk(0).state(), DiskState::Missing);
    world.swap(0, 1);
    assert_eq!(world.disk(0).state(), DiskState::Online { returns: 1 });
    assert_eq!(world.disk(0).read_file("name").await.unwrap(), "zero");

    let next = world.crash(1);
    next.swap(0, 1);
    assert_eq!(next.disk(0).read_file("name").await.unwrap(), "one");
    assert_eq!(next.disk(1).paths(), ["later", "name"]);
    next.disk(1).restore(&old);
    assert_eq!(next.disk(1).paths(), ["name"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_write_may_happen() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..40 {
        let world = SimWorld::with_disks(seed, 1);
        let disk = world.disk(0);
        synced(&disk, "a", b"old").await;
        disk.set_latency(SimLatency {
            write: (SECOND, SECOND),
            ..SimLatency::default()
        });
        let file = disk.open("a", Access::Write).await.unwrap();
        let write = file.write_at(0, vec!["new".into()]);
        assert!(tokio::time::timeout(SECOND / 2, write).await.is_err());
        outcomes.insert(disk.peek("a").unwrap());
    }
    assert_eq!(outcomes.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn keeps_the_contract_of_read_only_disks() {
    let world = SimWorld::with_disks(1, 1);
    let disk = world.disk(0);
    contract::prepare_read_only(&disk).await;
    disk.set_read_only(true);
    contract::check_read_only(&disk).await;
    disk.set_read_only(false);
    contract::check_writable_again(&disk).await;
}

#[tokio::test(start_paused = true)]
async fn keeps_the_contract() {
    for seed in 0..10 {
        let world = SimWorld::with_disks(seed, 1);
        contract::check(&world.dyn_disks()[0]).await;
    }
}

/// Until the power fails a write may be anywhere between begun and done.
#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_torn_by_a_power_failure_and_whole_after_a_kill() {
    let (mut none, mut torn, mut whole) = (0, 0, 0);
    for seed in 0..200 {
        let world = SimWorld::with_disks(seed, 1);
        let disk = world.disk(0);
        synced(&disk, "a", &[1; 8192]).await;
        disk.set_latency(SimLatency {
            sync: (SECOND, SECOND),
            ..SimLatency::default()
        });
        let file = disk.open("a", Access::Write).await.unwrap();
        let write = tokio::spawn(async move {
            let bytes = Bytes::from(vec![2; 8192]);
            file.write_durable(0, vec![bytes]).await
        });
        tokio::time::sleep(SECOND / 2).await;
        let killed = seed % 2 == 0;
        let after = match killed {
            true => world.kill(seed),
            false => world.crash(seed),
        };
        assert_eq!(kind(write.await.unwrap()), DiskErrorKind::Missing);
        let left = after.disk(0).peek("a").unwrap();
        match left.iter().filter(|byte| **byte == 2).count() {
            0 => none += 1,
            8192 => whole += 1,
            _ if killed => panic!("a kill tears nothing"),
            _ => torn += 1,
        }
    }
    assert!(
        none > 20 && torn > 20 && whole > 20,
        "{none} {torn} {whole}"
    );
}

#[tokio::test(start_paused = true)]
async fn files_can_be_given_each_others_content() {
    let world = SimWorld::with_disks(1, 1);
    let disk = world.disk(0);
    synced(&disk, "a", b"first").await;
    synced(&disk, "b", b"other one").await;
    assert!(disk.exchange("a", "b") && !disk.exchange("a", "c"));
    let after = world.crash(2);
    assert_eq!(after.disk(0).peek("a").unwrap(), "other one");
    assert_eq!(after.disk(0).peek("b").unwrap(), "first");
}
