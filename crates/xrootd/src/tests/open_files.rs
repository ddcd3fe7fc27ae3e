//! What open files hold in memory.

use bytes::Bytes;
use dewar_xrootd_proto::options::open;
use dewar_xrootd_proto::{FileHandle, Reply, Request};

use super::rig::{Rig, TestClient, run};
use super::{opened, opening, write};
use crate::door::{DoorConfig, DoorLimits};

fn limited(writers_max: usize, buffer_bytes: usize) -> DoorConfig {
    DoorConfig {
        limits: DoorLimits {
            writers_max,
            buffer_bytes,
            ..DoorLimits::default()
        },
        ..DoorConfig::default()
    }
}

/// Opens a file; `None` where the client shall ask again later.
async fn try_open(client: &mut TestClient, path: &str, options: u16) -> Option<FileHandle> {
    match client.ask(&opening(path, options)).await {
        Reply::Ok(body) => Some(FileHandle(body[..4].try_into().expect("a handle"))),
        Reply::Wait { seconds, .. } => {
            assert_eq!(seconds, 2);
            None
        }
        reply => panic!("{path}: {reply:?}"),
    }
}

#[test]
fn an_account_writes_only_so_many_files_at_once() {
    run(async {
        let rig = Rig::with(41, limited(8, 256 << 20), true).await;
        let (mut one, mut two) = (rig.client().await, rig.client().await);
        let mut handles = Vec::new();
        for i in 0..8 {
            handles.push(opened(&mut one, &format!("/first/{i}"), open::NEW).await);
        }
        // Another connection is of the same account.
        assert!(try_open(&mut two, "/first/8", open::NEW).await.is_none());
        let handle = handles[0];
        assert_eq!(
            one.ask(&Request::Close { handle }).await,
            Reply::Ok(Bytes::new())
        );
        assert!(try_open(&mut two, "/first/8", open::NEW).await.is_some());
        assert!(try_open(&mut one, "/first/0", open::READ).await.is_some());
        // What ends with its connection is not counted any more.
        drop(one);
        let mut again = None;
        for _ in 0..100 {
            again = try_open(&mut two, "/first/9", open::NEW).await;
            if again.is_some() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert!(again.is_some());
    });
}

#[test]
fn what_open_files_keep_in_memory_is_bounded() {
    run(async {
        const BYTES: usize = 16 << 20;
        let rig = Rig::with(42, limited(100_000, BYTES), true).await;
        let mut client = rig.client().await;
        // Small ones are kept whole, large ones by the window.
        for (kind, size) in [("small", 10_000usize), ("large", 100_000)] {
            let data = vec![7; size];
            let mut handles = Vec::new();
            loop {
                let path = format!("/first/{kind}{}?oss.asize={size}", handles.len());
                let Some(handle) = try_open(&mut client, &path, open::NEW).await else {
                    break;
                };
                let reply = write(&mut client, handle, 0, &data).await;
                assert_eq!(reply, Reply::Ok(Bytes::new()));
                handles.push(handle);
                let held = rig.door.open_files.bytes();
                assert!(held <= BYTES / 2, "{held} bytes of one account");
                assert!(
                    held >= handles.len() * size.min(16_384),
                    "{held} bytes held"
                );
            }
            assert!(handles.len() >= 8, "{} {kind} files", handles.len());
            for handle in handles {
                let closed = client.ask(&Request::Close { handle }).await;
                assert_eq!(closed, Reply::Ok(Bytes::new()));
            }
            assert_eq!(rig.door.open_files.bytes(), 0);
        }
    });
}

#[test]
fn files_that_are_read_are_bounded_by_what_they_keep() {
    run(async {
        let rig = Rig::with(43, limited(256, 64 << 10), true).await;
        rig.put("/first/a", b"content").await;
        let mut client = rig.client().await;
        let mut count = 0;
        while try_open(&mut client, "/first/a", open::READ)
            .await
            .is_some()
        {
            count += 1;
            assert!(rig.door.open_files.bytes() <= 32 << 10);
        }
        assert!((8..=16).contains(&count), "{count} files");
    });
}
