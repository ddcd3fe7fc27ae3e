//! A store on six simulated disks with a door, two users and a bucket.

use std::sync::Arc;

use dewar_auth::{MasterKeys, Secret};
use dewar_catalog::record::CopyState;
use dewar_disks::JournalPin;
use dewar_disks::blob::BlobStore;
use dewar_disks::pool::{DewarId, Member, Pool};
use dewar_disks::segment::SegmentLimits;
use dewar_disks::upkeep::UpkeepConfig;
use dewar_disks::{DiskParts, Disks};
use dewar_env::disk::sim::SimWorld;
use dewar_iam::{FederationConfig, UserChange};
use dewar_kv::Kv;
use dewar_kv::memory::MemoryKv;
use dewar_namespace::{DataChanges, Tree};
use dewar_s3::{Door, DoorConfig};
use dewar_store::{Store, StoreParts};
use dewar_types::{BucketName, DiskId, Layout, ObjectKey, TenantName, UserId};

use crate::client::TestClient;

pub const REGION: &str = "eu-dewar-1";
pub const BUCKET: &str = "bucket";

/// The memory engine has no journal to hold.
struct NoJournal;

impl JournalPin for NoJournal {
    fn last_seq(&self) -> u64 {
        0
    }

    fn release(&self, _seq: u64) {}

    fn margin(&self) -> i32 {
        1
    }

    fn pressed(&self) -> bool {
        false
    }
}

/// The machine, kept alive, and a client for each user.
pub struct Fixture {
    pub owner: TestClient,
    pub stranger: TestClient,
    /// Who manages the tenant.
    pub manager: TestClient,
    pub nobody: TestClient,
    tree: Arc<Tree>,
    world: SimWorld,
}

impl Fixture {
    /// Makes all copies of an object nearline, as a tape pool would.
    pub async fn recall_is_needed(&self, key: &str) {
        let tenant = self.tree.catalog().tenant(&TenantName::default()).await;
        let tenant = tenant.expect("read").expect("there");
        let name = BucketName::new(BUCKET).expect("valid");
        let bucket = self.tree.bucket(&tenant, &name).await;
        let bucket = bucket.expect("read").expect("there");
        let key = ObjectKey::new(key).expect("valid");
        let found = self.tree.lookup(&bucket, &key).await.expect("read");
        let version = found.expect("there").current;
        let mut copies = version.copies.clone();
        for copy in &mut copies {
            copy.state = CopyState::Nearline;
        }
        let extra = DataChanges::default();
        let moved = self
            .tree
            .relocate(&bucket, &key, version.id, &copies, &extra)
            .await;
        assert!(moved.expect("written"), "another version");
    }

    /// Takes the first `count` disks away, and puts the others back.
    pub fn lose_disks(&self, count: usize) {
        for (n, disk) in self.world.disks().iter().enumerate() {
            if n < count {
                disk.vanish();
            } else {
                disk.come_back();
            }
        }
    }
}

pub async fn fixture() -> Fixture {
    let world = SimWorld::with_disks(1, 6);
    let env = world.env();
    let kv: Arc<dyn Kv> = Arc::new(MemoryKv::new());
    let tree = Tree::open(Arc::clone(&kv), env.clone(), 1).await;
    let tree = Arc::new(tree.expect("an empty tree"));
    let members = world.dyn_disks().into_iter().zip(1..);
    let members = members.map(|(disk, id)| Member {
        pool: 0,
        id: DiskId(id),
        disk,
    });
    let layout = Layout::default_for(6);
    let pool = Pool::new(env.clone(), DewarId(7), 0, layout, members.collect());
    let blobs = Arc::new(BlobStore::new(Arc::new(pool.expect("no id twice"))));
    let disks = Disks::new(DiskParts {
        env: env.clone(),
        catalog: tree.catalog().clone(),
        blobs,
        journal: Arc::new(NoJournal),
        segments: SegmentLimits::default(),
        upkeep: UpkeepConfig::default(),
    });
    let store = Store::new(StoreParts {
        env: env.clone(),
        tree: Arc::clone(&tree),
        disks,
        master: Arc::new(MasterKeys::generate(&*env.rng)),
        small_bytes_max: 4096,
        part_bytes_min: dewar_store::limits::PART_BYTES_MIN,
        lifecycle: dewar_store::lifecycle::LifecycleConfig {
            classes: [("COLD".to_owned(), None)].into(),
            ..dewar_store::lifecycle::LifecycleConfig::default()
        },
        listing: dewar_store::ListingConfig::default(),
        ownership: dewar_auth::Ownership::default(),
        digests: dewar_store::DigestLimits::default(),
    });
    store.accounts().set_federation(FederationConfig {
        provider_hosts: vec!["*.example.org".into()],
        ..FederationConfig::default()
    });
    for (id, name) in [(1, "owner"), (2, "stranger"), (3, "manager")] {
        let accounts = store.accounts();
        accounts.add_user(UserId(id), name).await.expect("a user");
        let key = Some(format!("KEY-{name}"));
        let secret = Some(Secret::new(format!("secret of {name}")));
        accounts.add_key(name, key, secret).await.expect("a key");
        let change = UserChange {
            tenant_admin: Some(name == "manager"),
            ..UserChange::default()
        };
        accounts.change_user(name, change).await.expect("changed");
    }
    let config = DoorConfig {
        region: REGION.into(),
        domains: vec!["s3.example.org".into()],
    };
    let door = Arc::new(Door::new(store, env.clone(), config));
    let client = |name: &str| TestClient::new(Arc::clone(&door), env.clone(), Some(name));
    let fixture = Fixture {
        owner: client("owner"),
        stranger: client("stranger"),
        manager: client("manager"),
        nobody: TestClient::new(Arc::clone(&door), env.clone(), None),
        tree,
        world,
    };
    let made = fixture.owner.put(&format!("/{BUCKET}")).send().await;
    assert_eq!(made.status, 200, "{}", made.text());
    fixture
}

/// Runs a conversation on a runtime whose clock stands still.
pub fn talk(conversation: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(conversation);
}
