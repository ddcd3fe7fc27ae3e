//! How a blob is cut: k data and m parity shards, and the stripe unit.

use core::fmt;
use core::str::FromStr;

use minicbor::{Decode, Encode};
use thiserror::Error;

/// Bytes of a page: the unit of checksums at rest (RECORDS.md section 6).
pub const PAGE_BYTES: usize = 4096;

/// Default stripe unit. It is small enough that a sparse read touches one shard, and large enough
/// that a megabyte moves in few pieces (STYLE.md section 4.3).
pub const STRIPE_UNIT_BYTES_DEFAULT: u32 = 64 * 1024;

/// k data shards, m parity shards, and the bytes of one shard in one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Layout {
    /// Data shards, 1 to 16.
    #[n(0)]
    pub k: u8,
    /// Parity shards, 0 to 4: how many disks may be lost.
    #[n(1)]
    pub m: u8,
    /// Stripe unit in bytes: a multiple of [`PAGE_BYTES`], 4 KiB to 4 MiB.
    #[n(2)]
    pub unit: u32,
}

/// Why a layout is refused.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("{text:?} is not a layout: {reason}")]
pub struct LayoutError {
    text: String,
    reason: &'static str,
}

impl Layout {
    /// A layout with the default stripe unit.
    ///
    /// # Errors
    /// When k is not 1 to 16 or m not 0 to 4.
    pub fn new(k: u8, m: u8) -> Result<Self, LayoutError> {
        let refuse = |reason| LayoutError {
            text: format!("{k}+{m}"),
            reason,
        };
        if !(1..=16).contains(&k) {
            return Err(refuse("k must be 1 to 16"));
        }
        if m > 4 {
            return Err(refuse("m must be 0 to 4"));
        }
        Ok(Self {
            k,
            m,
            unit: STRIPE_UNIT_BYTES_DEFAULT,
        })
    }

    /// Shards in all, k + m.
    #[must_use]
    pub const fn shards(&self) -> usize {
        self.k as usize + self.m as usize
    }

    /// User bytes in one full stripe.
    #[must_use]
    pub const fn stripe_bytes(&self) -> u64 {
        self.k as u64 * self.unit as u64
    }

    /// The default for a pool of `disks` disks: 4+2 from six, 8+3 from eleven, and less down to 1+0
    /// (DESIGN.md section 5).
    #[must_use]
    pub fn default_for(disks: usize) -> Self {
        let (k, m) = match disks {
            0 | 1 => (1, 0),
            2 => (1, 1),
            3 | 4 => (disks as u8 - 1, 1),
            5 => (3, 2),
            6..=10 => (4, 2),
            _ => (8, 3),
        };
        Self {
            k,
            m,
            unit: STRIPE_UNIT_BYTES_DEFAULT,
        }
    }

    /// The layout for a write while only `live` disks answer. m is unchanged, and k is as large as
    /// fits and no larger than usual. `None` when fewer than m+1 disks are alive (RECORDS.md
    /// section 6).
    #[must_use]
    pub fn narrowed_to(&self, live: usize) -> Option<Self> {
        let k = live.checked_sub(self.m as usize).filter(|&k| k >= 1)?;
        Some(Self {
            k: self.k.min(u8::try_from(k).unwrap_or(u8::MAX)),
            ..*self
        })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.k, self.m)
    }
}

impl FromStr for Layout {
    type Err = LayoutError;
    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let refuse = || LayoutError {
            text: text.to_owned(),
            reason: "write it as k+m, like 4+2",
        };
        let (k, m) = text.split_once('+').ok_or_else(refuse)?;
        Self::new(
            k.parse().map_err(|_| refuse())?,
            m.parse().map_err(|_| refuse())?,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrows_k_and_keeps_m() {
        let l = Layout::new(4, 2).expect("valid");
        assert_eq!(l.narrowed_to(6).expect("fits").to_string(), "4+2");
        assert_eq!(l.narrowed_to(4).expect("fits").to_string(), "2+2");
        assert_eq!(l.narrowed_to(3).expect("fits").to_string(), "1+2");
        assert_eq!(l.narrowed_to(2), None);
        for live in [258, 300, usize::MAX] {
            assert_eq!(l.narrowed_to(live), Some(l), "{live} disks");
        }
        let wide = Layout::new(8, 3).expect("valid");
        assert_eq!(wide.narrowed_to(8).expect("fits").to_string(), "5+3");
    }

    #[test]
    fn parses_what_it_prints() {
        for text in ["1+0", "1+1", "2+1", "4+2", "8+3", "10+4", "16+4"] {
            assert_eq!(text.parse::<Layout>().expect("valid").to_string(), text);
        }
        for text in ["", "4", "0+1", "17+1", "4+5", "4+-1", "a+b"] {
            assert!(text.parse::<Layout>().is_err(), "{text}");
        }
    }
}
