//! Byte ranges: as a client requests them, and as they apply to an object of known size.

use crate::error::{Error, ErrorKind, Result};

/// A half-open range of bytes, `start..end`, inside an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte; never below `start`.
    pub end: u64,
}

impl ByteRange {
    /// The whole of an object of `size` bytes.
    #[must_use]
    pub const fn whole(size: u64) -> Self {
        Self {
            start: 0,
            end: size,
        }
    }

    /// Number of bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether the range holds no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.end == self.start
    }
}

/// A requested range, before the size of the object is known (RFC 9110 section 14.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSpec {
    /// `first-last`, both included; `last` may lie beyond the end.
    FromTo(u64, u64),
    /// `first-`
    From(u64),
    /// `-n`: the last `n` bytes.
    Last(u64),
}

impl RangeSpec {
    /// The bytes of the range in an object of `size` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRange`] when no byte of the object lies in the range.
    pub fn resolve(self, size: u64) -> Result<ByteRange> {
        let range = match self {
            Self::FromTo(first, last) if first <= last => ByteRange {
                start: first,
                end: last.saturating_add(1).min(size),
            },
            Self::FromTo(first, _) | Self::From(first) => ByteRange {
                start: first,
                end: size,
            },
            Self::Last(n) => ByteRange {
                start: size.saturating_sub(n),
                end: size,
            },
        };
        if range.start >= range.end {
            return Err(Error::new(
                ErrorKind::InvalidRange,
                format!("{self:?} lies outside an object of {size} bytes"),
            ));
        }
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_as_rfc_9110_says() {
        let r = |spec: RangeSpec, size| spec.resolve(size).map(|r| (r.start, r.end)).ok();
        assert_eq!(r(RangeSpec::FromTo(0, 0), 10), Some((0, 1)));
        assert_eq!(r(RangeSpec::FromTo(5, 99), 10), Some((5, 10)));
        assert_eq!(r(RangeSpec::FromTo(10, 12), 10), None);
        assert_eq!(r(RangeSpec::From(9), 10), Some((9, 10)));
        assert_eq!(r(RangeSpec::Last(3), 10), Some((7, 10)));
        assert_eq!(r(RangeSpec::Last(30), 10), Some((0, 10)));
        assert_eq!(r(RangeSpec::Last(0), 10), None);
        assert_eq!(r(RangeSpec::From(0), 0), None);
        assert_eq!(r(RangeSpec::FromTo(0, u64::MAX), 4), Some((0, 4)));
    }
}
