//! A door on a store in memory, and a client that speaks through the codec.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use dewar_auth::{Bounds, Caller, MasterKeys, Origin, UncountedConnection};
use dewar_catalog::record::CopyState;
use dewar_disks::JournalPin;
use dewar_disks::blob::BlobStore;
use dewar_disks::pool::{DewarId, Member, Pool};
use dewar_disks::segment::SegmentLimits;
use dewar_disks::upkeep::UpkeepConfig;
use dewar_disks::{DiskParts, Disks};
use dewar_env::BoxFuture;
use dewar_env::disk::sim::SimWorld;
use dewar_env::worker::WorkerRegistry;
use dewar_kv::MemoryKv;
use dewar_namespace::{DataChanges, Tree};
use dewar_store::api::{BucketRef, ExpectedContent, ObjectRef, WriteMode, WriteRequest};
use dewar_store::quota::{Quota, QuotaTarget};
use dewar_store::{Store, StoreParts};
use dewar_types::{
    BlobId, BucketName, DiskId, Error, ErrorKind, Layout, ObjectKey, Result, TenantName, UserId,
};
use dewar_xrootd_proto::options::protocol;
use dewar_xrootd_proto::page::unwrap_pages;
use dewar_xrootd_proto::reply::{LoginReply, ResponseType};
use dewar_xrootd_proto::request::{Login, PageRead, Protocol};
use dewar_xrootd_proto::{
    Handshake, HandshakeReply, Reply, Request, RequestHeader, ResponseHeader, SessionId, StreamId,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::door::ROOM_UNIT;
use crate::{Callers, Door, DoorConfig, NoMeter, Peer, Proof, SssKey};

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
        false
    }
}

/// Lets everybody in as the same user, or nobody without a proof.
struct Everybody {
    caller: Caller,
    open: bool,
    /// How often connections are found to be those of local clients.
    looks: Arc<AtomicUsize>,
}

impl Callers for Everybody {
    fn of_connection<'a>(&'a self, _: &'a Peer) -> BoxFuture<'a, Result<Option<UserId>>> {
        let take = |looks: usize| looks.checked_sub(1);
        let found = self.open && self.looks.fetch_update(Relaxed, Relaxed, take).is_ok();
        Box::pin(async move { Ok(found.then_some(UserId(1))) })
    }

    fn takes_tokens(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { self.open })
    }

    fn trusts_names(&self, _: &Peer) -> bool {
        self.open && self.looks.load(Relaxed) == 0
    }

    fn service_keys(&self) -> BoxFuture<'_, Arc<Vec<SssKey>>> {
        Box::pin(async { Arc::default() })
    }

    fn by_name<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<UserId>> {
        Box::pin(async move {
            let known = (name == "ann").then_some(UserId(1));
            known.ok_or_else(|| Error::new(ErrorKind::Unauthenticated, "no such name"))
        })
    }

    fn caller<'a>(&'a self, proof: &'a Proof, origin: Origin) -> BoxFuture<'a, Result<Caller>> {
        Box::pin(async move {
            // A token `PERSON.CREDENTIAL` is the same user's, for whom an issuer vouches.
            if let Proof::Token(token) = proof
                && let Some((person, credential)) = token.reveal().split_once('.')
                && let Some(user) = self.caller.user()
            {
                let bounds = Bounds {
                    credential: credential.into(),
                    provider: Some("issuer".into()),
                    claims: vec![("issuer:sub".into(), vec![person.into()])],
                    ..Bounds::default()
                };
                let user = Arc::new(user.clone());
                return Ok(Caller::by_token(user, Arc::new(bounds), origin));
            }
            Ok(self.caller.clone())
        })
    }
}

pub(super) struct Rig {
    pub(super) door: Arc<Door>,
    /// Who owns the bucket `first`.
    pub(super) caller: Caller,
    pub(super) address: SocketAddr,
    /// How often connections are still found to be those of local clients.
    pub(super) looks: Arc<AtomicUsize>,
    tree: Arc<Tree>,
    stop: CancellationToken,
    _workers: WorkerRegistry,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}

impl Rig {
    /// Bytes of room that answers hold.
    pub(super) fn room_out_held(&self) -> usize {
        let all = self.door.config.limits.buffer_bytes / ROOM_UNIT;
        (all - self.door.room_out.available_permits()) * ROOM_UNIT
    }

    /// The server stops.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    pub(super) async fn new(seed: u64) -> Self {
        Self::with(seed, DoorConfig::default(), true).await
    }

    /// Another door; `open` for everybody, or for nobody.
    pub(super) async fn with(seed: u64, config: DoorConfig, open: bool) -> Self {
        Self::on(0, seed, config, open).await
    }

    /// The same on a port that is known before.
    pub(super) async fn on(port: u16, seed: u64, config: DoorConfig, open: bool) -> Self {
        let world = SimWorld::with_disks(seed, 4);
        let env = world.env();
        let layout = Layout {
            unit: 8192,
            ..Layout::new(2, 1).expect("valid")
        };
        let disks = world.dyn_disks().into_iter().zip(1..);
        let members = disks.map(|(disk, id)| Member {
            pool: 0,
            id: DiskId(id),
            disk,
        });
        let pool = Pool::new(env.clone(), DewarId(1), 0, layout, members.collect());
        let blobs = Arc::new(BlobStore::new(Arc::new(pool.expect("no id twice"))));
        let kv = Arc::new(MemoryKv::new());
        let tree = Tree::open(Arc::clone(&kv) as _, env.clone(), 1).await;
        let tree = Arc::new(tree.expect("opened"));
        let disks = Disks::new(DiskParts {
            env: env.clone(),
            catalog: tree.catalog().clone(),
            blobs,
            journal: Arc::new(NoJournal),
            segments: SegmentLimits::default(),
            upkeep: UpkeepConfig::default(),
        });
        let store = Store::new(StoreParts {
            master: Arc::new(MasterKeys::generate(&*env.rng)),
            env: env.clone(),
            tree: Arc::clone(&tree),
            disks,
            small_bytes_max: 10_000,
            part_bytes_min: dewar_store::limits::PART_BYTES_MIN,
            lifecycle: dewar_store::lifecycle::LifecycleConfig::default(),
            listing: dewar_store::ListingConfig::default(),
            ownership: dewar_auth::Ownership::default(),
            digests: dewar_store::DigestLimits::default(),
        });
        let workers = dewar_store::workers::start(&store, BlobId(0));
        let user = store.accounts().add_user(UserId(10), "ann").await;
        let caller = Caller::for_user(user.expect("added"));
        let first = BucketRef::own(BucketName::new("first").expect("valid"));
        store.create_bucket(&caller, &first).await.expect("made");
        let looks = Arc::new(AtomicUsize::new(usize::MAX));
        let callers = Arc::new(Everybody {
            caller: caller.clone(),
            open,
            looks: Arc::clone(&looks),
        });
        let meter = Arc::new(NoMeter);
        let door = Arc::new(Door::new(store, env, config, callers, None, meter));
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("bound");
        let address = listener.local_addr().expect("bound");
        let stop = CancellationToken::new();
        let (serving, token) = (Arc::clone(&door), stop.clone());
        tokio::spawn(async move {
            while let Ok((socket, peer)) = listener.accept().await {
                let (door, stop) = (Arc::clone(&serving), token.clone());
                tokio::spawn(async move {
                    door.serve(socket, peer, Arc::new(UncountedConnection), stop)
                        .await
                });
            }
        });
        Self {
            door,
            caller,
            address,
            looks,
            tree,
            stop,
            _workers: workers,
        }
    }

    pub(super) async fn connect(&self) -> TestClient {
        let socket = TcpStream::connect(self.address).await.expect("connected");
        Self::greeted(socket, 3).await
    }

    /// A client that has nothing to show but keys of third-party copies.
    pub(super) async fn nobody(&self) -> TestClient {
        let socket = TcpStream::connect(self.address).await.expect("connected");
        let mut client = Self::greeted(socket, protocol::EXPECT_TPC).await;
        let told = client.ask(&Request::Login(Login::default())).await;
        assert!(matches!(told, Reply::Ok(_)), "{told:?}");
        let auth = Request::Auth {
            kind: *b"host",
            credential: Bytes::from_static(b"host\0"),
        };
        assert_eq!(client.ask(&auth).await, Reply::Ok(Bytes::new()));
        client
    }

    /// A client that is logged in, between which and the door the sockets hold next to nothing.
    pub(super) async fn narrow(&self) -> TestClient {
        let listening = TcpSocket::new_v4().expect("a socket");
        listening.set_send_buffer_size(4096).expect("set");
        listening.bind(([127, 0, 0, 1], 0).into()).expect("bound");
        let listener = listening.listen(1).expect("listens");
        let connecting = TcpSocket::new_v4().expect("a socket");
        connecting.set_recv_buffer_size(4096).expect("set");
        let address = listener.local_addr().expect("bound");
        let (accepted, socket) = tokio::join!(listener.accept(), connecting.connect(address));
        let (accepted, peer) = accepted.expect("accepted");
        let (door, stop) = (Arc::clone(&self.door), self.stop.clone());
        tokio::spawn(async move {
            door.serve(accepted, peer, Arc::new(UncountedConnection), stop)
                .await
        });
        let client = Self::greeted(socket.expect("connected"), 3).await;
        Self::logged_in(client).await
    }

    pub(super) async fn greeted(socket: TcpStream, expect: u8) -> TestClient {
        let mut client = TestClient {
            socket,
            next: 0,
            session: SessionId::default(),
        };
        let mut hello = BytesMut::from(&Handshake::BYTES[..]);
        let protocol = Protocol {
            version: 0x520,
            flags: 0,
            expect,
        };
        Request::Protocol(protocol).encode(StreamId([0, 0]), &mut hello);
        client.socket.write_all(&hello).await.expect("sent");
        let mut reply = [0; HandshakeReply::LEN];
        client
            .socket
            .read_exact(&mut reply)
            .await
            .expect("received");
        assert_eq!(
            HandshakeReply::decode(&reply).expect("a hello").version,
            dewar_xrootd_proto::VERSION
        );
        client.receive().await;
        client
    }

    /// A client that is logged in.
    pub(super) async fn client(&self) -> TestClient {
        Self::logged_in(self.connect().await).await
    }

    /// Limits the bytes of the first bucket.
    pub(super) async fn limit(&self, max_bytes: u64) {
        let first = BucketRef::own(BucketName::new("first").expect("valid"));
        let quota = Quota {
            max_bytes: Some(max_bytes),
            ..Quota::default()
        };
        let target = QuotaTarget::Bucket(first);
        let limited = self.door.store.set_quota(&target, quota).await;
        limited.expect("limited");
    }

    /// Puts a file as S3 does.
    /// Makes all copies of a file nearline, as a tape pool would.
    pub(super) async fn recall_is_needed(&self, path: &str) {
        let tenant = self.tree.catalog().tenant(&TenantName::default()).await;
        let tenant = tenant.expect("read").expect("there");
        let name = BucketName::new("first").expect("valid");
        let bucket = self.tree.bucket(&tenant, &name).await;
        let bucket = bucket.expect("read").expect("there");
        let key = ObjectKey::new(path.trim_start_matches("/first/")).expect("valid");
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

    pub(super) async fn put(&self, path: &str, bytes: &[u8]) {
        let key = path.trim_start_matches("/first/");
        let write = WriteRequest::file(
            ObjectRef {
                bucket: BucketRef::own(BucketName::new("first").expect("valid")),
                key: ObjectKey::new(key).expect("valid"),
            },
            WriteMode::Replace,
        );
        let revision = self.door.store.write(&self.caller, write).await;
        let mut revision = revision.expect("begun");
        let bytes = Bytes::copy_from_slice(bytes);
        revision.write_at(0, bytes.into()).await.expect("written");
        revision
            .commit(ExpectedContent::of_size(None))
            .await
            .expect("put");
    }

    /// The same, of the reference implementation and of a process with this number.
    pub(super) async fn client_of(&self, pid: u32) -> TestClient {
        Self::logged_in_as(self.connect().await, pid).await
    }

    async fn logged_in(client: TestClient) -> TestClient {
        Self::logged_in_as(client, Login::default().pid).await
    }

    async fn logged_in_as(mut client: TestClient, pid: u32) -> TestClient {
        let info = match pid {
            0 => Bytes::new(),
            _ => Bytes::from_static(b"xrd.appname=test&xrd.rn=v5.5.3"),
        };
        let login = Login {
            pid,
            info,
            ..Login::default()
        };
        match client.ask(&Request::Login(login)).await {
            Reply::Ok(body) => {
                client.session = LoginReply::decode(body).expect("a login").session;
            }
            reply => panic!("{reply:?}"),
        }
        client
    }

    /// A connection bound to another's session.
    pub(super) async fn bound(&self, to: &TestClient) -> TestClient {
        self.bound_as(to, 1).await
    }

    /// The same, that shall get this number.
    pub(super) async fn bound_as(&self, to: &TestClient, number: u8) -> TestClient {
        let mut client = self.connect().await;
        let session = to.session;
        let reply = client.ask(&Request::Bind { session }).await;
        assert_eq!(reply, Reply::Ok(Bytes::copy_from_slice(&[number])));
        client
    }
}

pub(super) struct TestClient {
    socket: TcpStream,
    next: u16,
    pub(super) session: SessionId,
}

impl TestClient {
    pub(super) async fn send(&mut self, request: &Request, data: Bytes) -> StreamId {
        self.next = self.next.wrapping_add(1);
        let stream = StreamId(self.next.to_be_bytes());
        let mut wire = BytesMut::new();
        request.encode(stream, &mut wire);
        wire.extend_from_slice(&data);
        self.socket.write_all(&wire).await.expect("sent");
        stream
    }

    /// The next reply, its parts put together.
    pub(super) async fn receive(&mut self) -> (StreamId, Reply) {
        let mut parts = BytesMut::new();
        loop {
            let (stream, reply) = self.frame().await;
            match reply {
                Reply::OkSoFar(part) => parts.extend_from_slice(&part),
                Reply::Ok(last) if !parts.is_empty() => {
                    parts.extend_from_slice(&last);
                    return (stream, Reply::Ok(parts.freeze()));
                }
                reply => return (stream, reply),
            }
        }
    }

    /// Sends bytes as they are.
    pub(super) async fn send_data(&mut self, data: &[u8]) {
        // The door may have hung up.
        let _ = self.socket.write_all(data).await;
    }

    /// The header of a request, behind which so many bytes are announced.
    pub(super) async fn raw_of(&mut self, code: u16, len: u32) {
        let header = RequestHeader {
            stream: StreamId([9, 9]),
            code,
            body: [0; 16],
            len,
        };
        let mut wire = BytesMut::new();
        header.encode(&mut wire);
        self.send_data(&wire).await;
    }

    async fn frame(&mut self) -> (StreamId, Reply) {
        let mut head = [0; ResponseHeader::LEN];
        self.socket.read_exact(&mut head).await.expect("a header");
        let header = ResponseHeader::decode(&head).expect("a header");
        let mut body = vec![0; header.len as usize];
        self.socket.read_exact(&mut body).await.expect("a body");
        let reply = Reply::decode(&header, Bytes::from(body)).expect("a reply");
        (header.stream, reply)
    }

    pub(super) async fn ask(&mut self, request: &Request) -> Reply {
        self.ask_with(request, Bytes::new()).await
    }

    pub(super) async fn ask_with(&mut self, request: &Request, data: Bytes) -> Reply {
        let stream = self.send(request, data).await;
        let (its, reply) = self.receive().await;
        assert_eq!(its, stream);
        reply
    }

    /// The bytes of a page read, checked.
    pub(super) async fn pages(&mut self, read: PageRead) -> Bytes {
        self.send(&Request::Pgread(read), Bytes::new()).await;
        let mut out = BytesMut::new();
        loop {
            let Reply::Status(status) = self.frame().await.1 else {
                panic!("no pages");
            };
            let mut data = vec![0; status.data_len as usize];
            self.socket.read_exact(&mut data).await.expect("pages");
            out.extend_from_slice(&unwrap_pages(status.offset, data.into()).expect("sound"));
            if status.progress == ResponseType::Final {
                return out.freeze();
            }
        }
    }

    /// Sends a request that may be none, and takes no answer.
    pub(super) async fn raw(&mut self, code: u16, body: [u8; 16], data: &[u8]) {
        let header = RequestHeader {
            stream: StreamId([9, 9]),
            code,
            body,
            len: data.len() as u32,
        };
        let mut wire = BytesMut::new();
        header.encode(&mut wire);
        wire.extend_from_slice(data);
        // The door may have hung up.
        let _ = self.socket.write_all(&wire).await;
    }

    pub(super) async fn is_closed(&mut self) -> bool {
        self.is_closed_within(Duration::from_secs(5)).await
    }

    pub(super) async fn is_closed_within(&mut self, time: Duration) -> bool {
        let mut byte = [0];
        let read = tokio::time::timeout(time, self.socket.read(&mut byte)).await;
        matches!(read, Ok(Ok(0) | Err(_)))
    }
}
