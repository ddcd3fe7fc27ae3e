//! The examples of the Amazon S3 API reference, with its well-known example key.

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
    let request = Canonical {
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
    let body = payload_sha256([b"Welcome to ".as_slice(), b"Amazon S3."].into_iter());
    assert_eq!(
        body.as_str(),
        "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
    );
    let mut path = String::from("/");
    percent_encode_path("test$file.text", &mut path);
    let request = Canonical {
        method: "PUT",
        path: &path,
        query: "",
        headers: &[
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("host", HOST),
            ("x-amz-content-sha256", body.as_str()),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ],
        payload: body.as_str(),
    };
    assert_eq!(
        signer().signature(&request).as_str(),
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
        let request = Canonical {
            method: "GET",
            path: "/",
            query,
            headers: &headers,
            payload: EMPTY_SHA256,
        };
        assert_eq!(signer().signature(&request).as_str(), expected, "{query}");
    }
}

#[test]
fn chunks_as_documented() {
    let mut signer = signer();
    let request = Canonical {
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
    let seed = signer.signature(&request);
    assert_eq!(
        seed.as_str(),
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
    );
    let body = vec![b'a'; 66_560];
    let mut chunks = signer.chunks(seed);
    let (first, second) = body.split_at(65_536);
    let halves = first.split_at(1_000);
    assert_eq!(
        chunks.sign([halves.0, halves.1].into_iter()).as_str(),
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"
    );
    assert_eq!(
        chunks.sign([second].into_iter()).as_str(),
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"
    );
    assert_eq!(
        chunks.sign(std::iter::empty()).as_str(),
        "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"
    );
}

#[test]
fn a_new_day_derives_a_new_key_and_the_old_one_comes_back() {
    let headers = [("host", HOST)];
    let request = Canonical {
        method: "GET",
        path: "/",
        query: "",
        headers: &headers,
        payload: EMPTY_SHA256,
    };
    let mut moving = signer();
    let first = moving.signature(&request);
    moving.tick(EXAMPLE_UNIX_S + 86_400);
    let second = moving.signature(&request);
    assert_ne!(first, second);
    let mut fresh = signer();
    fresh.tick(EXAMPLE_UNIX_S + 86_400);
    assert_eq!(fresh.signature(&request), second);
    moving.tick(EXAMPLE_UNIX_S);
    assert_eq!(moving.signature(&request), first);
    moving.tick(EXAMPLE_UNIX_S + 1);
    assert_ne!(
        moving.signature(&request),
        first,
        "the second is part of the signature"
    );
}

#[test]
fn dates_at_the_edges_of_the_calendar() {
    for (unix_s, text) in [
        (0, "19700101T000000Z"),
        (951_782_399, "20000228T235959Z"),
        (951_782_400, "20000229T000000Z"),
        (951_868_800, "20000301T000000Z"),
        (1_709_210_096, "20240229T123456Z"),
        (4_107_542_400, "21000301T000000Z"),
        (1_798_761_599, "20261231T235959Z"),
    ] {
        assert_eq!(AmzDate::new(unix_s).text(), text);
    }
    assert_eq!(AmzDate::new(951_782_400).day(), "20000229");
}

#[test]
fn encoding_keeps_slashes_only_in_paths() {
    let (mut path, mut query) = (String::new(), String::new());
    percent_encode_path("a/b c~\u{e9}+", &mut path);
    percent_encode("a/b c~\u{e9}+", &mut query);
    assert_eq!(path, "a/b%20c~%C3%A9%2B");
    assert_eq!(query, "a%2Fb%20c~%C3%A9%2B");
}

#[test]
fn secrets_are_not_printed() {
    let text = format!("{:?}", signer());
    assert!(
        text.contains("AKIAIOSFODNN7EXAMPLE") && !text.contains("wJalr"),
        "{text}"
    );
}
