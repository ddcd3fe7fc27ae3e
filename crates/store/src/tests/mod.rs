//! The verbs on simulated disks and a catalog in memory.

mod access;
mod bucket_principals;
mod catalog_calls;
mod digests;
mod documents;
mod encryption;
mod faults;
mod files;
mod hierarchy;
mod model;
mod open_changes;
mod quotas;
mod rewrap;
mod spaces;
mod upkeep;
mod verbs;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::{Caller, MasterKeys};
use dewar_catalog::record::{CopyState, VersionRecord};
use dewar_disks::blob::BlobStore;
use dewar_disks::pool::{DewarId, Member, Pool};
use dewar_disks::segment::SegmentLimits;
use dewar_env::disk::sim::SimWorld;
use dewar_env::worker::WorkerRegistry;
use dewar_kv::{Kv, MemoryKv};
use dewar_namespace::{DataChanges, Tree};
use dewar_types::{BlobId, ByteRange, DiskId, Layout, ObjectKey, RangeSpec, Result};

use crate::api::{
    DeleteRequest, ExpectedContent, GetRequest, ListRequest, ObjectInfo, ReadCondition,
    WriteCondition, WriteRequest,
};
pub(crate) use crate::testing::{bucket, content, get, object, origin, put_request, user};
use crate::{Store, StoreParts};
use dewar_disks::JournalPin;
use dewar_disks::upkeep::UpkeepConfig;
use dewar_disks::{DiskParts, Disks};

pub(crate) const SMALL: u32 = 10_000;

struct NoJournal;

impl JournalPin for NoJournal {
    fn last_seq(&self) -> u64 {
        0
    }

    fn release(&self, _: u64) {}

    fn margin(&self) -> i32 {
        1
    }

    fn pressed(&self) -> bool {
        true
    }
}

/// A store with its workers, two users and a bucket of the first one's.
pub(crate) struct Rig {
    pub(crate) world: SimWorld,
    pub(crate) store: Store,
    pub(crate) ann: Caller,
    pub(crate) bob: Caller,
    workers: Option<WorkerRegistry>,
}

impl Rig {
    pub(crate) async fn new(seed: u64) -> Self {
        Self::with_upkeep(seed, UpkeepConfig::default()).await
    }

    pub(crate) async fn with_upkeep(seed: u64, upkeep: UpkeepConfig) -> Self {
        Self::with_catalog(seed, upkeep, Arc::new(MemoryKv::new())).await
    }

    /// The same with another engine of the catalog.
    async fn with_catalog(seed: u64, upkeep: UpkeepConfig, kv: Arc<dyn Kv>) -> Self {
        let world = SimWorld::with_disks(seed, 4);
        let env = world.env();
        let layout = Layout {
            unit: 8192,
            ..Layout::new(2, 1).expect("valid")
        };
        let members = world
            .dyn_disks()
            .into_iter()
            .zip(1..)
            .map(|(disk, id)| Member {
                pool: 0,
                id: DiskId(id),
                disk,
            })
            .collect();
        let pool = Pool::new(env.clone(), DewarId(1), 0, layout, members).expect("no id twice");
        let blobs = Arc::new(BlobStore::new(Arc::new(pool)));
        let tree = Tree::open(Arc::clone(&kv), env.clone(), 1).await;
        let tree = Arc::new(tree.expect("opened"));
        let disks = Disks::new(DiskParts {
            env: env.clone(),
            catalog: tree.catalog().clone(),
            blobs,
            journal: Arc::new(NoJournal),
            segments: SegmentLimits::default(),
            // Few, so that tests cover the case beyond.
            upkeep: UpkeepConfig {
                margins_max: 4,
                ..upkeep
            },
        });
        let master = Arc::new(MasterKeys::generate(&*env.rng));
        let store = Store::new(StoreParts {
            env,
            tree,
            disks,
            master,
            small_bytes_max: SMALL,
            part_bytes_min: crate::limits::PART_BYTES_MIN,
            lifecycle: crate::lifecycle::LifecycleConfig::default(),
            listing: crate::ListingConfig::default(),
            ownership: dewar_auth::Ownership::default(),
            digests: crate::DigestLimits::default(),
        });
        let workers = Some(crate::workers::start(&store, BlobId(0)));
        let ann = user(&store, "ann", 10).await;
        let bob = user(&store, "bob", 11).await;
        store
            .create_bucket(&ann, &bucket("first"))
            .await
            .expect("made");
        Self {
            world,
            store,
            ann,
            bob,
            workers,
        }
    }

    pub(crate) async fn put(&self, key: &str, bytes: &Bytes) -> Result<ObjectInfo> {
        self.put_as(put_request(key), bytes).await
    }

    pub(crate) async fn put_as(&self, request: WriteRequest, bytes: &Bytes) -> Result<ObjectInfo> {
        let mut upload = self.store.write(&self.ann, request).await?;
        for part in bytes.chunks(7_000) {
            upload.write(bytes.slice_ref(part)).await?;
        }
        upload.commit(ExpectedContent::default()).await
    }

    pub(crate) async fn read(&self, request: GetRequest) -> Result<(ObjectInfo, ByteRange, Bytes)> {
        let mut download = self.store.get(&self.ann, request).await?;
        let mut bytes = Vec::new();
        while let Some(part) = download.next().await {
            bytes.extend_from_slice(&part?);
        }
        Ok((download.info.clone(), download.range, bytes.into()))
    }

    pub(crate) async fn get(&self, key: &str) -> Result<Bytes> {
        Ok(self.read(get(key)).await?.2)
    }

    /// The current version as the catalog has it.
    pub(crate) async fn found(&self, key: &str) -> VersionRecord {
        let (tree, object) = (self.store.tree(), object(key));
        let named = tree
            .catalog()
            .tenant(&dewar_types::TenantName::default())
            .await;
        let tenant = named.expect("read").expect("there");
        let bucket = tree.bucket(&tenant, &object.bucket.name).await;
        let bucket = bucket.expect("read").expect("there");
        let found = tree.lookup(&bucket, &object.key).await.expect("read");
        found.expect("there").current
    }

    /// Makes all copies of the current version nearline, as a tape pool would.
    pub(crate) async fn recall_is_needed(&self, key: &str) {
        let (tree, object) = (self.store.tree(), object(key));
        let named = tree
            .catalog()
            .tenant(&dewar_types::TenantName::default())
            .await;
        let tenant = named.expect("read").expect("there");
        let bucket = tree.bucket(&tenant, &object.bucket.name).await;
        let bucket = bucket.expect("read").expect("there");
        let was = self.found(key).await;
        let mut copies = was.copies.clone();
        for copy in &mut copies {
            copy.state = CopyState::Nearline;
        }
        let extra = DataChanges::default();
        let moved = tree
            .relocate(&bucket, &object.key, was.id, &copies, &extra)
            .await;
        assert!(moved.expect("written"), "{key} is another version");
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<bool> {
        let request = DeleteRequest {
            version: None,
            bypass: false,
            object: object(key),
            condition: WriteCondition::default(),
        };
        Ok(self.store.delete(&self.ann, request).await?.existed)
    }

    pub(crate) async fn keys(&self) -> Vec<String> {
        let request = ListRequest {
            bucket: bucket("first"),
            prefix: String::new(),
            delimiter: String::new(),
            after: String::new(),
            max: 1000,
        };
        let page = self.store.list(&self.ann, request).await.expect("listed");
        page.objects.into_iter().map(|listed| listed.key).collect()
    }

    /// All shards.
    pub(crate) fn files(&self) -> Vec<String> {
        (0..4)
            .flat_map(|disk| self.world.disk(disk).paths())
            .filter(|path| path != "blobs/anchor" && path != "blobs/token")
            .collect()
    }

    /// Lets the workers do all there is to do, and audits the catalog.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(120)).await;
        let audit = self.store.tree().audit().await.expect("read");
        assert_eq!(audit.faults, [""; 0]);
    }

    /// After everything was deleted: nothing is left, on disks or in the catalog.
    pub(crate) async fn assert_empty(mut self) {
        self.settle().await;
        let audit = self.store.tree().audit().await.expect("read");
        assert_eq!(audit.files, 0);
        assert!(audit.dead.is_empty(), "{:?}", audit.dead);
        assert!(audit.queued.is_empty(), "{:?}", audit.queued);
        assert_eq!(self.files(), [""; 0]);
        if let Some(workers) = self.workers.take() {
            workers.stop().await;
        }
    }
}

pub(crate) fn get_range(key: &str, range: RangeSpec) -> GetRequest {
    GetRequest {
        range: Some(range),
        ..get(key)
    }
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(future)
}
