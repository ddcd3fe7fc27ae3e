//! A pool of six disks with a known content, for tests of what is left after a disaster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::{Caller, MasterKeys};
use dewar_checksum::{Algorithm, AlgorithmSet};
use dewar_disks::pool::DewarId;
use dewar_env::Disk;
use dewar_env::disk::sim::SimWorld;
use dewar_journal::JournalConfig;
use dewar_types::{Layout, Result};

use super::{bucket, content, get, object, user};
use crate::salvage::Finding;
use crate::{BackgroundWork, Engine, EngineConfig, Folder, Folders, Rebuild, RebuildReport};
use dewar_store::Encryption;
use dewar_store::api::{
    CompletePart, CompleteRequest, CreateUploadRequest, DeleteRequest, ExpectedContent,
    SystemHeaders, UploadPartRequest, VersionAttributes, WriteCondition, WriteRequest,
};

pub(super) const DEWAR: DewarId = DewarId(7);
pub(super) const DISKS: usize = 6;

pub(super) fn config() -> EngineConfig {
    let layout = Layout {
        unit: 8192,
        ..Layout::new(4, 2).expect("valid")
    };
    EngineConfig {
        small_bytes_max: 10_000,
        part_bytes_min: 1_000,
        journal: JournalConfig {
            file_bytes: 1 << 20,
            ..JournalConfig::new(2)
        },
        ..EngineConfig::new(layout)
    }
}

pub(super) async fn folders(world: &SimWorld) -> Folders {
    let mut all = Vec::new();
    for n in 0..DISKS {
        let disk: Arc<dyn Disk> = Arc::new(world.disk(n));
        all.push(Folder::look_again(format!("folder{n}"), Ok(disk)).await);
    }
    Folders { all }
}

/// The same key in every life.
pub(super) fn master() -> Arc<MasterKeys> {
    Arc::new(MasterKeys::generate(&*SimWorld::new(1).env().rng))
}

fn content_type(text: &str) -> SystemHeaders {
    SystemHeaders {
        content_type: Some(text.to_owned()),
        ..SystemHeaders::default()
    }
}

/// A store and what should be in it.
pub(super) struct Scene {
    pub(super) world: SimWorld,
    pub(super) engine: Engine,
    pub(super) ann: Caller,
    pub(super) expected: BTreeMap<String, Bytes>,
}

pub(super) async fn try_open(world: &SimWorld, work: BackgroundWork) -> Result<Engine> {
    let folders = folders(world).await;
    Engine::open(&world.env(), &config(), DEWAR, &folders, master(), work).await
}

impl Scene {
    /// A new pool with a user and a bucket on `world`'s first disks.
    pub(super) async fn new(world: SimWorld) -> Self {
        let folders = folders(&world).await;
        Engine::format(&world.env(), &config(), DEWAR, &folders)
            .await
            .expect("formatted");
        let engine = try_open(&world, BackgroundWork::On).await.expect("opened");
        let ann = user(engine.store(), "ann", 10).await;
        engine
            .store()
            .create_bucket(&ann, &bucket("first"))
            .await
            .expect("made");
        Self {
            world,
            engine,
            ann,
            expected: BTreeMap::new(),
        }
    }

    pub(super) async fn put(&mut self, key: &str, len: usize, seed: u64) {
        let bytes = content(len, seed);
        let request = WriteRequest {
            attributes: VersionAttributes {
                headers: content_type("text/dewar"),
                metadata: [("from".to_owned(), "a test".to_owned())].into(),
                ..VersionAttributes::default()
            },
            want: AlgorithmSet::EMPTY.with(Algorithm::Md5),
            encryption: encryption(key),
            ..WriteRequest::new(object(key))
        };
        let mut upload = self
            .engine
            .store()
            .write(&self.ann, request)
            .await
            .expect("begun");
        upload.write(bytes.clone()).await.expect("taken");
        upload
            .commit(ExpectedContent::default())
            .await
            .expect("put");
        // So that no two versions are of one moment.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.expected.insert(key.to_owned(), bytes);
    }

    pub(super) async fn delete(&mut self, key: &str) {
        let request = DeleteRequest {
            object: object(key),
            version: None,
            bypass: false,
            condition: WriteCondition::default(),
        };
        self.engine
            .store()
            .delete(&self.ann, request)
            .await
            .expect("deleted");
        self.expected.remove(key);
    }

    /// An object of three parts, the last one small; it is completed if that is wanted.
    pub(super) async fn put_parts(&mut self, key: &str, numbers: &[u32], complete: bool) {
        let store = self.engine.store();
        let request = CreateUploadRequest {
            object: object(key),
            attributes: VersionAttributes {
                headers: content_type("text/parts"),
                ..VersionAttributes::default()
            },
            checksum: None,
            composite: false,
            encryption: None,
            acl: None,
        };
        let upload = store
            .create_upload(&self.ann, request)
            .await
            .expect("begun")
            .id;
        let mut whole = Vec::new();
        let mut parts = Vec::new();
        for number in numbers {
            let bytes = content(
                if *number == 3 { 5_000 } else { 40_000 },
                u64::from(*number),
            );
            let request = UploadPartRequest {
                object: object(key),
                upload,
                number: *number,
                size: Some(bytes.len() as u64),
                want: AlgorithmSet::EMPTY,
                checksum: None,
                customer_key: None,
            };
            let mut part = store.upload_part(&self.ann, request).await.expect("begun");
            part.write(bytes.clone()).await.expect("taken");
            let listed = part.commit(ExpectedContent::default()).await.expect("put");
            parts.push(CompletePart {
                number: *number,
                etag: listed.etag,
                checksum: None,
            });
            whole.extend_from_slice(&bytes);
        }
        if complete {
            let request = CompleteRequest {
                object: object(key),
                upload,
                parts,
                size: None,
                checksum: None,
                customer_key: None,
                condition: WriteCondition::default(),
            };
            let done = store.complete_upload(&self.ann, request).await;
            done.expect("completed");
            self.expected.insert(key.to_owned(), whole.into());
        }
    }

    /// Everything that tests ask for: small and large, replaced, in parts.
    pub(super) async fn fill(&mut self) {
        for n in 0..8 {
            self.put(&format!("large/{n}"), 30_000 + 7_001 * n, n as u64)
                .await;
        }
        for n in 0..40 {
            self.put(&format!("small/{n}"), 100 + 97 * n, 100 + n as u64)
                .await;
        }
        self.put("secret/large", 70_000, 300).await;
        self.put("secret/small", 700, 301).await;
        self.put("replaced/large", 50_000, 200).await;
        self.put("replaced/large", 60_000, 201).await;
        self.put("replaced/small", 500, 202).await;
        self.put("replaced/small", 600, 203).await;
        self.put_parts("parts/whole", &[1, 2, 3], true).await;
    }

    /// Has everything sealed that is open.
    pub(super) async fn seal(&self) {
        self.engine.store().segments().close_current();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(self.engine.store().segments().unsealed_bytes(), 0);
    }

    /// The process ends, cleanly or not.
    pub(super) async fn end(self, cleanly: bool, seed: u64) -> (SimWorld, BTreeMap<String, Bytes>) {
        if cleanly {
            let closed = self.engine.close(Duration::from_secs(10)).await;
            closed.expect("closed");
        }
        drop(self.engine);
        (self.world.kill(seed), self.expected)
    }
}

/// Some keys are encrypted.
fn encryption(key: &str) -> Option<Encryption> {
    key.starts_with("secret/").then_some(Encryption::Dewar)
}

/// All of a rebuild's findings with its report.
pub(super) async fn rebuild(
    world: &SimWorld,
    write: bool,
    accept_loss: bool,
) -> Result<(RebuildReport, Vec<Finding>)> {
    let mut findings = Vec::new();
    let how = Rebuild {
        write,
        accept_loss,
        report: &mut |finding: &Finding| findings.push(finding.clone()),
    };
    let folders = folders(world).await;
    let rebuilt = Engine::rebuild(&world.env(), &config(), DEWAR, &folders, master(), how).await;
    Ok((rebuilt?, findings))
}

/// Everything below these folders is gone from all disks.
pub(super) fn wipe(world: &SimWorld, prefixes: &[&str]) {
    for n in 0..DISKS {
        let disk = world.disk(n);
        for path in disk.paths() {
            if prefixes.iter().any(|prefix| path.starts_with(prefix)) {
                assert!(disk.lose_file(&path), "{path}");
            }
        }
    }
}

/// The files of all blobs.
pub(super) fn blobs(world: &SimWorld) -> BTreeMap<(usize, String), Bytes> {
    let mut all = BTreeMap::new();
    for n in 0..DISKS {
        let disk = world.disk(n);
        for path in disk.paths() {
            if path.starts_with("blobs/0") {
                let bytes = disk.peek(&path).expect("readable");
                all.insert((n, path), bytes);
            }
        }
    }
    all
}

/// The owner of the first bucket, whoever that is by now.
pub(super) fn owner() -> Caller {
    Caller::system()
}

pub(super) async fn read(engine: &Engine, bucket_name: &str, key: &str) -> Result<Bytes> {
    let mut request = get(key);
    request.object.bucket = bucket(bucket_name);
    let mut download = engine.store().get(&owner(), request).await?;
    let mut bytes = Vec::new();
    while let Some(part) = download.next().await {
        bytes.extend_from_slice(&part?);
    }
    Ok(bytes.into())
}

/// Opens the store, lets the workers do what there is to do, and compares.
pub(super) async fn check(world: &SimWorld, expected: &BTreeMap<String, Bytes>) -> Engine {
    let engine = try_open(world, BackgroundWork::On).await.expect("opens");
    tokio::time::sleep(Duration::from_secs(120)).await;
    for (key, bytes) in expected {
        let read = read(&engine, "first", key).await;
        let read = read.unwrap_or_else(|error| panic!("{key}: {error}"));
        assert!(read == *bytes, "{key} reads otherwise");
    }
    let audit = engine.store().tree().audit().await.expect("read");
    assert_eq!(audit.faults, [""; 0]);
    engine
}
