//! Uploads in parts.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::client::{Client, Reply};
use crate::house::{house, talk};

const PART: usize = 5 << 20;

fn part(number: u8, len: usize) -> Vec<u8> {
    (0..len)
        .map(|n| (n as u8).wrapping_mul(31).wrapping_add(number))
        .collect()
}

async fn begin(client: &Client, key: &str) -> String {
    let reply = client
        .post(&format!("/bucket/{key}?uploads"))
        .send()
        .await
        .is(200);
    reply.element("UploadId").expect("an id")
}

async fn upload(client: &Client, key: &str, id: &str, number: u8, body: &[u8]) -> Reply {
    let target = format!("/bucket/{key}?partNumber={number}&uploadId={id}");
    let call = client
        .put(&target)
        .header("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
    call.body(body).pieces(100_000).send().await
}

fn list(parts: &[(u8, &str)]) -> String {
    let parts: String = parts
        .iter()
        .map(|(number, etag)| {
            format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
        })
        .collect();
    format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")
}

#[test]
fn parts_become_an_object() {
    talk(async {
        let client = house().await.owner;
        let id = begin(&client, "big").await;
        let (first, last) = (part(1, PART), part(2, 1000));
        upload(&client, "big", &id, 1, b"will be replaced")
            .await
            .is(200);
        let one = upload(&client, "big", &id, 1, &first).await.is(200);
        let two = upload(&client, "big", &id, 2, &last).await.is(200);
        let one = one.header("etag").expect("an ETag").to_owned();
        let two = two.header("etag").expect("an ETag").to_owned();

        let parts = client
            .get(&format!("/bucket/big?uploadId={id}"))
            .send()
            .await
            .is(200);
        assert_eq!(parts.elements("PartNumber"), ["1", "2"]);
        assert_eq!(
            parts.elements("Size"),
            [PART.to_string(), "1000".to_owned()]
        );
        let page = format!("/bucket/big?uploadId={id}&max-parts=1");
        let page = client.get(&page).send().await.is(200);
        assert_eq!(page.element("IsTruncated").as_deref(), Some("true"));
        assert_eq!(page.element("NextPartNumberMarker").as_deref(), Some("1"));
        let uploads = client.get("/bucket?uploads").send().await.is(200);
        assert_eq!(uploads.elements("UploadId"), [id.as_str()]);
        client
            .get("/bucket/big")
            .send()
            .await
            .refused_with(404, "NoSuchKey");

        let finish = format!("/bucket/big?uploadId={id}");
        let complete = |parts: &[(u8, &str)]| client.post(&finish).body(list(parts));
        let wrong = complete(&[(1, "\"0123\""), (2, &two)]).send().await;
        wrong.refused_with(400, "InvalidPart");
        let order = complete(&[(2, &two), (1, &one)]).send().await;
        order.refused_with(400, "InvalidPartOrder");
        complete(&[]).send().await.refused_with(400, "MalformedXML");
        let small = complete(&[(1, &one), (2, &two)]).header("x-amz-mp-object-size", "7");
        assert_eq!(small.send().await.status, 400);
        let done = complete(&[(1, &one), (2, &two)]).send().await.is(200);
        let etag = done.element("ETag").expect("an ETag");
        assert!(etag.contains("-2"), "{etag}");
        assert!(
            done.element("ChecksumCRC64NVME").is_some(),
            "{}",
            done.text()
        );
        assert_eq!(done.element("ChecksumType").as_deref(), Some("FULL_OBJECT"));
        // A client whose answer was lost asks again.
        let again = complete(&[(1, &one), (2, &two)]).send().await.is(200);
        assert_eq!(again.element("ETag"), Some(etag));

        let whole = [first.clone(), last.clone()].concat();
        let get = client.get("/bucket/big").send().await.is(200);
        assert!(get.body == whole, "the bytes differ");
        let second = client.get("/bucket/big?partNumber=2").send().await.is(206);
        assert_eq!(second.body, last);
        assert_eq!(second.header("x-amz-mp-parts-count"), Some("2"));
        let across = client
            .get("/bucket/big")
            .header("range", "bytes=5242870-5242889");
        let across = across.send().await.is(206);
        assert_eq!(across.body, whole[5_242_870..5_242_890]);
        assert!(
            client
                .get("/bucket?uploads")
                .send()
                .await
                .elements("UploadId")
                .is_empty()
        );
    });
}

#[test]
fn parts_can_be_copied_and_uploads_given_up() {
    talk(async {
        let client = house().await.owner;
        let body = part(9, PART + 100);
        client
            .put("/bucket/source")
            .body(&body)
            .send()
            .await
            .is(200);
        let id = begin(&client, "target").await;
        let copy = |number: u8, range: &str| {
            let target = format!("/bucket/target?partNumber={number}&uploadId={id}");
            let call = client
                .put(&target)
                .header("x-amz-copy-source", "/bucket/source");
            call.header("x-amz-copy-source-range", range)
        };
        let one = copy(1, &format!("bytes=100-{}", PART + 99))
            .send()
            .await
            .is(200);
        let two = copy(2, "bytes=0-99").send().await.is(200);
        copy(3, "bytes=0-")
            .send()
            .await
            .refused_with(400, "InvalidArgument");
        let tag = |reply: &Reply| reply.element("ETag").expect("an ETag");
        let xml = list(&[(1, &tag(&one)), (2, &tag(&two))]);
        let finish = format!("/bucket/target?uploadId={id}");
        let absent = client.post(&finish).header("if-none-match", "*").body(&xml);
        absent.send().await.is(200);
        let get = client.get("/bucket/target").send().await.is(200);
        assert!(get.body == [&body[100..], &body[..100]].concat());

        let id = begin(&client, "target").await;
        upload(&client, "target", &id, 1, b"x").await.is(200);
        let target = format!("/bucket/target?uploadId={id}");
        client.delete(&target).send().await.is(204);
        client
            .delete(&target)
            .send()
            .await
            .refused_with(404, "NoSuchUpload");
        upload(&client, "target", &id, 2, b"x")
            .await
            .refused_with(404, "NoSuchUpload");
        client
            .get(&target)
            .send()
            .await
            .refused_with(404, "NoSuchUpload");
        client
            .get("/bucket/target?uploadId=nonsense")
            .send()
            .await
            .refused_with(404, "NoSuchUpload");
        let number = format!("/bucket/target?partNumber=10001&uploadId={id}");
        client
            .put(&number)
            .body("x")
            .send()
            .await
            .refused_with(400, "InvalidArgument");
    });
}

#[test]
fn composite_checksums_are_over_the_parts() {
    talk(async {
        let client = house().await.owner;
        let begun = client
            .post("/bucket/sum?uploads")
            .header("x-amz-checksum-algorithm", "SHA256")
            .send()
            .await
            .is(200);
        assert_eq!(begun.header("x-amz-checksum-algorithm"), Some("SHA256"));
        assert_eq!(begun.header("x-amz-checksum-type"), Some("COMPOSITE"));
        let id = begun.element("UploadId").expect("an id");
        let one = upload(&client, "sum", &id, 1, b"only one").await.is(200);
        let sha = one
            .header("x-amz-checksum-sha256")
            .expect("the upload's own")
            .to_owned();
        let etag = one.header("etag").expect("an ETag").to_owned();
        let xml = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag>\
             <ChecksumSHA256>{sha}</ChecksumSHA256></Part></CompleteMultipartUpload>"
        );
        let target = format!("/bucket/sum?uploadId={id}");
        // minio-go names the whole's checksum without the number of parts.
        let of_part = STANDARD.decode(&sha).expect("base64");
        let whole = STANDARD.encode(digest(&SHA256, &of_part));
        let named = |sum: &str| {
            let call = client.post(&target).body(xml.clone());
            call.header("x-amz-checksum-sha256", sum)
        };
        for sum in [&sha, &format!("{whole}-2"), &format!("{sha}-1")] {
            named(sum).send().await.refused_with(400, "BadDigest");
        }
        let done = named(&whole).send().await.is(200);
        assert!(
            done.element("ChecksumSHA256")
                .expect("a checksum")
                .ends_with("-1")
        );
        let head = client
            .head("/bucket/sum")
            .header("x-amz-checksum-mode", "ENABLED");
        let head = head.send().await.is(200);
        assert_eq!(head.header("x-amz-checksum-type"), Some("COMPOSITE"));
        for (algorithm, kind) in [
            ("SHA256", "FULL_OBJECT"),
            ("CRC64NVME", "COMPOSITE"),
            ("X", "COMPOSITE"),
        ] {
            let call = client
                .post("/bucket/sum?uploads")
                .header("x-amz-checksum-algorithm", algorithm);
            let reply = call.header("x-amz-checksum-type", kind).send().await;
            reply.refused_with(400, "InvalidRequest");
        }
    });
}

#[test]
fn a_completion_names_the_checksum_of_the_whole() {
    talk(async {
        let client = house().await.owner;
        let begun = client
            .post("/bucket/whole?uploads")
            .header("x-amz-checksum-algorithm", "CRC32")
            .header("x-amz-checksum-type", "FULL_OBJECT")
            .send()
            .await
            .is(200);
        let id = begun.element("UploadId").expect("an id");
        let old = upload(&client, "whole", &id, 1, b"Hello").await.is(200);
        let new = upload(&client, "whole", &id, 1, b"hello").await.is(200);
        // A part that was sent twice is named twice; the last counts.
        let etags = [&old, &new].map(|reply| reply.header("etag").expect("an ETag").to_owned());
        let xml = list(&[(1, &etags[0]), (1, &etags[1])]);
        let target = format!("/bucket/whole?uploadId={id}");
        let complete = |sum: &str| {
            let call = client.post(&target).body(xml.clone());
            call.header("x-amz-checksum-crc32", sum)
        };
        for sum in ["AAAAAA==", "bad", "AAAAAA==-1"] {
            complete(sum).send().await.refused_with(400, "BadDigest");
        }
        let done = complete("NhCmhg==").send().await.is(200);
        assert_eq!(done.element("ChecksumCRC32").as_deref(), Some("NhCmhg=="));
        assert_eq!(done.element("ChecksumType").as_deref(), Some("FULL_OBJECT"));
    });
}

#[test]
fn a_part_is_shown_with_its_own_checksum() {
    talk(async {
        let client = house().await.owner;
        for (kind, algorithm) in [("FULL_OBJECT", "CRC32"), ("COMPOSITE", "SHA256")] {
            let begun = client
                .post("/bucket/parts?uploads")
                .header("x-amz-checksum-algorithm", algorithm)
                .header("x-amz-checksum-type", kind)
                .send()
                .await
                .is(200);
            let id = begun.element("UploadId").expect("an id");
            let name = format!("x-amz-checksum-{}", algorithm.to_lowercase());
            let (mut etags, mut sums) = (Vec::new(), Vec::new());
            for (number, body) in [(1, part(1, PART)), (2, b"last".to_vec())] {
                let sent = upload(&client, "parts", &id, number, &body).await.is(200);
                etags.push(sent.header("etag").expect("an ETag").to_owned());
                sums.push(sent.header(&name).expect("a checksum").to_owned());
            }
            let xml = list(&[(1, &etags[0]), (2, &etags[1])]);
            let target = format!("/bucket/parts?uploadId={id}");
            client.post(&target).body(xml).send().await.is(200);
            for (number, sum) in (1..).zip(&sums) {
                let get = client.get(&format!("/bucket/parts?partNumber={number}"));
                let get = get.header("x-amz-checksum-mode", "ENABLED").send().await;
                let get = get.is(206);
                assert_eq!(get.header(&name), Some(sum.as_str()));
                assert_eq!(get.header("x-amz-checksum-type"), Some(kind));
                let head = client.head(&format!("/bucket/parts?partNumber={number}"));
                assert_eq!(head.send().await.is(206).header(&name), None);
            }
        }
    });
}

#[test]
fn copied_ranges_lie_within_their_source() {
    talk(async {
        let client = house().await.owner;
        client.put("/bucket/k").body("12345").send().await.is(200);
        let id = begin(&client, "copy").await;
        let copy = |range: &str| {
            let copy = client.put(&format!("/bucket/copy?uploadId={id}&partNumber=1"));
            copy.header("x-amz-copy-source", "bucket/k")
                .header("x-amz-copy-source-range", range)
        };
        copy("bytes=0-21")
            .send()
            .await
            .refused_with(416, "InvalidRange");
        copy("bytes=0-5")
            .send()
            .await
            .refused_with(416, "InvalidRange");
        copy("bytes=0-4").send().await.is(200);
    });
}

#[test]
fn uploads_say_how_their_bucket_encrypts() {
    talk(async {
        let client = house().await.owner;
        let begun = client.post("/bucket/k?uploads").send().await.is(200);
        assert_eq!(begun.header("x-amz-server-side-encryption"), None);
        let rule = "<ServerSideEncryptionConfiguration><Rule>\
                    <ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm>\
                    </ApplyServerSideEncryptionByDefault></Rule>\
                    </ServerSideEncryptionConfiguration>";
        let put = client.put("/bucket?encryption").body(rule);
        put.send().await.is(200);
        let begun = client.post("/bucket/k?uploads").send().await.is(200);
        let said = begun.header("x-amz-server-side-encryption");
        assert_eq!(said, Some("AES256"));
    });
}
