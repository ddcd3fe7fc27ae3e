//! Two doors, and a client that moves nothing itself.

use std::time::Duration;

use bytes::Bytes;
use dewar_auth::Origin;
use dewar_types::UserId;
use dewar_xrootd_client::{Client, Endpoint, Error, File, Identity};
use dewar_xrootd_proto::options::open as bits;
use dewar_xrootd_proto::reply::{OpenReply, ProtocolReply};
use dewar_xrootd_proto::{
    ErrorCode, Handshake, HandshakeReply, QueryKind, Reply, Request, RequestCode, RequestHeader,
    Status, StreamId,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

use super::native_client::{opening, place};
use super::rig::{Rig, run};
use crate::tpc::copy::chunk;
use crate::tpc::fair_share::ShareOwner;
use crate::tpc::keys::{Grant, Grantor};
use crate::{AllowList, AllowRule, DoorConfig, Pace, Proof, TpcConfig};

const KEY: &str = "0123456789abcdef01234567";

fn fetching(rules: &[&str]) -> DoorConfig {
    let rules = rules
        .iter()
        .map(|rule| AllowRule::parse(rule).expect("a rule"));
    DoorConfig {
        tpc: TpcConfig {
            sources: AllowList(rules.collect()),
            copies_max: 2,
            ..TpcConfig::default()
        },
        ..DoorConfig::default()
    }
}

fn data() -> Vec<u8> {
    (0..9_000_001u32)
        .map(|i| (i.wrapping_mul(2_654_435) >> 7) as u8)
        .collect()
}

async fn put(client: &Client, rig: &Rig, path: &str, data: &[u8]) {
    let file = client.open(&place(rig), &opening(path, bits::NEW)).await;
    let file = file.expect("opened");
    for (number, piece) in data.chunks(1 << 20).enumerate() {
        let piece = Bytes::copy_from_slice(piece);
        file.write((number as u64) << 20, piece)
            .await
            .expect("written");
    }
    file.close().await.expect("closed");
}

async fn get(client: &Client, rig: &Rig, path: &str) -> Result<Vec<u8>, Error> {
    let file = client.open(&place(rig), &opening(path, bits::READ)).await?;
    let mut found = Vec::new();
    loop {
        let bytes = file.read(found.len() as u64, 1 << 20).await?.concat();
        if bytes.is_empty() {
            return Ok(found);
        }
        found.extend(bytes);
    }
}

/// The destination's file, opened.
async fn destination(
    client: &Client,
    to: &Rig,
    source: &Endpoint,
    more: &str,
) -> Result<File, Error> {
    let path = format!(
        "/first/to?tpc.key={KEY}&tpc.src={source}&tpc.lfn=/first/from&tpc.stage=copy{more}"
    );
    client.open(&place(to), &opening(&path, bits::DELETE)).await
}

/// The source's file, opened with the key for a destination on this machine.
async fn granted(client: &Client, from: &Rig) -> Result<File, Error> {
    let path = format!("/first/from?tpc.key={KEY}&tpc.dst=127.0.0.1&tpc.stage=copy");
    client.open(&place(from), &opening(&path, bits::READ)).await
}

#[test]
fn a_file_goes_from_one_server_to_the_other() {
    run(async {
        let from = Rig::new(1).await;
        let to = Rig::with(2, fetching(&["127.0.0.0/8"]), true).await;
        let client = Client::default();
        let data = data();
        put(&client, &from, "/first/from", &data).await;
        let size = format!("&oss.asize={}", data.len());
        let target = destination(&client, &to, &place(&from), &size)
            .await
            .expect("opened");
        target.sync().await.expect("armed");
        let source = granted(&client, &from).await.expect("left");
        target.sync().await.expect("copied");
        assert_eq!(target.stat().await.expect("told").size, data.len() as u64);
        // Nobody sees it before the close.
        assert!(get(&client, &to, "/first/to").await.is_err());
        assert!(target.write(0, Bytes::from_static(b"x")).await.is_err());
        source.close().await.expect("closed");
        target.close().await.expect("closed");
        assert!(get(&client, &to, "/first/to").await.expect("there") == data);
    });
}

#[test]
fn a_key_alone_opens_its_file_and_nothing_else() {
    run(async {
        let from = Rig::new(3).await;
        let client = Client::default();
        put(&client, &from, "/first/from", b"what it opens").await;
        let closed = Rig::with(4, DoorConfig::default(), false).await;
        // Nobody comes in without an identity, but for third-party copies.
        let nobody = client
            .connect(&place(&closed))
            .await
            .expect("to be told why");
        let refused = nobody.stat("/first").await.err();
        let code = refused.as_ref().and_then(Error::code);
        assert_eq!(code, Some(ErrorCode::AuthFailed), "{refused:?}");
        let stranger = Client {
            identity: Identity {
                third_party: true,
                ..Identity::default()
            },
            ..Client::default()
        };
        let connection = stranger.connect(&place(&closed)).await.expect("let in");
        for refused in [
            connection.stat("/first").await.err(),
            connection.dirlist("/", 1 << 20).await.err(),
            connection.checksum("/first/from").await.err(),
            connection.remove("/first/from").await.err(),
            File::open(&connection, &opening("/first/from", bits::READ))
                .await
                .err(),
            File::open(&connection, &opening("/first/new", bits::NEW))
                .await
                .err(),
        ] {
            let code = refused.as_ref().and_then(Error::code);
            assert_eq!(code, Some(ErrorCode::NotAuthorized), "{refused:?}");
        }
        // The same door with its file, opened by who left the key.
        let left = closed.door.tpc.keys.leave(
            KEY,
            Grant {
                path: "/first/from".to_owned(),
                origin: "ann.7".to_owned(),
                hosts: vec![[127, 0, 0, 1].into()],
                giver: Grantor {
                    proof: Proof::User(UserId(7)),
                    origin: Origin {
                        address: None,
                        secure: false,
                    },
                },
                until: Instant::now() + Duration::from_secs(9),
                sharer: ShareOwner::named("ann"),
            },
        );
        let _left = left.expect("left");
        let path = format!("/first/from?tpc.key={KEY}&tpc.org=ann.7@here");
        let missing = File::open(&connection, &opening(&path, bits::READ))
            .await
            .err();
        assert_eq!(
            missing.and_then(|error| error.code()),
            Some(ErrorCode::NotFound)
        );
    });
}

#[test]
fn what_must_not_be_asked_is_not() {
    run(async {
        let client = Client::default();
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("bound");
        let port = silent.local_addr().expect("bound").port();
        let source = Endpoint {
            host: "localhost".to_owned(),
            port,
            secure: false,
        };
        for rules in [&["*"][..], &["10.0.0.0/8"], &["*.example"], &[]] {
            let to = Rig::with(5, fetching(rules), true).await;
            let refused = destination(&client, &to, &source, "").await.err();
            let code = refused.as_ref().and_then(Error::code);
            let expected = match rules.is_empty() {
                true => ErrorCode::FsError,
                false => ErrorCode::NotAuthorized,
            };
            assert_eq!(code, Some(expected), "{refused:?}");
        }
        let asked = tokio::time::timeout(Duration::from_millis(50), silent.accept()).await;
        assert!(asked.is_err(), "somebody connected");
    });
}

/// A source that takes connections and says nothing.
async fn silent() -> (tokio::net::TcpListener, Endpoint) {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("bound");
    let source = Endpoint {
        host: "127.0.0.1".to_owned(),
        port: silent.local_addr().expect("bound").port(),
        secure: false,
    };
    (silent, source)
}

/// Lets somebody in at a source, and answers their first `open`.
async fn answer_open(source: &tokio::net::TcpListener, reply: &Reply) -> tokio::net::TcpStream {
    let (mut socket, _) = source.accept().await.expect("the destination");
    let mut hello = [0; Handshake::LEN + RequestHeader::LEN];
    socket.read_exact(&mut hello).await.expect("a hello");
    let mut wire = bytes::BytesMut::from(&HandshakeReply::default().encode()[..]);
    let protocol = ProtocolReply {
        version: 0x511,
        flags: 0x0030_0001,
        ..ProtocolReply::default()
    };
    Reply::Ok(protocol.encode()).encode(StreamId::default(), &mut wire);
    Reply::Ok(vec![7; 16].into()).encode(StreamId::default(), &mut wire);
    socket.write_all(&wire).await.expect("sent");
    // The login, then the open whose stream id is answered.
    let mut stream = [0; 2];
    for _ in 0..2 {
        let mut header = [0; RequestHeader::LEN];
        socket.read_exact(&mut header).await.expect("a request");
        let header = RequestHeader::decode(&header).expect("a request");
        let mut rest = vec![0; header.len as usize];
        socket.read_exact(&mut rest).await.expect("its arguments");
        stream = header.stream.0;
    }
    let mut wire = bytes::BytesMut::new();
    reply.encode(StreamId(stream), &mut wire);
    socket.write_all(&wire).await.expect("sent");
    socket
}

/// Waits until no copy runs any more.
async fn over(rig: &Rig) {
    let until = Instant::now() + Duration::from_secs(5);
    while rig.door.tpc.running.free() < 2 {
        assert!(Instant::now() < until, "the copy goes on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_copy_ends_with_its_connection() {
    run(async {
        let to = Rig::with(6, fetching(&["127.0.0.1"]), true).await;
        let (silent, source) = silent().await;
        let client = Client::default();
        let target = destination(&client, &to, &source, "")
            .await
            .expect("opened");
        target.sync().await.expect("armed");
        let waiting = tokio::spawn(async move { target.sync().await });
        let (_asked, _) = silent.accept().await.expect("the destination");
        assert_eq!(to.door.tpc.running.free(), 1);
        waiting.abort();
        over(&to).await;
        assert!(get(&client, &to, "/first/to").await.is_err());
    });
}

#[test]
fn a_copy_ends_with_its_handle_or_when_it_is_told_to() {
    run(async {
        let to = Rig::with(7, fetching(&["127.0.0.1"]), true).await;
        let (silent, source) = silent().await;
        for cancel in [false, true] {
            let mut client = to.client().await;
            let path = format!(
                "/first/to?tpc.key={KEY}&tpc.src={source}&tpc.lfn=/first/from&tpc.stage=copy"
            );
            let Reply::Ok(opened) = client.ask(&Request::Open(opening(&path, bits::NEW))).await
            else {
                panic!("not opened");
            };
            let handle = OpenReply::decode(opened).expect("opened").handle;
            assert!(matches!(
                client.ask(&Request::Sync { handle }).await,
                Reply::Ok(_)
            ));
            let started = client.send(&Request::Sync { handle }, Bytes::new()).await;
            let later = (started, Reply::WaitResp { seconds: 1800 });
            assert_eq!(client.receive().await, later);
            let (_asked, _) = silent.accept().await.expect("the destination");
            let end = match cancel {
                true => Request::Query {
                    kind: QueryKind::OpaqueHandle.number(),
                    handle,
                    argument: Bytes::from_static(b"ofs.tpc cancel"),
                },
                false => Request::Close { handle },
            };
            let ended = client.send(&end, Bytes::new()).await;
            let (mut told, mut answered) = (None, None);
            while told.is_none() || answered.is_none() {
                match client.receive().await {
                    (
                        _,
                        Reply::Later {
                            stream,
                            status,
                            body,
                        },
                    ) => {
                        assert_eq!((stream, status), (started, Status::Error));
                        told = Some(u32::from_be_bytes(body[..4].try_into().expect("a code")));
                    }
                    (stream, reply) => {
                        assert_eq!(stream, ended);
                        answered = Some(reply);
                    }
                }
            }
            assert_eq!(told, Some(ErrorCode::Cancelled.number()));
            assert_eq!(matches!(answered, Some(Reply::Ok(_))), cancel);
            over(&to).await;
        }
    });
}

#[test]
fn what_is_not_what_was_announced_does_not_come() {
    run(async {
        let from = Rig::new(8).await;
        let to = Rig::with(9, fetching(&["127.0.0.1"]), true).await;
        let client = Client::default();
        put(&client, &from, "/first/from", b"seven b").await;
        for (announced, comes) in [("&oss.asize=8", false), ("&oss.asize=7", true), ("", true)] {
            let target = destination(&client, &to, &place(&from), announced).await;
            let target = target.expect("opened");
            target.sync().await.expect("armed");
            let _source = granted(&client, &from).await.expect("left");
            assert_eq!(target.sync().await.is_ok(), comes, "{announced}");
            assert_eq!(target.close().await.is_ok(), comes, "{announced}");
        }
        assert_eq!(
            get(&client, &to, "/first/to").await.expect("there"),
            b"seven b"
        );
    });
}

#[test]
fn where_the_source_sends_it_is_judged_too() {
    run(async {
        let to = Rig::with(10, fetching(&["localhost"]), true).await;
        let (source, mut place) = silent().await;
        place.host = "localhost".to_owned();
        // The same machine by its number, which is not listed.
        let (inside, elsewhere) = silent().await;
        let sending = async {
            let redirect = Reply::Redirect {
                port: i32::from(elsewhere.port),
                host: elsewhere.host.clone(),
            };
            answer_open(&source, &redirect).await
        };
        let client = Client::default();
        let target = destination(&client, &to, &place, "").await.expect("opened");
        target.sync().await.expect("armed");
        let (outcome, _socket) = tokio::join!(target.sync(), sending);
        let error = outcome.expect_err("sent where it must not go");
        assert_eq!(error.code(), Some(ErrorCode::NotAuthorized), "{error}");
        let asked = tokio::time::timeout(Duration::from_millis(50), inside.accept()).await;
        assert!(asked.is_err(), "somebody connected");
    });
}

#[test]
fn one_account_leaves_room_for_the_copies_of_others() {
    run(async {
        let to = Rig::with(11, fetching(&["127.0.0.1"]), true).await;
        let (silent, source) = silent().await;
        let mut client = to.client().await;
        let mut handles = Vec::new();
        for number in 0..2 {
            let path =
                format!("/first/to{number}?tpc.key={KEY}{number}&tpc.src={source}&tpc.lfn=/x");
            let opened = client.ask(&Request::Open(opening(&path, bits::NEW))).await;
            let Reply::Ok(opened) = opened else {
                panic!("not opened");
            };
            let handle = OpenReply::decode(opened).expect("opened").handle;
            let armed = client.ask(&Request::Sync { handle }).await;
            assert!(matches!(armed, Reply::Ok(_)));
            handles.push(handle);
        }
        let sync = Request::Sync { handle: handles[0] };
        let first = client.send(&sync, Bytes::new()).await;
        let later = (first, Reply::WaitResp { seconds: 1800 });
        assert_eq!(client.receive().await, later);
        let _asked = silent.accept().await.expect("the destination");
        // Of two the first one has the half.
        let sync = Request::Sync { handle: handles[1] };
        let waits = client.ask(&sync).await;
        assert!(matches!(waits, Reply::Wait { seconds: 5, .. }), "{waits:?}");
        let running = &to.door.tpc.running;
        drop(
            running
                .take(&ShareOwner::named("another"))
                .expect("free for others"),
        );
        let close = Request::Close { handle: handles[0] };
        client.send(&close, Bytes::new()).await;
        for _ in 0..2 {
            client.receive().await;
        }
        over(&to).await;
        let second = client.send(&sync, Bytes::new()).await;
        let later = (second, Reply::WaitResp { seconds: 1800 });
        assert_eq!(client.receive().await, later);
    });
}

#[test]
fn a_source_that_sends_too_little_loses_its_copy() {
    run(async {
        let mut config = fetching(&["127.0.0.1"]);
        config.tpc.pace = Pace {
            rate_min: 1,
            over: Duration::from_secs(1),
        };
        let to = Rig::with(12, config, true).await;
        let (silent, source) = silent().await;
        let client = Client::default();
        let opened = OpenReply {
            handle: dewar_xrootd_proto::FileHandle([0, 0, 0, 1]),
            stat: Some("1 9000001 16 0".to_owned()),
        };
        let opened = Reply::Ok(opened.encode());
        let target = destination(&client, &to, &source, "").await;
        let target = target.expect("opened");
        target.sync().await.expect("armed");
        let (outcome, _socket) = tokio::join!(target.sync(), answer_open(&silent, &opened));
        let error = outcome.expect_err("nothing came").to_string();
        assert!(error.contains("the source sent 0 bytes in 1 s"), "{error}");
        over(&to).await;
        assert!(target.close().await.is_err());
        assert!(get(&client, &to, "/first/to").await.is_err());
    });
}

#[test]
fn more_streams_are_taken_up_to_a_limit() {
    run(async {
        let from = Rig::new(14).await;
        let to = Rig::with(15, fetching(&["127.0.0.1"]), true).await;
        let client = Client::default();
        let data = data();
        put(&client, &from, "/first/from", &data).await;
        let bound = |rig: &Rig| {
            let mut counts = rig.door.counts().requests();
            let found = counts.find(|(code, _)| *code == RequestCode::Bind);
            found.map_or(0, |(_, count)| count)
        };
        for (wanted, more) in [(1, 0), (3, 2), (100, 3)] {
            let before = bound(&from);
            let wanted = format!("&tpc.str={wanted}");
            let target = destination(&client, &to, &place(&from), &wanted).await;
            let target = target.expect("opened");
            target.sync().await.expect("armed");
            let _source = granted(&client, &from).await.expect("left");
            target.sync().await.expect("copied");
            target.close().await.expect("closed");
            assert_eq!(bound(&from) - before, more, "{wanted}");
            assert!(get(&client, &to, "/first/to").await.expect("there") == data);
        }
    });
}

#[test]
fn the_sums_of_pages_come_along() {
    run(async {
        let from = Rig::new(13).await;
        let client = Client::default();
        put(&client, &from, "/first/from", &data()).await;
        let open = opening("/first/from", bits::READ);
        let file = client.open(&place(&from), &open).await.expect("opened");
        for (offset, len) in [(0, 1 << 20), (8_388_608, 611_393), (4095, 5000)] {
            let parts = chunk(&file, offset, len).await.expect("read");
            for part in parts {
                assert_eq!(part.crc32c(), Some(dewar_checksum::crc32c(part.bytes())));
            }
        }
    });
}
