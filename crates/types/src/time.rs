//! Points in time.

use minicbor::{Decode, Encode};

/// Nanoseconds since 1970-01-01T00:00:00Z. Good until the year 2554.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Timestamp(#[n(0)] pub u64);

impl Timestamp {
    /// From whole seconds since the epoch.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Whole seconds since the epoch, rounded down.
    #[must_use]
    pub const fn secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// Milliseconds since the epoch, rounded down.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The nanoseconds within the second.
    #[must_use]
    pub const fn subsec_nanos(self) -> u32 {
        (self.0 % 1_000_000_000) as u32
    }
}
