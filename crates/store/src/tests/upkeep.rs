//! Scrub, repair, the ledger, and what is decided about disks.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use dewar_disks::format::runs::page_at;
use dewar_env::DiskErrorKind;
use dewar_env::disk::sim::SimOp;
use dewar_types::{BlobId, DiskId, ErrorKind};

use super::{Rig, content, run};
use crate::LedgerDepth;
use dewar_disks::upkeep::{Decision, Ledger, PendingFree, UpkeepConfig};

const SECOND: Duration = Duration::from_secs(1);

async fn ledger(rig: &Rig) -> Ledger {
    let depth = LedgerDepth {
        objects: true,
        read: false,
    };
    rig.store
        .ledger(depth, &AtomicU64::new(0))
        .await
        .expect("counted")
}

/// Large objects, and small ones that are sealed.
async fn filled(rig: &Rig) {
    for n in 0..6 {
        let bytes = content(200_000 + n * 50_001, n as u64);
        rig.put(&format!("dir/large{n}"), &bytes)
            .await
            .expect("put");
    }
    for n in 0..40 {
        let bytes = content(3000 + n, n as u64);
        rig.put(&format!("small{n}"), &bytes).await.expect("put");
    }
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(rig.store.segments().unsealed_bytes(), 0, "all is sealed");
}

async fn assert_all_read(rig: &Rig) {
    for n in 0..6 {
        let bytes = content(200_000 + n * 50_001, n as u64);
        let read = rig.get(&format!("dir/large{n}")).await.expect("read");
        assert!(read == bytes, "large{n}");
    }
    for n in 0..40 {
        let bytes = content(3000 + n, n as u64);
        let read = rig.get(&format!("small{n}")).await.expect("read");
        assert!(read == bytes, "small{n}");
    }
}

/// Everything has all its redundancy, and exactly the files that it needs.
async fn assert_whole(rig: &Rig) {
    let ledger = ledger(rig).await;
    let margins: Vec<i32> = ledger.lines.keys().copied().collect();
    assert_eq!(margins, [ledger.full], "{ledger:?}");
    assert_eq!(ledger.lines[&ledger.full].objects, Some(46));
    assert!(ledger.at_risk.is_empty() && !ledger.more);
    let depth = LedgerDepth {
        objects: false,
        read: true,
    };
    let (read, now) = (AtomicU64::new(0), rig.world.env().clock.now());
    let deep = rig.store.ledger(depth, &read).await.expect("counted");
    assert_eq!(deep.found_bad, 0);
    assert!(deep.lines[&deep.full].proven >= Some(now), "{deep:?}");
    assert_eq!(read.into_inner(), deep.lines[&deep.full].blobs);
    let blobs = ledger.lines[&ledger.full].blobs as usize;
    assert_eq!(rig.files().len(), blobs * 3, "{:?}", rig.files());
    assert_all_read(rig).await;
}

#[test]
fn a_scrub_finds_rot_and_lost_files_and_repair_mends_them() {
    run(async {
        let config = UpkeepConfig {
            scrub_every: Duration::from_secs(3600),
            ..UpkeepConfig::default()
        };
        let rig = Rig::with_upkeep(1, config).await;
        filled(&rig).await;
        let before = ledger(&rig).await;
        let written = before.lines[&1].proven.expect("known when it was written");
        tokio::time::sleep(3 * 3600 * SECOND).await;
        let proven = ledger(&rig).await.lines[&1].proven.expect("scrubbed");
        assert!(
            proven.0 >= written.0 + 3600 * 1_000_000_000,
            "not proven anew"
        );
        // One disk only: 2+1 survives one.
        let disk = rig.world.disk(2);
        let rotten = disk.rot("blobs", 5);
        let lost = disk
            .paths()
            .into_iter()
            .find(|path| path.starts_with("blobs"));
        let lost = lost.expect("a shard");
        assert!(disk.lose_file(&lost));
        assert!(!rotten.is_empty());
        tokio::time::sleep(2 * 3600 * SECOND).await;
        assert!(disk.paths().contains(&lost), "the lost shard is back");
        let bad: u64 = rig
            .store
            .disks()
            .scrub_status()
            .iter()
            .map(|(_, s)| s.bad)
            .sum();
        assert!(bad >= 2, "{bad} found");
        assert!(rig.store.disks().repair_status().repaired >= 2);
        assert_whole(&rig).await;
        rig.settle().await;
    });
}

/// Nobody has to wait for the scrub to learn what every client sees.
#[test]
fn what_reads_cannot_decode_around_is_noted_as_a_scrub_would() {
    run(async {
        let rig = Rig::new(17).await;
        rig.put("large", &content(300_000, 1)).await.expect("put");
        tokio::time::sleep(10 * SECOND).await;
        let inner = &rig.store.inner;
        let page = inner.table.encodings(BlobId(0), 10).await.expect("read");
        let record = page.encodings.first().expect("one").record.clone();
        for shard in [0, 2] {
            let disk = rig.world.disk(record.disks[shard].0 as usize - 1);
            disk.flip_bit(&record.shard_path(shard), page_at(1) + 99, 3);
        }
        for _ in 0..50 {
            let read = rig.get("large").await;
            assert_eq!(read.expect_err("two of 2+1").kind(), ErrorKind::Corrupt);
        }
        assert_eq!(inner.blobs.counts().bad_pages, 100);
        tokio::time::sleep(20 * SECOND).await;
        let found = inner.table.finding(record.id).await.expect("read");
        let bad: Vec<usize> = found.expect("noted").bad().iter().collect();
        assert_eq!(bad, [0, 2]);
        assert_eq!(rig.store.disks().rot_since_start().values().sum::<u64>(), 2);
        let now = ledger(&rig).await;
        assert_eq!(now.lines[&-1].objects, Some(1), "{now:?}");
        assert_eq!(now.at_risk[0].margin, -1);
        assert!(
            rig.store.disks().repair_status().failed > 0,
            "repair has tried it"
        );
        // What comes back is found good, and is off the queue.
        for shard in [0, 2] {
            let disk = rig.world.disk(record.disks[shard].0 as usize - 1);
            disk.flip_bit(&record.shard_path(shard), page_at(1) + 99, 3);
        }
        tokio::time::sleep(600 * SECOND).await;
        assert_eq!(inner.table.finding(record.id).await.expect("read"), None);
        rig.get("large").await.expect("as it was");
        rig.settle().await;
    });
}

/// What could not be looked at stays on the queue when something else is struck off it.
#[test]
fn a_repair_strikes_only_what_it_has_seen() {
    run(async {
        let rig = Rig::new(11).await;
        rig.put("large", &content(300_000, 1)).await.expect("put");
        tokio::time::sleep(10 * SECOND).await;
        let inner = &rig.store.inner;
        let page = inner.table.encodings(BlobId(0), 10).await.expect("read");
        let encoding = page.encodings.first().expect("one").clone();
        let (blob, away) = (encoding.record.id, encoding.record.disks[1]);
        let disk = rig.world.disk(away.0 as usize - 1);
        disk.vanish();
        let now = rig.world.env().clock.now();
        for shard in [0, 1] {
            let noted = inner.table.note(&encoding, shard, now).await;
            assert!(noted.expect("noted"));
        }
        tokio::time::sleep(60 * SECOND).await;
        let found = inner.table.finding(blob).await.expect("read");
        let bad: Vec<usize> = found.expect("still queued").bad().iter().collect();
        assert_eq!(bad, [1]);
        disk.come_back();
        tokio::time::sleep(60 * SECOND).await;
        assert_eq!(inner.table.finding(blob).await.expect("read"), None);
        rig.settle().await;
    });
}

#[test]
fn a_repair_that_fails_is_counted_and_tried_again_within_seconds() {
    run(async {
        let rig = Rig::new(9).await;
        rig.put("large", &content(300_000, 1)).await.expect("put");
        tokio::time::sleep(10 * SECOND).await;
        let number = (0..4)
            .find(|n| {
                rig.world
                    .disk(*n)
                    .paths()
                    .iter()
                    .any(|p| p.starts_with("blobs/0"))
            })
            .expect("a shard");
        let disk = rig.world.disk(number);
        let path = disk.paths().remove(0);
        assert!(path.starts_with("blobs/0") && disk.lose_file(&path));
        disk.fail_always(SimOp::Create, DiskErrorKind::Io);
        rig.store
            .disks()
            .scrub_now(DiskId(number as u128 + 1))
            .await
            .expect("noted");
        tokio::time::sleep(20 * SECOND).await;
        let status = rig.store.disks().repair_status();
        assert!(status.resting == 1 && status.failed >= 3, "{status:?}");
        disk.heal();
        tokio::time::sleep(20 * SECOND).await;
        let status = rig.store.disks().repair_status();
        assert_eq!((status.resting, status.repaired), (0, 1), "{status:?}");
        assert!(disk.paths().contains(&path));
        // It is left alone for longer and longer.
        assert!(disk.lose_file(&path));
        disk.fail_always(SimOp::Create, DiskErrorKind::Io);
        rig.store
            .disks()
            .scrub_now(DiskId(number as u128 + 1))
            .await
            .expect("noted");
        tokio::time::sleep(3600 * SECOND).await;
        let tries = rig.store.disks().repair_status().failed - status.failed;
        assert!((10..40).contains(&tries), "{tries} tries in an hour");
        // A disk that returns is news.
        disk.heal();
        rig.world.disk((number + 1) % 4).vanish();
        tokio::time::sleep(5 * SECOND).await;
        assert!(
            disk.paths().contains(&path),
            "{:?}",
            rig.store.disks().repair_status()
        );
    });
}

#[test]
fn a_disk_that_stays_away_is_rebuilt_elsewhere_and_is_not_trusted_when_it_returns() {
    run(async {
        let rig = Rig::new(2).await;
        filled(&rig).await;
        rig.world.disk(1).vanish();
        tokio::time::sleep(60 * SECOND).await;
        let degraded = ledger(&rig).await;
        assert!(
            degraded.lines.contains_key(&0),
            "nothing is rebuilt so soon"
        );
        assert!(degraded.at_risk.iter().all(|danger| danger.margin == 0));
        let named = degraded.lines[&0].objects.expect("asked for");
        assert_eq!(degraded.at_risk.len() as u64, named);
        assert!(!degraded.more);
        let paths: Vec<&str> = degraded.at_risk.iter().map(|d| d.path.as_str()).collect();
        assert!(
            paths.iter().all(|path| path.starts_with("first/")),
            "{paths:?}"
        );
        tokio::time::sleep(700 * SECOND).await;
        let again = ledger(&rig).await;
        assert_eq!(again.lines.keys().collect::<Vec<_>>(), [&1], "{again:?}");
        // As safe as ever: another may go.
        rig.world.disk(3).vanish();
        assert_all_read(&rig).await;
        rig.world.disk(3).come_back();
        rig.world.disk(1).come_back();
        tokio::time::sleep(60 * SECOND).await;
        assert_whole(&rig).await;
    });
}

#[test]
fn what_was_written_in_a_narrow_layout_is_laid_out_again() {
    run(async {
        let rig = Rig::new(3).await;
        rig.world.disk(0).vanish();
        rig.world.disk(2).vanish();
        filled(&rig).await;
        let narrow = ledger(&rig).await;
        assert_eq!(
            narrow.lines.keys().collect::<Vec<_>>(),
            [&1],
            "1+1 survives one"
        );
        assert_eq!(rig.files().len() as u64, 2 * narrow.lines[&1].blobs);
        rig.world.disk(0).come_back();
        rig.world.disk(2).come_back();
        tokio::time::sleep(60 * SECOND).await;
        assert!(rig.store.disks().repair_status().laid_out >= 7);
        assert_whole(&rig).await;
        rig.settle().await;
    });
}

#[test]
fn a_drained_disk_is_emptied_and_can_be_removed() {
    run(async {
        let rig = Rig::new(4).await;
        filled(&rig).await;
        let disk = DiskId(2);
        rig.store
            .decide(disk, Some(Decision::Drain))
            .await
            .expect("decided");
        tokio::time::sleep(60 * SECOND).await;
        let lines = rig.store.disks().disk_lines().await.expect("listed");
        let line = lines.iter().find(|line| line.disk == disk).expect("there");
        assert_eq!((line.shards, line.decision), (0, Some(Decision::Drain)));
        assert_eq!(
            rig.world.disk(1).paths(),
            ["blobs/anchor", "blobs/token"],
            "its files are gone"
        );
        rig.put("more", &content(100_000, 1)).await.expect("put");
        assert_eq!(
            rig.world.disk(1).paths(),
            ["blobs/anchor", "blobs/token"],
            "it takes nothing new"
        );
        rig.store
            .decide(disk, Some(Decision::Remove))
            .await
            .expect("nothing is lost");
        assert_all_read(&rig).await;
        // Back to three disks; one more cannot go without loss of redundancy, but without loss.
        rig.world.disk(1).vanish();
        assert_all_read(&rig).await;
        let error = rig.store.decide(disk, None).await.expect_err("for good");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    });
}

#[test]
fn removing_more_than_the_layout_survives_is_refused_with_what_would_be_lost() {
    run(async {
        let rig = Rig::new(5).await;
        filled(&rig).await;
        rig.world.disk(0).vanish();
        let error = rig
            .store
            .decide(DiskId(3), Some(Decision::Remove))
            .await
            .expect_err("2+1 with two gone");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("could not be read"), "{error}");
        rig.world.disk(0).come_back();
        rig.store
            .decide(DiskId(3), Some(Decision::Remove))
            .await
            .expect("one may go");
        tokio::time::sleep(60 * SECOND).await;
        let whole = ledger(&rig).await;
        assert_eq!(whole.lines.keys().collect::<Vec<_>>(), [&1], "{whole:?}");
        let unknown = rig.store.decide(DiskId(99), Some(Decision::Remove));
        let error = unknown.await.expect_err("nobody knows it");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_all_read(&rig).await;
    });
}

#[test]
fn a_pool_without_a_spare_disk_narrows_when_one_is_removed() {
    run(async {
        let rig = Rig::new(6).await;
        filled(&rig).await;
        for disk in [DiskId(1), DiskId(4)] {
            rig.store
                .decide(disk, Some(Decision::Drain))
                .await
                .expect("decided");
        }
        tokio::time::sleep(60 * SECOND).await;
        let lines = rig.store.disks().disk_lines().await.expect("listed");
        for line in lines.iter().filter(|line| line.decision.is_some()) {
            assert_eq!(line.shards, 0, "{line:?}");
        }
        let narrow = ledger(&rig).await;
        assert_eq!(narrow.lines.keys().collect::<Vec<_>>(), [&1], "1+1 on two");
        assert_all_read(&rig).await;
        rig.store.decide(DiskId(1), None).await.expect("taken back");
        rig.store.decide(DiskId(4), None).await.expect("taken back");
        tokio::time::sleep(60 * SECOND).await;
        assert_whole(&rig).await;
    });
}

#[test]
fn a_shard_that_moves_back_at_once_is_not_swept_away() {
    run(async {
        let rig = Rig::new(7).await;
        filled(&rig).await;
        // Each decision moves shards while files of the one before still wait for their readers.
        for disk in [1, 2, 1, 3, 1, 4, 2] {
            for other in 1..=4 {
                let decision = (other == disk).then_some(Decision::Drain);
                let decided = rig.store.decide(DiskId(other), decision).await;
                decided.expect("decided");
            }
            tokio::time::sleep(2 * SECOND).await;
        }
        rig.store.decide(DiskId(2), None).await.expect("taken back");
        tokio::time::sleep(120 * SECOND).await;
        assert_whole(&rig).await;
    });
}

#[test]
fn what_is_half_freed_is_neither_bad_nor_at_risk() {
    run(async {
        let mut rig = Rig::new(9).await;
        filled(&rig).await;
        let before = ledger(&rig).await;
        assert_eq!(before.freeing, PendingFree::default());
        // The process ends in the middle of freeing: files are gone, record and queue are not.
        let files = rig.files();
        assert!(rig.delete("dir/large0").await.expect("deleted"));
        let workers = rig.workers.take().expect("running");
        workers.stop().await;
        let queued = rig.store.tree().audit().await.expect("read").queued;
        let blob = queued.first().expect("queued").to_string();
        let mut lost = 0;
        for n in 0..4 {
            let disk = rig.world.disk(n);
            for path in files.iter().filter(|path| path.contains(&blob)) {
                lost += usize::from(lost < 2 && disk.lose_file(path));
            }
        }
        assert_eq!(lost, 2);
        let depth = LedgerDepth {
            objects: true,
            read: true,
        };
        let deep = rig.store.ledger(depth, &AtomicU64::new(0)).await;
        let deep = deep.expect("counted");
        assert_eq!(deep.found_bad, 0);
        assert_eq!(deep.freeing.blobs, 1);
        assert!(deep.freeing.bytes >= 200_000);
        assert!(deep.at_risk.is_empty(), "{:?}", deep.at_risk);
        assert_eq!(deep.lines.len(), 1, "{:?}", deep.lines);
        assert_eq!(
            deep.lines[&deep.full].blobs + 1,
            before.lines[&before.full].blobs
        );
        // Workers begin again, as after a start, and scrub before they have freed it.
        rig.store.disks().scrub_now(DiskId(1)).await.expect("noted");
        rig.workers = Some(crate::workers::start(&rig.store, dewar_types::BlobId(0)));
        rig.settle().await;
        let bad: u64 = rig
            .store
            .disks()
            .scrub_status()
            .iter()
            .map(|(_, s)| s.bad)
            .sum();
        assert_eq!(bad, 0);
        assert_eq!(ledger(&rig).await.freeing, PendingFree::default());
    });
}
