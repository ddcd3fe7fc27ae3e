//! The catalog's record of a sealed segment with the places of its slots.

use dewar_types::{BlobId, Error, ErrorKind, Result};
use minicbor::{Decode, Encode};

use crate::blob::BlobRecord;

/// The places of the bytes of a segment's logical space. Objects name (segment, offset) for ever;
/// sealing and compaction change only this record.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum SegmentRecord {
    /// Sealed as written: logical and physical offsets are the same.
    #[n(0)]
    Whole {
        /// The blob with the segment's bytes; its id is the segment's.
        #[n(0)]
        blob: BlobRecord,
    },
    /// Compacted: the live data is in a blob shared with other segments.
    #[n(1)]
    Packed {
        /// The shared blob, which has a record of its own. Its members are always compacted
        /// together, and then it is freed.
        #[n(0)]
        blob: BlobId,
        /// The runs that were alive, by logical offset.
        #[n(1)]
        runs: Vec<RelocatedRange>,
        /// The segments that were packed into the blob, this one included.
        #[n(2)]
        members: Vec<BlobId>,
    },
}

/// A stretch of a segment that moved as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct RelocatedRange {
    /// Start in the segment's logical space, in bytes.
    #[n(0)]
    pub logical: u32,
    /// Its length in bytes.
    #[n(1)]
    pub len: u32,
    /// Start in the shared blob, in bytes.
    #[n(2)]
    pub physical: u64,
}

impl SegmentRecord {
    /// The blob that holds the segment's bytes.
    #[must_use]
    pub fn blob(&self) -> BlobId {
        match self {
            Self::Whole { blob } => blob.id,
            Self::Packed { blob, .. } => *blob,
        }
    }

    /// The bytes that the catalog keeps.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Writing into a vector cannot fail.
        minicbor::to_vec(self).unwrap_or_default()
    }

    /// Decodes the catalog's bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] when they are no record.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        minicbor::decode(bytes).map_err(|error| {
            Error::with_source(
                ErrorKind::Corrupt,
                format!("segment record: {error}"),
                error,
            )
        })
    }
}

/// Fuzz target: nothing panics, and a decoded record encodes to the same record.
pub fn fuzz_segment_record(bytes: &[u8]) {
    if let Ok(record) = SegmentRecord::from_bytes(bytes) {
        let again = SegmentRecord::from_bytes(&record.to_bytes());
        assert_eq!(again.ok(), Some(record));
    }
}

/// Where `len` bytes at a logical offset are in the shared blob; `None` when they were not alive
/// at compaction, so that no object can name them.
pub(crate) fn locate(runs: &[RelocatedRange], offset: u32, len: u32) -> Option<u64> {
    let after = runs.partition_point(|run| run.logical <= offset);
    let run = runs.get(after.checked_sub(1)?)?;
    let within = offset - run.logical;
    (u64::from(within) + u64::from(len) <= u64::from(run.len))
        .then(|| run.physical + u64::from(within))
}

/// What is left of `spans` when the dead stretches are taken out; (offset, length) both, ascending
/// and apart.
pub(crate) fn alive(spans: &[(u32, u32)], dead: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut alive = Vec::new();
    let mut dead = dead.iter().copied().peekable();
    for &(start, len) in spans {
        let end = start.saturating_add(len);
        let mut at = start;
        while let Some(&(offset, len)) = dead.peek() {
            if offset >= end {
                break;
            }
            if offset > at {
                alive.push((at, offset - at));
            }
            at = at.max(offset.saturating_add(len));
            if at > end {
                // It reaches into the next span, which it is held against too.
                break;
            }
            dead.next();
        }
        if end > at {
            alive.push((at, end - at));
        }
    }
    alive
}

#[cfg(test)]
mod tests {
    use dewar_types::{DiskId, Layout, Timestamp};

    use super::*;

    #[test]
    fn locates_only_what_moved() {
        let runs = [
            RelocatedRange {
                logical: 0,
                len: 10,
                physical: 100,
            },
            RelocatedRange {
                logical: 50,
                len: 20,
                physical: 110,
            },
        ];
        assert_eq!(locate(&runs, 0, 10), Some(100));
        assert_eq!(locate(&runs, 4, 6), Some(104));
        assert_eq!(locate(&runs, 4, 7), None);
        assert_eq!(locate(&runs, 10, 1), None);
        assert_eq!(locate(&runs, 55, 15), Some(115));
        assert_eq!(locate(&runs, 70, 1), None);
        assert_eq!(locate(&[], 0, 1), None);
    }

    #[test]
    fn alive_is_what_is_not_dead() {
        let whole = [(0, 100)];
        assert_eq!(alive(&whole, &[]), [(0, 100)]);
        assert_eq!(alive(&whole, &[(0, 100)]), []);
        assert_eq!(alive(&whole, &[(0, 10), (10, 20), (90, 10)]), [(30, 60)]);
        assert_eq!(alive(&whole, &[(20, 10)]), [(0, 20), (30, 70)]);
        let runs = [(10, 10), (20, 5), (50, 50)];
        assert_eq!(alive(&runs, &[(10, 15)]), [(50, 50)]);
        assert_eq!(
            alive(&runs, &[(0, 12), (60, 10), (99, 1)]),
            [(12, 8), (20, 5), (50, 10), (70, 29)]
        );
    }

    #[test]
    fn reads_what_it_writes() {
        let record = SegmentRecord::Packed {
            blob: BlobId(9),
            runs: vec![RelocatedRange {
                logical: 3,
                len: 4,
                physical: 5,
            }],
            members: vec![BlobId(1), BlobId(2)],
        };
        assert_eq!(
            SegmentRecord::from_bytes(&record.to_bytes()).expect("valid"),
            record
        );
        assert!(SegmentRecord::from_bytes(b"x").is_err());
    }

    /// Records of version 1 (docs/formats/segment.md).
    #[test]
    fn version_1_is_read_and_still_written() {
        let blob = BlobRecord {
            id: BlobId::new(2, 0x12_3456_789a),
            pool: 1,
            generation: 7,
            layout: Layout::new(2, 1).expect("valid"),
            len: 12_345,
            disks: vec![DiskId(1), DiskId(u128::MAX), DiskId(3)],
            missing: vec![2],
            written: None,
        };
        let id = b"\x1b\0\x02\0\x12\x34\x56\x78\x9a";
        let mut stored = [
            &b"\x87"[..],
            id,
            b"\x01\x07\x83\x02\x01\x1a\0\x01\0\0\x19\x30\x39\x83",
        ]
        .concat();
        for disk in &blob.disks {
            stored.push(0x50);
            stored.extend_from_slice(&disk.0.to_be_bytes());
        }
        stored.extend_from_slice(b"\x81\x02");
        assert_eq!(blob.to_bytes(), stored);
        assert_eq!(BlobRecord::from_bytes(&stored).expect("valid"), blob);
        let later = BlobRecord {
            written: Some(Timestamp(9)),
            ..blob.clone()
        };
        let mut longer = stored.clone();
        longer[0] = 0x88;
        longer.push(9);
        assert_eq!(later.to_bytes(), longer);
        let packed = SegmentRecord::Packed {
            blob: blob.id,
            runs: vec![RelocatedRange {
                logical: 1,
                len: 300,
                physical: 2,
            }],
            members: vec![BlobId(9)],
        };
        let runs = b"\x81\x83\x01\x19\x01\x2c\x02\x81\x09";
        let samples = [
            (
                SegmentRecord::Whole { blob },
                [b"\x82\0\x81", &stored[..]].concat(),
            ),
            (packed, [b"\x82\x01\x83", &id[..], runs].concat()),
        ];
        for (record, stored) in samples {
            assert_eq!(record.to_bytes(), stored, "{record:?}");
            assert_eq!(SegmentRecord::from_bytes(&stored).expect("valid"), record);
        }
    }
}
