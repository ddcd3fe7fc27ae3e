//! Who is let in, and what a client that is not let in can make the door do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use dewar_auth::AcceptedConnection;
use dewar_xrootd_proto::options::open;
use dewar_xrootd_proto::request::Login;
use dewar_xrootd_proto::{ErrorCode, Handshake, Reply, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::rig::{Rig, run};
use super::{code_of, opening};
use crate::{AllowList, AllowRule, DoorConfig, TpcConfig};

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

/// Counts what it hears.
#[derive(Default)]
struct Slot(AtomicUsize);

impl AcceptedConnection for Slot {
    fn authenticated(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn is_crowded(&self) -> bool {
        false
    }
}

#[test]
fn a_connection_counts_as_authenticated_with_a_credential_only() {
    run(async {
        for (seed, open, told) in [(41, true, 1), (42, false, 0)] {
            let rig = Rig::with(seed, DoorConfig::default(), open).await;
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
            let address = listener.local_addr().expect("bound");
            let (accepted, socket) = tokio::join!(listener.accept(), TcpStream::connect(address));
            let (accepted, peer) = accepted.expect("accepted");
            let (door, slot) = (Arc::clone(&rig.door), Arc::new(Slot::default()));
            let counted = Arc::clone(&slot);
            tokio::spawn(async move {
                door.serve(accepted, peer, counted, CancellationToken::new())
                    .await;
            });
            // With nothing to show but that it comes for third-party copies.
            let mut client = Rig::greeted(socket.expect("connected"), 4).await;
            assert_eq!(slot.0.load(Relaxed), 0);
            client.ask(&Request::Login(Login::default())).await;
            let auth = Request::Auth {
                kind: *b"host",
                credential: Bytes::from_static(b"host\0"),
            };
            client.ask(&auth).await;
            assert_eq!(slot.0.load(Relaxed), told);
        }
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
