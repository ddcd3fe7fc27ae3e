//! Reading a journal file from whichever copy verifies.

use std::sync::Arc;

use bytes::Bytes;
use dewar_env::{DiskErrorKind, DiskFile};
use dewar_types::DiskId;

use crate::format::{
    BLOCK_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordPosition, verify_record,
};

/// What is read ahead of a record, in bytes.
const WINDOW_BYTES: u64 = 1 << 20;

/// One disk's copy of a file.
#[derive(Debug)]
pub(crate) struct FileCopy {
    pub(crate) disk: DiskId,
    file: Arc<dyn DiskFile>,
    window: Bytes,
    window_at: u64,
    /// Its disk does not answer; it is not asked again.
    gone: bool,
    /// A read failed since the last record was found.
    stumbled: bool,
    /// A record that was looked for had the right header and did not verify.
    torn: bool,
}

impl FileCopy {
    pub(crate) fn new(disk: DiskId, file: Arc<dyn DiskFile>) -> Self {
        Self {
            disk,
            file,
            window: Bytes::new(),
            window_at: 0,
            gone: false,
            stumbled: false,
            torn: false,
        }
    }

    /// Bytes at an offset, of which at least `len` would be there in an intact file.
    async fn bytes(&mut self, offset: u64, len: usize) -> Option<Bytes> {
        if self.gone {
            return None;
        }
        if let Some(found) = self.within(offset, len) {
            return Some(found);
        }
        let start = offset - offset % BLOCK_BYTES;
        let least = (offset + len as u64).next_multiple_of(BLOCK_BYTES) - start;
        // Where the window has a bad sector, what is needed may still be readable.
        for wanted in [least.max(WINDOW_BYTES), least] {
            match self
                .file
                .read_at(start, usize::try_from(wanted).ok()?)
                .await
            {
                Ok(window) => {
                    self.window = window;
                    self.window_at = start;
                    return self.within(offset, len);
                }
                Err(error) => {
                    tracing::warn!(%error, offset, "a copy of the journal cannot be read");
                    self.gone = error.kind() != DiskErrorKind::Io;
                }
            }
            if self.gone {
                break;
            }
        }
        self.stumbled = true;
        None
    }

    fn within(&self, offset: u64, len: usize) -> Option<Bytes> {
        let from = usize::try_from(offset.checked_sub(self.window_at)?).ok()?;
        let to = from.checked_add(len)?;
        (to <= self.window.len()).then(|| self.window.slice(from..to))
    }
}

/// A record that verified.
#[derive(Clone, Debug)]
pub(crate) struct VerifiedRecord {
    pub(crate) header: RecordHeader,
    /// Header and body.
    pub(crate) raw: Bytes,
}

/// All copies of one file that there are.
#[derive(Debug)]
pub(crate) struct FileCopies {
    copies: Vec<FileCopy>,
    file_bytes: u64,
    /// The copy that served last.
    best: usize,
    /// Records that one copy had and another had not, or not intact.
    pub(crate) mended: u64,
}

impl FileCopies {
    pub(crate) fn new(copies: Vec<FileCopy>, file_bytes: u64) -> Self {
        Self {
            copies,
            file_bytes,
            best: 0,
            mended: 0,
        }
    }

    /// Disks whose copy could not be read where the last record was looked for.
    pub(crate) fn stumbled(&self) -> impl Iterator<Item = DiskId> + '_ {
        let stumbled = self.copies.iter().filter(|copy| copy.stumbled || copy.gone);
        stumbled.map(|copy| copy.disk)
    }

    /// Whether where the last record was looked for one was that did not verify.
    pub(crate) fn torn(&self) -> bool {
        self.copies.iter().any(|copy| copy.torn)
    }

    /// The record that is looked for, from a copy that has it intact at one of these places. One
    /// copy after the other is tried at all of them, so that the others are read only where the
    /// one that served last does not do. `again`: with fresh bytes.
    pub(crate) async fn record(
        &mut self,
        places: &[RecordPosition],
        again: bool,
        wanted: impl Fn(&RecordHeader) -> bool + Send + Sync,
    ) -> Option<(RecordPosition, VerifiedRecord)> {
        let count = self.copies.len();
        for copy in &mut self.copies {
            copy.stumbled = false;
            copy.torn = false;
            if again {
                copy.window = Bytes::new();
            }
        }
        for attempt in 0..count {
            let index = (self.best + attempt) % count;
            for place in places {
                if let Some(found) = self.try_copy(index, place, &wanted).await {
                    self.mended += u64::from(again || attempt > 0);
                    self.best = index;
                    return Some((*place, found));
                }
            }
        }
        None
    }

    async fn try_copy(
        &mut self,
        index: usize,
        place: &RecordPosition,
        wanted: &(impl Fn(&RecordHeader) -> bool + Send + Sync),
    ) -> Option<VerifiedRecord> {
        let copy = &mut self.copies[index];
        let head = copy.bytes(place.offset, RECORD_HEADER_BYTES).await?;
        let header = RecordHeader::parse(&head)?;
        let end = place.offset.checked_add(header.framed_bytes() as u64)?;
        if end > self.file_bytes || !wanted(&header) {
            return None;
        }
        let len = RECORD_HEADER_BYTES + header.len as usize;
        let raw = copy.bytes(place.offset, len).await?;
        let verified = verify_record(&raw, place);
        copy.torn |= !verified;
        verified.then_some(VerifiedRecord { header, raw })
    }

    /// Whether any copy has, at a block boundary from `place` on, an intact record that says that
    /// records after `end` had been acknowledged. Gives how far they had been.
    pub(crate) async fn evidence(
        &mut self,
        place: RecordPosition,
        epoch: u64,
        end: u64,
    ) -> Option<u64> {
        for index in 0..self.copies.len() {
            let mut at = RecordPosition {
                offset: place.offset.next_multiple_of(BLOCK_BYTES),
                ..place
            };
            let later = |header: &RecordHeader| {
                header.epoch == epoch && header.seq > end && header.acked > end
            };
            while at.offset < self.file_bytes {
                if let Some(found) = self.try_copy(index, &at, &later).await {
                    return Some(found.header.acked);
                }
                at.offset += BLOCK_BYTES;
            }
        }
        None
    }
}
