//! Doors that send clients to each other.

use std::time::Duration;

use bytes::Bytes;
use dewar_xrootd_client::{Client, Error};
use dewar_xrootd_proto::options::{open as bits, server};
use dewar_xrootd_proto::reply::{OpenReply, ProtocolReply};
use dewar_xrootd_proto::request::{HandleOrPath, Open, Protocol, Stat};
use dewar_xrootd_proto::{ErrorCode, FileHandle, QueryKind, Reply, Request};
use tokio::time::{Instant, sleep};

use super::native_client::{opening, place};
use super::rig::{Rig, TestClient as Wire, run};
use crate::{DoorConfig, Redirect, RedirectMode, RedirectTarget};

/// Sends clients to the doors on these ports, all of this machine.
fn to(when: RedirectMode, reads: &[u16], writes: &[u16]) -> DoorConfig {
    let list = |ports: &[u16]| {
        let rules = ports.iter().map(|port| format!("127.0.0.1:{port}"));
        rules
            .map(|rule| RedirectTarget::parse(&rule).expect("a rule"))
            .collect()
    };
    DoorConfig {
        redirect: Redirect {
            when,
            reads: list(reads),
            writes: list(writes),
        },
        ..DoorConfig::default()
    }
}

/// A file of that name with that content.
async fn put(rig: &Rig, path: &str, data: &'static [u8]) {
    let file = Client::default()
        .open(&place(rig), &opening(path, bits::NEW))
        .await;
    let file = file.expect("opened");
    let written = file.write(0, Bytes::from_static(data)).await;
    written.expect("written");
    file.close().await.expect("closed");
}

fn open(path: &str, options: u16) -> Request {
    Request::Open(Open {
        options,
        path: path.to_owned(),
        ..Open::default()
    })
}

fn stat(path: &str) -> Request {
    Request::Stat(Stat {
        options: 0,
        wants: 0,
        target: HandleOrPath::Path(path.to_owned()),
    })
}

/// The answer as soon as it is no longer that nobody is there.
async fn settled(client: &mut Wire, request: &Request) -> Reply {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        match client.ask(request).await {
            Reply::Wait { seconds: 2, .. } if Instant::now() < give_up => {
                sleep(Duration::from_millis(20)).await;
            }
            reply => return reply,
        }
    }
}

fn port_of(reply: &Reply) -> Option<(u16, &str)> {
    match reply {
        Reply::Redirect { port, host } => Some((u16::try_from(*port).ok()?, host)),
        _ => None,
    }
}

#[test]
fn a_redirector_sends_clients_to_servers_that_are_there_in_turns() {
    run(async {
        let (one, two) = (Rig::new(1).await, Rig::new(2).await);
        put(&one, "/first/a", b"abc").await;
        put(&two, "/first/a", b"abc").await;
        let (a, b) = (one.address.port(), two.address.port());
        // Nobody needs to prove anything to it.
        let config = to(RedirectMode::Always, &[a, b], &[a]);
        let redirector = Rig::with(3, config, false).await;
        let mut client = redirector.client().await;
        let mut found = Vec::new();
        for _ in 0..4 {
            let reply = settled(&mut client, &stat("/first/a")).await;
            let (port, host) = port_of(&reply).expect("sent on");
            assert_eq!(host, "127.0.0.1?tried=127.0.0.1");
            found.push(port);
        }
        found.sort_unstable();
        found.dedup();
        assert!(found.iter().all(|port| [a, b].contains(port)), "{found:?}");
        // What changes something goes where that may be.
        for request in [
            open("/first/new", bits::NEW),
            Request::Rm {
                path: "/first/a".to_owned(),
            },
        ] {
            let reply = client.ask(&request).await;
            assert_eq!(port_of(&reply).expect("sent on").0, a);
        }
        // What is about itself it answers itself.
        let role = Request::Query {
            kind: QueryKind::Config.number(),
            handle: FileHandle::default(),
            argument: Bytes::from_static(b"role"),
        };
        assert_eq!(
            client.ask(&role).await,
            Reply::Ok(Bytes::from_static(b"manager\n"))
        );
        let hello = Request::Protocol(Protocol::default());
        let Reply::Ok(body) = client.ask(&hello).await else {
            panic!("no hello");
        };
        let flags = ProtocolReply::decode(&body).expect("a hello").flags;
        assert_eq!(
            flags & (server::IS_MANAGER | server::IS_SERVER),
            server::IS_MANAGER
        );
        // A client that goes where it is sent reads the file.
        let file = Client::default();
        let file = file
            .open(&place(&redirector), &opening("/first/a", bits::READ))
            .await;
        let file = file.expect("opened");
        assert_eq!(file.read(0, 10).await.expect("read").concat(), b"abc");
    });
}

#[test]
fn who_tried_all_is_told_why_or_to_wait() {
    run(async {
        let one = Rig::new(1).await;
        let config = to(RedirectMode::Always, &[one.address.port()], &[]);
        let redirector = Rig::with(3, config, false).await;
        let mut client = redirector.client().await;
        assert!(port_of(&settled(&mut client, &stat("/first/a")).await).is_some());
        let missing = client
            .ask(&stat("/first/a?tried=127.0.0.1&triedrc=enoent"))
            .await;
        assert!(
            matches!(&missing, Reply::Error { code, .. } if *code == ErrorCode::NotFound.number()),
            "{missing:?}"
        );
        // What could not be reached once is tried again when it was seen since, and then no more.
        let again = client
            .ask(&stat("/first/a?tried=127.0.0.1&triedrc=srverr"))
            .await;
        assert!(port_of(&again).is_some(), "{again:?}");
        let twice = "/first/a?tried=127.0.0.1,127.0.0.1&triedrc=srverr,srverr";
        let over = client.ask(&stat(twice)).await;
        assert!(
            matches!(&over, Reply::Error { code, .. } if *code == ErrorCode::NoReplicas.number()),
            "{over:?}"
        );
        let write = client.ask(&open("/first/b", bits::NEW)).await;
        assert!(
            matches!(&write, Reply::Error { code, .. } if *code == ErrorCode::FsReadOnly.number()),
            "{write:?}"
        );
        // It is known at once when a server stops.
        one.stop();
        sleep(Duration::from_millis(300)).await;
        let later = client.ask(&stat("/first/a")).await;
        assert!(matches!(later, Reply::Wait { seconds: 2, .. }), "{later:?}");
    });
}

#[test]
fn redirectors_that_know_each_other_send_nobody_in_a_circle() {
    run(async {
        let ports = [0; 2].map(|_| {
            let free = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
            free.local_addr().expect("bound").port()
        });
        let one = Rig::on(
            ports[0],
            1,
            to(RedirectMode::Always, &[ports[1]], &[]),
            false,
        )
        .await;
        let _two = Rig::on(
            ports[1],
            2,
            to(RedirectMode::Always, &[ports[0]], &[]),
            false,
        )
        .await;
        let mut client = one.client().await;
        assert!(port_of(&settled(&mut client, &stat("/x")).await).is_some());
        let lost = Client::default()
            .open(&place(&one), &opening("/x", bits::READ))
            .await;
        let code = lost.err().and_then(|error| error.code());
        assert_eq!(code, Some(ErrorCode::NoReplicas));
    });
}

#[test]
fn a_gateway_that_stops_hands_over_what_would_have_to_wait() {
    run(async {
        let other = Rig::new(1).await;
        put(&other, "/first/a", b"there").await;
        let config = to(RedirectMode::Stopping, &[other.address.port()], &[]);
        let gateway = Rig::with(2, config, true).await;
        put(&gateway, "/first/a", b"here").await;
        let mut client = gateway.client().await;
        let Reply::Ok(body) = client.ask(&open("/first/a", bits::READ)).await else {
            panic!("not opened");
        };
        let opened = OpenReply::decode(body).expect("opened");
        sleep(Duration::from_millis(300)).await;
        gateway.stop();
        // One that was here must wait, and so must what writes.
        let reply = client.ask(&open("/first/a", bits::READ)).await;
        let (port, host) = port_of(&reply).expect("sent on");
        assert_eq!(
            (port, host),
            (other.address.port(), "127.0.0.1?tried=127.0.0.1")
        );
        for (path, options) in [
            ("/first/b", bits::NEW),
            (
                "/first/a?tpc.key=0123456789abcdef&tpc.dst=localhost",
                bits::READ,
            ),
        ] {
            let later = client.ask(&open(path, options)).await;
            assert!(matches!(later, Reply::Wait { seconds: 5, .. }), "{later:?}");
        }
        let closed = client
            .ask(&Request::Close {
                handle: opened.handle,
            })
            .await;
        assert_eq!(closed, Reply::Ok(Bytes::new()));
    });
}

#[test]
fn a_gateway_with_much_to_do_hands_over_to_one_with_little() {
    run(async {
        let other = Rig::new(1).await;
        put(&other, "/first/a", b"there").await;
        let config = to(RedirectMode::Balanced, &[other.address.port()], &[]);
        let gateway = Rig::with(2, config, true).await;
        put(&gateway, "/first/a", b"here").await;
        let mut client = gateway.client().await;
        sleep(Duration::from_millis(300)).await;
        let few = client.ask(&open("/first/a", bits::READ)).await;
        assert!(matches!(few, Reply::Ok(_)), "{few:?}");
        let mut crowd = Vec::new();
        for _ in 0..15 {
            crowd.push(gateway.client().await);
        }
        let many = client.ask(&open("/first/a", bits::READ)).await;
        assert!(port_of(&many).is_some(), "{many:?}");
        // Who was sent here is served, and who writes stays.
        for (path, options) in [
            ("/first/a?tried=192.0.2.1", bits::READ),
            ("/first/b", bits::NEW),
        ] {
            let here = client.ask(&open(path, options)).await;
            assert!(matches!(here, Reply::Ok(_)), "{here:?}");
        }
        let led = Client::default()
            .open(&place(&gateway), &opening("/first/a", bits::READ))
            .await;
        let led = led
            .map_err(|error: Error| error.to_string())
            .expect("opened");
        assert_eq!(led.read(0, 10).await.expect("read").concat(), b"there");
    });
}
