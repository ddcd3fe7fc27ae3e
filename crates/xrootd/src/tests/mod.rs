//! A real store behind the door, and the codec as its client.

mod native_client;
mod redirect;
mod rig;
mod third_party;

use bytes::{Bytes, BytesMut};
use dewar_xrootd_proto::options::open;
use dewar_xrootd_proto::request::{
    Checkpoint, CloneItem, Open, PageRead, Read, ReadItem, Stat, Target, Write, WriteItem,
};
use dewar_xrootd_proto::{ErrorCode, FileHandle, Reply, Request, RequestHeader, StreamId};
use proptest::prelude::*;

use rig::{Client, Rig, run};

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

async fn opened(client: &mut Client, path: &str, options: u16) -> FileHandle {
    match client.ask(&opening(path, options)).await {
        Reply::Ok(body) => FileHandle(body[..4].try_into().expect("a handle")),
        reply => panic!("{path}: {reply:?}"),
    }
}

async fn write(client: &mut Client, handle: FileHandle, offset: i64, bytes: &[u8]) -> Reply {
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

async fn read(client: &mut Client, handle: FileHandle, offset: i64, len: u32) -> Bytes {
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
                target: Target::Path(path.to_owned()),
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
        let items = [(5i64, 10u32), (15, 20), (2_999_999, 1), (0, 0)];
        let items = items.map(|(offset, len)| ReadItem {
            handle,
            len,
            offset,
        });
        let request = Request::Readv {
            path_id: 0,
            items: items.to_vec(),
        };
        let Reply::Ok(body) = client.ask(&request).await else {
            panic!("no vector");
        };
        let mut expected = Vec::new();
        for item in items {
            expected.extend_from_slice(&item.encode());
            let from = item.offset as usize;
            expected.extend_from_slice(&data[from..from + item.len as usize]);
        }
        assert_eq!(body, expected);
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
async fn execute(client: &mut Client, handle: FileHandle, change: &Request, data: &[u8]) -> Reply {
    let mut bytes = BytesMut::new();
    change.encode(StreamId([0, 1]), &mut bytes);
    // What is behind its header are the arguments of a vector.
    let behind = [&bytes[RequestHeader::LEN..], data].concat();
    let action = Checkpoint::Execute(header_of(change));
    let request = Request::Chkpoint { handle, action };
    client.ask_with(&request, behind.into()).await
}

async fn turn(client: &mut Client, handle: FileHandle, action: Checkpoint) -> Reply {
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
            target: Target::Handle(handle),
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

/// Of a later protocol than the announced one: it is refused like whatever is unknown, and nothing else suffers.
#[test]
fn cloning_is_refused_and_the_connection_goes_on() {
    run(async {
        let rig = Rig::new(1).await;
        let mut client = rig.client().await;
        let from = opened(&mut client, "/first/a", open::NEW).await;
        write(&mut client, from, 0, b"abc").await;
        let handle = opened(&mut client, "/first/b", open::NEW).await;
        let items = vec![CloneItem {
            source: from,
            source_offset: 0,
            len: 3,
            offset: 0,
        }];
        let refused = client.ask(&Request::Clone { handle, items }).await;
        assert_eq!(code_of(&refused), 3013, "{refused:?}");
        assert_eq!(&read(&mut client, handle, 0, 10).await[..], b"");
        assert_eq!(&read(&mut client, from, 0, 10).await[..], b"abc");
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
