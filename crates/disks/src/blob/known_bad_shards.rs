//! Known damage of a blob's shards on disks that are present: the value of its entry in the repair
//! queue.

use dewar_types::{Error, ErrorKind, Result, Timestamp};
use minicbor::{Decode, Encode};

use crate::format::ShardSet;

/// See the module. Shards that the record itself lists as `missing` are not repeated here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct KnownBadShards {
    /// The shards that did not verify, one bit each.
    #[n(0)]
    bad: u32,
    /// When that was found last.
    #[n(1)]
    found: Timestamp,
}

impl KnownBadShards {
    /// With one more bad shard.
    #[must_use]
    pub fn with(self, shard: usize, found: Timestamp) -> Self {
        let bit = u32::try_from(shard)
            .ok()
            .and_then(|shard| 1_u32.checked_shl(shard))
            .unwrap_or(0);
        Self {
            bad: self.bad | bit,
            found,
        }
    }

    /// With one bad shard less.
    #[must_use]
    pub fn without(self, shard: usize) -> Self {
        let bit = u32::try_from(shard)
            .ok()
            .and_then(|shard| 1_u32.checked_shl(shard))
            .unwrap_or(0);
        Self {
            bad: self.bad & !bit,
            ..self
        }
    }

    /// The bad shards.
    #[must_use]
    pub fn bad(&self) -> ShardSet {
        (0..32).filter(|shard| self.bad >> shard & 1 != 0).collect()
    }

    /// The bytes that the catalog keeps.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Writing into a vector cannot fail.
        minicbor::to_vec(self).unwrap_or_default()
    }

    /// Decodes the catalog's bytes; no bytes at all mean that the blob must be checked.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when they are no findings.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        minicbor::decode(bytes).map_err(|error| {
            Error::with_source(ErrorKind::Corrupt, format!("findings: {error}"), error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        assert_eq!(
            KnownBadShards::from_bytes(b"").expect("empty"),
            KnownBadShards::default()
        );
        let findings = KnownBadShards::default()
            .with(0, Timestamp(5))
            .with(31, Timestamp(7))
            .with(99, Timestamp(9));
        let read = KnownBadShards::from_bytes(&findings.to_bytes()).expect("valid");
        assert_eq!(read, findings);
        assert_eq!(read.bad().iter().collect::<Vec<_>>(), [0, 31]);
        let fewer = read.without(31).without(7).without(99);
        assert_eq!(fewer.bad().iter().collect::<Vec<_>>(), [0]);
        assert!(KnownBadShards::from_bytes(b"x").is_err());
    }
}
