//! The examples of the Amazon S3 API reference, with its well-known example key.

use aws_lc_rs::digest::{SHA256, digest};

use super::*;

const HOST: &str = "examplebucket.s3.amazonaws.com";

/// 2013-05-24 00:00:00 UTC, the date of all examples.
const EXAMPLE_UNIX_S: u64 = 1_369_353_600;

fn signer() -> Signer {
    let credentials = Credentials::new(
        "AKIAIOSFODNN7EXAMPLE",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    );
    Signer::new(credentials, "us-east-1", EXAMPLE_UNIX_S)
}

#[test]
fn get_with_range_as_documented() {
    let request = RequestToSign {
        method: "GET",
        path: "/test.txt",
        query: "",
        headers: &[
            ("host", HOST),
            ("range", "bytes=0-9"),
            ("x-amz-content-sha256", EMPTY_SHA256),
            ("x-amz-date", "20130524T000000Z"),
        ],
        payload: EMPTY_SHA256,
    };
    let mut value = Vec::new();
    signer().authorize(&request, &mut value);
    assert_eq!(
        String::from_utf8(value).unwrap(),
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
         SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
         Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    );
}

#[test]
fn put_as_documented() {
    let body = hex(digest(&SHA256, b"Welcome to Amazon S3.").as_ref());
    assert_eq!(
        body,
        "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
    );
    let mut path = String::from("/");
    encode_path(&mut path, b"test$file.text");
    let request = RequestToSign {
        method: "PUT",
        path: &path,
        query: "",
        headers: &[
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("host", HOST),
            ("x-amz-content-sha256", &body),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ],
        payload: &body,
    };
    assert_eq!(
        signer().sign(&request).to_string(),
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
    );
}

#[test]
fn queries_as_documented() {
    let headers = [
        ("host", HOST),
        ("x-amz-content-sha256", EMPTY_SHA256),
        ("x-amz-date", "20130524T000000Z"),
    ];
    for (query, expected) in [
        (
            "lifecycle=",
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "max-keys=2&prefix=J",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ] {
        let request = RequestToSign {
            method: "GET",
            path: "/",
            query,
            headers: &headers,
            payload: EMPTY_SHA256,
        };
        assert_eq!(signer().sign(&request).to_string(), expected, "{query}");
    }
}

#[test]
fn chunks_as_documented() {
    let mut signer = signer();
    let request = RequestToSign {
        method: "PUT",
        path: "/examplebucket/chunkObject.txt",
        query: "",
        headers: &[
            ("content-encoding", "aws-chunked"),
            ("content-length", "66824"),
            ("host", "s3.amazonaws.com"),
            ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-decoded-content-length", "66560"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ],
        payload: "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    };
    let seed = signer.sign(&request);
    assert_eq!(
        seed.to_string(),
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
    );
    let body = vec![b'a'; 66_560];
    let mut chunks = signer.chunks(seed);
    let (first, second) = body.split_at(65_536);
    let (third, fourth) = first.split_at(1_000);
    for (pieces, expected) in [
        (
            &[third, fourth][..],
            "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        ),
        (
            &[second],
            "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        ),
        (
            &[],
            "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
        ),
    ] {
        pieces.iter().for_each(|piece| chunks.update(piece));
        assert_eq!(chunks.sign_chunk().to_string(), expected);
    }
}

#[test]
fn a_presigned_url_as_documented() {
    let url = signer().presigned_url(
        "GET",
        "https://examplebucket.s3.amazonaws.com:443/",
        "/test.txt",
        86_400,
    );
    assert_eq!(
        url.as_deref(),
        Some(
            "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&\
             X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&\
             X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&\
             X-Amz-Signature=\
             aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        )
    );
    for bad in ["ftp://h", "https://", "h", "https://h/x"] {
        assert_eq!(signer().presigned_url("GET", bad, "/k", 1), None, "{bad}");
    }
}

#[test]
fn a_new_day_derives_a_new_key_and_the_old_one_comes_back() {
    let headers = [("host", HOST)];
    let request = RequestToSign {
        method: "GET",
        path: "/",
        query: "",
        headers: &headers,
        payload: EMPTY_SHA256,
    };
    let mut moving = signer();
    let first = moving.sign(&request);
    moving.tick(EXAMPLE_UNIX_S + 86_400);
    let second = moving.sign(&request);
    assert_ne!(first, second);
    let mut fresh = signer();
    fresh.tick(EXAMPLE_UNIX_S + 86_400);
    assert_eq!(fresh.sign(&request), second);
    moving.tick(EXAMPLE_UNIX_S);
    assert_eq!(moving.sign(&request), first);
    moving.tick(EXAMPLE_UNIX_S + 1);
    assert_ne!(
        moving.sign(&request),
        first,
        "the second is part of the signature"
    );
}

#[test]
fn secrets_are_not_printed() {
    let text = format!("{:?}", signer());
    assert!(
        text.contains("AKIAIOSFODNN7EXAMPLE") && !text.contains("wJalr"),
        "{text}"
    );
}
