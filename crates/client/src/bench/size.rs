//! Sizes as people write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes. `4k` and `4KiB` are 4,096; `4kb` and `4KB` are 4,000; a bare number counts
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// Text that is no size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no size; it looks like 4k (4,096 bytes), 10mb (10,000,000) or 512")]
pub struct BadSize(String);

const BINARY: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];
const DECIMAL: [(&str, u64); 4] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
];

impl FromStr for ByteSize {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let bad = || BadSize(text.to_owned());
        let number: u64 = number.parse().map_err(|_| bad())?;
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(bad()),
        };
        number.checked_mul(factor).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for ByteSize {
    /// The largest unit that leaves no remainder, binary before decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = BINARY
            .iter()
            .chain(&DECIMAL)
            .find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit));
        match unit {
            Some((name, unit)) => f.pad(&format!("{} {name}", self.0 / unit)),
            None => f.pad(&format!("{} B", self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_and_what_is_written() {
        for (text, bytes, shown) in [
            ("4k", 4_096, "4 KiB"),
            ("4KiB", 4_096, "4 KiB"),
            ("4kb", 4_000, "4 KB"),
            ("10mb", 10_000_000, "10 MB"),
            ("10M", 10 << 20, "10 MiB"),
            ("1g", 1 << 30, "1 GiB"),
            ("1000", 1_000, "1 KB"),
            ("513", 513, "513 B"),
            ("0", 0, "0 B"),
        ] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!(
                (size.0, size.to_string().as_str()),
                (bytes, shown),
                "{text}"
            );
        }
        for text in ["", "k", "4 k", "4x", "-1", "1.5m", "99999999999999t"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
