//! A store on six simulated disks with a front, two users and a bucket.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dewar_auth::{MasterKeys, Secret};
use dewar_disks::JournalPin;
use dewar_disks::blob::BlobStore;
use dewar_disks::pool::{DewarId, Member, Pool};
use dewar_disks::segment::SegmentLimits;
use dewar_disks::upkeep::UpkeepConfig;
use dewar_disks::{DiskParts, Disks};
use dewar_env::Env;
use dewar_env::disk::sim::SimWorld;
use dewar_http_front::{AnswerBody, Arrival, HttpFront as _, WireBody};
use dewar_kv::Kv;
use dewar_kv::memory::MemoryKv;
use dewar_namespace::Tree;
use dewar_store::{Store, StoreParts};
use dewar_transfer::{
    AllowList, AllowRule, ConnectRules, QueueLimits, TransferClient, TransferConfig,
    TransferRegistry,
};
use dewar_types::{DiskId, Layout, RequestId, UserId};
use dewar_webdav::{ThirdPartyCopies, WebDav, WebDavConfig};
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

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

/// The machine, kept alive, and its front.
pub struct Fixture {
    front: Arc<WebDav>,
    world: SimWorld,
    /// The copies, of a front that does any.
    pub registry: Option<Arc<TransferRegistry>>,
}

impl Fixture {
    /// Takes the first `count` disks away.
    pub fn lose_disks(&self, count: usize) {
        for disk in &self.world.disks()[..count] {
            disk.vanish();
        }
    }

    /// A request of the owner of the bucket.
    pub fn owner(&self, method: &str, target: &str) -> TestRequest<'_> {
        self.request(method, target)
            .basic("KEY-owner", "secret of owner")
    }

    /// A request without credentials, from this machine.
    pub fn request(&self, method: &str, target: &str) -> TestRequest<'_> {
        TestRequest {
            fixture: self,
            head: Request::builder()
                .method(method)
                .uri(target)
                .header("host", "localhost:8080"),
            body: Vec::new(),
            wire: None,
            address: [127, 0, 0, 1],
            tls: None,
        }
    }

    /// Writes a file.
    pub async fn put(&self, path: &str, body: &[u8]) -> TestResponse {
        self.owner("PUT", path).body(body).send().await
    }

    pub async fn get(&self, path: &str) -> TestResponse {
        self.owner("GET", path).send().await
    }
}

pub struct TestRequest<'a> {
    fixture: &'a Fixture,
    head: http::request::Builder,
    body: Vec<u8>,
    wire: Option<WireBody>,
    address: [u8; 4],
    tls: Option<&'static str>,
}

impl TestRequest<'_> {
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.head = self.head.header(name, value);
        self
    }

    pub fn basic(self, name: &str, password: &str) -> Self {
        let credentials = STANDARD.encode(format!("{name}:{password}"));
        self.header("authorization", &format!("Basic {credentials}"))
    }

    /// From another machine.
    pub fn from(mut self, address: [u8; 4], tls: Option<&'static str>) -> Self {
        (self.address, self.tls) = (address, tls);
        self
    }

    pub fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self.header("content-length", &body.len().to_string())
    }

    /// A body of this stream.
    pub fn wire(mut self, wire: WireBody) -> Self {
        self.wire = Some(wire);
        self
    }

    /// The answer as it comes, whose body may be dropped before its end.
    pub async fn open(self) -> http::Response<AnswerBody> {
        let pieces: Vec<_> = self
            .body
            .chunks(8192)
            .map(|part| Ok(Frame::data(Bytes::copy_from_slice(part))))
            .collect();
        let wire = self.wire;
        let wire = wire.unwrap_or_else(|| BodyExt::boxed(StreamBody::new(stream::iter(pieces))));
        let request = self.head.body(wire).expect("a request");
        let arrival = Arrival {
            id: RequestId::nth(1, 1),
            peer: (self.address, 4711).into(),
            tls: self.tls,
        };
        let front = Arc::clone(&self.fixture.front);
        front.answer(request, arrival).await
    }

    pub async fn send(self) -> TestResponse {
        let (head, body) = self.open().await.into_parts();
        let mut frames = body.into_data_stream();
        let mut bytes = Vec::new();
        let mut broken = false;
        while let Some(frame) = frames.next().await {
            match frame {
                Ok(frame) => bytes.extend_from_slice(&frame),
                Err(_) => broken = true,
            }
        }
        TestResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body: bytes.into(),
            broken,
        }
    }
}

#[derive(Debug)]
pub struct TestResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The body ended with an error.
    pub broken: bool,
}

impl TestResponse {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().expect("text"))
    }

    /// All hrefs of a multistatus.
    pub fn hrefs(&self) -> Vec<String> {
        let text = self.text();
        let parts = text.split("<D:href>").skip(1);
        let parts = parts.map(|part| part.split_once("</D:href>").expect("closed").0);
        parts.map(str::to_owned).collect()
    }

    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{:?} {}", self.headers, self.text());
        self
    }
}

pub async fn fixture() -> Fixture {
    fixture_with(WebDavConfig::default()).await
}

pub async fn fixture_with(config: WebDavConfig) -> Fixture {
    fixture_of(config, |_| None).await
}

/// A front whose copies may connect to 127.0.0.1, with these limits.
pub async fn fixture_with_copies(limits: QueueLimits) -> Fixture {
    let copies = |env: Env| {
        let rule = AllowRule::parse("127.0.0.1").expect("a rule");
        let config = TransferConfig {
            rules: ConnectRules {
                allow: AllowList(vec![rule]),
                ..ConnectRules::default()
            },
            retries: 0,
            ..TransferConfig::default()
        };
        Some(ThirdPartyCopies {
            client: Arc::new(TransferClient::new(config, env.clone())),
            registry: TransferRegistry::new(env, limits, None, None),
        })
    };
    fixture_of(WebDavConfig::default(), copies).await
}

async fn fixture_of(
    config: WebDavConfig,
    copies: impl FnOnce(Env) -> Option<ThirdPartyCopies>,
) -> Fixture {
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
    for (id, name) in [(1, "owner"), (2, "stranger")] {
        let accounts = store.accounts();
        accounts.add_user(UserId(id), name).await.expect("a user");
        let key = Some(format!("KEY-{name}"));
        let secret = Some(Secret::new(format!("secret of {name}")));
        accounts.add_key(name, key, secret).await.expect("a key");
    }
    store.refresh_space().await;
    let copies = copies(env.clone());
    let registry = copies.as_ref().map(|copies| Arc::clone(&copies.registry));
    let front = WebDav::new(store, env, config);
    let front = Arc::new(match copies {
        Some(copies) => front.with_copies(copies),
        None => front,
    });
    let fixture = Fixture {
        front,
        world,
        registry,
    };
    let made = fixture.owner("MKCOL", &format!("/{BUCKET}")).send().await;
    made.is(201);
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

/// The same on a runtime with sockets and a clock that runs.
pub fn talk_to_peers(conversation: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(conversation);
}
