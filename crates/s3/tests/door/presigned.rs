//! Presigned addresses with headers among their parameters.

use crate::client::{TestClient, TestResponse};
use crate::fixture::{fixture, talk};

/// CRC-32 and SHA-256 of `hello`.
const CRC32: &str = "NhCmhg%3D%3D";
const SHA256: &str = "LPJNul%2Bwow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ%3D";
/// MD5 of `hello`.
const MD5: &str = "XUFAKrxLKna5cZ2REBfFkg%3D%3D";

async fn put(client: &TestClient, query: &str, body: &str) -> TestResponse {
    let target = format!("/bucket/k?{query}");
    let call = client.put(&target).without("content-length").presigned(60);
    call.body(body).send_unsigned().await
}

#[test]
fn a_checksum_in_the_address_is_held_against_the_body() {
    talk(async {
        let client = fixture().await.owner;
        for (query, header) in [
            (
                format!("x-amz-checksum-crc32={CRC32}&x-amz-sdk-checksum-algorithm=CRC32"),
                "x-amz-checksum-crc32",
            ),
            (
                format!("X-Amz-Checksum-Sha256={SHA256}"),
                "x-amz-checksum-sha256",
            ),
        ] {
            let refused = put(&client, &query, "hellO").await;
            refused.refused_with(400, "BadDigest");
            client.head("/bucket/k").send().await.is(404);
            let done = put(&client, &query, "hello").await.is(200);
            let told = done.header(header).expect("kept").to_owned();
            // And shown to readers, who may ask for it in an address too.
            let get = client.get("/bucket/k?x-amz-checksum-mode=ENABLED");
            let get = get.presigned(60).send_unsigned().await.is(200);
            assert_eq!(get.header(header), Some(&*told));
            client.delete("/bucket/k").send().await.is(204);
        }
        let query = format!("content-md5={MD5}");
        let refused = put(&client, &query, "hellO").await;
        refused.refused_with(400, "BadDigest");
        put(&client, &query, "hello").await.is(200);
        put(&client, "x-amz-checksum-crc32=x", "hello")
            .await
            .refused_with(400, "BadDigest");
    });
}

/// What SDKs put there that add checksums by themselves and sign without a body.
#[test]
fn the_checksum_of_no_body_stands_for_none() {
    talk(async {
        let client = fixture().await.owner;
        for query in [
            "x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32",
            "x-amz-checksum-crc64nvme=AAAAAAAAAAA%3D",
            "x-amz-checksum-sha256=47DEQpj8HBSa%2B%2FTImW%2B5JCeuQeRkm5NMpJWZG3hSuFU%3D",
            "content-md5=1B2M2Y8AsgTpgAmY7PhCfg%3D%3D",
        ] {
            put(&client, query, "hello").await.is(200);
            put(&client, query, "").await.is(200);
        }
    });
}

#[test]
fn what_an_address_says_counts_as_headers_do() {
    talk(async {
        let client = fixture().await.owner;
        let query = "x-amz-tagging=a%3D1&X-Amz-Meta-Name=n%C3%A4me&x-amz-acl=private\
                     &x-amz-server-side-encryption=AES256";
        put(&client, query, "hello").await.is(200);
        let head = client.head("/bucket/k").send().await.is(200);
        assert_eq!(head.header("x-amz-tagging-count"), Some("1"));
        assert_eq!(
            head.headers["x-amz-meta-name"].as_bytes(),
            "näme".as_bytes()
        );
        assert_eq!(head.header("x-amz-server-side-encryption"), Some("AES256"));
        for (query, code) in [
            ("x-amz-storage-class=NONE", "InvalidStorageClass"),
            ("x-amz-server-side-encryption=rot13", "InvalidArgument"),
            ("x-amz-meta-a=a%0Ab", "InvalidArgument"),
        ] {
            put(&client, query, "hello").await.refused_with(400, code);
        }
        let query = "x-amz-expected-bucket-owner=somebody";
        put(&client, query, "x")
            .await
            .refused_with(403, "AccessDenied");
    });
}

#[test]
fn a_header_may_repeat_the_address_and_not_contradict_it() {
    talk(async {
        let client = fixture().await.owner;
        let both = |value: &str| {
            let call = client
                .put("/bucket/k?x-amz-meta-a=1")
                .without("content-length");
            call.header("x-amz-meta-a", value).presigned(60).body("x")
        };
        both("1").send_unsigned().await.is(200);
        both("2")
            .send_unsigned()
            .await
            .refused_with(400, "InvalidArgument");
        // What is not signed is not taken at all.
        let call = client.put("/bucket/k").without("content-length");
        let call = call.presigned(60).header("x-amz-meta-a", "1").body("x");
        call.send_unsigned().await.refused_with(403, "AccessDenied");
        // In a request that is signed in its headers, parameters are no headers.
        let call = client.put("/bucket/k?x-amz-meta-a=1").body("x");
        call.send().await.is(200);
        let head = client.head("/bucket/k").send().await.is(200);
        assert_eq!(head.header("x-amz-meta-a"), None);
    });
}
