//! Disks that were away when the store was opened, and appear while it is open.

use std::sync::Arc;
use std::time::Duration;

use dewar_auth::{Caller, MasterKeys};
use dewar_disks::pool::{DewarId, IDENTITY_FILE};
use dewar_env::disk::sim::SimWorld;
use dewar_env::{BoxFuture, Disk};
use dewar_journal::{JournalConfig, JournalState};
use dewar_types::Layout;

use super::{bucket, content, get, put_request, run, user};
use crate::{BackgroundWork, DiskObserver, Engine, EngineConfig, Folder, Folders, LiveFolders};
use dewar_store::api::ExpectedContent;

pub(super) const DEWAR: DewarId = DewarId(7);

pub(super) fn config() -> EngineConfig {
    let layout = Layout {
        unit: 8192,
        ..Layout::new(4, 2).expect("valid")
    };
    EngineConfig {
        small_bytes_max: 10_000,
        journal: JournalConfig {
            file_bytes: 2 << 20,
            ..JournalConfig::new(2)
        },
        ..EngineConfig::new(layout)
    }
}

/// Which disk is found in which folder.
pub(super) struct Mounts {
    world: SimWorld,
    pub(super) disks: Vec<usize>,
}

impl Mounts {
    pub(super) fn plain(world: &SimWorld) -> Arc<Self> {
        let disks = (0..world.disks().len()).collect();
        let world = world.clone();
        Arc::new(Self { world, disks })
    }

    pub(super) async fn all(&self) -> Folders {
        let mut all = Vec::new();
        for n in 0..self.disks.len() {
            all.push(self.look(n).await);
        }
        Folders { all }
    }
}

impl DiskObserver for Mounts {
    fn look(&self, folder: usize) -> BoxFuture<'_, Folder> {
        let disk: Arc<dyn Disk> = Arc::new(self.world.disk(self.disks[folder]));
        Box::pin(Folder::look_again(format!("folder{folder}"), Ok(disk)))
    }
}

pub(super) struct Open {
    pub(super) engine: Engine,
    pub(super) folders: Arc<LiveFolders>,
}

impl Open {
    /// Opens what `before` finds and goes on looking at `later`.
    async fn new(world: &SimWorld, before: Folders, later: Arc<Mounts>) -> Self {
        Self::with(world, before, later, &config()).await
    }

    pub(super) async fn with(
        world: &SimWorld,
        before: Folders,
        later: Arc<Mounts>,
        config: &EngineConfig,
    ) -> Self {
        let env = world.env();
        let master = Arc::new(MasterKeys::generate(&*env.rng));
        let engine = Engine::open(&env, config, DEWAR, &before, master, BackgroundWork::On).await;
        let engine = engine.expect("opened");
        let folders = LiveFolders::new(before, &engine);
        engine.keep_looking(Arc::clone(&folders), later).await;
        Self { engine, folders }
    }

    fn online(&self) -> usize {
        let states = self.folders.states();
        states
            .iter()
            .filter(|(_, state)| *state == "online")
            .count()
    }

    pub(super) async fn write(&self, ann: &Caller, name: &str) {
        for (kind, len) in [("small", 3_000), ("large", 300_000)] {
            let request = put_request(&format!("{name}/{kind}"));
            let store = self.engine.store();
            let mut upload = store.write(ann, request).await.expect("begun");
            let bytes = content(len, name.len() as u64);
            upload.write(bytes).await.expect("taken");
            upload
                .commit(ExpectedContent::default())
                .await
                .expect("put");
        }
    }

    pub(super) async fn check(&self, ann: &Caller, names: &[&str]) {
        for name in names {
            for (kind, len) in [("small", 3_000), ("large", 300_000)] {
                let key = format!("{name}/{kind}");
                let opened = self.engine.store().get(ann, get(&key)).await;
                let mut download = opened.unwrap_or_else(|error| panic!("{key}: {error}"));
                let mut read = Vec::new();
                while let Some(part) = download.next().await {
                    read.extend_from_slice(&part.expect("readable"));
                }
                let written = content(len, name.len() as u64);
                assert!(read == written, "{key} reads otherwise");
            }
        }
    }
}

/// A formatted pool of six disks with a user, a bucket and `kept` in it, after a crash.
pub(super) async fn pool(seed: u64) -> (SimWorld, Caller) {
    let world = SimWorld::with_disks(seed, 6);
    let mounts = Mounts::plain(&world);
    let blank = mounts.all().await;
    Engine::format(&world.env(), &config(), DEWAR, &blank)
        .await
        .expect("formatted");
    let open = Open::new(&world, mounts.all().await, mounts).await;
    let store = open.engine.store();
    let ann = user(store, "ann", 10).await;
    store
        .create_bucket(&ann, &bucket("first"))
        .await
        .expect("made");
    open.write(&ann, "kept").await;
    let world = world.crash(1000 + seed);
    drop(open);
    (world, ann)
}

#[test]
fn disks_that_come_later_join_and_others_may_go() {
    for seed in 0..6 {
        run(async {
            let (world, ann) = pool(seed).await;
            let (a, b) = (seed as usize % 6, (seed as usize + 2) % 6);
            world.disk(a).vanish();
            world.disk(b).vanish();
            let mounts = Mounts::plain(&world);
            let open = Open::new(&world, mounts.all().await, Arc::clone(&mounts)).await;
            assert_eq!(open.online(), 4);
            open.check(&ann, &["kept"]).await;
            open.write(&ann, "later").await;
            let paths = world.disk(a).paths();
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(
                world.disk(a).paths(),
                paths,
                "nothing is written to what is away"
            );

            world.disk(a).come_back();
            world.disk(b).come_back();
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(open.online(), 6);
            assert_eq!(open.engine.pool().writable().count(), 6);
            open.write(&ann, "joined").await;
            for disk in [a, b] {
                let blobs = |path: &&String| path.starts_with("blobs/0") && !paths.contains(path);
                let now = world.disk(disk).paths();
                assert!(now.iter().any(|path| blobs(&path)), "{now:?}");
            }

            // Two of those that were there all the time go: the others stand in for them.
            let gone: Vec<usize> = (0..6).filter(|n| *n != a && *n != b).take(2).collect();
            for disk in &gone {
                world.disk(*disk).vanish();
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
            open.write(&ann, "after").await;
            let status = open.engine.journal().status();
            assert_eq!(status.state, JournalState::Running);
            assert_eq!((status.members.len(), status.holders.len()), (6, 4));
            assert_eq!(status.margin, 3, "{status:?}");
            let all = ["kept", "later", "joined", "after"];
            open.check(&ann, &all).await;

            let world = world.crash(seed + 1);
            drop(open);
            let mounts = Mounts::plain(&world);
            let open = Open::new(&world, mounts.all().await, mounts).await;
            assert_eq!(open.online(), 4);
            open.check(&ann, &all).await;
        });
    }
}

/// The power fails somewhere while disks join; afterwards two others are gone.
#[test]
fn a_crash_while_disks_join_loses_nothing() {
    for ops in 0..40 {
        run(async {
            let (world, ann) = pool(ops).await;
            world.disk(1).vanish();
            world.disk(4).vanish();
            let mounts = Mounts::plain(&world);
            let open = Open::new(&world, mounts.all().await, mounts).await;
            open.write(&ann, "later").await;
            world.disk(1).come_back();
            world.disk(4).come_back();
            tokio::time::sleep(Duration::from_millis(1900)).await;
            world.crash_after(1 + ops * 2);
            let joining = async {
                tokio::time::sleep(Duration::from_secs(20)).await;
            };
            tokio::select! {
                biased;
                () = joining => {}
                () = world.wait_for_power_failure() => {}
            }
            let world = world.crash(ops);
            drop(open);
            world.disk(2).vanish();
            world.disk(3).vanish();
            let mounts = Mounts::plain(&world);
            let open = Open::new(&world, mounts.all().await, mounts).await;
            open.check(&ann, &["kept", "later"]).await;
            open.write(&ann, "after").await;
            open.check(&ann, &["after"]).await;
        });
    }
}

/// A mount point without its disk is blank; when the disk is mounted, the folder is another one.
#[test]
fn a_disk_that_is_mounted_later_joins_and_its_copy_does_not() {
    run(async {
        let (world, ann) = pool(9).await;
        let mount_point: Arc<dyn Disk> = Arc::new(world.add_disk("mount point"));
        let copy = world.add_disk("copy");
        let identity = world.disk(0).peek(IDENTITY_FILE).expect("formatted");
        copy.replace_file(IDENTITY_FILE, identity)
            .await
            .expect("written");
        let mut mounts = Mounts::plain(&world);
        Arc::get_mut(&mut mounts).expect("alone").disks.truncate(6);
        let mut before = mounts.all().await;
        before.all[3] = Folder::look_again("folder3".into(), Ok(mount_point)).await;
        // Where disk 5 was, a copy of disk 0 is found.
        world.disk(5).vanish();
        before.all[5] = mounts.look(5).await;
        Arc::get_mut(&mut mounts).expect("alone").disks[5] = 7;
        let open = Open::new(&world, before, mounts).await;
        let states: Vec<_> = open.folders.states().into_iter().map(|(_, s)| s).collect();
        assert_eq!(states[3..], ["blank", "online", "missing"]);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(open.online(), 4);
        assert_eq!(
            world.disk(6).paths(),
            [""; 0],
            "nothing is written to a mount point"
        );

        world.disk(6).vanish();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(open.online(), 5);
        assert_eq!(open.engine.pool().members().count(), 5);
        assert_eq!(
            copy.paths(),
            [IDENTITY_FILE],
            "nothing is written to a copy"
        );
        open.write(&ann, "later").await;
        open.check(&ann, &["kept", "later"]).await;

        // While the disk it is a copy of is away, it may be that disk, moved.
        world.disk(0).vanish();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(open.online(), 5);
        open.check(&ann, &["kept", "later"]).await;
    });
}
