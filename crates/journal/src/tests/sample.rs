//! The journal that is checked in opens for ever (docs/formats/journal.md).
//!
//! Of three disks the third went away, so the log goes on in a second epoch. Kept are the epoch
//! files of the other two and the log of one of them, cut behind its last group.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dewar_env::CreateOptions;

use super::*;
use crate::epoch::EpochFile;
use crate::format::FileHeader;

/// Records before and after the change of the epoch; the first two are catalog batches.
fn records() -> [Vec<Bytes>; 2] {
    let batches: [&[u8]; 2] = [
        include_bytes!("../../../kv/testdata/batch-v1/full.bin"),
        include_bytes!("../../../kv/testdata/batch-v1/small.bin"),
    ];
    let mut before: Vec<Bytes> = batches.map(Bytes::from_static).into();
    before.extend([body(1), Bytes::from(vec![0x5a; 9000])]);
    [
        before,
        vec![body(2), body(3), Bytes::from_static(batches[1])],
    ]
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/journal-v1")
}

/// Two of three disks as they were.
async fn sample() -> SimWorld {
    let world = SimWorld::with_disks(1, 3);
    for n in 0..2 {
        let journal = folder().join(format!("disk{n}/journal"));
        for file in std::fs::read_dir(journal).expect("the sample") {
            let file = file.expect("an entry");
            let mut bytes = std::fs::read(file.path()).expect("readable");
            let name = file.file_name().into_string().expect("a plain name");
            if name.ends_with(".log") {
                bytes.resize(64 << 10, 0);
            }
            let path = format!("journal/{name}");
            let disk = world.disk(n);
            let made = disk.create(&path, CreateOptions::default()).await;
            let made = made.expect("a new file");
            made.write_at(0, vec![bytes.into()]).await.expect("written");
            made.sync().await.expect("synced");
            disk.sync_dir("journal").await.expect("synced");
        }
    }
    world.disk(2).vanish();
    world
}

#[tokio::test(start_paused = true)]
async fn version_1_opens() {
    let world = sample().await;
    let expected: Vec<Bytes> = records().concat();
    let read_only = JournalConfig {
        read_only: true,
        ..config(1)
    };
    let opened = Journal::open(world.env(), disks(&world), read_only).await;
    let (_, recovery) = opened.expect("opens for reading");
    let found: Vec<Bytes> = all(recovery).await.into_values().collect();
    assert_eq!(found, expected);

    let (journal, recovery) = open(&world, 1).await.expect("opens for writing");
    let status = journal.status();
    assert_eq!((status.members.len(), status.holders.len()), (3, 2));
    assert_eq!(status.epoch_number, 4);
    let found = all(recovery).await;
    assert_eq!(
        found.keys().copied().collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7]
    );
    assert_eq!(found.into_values().collect::<Vec<_>>(), expected);
    assert_eq!(write(&journal, "new").await, 8);
}

/// What is read is written as it was: the writer still writes version 1.
#[tokio::test(start_paused = true)]
async fn version_1_is_still_written() {
    let world = sample().await;
    let mut headers = 0;
    for (n, path) in (0..2).flat_map(|n| world.disk(n).paths().into_iter().map(move |p| (n, p))) {
        let bytes = world.disk(n).peek(&path).expect("readable");
        if path.ends_with(".log") {
            let header = FileHeader::decode(&bytes[..4096]).expect("version 1");
            assert_eq!(header.expect("intact").encode(), bytes[..4096]);
            headers += 1;
        } else {
            let file = EpochFile::decode(&bytes).expect("version 1");
            let epoch = file.confirmed.as_ref().expect("confirmed");
            assert_eq!((epoch.number, epoch.spans.len()), (3, 2));
            assert_eq!(file.encode(), bytes);
        }
    }
    assert_eq!(headers, 2);
}

/// Writes the sample; only for a new version of the format, in a new folder.
#[tokio::test(start_paused = true)]
#[ignore = "writes into the source tree"]
async fn write_sample() {
    let world = formatted(1, 3, 1).await;
    let (journal, recovery) = open(&world, 1).await.expect("opens");
    let _hold = journal.hold("index", 0);
    drop(recovery);
    let [before, after] = records();
    for record in before {
        write(&journal, record).await;
    }
    world.disk(2).vanish();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(journal.status().counters.changes, 1);
    for record in after {
        write(&journal, record).await;
    }
    for n in 0..2 {
        let journal = folder().join(format!("disk{n}/journal"));
        std::fs::create_dir_all(&journal).expect("made");
        for path in world.disk(n).paths() {
            let bytes = world.disk(n).peek(&path).expect("readable");
            let used = bytes
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |at| at + 1);
            let is_log = path.ends_with(".log");
            if is_log && (n == 1 || used == 0) {
                continue;
            }
            let used = if is_log {
                used.next_multiple_of(4096)
            } else {
                bytes.len()
            };
            let name = path.strip_prefix("journal/").expect("a journal file");
            std::fs::write(journal.join(name), &bytes[..used]).expect("written");
        }
    }
}
