//! Small objects whose records the journal still contains when the store is opened.
//!
//! Their segments were unsealed when the process ended, or were sealed so shortly before that the
//! journal still keeps the records. Only unsealed segments must be loaded into memory and sealed
//! again. The journal tells the two apart. The batch that creates, changes or removes a segment's
//! record comes after every batch with a slot of that segment. So the slots of a segment are
//! dropped from memory when such a batch is read. Checking only whether the segment's record exists
//! would not be enough: a segment whose objects were all deleted has no record. It would be loaded
//! again, with bytes that nothing names and nothing ever frees.
//!
//! Memory: the slots of unsealed segments, which are bounded, and those of one sealed segment at a
//! time until its record is read.

use std::collections::BTreeMap;

use crate::segment::{Segments, decode_slot};
use bytes::Bytes;
use dewar_catalog::keys;
use dewar_kv::{Batch, InlineData, Seq};
use dewar_types::{BlobId, Result};

use crate::salvage_header::SalvageHeader;

/// Collects what the journal carries while it is replayed.
#[derive(Debug, Default)]
pub struct SegmentRecovery {
    segments: BTreeMap<BlobId, Vec<(Seq, InlineData)>>,
}

impl SegmentRecovery {
    /// Takes the next batch of the replay in.
    pub fn replay(&mut self, seq: Seq, batch: &mut Batch) {
        let put = batch.puts.iter().map(|(key, _)| key);
        for segment in put
            .chain(&batch.deletes)
            .filter_map(|key| keys::segment_of(key))
        {
            if dewar_env::safeguard("emptied segments stay gone") {
                self.segments.remove(&segment);
            }
        }
        if let Some(carry) = batch.carry.take() {
            let slots = self.segments.entry(carry.segment).or_default();
            slots.push((seq, carry));
        }
    }

    /// The unsealed slots of each segment, by their offsets.
    pub fn unsealed(self) -> BTreeMap<BlobId, BTreeMap<u32, Bytes>> {
        let slots = |slots: Vec<(Seq, InlineData)>| {
            let bytes = |(_, carry): (Seq, InlineData)| (carry.offset, carry.bytes.concat().into());
            slots.into_iter().map(bytes).collect()
        };
        let segments = self.segments.into_iter();
        segments.map(|(id, all)| (id, slots(all))).collect()
    }

    /// Passes on the unsealed slots. `main` is the pool of segments without another pool.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn restore(self, segments: &Segments, main: u16) -> Result<()> {
        for (segment, slots) in self.segments {
            let slots = slots.into_iter();
            let slots = slots.map(|(seq, carry)| (seq, carry.offset, carry.bytes.concat().into()));
            let slots: Vec<(Seq, u32, Bytes)> = slots.collect();
            let pool = pool_in(slots.iter().map(|(.., bytes)| bytes)).unwrap_or(main);
            for (seq, offset, bytes) in slots {
                segments.restore(seq, pool, segment, offset, bytes);
            }
        }
        segments.restored().await
    }
}

/// The pool of a segment, from the descriptions in its slots, which all name the same one. `None`
/// if none names a pool, as in releases with a single pool.
pub fn pool_in<'a>(slots: impl Iterator<Item = &'a Bytes>) -> Option<u16> {
    let mut described = slots.filter_map(|slot| {
        let header = decode_slot(slot)?;
        SalvageHeader::from_bytes(&header.description)
    });
    described.next()?.pool
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carrying(segment: u64, offset: u32) -> Batch {
        Batch {
            carry: Some(InlineData {
                segment: BlobId(segment),
                offset,
                bytes: vec![Bytes::from_static(b"slot")],
            }),
            ..Batch::default()
        }
    }

    #[test]
    fn only_unsealed_segments_are_kept() {
        let mut carried = SegmentRecovery::default();
        let sealed = |segment| Batch {
            puts: vec![(keys::segment(BlobId(segment)), Bytes::new())],
            ..Batch::default()
        };
        let emptied = |segment| Batch {
            deletes: vec![keys::segment(BlobId(segment))],
            ..Batch::default()
        };
        // The seal of segment 3 was let go already; that it was emptied is still there.
        let log = [
            carrying(1, 0),
            carrying(1, 4),
            carrying(2, 0),
            sealed(1),
            carrying(3, 0),
            carrying(2, 4),
            emptied(1),
            emptied(3),
            carrying(4, 0),
        ];
        for (mut batch, seq) in log.into_iter().zip(1..) {
            carried.replay(seq, &mut batch);
        }
        let kept: Vec<_> = carried
            .segments
            .iter()
            .map(|(segment, slots)| {
                let places = slots.iter().map(|(seq, carry)| (*seq, carry.offset));
                (segment.0, places.collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(kept, [(2, vec![(3, 0), (6, 4)]), (4, vec![(9, 0)])]);
    }
}
