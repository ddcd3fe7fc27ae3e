//! Who is let in, and what a client that is not let in can make the door do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use dewar_auth::AcceptedConnection;
use dewar_auth::fair_share::ShareOwner;
use dewar_xrootd_proto::options::open;
use dewar_xrootd_proto::reply::LoginReply;
use dewar_xrootd_proto::request::Login;
use dewar_xrootd_proto::{ErrorCode, Handshake, Reply, Request};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::rig::{Rig, TestClient, run};
use super::{code_of, opening};
use crate::{AllowList, AllowRule, DoorConfig, Redirect, RedirectMode, RedirectTarget, TpcConfig};

const KEY: &str = "0123456789abcdef01234567";

fn mkdir(path: &str) -> Request {
    Request::Mkdir {
        options: 0,
        mode: 0o755,
        path: path.to_owned(),
    }
}

#[test]
fn a_local_client_is_looked_at_again_before_it_acts() {
    run(async {
        let rig = Rig::new(40).await;
        // Its connection is its own at the login, and somebody else's when the answer has left.
        rig.looks.store(1, Relaxed);
        let mut client = rig.connect().await;
        let login = client
            .send(&Request::Login(Login::default()), Bytes::new())
            .await;
        client.send(&mkdir("/first/made"), Bytes::new()).await;
        let (stream, reply) = client.receive().await;
        assert!(
            stream == login && matches!(reply, Reply::Ok(_)),
            "{reply:?}"
        );
        assert!(client.is_closed().await);
        assert_eq!(rig.door.sessions(), 0);
        rig.looks.store(usize::MAX, Relaxed);
        let mut client = rig.client().await;
        assert_eq!(
            client.ask(&mkdir("/first/made")).await,
            Reply::Ok(Bytes::new())
        );
    });
}

/// Remembers for whom it shall count, and refuses what is more than its client may have.
struct Slot {
    clients: Mutex<Vec<ShareOwner>>,
    left: AtomicUsize,
}

impl Slot {
    fn new(left: usize) -> Arc<Self> {
        Arc::new(Self {
            clients: Mutex::default(),
            left: AtomicUsize::new(left),
        })
    }
}

impl AcceptedConnection for Slot {
    fn authenticated(&self, client: &ShareOwner) -> bool {
        self.clients.lock().push(client.clone());
        let take = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Relaxed, Relaxed, take).is_ok()
    }

    fn is_crowded(&self) -> bool {
        false
    }
}

/// A connection in this slot, whose client expects this.
async fn connect(rig: &Rig, slot: &Arc<Slot>, expect: u8) -> TestClient {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("bound");
    let (accepted, socket) = tokio::join!(listener.accept(), TcpStream::connect(address));
    let (accepted, peer) = accepted.expect("accepted");
    let (door, slot) = (Arc::clone(&rig.door), Arc::clone(slot));
    tokio::spawn(async move {
        door.serve(accepted, peer, slot, CancellationToken::new())
            .await;
    });
    Rig::greeted(socket.expect("connected"), expect).await
}

#[test]
fn a_connection_counts_as_authenticated_with_a_credential_only() {
    run(async {
        for (seed, open, told) in [(41, true, 1), (42, false, 0)] {
            let rig = Rig::with(seed, DoorConfig::default(), open).await;
            let slot = Slot::new(1);
            // With nothing to show but that it comes for third-party copies.
            let mut client = connect(&rig, &slot, 4).await;
            assert_eq!(slot.clients.lock().len(), 0);
            client.ask(&Request::Login(Login::default())).await;
            let auth = Request::Auth {
                kind: *b"host",
                credential: Bytes::from_static(b"host\0"),
            };
            client.ask(&auth).await;
            assert_eq!(slot.clients.lock().len(), told);
        }
    });
}

#[test]
fn logins_and_binds_beyond_the_share_of_an_account_are_refused() {
    run(async {
        let rig = Rig::new(45).await;
        let slot = Slot::new(2);
        let login = Request::Login(Login::default());
        let mut first = connect(&rig, &slot, 3).await;
        let Reply::Ok(reply) = first.ask(&login).await else {
            panic!("not let in");
        };
        let session = LoginReply::decode(reply).expect("a login").session;
        let bind = Request::Bind { session };
        let mut bound = connect(&rig, &slot, 3).await;
        assert_eq!(bound.ask(&bind).await, Reply::Ok(Bytes::from_static(&[1])));
        for request in [&bind, &login] {
            let mut more = connect(&rig, &slot, 3).await;
            let code = ErrorCode::Overloaded.number();
            assert_eq!(code_of(&more.ask(request).await), code);
            assert!(more.is_closed().await);
        }
        let owner = ShareOwner::of(&rig.caller);
        assert_eq!(*slot.clients.lock(), vec![owner; 4]);
        // What was refused takes nothing of the session.
        slot.left.store(1, Relaxed);
        let mut third = connect(&rig, &slot, 3).await;
        assert_eq!(third.ask(&bind).await, Reply::Ok(Bytes::from_static(&[2])));
    });
}

#[test]
fn credentials_beyond_the_share_of_an_account_are_refused() {
    run(async {
        let rig = Rig::new(46).await;
        rig.looks.store(0, Relaxed);
        let slot = Slot::new(1);
        for refusal in [None, Some(ErrorCode::Overloaded)] {
            let mut client = connect(&rig, &slot, 3).await;
            client.ask(&Request::Login(Login::default())).await;
            let auth = Request::Auth {
                kind: *b"unix",
                credential: Bytes::from_static(b"unix\0ann users\0"),
            };
            let code = refusal.map_or(0, ErrorCode::number);
            assert_eq!(code_of(&client.ask(&auth).await), code);
        }
        assert_eq!(slot.clients.lock().len(), 2);
    });
}

#[test]
fn clients_of_a_redirector_count_for_their_address() {
    run(async {
        let target = RedirectTarget::parse("127.0.0.1:1").expect("a rule");
        let config = DoorConfig {
            redirect: Redirect {
                when: RedirectMode::Always,
                reads: vec![target.clone()],
                writes: vec![target],
            },
            ..DoorConfig::default()
        };
        let rig = Rig::with(47, config, true).await;
        let slot = Slot::new(1);
        let login = Request::Login(Login::default());
        let mut first = connect(&rig, &slot, 3).await;
        assert!(matches!(first.ask(&login).await, Reply::Ok(_)));
        let mut second = connect(&rig, &slot, 3).await;
        let code = ErrorCode::Overloaded.number();
        assert_eq!(code_of(&second.ask(&login).await), code);
        let here = ShareOwner::at([127, 0, 0, 1].into());
        assert_eq!(*slot.clients.lock(), vec![here; 2]);
    });
}

#[test]
fn a_client_for_which_there_is_no_room_is_told_so() {
    run(async {
        let rig = Rig::new(43).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("bound");
        let refusing = async {
            let (socket, _) = listener.accept().await.expect("accepted");
            rig.door.refuse(socket).await;
        };
        let asking = async {
            let mut socket = TcpStream::connect(address).await.expect("connected");
            let mut hello = Handshake::BYTES.to_vec();
            // protocol, of stream 7
            hello.extend([0, 7, 11, 190]);
            hello.extend([0; 20]);
            socket.write_all(&hello).await.expect("sent");
            let mut answer = Vec::new();
            socket.read_to_end(&mut answer).await.expect("a clean end");
            answer
        };
        let ((), answer) = tokio::join!(refusing, asking);
        let error = &answer[16..];
        assert_eq!(
            error[..4],
            [0, 7, 4003_u16.to_be_bytes()[0], 4003_u16.to_be_bytes()[1]]
        );
        assert_eq!(error[8..12], ErrorCode::Overloaded.number().to_be_bytes());
    });
}

#[test]
fn names_are_looked_up_for_who_may_use_the_file_only() {
    run(async {
        let config = DoorConfig {
            tpc: TpcConfig {
                sources: AllowList(vec![AllowRule::parse("*").expect("a rule")]),
                ..TpcConfig::default()
            },
            ..DoorConfig::default()
        };
        let rig = Rig::with(44, config, true).await;
        rig.put("/first/there", b"x").await;
        let mut client = rig.client().await;
        let tpc = format!("tpc.key={KEY}&tpc.stage=copy");
        let mut code = async |path: &str, more: &str, options| {
            let path = format!("{path}?{tpc}&{more}");
            code_of(&client.ask(&opening(&path, options)).await)
        };
        // A name that leads nowhere is found out after the file is.
        let there = "tpc.dst=no.such.host.invalid";
        assert_eq!(code("/first/none", there, open::READ).await, 3011);
        assert_eq!(code("/first/there", there, open::READ).await, 3000);
        let from = "tpc.src=no.such.host.invalid&tpc.lfn=/x";
        assert_eq!(code("/none/new", from, open::NEW).await, 3011);
        assert_eq!(code("/first/new", from, open::NEW).await, 3010);
    });
}
