//! The Range header (RFC 9110 section 14.2).

use dewar_types::{ByteRange, RangeSpec};
use http::HeaderValue;

use crate::value_of;

/// Parses a Range header with one range. `None` if it is to be ignored: another unit, several
/// ranges, or malformed syntax.
#[must_use]
pub fn parse_range(text: &str) -> Option<RangeSpec> {
    let (unit, range) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        // A number beyond 64 bits is beyond every object too.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    match (first.trim(), last.trim()) {
        ("", last) => number(last).map(RangeSpec::Last),
        (first, "") => number(first).map(RangeSpec::From),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(RangeSpec::FromTo(first, last))
        }
    }
}

/// The Content-Range of an answer with a part of `size` bytes.
#[must_use]
pub fn content_range(range: ByteRange, size: u64) -> HeaderValue {
    let last = range.end.saturating_sub(1);
    value_of(&format!("bytes {}-{last}/{size}", range.start))
}

/// The Content-Range of a refused range.
#[must_use]
pub fn unsatisfied_range(size: u64) -> HeaderValue {
    value_of(&format!("bytes */{size}"))
}

/// Fuzzes [`parse_range`]: no input may panic, and what parses must resolve within the object.
pub fn fuzz_range(data: &[u8]) {
    let Some(spec) = std::str::from_utf8(data).ok().and_then(parse_range) else {
        return;
    };
    for size in [0, 1, 4096, u64::MAX] {
        if let Ok(range) = spec.resolve(size) {
            assert!(range.start < range.end && range.end <= size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_single_ranges_and_ignores_the_rest() {
        assert_eq!(parse_range("bytes=0-9"), Some(RangeSpec::FromTo(0, 9)));
        assert_eq!(parse_range("Bytes = 5-"), Some(RangeSpec::From(5)));
        assert_eq!(parse_range("bytes=-0"), Some(RangeSpec::Last(0)));
        assert_eq!(
            parse_range("bytes=0-99999999999999999999"),
            Some(RangeSpec::FromTo(0, u64::MAX))
        );
        for ignored in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=9-5",
            "bytes=0-1,3-4",
            "lines=0-1",
            "bytes=+1-2",
            "bytes=1--2",
        ] {
            assert_eq!(parse_range(ignored), None, "{ignored}");
        }
    }
}
