//! The description of a file in the head of an answer.

use std::time::Duration;

use dewar_checksum::{Algorithm, Digest};
use dewar_http_front::answered_digests;
use http::header::{
    CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, RETRY_AFTER, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName};

use crate::limits::RETRY_AFTER_MAX;
use crate::request::SourceDescription;

/// Maximum bytes of an entity tag that is used.
const ETAG_BYTES_MAX: usize = 256;

/// The `Content-Range` of a 206.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The size of the whole file, if it is known.
    pub(crate) size: Option<u64>,
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// By its length or by its chunks.
    Delimited,
    /// By the end of the connection, which may also be a failure.
    UntilClose,
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The entity tag with its quotes, if it is a strong one.
pub(crate) fn strong_etag(headers: &HeaderMap) -> Option<String> {
    let tag = text(headers, ETAG)?.trim();
    let inside = tag.strip_prefix('"')?.strip_suffix('"')?;
    let sound = tag.len() <= ETAG_BYTES_MAX && !inside.contains('"');
    sound.then(|| tag.to_owned())
}

pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    let digits = text(headers, CONTENT_LENGTH)?.trim();
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

/// Parses `bytes FIRST-LAST/SIZE`, where SIZE may be `*`.
pub(crate) fn content_range(headers: &HeaderMap) -> Option<ContentRange> {
    let (unit, range) = text(headers, CONTENT_RANGE)?.trim().split_once(' ')?;
    let (range, size) = range.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |digits: &str| {
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse::<u64>().ok())?
    };
    let (first, last) = (number(first)?, number(last)?);
    let size = match size {
        "*" => None,
        size => Some(number(size)?),
    };
    let sound = first <= last && size.is_none_or(|size| last < size);
    (unit.eq_ignore_ascii_case("bytes") && sound).then_some(ContentRange { first, last, size })
}

pub(crate) fn body_framing(headers: &HeaderMap) -> BodyFraming {
    let chunked = text(headers, TRANSFER_ENCODING);
    // Only the last coding ends a body (RFC 9112 section 6.3).
    let last = chunked.and_then(|codings| codings.rsplit(',').next());
    let chunked = last.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"));
    match chunked || headers.contains_key(CONTENT_LENGTH) {
        true => BodyFraming::Delimited,
        false => BodyFraming::UntilClose,
    }
}

/// The pause that a server asks for, at most [`RETRY_AFTER_MAX`].
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = text(headers, RETRY_AFTER)?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

/// Digests of the whole object in an answer of S3: an ETag that is an MD5, and checksums that are not
/// made of those of parts.
pub(crate) fn s3_digests(headers: &HeaderMap) -> Vec<Digest> {
    let value = |name: &str| headers.get(name)?.to_str().ok();
    let mut digests = Vec::new();
    // With keys of AWS KMS or of the customer, an ETag of 32 digits is no MD5.
    let encryption = value("x-amz-server-side-encryption").unwrap_or_default();
    let other_etag = encryption.starts_with("aws:kms")
        || headers.contains_key("x-amz-server-side-encryption-customer-algorithm");
    if !other_etag && let Some(tag) = strong_etag(headers) {
        digests.extend(Digest::from_hex(Algorithm::Md5, tag.trim_matches('"')));
    }
    let whole = value("x-amz-checksum-type").is_none_or(|kind| kind != "COMPOSITE");
    for algorithm in Algorithm::ALL.into_iter().filter(|_| whole) {
        let named = algorithm.s3_header().and_then(value);
        // A composite checksum ends in `-PARTS`, which is not base64.
        let digest = named.and_then(|value| Digest::from_base64(algorithm, value.trim()).ok());
        digests.extend(digest);
    }
    digests
}

/// The file that an answer to HEAD or to a GET of the whole file describes.
pub(crate) fn description(headers: &HeaderMap, of_s3: bool) -> SourceDescription {
    let mut digests = answered_digests(headers);
    if of_s3 {
        digests.extend(s3_digests(headers));
    }
    SourceDescription {
        size: content_length(headers),
        etag: strong_etag(headers),
        digests,
        content_type: text(headers, CONTENT_TYPE).map(str::to_owned),
    }
}

/// Reads the head of an answer, as text with one header a line.
pub fn fuzz_answer_head(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = http::HeaderValue::from_bytes(&line[colon + 1..]);
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let described = description(&headers, true);
    assert!(described.digests.len() <= 64 * data.len());
    if let Some(range) = content_range(&headers) {
        assert!(range.first <= range.last && range.size.is_none_or(|size| range.last < size));
    }
    assert!(retry_after(&headers).is_none_or(|pause| pause <= RETRY_AFTER_MAX));
    let _ = body_framing(&headers);
    if let Some(location) = text(&headers, http::header::LOCATION)
        && let Ok(url) = crate::TransferUrl::parse("https://host/a/b?secret")
        && let Ok(joined) = url.join(location)
    {
        assert!(!joined.to_string().contains('?'));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let value = value.parse().expect("a value");
            (HeaderName::from_static(name), value)
        });
        pairs.collect()
    }

    #[test]
    fn only_strong_tags_are_used() {
        let tag = |value: &str| strong_etag(&headers(&[("etag", value)]));
        assert_eq!(tag("\"a-1\""), Some("\"a-1\"".to_owned()));
        for other in ["W/\"a\"", "a", "\"a", "\"", "\"a\"b\"", ""] {
            assert_eq!(tag(other), None, "{other}");
        }
    }

    #[test]
    fn ranges_of_answers_are_read() {
        let range = |value: &str| content_range(&headers(&[("content-range", value)]));
        let part = |first, last, size| Some(ContentRange { first, last, size });
        assert_eq!(range("bytes 5-9/10"), part(5, 9, Some(10)));
        assert_eq!(range("BYTES 0-0/*"), part(0, 0, None));
        for bad in [
            "bytes */10",
            "bytes 5-4/10",
            "bytes 5-10/10",
            "bytes 5-/10",
            "bytes +5-9/10",
            "5-9/10",
            "items 5-9/10",
        ] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_end_of_a_body_is_certain_or_not() {
        let framing = |pairs: &[(&'static str, &str)]| body_framing(&headers(pairs));
        let sure = BodyFraming::Delimited;
        assert_eq!(framing(&[("transfer-encoding", "Chunked")]), sure);
        assert_eq!(framing(&[("content-length", "0")]), sure);
        assert_eq!(framing(&[]), BodyFraming::UntilClose);
    }

    #[test]
    fn s3_names_digests_of_the_whole_object_only() {
        let md5 = "\"d41d8cd98f00b204e9800998ecf8427e\"";
        let found = |pairs: &[(&'static str, &str)]| {
            let digests = s3_digests(&headers(pairs));
            digests.iter().map(Digest::algorithm).collect::<Vec<_>>()
        };
        assert_eq!(found(&[("etag", md5)]), [Algorithm::Md5]);
        let parts = "\"d41d8cd98f00b204e9800998ecf8427e-2\"";
        assert_eq!(found(&[("etag", parts)]), []);
        let kms = ("x-amz-server-side-encryption", "aws:kms:dsse");
        assert_eq!(found(&[("etag", md5), kms]), []);
        let s3 = ("x-amz-server-side-encryption", "AES256");
        assert_eq!(found(&[("etag", md5), s3]), [Algorithm::Md5]);
        let crc = ("x-amz-checksum-crc32", "AAAAAA==");
        assert_eq!(found(&[crc]), [Algorithm::Crc32]);
        assert_eq!(found(&[crc, ("x-amz-checksum-type", "COMPOSITE")]), []);
        assert_eq!(found(&[("x-amz-checksum-crc32", "AAAAAA==-3")]), []);
    }

    #[test]
    fn pauses_are_limited() {
        let pause = |value: &str| retry_after(&headers(&[("retry-after", value)]));
        assert_eq!(pause("7"), Some(Duration::from_secs(7)));
        assert_eq!(pause("99999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(pause("Wed, 21 Oct 2015 07:28:00 GMT"), None);
        assert_eq!(pause("-1"), None);
    }

    proptest! {
        #[test]
        fn any_head_is_read(noise in any::<Vec<u8>>(), name in 0..6usize, value in ".{0,40}") {
            let names = ["etag", "digest", "content-range", "location", "retry-after", "repr-digest"];
            fuzz_answer_head(&noise);
            fuzz_answer_head(format!("{}:{value}", names[name]).as_bytes());
        }
    }
}
