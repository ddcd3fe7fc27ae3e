//! Checksums that nobody asked for when the file was written.

use bytes::Bytes;
use dewar_xrootd_proto::{FileHandle, QueryKind, Reply, Request};

use super::code_of;
use super::rig::{Rig, TestClient, run};

const PATH: &str = "/first/dir/file";

async fn ask(client: &mut TestClient, name: &str) -> Reply {
    let query = Request::Query {
        kind: QueryKind::Checksum.number(),
        handle: FileHandle::default(),
        argument: format!("{PATH}?cks.type={name}").into(),
    };
    client.ask(&query).await
}

/// The values are those that `zlib`, `hashlib` and `cksum` have for these bytes; `zcrc32` is written as
/// XRootD's own calculator does on machines with the least significant byte first.
#[test]
fn every_checksum_that_clients_know_is_told() {
    run(async {
        let rig = Rig::new(1).await;
        rig.put(PATH, b"123456789").await;
        let mut client = rig.client().await;
        for _ in 0..2 {
            for (name, value) in [
                ("adler32", "091e01de"),
                ("crc32c", "e3069283"),
                ("crc32", "377a6011"),
                ("zcrc32", "2639f4cb"),
                ("crc64nvme", "ae8b14860a799888"),
                ("md5", "25f9e794323b453885f5181f1b624d0b"),
                ("sha1", "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
                (
                    "sha256",
                    "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
                ),
            ] {
                let expected = Bytes::from(format!("{name} {value}\0"));
                assert_eq!(ask(&mut client, name).await, Reply::Ok(expected));
            }
        }
        assert_eq!(code_of(&ask(&mut client, "crc7").await), 3012);
    });
}
