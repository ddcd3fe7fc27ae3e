//! Putting a version together from what was written and what it shares, and reading it before it
//! has a name.

use std::sync::Arc;

use bytes::Bytes;
use dewar_catalog::record::Extent;
use dewar_checksum::{AlgorithmSet, DigestSet, StreamDigests};
use dewar_types::{ByteRange, Error, ErrorKind, Result};

use crate::SharedStore;
use crate::content_log::StagedContent;
use crate::content_reader::ContentReader;
use crate::limits::REVISION_RUNS_MAX;

use super::extent_map::{ExtentMap, ExtentOrigin, MappedExtent};
use super::sealed_logs::SealedLog;

/// What is read at once when digests are computed.
const PASS_BYTES: u64 = 1 << 20;

/// What a version is put together from.
pub(super) struct AssemblySources<'a> {
    /// Each log as one extent; an empty one has none.
    pub(super) logs: Vec<Option<Extent>>,
    pub(super) base: Option<&'a ContentReader>,
    /// The log with zeros, where they begin in it and how many there are.
    pub(super) zeros: Option<(usize, u64, u64)>,
}

impl AssemblySources<'_> {
    pub(super) fn extents(&self, map: &ExtentMap, size: u64) -> Result<Vec<Extent>> {
        let lost = || Error::new(ErrorKind::Internal, "written bytes without a place");
        let slice = |number: usize, offset, len| {
            let whole = self.logs.get(number).copied().flatten().ok_or_else(lost)?;
            Ok::<_, Error>(Extent {
                offset: whole.offset + offset,
                len,
                ..whole
            })
        };
        let mut extents = Vec::new();
        for (len, run) in map.pieces(ByteRange::whole(size)) {
            match run {
                Some(MappedExtent {
                    origin: ExtentOrigin::Log(number),
                    offset,
                    ..
                }) => {
                    extents.push(slice(number, offset, len)?);
                }
                Some(MappedExtent { offset, .. }) => {
                    let range = ByteRange {
                        start: offset,
                        end: offset + len,
                    };
                    extents.extend(self.base.ok_or_else(lost)?.pieces(range));
                }
                None => {
                    let (number, at, stretch) = self.zeros.ok_or_else(lost)?;
                    let mut left = len;
                    while left > 0 {
                        let take = left.min(stretch);
                        extents.push(slice(number, at, take)?);
                        left -= take;
                        if extents.len() > REVISION_RUNS_MAX {
                            let message = "holes of too many bytes";
                            return Err(Error::new(ErrorKind::TooLarge, message));
                        }
                    }
                }
            }
        }
        Ok(extents)
    }
}

/// A pass over a version that has no name yet, for its digests.
pub(super) struct UncommittedReader<'a> {
    pub(super) shared: &'a SharedStore,
    pub(super) sealed: &'a [SealedLog],
    pub(super) held: &'a StagedContent,
}

impl UncommittedReader<'_> {
    pub(super) async fn digests(
        &self,
        want: AlgorithmSet,
        extents: &[Extent],
    ) -> Result<DigestSet> {
        let mut digests = StreamDigests::new(want, &self.shared.lanes);
        for extent in extents {
            let mut at = 0;
            while at < extent.len {
                let len = (extent.len - at).min(PASS_BYTES);
                let piece = Extent {
                    offset: extent.offset + at,
                    len,
                    ..*extent
                };
                digests.update(self.read(&piece).await?).await;
                at += len;
            }
        }
        Ok(digests.finish().await)
    }

    async fn read(&self, piece: &Extent) -> Result<Bytes> {
        let range = ByteRange {
            start: piece.offset,
            end: piece.offset + piece.len,
        };
        if let Some(slot) = piece.slot {
            if let StagedContent::Small { slot: own, bytes } = self.held
                && own.segment() == piece.blob
                && own.offset() == slot.offset
            {
                let from = slot.header as usize + range.start as usize;
                return Ok(bytes.slice(from..from + piece.len as usize));
            }
            let read = self.shared.slot_bytes(piece, None).await?;
            return Ok(read.unwrap_or_default());
        }
        let mine = match self.held {
            StagedContent::Large { record } => Some(record),
            StagedContent::Nothing | StagedContent::Small { .. } => None,
        };
        let mine = mine
            .into_iter()
            .chain(self.sealed.iter().map(|log| &log.record));
        let record = match mine.into_iter().find(|record| record.id == piece.blob) {
            Some(record) => Arc::new(record.clone()),
            None => self.shared.table.record(piece.blob).await?,
        };
        self.shared.blobs.open(record)?.read(range).await
    }
}
