//! Folders that somebody removes while the store is open, and copies of the catalog that go.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use dewar_auth::Caller;
use dewar_env::disk::sim::SimWorld;
use dewar_journal::JournalState;

use super::joining::{Mounts, Open, pool};
use super::run;
use dewar_disks::upkeep::Ledger;
use dewar_store::LedgerDepth;

const SECOND: Duration = Duration::from_secs(1);

async fn opened(world: &SimWorld) -> Open {
    let mounts = Mounts::plain(world);
    let config = super::joining::config();
    Open::with(world, mounts.all().await, mounts, &config).await
}

async fn ledger(open: &Open) -> Ledger {
    let counted = AtomicU64::new(0);
    let ledger = open.engine.store().ledger(LedgerDepth::default(), &counted);
    ledger.await.expect("counted")
}

fn worst(ledger: &Ledger) -> i32 {
    let blobs = ledger.lines.keys().next().copied();
    blobs.unwrap_or(ledger.full).min(ledger.catalog)
}

/// Waits until the ledger says that two disks may go, as the layout promises.
async fn whole(open: &Open) -> Duration {
    let began = tokio::time::Instant::now();
    for _ in 0..600 {
        if worst(&ledger(open).await) >= 2 {
            return began.elapsed();
        }
        tokio::time::sleep(SECOND / 5).await;
    }
    panic!("never whole: {:?}", ledger(open).await);
}

/// Power fails, and all is read without these disks.
async fn survives(world: &SimWorld, ann: &Caller, without: [usize; 2], names: &[&str]) {
    let world = world.crash(77);
    for n in without {
        world.disk(n).vanish();
    }
    let open = opened(&world).await;
    assert_eq!(open.engine.journal().status().state, JournalState::Running);
    open.check(ann, names).await;
}

#[test]
fn a_folder_that_is_removed_counts_no_more_and_is_filled_anew() {
    for (seed, dir) in ["blobs", "journal", "index"].into_iter().enumerate() {
        for number in 0..6 {
            run(async {
                let (world, ann) = pool(seed as u64).await;
                let open = opened(&world).await;
                open.write(&ann, "sealed").await;
                tokio::time::sleep(10 * SECOND).await;
                whole(&open).await;
                let disk = world.disk(number);
                disk.lose_folder(dir);
                open.write(&ann, "later").await;
                let mut lowest = 2;
                for _ in 0..40 {
                    lowest = lowest.min(worst(&ledger(&open).await));
                    tokio::time::sleep(SECOND / 10).await;
                }
                // Copies of the catalog are made in no time.
                let told = dir != "blobs" || lowest == 1;
                assert!(
                    told,
                    "{dir} of disk {number}: {lowest} failures left at the lowest"
                );
                whole(&open).await;
                let paths = disk.paths();
                let again = |dir: &str| paths.iter().any(|path| path.starts_with(dir));
                assert!(again("blobs/0") && again("blobs/anchor") && again("journal/epoch"));
                let others = [(number + 1) % 6, (number + 4) % 6];
                survives(&world, &ann, others, &["kept", "sealed", "later"]).await;
            });
        }
    }
}

#[test]
fn a_folder_of_shards_that_went_while_nobody_looked_is_noticed_at_the_opening() {
    for again in [false, true] {
        run(async {
            let (world, ann) = pool(3).await;
            let open = opened(&world).await;
            tokio::time::sleep(10 * SECOND).await;
            whole(&open).await;
            // Gone, and made anew by a write, before anybody looks.
            world.disk(1).lose_folder("blobs");
            if again {
                open.write(&ann, "more").await;
            }
            let world = world.crash(5);
            drop(open);
            let open = opened(&world).await;
            if !again {
                let found = ledger(&open).await;
                assert_eq!(found.lines.keys().next(), Some(&1), "{found:?}");
            }
            tokio::time::sleep(5 * SECOND).await;
            whole(&open).await;
            survives(&world, &ann, [0, 4], &["kept"]).await;
        });
    }
}

#[test]
fn the_catalog_counts_its_index_too_and_copies_it_at_once() {
    for seed in 0..4 {
        run(async {
            let (world, _) = pool(seed).await;
            let open = opened(&world).await;
            tokio::time::sleep(10 * SECOND).await;
            assert_eq!(
                ledger(&open).await.catalog,
                2,
                "the index is on three disks"
            );
            let holders = open.engine.index().holders();
            let number = |id| {
                let label = open.engine.pool().member(id).expect("there").disk;
                let label = label.label().to_owned();
                let disks = world.disks();
                let at = disks
                    .iter()
                    .position(|d| dewar_env::Disk::label(d) == label);
                at.expect("a disk")
            };
            for id in &holders[..2] {
                world.disk(number(*id)).vanish();
            }
            assert_eq!(ledger(&open).await.catalog, 0, "one copy is left");
            tokio::time::sleep(SECOND / 2).await;
            assert_eq!(open.engine.index().copies(), 3, "copied at once");
            whole_catalog(&open).await;
        });
    }
}

async fn whole_catalog(open: &Open) {
    for _ in 0..50 {
        if ledger(open).await.catalog >= 2 {
            return;
        }
        tokio::time::sleep(SECOND / 10).await;
    }
    panic!("the catalog: {:?}", ledger(open).await);
}

#[test]
fn what_was_written_during_a_short_absence_is_laid_out_anew() {
    run(async {
        let (world, ann) = pool(8).await;
        let open = opened(&world).await;
        tokio::time::sleep(10 * SECOND).await;
        // So short that a look every second misses it.
        world.disk(2).vanish();
        world.disk(4).vanish();
        open.write(&ann, "narrow").await;
        world.disk(2).come_back();
        world.disk(4).come_back();
        tokio::time::sleep(60 * SECOND).await;
        let status = open.engine.store().disks().repair_status();
        assert!(status.laid_out >= 1, "{status:?}");
    });
}
