//! Backups of the catalog, and what comes of a restore.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::MasterKeys;
use dewar_catalog::Quota;
use dewar_env::disk::sim::SimWorld;
use dewar_env::{Disk, WorkProgress};
use dewar_types::{ErrorKind, Result};

use super::disaster::{DEWAR, DISKS, Scene, check, config, folders, master, read, rebuild, wipe};
use super::{bucket, run};
use crate::salvage::Finding;
use crate::{BackupPlan, BackupReport, Engine, Restore, RestoreReport};
use dewar_disks::upkeep::Decision;
use dewar_store::LedgerDepth;
use dewar_store::quota::QuotaTarget;

const CATALOG: [&str; 2] = ["journal/", "index/"];

/// Disk number six is the backups' folder.
fn target(world: &SimWorld) -> Arc<dyn Disk> {
    Arc::new(world.disk(DISKS))
}

fn plan(world: &SimWorld) -> BackupPlan {
    BackupPlan {
        files: vec![("dewar.toml".to_owned(), Bytes::from_static(b"[pool]\n"))],
        keep: 3,
        master_key: MasterKeys::generate(&*world.env().rng).current(),
    }
}

async fn backup(scene: &Scene) -> Result<BackupReport> {
    let progress = WorkProgress::default();
    let target = target(&scene.world);
    let report = scene
        .engine
        .backups()
        .take(&target, &plan(&scene.world), &progress)
        .await?;
    assert_eq!(progress.done(), report.copied_bytes);
    assert_eq!(progress.total().unwrap_or(0), report.copied_bytes);
    assert_eq!(report.unsealed_bytes, 0);
    Ok(report)
}

struct Wish {
    name: Option<String>,
    write: bool,
    force: bool,
    salvage: bool,
}

const ALL: Wish = Wish {
    name: None,
    write: true,
    force: false,
    salvage: true,
};

async fn restore(world: &SimWorld, wish: Wish) -> Result<(RestoreReport, Vec<Finding>)> {
    let mut findings = Vec::new();
    let how = Restore {
        source: target(world),
        name: wish.name,
        write: wish.write,
        force: wish.force,
        salvage: wish.salvage,
        again: false,
        report: &mut |finding: &Finding| findings.push(finding.clone()),
    };
    let folders = folders(world).await;
    let restored = Engine::restore(&world.env(), &config(), DEWAR, &folders, master(), how).await;
    Ok((restored?, findings))
}

fn world(seed: u64) -> SimWorld {
    SimWorld::with_disks(seed, DISKS + 1)
}

fn runs(world: &SimWorld) -> Vec<String> {
    let paths = world.disk(DISKS).paths();
    paths
        .into_iter()
        .filter(|p| p.starts_with("runs/"))
        .collect()
}

#[test]
fn a_backup_costs_what_changed_and_old_ones_go() {
    run(async {
        let mut scene = Scene::new(world(1)).await;
        scene.fill().await;
        let first = backup(&scene).await.expect("backed up");
        assert!(first.copied_runs == first.runs && first.runs > 0);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let again = backup(&scene).await.expect("backed up");
        assert!(
            again.copied_bytes < first.copied_bytes / 2,
            "{again:?} {first:?}"
        );
        for n in 0..6 {
            scene.put(&format!("more/{n}"), 300, n).await;
            let next = backup(&scene).await.expect("backed up");
            assert!(next.upto > first.upto);
            let names = scene.world.disk(DISKS).paths();
            let count = names.iter().filter(|p| p.ends_with(".backup")).count();
            assert_eq!(count, 3.min(n as usize + 3), "{names:?}");
            // Only what the backups name is there.
            assert!(runs(&scene.world).len() as u64 <= next.runs + 8);
        }
        let other = Scene::new(world(2)).await;
        let text = other.world.disk(DISKS);
        text.replace_file("something", Bytes::from_static(b"else"))
            .await
            .expect("written");
        let error = backup(&other).await.expect_err("not blank");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    });
}

#[test]
fn an_old_backup_comes_back_with_what_is_newer_on_the_disks() {
    run(async {
        let mut scene = Scene::new(world(3)).await;
        scene.fill().await;
        // The backup has a quota that was lifted later.
        let store = scene.engine.store().clone();
        let limit = async |max_bytes| {
            let quota = Quota {
                max_bytes,
                ..Quota::default()
            };
            let target = QuotaTarget::Bucket(bucket("first"));
            store.set_quota(&target, quota).await.expect("limited");
        };
        limit(Some(1)).await;
        backup(&scene).await.expect("backed up");
        limit(None).await;
        drop(store);
        scene.put("later/large", 44_000, 50).await;
        scene.put("later/small", 4_400, 51).await;
        scene.put("large/1", 45_000, 52).await;
        scene.put("small/1", 4_500, 53).await;
        scene.put_parts("later/parts", &[1, 2, 3], true).await;
        scene.delete("large/2").await;
        scene.delete("small/2").await;
        scene.seal().await;
        // What was deleted is freed, and what is there is moved.
        tokio::time::sleep(Duration::from_secs(900)).await;
        let drained = scene.engine.pool().members().next().expect("a disk").id;
        let store = scene.engine.store();
        store
            .decide(drained, Some(Decision::Drain))
            .await
            .expect("decided");
        tokio::time::sleep(Duration::from_secs(900)).await;
        let newest = store.tree().ids().blob().await.expect("an id");
        let (world, expected) = scene.end(false, 1).await;

        let refused = restore(&world, ALL).await.expect_err("all is there");
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{refused}");
        wipe(&world, &CATALOG);
        let wish = Wish {
            write: false,
            ..ALL
        };
        let (told, _) = restore(&world, wish).await.expect("judged");
        assert!(told.salvaged.is_none());
        assert!(
            world
                .disk(0)
                .paths()
                .iter()
                .all(|p| !p.starts_with("index/"))
        );

        // Without salvage nothing that is newer is lost, either.
        let wish = Wish {
            salvage: false,
            ..ALL
        };
        let (restored, findings) = restore(&world, wish).await.expect("restored");
        let told = restored.salvaged.expect("looked at").totals;
        assert!(told.objects >= 4 && told.gone > 0, "{findings:?}");
        let world = world.kill(2);
        let engine = super::disaster::try_open(&world, crate::BackgroundWork::On).await;
        let engine = engine.expect("opens");
        // A disk whose replacement the backup does not know is being replaced once more. It may have
        // content that the catalog does not name yet.
        let replaced = engine.pool().members().nth(1).expect("a disk").id;
        let disks = engine.store().disks();
        let replace = disks.record_decision(replaced, Some(Decision::Replace));
        replace.await.expect("recorded");
        tokio::time::sleep(Duration::from_secs(900)).await;
        assert!(!disks.removed().contains(&replaced));
        disks.record_decision(replaced, None).await.expect("kept");
        assert!(read(&engine, "first", "later/large").await.is_err());
        engine.store().accounts().user("ann").await.expect("there");
        let next = engine.store().tree().ids().blob().await.expect("an id");
        assert!(next.0 > newest.0 + (1 << 31), "{next} after {newest}");
        let depth = LedgerDepth {
            objects: true,
            read: false,
        };
        let ledger = engine
            .store()
            .ledger(depth, &AtomicU64::new(0))
            .await
            .expect("counted");
        let gone: Vec<&str> = ledger
            .at_risk
            .iter()
            .filter(|danger| danger.margin < 0)
            .map(|danger| &danger.path[..])
            .collect();
        assert!(gone.contains(&"first/large/2"), "{gone:?}");
        drop(engine);

        let world = world.kill(3);
        let (report, findings) = rebuild(&world, true, false).await.expect("goes on");
        assert!(report.diagnosis.way.is_exact() && report.salvaged.expect("looked at").settled);
        assert!(
            report.salvaged.expect("looked at").totals.joined == 1,
            "{findings:?}"
        );
        let world = world.kill(4);
        let engine = check(&world, &expected).await;
        // What was deleted after the backup is named again; its bytes are gone.
        assert!(read(&engine, "first", "large/2").await.is_err());
    });
}

#[test]
fn a_damaged_backup_is_refused_by_the_name_of_its_file() {
    run(async {
        let mut scene = Scene::new(world(4)).await;
        scene.fill().await;
        let first = backup(&scene).await.expect("backed up");
        scene.put("more", 300, 1).await;
        let second = backup(&scene).await.expect("backed up");
        let (world, expected) = scene.end(false, 1).await;
        wipe(&world, &CATALOG);
        let disk = world.disk(DISKS);
        let bad = runs(&world).into_iter().next().expect("a run");
        assert!(disk.flip_bit(&bad, 40, 1));
        let error = restore(&world, ALL).await.expect_err("damaged");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(&bad), "{error}");
        assert!(disk.flip_bit(&bad, 40, 1));
        assert!(disk.lose_file(&bad));
        let error = restore(&world, ALL).await.expect_err("incomplete");
        assert!(error.to_string().contains(&bad), "{error}");
        assert!(
            world
                .disk(0)
                .paths()
                .iter()
                .all(|p| !p.starts_with("index/"))
        );
        let _ = expected;
        // The file that lists them.
        assert!(disk.flip_bit(&second.name, 60, 1));
        let error = restore(&world, ALL).await.expect_err("damaged");
        assert!(error.to_string().contains(&second.name), "{error}");
        let wish = Wish {
            name: Some("none.backup".to_owned()),
            ..ALL
        };
        let error = restore(&world, wish).await.expect_err("no such");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_ne!(first.name, second.name);
    });
}

#[test]
fn a_backup_may_be_cut_short_anywhere() {
    for seed in 0..16 {
        run(async {
            let mut scene = Scene::new(world(seed)).await;
            scene.fill().await;
            let first = backup(&scene).await.expect("backed up");
            for n in 0..30 {
                scene.put(&format!("more/{n}"), 300, n).await;
            }
            scene.world.crash_after(3 + seed * 4);
            let _ = tokio::time::timeout(Duration::from_secs(600), backup(&scene)).await;
            let Scene {
                world,
                engine,
                expected,
                ann,
            } = scene;
            drop(engine);
            let world = world.crash(seed);
            let engine = super::disaster::try_open(&world, crate::BackgroundWork::On).await;
            let mut scene = Scene {
                engine: engine.expect("opens"),
                world,
                expected,
                ann,
            };
            // The one before is good as it is.
            let folders = folders(&scene.world).await;
            let how = Restore {
                source: target(&scene.world),
                name: Some(first.name.clone()),
                write: false,
                force: true,
                salvage: false,
                again: false,
                report: &mut |_: &Finding| {},
            };
            let env = scene.world.env();
            let judged = Engine::restore(&env, &config(), DEWAR, &folders, master(), how).await;
            judged.expect("good");
            scene.put("last", 1_000, 9).await;
            backup(&scene).await.expect("backed up");
            let (world, expected) = scene.end(false, 1).await;
            wipe(&world, &CATALOG);
            restore(&world, ALL).await.expect("restored");
            check(&world.kill(2), &expected).await;
        });
    }
}

#[test]
fn a_restore_may_be_cut_short_anywhere() {
    for seed in 0..16 {
        run(async {
            let mut scene = Scene::new(world(seed)).await;
            scene.fill().await;
            backup(&scene).await.expect("backed up");
            scene.put("later/large", 44_000, 50).await;
            scene.put("later/small", 4_400, 51).await;
            scene.seal().await;
            let (mut world, expected) = scene.end(false, 1).await;
            wipe(&world, &CATALOG);
            let mut lives = 0;
            loop {
                world.crash_after(20 + seed * 11 + lives * 60);
                let wish = Wish {
                    force: lives > 0,
                    ..ALL
                };
                let done =
                    tokio::time::timeout(Duration::from_secs(3600), restore(&world, wish)).await;
                if matches!(done, Ok(Ok(_))) && !world.power_failed() {
                    break;
                }
                assert!(
                    world.power_failed(),
                    "life {lives}: {:?}",
                    done.map(|d| d.err())
                );
                lives += 1;
                world = world.crash(seed * 100 + lives);
                assert!(lives < 100);
            }
            assert!(lives > 0, "it was not cut short");
            check(&world.kill(7), &expected).await;
        });
    }
}

/// A scene whose journal does not reach back to the beginning, with a backup and changes after it.
async fn beyond_a_backup(seed: u64) -> (SimWorld, std::collections::BTreeMap<String, Bytes>, u64) {
    let mut scene = Scene::new(world(seed)).await;
    scene.fill().await;
    scene.seal().await;
    let ann = scene.ann.clone();
    let (world, expected) = scene.end(true, 1).await;
    let engine = super::disaster::try_open(&world, crate::BackgroundWork::On).await;
    let mut scene = Scene {
        engine: engine.expect("opens"),
        world,
        ann,
        expected,
    };
    scene.put("second/small", 900, 70).await;
    let upto = backup(&scene).await.expect("backed up").upto;
    scene.put("later/large", 44_000, 50).await;
    scene.put("later/small", 4_400, 51).await;
    scene.put("small/1", 4_500, 53).await;
    scene.delete("small/2").await;
    let (world, expected) = scene.end(false, 2).await;
    wipe(&world, &["index/"]);
    (world, expected, upto)
}

/// The index is lost, and the journal alone is not enough, but it is whole from the backup on.
#[test]
fn a_journal_that_goes_on_from_a_backup_makes_it_exact() {
    run(async {
        let (world, expected, upto) = beyond_a_backup(11).await;
        let look = Wish {
            write: false,
            ..ALL
        };
        let (told, _) = restore(&world, look).await.expect("judged");
        assert!(!told.diagnosis.way.is_exact(), "{told:?}");
        assert_eq!(told.upto, upto);
        let followed = told.followed.expect("it goes on");
        assert!(followed.exact && followed.upto > upto && followed.until > Some(told.taken));
        let (restored, _) = restore(&world, ALL).await.expect("restored");
        assert_eq!(restored.followed, Some(followed));
        assert!(restored.salvaged.is_none(), "nothing has to be salvaged");
        let engine = check(&world.kill(3), &expected).await;
        assert!(
            read(&engine, "first", "small/2").await.is_err(),
            "deletes count"
        );
        assert!(
            engine
                .store()
                .disks()
                .rebuilt()
                .await
                .expect("read")
                .is_none()
        );
    });
}

/// The same where too few disks have the journal for its rule: what is there counts, and from then on
/// no older backup is of its lineage.
#[test]
fn what_is_there_of_a_journal_counts_beyond_a_backup() {
    run(async {
        let (world, expected, upto) = beyond_a_backup(12).await;
        for n in 0..3 {
            let disk = world.disk(n);
            for path in disk.paths() {
                if path.starts_with("journal/") {
                    assert!(disk.lose_file(&path), "{path}");
                }
            }
        }
        let (restored, findings) = restore(&world, ALL).await.expect("restored");
        let followed = restored.followed.expect("it goes on");
        assert!(!followed.exact && followed.upto > upto && followed.until > Some(restored.taken));
        let salvaged = restored.salvaged.expect("looked at");
        assert!(
            salvaged.settled && salvaged.totals.objects == 0,
            "{findings:?}"
        );
        let world = world.kill(3);
        let engine = check(&world, &expected).await;
        assert!(
            read(&engine, "first", "small/2").await.is_err(),
            "deletes count"
        );
        drop(engine);
        let world = world.kill(4);
        wipe(&world, &["index/"]);
        let look = Wish {
            write: false,
            ..ALL
        };
        let (told, _) = restore(&world, look).await.expect("judged");
        assert_eq!(told.followed, None, "{told:?}");
    });
}
