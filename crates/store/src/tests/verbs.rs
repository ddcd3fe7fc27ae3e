//! Each verb as it should go.

use dewar_checksum::{Algorithm, Digest};
use dewar_types::{ErrorKind, RangeSpec};

use super::{Rig, SMALL, bucket, content, get, get_range, object, put_request, run};
use crate::api::{
    CompletePart, CompleteRequest, CopyRequest, CreateUploadRequest, ETagMatch, Emptiness,
    ExpectedContent, GetRequest, Hierarchy, ListPartsRequest, ReadCondition, RenameRequest,
    UploadPartRequest, VersionAttributes, WriteCondition, WriteMode, WriteRequest,
};
use crate::limits::RECALL_WAIT;

#[test]
fn objects_of_every_size_come_back_and_leave_nothing() {
    run(async {
        let rig = Rig::new(1).await;
        let small = SMALL as usize;
        for len in [0, 1, small - 1, small, small + 1, 100_000, 3_000_000] {
            let bytes = content(len, len as u64);
            let info = rig.put("a/key", &bytes).await.expect("put");
            assert_eq!(info.size, len as u64);
            assert_eq!(rig.get("a/key").await.expect("read"), bytes);
            let range = RangeSpec::Last(10);
            if len > 10 {
                let (_, range, part) = rig.read(get_range("a/key", range)).await.expect("read");
                assert_eq!(range.len(), 10);
                assert_eq!(part, bytes.slice(len - 10..));
            }
            rig.settle().await;
            assert_eq!(rig.get("a/key").await.expect("sealed"), bytes);
        }
        assert!(rig.delete("a/key").await.expect("deleted"));
        assert!(!rig.delete("a/key").await.expect("was gone"));
        let error = rig.get("a/key").await.expect_err("gone");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        rig.assert_empty().await;
    });
}

#[test]
fn what_the_client_says_must_be_so() {
    run(async {
        let rig = Rig::new(2).await;
        for len in [500, 50_000] {
            let bytes = content(len, 1);
            let expects = [
                (Some(len as u64 + 1), Vec::new(), ErrorKind::IncompleteBody),
                (
                    Some(len as u64),
                    vec![Digest::new(Algorithm::Md5, &[7; 16]).expect("16 bytes")],
                    ErrorKind::ChecksumMismatch,
                ),
            ];
            for (size, digests, kind) in expects {
                let request = put_request("key");
                let mut upload = rig.store.write(&rig.ann, request).await.expect("begun");
                upload.write(bytes.clone()).await.expect("taken");
                let error = upload.commit(ExpectedContent { size, digests }).await;
                assert_eq!(error.expect_err("refused").kind(), kind);
            }
        }
        assert_eq!(rig.keys().await, [""; 0]);
        rig.assert_empty().await;
    });
}

#[test]
fn conditions_decide() {
    run(async {
        let rig = Rig::new(3).await;
        let put = |absent: bool, if_match: Option<&str>| WriteRequest {
            condition: WriteCondition {
                if_none_match: absent.then_some(ETagMatch::Any).into_iter().collect(),
                if_match: if_match
                    .map(|etag| ETagMatch::Is(etag.to_owned()))
                    .into_iter()
                    .collect(),
                ..WriteCondition::default()
            },
            ..put_request("key")
        };
        let bytes = content(50_000, 1);
        let first = rig.put_as(put(true, None), &bytes).await.expect("absent");
        for request in [put(true, None), put(false, Some("0123"))] {
            let error = rig.put_as(request, &bytes).await.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Precondition);
        }
        let second = put(false, Some(&first.etag));
        rig.put_as(second, &content(10, 2)).await.expect("matches");
        let stale = GetRequest {
            condition: ReadCondition {
                if_match: vec![ETagMatch::Is(first.etag)],
                ..ReadCondition::default()
            },
            ..get("key")
        };
        let error = rig.read(stale).await.expect_err("another");
        assert_eq!(error.kind(), ErrorKind::Precondition);
        // The name is taken while the bytes come: refused at the end, and nothing is left.
        rig.delete("key").await.expect("deleted");
        let mut late = rig
            .store
            .write(&rig.ann, put(true, None))
            .await
            .expect("begun");
        late.write(content(50_000, 3)).await.expect("taken");
        rig.put("key", &content(5, 1)).await.expect("faster");
        let error = late
            .commit(ExpectedContent::default())
            .await
            .expect_err("late");
        assert_eq!(error.kind(), ErrorKind::Precondition);
        rig.delete("key").await.expect("deleted");
        rig.assert_empty().await;
    });
}

fn with_type(content_type: &str) -> VersionAttributes {
    let mut attributes = VersionAttributes::default();
    attributes.headers.content_type = Some(content_type.to_owned());
    attributes
}

#[test]
fn copies_share_bytes_and_renames_move_them() {
    run(async {
        let rig = Rig::new(4).await;
        for len in [5_000, 200_000] {
            let bytes = content(len, 1);
            rig.put("from", &bytes).await.expect("put");
            let copy = CopyRequest {
                hierarchy: Hierarchy::Flat,
                encryption: None,
                source_key: None,
                source_version: None,
                attributes: with_type("a/b"),
                replace_headers: true,
                source: object("from"),
                source_condition: ReadCondition::default(),
                target: object("dir/to"),
                checksum: None,
                condition: WriteCondition::default(),
                acl: None,
            };
            rig.store
                .copy(&rig.ann, copy.clone())
                .await
                .expect("copied");
            let summed = CopyRequest {
                hierarchy: Hierarchy::Flat,
                checksum: Some(Algorithm::Sha256),
                target: object("summed"),
                ..copy
            };
            let info = rig.store.copy(&rig.ann, summed).await.expect("copied");
            assert!(info.checksum.is_some());
            rig.delete("from").await.expect("deleted");
            rig.settle().await;
            assert_eq!(rig.get("dir/to").await.expect("shared"), bytes);
            assert_eq!(rig.get("summed").await.expect("read"), bytes);
            let rename = RenameRequest {
                source: object("dir/"),
                source_condition: WriteCondition::default(),
                target: object("moved/").key,
                condition: WriteCondition::default(),
            };
            rig.store.rename(&rig.ann, rename).await.expect("renamed");
            assert_eq!(rig.get("moved/to").await.expect("moved"), bytes);
            assert_eq!(rig.keys().await, ["moved/to", "summed"]);
            rig.delete("moved/to").await.expect("deleted");
            rig.delete("summed").await.expect("deleted");
        }
        rig.assert_empty().await;
    });
}

#[test]
#[allow(
    clippy::too_many_lines,
    reason = "one upload from its begin to its end"
)]
fn uploads_in_parts_are_joined_read_by_part_and_freed() {
    run(async {
        let rig = Rig::new(5).await;
        let create = CreateUploadRequest {
            encryption: None,
            attributes: VersionAttributes::default(),
            object: object("big"),
            checksum: Some(Algorithm::Crc32c),
            composite: false,
            acl: None,
        };
        let upload = rig
            .store
            .create_upload(&rig.ann, create)
            .await
            .expect("begun")
            .id;
        let part = |number| UploadPartRequest {
            customer_key: None,
            object: object("big"),
            upload,
            number,
            size: None,
            want: dewar_checksum::AlgorithmSet::EMPTY,
            checksum: None,
        };
        let whole = content((10 << 20) + 3_000, 1);
        let cuts = [0, 5 << 20, 10 << 20, whole.len()];
        let mut parts = Vec::new();
        // The first try at part 2 is replaced, part 9 is left out at the end.
        for (number, range) in [(2, 0..9_000), (9, 0..50_000)] {
            let mut writing = rig
                .store
                .upload_part(&rig.ann, part(number))
                .await
                .expect("begun");
            writing.write(whole.slice(range)).await.expect("taken");
            writing
                .commit(ExpectedContent::default())
                .await
                .expect("kept");
        }
        for (number, two) in (1..).zip(cuts.windows(2)) {
            let mut writing = rig
                .store
                .upload_part(&rig.ann, part(number))
                .await
                .expect("begun");
            writing
                .write(whole.slice(two[0]..two[1]))
                .await
                .expect("taken");
            let listed = writing
                .commit(ExpectedContent::default())
                .await
                .expect("kept");
            parts.push(CompletePart {
                number,
                etag: listed.etag,
                checksum: listed.checksum,
            });
        }
        let list = |max| ListPartsRequest {
            customer_key: None,
            object: object("big"),
            upload,
            after: 0,
            max,
        };
        let page = rig
            .store
            .list_parts(&rig.ann, list(2))
            .await
            .expect("listed");
        assert_eq!((page.parts.len(), page.next), (2, Some(2)));
        let page = rig
            .store
            .list_parts(&rig.ann, list(0))
            .await
            .expect("listed");
        assert_eq!((page.parts.len(), page.next), (0, None));
        let complete = CompleteRequest {
            customer_key: None,
            object: object("big"),
            upload,
            parts,
            size: Some(whole.len() as u64),
            checksum: None,
            condition: WriteCondition::default(),
        };
        let info = rig
            .store
            .complete_upload(&rig.ann, complete.clone())
            .await
            .expect("joined");
        assert!(info.etag.ends_with("-3"), "{}", info.etag);
        assert!(info.checksum.is_some());
        let again = rig
            .store
            .complete_upload(&rig.ann, complete)
            .await
            .expect("repeated");
        assert_eq!(again.version, info.version);
        rig.settle().await;
        assert_eq!(rig.get("big").await.expect("read"), whole);
        for (number, two) in (1..).zip(cuts.windows(2)) {
            let request = GetRequest {
                part: Some(number),
                ..get("big")
            };
            let (_, _, bytes) = rig.read(request).await.expect("read");
            assert_eq!(bytes, whole.slice(two[0]..two[1]), "part {number}");
        }
        rig.delete("big").await.expect("deleted");
        let error = rig
            .store
            .delete_bucket(&rig.ann, &bucket("nope"), Emptiness::Bare)
            .await;
        assert_eq!(error.expect_err("none").kind(), ErrorKind::NoSuchBucket);
        rig.assert_empty().await;
    });
}

/// The last part of an upload is often small and lies in a slot, which is read when the reader comes to
/// it: long after the object was deleted, its segment sealed and compacted.
#[test]
fn a_reader_finishes_although_its_small_part_was_deleted() {
    run(async {
        let rig = Rig::new(4).await;
        let create = CreateUploadRequest {
            encryption: None,
            attributes: VersionAttributes::default(),
            object: object("parts"),
            checksum: None,
            composite: false,
            acl: None,
        };
        let upload = rig.store.create_upload(&rig.ann, create).await;
        let upload = upload.expect("begun").id;
        let whole = content((5 << 20) + 3_000, 1);
        let mut parts = Vec::new();
        for (number, range) in [(1, 0..5 << 20), (2, 5 << 20..whole.len())] {
            let request = UploadPartRequest {
                customer_key: None,
                object: object("parts"),
                upload,
                number,
                size: None,
                want: dewar_checksum::AlgorithmSet::EMPTY,
                checksum: None,
            };
            let writing = rig.store.upload_part(&rig.ann, request).await;
            let mut writing = writing.expect("begun");
            writing.write(whole.slice(range)).await.expect("taken");
            let listed = writing
                .commit(ExpectedContent::default())
                .await
                .expect("kept");
            parts.push(CompletePart {
                number,
                etag: listed.etag,
                checksum: listed.checksum,
            });
        }
        let complete = CompleteRequest {
            customer_key: None,
            object: object("parts"),
            upload,
            parts,
            size: None,
            checksum: None,
            condition: WriteCondition::default(),
        };
        let done = rig.store.complete_upload(&rig.ann, complete).await;
        done.expect("completed");

        let download = rig.store.get(&rig.ann, get("parts")).await;
        let mut download = download.expect("opened");
        let mut read = Vec::new();
        read.extend_from_slice(&download.next().await.expect("more").expect("read"));
        rig.delete("parts").await.expect("deleted");
        rig.settle().await;
        while let Some(bytes) = download.next().await {
            read.extend_from_slice(&bytes.expect("read"));
        }
        assert!(read == whole, "{} of {} bytes", read.len(), whole.len());
        drop(download);
        rig.assert_empty().await;
    });
}

#[test]
fn content_without_an_online_copy_is_an_error_and_no_empty_body() {
    run(async {
        let rig = Rig::new(40).await;
        for (key, len) in [("empty", 0), ("small", 500), ("large", 50_000)] {
            rig.put(key, &content(len, 1)).await.expect("put");
            rig.recall_is_needed(key).await;
            let read = rig.get(key).await;
            let opened = rig.store.open_file(&rig.ann, get(key)).await;
            let update = WriteRequest::file(object(key), WriteMode::Update);
            let changed = rig.store.write(&rig.ann, update).await;
            let (info, _) = rig
                .store
                .head(&rig.ann, get(key))
                .await
                .expect("its record");
            assert_eq!(info.size, len as u64);
            if len == 0 {
                assert_eq!(read.expect("nothing to recall").len(), 0);
                opened.expect("nothing to recall");
                changed.expect("nothing to recall");
                continue;
            }
            for error in [
                read.expect_err("nearline"),
                opened.expect_err("nearline"),
                changed.expect_err("nearline"),
            ] {
                assert_eq!(error.kind(), ErrorKind::Later(RECALL_WAIT));
                assert!(error.message().contains(key), "{error}");
            }
        }
    });
}
