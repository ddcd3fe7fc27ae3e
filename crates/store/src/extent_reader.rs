//! The extents of a content, read one after the other, verified and in clear.

use std::collections::VecDeque;

use bytes::Bytes;
use dewar_catalog::record::Extent;
use dewar_disks::blob::{BlobStream, VerifiedBytes};
use dewar_types::{ByteRange, Error, ErrorKind, Result};

use crate::encryption::{DataKey, Opener};
use crate::{Inner, SharedStore};

/// Pieces of content being read, one after the other. Their blobs stay pinned as long as this
/// exists.
pub(crate) struct ExtentReader {
    shared: SharedStore,
    /// The first piece, when it is small and was read already.
    ready: Option<Bytes>,
    pieces: VecDeque<Extent>,
    current: Option<Reading>,
    key: Option<DataKey>,
}

/// A large piece being read, and what opens it when it is encrypted.
struct Reading {
    stream: BlobStream,
    opener: Option<Opener>,
}

impl ExtentReader {
    pub(crate) fn new(
        shared: &SharedStore,
        ready: Option<Bytes>,
        pieces: VecDeque<Extent>,
        key: Option<DataKey>,
    ) -> Self {
        Self {
            shared: SharedStore::clone(shared),
            ready,
            pieces,
            current: None,
            key,
        }
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// As [`crate::ContentReader::next`].
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes>> {
        let next = self.next_verified().await?;
        Some(next.map(VerifiedBytes::into_bytes))
    }

    /// The same with the checksums of stored pages, if the bytes are those of the pages.
    ///
    /// # Errors
    /// As [`ExtentReader::next`].
    pub(crate) async fn next_verified(&mut self) -> Option<Result<VerifiedBytes>> {
        if let Some(bytes) = self.ready.take() {
            return Some(Ok(bytes.into()));
        }
        loop {
            if let Some(reading) = &mut self.current {
                match reading.next().await {
                    Some(bytes) => return Some(bytes),
                    None => self.current = None,
                }
            }
            let piece = self.pieces.pop_front()?;
            match self.shared.slot_bytes(&piece, self.key.as_ref()).await {
                Ok(Some(bytes)) => return Some(Ok(bytes.into())),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
            let record = match self.shared.table.record(piece.blob).await {
                Ok(record) => record,
                Err(error) => return Some(Err(error)),
            };
            let (opener, range) = match opened(&piece, self.key.as_ref(), record.len) {
                Ok(opened) => opened,
                Err(error) => return Some(Err(error)),
            };
            match self.shared.blobs.open(record) {
                Ok(reader) => {
                    let stream = reader.stream(range);
                    self.current = Some(Reading { stream, opener });
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Reading {
    async fn next(&mut self) -> Option<Result<VerifiedBytes>> {
        loop {
            let stored = self.stream.next_verified().await;
            let Some(opener) = &mut self.opener else {
                return stored;
            };
            match stored {
                Some(Ok(stored)) => match opener.push(stored.bytes()) {
                    Ok(clear) if clear.is_empty() => {}
                    outcome => return Some(outcome.map(VerifiedBytes::from)),
                },
                None if !opener.is_done() => {
                    let message = "encrypted content ends early";
                    return Some(Err(Error::new(ErrorKind::Corrupt, message)));
                }
                end => return end,
            }
        }
    }
}

impl Inner {
    /// The bytes of a piece that lies in a slot.
    pub(crate) async fn slot_bytes(
        &self,
        piece: &Extent,
        key: Option<&DataKey>,
    ) -> Result<Option<Bytes>> {
        let Some(slot) = piece.slot else {
            return Ok(None);
        };
        let stored = u64::from(slot.len.saturating_sub(slot.header));
        let (opener, range) = opened(piece, key, stored)?;
        let inside = u64::from(slot.offset) + u64::from(slot.header) + range.start;
        let (Ok(offset), Ok(len)) = (u32::try_from(inside), u32::try_from(range.len())) else {
            let message = format!("segment {}: a slot at {inside}", piece.blob);
            return Err(Error::new(ErrorKind::Corrupt, message));
        };
        let bytes = self.segments.read(piece.blob, offset, len).await?;
        match opener {
            None => Ok(Some(bytes)),
            Some(mut opener) => opener.push(&bytes).map(Some),
        }
    }
}

/// The range of stored bytes to read for a piece, out of `stored`, and the key that decrypts them.
fn opened(
    piece: &Extent,
    key: Option<&DataKey>,
    stored: u64,
) -> Result<(Option<Opener>, ByteRange)> {
    let range = ByteRange {
        start: piece.offset,
        end: piece.offset + piece.len,
    };
    let corrupt = |what| {
        let message = format!("blob {}: {what}", piece.blob);
        Error::new(ErrorKind::Corrupt, message)
    };
    match (piece.salt, key) {
        (None, _) if range.end > stored => Err(corrupt("it is shorter than its extent")),
        (None, _) => Ok((None, range)),
        (Some(salt), Some(key)) => {
            let (opener, sealed) = Opener::new(key, salt, range, stored)
                .map_err(|error| error.context(format_args!("blob {}", piece.blob)))?;
            Ok((Some(opener), sealed))
        }
        (Some(_), None) => Err(corrupt("encrypted content of a version that is not")),
    }
}

/// The parts of extents that hold `range`.
pub(crate) fn cut(extents: &[Extent], range: ByteRange) -> Vec<Extent> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for extent in extents {
        let end = at + extent.len;
        let from = range.start.max(at);
        let to = range.end.min(end);
        if from < to {
            pieces.push(Extent {
                offset: extent.offset + (from - at),
                len: to - from,
                ..*extent
            });
        }
        at = end;
    }
    pieces
}
