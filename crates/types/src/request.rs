//! The id of a request, from the socket to the disks.

use core::fmt;

/// A request's id: one for its log lines, for the client and for errors. The listener that accepts
/// a request sets it, as an extension of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

impl RequestId {
    /// The `count`th id of a process that began with a random `key`. It is a bijection, so no two
    /// ids of a process are equal, and consecutive ids look different.
    #[must_use]
    pub const fn nth(key: u64, count: u64) -> Self {
        let mut x = count.wrapping_add(key);
        // The finaliser of SplitMix64, which maps 64 bits one to one.
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self(x ^ (x >> 31))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_have_one_length() {
        let mut seen = std::collections::BTreeSet::new();
        for count in 0..1000 {
            let id = RequestId::nth(u64::MAX - 500, count).to_string();
            assert_eq!(id.len(), 16, "{id}");
            assert!(seen.insert(id));
        }
    }
}
