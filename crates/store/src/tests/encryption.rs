//! Encrypted objects: what clients get back, who gets it, and what stands on the disks.

use dewar_checksum::{Algorithm, AlgorithmSet, md5};
use dewar_types::{ByteRange, ErrorKind, RangeSpec, Result};

use super::*;
use crate::api::{
    AttributesRequest, CompletePart, CompleteRequest, CopyRequest, CreateUploadRequest,
    ExpectedContent, Hierarchy, PartSource, UploadPartRequest, VersionAttributes, WriteCondition,
    WriteRequest,
};
use crate::{CustomerKey, Encryption, EncryptionMode};

const SIZES: [usize; 7] = [0, 1, 3_000, 4_096, 65_536, 65_537, 300_000];

fn customer(byte: u8) -> CustomerKey {
    CustomerKey::new([byte; 32])
}

fn by_customer(byte: u8) -> Option<Encryption> {
    Some(Encryption::Customer(customer(byte)))
}

/// Text that would be found if it stood anywhere.
fn plain(len: usize) -> Bytes {
    b"the cross section is 42 picobarn; "
        .iter()
        .copied()
        .cycle()
        .take(len)
        .collect()
}

async fn put(rig: &Rig, key: &str, bytes: &Bytes, how: Option<Encryption>) -> ObjectInfo {
    let request = WriteRequest {
        encryption: how,
        want: AlgorithmSet::EMPTY.with(Algorithm::Md5),
        checksum: Some(Algorithm::Sha256),
        ..put_request(key)
    };
    rig.put_as(request, bytes).await.expect("put")
}

async fn read(rig: &Rig, key: &str, with: Option<CustomerKey>) -> Result<(ObjectInfo, Bytes)> {
    let request = GetRequest {
        customer_key: with,
        ..get(key)
    };
    rig.read(request)
        .await
        .map(|(info, _, bytes)| (info, bytes))
}

#[test]
fn every_size_and_range_comes_back() {
    run(async {
        let rig = Rig::new(1).await;
        for (how, with, who) in [
            (Some(Encryption::Dewar), None, EncryptionMode::ByDewar),
            (
                by_customer(7),
                Some(customer(7)),
                EncryptionMode::ByCustomer,
            ),
        ] {
            for len in SIZES {
                let bytes = content(len, len as u64);
                let written = put(&rig, "k", &bytes, how.clone()).await;
                assert_eq!(written.size, len as u64);
                rig.settle().await;
                let (info, got) = read(&rig, "k", with.clone()).await.expect("read");
                assert_eq!(got, bytes, "{len}");
                assert_eq!(info.encrypted, Some(who));
                assert_eq!(info.checksum, written.checksum);
                assert!(info.checksum.is_some());
                assert_eq!(info.digests.md5(), Some(md5(&bytes)));
                let is_md5 = info.etag == format!("{:032x}", u128::from_be_bytes(md5(&bytes)));
                assert_eq!(is_md5, who == EncryptionMode::ByDewar, "{}", info.etag);
                for (from, to) in [(0, 1), (len / 2, len / 2 + 5_000), (65_530, 65_545)] {
                    let (from, to) = (from.min(len), to.min(len));
                    if from == to {
                        continue;
                    }
                    let range = RangeSpec::FromTo(from as u64, to as u64 - 1);
                    let request = GetRequest {
                        customer_key: with.clone(),
                        ..get_range("k", range)
                    };
                    let (_, range, got) = rig.read(request).await.expect("read");
                    let whole = ByteRange {
                        start: from as u64,
                        end: to as u64,
                    };
                    assert_eq!((range, got), (whole, bytes.slice(from..to)), "{len}");
                }
            }
        }
        rig.delete("k").await.expect("deleted");
        rig.assert_empty().await;
    });
}

#[test]
fn only_the_right_key_opens() {
    run(async {
        let rig = Rig::new(2).await;
        put(&rig, "theirs", &content(100, 1), by_customer(7)).await;
        put(&rig, "ours", &content(100, 1), Some(Encryption::Dewar)).await;
        put(&rig, "plain", &content(100, 1), None).await;
        for (key, with) in [
            ("theirs", None),
            ("theirs", Some(customer(8))),
            ("ours", Some(customer(7))),
            ("plain", Some(customer(7))),
        ] {
            let error = read(&rig, key, with.clone()).await.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::EncryptionKey, "{key}");
            let request = GetRequest {
                customer_key: with,
                ..get(key)
            };
            let error = rig
                .store
                .head(&rig.ann, request)
                .await
                .expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::EncryptionKey, "{key}");
        }
        assert!(read(&rig, "theirs", Some(customer(7))).await.is_ok());
    });
}

#[test]
fn no_clear_byte_and_no_digest_of_one_reaches_a_disk() {
    run(async {
        let rig = Rig::new(3).await;
        let bytes = plain(300_000);
        for (key, len) in [("small", 3_000), ("large", 300_000)] {
            put(&rig, key, &bytes.slice(..len), by_customer(7)).await;
        }
        put(&rig, "plain", &plain(200), None).await;
        rig.settle().await;
        let mut found = 0;
        for disk in 0..4 {
            let disk = rig.world.disk(disk);
            for path in disk.paths() {
                let stored = disk.peek(&path).expect("there");
                let holds = |what: &[u8]| stored.windows(what.len()).any(|window| window == what);
                found += usize::from(holds(b"picobarn"));
                for len in [3_000, 300_000] {
                    assert!(!holds(&md5(&bytes.slice(..len))), "{path} holds an MD5");
                }
            }
        }
        // The test can find what is there: the object that nobody encrypted, on some disks.
        assert!((1..=4).contains(&found), "{found} files hold clear bytes");
    });
}

fn list_all() -> ListRequest {
    ListRequest {
        bucket: bucket("first"),
        prefix: String::new(),
        delimiter: String::new(),
        after: String::new(),
        max: 10,
    }
}

fn sha256_of(bytes: &Bytes) -> Vec<u8> {
    let mut pipeline = dewar_checksum::Pipeline::new(AlgorithmSet::EMPTY.with(Algorithm::Sha256));
    pipeline.update(bytes);
    let digest = pipeline.finish().get(Algorithm::Sha256);
    digest.expect("computed").as_bytes().to_vec()
}

async fn upload(
    rig: &Rig,
    key: &str,
    parts: &[Bytes],
    how: Option<Encryption>,
) -> Result<ObjectInfo> {
    let with = match &how {
        Some(Encryption::Customer(key)) => Some(key.clone()),
        _ => None,
    };
    let request = CreateUploadRequest {
        attributes: VersionAttributes::default(),
        object: object(key),
        checksum: Some(Algorithm::Sha256),
        composite: true,
        encryption: how,
        acl: None,
    };
    let upload = rig.store.create_upload(&rig.ann, request).await?.id;
    let mut listed = Vec::new();
    for (number, bytes) in (1..).zip(parts) {
        // The second time counts.
        for bytes in [&content(10_000, 99), bytes] {
            let request = part(key, upload, number, with.clone());
            let mut part = rig.store.upload_part(&rig.ann, request).await?;
            part.write(bytes.clone()).await?;
            let done = part.commit(ExpectedContent::default()).await?;
            listed.retain(|listed: &CompletePart| listed.number != number);
            listed.push(CompletePart {
                number,
                etag: done.etag,
                checksum: done.checksum,
            });
        }
    }
    let request = CompleteRequest {
        customer_key: with,
        object: object(key),
        upload,
        parts: listed,
        size: None,
        checksum: None,
        condition: WriteCondition::default(),
    };
    rig.store.complete_upload(&rig.ann, request).await
}

fn part(
    key: &str,
    upload: dewar_types::UploadId,
    number: u32,
    customer_key: Option<CustomerKey>,
) -> UploadPartRequest {
    UploadPartRequest {
        object: object(key),
        upload,
        number,
        size: None,
        want: AlgorithmSet::EMPTY,
        checksum: None,
        customer_key,
    }
}

#[test]
fn parts_are_sealed_each_by_itself_and_read_as_one() {
    run(async {
        let rig = Rig::new(4).await;
        let parts = [
            content(5_300_000, 1),
            content(5_250_000, 2),
            content(500, 3),
        ];
        let whole: Bytes = parts.concat().into();
        for (how, with) in [
            (Some(Encryption::Dewar), None),
            (by_customer(7), Some(customer(7))),
        ] {
            let made = upload(&rig, "m", &parts, how).await.expect("completed");
            rig.settle().await;
            let (info, got) = read(&rig, "m", with.clone()).await.expect("read");
            assert_eq!(got, whole);
            assert_eq!(
                (info.parts, info.checksum.clone()),
                (Some(3), made.checksum.clone())
            );
            assert!(
                info.checksum.is_some(),
                "the composite checksum is there again"
            );
            // Of the parts nothing is kept in clear, and who has no key learns nothing.
            let found = rig.found("m").await;
            let sealed = rig.store.tree().part_digests(&found).await.expect("read");
            assert_eq!(sealed.len(), 3);
            let sums = parts.iter().map(sha256_of).collect::<Vec<_>>();
            for sum in &sums {
                let holds = |sealed: &[u8]| sealed.windows(8).any(|some| some == &sum[..8]);
                assert!(!sealed.iter().any(|sealed| holds(sealed)));
            }
            let listed = rig.store.list(&rig.ann, list_all()).await.expect("listed");
            let shown = listed.objects.iter().find(|listed| listed.key == "m");
            let shown = shown.expect("listed").checksum;
            assert_eq!(shown, Some((Algorithm::Sha256, true)), "by name alone");
            let attributes = |customer_key| AttributesRequest {
                object: object("m"),
                version: None,
                customer_key,
                after: 0,
                max: 10,
            };
            let told = rig.store.attributes(&rig.ann, attributes(with.clone()));
            let (told, told_parts) = told.await.expect("told");
            assert_eq!((told.checksum, told_parts.len()), (info.checksum, 3));
            for (part, sum) in told_parts.iter().zip(&sums) {
                let told = part.checksum.as_ref().expect("of the part");
                assert_eq!(told.as_bytes(), &sum[..]);
            }
            if with.is_some() {
                let without = rig.store.attributes(&rig.ann, attributes(None)).await;
                assert!(without.is_err(), "without the key");
            }
            let request = GetRequest {
                customer_key: with.clone(),
                part: Some(2),
                ..get("m")
            };
            let (info, _, got) = rig.read(request).await.expect("read");
            assert_eq!(got, parts[1]);
            let told = info.part_checksum.expect("of the part");
            assert_eq!(told.as_bytes(), &sums[1][..]);
            let request = GetRequest {
                customer_key: with,
                ..get_range("m", RangeSpec::FromTo(5_299_000, 10_551_000))
            };
            let (_, _, got) = rig.read(request).await.expect("read");
            assert_eq!(got, whole.slice(5_299_000..10_550_500));
        }
        rig.delete("m").await.expect("deleted");
        rig.assert_empty().await;
    });
}

#[test]
fn a_part_with_another_key_is_refused() {
    run(async {
        let rig = Rig::new(5).await;
        let request = CreateUploadRequest {
            attributes: VersionAttributes::default(),
            object: object("m"),
            checksum: None,
            composite: false,
            encryption: by_customer(7),
            acl: None,
        };
        let upload = rig
            .store
            .create_upload(&rig.ann, request)
            .await
            .expect("begun")
            .id;
        for with in [None, Some(customer(8))] {
            let request = part("m", upload, 1, with);
            let error = rig
                .store
                .upload_part(&rig.ann, request)
                .await
                .expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::EncryptionKey);
        }
        put(&rig, "source", &content(9_000, 1), by_customer(9)).await;
        let source = |with| PartSource {
            version: None,
            object: object("source"),
            range: Some(RangeSpec::FromTo(1_000, 7_999)),
            condition: ReadCondition::default(),
            customer_key: with,
        };
        let request = part("m", upload, 1, Some(customer(7)));
        let copied = rig
            .store
            .upload_part_copy(&rig.ann, request.clone(), source(None))
            .await;
        assert_eq!(
            copied.expect_err("refused").kind(),
            ErrorKind::EncryptionKey
        );
        let copied = rig
            .store
            .upload_part_copy(&rig.ann, request, source(Some(customer(9))))
            .await;
        let copied = copied.expect("copied");
        let mut request = CompleteRequest {
            customer_key: None,
            object: object("m"),
            upload,
            parts: vec![CompletePart {
                number: 1,
                etag: copied.etag,
                checksum: None,
            }],
            size: None,
            checksum: None,
            condition: WriteCondition::default(),
        };
        for with in [None, Some(customer(8))] {
            request.customer_key = with;
            let completed = rig.store.complete_upload(&rig.ann, request.clone()).await;
            let error = completed.expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::EncryptionKey);
        }
        request.customer_key = Some(customer(7));
        let completed = rig.store.complete_upload(&rig.ann, request).await;
        completed.expect("completed");
        let (_, got) = read(&rig, "m", Some(customer(7))).await.expect("read");
        assert_eq!(got, content(9_000, 1).slice(1_000..8_000));
    });
}

#[test]
fn copies_go_from_any_encryption_to_any() {
    run(async {
        let rig = Rig::new(6).await;
        let bytes = content(80_000, 1);
        let all = [
            None,
            Some(Encryption::Dewar),
            by_customer(7),
            by_customer(8),
        ];
        let key_of = |how: &Option<Encryption>| match how {
            Some(Encryption::Customer(key)) => Some(key.clone()),
            _ => None,
        };
        for from in &all {
            put(&rig, "from", &bytes, from.clone()).await;
            for to in &all {
                let request = CopyRequest {
                    hierarchy: Hierarchy::Flat,
                    source_version: None,
                    attributes: VersionAttributes::default(),
                    source: object("from"),
                    source_condition: ReadCondition::default(),
                    target: object("to"),
                    replace_headers: false,
                    checksum: None,
                    condition: WriteCondition::default(),
                    source_key: key_of(from),
                    encryption: to.clone(),
                    acl: None,
                };
                rig.store.copy(&rig.ann, request).await.expect("copied");
                let (info, got) = read(&rig, "to", key_of(to)).await.expect("read");
                assert_eq!(got, bytes);
                assert_eq!(info.encrypted, to.as_ref().map(Into::into));
                assert!(info.checksum.is_some());
            }
        }
        rig.settle().await;
        rig.delete("from").await.expect("deleted");
        rig.delete("to").await.expect("deleted");
        rig.assert_empty().await;
    });
}
