//! The log as a gap-free chain of verified records.
//!
//! Records follow one another inside a group without a gap. A group begins at the next multiple of
//! 4 KiB, or in the next file. The next record is therefore at one of three positions. A record
//! there is the right one if it verifies, has the next sequence number and names the checksum of
//! the present record. The chain ends where no copy has such a record.

use bytes::Bytes;
use dewar_env::BoxFuture;
use dewar_types::{DiskId, Error, ErrorKind};

use crate::Seq;
use crate::copies::{FileCopies, FileCopy, VerifiedRecord};
use crate::epoch::{EpochId, Span};
use crate::format::{BLOCK_BYTES, RECORD_HEADER_BYTES, RecordPosition};

/// Where copies of journal files come from.
pub(crate) trait CopySource: Send + Sync {
    /// The copies of a file; none if there is no such file.
    fn copies(&self, epoch: EpochId, file: u64) -> BoxFuture<'_, Vec<FileCopy>>;
}

/// A record of the chain.
#[derive(Debug)]
pub(crate) struct LogRecord {
    pub(crate) place: RecordPosition,
    pub(crate) record: VerifiedRecord,
}

impl LogRecord {
    /// The record's body.
    pub(crate) fn body(&self) -> Bytes {
        self.record.raw.slice(RECORD_HEADER_BYTES..)
    }
}

/// Walks the chain.
pub(crate) struct LogReader<S> {
    source: S,
    file_bytes: u64,
    /// The remaining ranges, the current one first.
    spans: Vec<Span>,
    file: u64,
    offset: u64,
    next: Seq,
    prev: u32,
    copies: Option<FileCopies>,
    /// Disks that could not be read in the search for the next record.
    stumbled: Vec<DiskId>,
    /// Whether a record at the expected position of the next one did not verify.
    torn: bool,
    mended: u64,
}

/// Where a chain begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadStart {
    pub(crate) file: u64,
    pub(crate) first: Seq,
    pub(crate) prev: u32,
}

impl<S: CopySource> LogReader<S> {
    /// A chain through `spans`, the first of which holds the file where it starts.
    pub(crate) fn new(source: S, file_bytes: u64, spans: Vec<Span>, start: ReadStart) -> Self {
        Self {
            source,
            file_bytes,
            spans,
            file: start.file,
            offset: BLOCK_BYTES,
            next: start.first,
            prev: start.prev,
            copies: None,
            stumbled: Vec::new(),
            torn: false,
            mended: 0,
        }
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the chain breaks off in a stretch whose end is known to be later.
    pub(crate) async fn next(&mut self) -> Result<Option<LogRecord>, Error> {
        loop {
            let Some(span) = self.spans.first().cloned() else {
                return Ok(None);
            };
            if span.last.is_some_and(|last| self.next > last) {
                self.spans.remove(0);
                if let Some(following) = self.spans.first().cloned() {
                    self.enter(following.file);
                    self.next = following.first;
                    self.prev = following.prev;
                }
                continue;
            }
            // No journal gets there; a number beyond would not be one.
            if self.next == Seq::MAX {
                return Ok(None);
            }
            if let Some(link) = self.find(&span).await {
                self.next = link.record.header.seq + 1;
                self.prev = link.record.header.crc;
                self.offset = link.place.offset + link.record.header.framed_bytes() as u64;
                return Ok(Some(link));
            }
            return match span.last {
                None => Ok(None),
                Some(last) => Err(Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "the journal has no intact copy of record {} of epoch {}, which goes up to \
                         {last}",
                        self.next, span.number
                    ),
                )),
            };
        }
    }

    /// Sequence of the last record that was found.
    pub(crate) fn end(&self) -> Seq {
        // Sequences begin at 1, but what garbage says must not end the process.
        self.next.saturating_sub(1)
    }

    /// Records that were intact in one copy and not in another.
    pub(crate) fn mended(&self) -> u64 {
        self.mended + self.copies.as_ref().map_or(0, |copies| copies.mended)
    }

    /// Disks that could not be read where the record after the end would be.
    pub(crate) fn unreadable(&self) -> &[DiskId] {
        &self.stumbled
    }

    /// Looks behind the end for a record that proves that more had been acknowledged.
    pub(crate) async fn evidence(&mut self) -> Option<Seq> {
        let span = self.spans.first()?.clone();
        let place = RecordPosition {
            epoch: span.epoch,
            file: self.file,
            offset: self.offset,
        };
        let end = self.end();
        self.load(&span).await;
        self.copies
            .as_mut()?
            .evidence(place, span.number, end)
            .await
    }

    /// The same chain, whatever its source is.
    pub(crate) fn erased(self) -> LogReader<std::sync::Arc<dyn CopySource>>
    where
        S: 'static,
    {
        LogReader {
            source: std::sync::Arc::new(self.source),
            file_bytes: self.file_bytes,
            spans: self.spans,
            file: self.file,
            offset: self.offset,
            next: self.next,
            prev: self.prev,
            copies: self.copies,
            stumbled: self.stumbled,
            torn: self.torn,
            mended: self.mended,
        }
    }

    /// Looks for the next record in all its places and, since a read may go wrong once, in all of
    /// them again with fresh bytes. Not before: at every group's end the record is not in the first
    /// place, and is not to be read for twice.
    async fn find(&mut self, span: &Span) -> Option<LogRecord> {
        self.stumbled.clear();
        self.torn = false;
        let (file, offset) = (self.file, self.offset);
        for again in [false, true] {
            if let Some(link) = self.at(span, again).await {
                return Some(link);
            }
            if offset > BLOCK_BYTES {
                self.enter(file + 1);
                if let Some(link) = self.at(span, again).await {
                    return Some(link);
                }
                self.enter(file);
                self.offset = offset;
            }
        }
        self.load(span).await;
        if self.torn {
            dewar_env::coverage_mark("the log ended with a torn record");
        }
        None
    }

    fn enter(&mut self, file: u64) {
        self.mended = self.mended();
        self.copies = None;
        self.file = file;
        self.offset = BLOCK_BYTES;
    }

    async fn load(&mut self, span: &Span) {
        if self.copies.is_none() {
            let copies = self.source.copies(span.epoch, self.file).await;
            self.copies = Some(FileCopies::new(copies, self.file_bytes));
        }
    }

    /// The next record if it is in this file: here or at the next boundary.
    async fn at(&mut self, span: &Span, again: bool) -> Option<LogRecord> {
        self.load(span).await;
        let here = RecordPosition {
            epoch: span.epoch,
            file: self.file,
            offset: self.offset,
        };
        let boundary = RecordPosition {
            offset: self.offset.next_multiple_of(BLOCK_BYTES),
            ..here
        };
        let mut places = vec![here, boundary];
        places.dedup();
        places.retain(|place| place.offset < self.file_bytes);
        let (next, prev, number) = (self.next, self.prev, span.number);
        let copies = self.copies.as_mut()?;
        let record = copies
            .record(&places, again, |header| {
                let follows = header.seq == next || (header.jump && header.seq > next);
                let follows = follows && header.prev == prev;
                (follows || !dewar_env::safeguard("records follow one another"))
                    && header.epoch == number
            })
            .await;
        self.stumbled.extend(copies.stumbled());
        self.torn |= copies.torn();
        let (place, record) = record?;
        Some(LogRecord { place, record })
    }
}
