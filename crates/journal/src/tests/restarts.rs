//! What a start costs: files are used again, and zeros are written when nobody waits for them.

use std::collections::BTreeSet;
use std::time::Duration;

use dewar_env::DiskErrorKind;
use dewar_env::disk::sim::{SimDisk, SimOp};

use super::*;
use crate::JournalState;

fn names(world: &SimWorld, disk: usize) -> BTreeSet<String> {
    let paths = world.disk(disk).paths().into_iter();
    paths.filter(|path| path.ends_with(".log")).collect()
}

fn logs(world: &SimWorld, disk: usize) -> usize {
    names(world, disk).len()
}

#[tokio::test(start_paused = true)]
async fn files_are_filled_after_the_start_and_not_before_it() {
    let world = formatted(1, 4, 2).await;
    let (journal, _) = open(&world, 2).await.expect("opens");
    assert_eq!(logs(&world, 0), 0, "somebody waited for zeros");
    tokio::time::sleep(Duration::from_secs(1)).await;
    for disk in 0..4 {
        assert_eq!(logs(&world, disk), 1, "none is ready");
    }
    write(&journal, body(1)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(logs(&world, 0), 2, "the next one is made ahead");
}

/// After a few lives no file is made any more: what is there is enough. A name is never given twice.
#[tokio::test(start_paused = true)]
async fn restarts_use_the_files_that_there_are() {
    for clean in [false, true] {
        let mut world = formatted(1, 5, 2).await;
        let mut expected = BTreeMap::new();
        let mut known = vec![BTreeSet::new(); 5];
        for life in 0..14 {
            let (journal, recovery) = open(&world, 2).await.expect("opens");
            let hold = journal.hold("index", recovery.floor());
            let floor = recovery.floor();
            let kept = expected.split_off(&(floor + 1));
            assert_eq!(all(recovery).await, kept, "life {life}");
            expected = kept;
            let last = journal.last_seq();
            // Files become free at the beginning, which need not be known on disk.
            hold.advance(last.saturating_sub(10));
            for n in 0..30 {
                let mut body = body(life * 1000 + n);
                body.truncate(1000);
                let seq = append(&journal, body.clone()).await;
                expected.insert(seq, body);
            }
            journal.durable(journal.last_seq()).await.expect("durable");
            tokio::time::sleep(Duration::from_secs(2)).await;
            let status = journal.status();
            assert_eq!(status.state, JournalState::Running);
            assert_eq!((status.holders.len(), status.counters.changes), (4, 0));
            if clean {
                journal.close(Duration::from_secs(1)).await.expect("closes");
            }
            drop(journal);
            world = if life % 2 == 0 {
                world.kill(life)
            } else {
                world.crash(life)
            };
            for (disk, known) in known.iter_mut().enumerate() {
                let now = names(&world, disk);
                assert!(life < 4 || now.is_subset(known), "{now:?} {known:?}");
                *known = now;
            }
        }
    }
}

/// The log is longer than the files that are free: the rest is made while it is opened.
#[tokio::test(start_paused = true)]
async fn a_long_log_gets_the_files_that_it_needs() {
    let world = formatted(1, 3, 1).await;
    let (journal, recovery) = open(&world, 1).await.expect("opens");
    let _hold = journal.hold("index", 0);
    drop(recovery);
    let mut expected = BTreeMap::new();
    for n in 0..600 {
        let body = body(n);
        let seq = append(&journal, body.clone()).await;
        expected.insert(seq, body);
    }
    journal.durable(600).await.expect("durable");
    assert!(journal.status().files > 12, "{:?}", journal.status());
    let (journal, recovery) = open(&world.crash(1), 1).await.expect("opens");
    assert_eq!(all(recovery).await, expected);
    assert_eq!(journal.status().holders.len(), 3);
}

/// Groups that end within a block, as they do, are not read again and again for that.
#[tokio::test(start_paused = true)]
async fn opening_reads_the_log_once_or_twice() {
    let mut world = formatted(1, 4, 2).await;
    let config = JournalConfig {
        file_bytes: 4 << 20,
        ..config(2)
    };
    let open = async |world: &SimWorld| {
        Journal::open(world.env(), disks(world), config.clone())
            .await
            .expect("opens")
    };
    let (journal, recovery) = open(&world).await;
    let _hold = journal.hold("index", 0);
    drop(recovery);
    let mut expected = BTreeMap::new();
    for n in 0..2000 {
        let body = body(n);
        expected.insert(write(&journal, body.clone()).await, body);
    }
    let log = journal.status().files as u64 * (4 << 20);
    assert!(log >= 8 << 20, "{:?}", journal.status());
    for n in 0..2 {
        world = world.crash(n);
        let (journal, recovery) = open(&world).await;
        let _hold = journal.hold("index", 0);
        assert_eq!(all(recovery).await, expected);
        let read: u64 = (0..4).map(|n| world.disk(n).counters().bytes_read).sum();
        assert!(read > log / 4, "nothing was counted");
        assert!(read <= 3 * log * 4, "{read} bytes for a log of {log}");
    }
}

/// A journal that is founded begins above everything, and what was before is never merged.
#[tokio::test(start_paused = true)]
async fn a_journal_that_is_founded_gives_the_others_up() {
    let world = formatted(1, 5, 1).await;
    let (journal, _) = open(&world, 1).await.expect("opens");
    for n in 0..20 {
        write(&journal, body(n)).await;
    }
    drop(journal);
    let world = world.kill(1);
    world.disk(4).vanish();
    let there: Vec<_> = disks(&world).into_iter().take(4).collect();
    let floor = Journal::beyond(&there, 7).await.expect("read");
    assert!(floor > 20 + (1 << 31), "{floor}");
    Journal::found(&world.env(), &there, &config(1), floor)
        .await
        .expect("founded");
    let opened = Journal::open(world.env(), there, config(1)).await;
    let (journal, recovery) = opened.expect("opens");
    assert_eq!((recovery.floor(), recovery.end()), (floor, floor));
    assert_eq!(all(recovery).await.len(), 0);
    assert_eq!(write(&journal, "new").await, floor + 1);
    drop(journal);
    // The one that was away is of the old journal: it brings nothing along and joins as a blank one does.
    let world = world.kill(2);
    world.disk(4).come_back();
    let (journal, recovery) = open(&world, 1).await.expect("opens");
    assert_eq!(all(recovery).await.len(), 1);
    assert_eq!(journal.status().members.len(), 5);
    // Founded again it is above that, too.
    drop(journal);
    let world = world.kill(3);
    let again = Journal::beyond(&disks(&world), 0).await.expect("read");
    assert!(again > floor + (1 << 31));
}

/// The power fails anywhere: either it is founded or it is founded by a repetition.
#[tokio::test(start_paused = true)]
async fn founding_may_be_cut_short_anywhere() {
    for ops in 0..40 {
        let world = formatted(ops, 4, 1).await;
        let (journal, _) = open(&world, 1).await.expect("opens");
        write(&journal, "old").await;
        drop(journal);
        let world = world.kill(1);
        let floor = Journal::beyond(&disks(&world), 0).await.expect("read");
        world.crash_after(ops);
        let _ = Journal::found(&world.env(), &disks(&world), &config(1), floor).await;
        let world = world.crash(ops);
        let again = Journal::beyond(&disks(&world), floor).await.expect("read");
        Journal::found(&world.env(), &disks(&world), &config(1), again)
            .await
            .expect("founded");
        let (_, recovery) = open(&world, 1).await.expect("opens");
        assert_eq!((recovery.floor(), recovery.end()), (again, again));
    }
}

/// Nobody looks for other holders while it is opened, so nobody may wait for them.
#[tokio::test(start_paused = true)]
async fn an_opening_ends_that_too_many_holders_leave() {
    let world = formatted(1, 3, 1).await;
    let (journal, recovery) = open(&world, 1).await.expect("opens");
    let _hold = journal.hold("index", 0);
    drop(recovery);
    for n in 0..3 {
        write(&journal, body(n)).await;
    }
    let world = world.crash(2);
    drop(journal);
    world.disk(2).vanish();
    for disk in [0, 1] {
        world
            .disk(disk)
            .fail_next(SimOp::WriteDurable, DiskErrorKind::Io);
    }
    let opened = tokio::time::timeout(Duration::from_secs(600), open(&world, 1)).await;
    let error = opened.expect("it comes to an end").expect_err("no quorum");
    assert!(error.to_string().contains("holders failed"), "{error}");
    let (_, recovery) = open(&world.crash(3), 1).await.expect("opens again");
    assert_eq!(all(recovery).await.len(), 3);
}

/// How the first of two openings is cut short.
#[derive(Clone, Copy)]
enum First {
    /// The power fails, and the second does not see the disk on which it had come furthest.
    PowerFails,
    /// It is killed: what it wrote is there, and gone when the power fails.
    Killed,
}

/// Two openings in a row end in the middle. Whether the third finds all records, for every moment of
/// the first and the first moments of the second.
async fn two_short_openings(first: First) -> Result<bool, OpenError> {
    let world = SimWorld::with_disks(1, 5);
    // The first two disks hold no records, and are the first to be told of an epoch.
    let mut holders_first = disks(&world);
    holders_first.reverse();
    let created = Journal::create(&world.env(), &holders_first, &config(1)).await;
    created.expect("a new journal");
    let (journal, _) = open(&world, 1).await.expect("opens");
    let mut expected = BTreeMap::new();
    let _hold = journal.hold("index", 0);
    for n in 0..8 {
        expected.insert(write(&journal, body(n)).await, body(n));
    }
    drop(journal);
    for moment in 1.. {
        let mut whole = false;
        for away in 0..2 {
            let world = world.kill(moment + 7000 * away as u64);
            world.crash_after(moment);
            whole = open(&world, 1).await.is_ok();
            let world = match first {
                First::PowerFails => world.crash(3000 + moment),
                First::Killed => world.kill(3000 + moment + 1000 * away as u64),
            };
            let mut short = 0;
            for last in 1..=60 {
                // Each process draws other numbers.
                let world = world.kill(1000 + last);
                match first {
                    First::PowerFails => world.disk(away).vanish(),
                    // The holders take records, but none of epochs.
                    First::Killed => (2..5).for_each(|holder| {
                        let holder = world.disk(holder);
                        holder.fail_always(SimOp::Rename, DiskErrorKind::Io);
                    }),
                }
                world.crash_after(last);
                let opened = open(&world, 1).await.is_ok();
                short += u32::from(!opened);
                let world = world.crash(2000 + last + 1000 * away as u64);
                world.disk(away).come_back();
                world.disks().iter().for_each(SimDisk::heal);
                let (_, recovery) = open(&world, 1).await?;
                if all(recovery).await != expected {
                    return Ok(false);
                }
                if opened {
                    break;
                }
            }
            assert!(short > 3, "{short}");
        }
        if whole {
            return Ok(true);
        }
    }
    Ok(true)
}

/// Whether anything was lost without this safeguard.
async fn lost_without(safeguard: &str, first: First) -> bool {
    dewar_env::sim::fail_points::FailPoints::new(1, Some(safeguard), 0).install();
    let without = two_short_openings(first).await;
    dewar_env::sim::fail_points::take();
    !matches!(without, Ok(true))
}

#[tokio::test(start_paused = true)]
async fn an_epoch_that_few_know_keeps_its_files() {
    let first = First::PowerFails;
    assert!(two_short_openings(first).await.expect("opens"));
    assert!(lost_without("files of later epochs stay whole", first).await);
}

#[tokio::test(start_paused = true)]
async fn an_opening_stands_on_an_epoch_that_is_durable() {
    let first = First::Killed;
    assert!(two_short_openings(first).await.expect("opens"));
    assert!(lost_without("epochs are proposed before they are filled", first).await);
}
