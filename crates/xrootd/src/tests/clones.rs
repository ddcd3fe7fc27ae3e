//! Bytes of open files put into others.

use bytes::Bytes;
use dewar_xrootd_proto::options::{open, open_more};
use dewar_xrootd_proto::request::{CloneItem, Open};
use dewar_xrootd_proto::{ErrorCode, FileHandle, Reply, Request};

use super::rig::{Rig, TestClient, run};
use super::{code_of, opened, read, write};

/// More than one piece.
fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * seed + at / 251) as u8).collect()
}

async fn clone(client: &mut TestClient, handle: FileHandle, items: &[CloneItem]) -> Reply {
    let items = items.to_vec();
    client.ask(&Request::Clone { handle, items }).await
}

async fn close(client: &mut TestClient, handle: FileHandle) {
    let done = client.ask(&Request::Close { handle }).await;
    assert_eq!(done, Reply::Ok(Bytes::new()));
}

#[test]
fn ranges_of_open_files_are_cloned_into_another() {
    run(async {
        let rig = Rig::new(1).await;
        let (stored, written) = (bytes(3_000_000, 7), bytes(40_000, 11));
        rig.put("/first/stored", &stored).await;
        let mut client = rig.client().await;
        let reader = opened(&mut client, "/first/stored", open::READ).await;
        let writer = opened(&mut client, "/first/written", open::NEW).await;
        write(&mut client, writer, 0, &written).await;
        let target = opened(&mut client, "/first/target", open::NEW).await;
        let item = |source, source_offset, len, offset| CloneItem {
            source,
            source_offset,
            len,
            offset,
        };
        let items = [
            item(reader, 5, 2_500_000, 0),
            item(writer, 10, 30_000, 2_500_000),
            // Without a length, to the end.
            item(writer, 39_000, 0, 2_530_000),
            item(target, 0, 1000, 2_531_000),
        ];
        let done = clone(&mut client, target, &items);
        assert_eq!(done.await, Reply::Ok(Bytes::new()));
        close(&mut client, target).await;
        let parts = [
            &stored[5..2_500_005],
            &written[10..30_010],
            &written[39_000..],
            &stored[5..1005],
        ];
        let target = opened(&mut client, "/first/target", open::READ).await;
        assert_eq!(
            read(&mut client, target, 0, 4_000_000).await,
            parts.concat()
        );
        // The sources are what they were.
        assert_eq!(read(&mut client, writer, 0, 50_000).await, written);
    });
}

#[test]
fn what_cannot_be_cloned_is_refused_and_changes_nothing() {
    run(async {
        let rig = Rig::new(1).await;
        rig.put("/first/stored", b"abc").await;
        let mut client = rig.client().await;
        let reader = opened(&mut client, "/first/stored", open::READ).await;
        let target = opened(&mut client, "/first/target", open::NEW).await;
        let item = |source, source_offset, len| CloneItem {
            source,
            source_offset,
            len,
            offset: 0,
        };
        let none = FileHandle([9; 4]);
        for (into, from, code) in [
            (target, item(none, 0, 1), ErrorCode::FileNotOpen),
            (none, item(reader, 0, 1), ErrorCode::FileNotOpen),
            (reader, item(reader, 0, 1), ErrorCode::FileNotOpen),
            (target, item(reader, 0, 4), ErrorCode::ArgInvalid),
            (target, item(reader, 4, 0), ErrorCode::ArgInvalid),
            (target, item(reader, u64::MAX, 2), ErrorCode::ArgInvalid),
        ] {
            let refused = clone(&mut client, into, &[from]).await;
            assert_eq!(code_of(&refused), code.number(), "{from:?}");
        }
        assert_eq!(&read(&mut client, target, 0, 10).await[..], b"");
    });
}

#[test]
fn a_file_begins_as_the_copy_of_an_open_one() {
    run(async {
        let rig = Rig::new(1).await;
        let mut client = rig.client().await;
        let template = opened(&mut client, "/first/template", open::NEW).await;
        write(&mut client, template, 0, b"hello").await;
        let request = Request::Open(Open {
            options: open::NEW | open::UPDATE,
            options_more: open_more::DUP,
            template,
            path: "/first/copy".to_owned(),
            ..Open::default()
        });
        let Reply::Ok(body) = client.ask(&request).await else {
            panic!("not opened");
        };
        let copy = FileHandle(body[..4].try_into().expect("a handle"));
        write(&mut client, copy, 5, b", you").await;
        close(&mut client, copy).await;
        let copy = opened(&mut client, "/first/copy", open::READ).await;
        assert_eq!(&read(&mut client, copy, 0, 20).await[..], b"hello, you");
        assert_eq!(&read(&mut client, template, 0, 20).await[..], b"hello");
    });
}

#[test]
fn cloned_and_overwritten_bytes_of_open_files_are_charged() {
    run(async {
        let rig = Rig::new(1).await;
        rig.put("/first/stored", &bytes(1_000_000, 7)).await;
        rig.limit(4_000_000).await;
        let mut client = rig.client().await;
        let reader = opened(&mut client, "/first/stored", open::READ).await;
        let target = opened(&mut client, "/first/target", open::NEW).await;
        let item = CloneItem {
            source: reader,
            source_offset: 0,
            len: 0,
            offset: 0,
        };
        for _ in 0..3 {
            let done = clone(&mut client, target, &[item]).await;
            assert_eq!(done, Reply::Ok(Bytes::new()));
        }
        let full = ErrorCode::OverQuota.number();
        assert_eq!(code_of(&clone(&mut client, target, &[item]).await), full);
        // The close says why too.
        let closed = client.ask(&Request::Close { handle: target }).await;
        assert_eq!(code_of(&closed), full);

        let target = opened(&mut client, "/first/target", open::NEW).await;
        for _ in 0..3 {
            let done = write(&mut client, target, 0, &bytes(1_000_000, 11)).await;
            assert_eq!(done, Reply::Ok(Bytes::new()));
        }
        let refused = write(&mut client, target, 0, &bytes(1_000_000, 11)).await;
        assert_eq!(code_of(&refused), full);
    });
}
