//! Forms as browsers send them, and arbitrary splits of them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dewar_types::Timestamp;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use proptest::prelude::*;

use super::*;
use crate::error::{Code, Refusal};
use crate::payload::{BodyHead, PayloadMode, RequestBody};

fn body(bytes: &[u8], piece: usize) -> RequestBody {
    let pieces: Vec<_> = bytes
        .chunks(piece)
        .map(|part| Ok(Frame::data(Bytes::copy_from_slice(part))))
        .collect();
    let wire = StreamBody::new(stream::iter(pieces)).boxed();
    let head = BodyHead {
        content_length: Some(bytes.len() as u64),
        decoded_length: None,
        transfer_chunked: false,
    };
    RequestBody::new(wire, PayloadMode::Unsigned, head, None).expect("fits")
}

fn form(fields: &[(&str, &str)], file: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        let part =
            format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        out.extend_from_slice(part.as_bytes());
    }
    if let Some(file) = file {
        out.extend_from_slice(
            b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\dir\\my.root\"\
              \r\nContent-Type: application/x-root\r\n\r\n",
        );
        out.extend_from_slice(file);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"--B--\r\n");
    out
}

fn read(
    bytes: &[u8],
    piece: usize,
    length: Option<LengthRange>,
) -> Result<(FormFields, Vec<u8>), Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime").block_on(async {
        let (fields, mut upload) = FormUpload::read(body(bytes, piece), "B").await?;
        if let Some(length) = length {
            upload.limit(length);
        }
        let mut file = Vec::new();
        while let Some(data) = upload.next().await? {
            file.extend_from_slice(&data);
        }
        Ok((fields, file))
    })
}

#[test]
fn fields_and_file_come_out_whatever_the_split() {
    let file = b"line\r\n--\r\n--A\r\n-\r--B\n".as_slice();
    let bytes = form(
        &[
            ("key", "up/${filename}"),
            ("Content-Type", "x/y"),
            ("empty", ""),
        ],
        Some(file),
    );
    for piece in 1..bytes.len() {
        let (fields, data) = read(&bytes, piece, None).expect("valid");
        assert_eq!(fields.get("key"), Some("up/my.root"));
        assert_eq!(fields.get("content-type"), Some("x/y"));
        assert_eq!(fields.get("empty"), Some(""));
        assert_eq!(fields.file_type(), Some("application/x-root"));
        assert_eq!(data, file, "split at {piece}");
    }
}

#[test]
fn broken_forms_are_refused() {
    let code = |bytes: &[u8]| {
        let one = read(bytes, 1, None).expect_err("refused").code();
        assert_eq!(read(bytes, 1000, None).expect_err("refused").code(), one);
        one
    };
    assert_eq!(code(&form(&[("key", "a")], None)), Code::InvalidArgument);
    assert_eq!(code(b""), Code::MalformedPOSTRequest);
    assert_eq!(code(b"no boundary at all"), Code::MalformedPOSTRequest);
    let whole = form(&[], Some(b"data"));
    assert_eq!(code(&whole[..whole.len() - 6]), Code::MalformedPOSTRequest);
    assert_eq!(
        code(b"--B\r\nContent-Type: a\r\n\r\nx\r\n--B--"),
        Code::MalformedPOSTRequest
    );
    assert_eq!(
        code(b"--B\r\nnonsense\r\n\r\nx\r\n--B--"),
        Code::MalformedPOSTRequest
    );
    let twice = form(&[("key", "a"), ("KEY", "b")], Some(b"x"));
    assert_eq!(code(&twice), Code::InvalidArgument);
    let long = "x".repeat(30_000);
    assert_eq!(
        code(&form(&[("key", &long)], Some(b"x"))),
        Code::MaxMessageLengthExceeded
    );
    let head = format!("--B\r\nX: {long}");
    assert_eq!(code(head.as_bytes()), Code::MalformedPOSTRequest);
    let many: Vec<String> = (0..101).map(|n| format!("f{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(
        code(&form(&many, Some(b"x"))),
        Code::MaxMessageLengthExceeded
    );
}

#[test]
fn the_file_must_be_within_its_range() {
    let range = |min, max| Some(LengthRange { min, max });
    let bytes = form(&[], Some(b"12345"));
    assert!(read(&bytes, 10, range(5, 5)).is_ok());
    let code = |length| read(&bytes, 10, length).expect_err("refused").code();
    assert_eq!(code(range(0, 4)), Code::EntityTooLarge);
    assert_eq!(code(range(6, 9)), Code::EntityTooSmall);
}

fn policy(json: &str) -> Result<Policy, Refusal> {
    Policy::parse(&STANDARD.encode(json))
}

#[test]
fn policies_hold_what_they_say() {
    let parsed = policy(
        r#"{"expiration":"2026-01-02T00:00:00.000Z","conditions":[
            {"bucket":"b"}, ["starts-with","$key","up/"], ["eq","$acl","private"],
            ["starts-with","$Content-Type","image/"], ["content-length-range", "1", 10],
            ["content-length-range", 2, 20]]}"#,
    );
    let parsed = parsed.expect("valid");
    assert_eq!(parsed.length(), Some(LengthRange { min: 2, max: 10 }));
    let now = Timestamp::from_secs(1_767_225_600);
    let check = |changes: &[(&str, &str)], bucket: &str| {
        let mut fields = vec![
            ("key", "up/a"),
            ("acl", "private"),
            ("content-type", "image/png"),
        ];
        fields.retain(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
        fields.extend_from_slice(changes);
        let mut form = FormFields::default();
        for (name, value) in fields {
            form.push(name, value.to_owned()).expect("once each");
        }
        parsed.check(&form, bucket, now)
    };
    assert!(check(&[], "b").is_ok());
    assert!(check(&[("x-ignore-me", "1")], "b").is_ok());
    assert!(check(&[("content-type", "image/a, image/b")], "b").is_ok());
    for (changes, bucket) in [
        (vec![], "c"),
        (vec![("key", "down/a")], "b"),
        (vec![("acl", "public-read")], "b"),
        (vec![("acl", "privatee")], "b"),
        (vec![("content-type", "image/a,text/b")], "b"),
        (vec![("x-amz-meta-extra", "1")], "b"),
    ] {
        let refusal = check(&changes, bucket).expect_err("not allowed");
        assert_eq!(refusal.code(), Code::AccessDenied, "{changes:?}");
    }
    let late = Timestamp::from_secs(1_767_312_000);
    let form = FormFields::default();
    assert!(
        parsed
            .check(&form, "b", late)
            .expect_err("late")
            .message()
            .contains("expired")
    );
}

#[test]
fn a_policy_without_a_bucket_is_good_for_none() {
    let now = Timestamp::from_secs(1_767_225_600);
    let mut form = FormFields::default();
    form.push("key", "a".into()).expect("once");
    let refused = |bucket: &str| {
        let conditions = format!(r#"[{bucket}{{"key":"a"}}]"#);
        let json = format!(r#"{{"expiration":"2026-01-02T00:00:00Z","conditions":{conditions}}}"#);
        policy(&json).expect("valid").check(&form, "b", now).err()
    };
    let refusal = refused("").expect("no condition covers the bucket");
    assert_eq!(refusal.code(), Code::AccessDenied);
    assert!(refusal.message().ends_with("Extra input fields: bucket"));
    assert!(refused(r#"{"bUcKeT":"b"},"#).is_none());
    assert!(refused(r#"["starts-with","$bucket",""],"#).is_none());
    assert!(refused(r#"{"bucket":"other"},"#).is_some());
}

#[test]
fn broken_policies_are_refused() {
    for json in [
        "",
        "[]",
        "{}",
        r#"{"expiration":"x","conditions":[]}"#,
        r#"{"expiration":"2026-01-02T00:00:00Z"}"#,
        r#"{"expiration":"2026-01-02T00:00:00Z","conditions":[1]}"#,
        r#"{"expiration":"2026-01-02T00:00:00Z","conditions":[["eq","key","a"]]}"#,
        r#"{"expiration":"2026-01-02T00:00:00Z","conditions":[["ne","$key","a"]]}"#,
        r#"{"expiration":"2026-01-02T00:00:00Z","conditions":[["eq","$key"]]}"#,
        r#"{"expiration":"2026-01-02T00:00:00Z","conditions":[{"key":1}]}"#,
        r#"{"expiration":"2026-01-02T00:00:00Z","conditions":[["content-length-range",5,1]]}"#,
    ] {
        assert_eq!(
            policy(json).expect_err(json).code(),
            Code::InvalidPolicyDocument
        );
    }
    assert!(Policy::parse("not base64!").is_err());
}

proptest! {
    #[test]
    fn any_file_survives_any_split(
        file in proptest::collection::vec(
            prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'-'), Just(b'B'), any::<u8>()], 0..300),
        piece in 1_usize..100,
    ) {
        prop_assume!(memchr::memmem::find(&file, b"\r\n--B").is_none());
        prop_assume!(!file.starts_with(b"--B"));
        let bytes = form(&[("key", "k")], Some(&file));
        let (_, data) = read(&bytes, piece, None).expect("valid");
        prop_assert_eq!(data, file);
    }

    #[test]
    fn the_parser_of_policies_never_panics(
        json in "[\\[\\]{}\",:$a-z0-9-]{0,60}",
    ) {
        fuzz_policy(json.as_bytes());
    }
}
