//! Small objects that the journal still carries at an opening.
//!
//! Their segments were unsealed when the process ended, or were sealed so short a time before that the
//! journal has not let the records go. Only the former are to be kept in memory and sealed again. Which
//! are which, the same journal says: the batch that makes, changes or removes a segment's record comes
//! after every batch that carries a slot of it. So what a segment was carried is dropped when such a
//! batch is met. That the record exists would not do: a segment all of whose objects were deleted has
//! none any more, and would come back as bytes that nothing names and nothing ever frees.
//!
//! Memory: the slots of unsealed segments, which are bounded, and of one sealed segment after the other
//! until its record is met.

use std::collections::BTreeMap;

use bytes::Bytes;
use dewar_data::segment::{Segments, decode_slot};
use dewar_meta::kv::{Batch, InlineData, Seq};
use dewar_meta::ns::keys;
use dewar_types::{BlobId, Result};

use crate::salvage_header::SalvageHeader;

/// Collects what the journal carries while it is replayed.
#[derive(Debug, Default)]
pub(crate) struct SegmentRecovery {
    segments: BTreeMap<BlobId, Vec<(Seq, InlineData)>>,
}

impl SegmentRecovery {
    /// Takes the next batch of the replay in.
    pub(crate) fn replay(&mut self, seq: Seq, batch: &mut Batch) {
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

    /// What is unsealed: the slots of each segment by their offsets.
    pub(crate) fn unsealed(self) -> BTreeMap<BlobId, BTreeMap<u32, Bytes>> {
        let slots = |slots: Vec<(Seq, InlineData)>| {
            let bytes = |(_, carry): (Seq, InlineData)| (carry.offset, carry.bytes.concat().into());
            slots.into_iter().map(bytes).collect()
        };
        let segments = self.segments.into_iter();
        segments.map(|(id, all)| (id, slots(all))).collect()
    }

    /// Hands over what is unsealed; `main` is the pool of what says nothing else.
    ///
    /// # Errors
    /// Those of the catalog.
    pub(crate) async fn restore(self, segments: &Segments, main: u16) -> Result<()> {
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

/// The pool of a segment, as the descriptions in its slots say, which all say the same. `None` where none
/// says anything, as before there were several.
pub(crate) fn pool_in<'a>(slots: impl Iterator<Item = &'a Bytes>) -> Option<u16> {
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
