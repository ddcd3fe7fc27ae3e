//! Disks that leave for good, and what becomes of them when they are there again; holders without
//! room.

use std::time::Duration;

use dewar_env::disk::sim::SimDisk;
use dewar_types::ErrorKind;

use super::*;
use crate::JournalState;

const PATIENCE: Duration = Duration::from_secs(20);

async fn written(world: &SimWorld, m: usize, count: u64) -> Journal {
    let (journal, recovery) = open(world, m).await.expect("opens");
    // Nothing is freed.
    std::mem::forget(journal.hold("index", 0));
    drop(recovery);
    for n in 0..count {
        write(&journal, body(n)).await;
    }
    journal
}

async fn settled(journal: &Journal) -> crate::Status {
    for _ in 0..300 {
        let status = journal.status();
        if status.files_to_copy == 0 && status.holders.len() == 4 {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never settled: {:?}", journal.status());
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_leaves_counts_no_longer() {
    for (dead, disk) in [(false, 0), (false, 5), (true, 1), (true, 4)] {
        let world = formatted(1, 6, 2).await;
        let journal = written(&world, 2, 60).await;
        if dead {
            world.disk(disk).vanish();
        }
        let id = DiskId(disk as u128);
        journal.remove(id, PATIENCE).await.expect("leaves");
        let status = journal.status();
        assert_eq!((status.members.len(), status.removed.len()), (5, 1));
        assert!(!status.holders.contains(&id) && status.margin >= 2);
        journal.remove(id, PATIENCE).await.expect("once more");
        settled(&journal).await;
        for n in 60..80 {
            write(&journal, body(n)).await;
        }
        // Losses count afresh: two of the five others may go.
        let world = world.crash(1);
        world.disk(disk).come_back();
        let others: Vec<usize> = (0..6).filter(|n| *n != disk).collect();
        world.disk(others[0]).vanish();
        world.disk(others[2]).vanish();
        let (journal, recovery) = open(&world, 2).await.expect("opens");
        assert_eq!(all(recovery).await.len(), 80, "{dead} {disk}");
        let status = journal.status();
        assert_eq!(status.members.len(), 5, "it does not come back in");
        assert!(!status.holders.contains(&id));
        let refused = journal.attach(id, Arc::new(world.disk(disk))).await;
        let refused = refused.expect_err("removed for good");
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        // Three losses of the five are too many, the removed disk notwithstanding.
        let world = world.crash(2);
        world.disk(others[1]).vanish();
        let error = open(&world, 2).await.expect_err("two of five");
        assert!(
            matches!(
                error,
                OpenError::TooFewMembers {
                    found: 2,
                    members: 5,
                    ..
                }
            ),
            "{error}"
        );
    }
}

async fn wipe(disk: &SimDisk) {
    for entry in disk.list("journal").await.expect("listed") {
        let path = format!("journal/{}", entry.name);
        disk.remove(&path).await.expect("removed");
    }
    disk.sync_dir("journal").await.expect("synced");
}

/// What is on it is of a log that went on without it, so it is taken back blank only; from then on it
/// is a member as any other, also where a loss was accepted while it was away.
#[tokio::test(start_paused = true)]
async fn a_disk_that_left_is_taken_back_blank() {
    let world = formatted(1, 6, 2).await;
    let journal = written(&world, 2, 40).await;
    let id = DiskId(1);
    journal.remove(id, PATIENCE).await.expect("leaves");
    let disk = world.disk(1);
    let refused = journal.readmit(id, Arc::new(world.disk(1))).await;
    let refused = refused.expect_err("it has its old files");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    wipe(&disk).await;
    let refused = journal.attach(id, Arc::new(world.disk(1))).await;
    assert!(refused.is_err(), "not by the way");
    for n in 40..50 {
        write(&journal, body(n)).await;
    }
    let back = journal.readmit(id, Arc::new(world.disk(1))).await;
    back.expect("taken back");
    journal.joined(id, PATIENCE).await.expect("a member");
    let status = journal.status();
    assert_eq!((status.members.len(), status.removed.len()), (6, 0));
    settled(&journal).await;
    for n in 50..60 {
        write(&journal, body(n)).await;
    }
    // It counts: with it and three others of six all is there, without it too.
    for away in [[2, 3], [1, 4]] {
        let world = world.crash(3);
        for n in away {
            world.disk(n).vanish();
        }
        let (_, recovery) = open(&world, 2).await.expect("opens");
        assert_eq!(all(recovery).await.len(), 60);
    }
}

/// The power fails at each operation while a disk is taken back: it is a member or it is not, and
/// nothing is lost either way.
#[tokio::test(start_paused = true)]
async fn a_crash_while_a_disk_is_taken_back_loses_nothing() {
    for ops in 1.. {
        let world = formatted(ops, 5, 1).await;
        let journal = written(&world, 1, 30).await;
        let id = DiskId(2);
        journal.remove(id, PATIENCE).await.expect("leaves");
        wipe(&world.disk(2)).await;
        world.crash_after(ops);
        let taking = async {
            journal.readmit(id, Arc::new(world.disk(2))).await?;
            journal.joined(id, PATIENCE).await
        };
        let ended = tokio::select! {
            biased;
            back = taking => back.is_ok(),
            () = world.wait_for_power_failure() => false,
        };
        let world = world.crash(ops);
        // Any one may be away now.
        world.disk((ops % 5) as usize).vanish();
        let (journal, recovery) = open(&world, 1).await.expect("opens");
        assert_eq!(all(recovery).await.len(), 30, "operation {ops}");
        let member = journal.status().members.contains(&id);
        assert_ne!(member, journal.status().removed.contains(&id));
        if ended {
            assert!(member, "operation {ops}");
            assert!(ops > 5, "the test cuts nothing");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_disks_do_not_leave() {
    let world = formatted(1, 4, 2).await;
    let journal = written(&world, 2, 10).await;
    journal.remove(DiskId(1), PATIENCE).await.expect("leaves");
    let refused = journal.remove(DiskId(2), PATIENCE).await;
    let refused = refused.expect_err("three are needed");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let status = journal.status();
    assert_eq!((status.members.len(), status.holders.len()), (3, 3));
    write(&journal, body(10)).await;
}

/// While another holder lacks older files, a complete one stays until it has been copied.
#[tokio::test(start_paused = true)]
async fn a_complete_holder_waits_for_the_copies() {
    let world = formatted(1, 6, 2).await;
    let journal = written(&world, 2, 200).await;
    world.disk(1).vanish();
    world.disk(2).vanish();
    journal.remove(DiskId(0), PATIENCE).await.expect("leaves");
    let status = journal.status();
    assert!(status.margin >= 2, "{status:?}");
    let world = world.crash(5);
    world.disk(3).vanish();
    // Away are 1 and 2 already: bring them back, they are two of five.
    world.disk(1).come_back();
    world.disk(0).vanish();
    let (_, recovery) = open(&world, 2).await.expect("opens");
    assert_eq!(all(recovery).await.len(), 200);
}

/// The power fails at each operation while a disk leaves; afterwards it is gone, and one more.
#[tokio::test(start_paused = true)]
async fn a_crash_while_a_disk_leaves_loses_nothing() {
    for ops in 1.. {
        let world = formatted(ops, 4, 1).await;
        let journal = written(&world, 1, 30).await;
        let gone = (ops % 4) as usize;
        if ops % 2 == 0 {
            world.disk(gone).vanish();
        }
        world.crash_after(ops);
        let id = DiskId(gone as u128);
        let ended = tokio::select! {
            biased;
            left = journal.remove(id, PATIENCE) => left.is_ok(),
            () = world.wait_for_power_failure() => false,
        };
        let world = world.crash(ops);
        // Until it has left it is one of those that may be away.
        world.disk(gone).vanish();
        let (journal, recovery) = open(&world, 1).await.expect("opens");
        assert_eq!(all(recovery).await.len(), 30, "operation {ops}");
        if ended {
            assert_eq!(journal.status().removed, [id]);
            let world = world.crash(ops + 1);
            world.disk((gone + 1) % 4).vanish();
            let (_, recovery) = open(&world, 1).await.expect("opens");
            assert_eq!(all(recovery).await.len(), 30, "operation {ops}");
            if !world.power_failed() && ops > 60 {
                return;
            }
        } else {
            journal.remove(id, PATIENCE).await.expect("leaves now");
        }
    }
}

/// Two of four holders are full, and writing could not go on; other disks have room.
#[tokio::test(start_paused = true)]
async fn a_holder_that_stays_full_is_replaced() {
    let world = formatted(1, 7, 2).await;
    let journal = written(&world, 2, 60).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let full = [0, 2];
    for disk in full {
        world.disk(disk).set_capacity(1);
    }
    for n in 60..400 {
        // Others are got ready in the background; until then it may be refused.
        let mut tries = 0;
        let permit = loop {
            match journal.admit(body(n).len(), LogReserve::Ordinary).await {
                Ok(permit) => break permit,
                Err(error) => assert_eq!(error.kind(), ErrorKind::NoSpace),
            }
            tries += 1;
            assert!(tries < 20, "record {n}: {:?}", journal.status());
            tokio::time::sleep(Duration::from_millis(500)).await;
        };
        let seq = journal.append(permit, &[body(n)]).expect("open");
        journal.durable(seq).await.expect("durable");
    }
    let status = settled(&journal).await;
    for disk in full {
        assert!(
            !status.holders.contains(&DiskId(disk as u128)),
            "{status:?}"
        );
    }
    assert_eq!(status.state, JournalState::Running);
    let world = world.crash(3);
    world.disk(1).vanish();
    world.disk(3).vanish();
    let (_, recovery) = open(&world, 2).await.expect("opens");
    assert_eq!(all(recovery).await.len(), 400);
}

/// Nothing is left on any device, not a byte, when the journal is opened: it opens, again and again, and
/// what makes room by deleting can be written.
#[tokio::test(start_paused = true)]
async fn a_journal_opens_on_disks_that_are_full_to_the_last_byte() {
    let mut world = formatted(1, 6, 2).await;
    let journal = written(&world, 2, 10).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    drop(journal);
    for round in 0..3 {
        world = world.kill(round);
        for disk in world.disks() {
            let space = disk.space().await.expect("told");
            disk.set_capacity(space.total - space.available);
        }
        let (journal, recovery) = open(&world, 2).await.expect("opens");
        assert_eq!(all(recovery).await.len() as u64, 10 + round);
        write(&journal, body(10 + round)).await;
        // It is made again.
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(journal);
    }
}
