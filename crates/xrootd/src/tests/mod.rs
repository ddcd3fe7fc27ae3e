//! A real store behind the door, and the codec as its client.

mod admission;
mod checksums;
mod clones;
mod listing;
mod native_client;
mod open_files;
mod redirect;
mod resume;
mod rig;
mod third_party;
mod uploads;

use bytes::{Bytes, BytesMut};
use dewar_store::api::{BucketRef, ExpectedContent, ObjectRef, WriteMode, WriteRequest};
use dewar_types::{BucketName, ObjectKey};
use dewar_xrootd_proto::options::{dirlist, open, stat};
use dewar_xrootd_proto::request::{
    Checkpoint, Fattr, FattrAction, HandleOrPath, Open, PageRead, Read, ReadItem, Stat, Write,
    WriteItem,
};
use dewar_xrootd_proto::{
    ErrorCode, FileHandle, QueryKind, Reply, Request, RequestCode, RequestHeader, StreamId,
};
use proptest::prelude::*;

use crate::DoorConfig;
use rig::{Rig, TestClient, run};

fn opening(path: &str, options: u16) -> Request {
    Request::Open(Open {
        options,
        path: path.to_owned(),
        ..Open::default()
    })
}

fn code_of(reply: &Reply) -> u32 {
    match reply {
        Reply::Error { code, .. } => *code,
        _ => 0,
    }
}

async fn opened(client: &mut TestClient, path: &str, options: u16) -> FileHandle {
    match client.ask(&opening(path, options)).await {
        Reply::Ok(body) => FileHandle(body[..4].try_into().expect("a handle")),
        reply => panic!("{path}: {reply:?}"),
    }
}

async fn write(client: &mut TestClient, handle: FileHandle, offset: i64, bytes: &[u8]) -> Reply {
    let write = Write {
        handle,
        offset,
        len: bytes.len() as u32,
        ..Write::default()
    };
    client
        .ask_with(&Request::Write(write), Bytes::copy_from_slice(bytes))
        .await
}

async fn read(client: &mut TestClient, handle: FileHandle, offset: i64, len: u32) -> Bytes {
    let read = Read {
        handle,
        offset,
        len,
        ..Read::default()
    };
    match client.ask(&Request::Read(read)).await {
        Reply::Ok(bytes) => bytes,
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn a_slow_writer_holds_up_nobody() {
    run(async {
        let rig = Rig::new(1).await;
        let mut client = rig.client().await;
        let data: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7) as u8).collect();
        let handle = opened(&mut client, "/first/a", open::NEW).await;
        for (i, part) in data.chunks(1_000_000).enumerate() {
            let reply = write(&mut client, handle, i as i64 * 1_000_000, part).await;
            assert_eq!(reply, Reply::Ok(Bytes::new()));
        }
        // Nobody sees it before the close, and what was written can be read.
        let stat = |path: &str| {
            Request::Stat(Stat {
                options: 0,
                wants: 0,
                target: HandleOrPath::Path(path.to_owned()),
            })
        };
        assert_eq!(code_of(&client.ask(&stat("/first/a")).await), 3011);
        assert_eq!(
            read(&mut client, handle, 999_990, 20).await,
            &data[999_990..1_000_010]
        );
        assert_eq!(
            client.ask(&Request::Close { handle }).await,
            Reply::Ok(Bytes::new())
        );
        assert_eq!(code_of(&client.ask(&Request::Close { handle }).await), 3004);
        // Many requests at once are answered each by its own.
        let handle = opened(&mut client, "//first//a", open::READ).await;
        let mut asked = Vec::new();
        for i in 0..200u32 {
            let offset = i64::from(i * 14_000);
            let read = Read {
                handle,
                offset,
                len: 10_000,
                ..Read::default()
            };
            asked.push((
                client.send(&Request::Read(read), Bytes::new()).await,
                offset as usize,
            ));
        }
        for _ in 0..200 {
            let (stream, reply) = client.receive().await;
            let at = asked
                .iter()
                .position(|(its, _)| *its == stream)
                .expect("asked");
            let (_, offset) = asked.swap_remove(at);
            assert_eq!(
                reply,
                Reply::Ok(Bytes::copy_from_slice(&data[offset..offset + 10_000]))
            );
        }
        // One behind the other, with little and much between them, back again, twice, over the end of a page
        // and of a stripe, and nothing.
        let items = [
            (5i64, 10u32),
            (15, 20),
            (36, 4),
            (4_000, 200),
            (8_296, 10),
            (65_000, 70_000),
            (135_001, 1),
            (7, 9),
            (7, 9),
            (10, 50),
            (2_990_000, 9_000),
            (2_999_999, 1),
            (0, 0),
        ];
        let items = items.map(|(offset, len)| ReadItem {
            handle,
            len,
            offset,
        });
        let request = Request::Readv {
            path_id: 0,
            items: items.to_vec(),
        };
        let mut expected = Vec::new();
        for item in items {
            expected.extend_from_slice(&item.encode());
            let from = item.offset as usize;
            expected.extend_from_slice(&data[from..from + item.len as usize]);
        }
        assert_eq!(client.ask(&request).await, Reply::Ok(expected.into()));
        let pages = PageRead {
            handle,
            offset: 100,
            len: 5000,
            ..PageRead::default()
        };
        assert_eq!(client.pages(pages).await, &data[100..5100]);
        let pages = PageRead {
            handle,
            offset: 2_999_000,
            len: 5000,
            ..PageRead::default()
        };
        assert_eq!(client.pages(pages).await, &data[2_999_000..]);
    });
}

#[test]
fn sessions_share_nothing_and_end_whole() {
    run(async {
        let rig = Rig::new(2).await;
        let (mut one, mut two) = (rig.client().await, rig.client().await);
        let handle = opened(&mut one, "/first/x", open::NEW).await;
        let reply = write(&mut two, handle, 0, b"mine").await;
        assert_eq!(code_of(&reply), ErrorCode::FileNotOpen.number());
        write(&mut one, handle, 0, b"lost").await;
        drop(one);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let reply = two.ask(&opening("/first/x", open::READ)).await;
        assert_eq!(code_of(&reply), ErrorCode::NotFound.number());
        assert_eq!(rig.door.sessions(), 1);
        // Bound connections answer for their session, and end with it.
        let handle = opened(&mut two, "/first/y", open::NEW).await;
        write(&mut two, handle, 0, b"hello").await;
        let mut bound = rig.bound(&two).await;
        let read = Read {
            handle,
            len: 5,
            path_id: 1,
            ..Read::default()
        };
        two.send(&Request::Read(read), Bytes::new()).await;
        assert_eq!(
            bound.receive().await.1,
            Reply::Ok(Bytes::from_static(b"hello"))
        );
        drop(two);
        assert!(bound.is_closed().await);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    /// Whatever a client sends, the door answers or ends the connection, and serves the next one.
    #[test]
    fn any_bytes_after_the_login(
        frames in proptest::collection::vec((2999u16..3034, any::<[u8; 16]>(), proptest::collection::vec(any::<u8>(), 0..60), any::<bool>()), 0..20),
    ) {
        run(async {
            let rig = Rig::new(3).await;
            let mut client = rig.client().await;
            let handle = opened(&mut client, "/first/f", open::NEW).await;
            for (code, mut body, mut data, path) in frames {
                body[..4].copy_from_slice(&handle.0);
                body[4..8].fill(0);
                if path {
                    data = format!("/first/{}", data.len()).into_bytes();
                }
                client.raw(code, body, &data).await;
            }
            drop(client);
            let mut other = rig.client().await;
            assert_eq!(other.ask(&Request::Ping).await, Reply::Ok(Bytes::new()));
        });
    }
}

fn header_of(request: &Request) -> RequestHeader {
    let mut bytes = BytesMut::new();
    request.encode(StreamId([0, 1]), &mut bytes);
    RequestHeader::decode(bytes[..RequestHeader::LEN].try_into().expect("a header"))
        .expect("a header")
}

/// A request as part of a checkpoint, with its data.
async fn execute(
    client: &mut TestClient,
    handle: FileHandle,
    change: &Request,
    data: &[u8],
) -> Reply {
    let mut bytes = BytesMut::new();
    change.encode(StreamId([0, 1]), &mut bytes);
    // What is behind its header are the arguments of a vector.
    let behind = [&bytes[RequestHeader::LEN..], data].concat();
    let action = Checkpoint::Execute(header_of(change));
    let request = Request::Chkpoint { handle, action };
    client.ask_with(&request, behind.into()).await
}

async fn turn(client: &mut TestClient, handle: FileHandle, action: Checkpoint) -> Reply {
    client.ask(&Request::Chkpoint { handle, action }).await
}

#[test]
fn what_a_checkpoint_changed_can_be_undone() {
    run(async {
        let rig = Rig::new(1).await;
        let mut client = rig.client().await;
        let old = vec![7u8; 20_000];
        let done = Reply::Ok(Bytes::new());
        let handle = opened(&mut client, "/first/a", open::NEW).await;
        assert_eq!(write(&mut client, handle, 0, &old).await, done);
        let over = |offset: i64, len: u32| {
            Request::Write(Write {
                handle,
                offset,
                len,
                ..Write::default()
            })
        };

        // Without a checkpoint: refused, and the connection knows where the next request begins.
        let reply = execute(&mut client, handle, &over(0, 5), b"12345").await;
        assert_eq!(code_of(&reply), 3006);
        assert_eq!(
            code_of(&turn(&mut client, handle, Checkpoint::Commit).await),
            3006
        );
        assert_eq!(turn(&mut client, handle, Checkpoint::Begin).await, done);
        assert_eq!(
            code_of(&turn(&mut client, handle, Checkpoint::Begin).await),
            3006
        );

        assert_eq!(
            execute(&mut client, handle, &over(3, 5), b"12345").await,
            done
        );
        let longer = Request::Truncate {
            target: HandleOrPath::Handle(handle),
            size: 30_000,
        };
        assert_eq!(execute(&mut client, handle, &longer, b"").await, done);
        assert_eq!(
            &read(&mut client, handle, 0, 10).await[..],
            b"\x07\x07\x0712345\x07\x07"
        );
        let room = turn(&mut client, handle, Checkpoint::Query).await;
        let Reply::Ok(room) = room else {
            panic!("{room:?}")
        };
        assert_eq!(room[4..], 5u32.to_be_bytes());
        assert_eq!(turn(&mut client, handle, Checkpoint::Rollback).await, done);
        assert_eq!(read(&mut client, handle, 0, 40_000).await, old);

        // Committed it stays; what was not committed is not there after the close.
        assert_eq!(turn(&mut client, handle, Checkpoint::Begin).await, done);
        let vector = Request::Writev {
            options: 0,
            items: [(0, 1), (9, 2)]
                .map(|(offset, len)| WriteItem {
                    handle,
                    offset,
                    len,
                })
                .to_vec(),
        };
        assert_eq!(execute(&mut client, handle, &vector, b"abc").await, done);
        assert_eq!(turn(&mut client, handle, Checkpoint::Commit).await, done);
        assert_eq!(turn(&mut client, handle, Checkpoint::Begin).await, done);
        assert_eq!(
            execute(&mut client, handle, &over(0, 5), b"54321").await,
            done
        );
        assert_eq!(client.ask(&Request::Close { handle }).await, done);
        let handle = opened(&mut client, "/first/a", open::READ).await;
        let mut new = old;
        (new[0], new[9], new[10]) = (b'a', b'b', b'c');
        assert_eq!(read(&mut client, handle, 0, 40_000).await, new);
        // A file that is open for reading has none.
        assert_eq!(
            code_of(&turn(&mut client, handle, Checkpoint::Begin).await),
            3004
        );
    });
}

#[test]
fn a_checkpoint_is_of_one_file() {
    run(async {
        let rig = Rig::new(1).await;
        let mut client = rig.client().await;
        let one = opened(&mut client, "/first/a", open::NEW).await;
        let other = opened(&mut client, "/first/b", open::NEW).await;
        let done = Reply::Ok(Bytes::new());
        assert_eq!(turn(&mut client, one, Checkpoint::Begin).await, done);
        let change = Request::Write(Write {
            handle: other,
            len: 3,
            ..Write::default()
        });
        assert_eq!(
            code_of(&execute(&mut client, one, &change, b"abc").await),
            3000
        );
        assert_eq!(
            code_of(&execute(&mut client, other, &change, b"abc").await),
            3006
        );
        assert_eq!(&read(&mut client, other, 0, 10).await[..], b"");
    });
}

#[test]
fn a_stop_lets_transfers_end_and_begins_none() {
    run(async {
        let rig = Rig::new(1).await;
        let (mut busy, mut idle) = (rig.client().await, rig.client().await);
        let done = Reply::Ok(Bytes::new());
        let handle = opened(&mut busy, "/first/a", open::NEW).await;
        assert_eq!(write(&mut busy, handle, 0, b"before").await, done);
        rig.stop();
        assert!(idle.is_closed().await);
        let later = busy.ask(&opening("/first/b", open::NEW)).await;
        assert!(matches!(later, Reply::Wait { seconds: 5, .. }), "{later:?}");
        assert_eq!(write(&mut busy, handle, 6, b" and after").await, done);
        assert_eq!(busy.ask(&Request::Close { handle }).await, done);
        assert!(busy.is_closed().await);
        assert_eq!(rig.door.sessions(), 0);
    });
}

#[test]
fn a_file_without_an_online_copy_is_to_be_asked_for_again_later() {
    run(async {
        let rig = Rig::new(1).await;
        rig.put("/first/a", b"on tape").await;
        rig.recall_is_needed("/first/a").await;
        let mut client = rig.client().await;
        let later = client.ask(&opening("/first/a", open::READ)).await;
        assert!(
            matches!(later, Reply::Wait { seconds: 60, .. }),
            "{later:?}"
        );
    });
}

fn write_of(handle: FileHandle, offset: i64, len: usize) -> Request {
    Request::Write(Write {
        handle,
        offset,
        len: len as u32,
        ..Write::default()
    })
}

/// Sends requests in one go and takes an answer for each.
async fn pipelined(client: &mut TestClient, requests: &[(Request, &'static [u8])]) -> Vec<Reply> {
    let mut asked = Vec::new();
    for (request, data) in requests {
        asked.push(client.send(request, Bytes::from_static(data)).await);
    }
    let mut replies = vec![None; asked.len()];
    for _ in requests {
        let (stream, reply) = client.receive().await;
        let at = asked.iter().position(|its| *its == stream).expect("asked");
        assert_eq!(replies[at].replace(reply), None, "answered twice");
    }
    replies.into_iter().flatten().collect()
}

#[test]
fn changes_of_a_file_come_about_in_the_order_in_which_they_were_sent() {
    run(async {
        let rig = Rig::new(5).await;
        let mut client = rig.client().await;
        let done = Reply::Ok(Bytes::new());
        for turn in 0..20 {
            let path = format!("/first/{turn}");
            let handle = opened(&mut client, &path, open::NEW).await;
            let check = |action| Request::Chkpoint { handle, action };
            let cut = Request::Truncate {
                target: HandleOrPath::Handle(handle),
                size: 0,
            };
            let embedded = write_of(handle, 4, 3);
            let requests: [(Request, &'static [u8]); 10] = [
                (write_of(handle, 0, 3), b"old"),
                (cut, b""),
                (write_of(handle, 0, 8), b"new data"),
                (check(Checkpoint::Begin), b""),
                (check(Checkpoint::Execute(header_of(&embedded))), b"..."),
                (write_of(handle, 0, 3), b"not"),
                (check(Checkpoint::Rollback), b""),
                (Request::Sync { handle }, b""),
                (write_of(handle, 8, 1), b"!"),
                (Request::Close { handle }, b""),
            ];
            for reply in pipelined(&mut client, &requests).await {
                assert_eq!(reply, done);
            }
            let handle = opened(&mut client, &path, open::READ).await;
            assert_eq!(&read(&mut client, handle, 0, 99).await[..], b"new data!");
        }
    });
}

#[test]
fn a_close_waits_for_writes_that_began_before_it() {
    run(async {
        let rig = Rig::new(6).await;
        let mut first = rig.client().await;
        let mut bound = rig.bound(&first).await;
        let done = Reply::Ok(Bytes::new());
        let soon = std::time::Duration::from_millis(200);
        let data: Vec<u8> = (0..4 << 20).map(|i: u32| (i / 7) as u8).collect();
        let (half, rest) = data.split_at(data.len() / 2);

        let handle = opened(&mut first, "/first/whole", open::NEW).await;
        let write = write_of(handle, 0, data.len());
        let stream = bound.send(&write, Bytes::copy_from_slice(half)).await;
        tokio::time::sleep(soon).await;
        first.send(&Request::Close { handle }, Bytes::new()).await;
        let early = tokio::time::timeout(soon, first.receive()).await;
        assert!(
            early.is_err(),
            "a part of a write was acknowledged: {early:?}"
        );
        // One that begins now is too late, and is told so.
        let late = pipelined(
            &mut rig.bound_as(&first, 2).await,
            &[(write_of(handle, 0, 1), b"x")],
        )
        .await;
        assert_eq!(code_of(&late[0]), ErrorCode::FileNotOpen.number());
        bound.send_data(rest).await;
        assert_eq!(bound.receive().await, (stream, done.clone()));
        assert_eq!(first.receive().await.1, done);
        let handle = opened(&mut first, "/first/whole", open::READ).await;
        assert_eq!(read(&mut first, handle, 0, 8 << 20).await, data);

        // One that breaks off while the file is closed is none that a close could acknowledge.
        let handle = opened(&mut first, "/first/half", open::NEW).await;
        let write = write_of(handle, 0, data.len());
        bound.send(&write, Bytes::copy_from_slice(half)).await;
        tokio::time::sleep(soon).await;
        first.send(&Request::Close { handle }, Bytes::new()).await;
        tokio::time::sleep(soon).await;
        drop(bound);
        assert_eq!(
            code_of(&first.receive().await.1),
            ErrorCode::IoError.number()
        );
        let reply = first.ask(&opening("/first/half", open::READ)).await;
        assert_eq!(code_of(&reply), ErrorCode::NotFound.number());
    });
}

/// How many requests of a kind were begun when no more are.
async fn begun(rig: &Rig, code: RequestCode) -> u64 {
    let mut before = u64::MAX;
    loop {
        let counts = rig.door.counts().requests();
        let now = counts
            .filter(|(its, _)| *its == code)
            .map(|(_, count)| count);
        let now = now.sum();
        if now == before {
            return now;
        }
        before = now;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}

/// Sends requests and takes no answers; how many of them the door began.
async fn flood(rig: &Rig, client: &mut TestClient, request: &Request, count: usize) -> u64 {
    let mut wire = BytesMut::new();
    for _ in 0..count {
        request.encode(StreamId([0, 7]), &mut wire);
    }
    let sending = client.send_data(&wire);
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), sending).await;
    begun(rig, request.code()).await
}

#[test]
fn who_takes_no_answers_is_read_no_further() {
    run(async {
        let rig = Rig::new(7).await;
        let mut client = rig.narrow().await;
        let handle = opened(&mut client, "/first/a", open::NEW).await;
        let begun = flood(&rig, &mut client, &write_of(handle, 0, 0), 40_000).await;
        assert!(begun < 15_000, "{begun}");
    });
}

#[test]
fn answers_of_every_kind_hold_room() {
    run(async {
        let rig = Rig::new(8).await;
        let mut client = rig.narrow().await;
        let path = "/first/a".to_owned();
        let handle = opened(&mut client, &path, open::NEW).await;
        assert_eq!(
            client.ask(&Request::Close { handle }).await,
            Reply::Ok(Bytes::new())
        );
        let fattr = |action| {
            Request::Fattr(Fattr {
                options: 0,
                target: HandleOrPath::Path(path.clone()),
                action,
            })
        };
        let value = Bytes::from(vec![7; 60_000]);
        let set = fattr(FattrAction::Set(vec![("U.x".to_owned(), value)]));
        assert!(matches!(client.ask(&set).await, Reply::Ok(_)));
        let names = vec!["U.x".to_owned(); 16];
        // 600 answers of 960 kB each: there is room for 14 and 256 wait for theirs.
        let begun = flood(&rig, &mut client, &fattr(FattrAction::Get(names)), 600).await;
        assert!(begun < 300, "{begun}");
        let held = rig.room_out_held();
        assert!(held > 8 << 20 && held <= 17 << 20, "{held}");
    });
}

#[test]
fn what_comes_before_the_login_is_little_and_ends() {
    run(async {
        let rig = Rig::with(9, DoorConfig::default(), false).await;
        // Nothing of what follows is waited for.
        for (code, len) in [
            (RequestCode::Fattr, 1_000_000),
            (RequestCode::Login, 60_000),
            (RequestCode::Auth, 250_000),
        ] {
            let mut client = rig.connect().await;
            client.raw_of(code.number(), len).await;
            let refused = client.receive().await.1;
            assert_ne!(code_of(&refused), 0, "{code:?}");
            assert!(client.is_closed().await, "{code:?}");
        }
    });
}

#[test]
fn a_login_that_trickles_in_ends_at_its_time() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let rig = Rig::with(9, DoorConfig::default(), false).await;
        let mut client = rig.connect().await;
        let begun = tokio::time::Instant::now();
        client.raw_of(RequestCode::Login.number(), 6000).await;
        while !client
            .is_closed_within(std::time::Duration::from_secs(20))
            .await
        {
            client.send_data(b"x").await;
            assert!(begun.elapsed().as_secs() < 200, "it stays open");
        }
        assert!(begun.elapsed().as_secs() < 90);
    });
}

#[test]
fn elements_of_a_vector_wait_for_room() {
    run(async {
        let mut config = DoorConfig::default();
        config.limits.buffer_bytes = 4 << 20;
        let rig = Rig::with(10, config, true).await;
        let mut client = rig.client().await;
        let handle = opened(&mut client, "/first/a", open::NEW).await;
        let part = vec![7; 1 << 20];
        for at in 0..3 {
            write(&mut client, handle, at << 20, &part).await;
        }
        assert_eq!(
            client.ask(&Request::Close { handle }).await,
            Reply::Ok(Bytes::new())
        );
        let mut clients = Vec::new();
        for _ in 0..4 {
            let mut client = rig.narrow().await;
            let handle = opened(&mut client, "/first/a", open::READ).await;
            let item = |offset| ReadItem {
                handle,
                len: 2_097_136,
                offset,
            };
            let items = [0, 100, 200].map(item).to_vec();
            let request = Request::Readv { path_id: 0, items };
            client.send(&request, Bytes::new()).await;
            clients.push(client);
        }
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        let sent = rig
            .door
            .counts()
            .sent
            .load(std::sync::atomic::Ordering::Relaxed);
        assert!(sent <= 4 << 20, "{sent}");
        // Those that fit go on, in smaller frames, and all of it comes when it is taken.
        let (_, reply) = clients[0].receive().await;
        let Reply::Ok(body) = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(body.len(), 3 * (2_097_136 + 16));
    });
}

/// Makes an empty file, with a name that S3 takes.
async fn made(rig: &Rig, key: &str) {
    let bucket = BucketRef::own(BucketName::new("first").expect("valid"));
    let write = WriteRequest::file(
        ObjectRef {
            bucket,
            key: ObjectKey::new(key).expect("valid"),
        },
        WriteMode::New,
    );
    let store = &rig.door.store;
    let revision = store.write(&rig.caller, write).await.expect(key);
    revision
        .commit(ExpectedContent::of_size(None))
        .await
        .expect(key);
}

#[test]
fn listings_hold_room() {
    run(async {
        let rig = Rig::new(14).await;
        for i in 0..200 {
            made(&rig, &format!("d/{i:0244}")).await;
        }
        let mut client = rig.narrow().await;
        let list = Request::Dirlist {
            options: dirlist::STAT,
            path: "/first/d".to_owned(),
        };
        // 70 kB each: there is room for 230, and 256 wait for theirs.
        let begun = flood(&rig, &mut client, &list, 1500).await;
        assert!(begun < 700, "{begun}");
    });
}

#[test]
fn what_no_path_can_name_is_not_listed() {
    run(async {
        let rig = Rig::new(11).await;
        let keys = [
            "d/../../evil",
            "d/./x",
            "d//x",
            "d/a?b",
            "d/c\nd",
            "d/ok",
            "d/...",
            "../x",
        ];
        for key in keys {
            made(&rig, key).await;
        }
        let mut client = rig.client().await;
        for (path, names) in [("/first/d", &b"...\nok\0"[..]), ("/first", b"d\0")] {
            let list = Request::Dirlist {
                options: 0,
                path: path.to_owned(),
            };
            assert_eq!(
                client.ask(&list).await,
                Reply::Ok(Bytes::from_static(names)),
                "{path}"
            );
        }
    });
}

#[test]
fn who_proved_nothing_learns_next_to_nothing() {
    run(async {
        let rig = Rig::with(12, DoorConfig::default(), false).await;
        let mut nobody = rig.nobody().await;
        let room = |path: &str| {
            Request::Stat(Stat {
                options: stat::VFS,
                wants: 0,
                target: HandleOrPath::Path(path.to_owned()),
            })
        };
        for path in ["/", "/first", "/first/x"] {
            assert_eq!(code_of(&nobody.ask(&room(path)).await), 3010, "{path}");
        }
        let query = |kind: QueryKind, argument: &'static str| Request::Query {
            kind: kind.number(),
            handle: FileHandle::default(),
            argument: Bytes::from_static(argument.as_bytes()),
        };
        let Reply::Ok(stats) = nobody.ask(&query(QueryKind::Stats, "a")).await else {
            panic!("peers count sessions");
        };
        let stats = String::from_utf8_lossy(&stats).into_owned();
        assert!(stats.contains("<stats id=\"link\"><num>1</num>"), "{stats}");
        assert!(!stats.contains("ver=") && !stats.contains("ops"), "{stats}");
        let version = nobody.ask(&query(QueryKind::Config, "version")).await;
        assert_eq!(version, Reply::Ok(Bytes::from_static(b"version\n")));

        let rig = Rig::new(13).await;
        let mut ann = rig.client().await;
        for path in ["/", "/first", "/first/x"] {
            assert!(matches!(ann.ask(&room(path)).await, Reply::Ok(_)), "{path}");
        }
        assert_eq!(code_of(&ann.ask(&room("/second")).await), 3011);
        // What can be no token is nobody's, and not the session's.
        let look = |path: &str| {
            Request::Stat(Stat {
                options: 0,
                wants: 0,
                target: HandleOrPath::Path(path.to_owned()),
            })
        };
        assert!(matches!(
            ann.ask(&look("/first?authz=Bearer%20x")).await,
            Reply::Ok(_)
        ));
        let reply = ann.ask(&look("/first?authz=%ff")).await;
        assert_eq!(code_of(&reply), ErrorCode::AuthFailed.number());
    });
}
