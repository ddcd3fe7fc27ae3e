//! Dewar's own client at the door.

use bytes::Bytes;
use dewar_xrootd_client::{Client, Connection, Endpoint, Error};
use dewar_xrootd_proto::ErrorCode;
use dewar_xrootd_proto::options::open as bits;
use dewar_xrootd_proto::request::Open;

use super::rig::{Rig, run};

pub(super) fn place(rig: &Rig) -> Endpoint {
    Endpoint {
        host: rig.address.ip().to_string(),
        port: rig.address.port(),
        secure: false,
    }
}

pub(super) fn opening(path: &str, options: u16) -> Open {
    Open {
        options: options | bits::RETSTAT,
        path: path.to_owned(),
        ..Open::default()
    }
}

#[test]
fn what_the_client_writes_it_reads_in_every_way() {
    run(async {
        let rig = Rig::new(7).await;
        let client = Client::default();
        let place = place(&rig);
        let data: Vec<u8> = (0..300_000u32).map(|i| ((i * 31) >> 3) as u8).collect();
        for paged in [false, true] {
            let path = format!("/first/{paged}");
            let file = client.open(&place, &opening(&path, bits::NEW)).await;
            let file = file.expect("opened");
            for (at, piece) in data.chunks(70_001).enumerate() {
                let (at, piece) = (at as u64 * 70_001, Bytes::copy_from_slice(piece));
                let written = match paged {
                    true => file.write_pages(at, piece).await,
                    false => file.write(at, piece).await,
                };
                written.expect("written");
            }
            file.sync().await.expect("synced");
            assert_eq!(file.stat().await.expect("told").size, 300_000);
            file.close().await.expect("closed");

            let file = client.open(&place, &opening(&path, bits::READ)).await;
            let file = file.expect("opened");
            assert_eq!(file.opened().expect("told").size, 300_000);
            let (first, rest) =
                tokio::join!(file.read(0, 100_000), file.read_pages(100_000, 900_000));
            let mut found = first.expect("read").concat();
            found.extend(rest.expect("read").concat());
            assert!(found == data);
            let pieces = file
                .read_vector(&[(7, 9), (299_000, 1000)])
                .await
                .expect("read");
            assert_eq!(pieces.concat(), [&data[7..16], &data[299_000..]].concat());
            assert!(file.read_pages(300_000, 10).await.expect("read").is_empty());
            file.close().await.expect("closed");
        }
        let connection = client.connect(&place).await.expect("connected");
        let (name, value) = connection.checksum("/first/true").await.expect("there");
        assert_eq!((name.as_str(), value.len()), ("adler32", 8));
        let listed = connection.dirlist("/first", 1 << 20).await.expect("listed");
        let listed: Vec<_> = listed
            .iter()
            .map(|(name, stat)| (&name[..], stat.size))
            .collect();
        assert_eq!(listed, [("false", 300_000), ("true", 300_000)]);
        connection.remove("/first/true").await.expect("removed");
        let gone = connection.stat("/first/true").await.expect_err("removed");
        assert_eq!(gone.code(), Some(ErrorCode::NotFound));
        refused(&client, &place, &connection).await;
    });
}

async fn refused(client: &Client, place: &Endpoint, connection: &Connection) {
    let missing = client.open(place, &opening("/first/no", bits::READ)).await;
    assert!(matches!(
        missing.err(),
        Some(Error::Server { code: 3011, .. })
    ));
    let secure = Endpoint {
        secure: true,
        ..place.clone()
    };
    assert!(matches!(
        client.connect(&secure).await.err(),
        Some(Error::Tls { .. })
    ));
    assert_eq!(
        connection.config("readv_iov_max").await.expect("told"),
        "1024"
    );
}
