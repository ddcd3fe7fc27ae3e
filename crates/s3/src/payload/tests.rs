//! The chunked examples of the S3 API reference, and arbitrary splits of generated bodies.

use bytes::Bytes;
use dewar_http_front::WireBody;
use dewar_sigv4::{ChunkChain, CredentialScope, RequestDate, Signature, SigningKey, hex};
use futures_util::{FutureExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use proptest::prelude::*;

use super::*;
use crate::error::{Code, Refusal};
use crate::sigv4::tests::{DOC_DATE, DOC_SECRET};

fn chain(signature: &str) -> ChunkChain {
    let date = RequestDate::parse(DOC_DATE).expect("a date");
    let scope = CredentialScope::parse("AK/20130524/us-east-1/s3/aws4_request").expect("a scope");
    let key = SigningKey::derive(DOC_SECRET, &scope);
    let signature = Signature::parse(signature).expect("64 digits");
    ChunkChain::new(key, &date, &scope, signature)
}

/// 65536 + 1024 times `a`, as the reference signs it.
fn documented_chunks(signatures: [&str; 3]) -> Vec<u8> {
    let mut body = format!("10000;chunk-signature={}\r\n", signatures[0]).into_bytes();
    body.extend_from_slice(&[b'a'; 65536]);
    body.extend_from_slice(format!("\r\n400;chunk-signature={}\r\n", signatures[1]).as_bytes());
    body.extend_from_slice(&[b'a'; 1024]);
    body.extend_from_slice(format!("\r\n0;chunk-signature={}\r\n", signatures[2]).as_bytes());
    body
}

const SEED: &str = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
const CHUNKS: [&str; 3] = [
    "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
];
const TRAILER_SEED: &str = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e";
const TRAILER_CHUNKS: [&str; 3] = [
    "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
    "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
    "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
];
const TRAILER_SIGNATURE: &str = "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435";

fn wire(pieces: Vec<Bytes>) -> WireBody {
    let frames = pieces.into_iter().map(|piece| Ok(Frame::data(piece)));
    StreamBody::new(stream::iter(frames)).boxed()
}

fn split(body: &[u8], piece: usize) -> Vec<Bytes> {
    body.chunks(piece.max(1))
        .map(Bytes::copy_from_slice)
        .collect()
}

fn head(content: Option<usize>, decoded: Option<usize>) -> BodyHead {
    BodyHead {
        content_length: content.map(|n| n as u64),
        decoded_length: decoded.map(|n| n as u64),
        transfer_chunked: content.is_none(),
    }
}

/// Reads to the end; the bytes even when it ends in a refusal.
fn read(mut body: RequestBody) -> (Vec<u8>, Result<Trailers, Refusal>) {
    let mut data = Vec::new();
    let end = async {
        while let Some(bytes) = body.next().await? {
            assert!(!bytes.is_empty());
            data.extend_from_slice(&bytes);
        }
        Ok(body.trailers().cloned().unwrap_or_default())
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let end = runtime.expect("a runtime").block_on(end);
    (data, end)
}

const SIGNED: PayloadMode = PayloadMode::Chunked {
    signed: true,
    trailers: false,
};
const SIGNED_TRAILERS: PayloadMode = PayloadMode::Chunked {
    signed: true,
    trailers: true,
};
const UNSIGNED_TRAILERS: PayloadMode = PayloadMode::Chunked {
    signed: false,
    trailers: true,
};

fn decode(
    mode: PayloadMode,
    chain: Option<ChunkChain>,
    body: &[u8],
    piece: usize,
    decoded: Option<usize>,
) -> (Vec<u8>, Result<Trailers, Refusal>) {
    let head = head(Some(body.len()), decoded);
    read(RequestBody::new(wire(split(body, piece)), mode, head, chain).expect("fits"))
}

#[test]
fn the_chunked_example_verifies_however_it_is_split() {
    let mut body = documented_chunks(CHUNKS);
    body.extend_from_slice(b"\r\n");
    assert_eq!(body.len(), 66824, "as the reference says");
    for piece in [7, 86, 4096, 65536, 100_000] {
        let (data, end) = decode(SIGNED, Some(chain(SEED)), &body, piece, Some(66560));
        end.expect("valid");
        assert!(data.len() == 66560 && data.iter().all(|b| *b == b'a'));
    }
}

#[test]
fn a_changed_byte_or_signature_fails_the_chunk() {
    let good = documented_chunks(CHUNKS);
    for at in [100, 65536, 66700, 30, good.len() - 10] {
        let mut body = good.clone();
        body.extend_from_slice(b"\r\n");
        body[at] = if body[at] == b'a' { b'b' } else { b'a' };
        let (_, end) = decode(SIGNED, Some(chain(SEED)), &body, 4096, Some(66560));
        let refusal = end.expect_err("forged");
        assert_eq!(refusal.code(), Code::SignatureDoesNotMatch, "at {at}");
    }
    let mut swapped = documented_chunks([CHUNKS[1], CHUNKS[0], CHUNKS[2]]);
    swapped.extend_from_slice(b"\r\n");
    let (_, end) = decode(SIGNED, Some(chain(SEED)), &swapped, 4096, Some(66560));
    assert!(end.is_err());
    let (_, end) = decode(SIGNED, Some(chain(TRAILER_SEED)), &good, 4096, Some(66560));
    assert!(end.is_err(), "another request's chunks");
}

#[test]
fn signed_trailers_verify_in_every_spelling() {
    let endings = [
        format!(
            "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:{TRAILER_SIGNATURE}\r\n\r\n"
        ),
        format!(
            "x-amz-checksum-crc32c:sOO8/Q==\n\r\nx-amz-trailer-signature:{TRAILER_SIGNATURE}\r\n\r\n"
        ),
        format!(
            "X-Amz-Checksum-Crc32c: sOO8/Q==\r\nx-amz-trailer-signature:{TRAILER_SIGNATURE}\r\n"
        ),
        format!("x-amz-checksum-crc32c:sOO8/Q==\nx-amz-trailer-signature:{TRAILER_SIGNATURE}"),
    ];
    for ending in endings {
        let mut body = documented_chunks(TRAILER_CHUNKS);
        body.extend_from_slice(ending.as_bytes());
        for piece in [1000, 9, 100_000] {
            let chain = Some(chain(TRAILER_SEED));
            let (data, end) = decode(SIGNED_TRAILERS, chain, &body, piece, Some(66560));
            let trailers = end.unwrap_or_else(|e| panic!("{ending:?}: {e}"));
            assert_eq!(trailers.get("x-amz-checksum-crc32c"), Some("sOO8/Q=="));
            assert_eq!(data.len(), 66560);
        }
    }
    for (ending, code) in [
        (
            "x-amz-checksum-crc32c:sOO8/Q==\r\n\r\n".to_owned(),
            Code::MalformedTrailerError,
        ),
        (
            format!(
                "x-amz-checksum-crc32c:AAAAAA==\r\nx-amz-trailer-signature:{TRAILER_SIGNATURE}\r\n\r\n"
            ),
            Code::SignatureDoesNotMatch,
        ),
        (
            format!("x-amz-trailer-signature:{TRAILER_SIGNATURE}\r\n\r\n"),
            Code::SignatureDoesNotMatch,
        ),
        (String::new(), Code::MalformedTrailerError),
    ] {
        let mut body = documented_chunks(TRAILER_CHUNKS);
        body.extend_from_slice(ending.as_bytes());
        let (_, end) = decode(
            SIGNED_TRAILERS,
            Some(chain(TRAILER_SEED)),
            &body,
            999,
            Some(66560),
        );
        assert_eq!(end.expect_err("refused").code(), code, "{ending:?}");
    }
}

#[test]
fn unsigned_trailers_come_as_botocore_sends_them() {
    let body = b"5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n";
    for decoded in [Some(11), None] {
        for piece in 1..body.len() {
            let (data, end) = decode(UNSIGNED_TRAILERS, None, body, piece, decoded);
            assert_eq!(data, b"hello world");
            let trailers = end.expect("valid");
            assert_eq!(trailers.get("x-amz-checksum-crc32"), Some("DUoRhQ=="));
        }
    }
    let empty = b"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n";
    let (data, end) = decode(UNSIGNED_TRAILERS, None, empty, 5, Some(0));
    assert!(data.is_empty() && end.is_ok());
}

#[test]
fn broken_framing_is_refused() {
    let long = format!("{}\r\n", "0".repeat(300));
    let cases: Vec<(&[u8], Code)> = vec![
        (b"", Code::IncompleteBody),
        (b"5\r\nhel", Code::IncompleteBody),
        (b"5\r\nhello", Code::IncompleteBody),
        (b"5\r\nhello\r\n", Code::IncompleteBody),
        (b"5\nhello\r\n0\r\n\r\n", Code::InvalidRequest),
        (b"5\r\nhelloXX0\r\n\r\n", Code::InvalidRequest),
        (b"g\r\n", Code::InvalidRequest),
        (b"-1\r\n", Code::InvalidRequest),
        (b"\r\n", Code::InvalidRequest),
        (b"fffffffffffffffff\r\n", Code::InvalidRequest),
        (long.as_bytes(), Code::InvalidRequest),
        (b"0\r\n\r\nmore", Code::InvalidRequest),
        (b"0\r\nnocolon\r\n\r\n", Code::MalformedTrailerError),
        (b"0\r\na:1\r\nA:2\r\n\r\n", Code::MalformedTrailerError),
        (b"0\r\n:1\r\n\r\n", Code::MalformedTrailerError),
        (
            b"0\r\nx-amz-trailer-signature:1\r\n\r\n",
            Code::MalformedTrailerError,
        ),
    ];
    for (body, code) in cases {
        for piece in [1, 4, 1000] {
            let (_, end) = decode(UNSIGNED_TRAILERS, None, body, piece, None);
            let text = String::from_utf8_lossy(body);
            assert_eq!(end.expect_err(&text).code(), code, "{text:?}");
        }
    }
    let many: String = (0..17).map(|n| format!("t{n}:1\r\n")).collect();
    let (_, end) = decode(
        UNSIGNED_TRAILERS,
        None,
        format!("0\r\n{many}\r\n").as_bytes(),
        64,
        None,
    );
    assert_eq!(
        end.expect_err("too many").code(),
        Code::MalformedTrailerError
    );
    let (_, end) = decode(SIGNED, Some(chain(SEED)), b"0\r\n\r\n", 64, None);
    assert_eq!(end.expect_err("no signature").code(), Code::InvalidRequest);
    let unsigned = PayloadMode::Chunked {
        signed: false,
        trailers: false,
    };
    let (_, end) = decode(unsigned, None, b"0\r\na:1\r\n\r\n", 64, None);
    assert_eq!(
        end.expect_err("not announced").code(),
        Code::MalformedTrailerError
    );
}

#[test]
fn lengths_must_hold() {
    let body = b"5\r\nhello\r\n0\r\n\r\n";
    let (_, end) = decode(UNSIGNED_TRAILERS, None, body, 3, Some(6));
    assert_eq!(end.expect_err("too short").code(), Code::IncompleteBody);
    let (_, end) = decode(UNSIGNED_TRAILERS, None, body, 3, Some(4));
    assert_eq!(end.expect_err("too long").code(), Code::InvalidRequest);
    // A chunk may announce what it likes: nothing is held for it.
    let (data, end) = decode(UNSIGNED_TRAILERS, None, b"ffffffffffffffff\r\nabc", 3, None);
    assert_eq!(
        (data.len(), end.expect_err("cut").code()),
        (3, Code::IncompleteBody)
    );
    let huge = head(Some(6 << 30), None);
    let refused = RequestBody::new(wire(vec![]), PayloadMode::Unsigned, huge, None);
    assert_eq!(refused.err().expect("6 GiB").code(), Code::EntityTooLarge);
    let mut small = RequestBody::new(
        wire(split(b"12345", 2)),
        PayloadMode::Unsigned,
        head(None, None),
        None,
    )
    .expect("length unknown");
    small.limit(4).expect("nothing announced");
    assert_eq!(
        read(small).1.expect_err("5 bytes").code(),
        Code::EntityTooLarge
    );
}

#[test]
fn an_exact_payload_must_have_its_digest() {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, b"payload");
    let hex = hex(digest.as_ref());
    let mode = PayloadMode::parse(Some(&hex)).expect("a digest");
    let body = |text: &[u8]| {
        RequestBody::new(
            wire(split(text, 3)),
            mode,
            head(Some(text.len()), None),
            None,
        )
    };
    let (data, end) = read(body(b"payload").expect("fits"));
    assert_eq!(data, b"payload");
    end.expect("as signed");
    let refusal = read(body(b"Payload").expect("fits"))
        .1
        .expect_err("changed");
    assert_eq!(refusal.code(), Code::XAmzContentSHA256Mismatch);
    assert_eq!(refusal.find("ClientComputedContentSHA256"), Some(&*hex));
    // An empty body has a digest too.
    assert!(read(body(b"").expect("fits")).1.is_err());
}

#[test]
fn chunk_signatures_need_a_signed_request() {
    let refused = RequestBody::new(wire(vec![]), SIGNED, head(Some(0), None), None);
    assert_eq!(refused.err().expect("no seed").code(), Code::InvalidRequest);
}

#[test]
fn a_small_body_is_collected_within_its_limit() {
    let collect = |pieces, limit| {
        let mut body =
            RequestBody::new(wire(pieces), PayloadMode::Unsigned, head(None, None), None)
                .expect("fits");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime
            .expect("a runtime")
            .block_on(async { body.collect(limit).await })
    };
    assert_eq!(
        &collect(split(b"abcdef", 2), 6).expect("fits")[..],
        b"abcdef"
    );
    assert_eq!(
        &collect(split(b"abcdef", 6), 6).expect("fits")[..],
        b"abcdef"
    );
    for piece in [2, 6] {
        let refusal = collect(split(b"abcdef", piece), 5).expect_err("6 bytes");
        assert_eq!(refusal.code(), Code::MaxMessageLengthExceeded);
    }
}

#[tokio::test]
async fn a_body_that_stands_still_is_given_up() {
    let stalled = std::io::Error::from(std::io::ErrorKind::TimedOut);
    let wire = StreamBody::new(stream::iter([Err(stalled.into())])).boxed();
    let mut body =
        RequestBody::new(wire, PayloadMode::Unsigned, head(Some(5), None), None).expect("fits");
    let refusal = body.next().await.expect_err("nothing came");
    assert_eq!(refusal.code(), Code::RequestTimeout);
}

#[test]
fn data_is_not_copied() {
    let body = Bytes::from_static(b"5\r\nhello\r\n0\r\n\r\n");
    let mut decoder = ChunkedDecoder::new(None, true);
    let mut input = body.clone();
    let Ok(ChunkedStep::Data(data)) = decoder.step(&mut input) else {
        panic!("data");
    };
    assert_eq!(data.as_ptr(), body[3..].as_ptr());
}

proptest! {
    #[test]
    fn any_split_of_any_body_decodes(
        chunks in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 1..300), 0..6),
        piece in 1_usize..200,
    ) {
        let mut body = Vec::new();
        for chunk in &chunks {
            body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n");
        let whole = chunks.concat();
        let (data, end) = decode(UNSIGNED_TRAILERS, None, &body, piece, Some(whole.len()));
        prop_assert_eq!(data, whole);
        prop_assert!(end.is_ok());
    }

    #[test]
    fn the_decoder_never_panics(
        noise in "[0-9a-f\r\n;:= x]{0,120}", control in any::<u8>(),
        data in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        fuzz_aws_chunked(&[&[control], noise.as_bytes()].concat());
        fuzz_aws_chunked(&data);
    }
}

#[test]
fn reading_is_ready_when_the_wire_is() {
    let mut body = RequestBody::new(
        wire(split(b"abc", 3)),
        PayloadMode::Unsigned,
        head(Some(3), None),
        None,
    )
    .expect("fits");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.expect("a runtime");
    let _guard = runtime.enter();
    assert!(body.next().now_or_never().is_some());
}

#[test]
fn only_the_chunked_transfer_coding_is_taken() {
    let read = |codings: &[&'static str]| {
        let mut headers = http::HeaderMap::new();
        for coding in codings {
            let value = http::HeaderValue::from_static(coding);
            headers.append(http::header::TRANSFER_ENCODING, value);
        }
        BodyHead::read(&headers).map(|head| head.transfer_chunked)
    };
    assert!(!read(&[]).expect("no coding"));
    assert!(read(&["Chunked "]).expect("chunked"));
    for codings in [
        &["gzip, chunked"][..],
        &["chunked", "chunked"],
        &["gzip", "chunked"],
        &["identity"],
        &[""],
    ] {
        let refusal = read(codings).expect_err("not implemented");
        assert_eq!(refusal.code(), Code::NotImplemented, "{codings:?}");
    }
}
