//! Disks that are added, replaced and removed while the store is open.

use std::sync::Arc;
use std::time::Duration;

use dewar_auth::Caller;
use dewar_disks::pool::{DewarId, IDENTITY_FILE, format};
use dewar_env::Disk;
use dewar_env::disk::sim::SimWorld;
use dewar_types::{DiskId, ErrorKind, Result};

use super::joining::{DEWAR, Mounts, Open, config, pool};
use super::run;
use crate::{DiskRefusal, Engine, EngineConfig};
use dewar_disks::upkeep::UpkeepConfig;

const ALL: [&str; 2] = ["kept", "later"];

pub(super) async fn opened(world: &SimWorld) -> Open {
    let mounts = Mounts::plain(world);
    Open::with(world, mounts.all().await, mounts, &quick()).await
}

pub(super) fn quick() -> EngineConfig {
    EngineConfig {
        upkeep: UpkeepConfig {
            out_after: Duration::from_secs(20),
            ..UpkeepConfig::default()
        },
        ..config()
    }
}

pub(super) fn id_of(world: &SimWorld, n: usize) -> DiskId {
    let text = world.disk(n).peek(IDENTITY_FILE).expect("formatted");
    let identity = dewar_disks::pool::Identity::parse(&text).expect("whole");
    identity.disk
}

pub(super) fn dynamic(world: &SimWorld, n: usize) -> Arc<dyn Disk> {
    Arc::new(world.disk(n))
}

pub(super) fn shards(world: &SimWorld, n: usize) -> usize {
    let paths = world.disk(n).paths().into_iter();
    paths.filter(|path| path.starts_with("blobs/0")).count()
}

async fn settled(open: &Open, id: DiskId) {
    for _ in 0..600 {
        let removed = open.engine.journal().status().removed.contains(&id);
        if removed && open.engine.pool().member(id).is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let lines = open.engine.store().disks().disk_lines().await;
    panic!("never left: {lines:?} {:?}", open.engine.journal().status());
}

/// Everything has its full redundancy, on disks that belong to the pool.
pub(super) async fn assert_whole(open: &Open) {
    let store = open.engine.store();
    for _ in 0..300 {
        let counted = std::sync::atomic::AtomicU64::new(0);
        let ledger = store.ledger(dewar_store::LedgerDepth::default(), &counted);
        let ledger = ledger.await.expect("counted");
        let margins: Vec<i32> = ledger.lines.keys().copied().collect();
        if margins == [ledger.full] && ledger.catalog >= ledger.full {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("never whole: {:?}", store.disks().disk_lines().await);
}

#[test]
fn an_added_disk_takes_new_data_at_once_and_is_found_again() {
    run(async {
        let (world, ann) = pool(1).await;
        let open = opened(&world).await;
        world.add_disk("new");
        let new = dynamic(&world, 6);
        let id = open
            .engine
            .membership()
            .add(&new, None)
            .await
            .expect("added");
        assert!(open.engine.journal().status().members.contains(&id));
        for n in 0..8 {
            open.write(&ann, &format!("more{n}")).await;
        }
        assert!(shards(&world, 6) > 0, "it takes nothing");
        let again = open
            .engine
            .membership()
            .add(&dynamic(&world, 6), None)
            .await;
        let again = again.expect_err("in use");
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        assert!(
            again.to_string().contains("a disk of this pool already"),
            "{again}"
        );
        let world = world.crash(2000 + 1);
        drop(open);
        let open = opened(&world).await;
        open.check(&ann, &["kept", "more0", "more7"]).await;
        assert_eq!(open.engine.pool().members().count(), 7);
    });
}

#[test]
fn folders_that_cannot_be_added_are_refused_each_in_its_own_words() {
    run(async {
        let (world, _) = pool(2).await;
        let open = opened(&world).await;
        let membership = open.engine.membership();
        let refused = async |n: usize, kind: ErrorKind, words: &str| {
            // The token of one that is in use may be changed at that moment.
            let paths = || {
                let mut paths = world.disk(n).paths();
                paths.retain(|path| !path.starts_with("blobs/token"));
                paths
            };
            let before = paths();
            let error = membership.add(&dynamic(&world, n), None).await;
            let error = error.expect_err(words);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(paths(), before, "{words}: it was written to");
        };
        let full = world.add_disk("full");
        full.replace_file("holiday.jpg", "beach".into())
            .await
            .expect("written");
        refused(
            6,
            ErrorKind::AlreadyExists,
            "not blank: it holds \"holiday.jpg\"",
        )
        .await;
        let other = world.add_disk("other");
        let env = world.env();
        format(&env, &other, DewarId(99), 0, None)
            .await
            .expect("formatted");
        refused(7, ErrorKind::InvalidArgument, "another Dewar").await;
        refused(0, ErrorKind::AlreadyExists, "a disk of this pool already").await;
        let small = world.add_disk("small");
        small.set_capacity(1 << 20);
        refused(8, ErrorKind::NoSpace, "no room").await;
        let copy = world.add_disk("copy");
        let identity = world.disk(3).peek(IDENTITY_FILE).expect("formatted");
        copy.replace_file(IDENTITY_FILE, identity)
            .await
            .expect("written");
        refused(9, ErrorKind::AlreadyExists, "is one a copy of the other").await;
        let locked = world.add_disk("locked");
        locked.set_read_only(true);
        refused(10, ErrorKind::Unavailable, "read-only").await;
        let away = world.add_disk("away");
        away.vanish();
        refused(11, ErrorKind::Unavailable, "missing").await;
        let third = id_of(&world, 3);
        membership.remove(third).await.expect("removed");
        refused(3, ErrorKind::InvalidArgument, "was removed from this pool").await;
        let nobody = membership
            .examine(&world.disk(6), Some(DiskId(5)), None)
            .await;
        let nobody = nobody.expect_err("nobody knows it");
        assert_eq!(nobody.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_removed_disk_is_known_when_it_is_plugged_in_again() {
    for dead in [false, true] {
        run(async {
            let (world, ann) = pool(3).await;
            world.add_disk("new");
            let open = opened(&world).await;
            open.engine
                .membership()
                .add(&dynamic(&world, 6), None)
                .await
                .expect("added");
            let id = id_of(&world, 2);
            if dead {
                world.disk(2).vanish();
            }
            open.engine.membership().remove(id).await.expect("removed");
            let status = open.engine.journal().status();
            assert!(status.removed.contains(&id) && !status.holders.contains(&id));
            assert!(status.margin >= 2, "{status:?}");
            let index = open.engine.index().status().await;
            assert!(
                !index.holders.contains(&id) && index.copies == 3,
                "{index:?}"
            );
            open.write(&ann, "later").await;
            assert_whole(&open).await;
            open.check(&ann, &ALL).await;
            // It comes back, as it was: while the store is open, and at the next opening.
            world.disk(2).come_back();
            let before = world.disk(2).paths();
            tokio::time::sleep(Duration::from_secs(10)).await;
            let known = |open: &Open| open.folders.states()[2].1;
            assert_eq!(known(&open), "removed");
            let world = world.crash(2000 + 4);
            drop(open);
            let open = opened(&world).await;
            assert_eq!(known(&open), "removed");
            tokio::time::sleep(Duration::from_secs(10)).await;
            let members: Vec<DiskId> = open.engine.pool().members().map(|m| m.id).collect();
            assert!(!members.contains(&id) && members.len() == 6);
            assert!(!open.engine.journal().status().members.contains(&id));
            assert!(!open.engine.index().status().await.holders.contains(&id));
            assert_eq!(world.disk(2).paths(), before, "it was written to");
            // Losses count afresh: two more may go.
            let world = world.crash(2000 + 5);
            drop(open);
            world.disk(0).vanish();
            world.disk(5).vanish();
            let open = opened(&world).await;
            open.check(&ann, &ALL).await;
        });
    }
}

#[test]
fn a_disk_is_replaced_dead_or_alive() {
    for dead in [false, true] {
        run(async {
            let (world, ann) = pool(4).await;
            world.add_disk("new");
            let open = opened(&world).await;
            open.write(&ann, "later").await;
            let old = id_of(&world, 1);
            if dead {
                world.disk(1).vanish();
            }
            let membership = open.engine.membership();
            let new = dynamic(&world, 6);
            let id = membership.add(&new, Some(old)).await.expect("begun");
            let same = membership.add(&new, Some(old)).await.expect("once more");
            assert_eq!(id, same);
            settled(&open, old).await;
            assert_whole(&open).await;
            open.check(&ann, &ALL).await;
            assert!(shards(&world, 6) > 0);
            let again = membership
                .add(&new, Some(old))
                .await
                .expect("after it is done");
            assert_eq!(id, again);
            let world = world.crash(2000 + 1);
            drop(open);
            world.disk(1).vanish();
            world.disk(2).vanish();
            world.disk(4).vanish();
            let open = opened(&world).await;
            open.check(&ann, &ALL).await;
        });
    }
}

/// A disk that is in use takes another's place only where a disk is spare: else what is on it would be
/// written anew in a narrower layout, which nobody asked for.
#[test]
fn a_disk_in_use_takes_no_other_ones_place_where_none_is_spare() {
    run(async {
        let (world, ann) = pool(6).await;
        let open = opened(&world).await;
        let membership = open.engine.membership();
        let mut spare = open.engine.pool().members().count();
        // Down to as many as the layout has shards.
        while spare > open.engine.pool().layout().shards() {
            spare -= 1;
            membership
                .remove(id_of(&world, spare))
                .await
                .expect("removed");
        }
        let old = id_of(&world, 1);
        let error = membership
            .add(&dynamic(&world, 2), Some(old))
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(open.engine.store().disks().decision(old), None);
        open.check(&ann, &["kept"]).await;
        // With one that is spare it is as good as a new one.
        world.add_disk("new");
        let new = dynamic(&world, 6);
        membership.add(&new, None).await.expect("added");
        membership.add(&new, Some(old)).await.expect("begun");
        settled(&open, old).await;
        open.check(&ann, &["kept"]).await;
    });
}

/// Taking a replacement back keeps both disks, also over a restart.
#[test]
fn a_replacement_that_is_taken_back_stays_so() {
    run(async {
        let (world, ann) = pool(5).await;
        world.add_disk("new");
        let open = opened(&world).await;
        let old = id_of(&world, 1);
        // So that nothing is done before.
        for n in [2, 3] {
            world.disk(n).vanish();
        }
        let membership = open.engine.membership();
        membership
            .add(&dynamic(&world, 6), Some(old))
            .await
            .expect("begun");
        open.engine.store().decide(old, None).await.expect("kept");
        let world = world.crash(2000 + 1);
        drop(open);
        for n in [2, 3] {
            world.disk(n).come_back();
        }
        let open = opened(&world).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(open.engine.store().disks().decision(old), None);
        assert_eq!(open.engine.pool().members().count(), 7);
        open.check(&ann, &["kept"]).await;
        // Said again it is wanted again.
        let new = dynamic(&world, 6);
        open.engine
            .membership()
            .add(&new, Some(old))
            .await
            .expect("begun");
        settled(&open, old).await;
    });
}

/// All of the journal has to fit beside what fills a disk.
#[test]
fn the_journal_of_small_disks_is_short() {
    run(async {
        let (world, _) = pool(3).await;
        for (n, files) in [(0, 5), (1, 9), (2, 12)] {
            let file = config().journal.file_bytes;
            // The smallest of them, and the least of all.
            let at_most = if n == 0 { 6 } else { files };
            (0..6).for_each(|other| world.disk(other).set_capacity(1 << 40));
            world.disk(n).set_capacity(16 * files as u64 * file);
            let open = opened(&world).await;
            assert_eq!(open.engine.journal().status().files_max, at_most);
            open.engine
                .close(Duration::from_secs(10))
                .await
                .expect("closed");
        }
    });
}

#[test]
fn too_few_disks_do_not_lose_another() {
    run(async {
        let (world, _) = pool(6).await;
        let open = opened(&world).await;
        let membership = open.engine.membership();
        for n in 0..3 {
            membership.remove(id_of(&world, n)).await.expect("removed");
            assert_whole(&open).await;
        }
        let error = membership
            .remove(id_of(&world, 3))
            .await
            .expect_err("three are needed");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("add a disk first"), "{error}");
    });
}

/// A change of the disks that the power cuts short anywhere.
async fn cut_short(
    ops: u64,
    dead: Option<usize>,
    change: impl AsyncFn(&Open, &SimWorld) -> Result<()>,
) -> (SimWorld, Caller, bool) {
    let (world, ann) = pool(ops).await;
    world.add_disk("new");
    let open = opened(&world).await;
    open.write(&ann, "later").await;
    if let Some(dead) = dead {
        world.disk(dead).vanish();
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.crash_after(ops);
    let done = tokio::select! {
        biased;
        changed = change(&open, &world) => changed.is_ok(),
        () = world.wait_for_power_failure() => false,
    };
    let crashed = if ops.is_multiple_of(3) {
        world.kill(2000 + ops)
    } else {
        world.crash(2000 + ops)
    };
    drop(open);
    (crashed, ann, done)
}

/// The power fails at each operation of a replacement. Afterwards it goes on by itself, or the same
/// command is given again; two other disks may be lost once it is over.
#[test]
fn a_replacement_is_safe_to_interrupt_anywhere() {
    for dead in [None, Some(1)] {
        let mut ops = 1;
        loop {
            let ended = run(async {
                let (world, ann, done) = cut_short(ops, dead, async |open, world| {
                    let old = id_of(world, 1);
                    let new = dynamic(world, 6);
                    open.engine.membership().add(&new, Some(old)).await?;
                    settled(open, old).await;
                    Ok(())
                })
                .await;
                let old = id_of(&world, 1);
                if let Some(dead) = dead {
                    world.disk(dead).vanish();
                }
                let open = opened(&world).await;
                open.check(&ann, &ALL).await;
                if world.disk(6).peek(IDENTITY_FILE).is_none() || ops % 2 == 0 {
                    let new = dynamic(&world, 6);
                    let again = open.engine.membership().add(&new, Some(old)).await;
                    again.unwrap_or_else(|error| panic!("{ops}: {error}"));
                }
                settled(&open, old).await;
                assert_whole(&open).await;
                open.write(&ann, "after").await;
                let world = world.crash(2000 + ops + 1);
                drop(open);
                world.disk(1).vanish();
                world.disk(3).vanish();
                world.disk((ops % 2) as usize * 5).vanish();
                let open = opened(&world).await;
                open.check(&ann, &["kept", "later", "after"]).await;
                done
            });
            if ended {
                assert!(ops > 40, "the test cuts nothing");
                break;
            }
            ops += 1 + ops / 12;
        }
    }
}

/// The same for adding and for removing.
#[test]
fn adding_and_removing_are_safe_to_interrupt_anywhere() {
    for adding in [true, false] {
        let mut ops = 1;
        loop {
            let ended = run(async {
                let (world, ann, done) = cut_short(ops, None, async |open, world| {
                    let membership = open.engine.membership();
                    if adding {
                        membership.add(&dynamic(world, 6), None).await?;
                    } else {
                        membership.remove(id_of(world, 2)).await?;
                    }
                    Ok(())
                })
                .await;
                let gone = id_of(&world, 2);
                let open = opened(&world).await;
                open.check(&ann, &ALL).await;
                let membership = open.engine.membership();
                if adding {
                    // Once it has an identity it is found and joins by itself.
                    match membership.add(&dynamic(&world, 6), None).await {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
                    }
                    assert_eq!(open.engine.journal().status().members.len(), 7);
                } else {
                    if open.engine.store().disks().decision(gone).is_none() {
                        membership.remove(gone).await.expect("removed now");
                    }
                    settled(&open, gone).await;
                    assert_whole(&open).await;
                }
                let world = world.crash(2000 + ops + 1);
                drop(open);
                world.disk(0).vanish();
                world.disk(4).vanish();
                let open = opened(&world).await;
                open.check(&ann, &ALL).await;
                done
            });
            if ended {
                assert!(ops > 10, "the test cuts nothing");
                break;
            }
            ops += 1 + ops / 12;
        }
    }
}

/// Two disks that changed places are known by what is on them; a foreign one is named and not used.
#[test]
fn disks_are_known_by_what_is_on_them() {
    run(async {
        let (world, ann) = pool(8).await;
        let foreign = world.add_disk("foreign");
        let env = world.env();
        format(&env, &foreign, DewarId(99), 0, None)
            .await
            .expect("formatted");
        let mut mounts = Mounts::plain(&world);
        let plain = Arc::get_mut(&mut mounts).expect("alone");
        plain.disks.swap(0, 4);
        let open = Open::with(&world, mounts.all().await, mounts, &quick()).await;
        open.check(&ann, &["kept"]).await;
        let states = open.folders.states();
        assert_eq!(states[6].1, "foreign");
        assert!(
            states[..6].iter().all(|(_, state)| *state == "online"),
            "{states:?}"
        );
        assert_eq!(open.engine.pool().dewar(), DEWAR);
        let identity = world.disk(6).peek(IDENTITY_FILE).expect("kept");
        let identity = dewar_disks::pool::Identity::parse(&identity).expect("whole");
        let refusal = open.engine.membership().refusal("foreign", &identity);
        assert_eq!(refusal, Some(DiskRefusal::OtherDewar(DewarId(99))));
        assert_eq!(world.disk(6).paths(), [IDENTITY_FILE]);
    });
}

/// The same folder under two names, or a copy of a disk, keeps the pool from being opened: which of the
/// two is newer nobody knows.
#[test]
fn one_disk_in_two_folders_is_refused_at_the_start() {
    run(async {
        let (world, _) = pool(9).await;
        let mut mounts = Mounts::plain(&world);
        Arc::get_mut(&mut mounts).expect("alone").disks[5] = 2;
        let folders = mounts.all().await;
        let env = world.env();
        let master = Arc::new(dewar_auth::MasterKeys::generate(&*env.rng));
        let work = crate::BackgroundWork::On;
        let opened = Engine::open(&env, &config(), DEWAR, &folders, master, work).await;
        let error = opened.expect_err("which of the two?");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(
            error.to_string().contains("is one a copy of the other"),
            "{error}"
        );
    });
}

/// With more disks gone than the layout survives it opens only when that is accepted; then it goes on
/// with new ids, sweeps nothing that may be all that is left, and the disks of before are left alone.
#[test]
fn a_loss_that_is_accepted_begins_anew() {
    run(async {
        let (world, ann) = pool(10).await;
        let open = opened(&world).await;
        open.write(&ann, "later").await;
        let blob = open
            .engine
            .store()
            .tree()
            .ids()
            .blob()
            .await
            .expect("given");
        let world = world.crash(2001);
        drop(open);
        for n in 0..3 {
            world.disk(n).vanish();
        }
        let env = world.env();
        let mounts = Mounts::plain(&world);
        let folders = mounts.all().await;
        let master = Arc::new(dewar_auth::MasterKeys::generate(&*env.rng));
        let work = crate::BackgroundWork::On;
        let config = quick();
        let refused = Engine::open(&env, &config, DEWAR, &folders, Arc::clone(&master), work);
        assert_eq!(
            refused.await.expect_err("three").kind(),
            ErrorKind::Unavailable
        );
        let told = Engine::loss(&env, &config, DEWAR, &folders)
            .await
            .expect("looked at");
        let told = told.expect("a loss");
        for words in ["may be lost", "3 of 6 disks", "disk0", "disk readmit"] {
            assert!(told.text.contains(words), "{words}: {told:?}");
        }
        let again = Engine::loss(&env, &config, DEWAR, &folders).await;
        assert_eq!(again.expect("looked at").expect("a loss").code, told.code);
        let mut accepting = quick();
        accepting.journal.accept_loss = true;
        let open = Open::with(&world, folders, mounts, &accepting).await;
        assert_eq!(open.engine.journal().status().losses_accepted, 1);
        let after = open
            .engine
            .store()
            .tree()
            .ids()
            .blob()
            .await
            .expect("given");
        assert!(
            after.counter() > blob.counter() + (1 << 39),
            "{after} after {blob}"
        );
        open.write(&ann, "after").await;
        open.check(&ann, &["after"]).await;
        // Those of before return, while it is open and at the next start.
        world.disk(1).come_back();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(open.folders.states()[1].1, "removed");
        let world = world.crash(2002);
        drop(open);
        let before: Vec<_> = (0..3).map(|n| world.disk(n).paths()).collect();
        for n in 0..3 {
            world.disk(n).come_back();
        }
        let open = opened(&world).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let states: Vec<_> = open
            .folders
            .states()
            .into_iter()
            .map(|(_, state)| state)
            .collect();
        assert_eq!(
            states,
            [
                "removed", "removed", "removed", "online", "online", "online"
            ]
        );
        let now: Vec<_> = (0..3).map(|n| world.disk(n).paths()).collect();
        assert_eq!(before, now, "they were written to");
        open.check(&ann, &["after"]).await;
        let again = open
            .engine
            .store()
            .tree()
            .ids()
            .blob()
            .await
            .expect("given");
        assert!(
            again > after && again.counter() < after.counter() + (1 << 20),
            "one gap only"
        );
    });
}
