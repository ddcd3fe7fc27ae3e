//! Pools of fewer than 2m+1 disks that lost m: what was written is there, and goes on with new disks as
//! soon as somebody declares the others lost.

use std::time::Duration;

use dewar_types::{Error, ErrorKind};

use super::*;
use crate::{JournalState, QuorumShortage};

const PATIENCE: Duration = Duration::from_secs(20);

/// Number of the first new disk; those below were there from the beginning.
const NEW: usize = 10;

/// `count` disks that survive `m`, with `records`; then the power fails.
async fn small(seed: u64, count: usize, m: usize, records: u64) -> SimWorld {
    let world = formatted(seed, count, m).await;
    let (journal, recovery) = open(&world, m).await.expect("opens");
    std::mem::forget(journal.hold("index", 0));
    drop(recovery);
    for n in 0..records {
        write(&journal, body(n)).await;
    }
    world.crash(seed)
}

/// All disks with their ids: new ones have others than the positions of old ones.
fn with_new(world: &SimWorld, old: usize) -> Vec<(DiskId, Arc<dyn Disk>)> {
    let mut all = disks(world);
    for (n, (id, _)) in all.iter_mut().enumerate().skip(old) {
        *id = DiskId((NEW + n - old) as u128);
    }
    all
}

async fn opened(
    world: &SimWorld,
    old: usize,
    m: usize,
    lost: &[usize],
) -> Result<(Journal, Recovery), OpenError> {
    let lost = lost.iter().map(|n| DiskId(*n as u128)).collect();
    let config = JournalConfig { lost, ..config(m) };
    let disks = sabotage::wrapped(with_new(world, old));
    Journal::open(world.env(), disks, config).await
}

async fn shortage(world: &SimWorld, old: usize, m: usize) -> Option<QuorumShortage> {
    let found = Journal::shortage(world.env(), with_new(world, old), config(m)).await;
    found.expect("looked at")
}

fn few(error: &OpenError) -> bool {
    matches!(error, OpenError::TooFewLeft(_))
}

#[tokio::test(start_paused = true)]
async fn what_is_lacking_is_told_and_nothing_is_changed() {
    for (count, m) in [(2, 1), (4, 2), (3, 2)] {
        let world = small(1, count, m, 20).await;
        assert_eq!(shortage(&world, count, m).await, None);
        for n in 0..m {
            world.disk(n).vanish();
        }
        let ops = world.ops();
        let told = shortage(&world, count, m).await.expect("too few");
        assert_eq!((told.members.len(), told.away.len()), (count, m));
        assert_eq!((told.able, told.new, told.needed), (count - m, 0, m + 1));
        let error = open(&world, m).await.expect_err("too few");
        assert!(few(&error), "{error}");
        assert_eq!(Error::from(error).kind(), ErrorKind::Unavailable);
        assert_eq!(world.ops(), ops, "nothing was written");
    }
    // Enough are left, or too few to read all: that is another matter.
    let world = small(1, 3, 1, 20).await;
    world.disk(0).vanish();
    assert_eq!(shortage(&world, 3, 1).await, None);
    world.disk(1).vanish();
    let error = Journal::shortage(world.env(), disks(&world), config(1)).await;
    let error = error.expect_err("two of three");
    assert!(matches!(error, OpenError::TooFewMembers { .. }), "{error}");
}

/// Nobody declared anything: a new disk alone does not open such a pool, and neither does one that was
/// not away.
#[tokio::test(start_paused = true)]
async fn a_new_disk_alone_does_not_open_it() {
    let world = small(1, 2, 1, 20).await;
    world.disk(0).vanish();
    world.add_disk("new");
    let error = opened(&world, 2, 1, &[]).await.expect_err("not declared");
    assert!(few(&error), "{error}");
    // Declared without a new one.
    let there = disks(&world).into_iter().take(2).collect();
    let declared = JournalConfig {
        lost: vec![DiskId(0)],
        ..config(1)
    };
    let error = Journal::open(world.env(), there, declared).await;
    let error = error.expect_err("one disk");
    assert!(few(&error), "{error}");
    let error = opened(&world, 2, 1, &[1]).await.expect_err("it is there");
    assert_eq!(Error::from(error).kind(), ErrorKind::InvalidArgument);
    // It is back: nothing was lost, and the new one becomes a member as ever.
    world.disk(0).come_back();
    let (journal, recovery) = opened(&world, 2, 1, &[]).await.expect("opens");
    assert_eq!(all(recovery).await.len(), 20);
    assert_eq!(journal.status().members.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn lost_disks_give_way_to_new_ones() {
    // One by one where one new disk is enough to go on, else together.
    let cases: [(usize, usize, &[&[usize]]); 4] = [
        (2, 1, &[&[0]]),
        (4, 2, &[&[0, 1]]),
        (4, 2, &[&[0], &[1]]),
        (3, 2, &[&[0, 1]]),
    ];
    for (count, m, steps) in cases {
        let mut world = small(2, count, m, 60).await;
        let mut written = 60;
        for n in 0..m {
            world.disk(n).vanish();
        }
        for (step, lost) in steps.iter().enumerate() {
            for _ in *lost {
                world.add_disk("new");
            }
            let (journal, recovery) = opened(&world, count, m, lost).await.expect("opens");
            assert_eq!(all(recovery).await.len() as u64, written);
            std::mem::forget(journal.hold("index", 0));
            assert_eq!(journal.status().losses_accepted, 0, "nothing was lost");
            write(&journal, body(written)).await;
            written += 1;
            world = world.crash(step as u64);
            for n in steps[..=step].iter().flat_map(|lost| lost.iter()) {
                world.disk(*n).vanish();
            }
        }
        // As ever from now on, and the lost ones are not trusted when they return.
        for n in 0..m {
            world.disk(n).come_back();
        }
        let (journal, recovery) = opened(&world, count, m, &[]).await.expect("opens");
        assert_eq!(all(recovery).await.len() as u64, written);
        let status = journal.status();
        let ids: Vec<DiskId> = (0..m as u128).map(DiskId).collect();
        assert_eq!((status.members.len(), &status.removed), (count, &ids));
        drop(journal);
        // With any one of the others they learn of it: m of the new list are away, and all m are back.
        for one in m..count {
            let world = world.crash(9);
            for n in m..world.disks().len() {
                if n != one {
                    world.disk(n).vanish();
                }
            }
            for n in 0..m {
                world.disk(n).come_back();
            }
            let error = opened(&world, count, m, &[]).await.expect_err("too few");
            assert!(
                few(&error) || matches!(error, OpenError::TooFewMembers { .. }),
                "{error}"
            );
        }
        // By themselves they cannot begin an epoch.
        let world = world.crash(10);
        for n in m..count {
            world.disk(n).vanish();
        }
        if let Ok((_, recovery)) = opened(&world, count, m, &[]).await {
            assert_eq!(all(recovery).await.len() as u64, written, "of the past");
        }
    }
}

/// The power fails at each operation of the opening that goes on with a new disk; the same is typed
/// again then, or it is open as ever.
#[tokio::test(start_paused = true)]
async fn a_crash_while_a_new_disk_takes_the_place_of_a_lost_one() {
    for (count, m) in [(2, 1), (4, 2)] {
        let lost: Vec<usize> = (0..m).collect();
        for ops in 1.. {
            let world = small(ops, count, m, 30).await;
            for n in &lost {
                world.disk(*n).vanish();
                world.add_disk("new");
            }
            world.crash_after(ops);
            let done = tokio::select! {
                biased;
                opened = opened(&world, count, m, &lost) => opened.is_ok(),
                () = world.wait_for_power_failure() => false,
            };
            let ended = done && !world.power_failed();
            let world = world.crash(ops);
            // A lost one is back, or one that is new is not any more.
            match ops % 3 {
                0 => world.disk(0).come_back(),
                _ => world.disk(0).vanish(),
            }
            for n in 1..m {
                world.disk(n).vanish();
            }
            let still: Vec<usize> = match shortage(&world, count, m).await {
                Some(told) => lost
                    .iter()
                    .copied()
                    .filter(|n| told.away.contains(&DiskId(*n as u128)))
                    .collect(),
                None => Vec::new(),
            };
            let (_, recovery) = opened(&world, count, m, &still).await.expect("opens");
            assert_eq!(all(recovery).await.len(), 30, "operation {ops}");
            if ended {
                assert!(ops > 5, "the test cuts nothing");
                break;
            }
        }
    }
}

/// They go while it runs: it stalls, and goes on when one of them is declared lost and a new disk is
/// there.
#[tokio::test(start_paused = true)]
async fn a_running_journal_goes_on_with_a_new_disk() {
    for (count, m) in [(2, 1), (4, 2)] {
        let world = formatted(3, count, m).await;
        let (journal, recovery) = open(&world, m).await.expect("opens");
        std::mem::forget(journal.hold("index", 0));
        drop(recovery);
        for n in 0..30 {
            write(&journal, body(n)).await;
        }
        assert!(
            !journal.declare_lost(DiskId(0)).expect("asked"),
            "not needed"
        );
        for n in 0..m {
            world.disk(n).vanish();
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(matches!(journal.status().state, JournalState::Stalled(_)));
        let here = journal.declare_lost(DiskId(m as u128));
        let here = here.expect_err("it is there");
        assert_eq!(here.kind(), ErrorKind::InvalidArgument);
        let new = DiskId(NEW as u128);
        let disk = world.add_disk("new");
        journal.attach(new, Arc::new(disk)).await.expect("new");
        let error = journal.joined(new, PATIENCE).await;
        error.expect_err("nothing was declared");
        assert!(journal.declare_lost(DiskId(0)).expect("declared"));
        journal.joined(new, PATIENCE).await.expect("goes on");
        let status = journal.status();
        assert_eq!(status.removed, [DiskId(0)]);
        assert_eq!(status.members.len(), count);
        for n in 30..40 {
            write(&journal, body(n)).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(journal);
        // Of the new list as many may go; the lost one is back and is not trusted.
        let world = world.crash(4);
        world.disk(0).come_back();
        if m == 2 {
            world.disk(1).come_back();
            world.disk(2).vanish();
        }
        let (journal, recovery) = opened(&world, count, m, &[]).await.expect("opens");
        assert_eq!(all(recovery).await.len(), 40);
        assert_eq!(journal.status().removed, [DiskId(0)]);
    }
}
