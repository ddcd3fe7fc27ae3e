//! What a client writes, by the name that nobody else sees yet.

use bytes::Bytes;
use dewar_xrootd_proto::options::open;
use dewar_xrootd_proto::request::{HandleOrPath, Stat};
use dewar_xrootd_proto::{ErrorCode, FileHandle, Reply, Request};

use super::rig::{Rig, TestClient, run};
use super::{code_of, opened, opening, read, write};

const PATH: &str = "/first/dir/up";

fn done() -> Reply {
    Reply::Ok(Bytes::new())
}

async fn stat(client: &mut TestClient) -> Reply {
    let target = HandleOrPath::Path(PATH.to_owned());
    let (options, wants) = (0, 0);
    let stat = Stat {
        options,
        wants,
        target,
    };
    client.ask(&Request::Stat(stat)).await
}

async fn truncate(client: &mut TestClient, size: i64) -> Reply {
    let target = HandleOrPath::Path(PATH.to_owned());
    client.ask(&Request::Truncate { target, size }).await
}

async fn rm(client: &mut TestClient) -> Reply {
    let path = PATH.to_owned();
    client.ask(&Request::Rm { path }).await
}

async fn close(client: &mut TestClient, handle: FileHandle) -> Reply {
    client.ask(&Request::Close { handle }).await
}

async fn locate(client: &mut TestClient) -> Reply {
    let (options, path) = (0, PATH.to_owned());
    client.ask(&Request::Locate { options, path }).await
}

#[test]
fn a_client_locates_and_truncates_what_it_writes() {
    run(async {
        let rig = Rig::new(1).await;
        let (mut client, mut other) = (rig.client().await, rig.client().await);
        let handle = opened(&mut client, PATH, open::NEW).await;
        write(&mut client, handle, 0, b"hello").await;
        // It appears when it is closed.
        let missing = ErrorCode::NotFound.number();
        assert_eq!(code_of(&stat(&mut client).await), missing);
        assert!(matches!(locate(&mut client).await, Reply::Ok(_)));
        assert_eq!(truncate(&mut client, 3).await, done());
        // To others there is nothing.
        assert_eq!(code_of(&stat(&mut other).await), missing);
        assert_eq!(code_of(&locate(&mut other).await), missing);
        assert_eq!(code_of(&truncate(&mut other, 3).await), missing);
        assert_eq!(code_of(&rm(&mut other).await), missing);
        assert_eq!(close(&mut client, handle).await, done());
        let handle = opened(&mut other, PATH, open::READ).await;
        assert_eq!(&read(&mut other, handle, 0, 10).await[..], b"hel");
        assert_eq!(truncate(&mut client, -1).await.clone(), {
            let message = "Truncate size is negative".to_owned();
            Reply::Error {
                code: ErrorCode::ArgInvalid.number(),
                message,
            }
        });
    });
}

#[test]
fn what_a_client_removes_while_it_writes_it_never_appears() {
    run(async {
        for there in [false, true] {
            let rig = Rig::new(1).await;
            if there {
                rig.put(PATH, b"old").await;
            }
            let mut client = rig.client().await;
            let handle = opened(&mut client, PATH, open::DELETE).await;
            write(&mut client, handle, 0, b"hello").await;
            assert_eq!(rm(&mut client).await, done());
            // It can be written on, as a file without a name.
            write(&mut client, handle, 5, b", you").await;
            assert_eq!(&read(&mut client, handle, 0, 20).await[..], b"hello, you");
            assert_eq!(code_of(&rm(&mut client).await), 3011);
            assert_eq!(close(&mut client, handle).await, done());
            let missing = client.ask(&opening(PATH, open::READ)).await;
            assert_eq!(code_of(&missing), 3011, "there before: {there}");
            // What is begun later is another.
            let handle = opened(&mut client, PATH, open::NEW).await;
            write(&mut client, handle, 0, b"new").await;
            assert_eq!(close(&mut client, handle).await, done());
            let handle = opened(&mut client, PATH, open::READ).await;
            assert_eq!(&read(&mut client, handle, 0, 20).await[..], b"new");
        }
    });
}
