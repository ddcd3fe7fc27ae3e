//! A store on six simulated disks, and a client of transfers beside it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dewar_auth::{Caller, CredentialStore as _, MasterKeys, Origin};
use dewar_checksum::AlgorithmSet;
use dewar_disks::JournalPin;
use dewar_disks::blob::BlobStore;
use dewar_disks::pool::{DewarId, Member, Pool};
use dewar_disks::segment::SegmentLimits;
use dewar_disks::upkeep::UpkeepConfig;
use dewar_disks::{DiskParts, Disks};
use dewar_env::BoxFuture;
use dewar_env::disk::sim::SimWorld;
use dewar_kv::Kv;
use dewar_kv::memory::MemoryKv;
use dewar_namespace::Tree;
use dewar_store::api::{
    BucketRef, ExpectedContent, GetRequest, ObjectRef, WriteMode, WriteRequest,
};
use dewar_store::{ContentReader, ContentWriter, Store, StoreParts};
use dewar_transfer::{
    AllowList, AllowRule, ConnectRules, ForwardedHeaders, OwnAddresses, Pace, PullRequest,
    PullTarget, PushRequest, SourceDescription, TransferClient, TransferConfig, TransferFailure,
    TransferOptions, TransferOutcome, TransferProgress, TransferTimes, TransferUrl,
};
use dewar_types::{BucketName, DiskId, ErrorKind, Layout, ObjectKey, Result, UserId};
use http::{HeaderMap, HeaderName};

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

/// The machine, kept alive, its store, and settings of transfers.
pub struct Fixture {
    pub store: Store,
    pub ann: Caller,
    world: SimWorld,
    pub config: TransferConfig,
}

/// A pull to `first/file`.
struct FileTarget<'a> {
    fixture: &'a Fixture,
    mode: WriteMode,
}

impl PullTarget for FileTarget<'_> {
    fn begin<'a>(
        &'a self,
        source: &'a SourceDescription,
        want: AlgorithmSet,
    ) -> BoxFuture<'a, Result<ContentWriter>> {
        Box::pin(async move {
            let request = WriteRequest {
                size: source.size,
                want,
                ..WriteRequest::file(object("file"), self.mode)
            };
            self.fixture.store.write(&self.fixture.ann, request).await
        })
    }
}

pub fn object(key: &str) -> ObjectRef {
    ObjectRef {
        bucket: BucketRef::own(BucketName::new("first").expect("valid")),
        key: ObjectKey::new(key).expect("valid"),
    }
}

/// Deadlines that no test reaches that does not mean to.
pub fn patient() -> TransferTimes {
    TransferTimes {
        retry_pause: Duration::from_millis(1),
        ..TransferTimes::default()
    }
}

/// Deadlines that a peer that stalls reaches soon.
pub fn hasty() -> TransferTimes {
    TransferTimes {
        first_byte: Duration::from_millis(500),
        stall: Duration::from_millis(500),
        checksum: Duration::from_millis(500),
        ..patient()
    }
}

impl Fixture {
    pub async fn new() -> Self {
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
            tree,
            disks,
            master: Arc::new(MasterKeys::generate(&*env.rng)),
            small_bytes_max: 4096,
            part_bytes_min: dewar_store::limits::PART_BYTES_MIN,
            lifecycle: dewar_store::lifecycle::LifecycleConfig::default(),
            listing: dewar_store::ListingConfig::default(),
            ownership: dewar_auth::Ownership::default(),
            digests: dewar_store::DigestLimits::default(),
        });
        let accounts = store.accounts();
        accounts.add_user(UserId(1), "ann").await.expect("a user");
        let (key, _) = accounts.add_key("ann", None, None).await.expect("a key");
        let key = accounts.access_key(&key).await.expect("read");
        let origin = Origin {
            address: None,
            secure: true,
        };
        let ann = Caller::by_access_key(&key.expect("valid"), origin);
        store.refresh_space().await;
        let made = store.create_bucket(&ann, &object("x").bucket).await;
        made.expect("a bucket");
        let rules = ["127.0.0.0/8"].map(|rule| AllowRule::parse(rule).expect("a rule"));
        let config = TransferConfig {
            rules: ConnectRules {
                allow: AllowList(rules.into()),
                ..ConnectRules::default()
            },
            times: patient(),
            pace: Pace {
                rate_min: 0,
                ..Pace::default()
            },
            ..TransferConfig::default()
        };
        Self {
            store,
            ann,
            world,
            config,
        }
    }

    pub fn hasty(mut self) -> Self {
        self.config.times = hasty();
        self
    }

    pub fn retries(mut self, retries: u32) -> Self {
        self.config.retries = retries;
        self
    }

    pub fn own(mut self, address: SocketAddr) -> Self {
        self.config.rules.own = OwnAddresses::new(&[address]);
        self
    }

    pub fn client(&self) -> TransferClient {
        TransferClient::new(self.config.clone(), self.world.env())
    }

    /// Pulls to `first/file`.
    pub async fn pull(&self, request: &PullRequest) -> Result<TransferOutcome, TransferFailure> {
        let progress = Arc::new(TransferProgress::new());
        self.pull_with(request, WriteMode::Replace, &progress).await
    }

    pub async fn pull_with(
        &self,
        request: &PullRequest,
        mode: WriteMode,
        progress: &Arc<TransferProgress>,
    ) -> Result<TransferOutcome, TransferFailure> {
        let target = FileTarget {
            fixture: self,
            mode,
        };
        let outcome = self.client().pull(request, &target, progress).await;
        assert!(progress.remotes().is_empty(), "a connection is left");
        outcome
    }

    /// Writes `first/KEY`.
    pub async fn put(&self, key: &str, content: &Bytes) {
        let request = WriteRequest::file(object(key), WriteMode::Replace);
        let mut writer = self.store.write(&self.ann, request).await.expect("begun");
        for piece in content.chunks(1 << 20) {
            let written = writer.write(content.slice_ref(piece)).await;
            written.expect("written");
        }
        let committed = writer.commit(ExpectedContent::default()).await;
        committed.expect("committed");
    }

    pub async fn open(&self, key: &str) -> ContentReader {
        let request = GetRequest::whole(object(key));
        self.store
            .open_file(&self.ann, request)
            .await
            .expect("opened")
    }

    pub async fn push(&self, request: &PushRequest) -> Result<TransferOutcome, TransferFailure> {
        let file = self.open("file").await;
        let progress = Arc::new(TransferProgress::new());
        let outcome = self.client().push(request, &file, &progress).await;
        assert!(progress.remotes().is_empty(), "a connection is left");
        outcome
    }

    /// The content of `first/file`; `None` if there is no such file.
    pub async fn file(&self) -> Option<Bytes> {
        let request = GetRequest::whole(object("file"));
        let mut reader = match self.store.get(&self.ann, request).await {
            Ok(reader) => reader,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => panic!("{error}"),
        };
        let mut content = Vec::new();
        while let Some(bytes) = reader.next().await {
            content.extend_from_slice(&bytes.expect("read"));
        }
        Some(content.into())
    }
}

/// Headers as a client's request names them for the other side.
pub fn forwarded(pairs: &[(&str, &str)]) -> ForwardedHeaders {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name: HeaderName = format!("TransferHeader{name}").parse().expect("a name");
        headers.append(name, value.parse().expect("a value"));
    }
    ForwardedHeaders::from_request(&headers).expect("allowed")
}

pub fn url(text: &str) -> TransferUrl {
    TransferUrl::parse(text).expect("a URL")
}

pub fn pull_of(source: &str) -> PullRequest {
    PullRequest {
        source: url(source),
        headers: forwarded(&[("Authorization", "Bearer SECRET")]),
        options: TransferOptions::default(),
    }
}

pub fn push_to(target: &str) -> PushRequest {
    PushRequest {
        target: url(target),
        headers: forwarded(&[("Authorization", "Bearer SECRET")]),
        options: TransferOptions::default(),
    }
}
