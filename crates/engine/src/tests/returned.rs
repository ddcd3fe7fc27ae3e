//! Disks that were removed and are taken back.

use std::sync::Arc;
use std::time::Duration;

use dewar_auth::Caller;
use dewar_disks::pool::{DewarId, IDENTITY_FILE, format};
use dewar_env::Disk;
use dewar_env::disk::sim::SimWorld;
use dewar_types::{DiskId, ErrorKind};

use super::joining::{Mounts, Open, pool};
use super::membership::{assert_whole, dynamic, id_of, opened, quick, shards};
use super::{get, run};

const ALL: [&str; 2] = ["kept", "later"];

/// A pool that lost disks for good and goes on without them.
async fn lossy(world: &SimWorld, lost: &[usize]) -> Open {
    for n in lost {
        world.disk(*n).vanish();
    }
    let mounts = Mounts::plain(world);
    let mut accepting = quick();
    accepting.journal.accept_loss = true;
    Open::with(world, mounts.all().await, mounts, &accepting).await
}

async fn readable(open: &Open, ann: &Caller, key: &str) -> bool {
    let Ok(mut download) = open.engine.store().get(ann, get(key)).await else {
        return false;
    };
    while let Some(part) = download.next().await {
        if part.is_err() {
            return false;
        }
    }
    true
}

/// Until all that is on it was looked at.
async fn looked_through(open: &Open, id: DiskId) {
    for _ in 0..300 {
        let member = open.engine.pool().member(id).is_some();
        if member && !open.engine.store().disks().is_returning(id) {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!(
        "never looked through: {:?}",
        open.engine.store().disks().disk_lines().await
    );
}

/// Three of six were lost, with what a 4+2 needs of every blob. One of them turns up.
#[test]
fn what_was_lost_is_read_again_from_a_disk_that_is_taken_back() {
    run(async {
        let (world, ann) = pool(1).await;
        let open = opened(&world).await;
        open.write(&ann, "later").await;
        tokio::time::sleep(Duration::from_secs(90)).await;
        let world = world.crash(2001);
        drop(open);
        let open = lossy(&world, &[0, 1, 2]).await;
        assert!(
            !readable(&open, &ann, "later/large").await,
            "nothing is lost"
        );
        open.write(&ann, "after").await;
        world.disk(1).come_back();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let id = id_of(&world, 1);
        let back = dynamic(&world, 1);
        let held = open
            .engine
            .store()
            .disks()
            .holdings(id, &*back)
            .await
            .expect("listed");
        assert!(held.lacking > 0 && held.lacking == held.shards, "{held:?}");
        assert!(held.unreadable > 0 && held.lacking_bytes > 0, "{held:?}");
        let membership = open.engine.membership();
        assert_eq!(membership.readmit(&back).await.expect("taken back"), id);
        assert_eq!(membership.readmit(&back).await.expect("once more"), id);
        let status = open.engine.journal().status();
        assert!(status.members.contains(&id) && !status.removed.contains(&id));
        // At once.
        open.check(&ann, &ALL).await;
        looked_through(&open, id).await;
        assert_whole(&open).await;
        let again = membership.readmit(&back).await.expect_err("in use");
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        // It is a disk as any: of the four another may go, and three remain.
        let world = world.crash(2002);
        drop(open);
        world.disk(3).vanish();
        let open = opened(&world).await;
        open.check(&ann, &["kept", "later", "after"]).await;
    });
}

/// Records have named other disks for its shards since; those are lost by now, and its are as good.
#[test]
fn shards_that_were_rebuilt_elsewhere_and_lost_there_are_found() {
    run(async {
        let (world, ann) = pool(2).await;
        let open = opened(&world).await;
        open.write(&ann, "later").await;
        tokio::time::sleep(Duration::from_secs(90)).await;
        world.add_disk("new");
        let membership = open.engine.membership();
        membership
            .add(&dynamic(&world, 6), None)
            .await
            .expect("added");
        let id = id_of(&world, 2);
        membership.remove(id).await.expect("removed");
        assert_whole(&open).await;
        let old = dynamic(&world, 2);
        let held = open
            .engine
            .store()
            .disks()
            .holdings(id, &*old)
            .await
            .expect("listed");
        assert!(held.shards > 0 && held.lacking == 0, "{held:?}");
        let world = world.crash(2001);
        drop(open);
        let open = lossy(&world, &[0, 1, 6]).await;
        assert!(
            !readable(&open, &ann, "later/large").await,
            "nothing is lost"
        );
        let held = open
            .engine
            .store()
            .disks()
            .holdings(id, &*dynamic(&world, 2))
            .await;
        let held = held.expect("listed");
        assert!(held.lacking > 0 && held.unreadable > 0, "{held:?}");
        let membership = open.engine.membership();
        membership
            .readmit(&dynamic(&world, 2))
            .await
            .expect("taken back");
        looked_through(&open, id).await;
        open.check(&ann, &ALL).await;
        assert_whole(&open).await;
    });
}

/// What nothing names, and what others have, is swept from it; damaged files are not taken.
#[test]
fn a_disk_that_is_taken_back_is_swept_and_nothing_bad_is_believed() {
    run(async {
        let (world, ann) = pool(3).await;
        let open = opened(&world).await;
        open.write(&ann, "later").await;
        tokio::time::sleep(Duration::from_secs(90)).await;
        let id = id_of(&world, 2);
        open.engine.membership().remove(id).await.expect("removed");
        assert_whole(&open).await;
        assert!(shards(&world, 2) > 0);
        world.disk(2).rot("blobs/", 20);
        let back = open.engine.membership().readmit(&dynamic(&world, 2)).await;
        back.expect("taken back");
        looked_through(&open, id).await;
        assert_whole(&open).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        open.check(&ann, &ALL).await;
        let lines = open
            .engine
            .store()
            .disks()
            .disk_lines()
            .await
            .expect("listed");
        let line = lines.iter().find(|line| line.disk == id).expect("listed");
        assert_eq!(line.shards, shards(&world, 2) as u64, "leftovers stay");
    });
}

#[test]
fn what_cannot_be_taken_back_is_refused_in_its_own_words() {
    run(async {
        let (world, _) = pool(4).await;
        let open = opened(&world).await;
        let membership = open.engine.membership();
        let refused = async |n: usize, kind: ErrorKind, words: &str| {
            let before = world.disk(n).paths();
            let error = membership.readmit(&dynamic(&world, n)).await;
            let error = error.expect_err(words);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(world.disk(n).paths(), before, "{words}: it was written to");
        };
        refused(0, ErrorKind::AlreadyExists, "in use").await;
        world.add_disk("blank");
        refused(6, ErrorKind::NotFound, "holds no disk").await;
        let other = world.add_disk("other");
        let env = world.env();
        format(&env, &other, DewarId(99), 0, None)
            .await
            .expect("formatted");
        refused(7, ErrorKind::InvalidArgument, "another Dewar").await;
        let id = id_of(&world, 3);
        // The power failed before it was seen what lies where: until then nothing can be removed.
        while !open.engine.store().disks().lost_shard_dirs().is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        membership.remove(id).await.expect("removed");
        let copy = world.add_disk("copy");
        let identity = world.disk(3).peek(IDENTITY_FILE).expect("formatted");
        copy.replace_file(IDENTITY_FILE, identity)
            .await
            .expect("written");
        world.disk(3).set_read_only(true);
        refused(3, ErrorKind::Unavailable, "cannot be written").await;
        world.disk(3).set_read_only(false);
        membership
            .readmit(&dynamic(&world, 3))
            .await
            .expect("taken");
        refused(8, ErrorKind::AlreadyExists, "is one a copy of the other").await;
        // It can be removed again, and taken back again.
        looked_through(&open, id).await;
        membership.remove(id).await.expect("removed");
        let back: Arc<dyn Disk> = dynamic(&world, 3);
        membership.readmit(&back).await.expect("taken back");
    });
}

/// The power fails at each operation of it. Nothing has happened then, or it goes on by itself.
#[test]
fn taking_a_disk_back_is_safe_to_interrupt_anywhere() {
    let mut ops = 1;
    loop {
        let ended = run(async {
            let (world, ann) = pool(ops).await;
            let open = opened(&world).await;
            open.write(&ann, "later").await;
            tokio::time::sleep(Duration::from_secs(90)).await;
            let world = world.crash(2001);
            drop(open);
            let open = lossy(&world, &[0, 1, 2]).await;
            world.disk(1).come_back();
            let id = id_of(&world, 1);
            tokio::time::sleep(Duration::from_secs(5)).await;
            world.crash_after(ops);
            let change = async {
                let back = dynamic(&world, 1);
                open.engine.membership().readmit(&back).await?;
                looked_through(&open, id).await;
                Ok::<(), dewar_types::Error>(())
            };
            let done = tokio::select! {
                biased;
                changed = change => changed.is_ok(),
                () = world.wait_for_power_failure() => false,
            };
            let seed = 2000 + ops;
            let world = match ops.is_multiple_of(3) {
                true => world.kill(seed),
                false => world.crash(seed),
            };
            drop(open);
            let open = opened(&world).await;
            let membership = open.engine.membership();
            if membership.removed().contains(&id) {
                let back = membership.readmit(&dynamic(&world, 1)).await;
                back.unwrap_or_else(|error| panic!("{ops}: {error}"));
            }
            looked_through(&open, id).await;
            open.check(&ann, &ALL).await;
            assert_whole(&open).await;
            done
        });
        if ended {
            assert!(ops > 20, "the test cuts nothing");
            break;
        }
        ops += 1 + ops / 12;
    }
}
