//! What is known of a catalog that was rebuilt or restored, until it is settled what becomes of
//! blobs that it does not name.
//!
//! It stands in the catalog from the first moment on, in the same step that makes the catalog, so
//! that no sweep ever takes blobs for leftovers that the catalog only does not know.

use dewar_types::{BlobId, Timestamp};
use minicbor::{Decode, Encode};

/// What a catalog was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum RebuildSource {
    /// Nothing was left: only what the blobs themselves say is known.
    #[n(0)]
    Blobs,
    /// A backup.
    #[n(1)]
    Backup,
    /// What the disks that were there had of it.
    #[n(2)]
    SurvivingRuns,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RebuildMarker {
    /// What it was made of.
    #[n(0)]
    pub from: RebuildSource,
    /// What is younger than this it does not know; 0 when it knew nothing.
    #[n(1)]
    pub since: Timestamp,
    /// The last batch that it has.
    #[n(2)]
    pub upto: u64,
    /// What it was made of, for people.
    #[n(3)]
    pub source: String,
    /// Blobs from this one on cannot be in it.
    #[n(4)]
    pub bound: BlobId,
}

impl RebuildMarker {
    /// The bytes that the catalog keeps.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Writing into a vector cannot fail.
        minicbor::to_vec(self).unwrap_or_default()
    }

    /// Reads the catalog's bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        minicbor::decode(bytes).ok()
    }
}
