//! Clients that go away, disks that go away, disks that are full.

use std::time::Duration;

use dewar_env::DiskErrorKind;
use dewar_env::disk::sim::{SimLatency, SimOp};
use dewar_types::ErrorKind;

use super::{Rig, content, get, put_request, run};
use crate::api::ExpectedContent;

#[test]
fn an_upload_dropped_anywhere_leaves_all_or_nothing() {
    for steps in 0..40 {
        run(async {
            let rig = Rig::new(steps).await;
            let latency = SimLatency {
                write: (Duration::from_millis(1), Duration::from_millis(20)),
                sync: (Duration::from_millis(1), Duration::from_millis(20)),
                ..SimLatency::default()
            };
            (0..4).for_each(|disk| rig.world.disk(disk).set_latency(latency));
            let len = if steps % 2 == 0 { 1_500_000 } else { 9_000 };
            let bytes = content(len, steps);
            let putting = async {
                let request = put_request("key");
                let mut upload = rig.store.write(&rig.ann, request).await.expect("begun");
                for part in bytes.chunks(300_000) {
                    upload.write(bytes.slice_ref(part)).await.expect("taken");
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                upload
                    .commit(ExpectedContent::default())
                    .await
                    .expect("put");
            };
            let _ = tokio::time::timeout(Duration::from_millis(3 * steps), putting).await;
            rig.settle().await;
            if rig.keys().await == ["key"] {
                assert_eq!(rig.get("key").await.expect("read"), bytes);
                rig.delete("key").await.expect("deleted");
            }
            rig.assert_empty().await;
        });
    }
}

#[test]
fn disks_that_vanish_during_put_and_get_are_survived() {
    run(async {
        let rig = Rig::new(2).await;
        let bytes = content(6_000_000, 1);
        let request = put_request("key");
        let mut upload = rig.store.write(&rig.ann, request).await.expect("begun");
        upload.write(bytes.slice(..3_000_000)).await.expect("taken");
        // 2+1 acknowledges with three shards only, and the disk may be that of one.
        rig.world.disk(3).vanish();
        let written = match upload.write(bytes.slice(3_000_000..)).await {
            Ok(()) => upload.commit(ExpectedContent::default()).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert_eq!(rig.keys().await, [""; 0]);
            rig.put("key", &bytes).await.expect("three are left");
        }
        rig.world.disk(3).come_back();
        let mut download = rig.store.get(&rig.ann, get("key")).await.expect("opened");
        let mut read = Vec::new();
        for gone in (0..4).cycle() {
            let Some(part) = download.next().await else {
                break;
            };
            read.extend_from_slice(&part.expect("readable"));
            rig.world.disk((gone + 3) % 4).come_back();
            rig.world.disk(gone).vanish();
        }
        assert!(read == bytes, "read otherwise");
        (0..4).for_each(|disk| rig.world.disk(disk).vanish());
        let error = rig.get("key").await.expect_err("all are gone");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    });
}

#[test]
fn full_disks_say_so_and_leave_nothing() {
    run(async {
        let rig = Rig::new(3).await;
        for disk in 0..4 {
            let disk = rig.world.disk(disk);
            disk.fail_always(SimOp::Write, DiskErrorKind::Full);
        }
        let error = rig.put("key", &content(3_000_000, 1)).await;
        let error = error.expect_err("full");
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        (0..4).for_each(|disk| rig.world.disk(disk).heal());
        assert_eq!(rig.keys().await, [""; 0]);
        rig.put("key", &content(3_000_000, 1)).await.expect("room");
        rig.delete("key").await.expect("deleted");
        rig.assert_empty().await;
    });
}

/// More blobs are being read than are looked at in a step; what was deleted after them goes.
#[test]
fn many_readers_do_not_keep_what_others_deleted() {
    run(async {
        let rig = Rig::new(5).await;
        let bytes = content(10_001, 1);
        let mut downloads = Vec::new();
        for n in 0..300 {
            let key = format!("read/{n}");
            rig.put(&key, &bytes).await.expect("put");
            downloads.push(rig.store.get(&rig.ann, get(&key)).await.expect("opened"));
            rig.delete(&key).await.expect("deleted");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        rig.put("last", &bytes).await.expect("put");
        rig.delete("last").await.expect("deleted");
        assert_eq!(rig.files().len(), 301 * 3);
        rig.settle().await;
        assert_eq!(rig.files().len(), 300 * 3);
        for download in &mut downloads {
            let mut read = Vec::new();
            while let Some(part) = download.next().await {
                read.extend_from_slice(&part.expect("kept"));
            }
            assert!(read == bytes, "read otherwise");
        }
        drop(downloads);
        rig.assert_empty().await;
    });
}

#[test]
fn a_reader_keeps_what_is_deleted_meanwhile() {
    run(async {
        let rig = Rig::new(4).await;
        let bytes = content(4_000_000, 1);
        rig.put("key", &bytes).await.expect("put");
        let mut download = rig.store.get(&rig.ann, get("key")).await.expect("opened");
        let mut read = download.next().await.expect("more").expect("read").to_vec();
        rig.delete("key").await.expect("deleted");
        rig.settle().await;
        while let Some(part) = download.next().await {
            read.extend_from_slice(&part.expect("kept"));
        }
        assert!(read == bytes, "read otherwise");
        drop(download);
        rig.assert_empty().await;
    });
}
