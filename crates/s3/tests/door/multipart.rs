//! Uploads in parts.

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
        let done = client.post(&target).body(xml).send().await.is(200);
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
