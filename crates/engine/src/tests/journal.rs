//! A small journal, and work that would fill it.

use std::sync::Arc;
use std::time::Duration;

use dewar_auth::{Caller, MasterKeys};
use dewar_disks::pool::DewarId;
use dewar_env::Disk;
use dewar_env::disk::sim::SimWorld;
use dewar_journal::JournalConfig;
use dewar_types::{Layout, Result};

use super::{bucket, content, object, run, user};
use crate::{BackgroundWork, Engine, EngineConfig, Folder, Folders};
use dewar_store::api::{DeleteRequest, ExpectedContent, WriteCondition, WriteRequest};

const DEWAR: DewarId = DewarId(7);

fn config() -> EngineConfig {
    EngineConfig {
        small_bytes_max: 1000,
        journal: JournalConfig {
            file_bytes: 64 << 10,
            files_max: 6,
            ..JournalConfig::new(1)
        },
        ..EngineConfig::new(Layout::new(2, 1).expect("valid"))
    }
}

async fn folders(world: &SimWorld) -> Folders {
    let mut all = Vec::new();
    for disk in world.disks() {
        let disk: Arc<dyn Disk> = Arc::new(disk);
        all.push(Folder::look(disk.label().to_owned(), Ok(disk)).await);
    }
    Folders { all }
}

/// A formatted pool of four disks, opened, with a user and a bucket.
async fn opened(world: &SimWorld) -> (Engine, Caller) {
    let env = world.env();
    let blank = folders(world).await;
    Engine::format(&env, &config(), DEWAR, &blank)
        .await
        .expect("formatted");
    let found = folders(world).await;
    let master = Arc::new(MasterKeys::generate(&*env.rng));
    let engine = Engine::open(&env, &config(), DEWAR, &found, master, BackgroundWork::On)
        .await
        .expect("opened");
    let store = engine.store();
    let ann = user(store, "ann", 10).await;
    store
        .create_bucket(&ann, &bucket("first"))
        .await
        .expect("made");
    (engine, ann)
}

async fn put(engine: &Engine, ann: &Caller, key: &str, len: usize) -> Result<()> {
    let request = WriteRequest {
        size: Some(len as u64),
        ..WriteRequest::new(object(key))
    };
    let mut upload = engine.store().write(ann, request).await?;
    upload.write(content(len, 1)).await?;
    upload.commit(ExpectedContent::default()).await?;
    Ok(())
}

/// Each of their records takes a block, so a few dozen fill this journal; only small objects have
/// segments whose sealing lets it go.
#[test]
fn large_objects_alone_do_not_fill_the_journal() {
    run(async {
        let world = SimWorld::with_disks(1, 4);
        let (engine, ann) = opened(&world).await;
        for n in 0..300 {
            let key = format!("large{}", n % 10);
            let put = put(&engine, &ann, &key, 5000);
            tokio::time::timeout(Duration::from_secs(600), put)
                .await
                .unwrap_or_else(|_| panic!("put {n} waits: {:?}", engine.journal().status()))
                .expect("put");
        }
        engine.close(Duration::from_secs(30)).await.expect("closed");
    });
}

/// What surely did not happen leaves a hole, which counts as dead when its segment is sealed:
/// otherwise its bytes would be nobody's and never be freed.
#[test]
fn what_the_journal_could_not_take_leaves_nothing() {
    run(async {
        let world = SimWorld::with_disks(1, 4);
        let (engine, ann) = opened(&world).await;
        put(&engine, &ann, "kept", 500).await.expect("put");
        for disk in 0..3 {
            world.disk(disk).vanish();
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
        for n in 0..5 {
            let error = put(&engine, &ann, &format!("lost{n}"), 500)
                .await
                .expect_err("three disks are away");
            assert!(error.left_unchanged(), "{error:?}");
        }
        for disk in 0..3 {
            world.disk(disk).come_back();
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
        put(&engine, &ann, "later", 500).await.expect("put");
        let segments = engine.store().segments();
        segments.close_current();
        tokio::time::sleep(Duration::from_secs(5)).await;
        for key in ["kept", "later"] {
            let request = DeleteRequest {
                object: object(key),
                version: None,
                bypass: false,
                condition: WriteCondition::default(),
            };
            let deleted = engine.store().delete(&ann, request).await;
            deleted.expect("deleted");
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let audit = engine.store().tree().audit().await.expect("read");
        assert!(audit.dead.is_empty(), "{:?}", audit.dead);
        for disk in world.disks() {
            let mut paths = disk.paths();
            paths.retain(|path| path.starts_with("blobs/0"));
            assert_eq!(paths, [""; 0]);
        }
    });
}
