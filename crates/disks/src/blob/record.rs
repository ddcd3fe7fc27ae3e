//! The catalog's record of a blob with the places of its shards.

use dewar_types::{BlobId, DiskId, Error, ErrorKind, Layout, Result, Timestamp};
use minicbor::{Decode, Encode};

use crate::format::Geometry;

/// The places of the shards of one encoding of a blob. Stored under the blob's id; changed only
/// when the blob is encoded anew, never when names change.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct BlobRecord {
    /// The blob.
    #[n(0)]
    pub id: BlobId,
    /// The pool it is in.
    #[n(1)]
    pub pool: u16,
    /// Counts the encodings of this blob, from 1.
    #[n(2)]
    pub generation: u32,
    /// How it is cut.
    #[n(3)]
    pub layout: Layout,
    /// Its length in bytes.
    #[n(4)]
    pub len: u64,
    /// The disk of each shard, data first.
    #[n(5)]
    pub disks: Vec<DiskId>,
    /// Shards that were not written, because their disk disappeared meanwhile; to be repaired.
    #[n(6)]
    pub missing: Vec<u8>,
    /// Time when all its shards had been written and synced; absent in older records.
    #[n(7)]
    pub written: Option<Timestamp>,
}

impl BlobRecord {
    /// The bytes that the catalog keeps.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Writing into a vector cannot fail.
        minicbor::to_vec(self).unwrap_or_default()
    }

    /// Decodes the catalog's bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when they are no record or contradict themselves.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bad = |why: String| Error::new(ErrorKind::Corrupt, format!("blob record: {why}"));
        let record: Self = minicbor::decode(bytes).map_err(|error| bad(error.to_string()))?;
        record.geometry()?;
        let shards = record.layout.shards();
        if record.disks.len() != shards
            || record
                .missing
                .iter()
                .any(|&shard| usize::from(shard) >= shards)
        {
            return Err(bad(format!("{record:?} contradicts itself")));
        }
        Ok(record)
    }

    /// The geometry of the blob.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when layout or length are outside the format. This never happens for
    /// a record that a writer made or [`BlobRecord::from_bytes`] accepted.
    pub fn geometry(&self) -> Result<Geometry> {
        Geometry::new(self.layout, self.len).map_err(|error| {
            let message = format!("the record of blob {}", self.id);
            Error::with_source(ErrorKind::Corrupt, message, error)
        })
    }

    /// The file of a shard, relative to its disk. Blobs of similar age share a folder, so that one
    /// folder sync serves many writers and no folder grows without limit.
    #[must_use]
    pub fn shard_path(&self, shard: usize) -> String {
        shard_path(self.id, self.generation, shard)
    }
}

/// Fuzz target: nothing panics, and a decoded record encodes to the same record.
pub fn fuzz_blob_record(bytes: &[u8]) {
    if let Ok(record) = BlobRecord::from_bytes(bytes) {
        let again = BlobRecord::from_bytes(&record.to_bytes());
        assert_eq!(again.ok(), Some(record));
    }
}

/// The folder of a blob's shards.
pub(crate) fn shard_dir(id: BlobId) -> String {
    format!("blobs/{:04x}-{:09x}", id.zone(), id.counter() >> 12)
}

/// See [`BlobRecord::shard_path`].
pub(crate) fn shard_path(id: BlobId, generation: u32, shard: usize) -> String {
    format!("{}/{id}.{generation:08x}.{shard:02x}", shard_dir(id))
}

/// The blob, generation and shard that a file name of [`shard_path`] means.
pub(crate) fn parse_shard_name(name: &str) -> Option<(BlobId, u32, usize)> {
    let mut parts = name.split('.');
    let id = parts.next()?.parse().ok()?;
    let generation = parts.next().filter(|text| text.len() == 8)?;
    let shard = parts.next().filter(|text| text.len() == 2)?;
    if parts.next().is_some() {
        return None;
    }
    Some((
        id,
        u32::from_str_radix(generation, 16).ok()?,
        usize::from_str_radix(shard, 16).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> BlobRecord {
        BlobRecord {
            id: BlobId::new(2, 0x12_3456_789a),
            pool: 1,
            generation: 7,
            layout: Layout::new(2, 1).expect("valid"),
            len: 12_345,
            disks: vec![DiskId(1), DiskId(u128::MAX), DiskId(3)],
            missing: vec![2],
            written: None,
        }
    }

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        let bytes = sample().to_bytes();
        assert_eq!(BlobRecord::from_bytes(&bytes).expect("valid"), sample());
        for cut in 0..bytes.len() {
            assert!(BlobRecord::from_bytes(&bytes[..cut]).is_err());
        }
        let mut contradicting = sample();
        contradicting.disks.pop();
        assert!(BlobRecord::from_bytes(&contradicting.to_bytes()).is_err());
    }

    #[test]
    fn file_names_tell_what_they_hold() {
        let path = sample().shard_path(2);
        assert_eq!(path, "blobs/0002-001234567/000200123456789a.00000007.02");
        let name = path.rsplit('/').next().expect("has a name");
        assert_eq!(parse_shard_name(name), Some((sample().id, 7, 2)));
        for bad in [
            "",
            "x",
            "00020012345678.00000007.02",
            "00020012_3456789a.7.2",
            "a.b.c.d",
        ] {
            assert_eq!(parse_shard_name(bad), None, "{bad}");
        }
    }
}
