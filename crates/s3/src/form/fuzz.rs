//! Fuzz functions for forms and their policies.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dewar_types::Timestamp;

use super::multipart::{FormDecoder, FormStep, boundary_of};
use super::policy::Policy;
use super::read::FormFields;

/// The decoded form: for each part its head and its bytes; and whether the form ended correctly.
type DecodedForm = (Vec<(String, Vec<u8>)>, bool);

fn run(boundary: &str, input: &Bytes, piece: usize) -> DecodedForm {
    let mut decoder = FormDecoder::new(boundary);
    let mut parts: Vec<(String, Vec<u8>)> = Vec::new();
    let mut rest = input.clone();
    while !rest.is_empty() {
        let mut part = rest.split_to(piece.min(rest.len()));
        loop {
            match decoder.step(&mut part) {
                Ok(step @ FormStep::Part { .. }) => parts.push((format!("{step:?}"), Vec::new())),
                Ok(FormStep::Data(data)) => {
                    let (_, bytes) = parts.last_mut().expect("data only within a part");
                    bytes.extend_from_slice(&data);
                }
                Ok(FormStep::PartEnd) => {}
                Ok(FormStep::More | FormStep::Done) => break,
                Err(_) => return (parts, false),
            }
        }
    }
    (parts, decoder.end().is_ok())
}

/// Fuzzes the form decoder with the boundary `B`: the first byte says how the input is split,
/// which must not change the outcome. The input is a Content-Type too.
pub fn fuzz_multipart(data: &[u8]) {
    let Some((&control, body)) = data.split_first() else {
        return;
    };
    if let Some(boundary) = std::str::from_utf8(body).ok().and_then(boundary_of) {
        assert!((1..=70).contains(&boundary.len()));
    }
    let body = Bytes::copy_from_slice(body);
    let piece = usize::from(control).max(1);
    assert_eq!(run("B", &body, usize::MAX), run("B", &body, piece));
}

/// Fuzzes the policy document, as JSON and as the value of the field. No input may panic, and an
/// expired policy never allows anything.
pub fn fuzz_policy(data: &[u8]) {
    let fields = FormFields::default();
    let late = Timestamp::from_secs(u64::MAX);
    let packed = STANDARD.encode(data);
    let raw = std::str::from_utf8(data).unwrap_or_default();
    for document in [packed.as_str(), raw] {
        if let Ok(policy) = Policy::parse(document) {
            assert!(policy.check(&fields, "bucket", late).is_err());
        }
    }
}
