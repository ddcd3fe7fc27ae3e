//! The record of a rebuilt or restored catalog, kept until it is decided whether blobs that the
//! catalog does not name are salvaged or given up.
//!
//! It is written in the same step that makes the catalog. So no sweep can delete blobs that exist
//! but are unknown to the new catalog.

use dewar_types::{BlobId, Timestamp};
use minicbor::{Decode, Encode};

/// The source of a rebuilt catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum RebuildSource {
    /// Nothing was left: only what the blobs themselves say is known.
    #[n(0)]
    Blobs,
    /// A backup.
    #[n(1)]
    Backup,
    /// The parts of it on the present disks.
    #[n(2)]
    SurvivingRuns,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RebuildMarker {
    /// The source.
    #[n(0)]
    pub from: RebuildSource,
    /// Objects younger than this may be missing from the catalog; 0 when the source knew nothing.
    #[n(1)]
    pub since: Timestamp,
    /// The last batch that it has.
    #[n(2)]
    pub upto: u64,
    /// The source, for people.
    #[n(3)]
    pub source: String,
    /// Blobs from this one on cannot be in it.
    #[n(4)]
    pub bound: BlobId,
}

impl RebuildMarker {
    /// The bytes that the catalog keeps.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Writing into a vector cannot fail.
        minicbor::to_vec(self).unwrap_or_default()
    }

    /// Reads the catalog's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        minicbor::decode(bytes).ok()
    }
}
