//! The pool that is checked in opens for ever: identities, epochs, journal, index, catalog, a large
//! object's shards, a sealed segment and an unsealed one.
//!
//! Journal files are the same on all disks: they are kept once, in `all`, and cut behind their last
//! group. Everything else is whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::{Caller, MasterKeys};
use dewar_disks::pool::DewarId;
use dewar_env::disk::sim::SimWorld;
use dewar_env::{CreateOptions, Disk};
use dewar_journal::JournalConfig;
use dewar_types::Layout;

use super::{bucket, content, get, object, put_request, run, user};
use crate::{BackgroundWork, Engine, EngineConfig, Folder, Folders};
use dewar_store::api::{DeleteRequest, ExpectedContent, ListRequest, WriteCondition};

const DEWAR: DewarId = DewarId(0x5a3d_0001);
const DISKS: usize = 3;
const JOURNAL_FILE_BYTES: usize = 256 << 10;

/// What is in it: key, length, seed of the content.
const OBJECTS: [(&str, usize, u64); 5] = [
    ("a/large", 30_000, 1),
    ("a/sealed", 3_000, 2),
    ("b/replaced", 2_500, 3),
    ("b/unsealed", 2_000, 4),
    ("empty", 0, 5),
];

fn config() -> EngineConfig {
    let layout = Layout {
        unit: 8192,
        ..Layout::new(2, 1).expect("valid")
    };
    EngineConfig {
        small_bytes_max: 10_000,
        journal: JournalConfig {
            file_bytes: JOURNAL_FILE_BYTES as u64,
            ..JournalConfig::new(1)
        },
        ..EngineConfig::new(layout)
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/pool-v1")
}

async fn look(world: &SimWorld) -> Folders {
    let mut all = Vec::new();
    for disk in world.dyn_disks().into_iter().take(DISKS) {
        all.push(Folder::look_again(disk.label().to_owned(), Ok(disk)).await);
    }
    Folders { all }
}

async fn open(world: &SimWorld) -> Engine {
    let env = world.env();
    let master = Arc::new(MasterKeys::generate(&*env.rng));
    let folders = look(world).await;
    let engine = Engine::open(&env, &config(), DEWAR, &folders, master, BackgroundWork::On).await;
    engine.expect("opened")
}

async fn put(engine: &Engine, ann: &Caller, key: &str, bytes: Bytes) {
    let request = put_request(key);
    let mut upload = engine.store().write(ann, request).await.expect("begun");
    upload.write(bytes).await.expect("taken");
    upload
        .commit(ExpectedContent::default())
        .await
        .expect("put");
}

async fn check(engine: &Engine, ann: &Caller) {
    for (key, len, seed) in OBJECTS {
        let opened = engine.store().get(ann, get(key)).await;
        let mut download = opened.unwrap_or_else(|error| panic!("{key}: {error}"));
        assert!(download.info.etag.to_string().len() >= 32, "{key}");
        let mut read = Vec::new();
        while let Some(part) = download.next().await {
            read.extend_from_slice(&part.expect("readable"));
        }
        assert!(read == content(len, seed), "{key} reads otherwise");
    }
}

/// The disks of the sample.
async fn load(seed: u64) -> SimWorld {
    let world = SimWorld::with_disks(seed, DISKS);
    for n in 0..DISKS {
        let own = folder().join(format!("disk{n}"));
        let mut open = vec![
            (own.clone(), own),
            (folder().join("all"), folder().join("all")),
        ];
        while let Some((root, dir)) = open.pop() {
            for entry in std::fs::read_dir(dir).expect("the sample") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    open.push((root.clone(), path));
                    continue;
                }
                let name = path.strip_prefix(&root).expect("below");
                let name = name.to_str().expect("a plain name").to_owned();
                let mut bytes = std::fs::read(&path).expect("readable");
                if name.ends_with(".log") {
                    bytes.resize(JOURNAL_FILE_BYTES, 0);
                }
                let disk = world.disk(n);
                let made = disk.create(&name, CreateOptions::default()).await;
                let made = made.expect("a new file");
                made.write_at(0, vec![bytes.into()]).await.expect("written");
                made.sync().await.expect("synced");
                let dir = name.rsplit_once('/').map_or("", |(dir, _)| dir);
                disk.sync_dir(dir).await.expect("synced");
            }
        }
    }
    // So that the disks are found as a process finds them.
    world.kill(seed)
}

#[test]
fn a_pool_of_version_1_opens_and_gives_its_objects_back() {
    // Whole, and without each of the disks.
    for away in [None, Some(0), Some(1), Some(2)] {
        run(async {
            let world = load(1).await;
            if let Some(away) = away {
                world.disk(away).vanish();
            }
            let engine = open(&world).await;
            assert!(engine.store().segments().unsealed_bytes() > 2_000);
            let ann = engine.store().accounts().user("ann").await.expect("there");
            let ann = Caller::for_user(ann);
            check(&engine, &ann).await;
            let request = ListRequest {
                bucket: bucket("first"),
                prefix: String::new(),
                delimiter: String::new(),
                after: String::new(),
                max: 100,
            };
            let page = engine.store().list(&ann, request).await.expect("listed");
            let keys: Vec<_> = page.objects.iter().map(|listed| &listed.key[..]).collect();
            assert_eq!(keys, OBJECTS.map(|(key, ..)| key), "{away:?}");
            // It is written on, and what was there stays.
            put(&engine, &ann, "new", content(40_000, 9)).await;
            tokio::time::sleep(Duration::from_secs(120)).await;
            check(&engine, &ann).await;
            let audit = engine.store().tree().audit().await.expect("read");
            assert_eq!(audit.faults, [""; 0]);
            // Its counters were counted anew when it was opened, which is noted.
            let recounted = engine.store().tree().recount_if_outdated().await;
            assert!(!recounted.expect("read"));
            drop(engine);
            check(&open(&world.kill(2)).await, &ann).await;
        });
    }
}

/// Writes the sample; only for a new version of a format, in a new folder.
#[test]
#[ignore = "writes into the source tree"]
fn write_sample() {
    run(async {
        let world = SimWorld::with_disks(5, DISKS);
        Engine::format(&world.env(), &config(), DEWAR, &look(&world).await)
            .await
            .expect("formatted");
        let engine = open(&world).await;
        let store = engine.store();
        let ann = user(store, "ann", 10).await;
        store
            .create_bucket(&ann, &bucket("first"))
            .await
            .expect("made");
        put(&engine, &ann, "b/replaced", content(1_000, 8)).await;
        put(&engine, &ann, "gone", content(1_000, 7)).await;
        for (key, len, seed) in &OBJECTS[..3] {
            put(&engine, &ann, key, content(*len, *seed)).await;
        }
        store.segments().close_current();
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(store.segments().unsealed_bytes(), 0, "not sealed");
        engine.close(Duration::from_secs(10)).await.expect("closed");
        drop(engine);

        let world = world.kill(6);
        let engine = open(&world).await;
        let delete = DeleteRequest {
            version: None,
            bypass: false,
            object: object("gone"),
            condition: WriteCondition::default(),
        };
        engine.store().delete(&ann, delete).await.expect("deleted");
        for (key, len, seed) in &OBJECTS[3..] {
            put(&engine, &ann, key, content(*len, *seed)).await;
        }
        // Until the disk that is not waited for has it all, too.
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(engine);
        let world = world.kill(7);
        for n in 0..DISKS {
            for path in world.disk(n).paths() {
                let bytes = world.disk(n).peek(&path).expect("readable");
                let used = bytes
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |at| at + 1);
                let own = format!("disk{n}");
                let (used, place) = match (path.ends_with(".log"), used) {
                    (true, 0) => continue,
                    (true, used) => {
                        let first = world.disk(0).peek(&path);
                        assert_eq!(first.as_ref(), Some(&bytes), "another log on disk {n}");
                        (used.next_multiple_of(4096), "all")
                    }
                    (false, _) => (bytes.len(), &own[..]),
                };
                let to = folder().join(place).join(&path);
                std::fs::create_dir_all(to.parent().expect("a folder")).expect("made");
                std::fs::write(to, &bytes[..used]).expect("written");
            }
        }
    });
}
