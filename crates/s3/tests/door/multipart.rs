//! Uploads in parts.

use aws_lc_rs::digest::{SHA256, SHA512, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::client::{TestClient, TestRequest, TestResponse, hex};
use crate::fixture::{fixture, talk};

const PART: usize = 5 << 20;

fn part(number: u8, len: usize) -> Vec<u8> {
    (0..len)
        .map(|n| (n as u8).wrapping_mul(31).wrapping_add(number))
        .collect()
}

async fn begin(client: &TestClient, key: &str) -> String {
    let reply = client
        .post(&format!("/bucket/{key}?uploads"))
        .send()
        .await
        .is(200);
    reply.element("UploadId").expect("an id")
}

async fn upload(client: &TestClient, key: &str, id: &str, number: u8, body: &[u8]) -> TestResponse {
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
        let client = fixture().await.owner;
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
        let client = fixture().await.owner;
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
        let tag = |reply: &TestResponse| reply.element("ETag").expect("an ETag");
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
        let client = fixture().await.owner;
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
        let client = fixture().await.owner;
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
        let client = fixture().await.owner;
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
        let client = fixture().await.owner;
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
        let client = fixture().await.owner;
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

#[test]
fn a_completion_that_is_repeated_must_say_the_same() {
    talk(async {
        let client = fixture().await.owner;
        let begun = client.post("/bucket/k?uploads");
        let begun = begun.header("x-amz-checksum-algorithm", "CRC32");
        let begun = begun.header("x-amz-checksum-type", "FULL_OBJECT");
        let id = begun.send().await.is(200).element("UploadId").expect("id");
        let mut etags = Vec::new();
        for (number, body) in [
            (1, part(1, PART)),
            (2, part(2, PART)),
            (3, b"last".to_vec()),
        ] {
            let sent = upload(&client, "k", &id, number, &body).await.is(200);
            etags.push(sent.header("etag").expect("an ETag").to_owned());
        }
        let target = format!("/bucket/k?uploadId={id}");
        let complete = |numbers: &[u8]| {
            let named: Vec<_> = numbers
                .iter()
                .map(|number| (*number, etags[usize::from(*number) - 1].as_str()))
                .collect();
            client.post(&target).body(list(&named))
        };
        let done = complete(&[1, 2, 3]).send().await.is(200);
        let crc = done.element("ChecksumCRC32").expect("a checksum");
        for same in [
            complete(&[1, 2, 3]),
            complete(&[1, 2, 3]).header("x-amz-checksum-crc32", &crc),
            // It was so when the first one came.
            complete(&[1, 2, 3]).header("if-none-match", "*"),
        ] {
            let again = same.send().await.is(200);
            assert_eq!(again.element("ETag"), done.element("ETag"));
            assert_eq!(again.element("ChecksumCRC32"), Some(crc.clone()));
        }
        let foreign = list(&[(1, &etags[1]), (2, &etags[0]), (3, &etags[2])]);
        let foreign = client.post(&target).body(foreign);
        let nonsense = client.post(&target).body(list(&[(1, "\"x\"")]));
        for other in [complete(&[1, 2]), complete(&[1, 3]), foreign, nonsense] {
            other.send().await.refused_with(400, "InvalidPart");
        }
        let other = complete(&[1, 2, 3]).header("x-amz-checksum-crc32", "AAAAAA==");
        other.send().await.refused_with(400, "BadDigest");
        let other = complete(&[1, 2, 3]).header("x-amz-mp-object-size", "5");
        other.send().await.refused_with(400, "InvalidArgument");
        // What was written since is not this upload's.
        client.put("/bucket/k").body("new").send().await.is(200);
        let late = complete(&[1, 2, 3]).send().await;
        late.refused_with(404, "NoSuchUpload");
    });
}

/// With headers of a customer's key.
fn sealed<'a>(mut call: TestRequest<'a>, prefix: &str) -> TestRequest<'a> {
    let key = [7; 32];
    for (name, value) in [
        ("algorithm", "AES256".to_owned()),
        ("key", STANDARD.encode(key)),
        ("key-md5", STANDARD.encode(dewar_checksum::md5(&key))),
    ] {
        let name = format!("{prefix}server-side-encryption-customer-{name}");
        call = call.header(&name, &value);
    }
    call
}

const OBJECT: &str = "x-amz-";
const SOURCE: &str = "x-amz-copy-source-";

#[test]
fn parts_under_a_customers_key_are_named_by_nothing_that_tells_of_them() {
    talk(async {
        let client = fixture().await.owner.over_tls([192, 0, 2, 7], "1.3");
        let begun = client.post("/bucket/k?uploads");
        let begun = begun.header("x-amz-checksum-algorithm", "SHA256");
        let begun = sealed(begun, OBJECT).send().await.is(200);
        let id = begun.element("UploadId").expect("an id");
        let first = part(1, PART);
        let target = |number: u8| format!("/bucket/k?partNumber={number}&uploadId={id}");
        let sent = client.put(&target(1)).body(&first);
        let sent = sealed(sent, OBJECT).send().await.is(200);
        let one = sent.header("etag").expect("an ETag").to_owned();
        let sum = sent.header("x-amz-checksum-sha256").expect("a checksum");
        // Sent once more it keeps its name; in another upload it has another.
        let again = sealed(client.put(&target(1)).body(&first), OBJECT);
        assert_eq!(again.send().await.is(200).header("etag"), Some(&*one));
        let other = sealed(client.post("/bucket/other?uploads"), OBJECT);
        let other = other
            .send()
            .await
            .is(200)
            .element("UploadId")
            .expect("an id");
        let other = client.put(&format!("/bucket/other?partNumber=1&uploadId={other}"));
        let other = sealed(other.body(&first), OBJECT).send().await.is(200);
        assert_ne!(other.header("etag"), Some(&*one));
        client
            .put("/bucket/from")
            .body("copied")
            .send()
            .await
            .is(200);
        let copy = client.put(&target(2));
        let copy = copy.header("x-amz-copy-source", "bucket/from");
        let copy = sealed(copy, OBJECT).send().await.is(200);
        let two = copy.element("ETag").expect("an ETag");
        let md5 = |bytes: &[u8]| format!("\"{}\"", hex(&dewar_checksum::md5(bytes)));
        assert_ne!(one, md5(&first));
        assert_ne!(two, md5(b"copied"));
        // The same names everywhere, and checksums for those with the key.
        let listed = client.get(&format!("/bucket/k?uploadId={id}"));
        let told = sealed(listed, OBJECT).send().await.is(200);
        assert_eq!(told.elements("ETag"), [one.as_str(), two.as_str()]);
        assert_eq!(told.element("ChecksumSHA256").as_deref(), Some(sum));
        let listed = client.get(&format!("/bucket/k?uploadId={id}"));
        let listed = listed.send().await.is(200);
        assert_eq!(listed.elements("ETag"), [one.as_str(), two.as_str()]);
        assert_eq!(listed.element("ChecksumSHA256"), None);
        let complete = |etags: [&str; 2]| {
            let xml = list(&[(1, etags[0]), (2, etags[1])]);
            let call = client.post(&format!("/bucket/k?uploadId={id}")).body(xml);
            sealed(call, OBJECT)
        };
        let wrong = complete([&md5(&first), &two]).send().await;
        wrong.refused_with(400, "InvalidPart");
        let done = complete([&one, &two]).send().await.is(200);
        let again = complete([&one, &two]).send().await.is(200);
        assert_eq!(again.element("ETag"), done.element("ETag"));
        assert_eq!(
            again.element("ChecksumSHA256"),
            done.element("ChecksumSHA256")
        );
        let both = [dewar_checksum::md5(&first), dewar_checksum::md5(b"copied")];
        let clear = format!("\"{}\"", dewar_checksum::multipart_etag(&both));
        let etag = done.element("ETag").expect("an ETag");
        assert!(etag != clear && etag.ends_with("-2\""), "{etag}");
        let head = sealed(client.head("/bucket/k"), OBJECT)
            .send()
            .await
            .is(200);
        assert_eq!(head.header("etag"), Some(&*etag));
    });
}

/// What is told of an object by each way to ask, but for its value in listings.
async fn told(client: &TestClient, key: &str, name: &str, sse_c: bool) -> Option<String> {
    let with = |call| if sse_c { sealed(call, OBJECT) } else { call };
    let head = client.head(&format!("/bucket/{key}"));
    let head = head.header("x-amz-checksum-mode", "ENABLED");
    let head = with(head).send().await.is(200);
    let header = format!("x-amz-checksum-{}", name.to_lowercase());
    let sum = head.header(&header).map(str::to_owned);
    let attributes = client.get(&format!("/bucket/{key}?attributes"));
    let attributes = attributes.header("x-amz-object-attributes", "Checksum");
    let attributes = with(attributes).send().await.is(200);
    assert_eq!(attributes.element(&format!("Checksum{name}")), sum);
    for list in ["prefix", "list-type=2&prefix", "versions&prefix"] {
        let listed = client.get(&format!("/bucket?{list}={key}")).send().await;
        let algorithm = listed.is(200).element("ChecksumAlgorithm");
        assert_eq!(algorithm.is_some(), sum.is_some(), "{list}");
    }
    sum
}

/// Asks for an encryption of what is written.
fn how<'a>(call: TestRequest<'a>, how: &str) -> TestRequest<'a> {
    match how {
        "plain" => call,
        "dewar" => call.header("x-amz-server-side-encryption", "AES256"),
        _ => sealed(call, OBJECT),
    }
}

#[test]
fn checksums_of_encrypted_objects_are_told_like_any() {
    talk(async {
        let client = fixture().await.owner.over_tls([192, 0, 2, 7], "1.3");
        for from in ["plain", "dewar", "customer"] {
            // One piece with a SHA-256, and two parts with one over theirs.
            let put = client.put("/bucket/one").body("hello");
            let put = put.header(
                "x-amz-checksum-sha256",
                "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=",
            );
            how(put, from).send().await.is(200);
            let begun = client.post("/bucket/two?uploads");
            let begun = begun.header("x-amz-checksum-algorithm", "SHA256");
            let begun = how(begun, from).send().await.is(200);
            let id = begun.element("UploadId").expect("an id");
            let (mut etags, mut sums) = (Vec::new(), Vec::new());
            for (number, body) in [(1, part(1, PART)), (2, b"last".to_vec())] {
                let target = format!("/bucket/two?partNumber={number}&uploadId={id}");
                // Its own checksum is another: that of the whole is made all the same.
                let crc = if number == 2 { "StupoA==" } else { "" };
                let call = client.put(&target).body(&body);
                let call = match crc {
                    "" => call,
                    crc => call.header("x-amz-checksum-crc32", crc),
                };
                let call = if from == "customer" {
                    sealed(call, OBJECT)
                } else {
                    call
                };
                let sent = call.send().await.is(200);
                etags.push(sent.header("etag").expect("an ETag").to_owned());
                sums.push(STANDARD.encode(digest(&SHA256, &body)));
            }
            let xml = list(&[(1, &etags[0]), (2, &etags[1])]);
            let done = client.post(&format!("/bucket/two?uploadId={id}")).body(xml);
            let done = if from == "customer" {
                sealed(done, OBJECT)
            } else {
                done
            };
            let done = done.send().await.is(200).element("ChecksumSHA256");
            let sse_c = from == "customer";
            assert!(done.is_some(), "{from}");
            assert_eq!(told(&client, "two", "SHA256", sse_c).await, done);
            assert!(told(&client, "one", "SHA256", sse_c).await.is_some());
            for (number, sum) in (1..).zip(&sums) {
                let get = client.get(&format!("/bucket/two?partNumber={number}"));
                let get = get.header("x-amz-checksum-mode", "ENABLED");
                let get = if sse_c { sealed(get, OBJECT) } else { get };
                let get = get.send().await.is(206);
                assert_eq!(get.header("x-amz-checksum-sha256"), Some(sum.as_str()));
            }
            let attributes = client.get("/bucket/two?attributes");
            let attributes = attributes.header("x-amz-object-attributes", "ObjectParts");
            let attributes = if sse_c {
                sealed(attributes, OBJECT)
            } else {
                attributes
            };
            let attributes = attributes.send().await.is(200);
            assert_eq!(attributes.elements("ChecksumSHA256"), sums);
            for to in ["plain", "dewar", "customer"] {
                for source in ["one", "two"] {
                    for (name, asked) in [("SHA256", false), ("CRC32C", true)] {
                        let copy = client.put("/bucket/copy");
                        let copy = copy.header("x-amz-copy-source", &format!("bucket/{source}"));
                        let copy = if sse_c { sealed(copy, SOURCE) } else { copy };
                        let copy = match asked {
                            true => copy.header("x-amz-checksum-algorithm", name),
                            false => copy,
                        };
                        let copy = how(copy, to).send().await.is(200);
                        let sum = copy.element(&format!("Checksum{name}"));
                        assert!(sum.is_some(), "{from} {source} to {to}: {}", copy.text());
                        assert_eq!(told(&client, "copy", name, to == "customer").await, sum);
                    }
                }
            }
        }
    });
}

#[test]
fn uploads_tell_when_they_are_given_up() {
    talk(async {
        let client = fixture().await.owner;
        let begun = client.post("/bucket/tmp/k?uploads").send().await.is(200);
        assert_eq!(begun.header("x-amz-abort-date"), None);
        let rule = |id: &str, prefix: &str, status: &str, days: u32| {
            format!(
                "<Rule><ID>{id}</ID><Filter><Prefix>{prefix}</Prefix></Filter>\
                 <Status>{status}</Status><AbortIncompleteMultipartUpload>\
                 <DaysAfterInitiation>{days}</DaysAfterInitiation>\
                 </AbortIncompleteMultipartUpload></Rule>"
            )
        };
        let rules = [
            rule("later", "", "Enabled", 9),
            rule("soon", "tmp/", "Enabled", 3),
            rule("off", "tmp/", "Disabled", 1),
        ];
        let xml = format!(
            "<LifecycleConfiguration>{}</LifecycleConfiguration>",
            rules.concat()
        );
        let sum = STANDARD.encode(dewar_checksum::md5(xml.as_bytes()));
        let put = client.put("/bucket?lifecycle").header("content-md5", &sum);
        put.body(xml).send().await.is(200);
        for (key, rule) in [("tmp/k", "soon"), ("k", "later")] {
            let begun = client.post(&format!("/bucket/{key}?uploads"));
            let begun = begun.send().await.is(200);
            let date = begun.header("x-amz-abort-date").expect("a date");
            assert!(date.ends_with(" GMT"), "{date}");
            assert_eq!(begun.header("x-amz-abort-rule-id"), Some(rule));
            let id = begun.element("UploadId").expect("an id");
            let listed = client.get(&format!("/bucket/{key}?uploadId={id}"));
            let listed = listed.send().await.is(200);
            assert_eq!(listed.header("x-amz-abort-date"), Some(date));
            assert_eq!(listed.header("x-amz-abort-rule-id"), Some(rule));
        }
    });
}

#[test]
fn uploads_are_listed_with_the_class_of_their_object() {
    talk(async {
        let client = fixture().await.owner;
        for class in ["COLD", "STANDARD"] {
            let begun = client.post("/bucket/k?uploads");
            let begun = begun.header("x-amz-storage-class", class);
            let begun = begun.send().await.is(200);
            let id = begun.element("UploadId").expect("an id");
            let target = format!("/bucket/k?uploadId={id}");
            for listed in [target.as_str(), "/bucket?uploads"] {
                let listed = client.get(listed).send().await.is(200);
                assert_eq!(listed.element("StorageClass").as_deref(), Some(class));
            }
            client.delete(&target).send().await.is(204);
        }
    });
}

/// minio-go names the composite checksum of the whole without the number of parts, and says its type.
#[test]
fn a_composite_checksum_may_come_without_the_number_of_parts() {
    talk(async {
        let client = fixture().await.owner;
        let target = "/bucket/sum?uploads";
        let call = client
            .post(target)
            .header("x-amz-checksum-algorithm", "SHA512");
        let id = call
            .send()
            .await
            .is(200)
            .element("UploadId")
            .expect("an id");
        let sum = |bytes: &[u8]| digest(&SHA512, bytes);
        let mut list = String::new();
        let mut inner = Vec::new();
        for (number, body) in [(1, part(1, PART)), (2, part(2, 1000))] {
            let value = STANDARD.encode(sum(&body).as_ref());
            inner.extend_from_slice(sum(&body).as_ref());
            let target = format!("/bucket/sum?partNumber={number}&uploadId={id}");
            let call = client.put(&target).header("x-amz-checksum-sha512", &value);
            let call = call.header("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
            let done = call.body(&body).pieces(100_000).send().await.is(200);
            assert_eq!(done.header("x-amz-checksum-sha512"), Some(&*value));
            let etag = done.header("etag").expect("an ETag");
            list.push_str(&format!(
                "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag>\
                 <ChecksumSHA512>{value}</ChecksumSHA512></Part>"
            ));
        }
        let whole = STANDARD.encode(sum(&inner).as_ref());
        let complete = |value: &str| {
            client
                .post(&format!("/bucket/sum?uploadId={id}"))
                .header("x-amz-checksum-type", "COMPOSITE")
                .header("x-amz-checksum-sha512", value)
                .body(format!(
                    "<CompleteMultipartUpload>{list}</CompleteMultipartUpload>"
                ))
        };
        let wrong = STANDARD.encode([0; 64]);
        complete(&wrong).send().await.refused_with(400, "BadDigest");
        let three = format!("{whole}-3");
        complete(&three).send().await.refused_with(400, "BadDigest");
        let done = complete(&whole).send().await.is(200);
        let told = format!("{whole}-2");
        assert_eq!(done.element("ChecksumSHA512").as_deref(), Some(&*told));
        assert_eq!(done.element("ChecksumType").as_deref(), Some("COMPOSITE"));
        let place = "http://localhost:9000/bucket/sum";
        assert_eq!(done.element("Location").as_deref(), Some(place));
        complete(&told).send().await.is(200);
        let head = client
            .head("/bucket/sum")
            .header("x-amz-checksum-mode", "ENABLED");
        let head = head.send().await.is(200);
        assert_eq!(head.header("x-amz-checksum-sha512"), Some(&*told));
    });
}

#[test]
fn algorithms_that_do_not_combine_are_over_parts() {
    talk(async {
        let client = fixture().await.owner;
        for algorithm in ["MD5", "SHA512", "XXHASH64", "XXHASH3", "XXHASH128"] {
            let begin = |kind: &'static str| {
                let call = client.post("/bucket/k?uploads");
                let call = call.header("x-amz-checksum-algorithm", algorithm);
                call.header("x-amz-checksum-type", kind)
            };
            let whole = begin("FULL_OBJECT").send().await;
            whole.refused_with(400, "InvalidRequest");
            let parts = begin("COMPOSITE").send().await.is(200);
            assert_eq!(parts.header("x-amz-checksum-type"), Some("COMPOSITE"));
        }
    });
}
