//! Directories with more names than anybody keeps in memory.

use std::time::Duration;

use bytes::Bytes;
use dewar_store::api::{BucketRef, ObjectRef};
use dewar_store::file::MakeDirRequest;
use dewar_types::{BucketName, ObjectKey};
use dewar_xrootd_proto::options::dirlist;
use dewar_xrootd_proto::{Reply, Request};

use super::rig::{Rig, run};
use crate::limits::{DIR_ENTRY_BYTES, DIR_PAGE, OUT_BYTES_MAX};

/// Names of 244 bytes, which are 20 MB with what `stat` says of them.
const NAMES: usize = 64_000;

#[test]
fn a_listing_of_any_length_takes_the_room_of_a_page() {
    run(async {
        let rig = Rig::new(15).await;
        let bucket = BucketRef::own(BucketName::new("first").expect("valid"));
        for number in 0..NAMES {
            let key = ObjectKey::new(&format!("d/{number:0244}")).expect("valid");
            let request = MakeDirRequest {
                directory: ObjectRef {
                    bucket: bucket.clone(),
                    key,
                },
                mode: 0o755,
                parents: true,
                existing: false,
            };
            let made = rig.door.store.make_dir(&rig.caller, request).await;
            made.expect("made");
        }
        let mut client = rig.narrow().await;
        let list = Request::Dirlist {
            options: dirlist::STAT,
            path: "/first/d".to_owned(),
        };
        let asked = client.send(&list, Bytes::new()).await;
        // Nobody takes the answer: what was made of it waits for room, and no more is made.
        let mut held = usize::MAX;
        while held != rig.room_out_held() || held == 0 {
            held = rig.room_out_held();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        assert!(held <= OUT_BYTES_MAX + DIR_PAGE * DIR_ENTRY_BYTES, "{held}");
        let (stream, reply) = client.receive().await;
        let Reply::Ok(text) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(stream, asked);
        assert!(text.len() > OUT_BYTES_MAX, "{} bytes", text.len());
        let lines = text.split(|byte| *byte == b'\n').skip(2).step_by(2);
        assert!(lines.clone().map(<[u8]>::len).all(|len| len == 244));
        assert_eq!(lines.count(), NAMES);
        assert!(rig.room_out_held() <= DIR_PAGE * DIR_ENTRY_BYTES);
    });
}
