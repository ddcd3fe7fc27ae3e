//! Two pools in one Dewar: where bytes are put, how they move, and what one pool's trouble is to the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::{Caller, MasterKeys};
use dewar_catalog::Actor;
use dewar_catalog::record::VersionRecord;
use dewar_checksum::AlgorithmSet;
use dewar_env::disk::sim::SimWorld;
use dewar_env::{BoxFuture, Disk};
use dewar_namespace::Bucket;
use dewar_types::{ErrorKind, Layout, PoolId, Result, UserId};

use super::joining::{DEWAR, config};
use super::membership::{dynamic, id_of, shards};
use super::{bucket, content, get, object, put_request, run, user};
use crate::{BackgroundWork, DiskObserver, Engine, EngineConfig, Folder, Folders, LiveFolders};
use dewar_disks::upkeep::{Ledger, UpkeepConfig};
use dewar_store::Encryption;
use dewar_store::LedgerDepth;
use dewar_store::api::{
    CompletePart, CompleteRequest, CopyRequest, CreateUploadRequest, ExpectedContent, Hierarchy,
    ObjectInfo, ReadCondition, UploadPartRequest, VersionAttributes, WriteCondition, WriteMode,
    WriteRequest,
};
use dewar_store::lifecycle::Lifecycle;
use dewar_store::lifecycle::LifecycleConfig;
use dewar_store::lifecycle::rules::{Expiration, Filter, NoncurrentTransition, Rule, Transition};

/// Disks of the main pool, 2+1; those behind are of the archive, 1+1.
const MAIN: usize = 4;
const DISKS: usize = 7;
const ARCHIVE: u16 = 77;
const COLD: &str = "COLD";
const LARGE: usize = 300_000;
const SMALL: usize = 3_000;

const SYSTEM: Actor<'static> = Actor {
    user: UserId(0),
    principal: "test",
};

fn two() -> EngineConfig {
    let layout = |k, m| Layout {
        unit: 8192,
        ..Layout::new(k, m).expect("valid")
    };
    let one = config();
    EngineConfig {
        layout: layout(2, 1),
        upkeep: UpkeepConfig {
            out_after: Duration::from_secs(20),
            ..UpkeepConfig::default()
        },
        lifecycle: LifecycleConfig {
            day: Duration::from_secs(12),
            classes: BTreeMap::from([(COLD.to_owned(), Some(ARCHIVE))]),
            strict_classes: true,
            ..LifecycleConfig::default()
        },
        ..one
    }
    .with_pool(ARCHIVE, layout(1, 1))
}

/// The same with an archive of 1+2, which is to survive more than the main pool.
fn uneven() -> EngineConfig {
    let layout = Layout {
        unit: 8192,
        ..Layout::new(1, 2).expect("valid")
    };
    two().with_pool(ARCHIVE, layout)
}

struct Mounts(SimWorld);

impl DiskObserver for Mounts {
    fn look(&self, folder: usize) -> BoxFuture<'_, Folder> {
        let disk: Arc<dyn Disk> = Arc::new(self.0.disk(folder));
        let pool = if folder < MAIN { 0 } else { ARCHIVE };
        Box::pin(async move {
            let found = Folder::look_again(format!("folder{folder}"), Ok(disk)).await;
            found.of(pool)
        })
    }
}

async fn folders(world: &SimWorld) -> Folders {
    let mounts = Mounts(world.clone());
    let mut all = Vec::new();
    for n in 0..world.disks().len() {
        all.push(mounts.look(n).await);
    }
    Folders { all }
}

struct Two {
    config: EngineConfig,
    world: SimWorld,
    engine: Engine,
    ann: Caller,
    /// Sealed secrets are opened with it after a restart too.
    master: Arc<MasterKeys>,
    _folders: Arc<LiveFolders>,
}

impl Two {
    async fn new(seed: u64) -> Self {
        Self::with(seed, two()).await
    }

    async fn with(seed: u64, config: EngineConfig) -> Self {
        let world = SimWorld::with_disks(seed, DISKS);
        let blank = folders(&world).await;
        let formatted = Engine::format(&world.env(), &config, DEWAR, &blank).await;
        formatted.expect("formatted");
        let master = Arc::new(MasterKeys::generate(&*world.env().rng));
        let (engine, folders) = Self::engine(&config, &world, &master).await;
        let ann = user(engine.store(), "ann", 10).await;
        let made = engine.store().create_bucket(&ann, &bucket("first")).await;
        made.expect("made");
        Self {
            config,
            world,
            engine,
            ann,
            master,
            _folders: folders,
        }
    }

    async fn engine(
        config: &EngineConfig,
        world: &SimWorld,
        master: &Arc<MasterKeys>,
    ) -> (Engine, Arc<LiveFolders>) {
        let (env, before) = (world.env(), folders(world).await);
        let master = Arc::clone(master);
        let engine = Engine::open(&env, config, DEWAR, &before, master, BackgroundWork::On).await;
        let engine = engine.expect("opened");
        let folders = LiveFolders::new(before, &engine);
        let later = Arc::new(Mounts(world.clone()));
        engine.keep_looking(Arc::clone(&folders), later).await;
        (engine, folders)
    }

    /// After the power failed.
    async fn again(self, seed: u64) -> Self {
        let world = self.world.crash(seed);
        drop(self.engine);
        let (engine, folders) = Self::engine(&self.config, &world, &self.master).await;
        Self {
            config: self.config,
            world,
            engine,
            ann: self.ann,
            master: self.master,
            _folders: folders,
        }
    }

    fn request(&self, key: &str, class: Option<&str>) -> WriteRequest {
        WriteRequest {
            attributes: VersionAttributes {
                storage_class: class.map(str::to_owned),
                ..VersionAttributes::default()
            },
            ..put_request(key)
        }
    }

    async fn put_as(&self, request: WriteRequest, bytes: &Bytes) -> Result<ObjectInfo> {
        let mut upload = self.engine.store().write(&self.ann, request).await?;
        upload.write(bytes.clone()).await?;
        upload.commit(ExpectedContent::default()).await
    }

    async fn put(&self, key: &str, class: Option<&str>, len: usize) -> Result<ObjectInfo> {
        let bytes = content(len, key.len() as u64);
        self.put_as(self.request(key, class), &bytes).await
    }

    async fn read(&self, key: &str) -> (ObjectInfo, Bytes) {
        let opened = self.engine.store().get(&self.ann, get(key)).await;
        let mut download = opened.unwrap_or_else(|error| panic!("{key}: {error}"));
        let mut read = Vec::new();
        while let Some(part) = download.next().await {
            read.extend_from_slice(&part.expect("readable"));
        }
        (download.info.clone(), read.into())
    }

    async fn check(&self, key: &str, len: usize) {
        let (_, read) = self.read(key).await;
        assert!(
            read == content(len, key.len() as u64),
            "{key} reads otherwise"
        );
    }

    async fn first(&self) -> Bucket {
        let tree = self.engine.store().tree();
        let tenant = tree
            .catalog()
            .tenant(&dewar_types::TenantName::default())
            .await;
        let tenant = tenant.expect("read").expect("there");
        let found = tree.bucket(&tenant, &bucket("first").name).await;
        found.expect("read").expect("there")
    }

    async fn version(&self, key: &str) -> VersionRecord {
        let first = self.first().await;
        let key = object(key).key;
        let found = self.engine.store().tree().lookup(&first, &key).await;
        found.expect("read").expect("there").current
    }

    async fn move_to(&self, key: &str, class: Option<&str>) -> Result<bool> {
        let (first, version) = (self.first().await, self.version(key).await);
        let class = class.map(str::to_owned);
        let store = self.engine.store();
        store
            .move_to_class(&SYSTEM, &first, &object(key).key, &version, class)
            .await
    }

    /// Shards in each pool.
    fn shards(&self) -> (usize, usize) {
        let sum = |disks: std::ops::Range<usize>| disks.map(|n| shards(&self.world, n)).sum();
        (sum(0..MAIN), sum(MAIN..DISKS))
    }

    async fn ledger(&self) -> Ledger {
        let depth = LedgerDepth {
            objects: true,
            read: false,
        };
        let read = AtomicU64::new(0);
        let ledger = self.engine.store().ledger(depth, &read).await;
        ledger.expect("counted")
    }

    /// Time to seal, to free and to sweep.
    async fn rest(&self) {
        for _ in 0..2 {
            self.engine.store().segments().close_current();
            tokio::time::sleep(Duration::from_secs(90)).await;
        }
    }

    /// Everything is sealed, freed and swept, and nothing is wrong with the catalog.
    async fn settle(&self) {
        self.rest().await;
        let audit = self.engine.store().tree().audit().await.expect("read");
        assert_eq!(audit.faults, [""; 0]);
        assert!(audit.queued.is_empty(), "{:?}", audit.queued);
    }
}

#[test]
fn each_class_has_its_bytes_in_its_pool() {
    run(async {
        let two = Two::new(1).await;
        for (key, class, len) in [
            ("hot", None, LARGE),
            ("hot-small", None, SMALL),
            ("cold", Some(COLD), LARGE),
            ("cold-small", Some(COLD), SMALL),
        ] {
            two.put(key, class, len).await.expect("put");
        }
        // The small ones stand in the journal: what they are sealed into is known from there.
        let two = two.again(2).await;
        two.settle().await;
        // Of 2+1 a blob and a segment, and of 1+1.
        assert_eq!(two.shards(), (6, 4));
        for (key, pool) in [
            ("hot", 0),
            ("hot-small", 0),
            ("cold", 77),
            ("cold-small", 77),
        ] {
            assert_eq!(two.version(key).await.copies[0].pool, PoolId(pool), "{key}");
        }
        // Without all disks of the archive only what is there is away.
        for n in MAIN..DISKS {
            two.world.disk(n).vanish();
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        two.check("hot", LARGE).await;
        two.check("hot-small", SMALL).await;
        let opened = two.engine.store().get(&two.ann, get("cold")).await;
        let mut download = opened.expect("opened");
        let refused = download.next().await.expect("an answer").expect_err("away");
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        for len in [SMALL, LARGE] {
            let refused = two.put("more", Some(COLD), len).await.expect_err("away");
            assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        }
        let unknown = two
            .put("x", Some("WARM"), SMALL)
            .await
            .expect_err("no class");
        assert_eq!(unknown.kind(), ErrorKind::NoSuchStorageClass);
    });
}

/// What survives one failure is whole in the main pool, and not in an archive that is to survive two.
#[test]
fn everything_is_held_against_the_layout_of_its_own_pool() {
    run(async {
        let two = Two::with(13, uneven()).await;
        // More than are held in memory, so that the records are asked too.
        for n in 0..6 {
            two.put(&format!("cold{n}"), Some(COLD), LARGE)
                .await
                .expect("put");
            two.put(&format!("hot{n}"), None, LARGE).await.expect("put");
        }
        let small = two.put("small", Some(COLD), SMALL).await;
        small.expect("put");
        two.put("small-hot", None, SMALL).await.expect("put");
        let at_first = two.ledger().await;
        assert_eq!(at_first.full, 2);
        assert!(at_first.catalog >= 2, "{at_first:?}");
        two.settle().await;
        let lines = |ledger: &Ledger| {
            let lines = ledger.lines.iter();
            let lines = lines.map(|(left, line)| (*left, (line.blobs, line.lacking, line.objects)));
            lines.collect::<Vec<_>>()
        };
        let sound = two.ledger().await;
        let whole = [(1, (7, 0, Some(7))), (2, (7, 0, Some(7)))];
        assert_eq!(lines(&sound), whole);
        for ledger in [&at_first, &sound] {
            assert_eq!(ledger.at_risk, [], "nothing is less safe than it should be");
        }
        two.world.disk(MAIN).vanish();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let less = two.ledger().await;
        assert_eq!(lines(&less), [(1, (14, 7, Some(14)))]);
        let mut named: Vec<_> = less.at_risk.iter().collect();
        named.sort_by_key(|danger| &danger.path);
        let paths: Vec<_> = named.iter().map(|danger| &*danger.path).collect();
        let cold: Vec<_> = (0..6).map(|n| format!("first/cold{n}")).collect();
        let mut expected: Vec<_> = cold.iter().map(String::as_str).collect();
        expected.push("first/small");
        assert_eq!(paths, expected);
        assert!(named.iter().all(|danger| danger.margin == 1));
        // And what has none left of one that it should have.
        two.world.disk(0).vanish();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let lost = two.ledger().await;
        let line = lost.lines.get(&0).copied().unwrap_or_default();
        assert!(line.blobs > 0 && line.lacking == line.blobs, "{lost:?}");
        let worst = lost.at_risk.first().expect("named");
        assert!(worst.margin == 0 && worst.path.contains("hot"), "{worst:?}");
    });
}

#[test]
fn a_copy_shares_bytes_within_a_pool_only() {
    run(async {
        let two = Two::new(3).await;
        two.put("a", None, LARGE).await.expect("put");
        let copy = async |to: &str, class: Option<&str>| {
            let request = CopyRequest {
                hierarchy: Hierarchy::Flat,
                source: object("a"),
                source_version: None,
                source_condition: ReadCondition::default(),
                target: object(to),
                attributes: two.request(to, class).attributes,
                replace_headers: false,
                checksum: None,
                condition: WriteCondition::default(),
                source_key: None,
                encryption: None,
                acl: None,
            };
            let copied = two.engine.store().copy(&two.ann, request).await;
            copied.unwrap_or_else(|error| panic!("{to}: {error}"))
        };
        copy("b", None).await;
        assert_eq!(two.shards(), (3, 0));
        copy("c", Some(COLD)).await;
        assert_eq!(two.shards(), (3, 2));
        // Onto itself.
        let moved = copy("a", Some(COLD)).await;
        assert_eq!(moved.attributes.storage_class.as_deref(), Some(COLD));
        let original = content(LARGE, 1);
        for key in ["a", "b", "c"] {
            assert!(two.read(key).await.1 == original, "{key}");
        }
        let request = dewar_store::api::DeleteRequest {
            version: None,
            bypass: false,
            object: object("b"),
            condition: WriteCondition::default(),
        };
        let store = two.engine.store();
        store.delete(&two.ann, request).await.expect("deleted");
        two.settle().await;
        assert_eq!(two.shards(), (0, 4));
    });
}

#[test]
fn parts_are_put_into_the_pool_of_their_upload() {
    run(async {
        let mut two = Two::new(4).await;
        two.put("source", None, 6_000_000).await.expect("put");
        let before = two.shards();
        let info = upload_in_parts(&mut two, Some(COLD), None).await;
        assert_eq!(info.attributes.storage_class.as_deref(), Some(COLD));
        two.settle().await;
        assert_eq!(two.shards().0, before.0);
        assert_eq!(
            two.version("parts").await.copies[0].pool,
            PoolId(ARCHIVE.into())
        );
    });
}

async fn upload_in_parts(
    two: &mut Two,
    class: Option<&str>,
    encryption: Option<Encryption>,
) -> ObjectInfo {
    let store = two.engine.store();
    let begun = store
        .create_upload(
            &two.ann,
            CreateUploadRequest {
                object: object("parts"),
                attributes: two.request("parts", class).attributes,
                checksum: None,
                composite: false,
                encryption,
                acl: None,
            },
        )
        .await
        .expect("begun");
    let mut parts = Vec::new();
    for (number, len) in [(1, 5 << 20), (2, 5 << 20), (3, SMALL)] {
        let request = UploadPartRequest {
            object: object("parts"),
            upload: begun.id,
            number,
            size: None,
            want: AlgorithmSet::EMPTY,
            checksum: None,
            customer_key: None,
        };
        let mut part = store.upload_part(&two.ann, request).await.expect("begun");
        part.write(content(len, number.into()))
            .await
            .expect("taken");
        let part = part.commit(ExpectedContent::default()).await.expect("put");
        parts.push(CompletePart {
            number,
            etag: part.etag.clone(),
            checksum: None,
        });
    }
    let request = CompleteRequest {
        object: object("parts"),
        upload: begun.id,
        parts,
        size: None,
        checksum: None,
        condition: WriteCondition::default(),
        customer_key: None,
    };
    let done = store.complete_upload(&two.ann, request).await;
    done.expect("completed")
}

#[test]
fn whatever_is_moved_stays_what_it_was() {
    for encrypted in [false, true] {
        run(async {
            let mut two = Two::new(5).await;
            let encryption = encrypted.then_some(Encryption::Dewar);
            for (key, len) in [("large", LARGE), ("small", SMALL), ("empty", 0)] {
                let mut request = two.request(key, None);
                request.encryption = encryption.clone();
                let bytes = content(len, key.len() as u64);
                two.put_as(request, &bytes).await.expect("put");
            }
            upload_in_parts(&mut two, None, encryption).await;
            let keys = ["large", "small", "empty", "parts"];
            let mut before = Vec::new();
            for key in keys {
                before.push((two.version(key).await, two.read(key).await));
            }
            // Whoever reads goes on with what was opened.
            let opened = two.engine.store().get(&two.ann, get("parts")).await;
            let mut reader = opened.expect("opened");
            let first = reader.next().await.expect("some").expect("read");
            for key in keys {
                assert!(two.move_to(key, Some(COLD)).await.expect("moved"), "{key}");
            }
            two.rest().await;
            assert!(two.shards().0 > 0, "what is read stays");
            let mut rest = first.to_vec();
            while let Some(bytes) = reader.next().await {
                rest.extend_from_slice(&bytes.expect("read"));
            }
            drop(reader);
            assert!(rest == before[3].1.1, "the reader got something else");
            two.settle().await;
            assert_eq!(two.shards().0, 0, "nothing is left in the main pool");
            let two = two.again(6).await;
            for (key, (version, (info, bytes))) in keys.iter().zip(&before) {
                let now = two.version(key).await;
                let expected = VersionRecord {
                    storage_class: Some(COLD.to_owned()),
                    copies: now.copies.clone(),
                    ..version.clone()
                };
                assert_eq!(now, expected, "{key}");
                let (info_now, bytes_now) = two.read(key).await;
                assert!(bytes_now == *bytes, "{key} reads otherwise");
                assert_eq!(
                    (&info_now.etag, info_now.modified),
                    (&info.etag, info.modified)
                );
            }
            // And back.
            for key in keys {
                assert!(two.move_to(key, None).await.expect("moved"), "{key}");
            }
            two.settle().await;
            assert_eq!(two.shards().1, 0, "nothing is left in the archive");
            for (key, (_, (_, bytes))) in keys.iter().zip(&before) {
                assert!(two.read(key).await.1 == *bytes, "{key} reads otherwise");
            }
        });
    }
}

#[test]
fn lifecycle_moves_current_and_older_versions() {
    run(async {
        let two = Two::new(7).await;
        let (store, first) = (two.engine.store(), bucket("first"));
        let on = store.set_versioning(&two.ann, &first, dewar_store::api::Versioning::Enabled);
        on.await.expect("set");
        for key in ["old/a", "old/a", "kept"] {
            two.put(key, None, LARGE).await.expect("put");
        }
        let before = two.read("old/a").await.0;
        let rules = Lifecycle {
            rules: vec![Rule {
                id: "cold".into(),
                enabled: true,
                filter: Filter {
                    prefix: Some("old/".into()),
                    ..Filter::default()
                },
                transitions: vec![Transition {
                    days: Some(1),
                    date: None,
                    class: COLD.into(),
                }],
                noncurrent_transitions: vec![NoncurrentTransition {
                    days: 1,
                    keep: None,
                    class: COLD.into(),
                }],
                ..Rule::default()
            }],
        };
        let set = store.set_lifecycle(&two.ann, &first, &rules).await;
        set.expect("set");
        tokio::time::sleep(Duration::from_secs(60)).await;
        two.settle().await;
        assert_eq!(two.shards(), (3, 4), "one stays, two versions moved");
        let (now, bytes) = two.read("old/a").await;
        assert!(bytes == content(LARGE, 5));
        assert_eq!((&now.etag, now.version), (&before.etag, before.version));
        assert_eq!(now.attributes.storage_class.as_deref(), Some(COLD));
    });
}

/// What moves keeps to the rate of repair and to nothing else, and what expires in another bucket does not
/// wait for it.
#[test]
fn moves_hold_up_nothing_that_expires() {
    run(async {
        let rate = 100_000;
        let slow = EngineConfig {
            upkeep: UpkeepConfig {
                repair_busy: rate,
                repair_idle: rate,
                ..UpkeepConfig::default()
            },
            ..two()
        };
        let two = Two::with(14, slow).await;
        let (store, first, second) = (two.engine.store(), bucket("first"), bucket("second"));
        store.create_bucket(&two.ann, &second).await.expect("made");
        // Read and written that takes 6 seconds for each.
        let keys: Vec<String> = (0..12).map(|n| format!("k{n:02}")).collect();
        for key in &keys {
            two.put(key, None, LARGE).await.expect("put");
        }
        let mut brief = two.request("brief", None);
        brief.object.bucket = second.clone();
        two.put_as(brief, &content(SMALL, 1)).await.expect("put");
        let rule = Rule {
            id: "rule".into(),
            enabled: true,
            ..Rule::default()
        };
        let moves = Rule {
            transitions: vec![Transition {
                days: Some(1),
                date: None,
                class: COLD.into(),
            }],
            ..rule.clone()
        };
        let ends = Rule {
            expiration: Some(Expiration::Days(1)),
            ..rule
        };
        for (bucket, rule) in [(&first, moves), (&second, ends)] {
            let rules = Lifecycle { rules: vec![rule] };
            let set = store.set_lifecycle(&two.ann, bucket, &rules).await;
            set.expect("set");
        }
        let moved = async || {
            let mut moved = 0;
            for key in &keys {
                moved += usize::from(two.version(key).await.storage_class.is_some());
            }
            moved
        };
        tokio::time::sleep(Duration::from_secs(40)).await;
        let mut brief = get("brief");
        brief.object.bucket = second;
        let gone = store.get(&two.ann, brief).await.map(|_| ());
        assert_eq!(gone.expect_err("expired").kind(), ErrorKind::NotFound);
        let so_far = moved().await;
        assert!((1..keys.len()).contains(&so_far), "{so_far}");
        tokio::time::sleep(Duration::from_secs(70)).await;
        assert_eq!(moved().await, keys.len());
    });
}

/// The power fails at each operation of a move: the object reads as ever, is in one of the pools, and when
/// all is settled in no other.
#[test]
fn a_move_is_safe_to_interrupt_anywhere() {
    for len in [SMALL, LARGE] {
        let mut ops = 1;
        loop {
            let done = run(async {
                let two = Two::new(100 + ops).await;
                two.put("key", None, len).await.expect("put");
                two.put("other", Some(COLD), len).await.expect("put");
                two.settle().await;
                two.world.crash_after(ops);
                let done = tokio::select! {
                    biased;
                    moved = two.move_to("key", Some(COLD)) => moved.is_ok(),
                    () = two.world.wait_for_power_failure() => false,
                };
                let two = two.again(500 + ops).await;
                two.check("key", len).await;
                two.check("other", len).await;
                two.settle().await;
                two.check("key", len).await;
                let pool = two.version("key").await.copies[0].pool;
                let class = two.version("key").await.storage_class;
                let moved = pool == PoolId(ARCHIVE.into());
                assert_eq!(class.is_some(), moved, "{ops}");
                assert!(!done || moved, "{ops}: it was said to have moved");
                // Small content of the archive may stand in one segment or two.
                let (main, archive) = two.shards();
                match moved {
                    true => assert!(
                        main == 0 && (2..=4).contains(&archive),
                        "{ops}: {main} {archive}"
                    ),
                    false => assert_eq!((main, archive), (3, 2), "{ops}"),
                }
                // And it can be done again.
                assert!(two.move_to("key", Some(COLD)).await.expect("moved"));
                two.check("key", len).await;
                done
            });
            if done {
                break;
            }
            ops += 1;
        }
        assert!(ops > 5, "{ops} operations are no move");
    }
}

#[test]
fn a_full_pool_leaves_the_other_one_alone() {
    run(async {
        let two = Two::new(8).await;
        two.put("cold", Some(COLD), LARGE).await.expect("put");
        two.put("hot", None, LARGE).await.expect("put");
        for n in MAIN..DISKS {
            two.world.disk(n).set_capacity(1 << 16);
        }
        two.engine.store().refresh_space().await;
        for len in [SMALL, LARGE] {
            let refused = two.put("more", Some(COLD), len).await.expect_err("full");
            assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
        }
        let refused = two.move_to("hot", Some(COLD)).await.expect_err("full");
        assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
        two.put("more", None, LARGE)
            .await
            .expect("the main pool has room");
        two.put("small", None, SMALL)
            .await
            .expect("the main pool has room");
        two.check("cold", LARGE).await;
        two.check("hot", LARGE).await;
        two.settle().await;
        assert_eq!(two.shards(), (9, 2), "nothing is left of what was refused");
    });
}

/// A segment whose pool went away before it could be sealed must not keep the journal for ever.
#[test]
fn a_segment_of_a_pool_that_is_away_is_sealed_in_another() {
    run(async {
        let two = Two::new(9).await;
        two.put("cold", Some(COLD), SMALL).await.expect("put");
        for n in MAIN..DISKS {
            two.world.disk(n).vanish();
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        two.settle().await;
        assert_eq!(two.engine.store().segments().unsealed(), []);
        two.check("cold", SMALL).await;
        for n in MAIN..DISKS {
            two.world.disk(n).come_back();
        }
        let two = two.again(10).await;
        two.check("cold", SMALL).await;
    });
}

#[test]
fn what_a_disk_held_is_rebuilt_in_its_pool() {
    run(async {
        let two = Two::new(11).await;
        for n in 0..6 {
            two.put(&format!("cold{n}"), Some(COLD), LARGE)
                .await
                .expect("put");
            two.put(&format!("hot{n}"), None, LARGE).await.expect("put");
        }
        let (main, archive) = two.shards();
        let gone = shards(&two.world, MAIN);
        assert!(gone > 0);
        two.world.disk(MAIN).vanish();
        tokio::time::sleep(Duration::from_secs(300)).await;
        let held = |disks: BTreeSet<usize>| -> usize {
            disks.into_iter().map(|n| shards(&two.world, n)).sum()
        };
        let others: BTreeSet<usize> = (MAIN + 1..DISKS).collect();
        assert_eq!(
            held(others),
            archive,
            "rebuilt on what is left of the archive"
        );
        assert_eq!(held((0..MAIN).collect()), main, "and nowhere else");
        // Two are left, as many as 1+1 needs.
        let membership = two.engine.membership();
        let refused = membership.remove(id_of(&two.world, MAIN + 1)).await;
        let refused = refused.expect_err("too few");
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.to_string().contains("of its pool"), "{refused}");
        // A new one in the place of the lost one is of its pool, unless another is named.
        two.world.add_disk("new");
        let (new, old) = (dynamic(&two.world, DISKS), id_of(&two.world, MAIN));
        let wrong = membership.add_to(Some(0), &new, Some(old)).await;
        assert_eq!(wrong.expect_err("main").kind(), ErrorKind::InvalidArgument);
        let id = membership.add(&new, Some(old)).await.expect("added");
        assert_eq!(
            two.engine.pool().member(id).map(|new| new.pool),
            Some(ARCHIVE)
        );
        two.world.add_disk("newer");
        let newer = dynamic(&two.world, DISKS + 1);
        let unknown = membership.add_to(Some(5), &newer, None).await;
        assert_eq!(
            unknown.expect_err("no pool").kind(),
            ErrorKind::InvalidArgument
        );
        let id = membership.add_to(Some(ARCHIVE), &newer, None).await;
        let id = id.expect("added");
        assert_eq!(
            two.engine.pool().member(id).map(|new| new.pool),
            Some(ARCHIVE)
        );
        for n in 6..12 {
            two.put(&format!("cold{n}"), Some(COLD), LARGE)
                .await
                .expect("put");
        }
        assert!(
            shards(&two.world, DISKS + 1) > 0,
            "it takes what is put there"
        );
        for n in 0..6 {
            two.check(&format!("cold{n}"), LARGE).await;
            two.check(&format!("hot{n}"), LARGE).await;
        }
    });
}

/// A file that is being changed shares the blobs of the version it began with: when these go because that
/// version is moved, the change must not count on them.
#[test]
fn a_change_of_a_file_that_was_moved_meanwhile_is_refused() {
    run(async {
        let two = Two::new(12).await;
        two.put("file", None, LARGE).await.expect("put");
        let write = || WriteRequest::file(object("file"), WriteMode::Update);
        let store = two.engine.store();
        let mut change = store.write(&two.ann, write()).await.expect("begun");
        change
            .write_at(10, content(5, 1).into())
            .await
            .expect("taken");
        assert!(two.move_to("file", Some(COLD)).await.expect("moved"));
        let refused = change
            .commit(ExpectedContent::of_size(None))
            .await
            .expect_err("moved");
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
        // Begun anew, it stays in the pool and the class where it is.
        let mut change = store.write(&two.ann, write()).await.expect("begun");
        change
            .write_at(10, content(5, 1).into())
            .await
            .expect("taken");
        let changed = change
            .commit(ExpectedContent::of_size(None))
            .await
            .expect("changed");
        assert_eq!(changed.attributes.storage_class.as_deref(), Some(COLD));
        two.settle().await;
        assert_eq!(two.shards().0, 0);
        let mut expected = content(LARGE, 4).to_vec();
        expected[10..15].copy_from_slice(&content(5, 1));
        assert!(two.read("file").await.1 == expected);
    });
}
