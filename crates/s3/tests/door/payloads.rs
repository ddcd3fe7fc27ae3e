//! Every way to send a body.

use crate::client::{TestClient, sha256};
use crate::fixture::{fixture, talk};

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

async fn holds(client: &TestClient, key: &str, body: &[u8]) {
    let get = client.get(&format!("/bucket/{key}")).send().await.is(200);
    assert_eq!(get.body, body);
}

#[test]
fn a_signed_digest_must_be_that_of_the_body() {
    talk(async {
        let client = fixture().await.owner;
        let call = client.put("/bucket/k").body("hello");
        let reply = call.send_with_body(b"hellO").await;
        reply.refused_with(400, "XAmzContentSHA256Mismatch");
        client.head("/bucket/k").send().await.is(404);
        let short = client
            .put("/bucket/k")
            .body("hello")
            .send_with_body(b"hell")
            .await;
        short.refused_with(400, "IncompleteBody");
        client.head("/bucket/k").send().await.is(404);
    });
}

#[test]
fn checksums_in_headers_are_verified_and_kept() {
    talk(async {
        let client = fixture().await.owner;
        for (name, value) in [
            ("crc32", "NhCmhg=="),
            ("crc32c", "mnG7TA=="),
            ("crc64nvme", "M3eFcAZSQlc="),
            ("sha1", "qvTGHdzF6KLavt4PO0gs2a6pQ00="),
            ("sha256", "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="),
        ] {
            let header = format!("x-amz-checksum-{name}");
            let path = format!("/bucket/{name}");
            let put = client
                .put(&path)
                .header(&header, value)
                .body("hello")
                .send()
                .await
                .is(200);
            assert_eq!(put.header(&header), Some(value));
            let get = client
                .get(&path)
                .header("x-amz-checksum-mode", "ENABLED")
                .send()
                .await;
            assert_eq!(get.header(&header), Some(value));
            let list = client
                .get(&format!("/bucket?prefix={name}"))
                .send()
                .await
                .is(200);
            assert_eq!(list.elements("ChecksumAlgorithm")[0], name.to_uppercase());
            let wrong = client
                .put("/bucket/w")
                .header(&header, value)
                .body("hallo")
                .send()
                .await;
            wrong.refused_with(400, "BadDigest");
            let broken = client
                .put("/bucket/w")
                .header(&header, "AA")
                .body("hello")
                .send()
                .await;
            broken.refused_with(400, "BadDigest");
        }
        client.head("/bucket/w").send().await.is(404);
        let md5 = |value: &str| {
            client
                .put("/bucket/m")
                .header("content-md5", value)
                .body("hello")
        };
        md5("XUFAKrxLKna5cZ2REBfFkg==").send().await.is(200);
        md5("AAAAAAAAAAAAAAAAAAAAAA==")
            .send()
            .await
            .refused_with(400, "BadDigest");
        md5("nonsense")
            .send()
            .await
            .refused_with(400, "InvalidDigest");
        let two = client
            .put("/bucket/w")
            .header("x-amz-checksum-crc32", "NhCmhg==");
        let two = two.header("x-amz-checksum-sha1", "qvTGHdzF6KLavt4PO0gs2a6pQ00=");
        two.body("hello")
            .send()
            .await
            .refused_with(400, "InvalidRequest");
        let new = client
            .put("/bucket/w")
            .header("x-amz-checksum-blake3", "AAAAAAAAAAA=");
        new.body("hello")
            .send()
            .await
            .refused_with(400, "InvalidRequest");
    });
}

#[test]
fn unsigned_trailers_as_sdks_send_them() {
    talk(async {
        let client = fixture().await.owner;
        let call = |trailer: &str, decoded: Option<&str>| {
            let mut call = client
                .put("/bucket/t")
                .header("content-encoding", "aws-chunked")
                .header("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
                .header("x-amz-trailer", "x-amz-checksum-crc32")
                .header("x-amz-sdk-checksum-algorithm", "CRC32");
            if let Some(decoded) = decoded {
                call = call.header("x-amz-decoded-content-length", decoded);
            }
            call.body(format!("3\r\nhel\r\n2\r\nlo\r\n0\r\n{trailer}\r\n"))
        };
        let good = "x-amz-checksum-crc32:NhCmhg==\r\n";
        for decoded in [Some("5"), None] {
            // Over TLS there is no Content-Length either.
            let mut sent = call(good, decoded).pieces(7);
            if decoded.is_none() {
                sent = sent
                    .without("content-length")
                    .header("transfer-encoding", "chunked");
            }
            let put = sent.send().await.is(200);
            assert_eq!(put.header("x-amz-checksum-crc32"), Some("NhCmhg=="));
            holds(&client, "t", b"hello").await;
            let head = client.head("/bucket/t").send().await.is(200);
            assert_eq!(
                head.header("content-encoding"),
                None,
                "aws-chunked is not the object's"
            );
        }
        client.delete("/bucket/t").send().await.is(204);
        let wrong = "x-amz-checksum-crc32:AAAAAA==\r\n";
        call(wrong, Some("5"))
            .send()
            .await
            .refused_with(400, "BadDigest");
        call("", Some("5"))
            .send()
            .await
            .refused_with(400, "MalformedTrailerError");
        call(good, Some("6"))
            .send()
            .await
            .refused_with(400, "IncompleteBody");
        call(good, Some("4"))
            .send()
            .await
            .refused_with(400, "InvalidRequest");
        client.head("/bucket/t").send().await.is(404);
        let gzip = call(good, Some("5")).header("content-encoding", "gzip,aws-chunked");
        gzip.send().await.is(200);
        let head = client.head("/bucket/t").send().await.is(200);
        assert_eq!(head.header("content-encoding"), Some("gzip"));
    });
}

/// Chunks of four bytes, signed one after the other.
fn chunks(client: &TestClient, seed: &str, body: &[u8], trailer: Option<&str>) -> Vec<u8> {
    let key = client.signing_key();
    let context = format!("{}\n{}\n", client.date().as_str(), client.scope());
    let mut previous = seed.to_owned();
    let mut out = Vec::new();
    for chunk in body.chunks(4).chain([&b""[..]]) {
        let string = format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{context}{previous}\n{EMPTY}\n{}",
            sha256(chunk)
        );
        previous = key.sign(&string).to_string();
        let head = format!("{:x};chunk-signature={previous}\r\n", chunk.len());
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(chunk);
        if !chunk.is_empty() {
            out.extend_from_slice(b"\r\n");
        }
    }
    if let Some(trailer) = trailer {
        let digest = sha256(format!("{trailer}\n").as_bytes());
        let string = format!("AWS4-HMAC-SHA256-TRAILER\n{context}{previous}\n{digest}");
        let signature = key.sign(&string).to_string();
        let text = format!("{trailer}\r\nx-amz-trailer-signature:{signature}\r\n");
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out
}

#[test]
fn signed_chunks_with_and_without_trailers() {
    talk(async {
        let client = fixture().await.owner;
        let trailer = "x-amz-checksum-crc32:NhCmhg==";
        for (mode, trailer) in [
            ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", None),
            ("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", Some(trailer)),
        ] {
            let call = || {
                let call = client
                    .put("/bucket/s")
                    .without("content-length")
                    .header("x-amz-content-sha256", mode)
                    .header("transfer-encoding", "chunked")
                    .header("x-amz-decoded-content-length", "5");
                match trailer {
                    Some(_) => call.header("x-amz-trailer", "x-amz-checksum-crc32"),
                    None => call,
                }
            };
            let (request, seed) = call().signed();
            let body = chunks(&client, &seed, b"hello", trailer);
            client.send(request.map(|_| body.clone()), 11).await.is(200);
            holds(&client, "s", b"hello").await;
            client.delete("/bucket/s").send().await.is(204);

            let (request, _) = call().signed();
            let mut forged = body.clone();
            let at = forged
                .windows(4)
                .position(|w| w == b"hell")
                .expect("the data");
            forged[at] = b'H';
            let reply = client.send(request.map(|_| forged), 11).await;
            reply.refused_with(403, "SignatureDoesNotMatch");
            client.head("/bucket/s").send().await.is(404);
        }
    });
}

#[test]
fn lengths_are_needed_and_kept() {
    talk(async {
        let client = fixture().await.owner;
        let none = client
            .put("/bucket/k")
            .without("content-length")
            .send()
            .await;
        none.refused_with(411, "MissingContentLength");
        let huge = client
            .put("/bucket/k")
            .header("content-length", "6000000000000")
            .send()
            .await;
        huge.refused_with(400, "EntityTooLarge");
        let broken = client
            .put("/bucket/k")
            .header("content-length", "-1")
            .send()
            .await;
        broken.refused_with(400, "InvalidRequest");
        let unsigned = client
            .put("/bucket/k")
            .header("x-amz-content-sha256", "UNSIGNED-PAYLOAD");
        unsigned.body("free").send().await.is(200);
        holds(&client, "k", b"free").await;
    });
}
