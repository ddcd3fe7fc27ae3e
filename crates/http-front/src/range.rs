//! The Range header (RFC 9110 section 14.2).

use dewar_types::{ByteRange, RangeSpec};
use http::HeaderValue;

use crate::value_of;

/// Parses a Range header with one range. `None` if it is to be ignored: another unit, several
/// ranges, or malformed syntax.
#[must_use]
pub fn parse_range(text: &str) -> Option<RangeSpec> {
    one_range(in_bytes(text)?)
}

/// Parses a Range header with one or several ranges. `None` if it is to be ignored: another unit,
/// more than `max` ranges, or malformed syntax.
#[must_use]
pub fn parse_ranges(text: &str, max: usize) -> Option<Vec<RangeSpec>> {
    let mut ranges = Vec::new();
    // RFC 9110 section 5.6.1: elements of a list may be empty.
    let parts = in_bytes(text)?.split(',').map(str::trim);
    for part in parts.filter(|part| !part.is_empty()) {
        if ranges.len() == max {
            return None;
        }
        ranges.push(one_range(part)?);
    }
    (!ranges.is_empty()).then_some(ranges)
}

/// The part of a Range header behind the unit.
fn in_bytes(text: &str) -> Option<&str> {
    let (unit, ranges) = text.split_once('=')?;
    unit.trim().eq_ignore_ascii_case("bytes").then_some(ranges)
}

fn one_range(range: &str) -> Option<RangeSpec> {
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

/// The bytes that a list of ranges means in an object of `size` bytes. Ranges behind its end are left
/// out. If ranges overlap, all are sorted, and those that overlap become one. So the bytes together
/// never exceed the object.
#[must_use]
pub fn merge_ranges(specs: &[RangeSpec], size: u64) -> Vec<ByteRange> {
    let resolved = specs.iter().filter_map(|spec| spec.resolve(size).ok());
    let asked: Vec<ByteRange> = resolved.collect();
    let mut sorted = asked.clone();
    sorted.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<ByteRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    match merged.len() == asked.len() {
        true => asked,
        false => merged,
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

/// Fuzzes [`parse_range`] and [`parse_ranges`]: no input may panic, what parses must resolve within
/// the object, and merged ranges must not exceed it.
pub fn fuzz_range(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for size in [0, 1, 4096, u64::MAX] {
        if let Some(Ok(range)) = parse_range(text).map(|spec| spec.resolve(size)) {
            assert!(range.start < range.end && range.end <= size);
        }
        let specs = parse_ranges(text, FUZZED_RANGES_MAX).unwrap_or_default();
        let ranges = merge_ranges(&specs, size);
        let total: u64 = ranges.iter().map(ByteRange::len).sum();
        assert!(total <= size && ranges.len() <= specs.len());
    }
}

const FUZZED_RANGES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lists_of_ranges_within_the_limit() {
        let list = parse_ranges("bytes=0-9, 20- ,, -5", 3).expect("a list");
        let spec = [
            RangeSpec::FromTo(0, 9),
            RangeSpec::From(20),
            RangeSpec::Last(5),
        ];
        assert_eq!(list, spec);
        for ignored in ["bytes=0-1,3-4,6-7,9-9", "bytes=,", "bytes=0-1,x", "b=0-1"] {
            assert_eq!(parse_ranges(ignored, 3), None, "{ignored}");
        }
    }

    #[test]
    fn overlapping_ranges_become_one() {
        let merged = |text: &str, size| {
            let specs = parse_ranges(text, 16).expect("a list");
            let ranges = merge_ranges(&specs, size);
            ranges.iter().map(|r| (r.start, r.end)).collect::<Vec<_>>()
        };
        // Apart from each other they keep the client's order.
        assert_eq!(merged("bytes=50-59,0-9", 100), [(50, 60), (0, 10)]);
        assert_eq!(merged("bytes=0-9,10-19", 100), [(0, 10), (10, 20)]);
        assert_eq!(merged("bytes=0-9,5-14,12-20", 100), [(0, 21)]);
        assert_eq!(merged("bytes=0-,0-,-100,7-9", 100), [(0, 100)]);
        // Those behind the end are left out.
        assert_eq!(merged("bytes=200-300,5-6", 100), [(5, 7)]);
        assert_eq!(merged("bytes=200-300", 100), []);
    }

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
