//! Rebuilding the catalog, and salvage where nothing is left of it.

use std::collections::BTreeSet;
use std::time::Duration;

use dewar_env::disk::sim::SimWorld;
use dewar_types::ErrorKind;

use super::disaster::{
    DEWAR, DISKS, Scene, blobs, check, config, folders, master, read, rebuild, try_open, wipe,
};
use super::{content, run};
use crate::salvage::{Finding, KEPT_BUCKET};
use crate::{BackgroundWork, Engine, JournalCondition, Rebuild, RebuildMethod};

const CATALOG: [&str; 2] = ["journal/", "index/"];

#[test]
fn a_catalog_whose_copies_are_damaged_is_rebuilt_exactly() {
    run(async {
        let mut scene = Scene::new(SimWorld::with_disks(1, DISKS)).await;
        scene.fill().await;
        scene.put("unsealed", 700, 9).await;
        scene.delete("small/3").await;
        let (world, expected) = scene.end(true, 1).await;
        // Two of three copies of the index, in different ways, and the journal of a holder.
        let holders: Vec<usize> = (0..DISKS)
            .filter(|n| {
                world
                    .disk(*n)
                    .paths()
                    .iter()
                    .any(|p| p.starts_with("index/"))
            })
            .collect();
        assert_eq!(holders.len(), 3);
        for path in world.disk(holders[0]).paths() {
            if path.ends_with(".run") {
                assert!(world.disk(holders[0]).flip_bit(&path, 1_000, 3));
            }
        }
        for path in world.disk(holders[1]).paths() {
            if path.starts_with("index/") {
                world.disk(holders[1]).lose_file(&path);
            }
        }
        let (looked, _) = rebuild(&world, false, false).await.expect("looked");
        assert!(looked.diagnosis.way.is_exact(), "{looked:?}");
        assert!(looked.diagnosis.index.expect("there").bad_pieces > 0);
        let (report, findings) = rebuild(&world, true, false).await.expect("rebuilt");
        assert!(matches!(report.diagnosis.way, RebuildMethod::Exact { .. }));
        assert!(matches!(
            report.diagnosis.journal,
            JournalCondition::Whole { .. }
        ));
        assert_eq!(
            report.salvaged.expect("looked at").totals.objects,
            0,
            "{findings:?}"
        );
        assert!(report.salvaged.expect("looked at").settled);
        let world = world.kill(2);
        let engine = check(&world, &expected).await;
        assert!(read(&engine, "first", "small/3").await.is_err(), "deleted");
        assert_eq!(engine.index().status().await.copies, 3);
        assert_eq!(engine.index().verify().await.expect("whole"), 0);
    });
}

/// What only the journal of a young pool has is exact, too.
#[test]
fn a_young_catalog_is_rebuilt_from_its_journal() {
    run(async {
        let mut scene = Scene::new(SimWorld::with_disks(2, DISKS)).await;
        scene.fill().await;
        let (world, expected) = scene.end(false, 1).await;
        wipe(&world, &["index/"]);
        assert!(try_open(&world, BackgroundWork::Off).await.is_err());
        let (report, _) = rebuild(&world, true, false).await.expect("rebuilt");
        assert!(matches!(report.diagnosis.way, RebuildMethod::Exact { .. }));
        check(&world.kill(3), &expected).await;
    });
}

#[test]
fn with_nothing_left_the_blobs_tell() {
    run(async {
        let mut scene = Scene::new(SimWorld::with_disks(3, DISKS)).await;
        scene.fill().await;
        // An upload of which a part is lacking, and one that nobody completed.
        scene.put_parts("parts/gap", &[1, 3], false).await;
        scene.put_parts("parts/never", &[1, 2], false).await;
        scene.seal().await;
        scene.put("unsealed", 700, 9).await;
        let highest = scene
            .engine
            .store()
            .tree()
            .ids()
            .blob()
            .await
            .expect("an id");
        let (world, mut expected) = scene.end(false, 1).await;
        expected.remove("unsealed");
        wipe(&world, &CATALOG);
        let before = blobs(&world);
        let error = try_open(&world, BackgroundWork::Off)
            .await
            .expect_err("no journal");
        assert_eq!(error.kind(), ErrorKind::NotFound);

        let (looked, _) = rebuild(&world, false, false).await.expect("looked");
        assert_eq!(looked.diagnosis.way, RebuildMethod::Blobs);
        assert!(
            world
                .disk(0)
                .paths()
                .iter()
                .all(|p| !p.starts_with("journal/"))
        );
        let refused = rebuild(&world, true, false).await.expect_err("a loss");
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(refused.to_string().contains("backup"), "{refused}");

        let (report, findings) = rebuild(&world, true, true).await.expect("rebuilt");
        let totals = report.salvaged.expect("looked at").totals;
        assert!(report.salvaged.expect("looked at").settled);
        // What was told beforehand is what was done; parts are joined only then.
        let told = looked.salvaged.expect("looked at").totals;
        assert_eq!(
            told.objects,
            totals.objects - totals.joined,
            "{told:?} {totals:?}"
        );
        assert_eq!(told.kept, totals.kept);
        assert_eq!(totals.joined, 2);
        assert_eq!(totals.open, 1);
        assert_eq!((totals.lacking, totals.nameless, totals.unread), (0, 0, 0));
        // The contents that were replaced: large ones are freed after a grace time, small ones when
        // their segment is compacted.
        assert_eq!(totals.kept, 2, "{findings:?}");
        assert_eq!(totals.users, 1);
        assert_eq!(totals.objects as usize, expected.len() + 1);
        assert_eq!(blobs(&world), before, "blobs were touched");

        expected.insert("parts/never".to_owned(), {
            let parts = [content(40_000, 1), content(40_000, 2)];
            parts.concat().into()
        });
        let world = world.kill(2);
        let engine = check(&world, &expected).await;
        let store = engine.store();
        for finding in &findings {
            if let Finding::Kept { now, size, .. } = finding {
                let key = now.strip_prefix(&format!("/{KEPT_BUCKET}/")).expect("kept");
                let bytes = read(&engine, KEPT_BUCKET, key).await.expect("readable");
                assert_eq!(bytes.len() as u64, *size);
            }
        }
        let users = store.accounts().users().await.expect("listed");
        let names: Vec<&str> = users.iter().map(|user| &user.name[..]).collect();
        assert_eq!(names, ["dewar-salvage", "salvaged-000000000000000a"]);
        let next = store.tree().ids().blob().await.expect("an id");
        assert!(next.0 > highest.0 + (1 << 31), "{next} after {highest}");
        assert!(store.tree().ids().entry().await.expect("an id").0 > 1 << 32);
        let found = store
            .head(&super::disaster::owner(), super::get("small/1"))
            .await;
        let attributes = found.expect("there").0.attributes;
        assert_eq!(
            attributes.headers.content_type.as_deref(),
            Some("text/dewar")
        );
        assert_eq!(attributes.metadata["from"], "a test");
        engine.close(Duration::from_secs(10)).await.expect("closed");
        drop(engine);

        // Once more there is nothing to do.
        let world = world.kill(3);
        let (again, _) = rebuild(&world, true, false).await.expect("rebuilt");
        assert!(again.diagnosis.way.is_exact());
        let totals = again.salvaged.expect("looked at").totals;
        assert_eq!((totals.objects, totals.kept, totals.gone), (0, 0, 0));
        assert_eq!(totals.known, totals.blobs);
        check(&world.kill(4), &expected).await;
    });
}

/// Disks that are away do not keep the rest from being salvaged.
#[test]
fn what_has_enough_shards_is_salvaged() {
    run(async {
        let mut scene = Scene::new(SimWorld::with_disks(4, DISKS)).await;
        scene.fill().await;
        scene.seal().await;
        let (world, expected) = scene.end(false, 1).await;
        wipe(&world, &CATALOG);
        world.disk(1).vanish();
        world.disk(0).rot("blobs/", 8);
        let (report, _) = rebuild(&world, true, true).await.expect("rebuilt");
        assert_eq!(
            report.salvaged.expect("looked at").totals.objects as usize,
            expected.len()
        );
        let world = world.kill(2);
        check(&world, &expected).await;
    });
}

#[test]
fn a_salvage_may_be_cut_short_anywhere() {
    for seed in 0..24 {
        run(async {
            let mut scene = Scene::new(SimWorld::with_disks(seed, DISKS)).await;
            scene.fill().await;
            scene.seal().await;
            let (mut world, expected) = scene.end(false, 1).await;
            wipe(&world, &CATALOG);
            let mut lives = 0;
            let mut told = BTreeSet::new();
            loop {
                // Each life gets a little further.
                world.crash_after(40 + seed * 13 + lives * 150);
                let folders = folders(&world).await;
                let (env, config) = (world.env(), config());
                let how = Rebuild {
                    write: true,
                    accept_loss: true,
                    report: &mut |finding: &Finding| {
                        if let Finding::Put { path, .. } | Finding::Joined { path, .. } = finding {
                            told.insert(path.clone());
                        }
                    },
                };
                let task = Engine::rebuild(&env, &config, DEWAR, &folders, master(), how);
                let done = tokio::time::timeout(Duration::from_secs(3600), task).await;
                let failed = world.power_failed();
                match done {
                    Ok(Ok(report)) if !failed => {
                        assert!(report.salvaged.expect("looked at").settled);
                        break;
                    }
                    _ => assert!(failed, "life {lives}: {:?}", done.map(|d| d.err())),
                }
                lives += 1;
                world = world.crash(seed * 100 + lives);
                if lives == 2 {
                    // A server that is started in between sweeps nothing away.
                    if let Ok(engine) = try_open(&world, BackgroundWork::On).await {
                        tokio::time::sleep(Duration::from_secs(60)).await;
                        drop(engine);
                        world = world.kill(seed);
                    }
                }
                assert!(lives < 200);
            }
            assert!(lives > 0, "it was not cut short");
            // Whatever is there was told of by the life that put it there, or by a later one.
            for name in expected.keys() {
                assert!(told.contains(&format!("/first/{name}")), "{name}: {told:?}");
            }
            let engine = check(&world.kill(7), &expected).await;
            for (name, len) in [("large", 50_000), ("small", 500)] {
                let listed = engine.store().tree().audit().await.expect("read");
                assert!(listed.files as usize >= expected.len() + 2, "{name} {len}");
            }
        });
    }
}

/// The index alone: exact up to its last batch; what came later is salvaged.
#[test]
fn an_index_without_a_journal_is_a_snapshot() {
    run(async {
        let mut scene = Scene::new(SimWorld::with_disks(5, DISKS)).await;
        scene.fill().await;
        scene.delete("small/5").await;
        scene
            .engine
            .close(Duration::from_secs(10))
            .await
            .expect("closed");
        scene.engine = {
            let world = scene.world.kill(8);
            let engine = try_open(&world, BackgroundWork::On).await.expect("opens");
            scene.world = world;
            engine
        };
        tokio::time::sleep(Duration::from_secs(60)).await;
        scene.put("later/large", 44_000, 50).await;
        scene.put("later/small", 4_400, 51).await;
        scene.put("large/1", 45_000, 52).await;
        let lost = scene.expected.remove("later/small").expect("put");
        let (world, expected) = scene.end(false, 1).await;
        wipe(&world, &["journal/"]);
        let refused = rebuild(&world, true, false).await.expect_err("a loss");
        assert!(refused.to_string().contains("up to batch"), "{refused}");
        let (report, findings) = rebuild(&world, true, true).await.expect("rebuilt");
        assert!(matches!(report.diagnosis.way, RebuildMethod::Index { .. }));
        assert_eq!(
            report.salvaged.expect("looked at").totals.objects,
            2,
            "{findings:?}"
        );
        assert_eq!(
            report.salvaged.expect("looked at").totals.kept,
            1,
            "large/1 as it was"
        );
        let engine = check(&world.kill(2), &expected).await;
        assert!(read(&engine, "first", "small/5").await.is_err(), "deleted");
        assert!(read(&engine, "first", "later/small").await.is_err());
        assert!(!lost.is_empty());
        engine.store().accounts().user("ann").await.expect("there");
    });
}

/// More disks are lost than the journal's rule allows, with its records on others.
#[test]
fn a_part_of_the_journal_is_taken_when_that_is_accepted() {
    run(async {
        let mut scene = Scene::new(SimWorld::with_disks(6, DISKS)).await;
        scene.fill().await;
        scene.put("unsealed", 700, 9).await;
        let (world, mut expected) = scene.end(false, 1).await;
        for n in [3, 4, 5] {
            world.disk(n).vanish();
        }
        let refused = rebuild(&world, true, false).await.expect_err("a loss");
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        let (report, findings) = rebuild(&world, true, true).await.expect("rebuilt");
        assert!(
            matches!(report.diagnosis.way, RebuildMethod::Journal { .. }),
            "{report:?}"
        );
        // 4+2 on three disks: what was laid out over all six cannot be read.
        expected.retain(|key, _| {
            key.starts_with("small/") || key.contains("small") || key == "unsealed"
        });
        expected.remove("parts/whole");
        let engine = check(&world.kill(2), &expected).await;
        assert!(read(&engine, "first", "large/1").await.is_err());
        // Shards on disks that are away are not gone.
        assert_eq!(
            report.salvaged.expect("looked at").totals.gone,
            0,
            "{findings:?}"
        );
    });
}

#[test]
fn a_look_changes_nothing() {
    run(async {
        let mut scene = Scene::new(SimWorld::with_disks(8, DISKS)).await;
        scene.fill().await;
        let (world, expected) = scene.end(false, 1).await;
        let state = |world: &SimWorld| {
            let disks = (0..DISKS).map(|n| world.disk(n));
            let all = disks.map(|disk| {
                let paths = disk.paths().into_iter();
                paths
                    .map(|path| (disk.peek(&path), path))
                    .collect::<Vec<_>>()
            });
            all.collect::<Vec<_>>()
        };
        let before = state(&world);
        rebuild(&world, false, false).await.expect("looked");
        let env = world.env();
        let folders = folders(&world).await;
        let seen = Engine::diagnose(&env, &config(), super::disaster::DEWAR, &folders, true).await;
        assert!(seen.expect("seen").way.is_exact());
        assert!(state(&world) == before);
        check(&world.kill(2), &expected).await;
    });
}
