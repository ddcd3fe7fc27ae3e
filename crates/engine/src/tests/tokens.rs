//! Disks that are put back as they were at an earlier time.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use dewar_env::disk::sim::SimWorld;
use dewar_env::{Disk, DiskErrorKind, disk::sim::SimOp};

use super::joining::{Mounts, Open, config, pool};
use super::run;
use dewar_disks::upkeep::Ledger;
use dewar_store::LedgerDepth;

const SECOND: Duration = Duration::from_secs(1);

async fn opened(world: &SimWorld) -> Open {
    let mounts = Mounts::plain(world);
    Open::with(world, mounts.all().await, mounts, &config()).await
}

async fn ledger(open: &Open, read: bool) -> Ledger {
    let depth = LedgerDepth {
        objects: false,
        read,
    };
    let counted = AtomicU64::new(0);
    let ledger = open.engine.store().ledger(depth, &counted).await;
    ledger.expect("counted")
}

fn worst(ledger: &Ledger) -> i32 {
    let blobs = ledger.lines.keys().next().copied();
    blobs.unwrap_or(ledger.full)
}

fn doubts(open: &Open) -> usize {
    open.engine.store().disks().unverified().len()
}

/// Until nothing is in doubt and all is whole.
async fn whole(open: &Open) {
    for _ in 0..600 {
        if doubts(open) == 0 && worst(&ledger(open, false).await) >= 2 {
            return;
        }
        tokio::time::sleep(SECOND / 2).await;
    }
    panic!("never whole: {:?}", ledger(open, false).await);
}

/// A pool that has run for a while, and a copy of disk 1 from then; `more` was written later.
async fn stale(seed: u64) -> (SimWorld, dewar_auth::Caller) {
    let (world, ann) = pool(seed).await;
    let open = opened(&world).await;
    tokio::time::sleep(10 * SECOND).await;
    whole(&open).await;
    let image = world.disk(1).image();
    tokio::time::sleep(100 * SECOND).await;
    open.write(&ann, "more").await;
    tokio::time::sleep(100 * SECOND).await;
    let world = world.crash(seed + 5);
    drop(open);
    world.disk(1).restore(&image);
    (world, ann)
}

#[test]
fn an_old_copy_counts_only_as_far_as_it_was_read() {
    run(async {
        let (world, ann) = stale(1).await;
        let open = opened(&world).await;
        let at_once = ledger(&open, false).await;
        assert_eq!((worst(&at_once), doubts(&open)), (1, 1), "{at_once:?}");
        // A second crash forgets no doubt.
        let world = world.crash(9);
        drop(open);
        let open = opened(&world).await;
        assert_eq!(doubts(&open), 1);
        whole(&open).await;
        let world = world.crash(10);
        drop(open);
        for away in [0, 4] {
            world.disk(away).vanish();
        }
        let open = opened(&world).await;
        open.check(&ann, &["kept", "more"]).await;
        assert_eq!(doubts(&open), 0);
    });
}

#[test]
fn a_deep_look_ends_a_doubt() {
    run(async {
        let (world, _) = stale(2).await;
        let open = opened(&world).await;
        assert_eq!(worst(&ledger(&open, false).await), 1);
        let deep = ledger(&open, true).await;
        // What it found may be mended before it is counted.
        assert!(deep.found_bad > 0 && worst(&deep) >= 1, "{deep:?}");
        assert_eq!(doubts(&open), 0);
        whole(&open).await;
    });
}

#[test]
fn what_was_written_after_the_last_change_of_a_token_is_looked_for() {
    run(async {
        let (world, ann) = pool(3).await;
        let open = opened(&world).await;
        tokio::time::sleep(10 * SECOND).await;
        whole(&open).await;
        let image = world.disk(1).image();
        open.write(&ann, "more").await;
        let world = world.crash(6);
        drop(open);
        world.disk(1).restore(&image);
        let open = opened(&world).await;
        assert_eq!(worst(&ledger(&open, false).await), 1);
        assert_eq!(doubts(&open), 0, "what was there before is what it was");
        whole(&open).await;
    });
}

#[test]
fn an_old_copy_that_comes_while_it_runs_is_told() {
    run(async {
        let (world, ann) = pool(4).await;
        let open = opened(&world).await;
        tokio::time::sleep(10 * SECOND).await;
        let image = world.disk(1).image();
        tokio::time::sleep(100 * SECOND).await;
        open.write(&ann, "more").await;
        tokio::time::sleep(100 * SECOND).await;
        world.disk(1).vanish();
        tokio::time::sleep(5 * SECOND).await;
        world.disk(1).restore(&image);
        world.disk(1).come_back();
        // Disks are looked at once a second.
        tokio::time::sleep(SECOND).await;
        assert_eq!(worst(&ledger(&open, false).await), 1);
        tokio::time::sleep(10 * SECOND).await;
        whole(&open).await;
    });
}

#[test]
fn nothing_else_that_happens_to_disks_is_taken_for_an_old_copy() {
    run(async {
        let (mut world, ann) = pool(5).await;
        for round in 0..12 {
            world.disk(round % 6).set_read_only(round % 3 == 0);
            if round % 4 == 1 {
                world.disk(2).fail_always(SimOp::Rename, DiskErrorKind::Io);
            }
            if round % 4 == 2 {
                world.disk(3).vanish();
                world.swap(4, 5);
            }
            // Also between the change on the disk and in the catalog.
            let open = opened(&world).await;
            tokio::time::sleep(SECOND * [0, 3, 4000][round % 3]).await;
            assert_eq!(doubts(&open), 0, "round {round}");
            open.write(&ann, &format!("n{round}")).await;
            tokio::time::sleep(Duration::from_millis(1900 + 20 * round as u64)).await;
            assert_eq!(doubts(&open), 0, "round {round}");
            let before = world.clone();
            world = match round % 2 {
                0 => world.crash(round as u64),
                _ => world.kill(round as u64),
            };
            drop((open, before));
            for disk in world.disks() {
                disk.heal();
                disk.set_read_only(false);
                disk.come_back();
                assert!(disk.state().readable());
            }
        }
    });
}
