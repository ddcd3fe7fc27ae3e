//! `read` and `pgread`.
//!
//! A read is sent in frames of at most [`FRAME_BYTES`], each when its bytes are available. Only the
//! memory of one frame is held at a time, so a client that reads nothing from its socket holds
//! little.

use bytes::{Buf as _, Bytes, BytesMut};
use dewar_store::RangeReader;
use dewar_store::file::VerifiedBytes;
use dewar_types::ByteRange;
use dewar_xrootd_proto::page::{PAGE_BYTES, crc32c, wire_len, wrap_pages};
use dewar_xrootd_proto::reply::ResponseType;
use dewar_xrootd_proto::request::{PageRead, Read};
use dewar_xrootd_proto::{
    ErrorCode, FileHandle, PageStatus, Reply, RequestCode, ResponseHeader, Status,
};

use super::Context;
use crate::connection::ReplyWriter;
use crate::error::{ErrorReply, VerbResult};
use crate::limits::FRAME_BYTES;
use crate::session::{BufferReservation, Handle, Reader, Writer, copied};

/// A file that can be read, for as long as a request takes.
enum ReadSource {
    Reader(std::sync::Arc<Reader>),
    Writer(std::sync::Arc<Writer>),
}

impl ReadSource {
    fn size(&self) -> u64 {
        match self {
            Self::Reader(reader) => reader.file.info.size,
            Self::Writer(writer) => writer.size(),
        }
    }
}

fn source(context: &Context, handle: FileHandle) -> VerbResult<ReadSource> {
    Ok(match context.session.handle(handle, "read")? {
        Handle::Reader(reader) => ReadSource::Reader(reader),
        Handle::Writer(writer) => ReadSource::Writer(writer),
        Handle::Copy(copy) => return Err(copied("read", &copy)),
    })
}

/// What of a range there is.
fn within(offset: i64, len: u32, size: u64) -> VerbResult<ByteRange> {
    let start = u64::try_from(offset)
        .map_err(|_| ErrorReply::new(ErrorCode::ArgInvalid, "Read offset is negative"))?;
    let end = start.saturating_add(u64::from(len)).min(size);
    Ok(ByteRange {
        start: start.min(end),
        end,
    })
}

pub(super) async fn read(context: &Context, read: Read) -> VerbResult<()> {
    let outlet = context.outlet(read.path_id)?;
    let source = source(context, read.handle)?;
    let range = within(read.offset, read.len, source.size())?;
    if range.is_empty() {
        outlet.reply(context.stream, &Reply::Ok(Bytes::new())).await;
        return Ok(());
    }
    let mut frames = Frames::new(&source, range);
    while let Some(frame) = frames.next(&outlet, FRAME_BYTES, false).await? {
        let header = ResponseHeader {
            stream: context.stream,
            status: match frame.last {
                true => Status::Ok,
                false => Status::OkSoFar,
            },
            len: frame.len as u32,
        };
        let mut pieces = Vec::with_capacity(frame.pieces.len() + 1);
        pieces.push(Bytes::copy_from_slice(&header.encode()));
        pieces.extend(frame.pieces.into_iter().map(VerifiedBytes::into_bytes));
        context.door.sent(frame.len);
        outlet.send(pieces, Some(frame.share)).await;
    }
    Ok(())
}

pub(super) async fn pages(context: &Context, read: PageRead) -> VerbResult<()> {
    let outlet = context.outlet(read.path_id)?;
    let source = source(context, read.handle)?;
    let range = within(read.offset, read.len, source.size())?;
    let head = |offset, data_len, last| {
        let status = PageStatus {
            request: RequestCode::Pgread,
            progress: match last {
                true => ResponseType::Final,
                false => ResponseType::Partial,
            },
            offset,
            data_len,
        };
        let mut head = BytesMut::new();
        status.encode(context.stream, &mut head);
        head.freeze()
    };
    if range.is_empty() {
        let offset = read.offset.unsigned_abs();
        outlet.send(vec![head(offset, 0, true)], None).await;
        return Ok(());
    }
    let mut frames = Frames::new(&source, range);
    while let Some(frame) = frames.next(&outlet, FRAME_BYTES, true).await? {
        let len = wire_len(frame.offset, frame.len);
        let mut pieces = vec![head(frame.offset, len as u32, frame.last)];
        let mut stored = StoredSums::new(&frame);
        let bytes: Vec<Bytes> = frame.pieces.iter().map(|p| p.bytes().clone()).collect();
        pieces.extend(wrap_pages(frame.offset, &bytes, |at, page| {
            stored.of(at, page.len()).unwrap_or_else(|| crc32c(page))
        }));
        context.door.sent(frame.len);
        outlet.send(pieces, Some(frame.share)).await;
    }
    Ok(())
}

/// Bytes that go out together.
struct Frame {
    offset: u64,
    len: usize,
    pieces: Vec<VerifiedBytes>,
    share: BufferReservation,
    last: bool,
}

/// The checksums that a frame's pages are stored with, to be asked for from front to back.
struct StoredSums<'f> {
    pieces: std::slice::Iter<'f, VerifiedBytes>,
    piece: Option<&'f VerifiedBytes>,
    begin: u64,
}

impl<'f> StoredSums<'f> {
    fn new(frame: &'f Frame) -> Self {
        let mut pieces = frame.pieces.iter();
        Self {
            piece: pieces.next(),
            pieces,
            begin: frame.offset,
        }
    }

    /// That of `len` bytes at `at` of the file, if they are a stored page.
    fn of(&mut self, at: u64, len: usize) -> Option<u32> {
        while let Some(piece) = self.piece {
            let end = self.begin + piece.bytes().len() as u64;
            if at < end {
                let inside = at.checked_sub(self.begin)?;
                return piece.page_crc(usize::try_from(inside).ok()?, len);
            }
            self.begin = end;
            self.piece = self.pieces.next();
        }
        None
    }
}

/// A range cut into frames.
struct Frames<'s> {
    source: &'s ReadSource,
    /// For a reader: its bytes in order, from its position on.
    bytes: Option<RangeReader<'s>>,
    /// Read and not sent.
    rest: VerifiedBytes,
    at: u64,
    end: u64,
}

impl<'s> Frames<'s> {
    fn new(source: &'s ReadSource, range: ByteRange) -> Self {
        Self {
            source,
            bytes: None,
            rest: VerifiedBytes::default(),
            at: range.start,
            end: range.end,
        }
    }

    /// The next frame, of at most `max` bytes; with `paged` all but the last end with a page.
    async fn next(
        &mut self,
        outlet: &ReplyWriter,
        max: usize,
        paged: bool,
    ) -> VerbResult<Option<Frame>> {
        let left = self.end - self.at;
        if left == 0 {
            return Ok(None);
        }
        let wanted = max.min(left as usize);
        let share = match outlet.room_now(wanted) {
            Some(share) => share,
            None => {
                // What was read beyond the last frame waits with this only where there is room for
                // it too. It is what a stripe has behind the frame, and what is read ahead.
                let kept = outlet.room_to_keep(FRAME_BYTES);
                if kept.is_none() {
                    self.forget();
                }
                outlet.room(wanted).await
            }
        };
        let scarce = share.bytes() < wanted;
        let mut len = (share.bytes() as u64).min(left);
        if paged && len < left {
            let end = self.at + len;
            let cut = end - end % PAGE_BYTES as u64;
            if cut > self.at {
                len = cut - self.at;
            }
        }
        let offset = self.at;
        if scarce {
            self.forget();
        }
        if self.bytes.is_none()
            && let ReadSource::Reader(reader) = self.source
        {
            let (start, end) = match scarce {
                true => (offset, offset + len),
                false => (offset, self.end),
            };
            self.bytes = Some(reader.file.read(ByteRange { start, end }));
        }
        let pieces = self.take(len as usize).await?;
        self.at += len;
        if scarce {
            self.forget();
        }
        Ok(Some(Frame {
            offset,
            len: len as usize,
            pieces,
            share,
            last: self.at == self.end,
        }))
    }

    /// Begins anew where it is.
    fn forget(&mut self) {
        self.bytes = None;
        self.rest = VerifiedBytes::default();
    }

    async fn take(&mut self, len: usize) -> VerbResult<Vec<VerifiedBytes>> {
        let mut pieces = Vec::new();
        let mut missing = len;
        match (&mut self.bytes, self.source) {
            (Some(bytes), ReadSource::Reader(reader)) => {
                while missing > 0 {
                    if self.rest.bytes().is_empty() {
                        self.rest = match bytes.next_verified().await {
                            Some(Ok(bytes)) => bytes,
                            Some(Err(error)) => {
                                return Err(ErrorReply::of(&error, "read", &reader.path));
                            }
                            None => return Err(short(&reader.path)),
                        };
                        continue;
                    }
                    let take = missing.min(self.rest.bytes().len());
                    pieces.push(self.rest.split_to(take));
                    missing -= take;
                }
            }
            (_, ReadSource::Writer(writer)) => {
                let range = ByteRange {
                    start: self.at,
                    end: self.at + len as u64,
                };
                let bytes = writer.read(range).await?;
                if bytes.remaining() != len {
                    return Err(short(&writer.path));
                }
                pieces.push(bytes.into());
            }
            (None, ReadSource::Reader(reader)) => return Err(short(&reader.path)),
        }
        Ok(pieces)
    }
}

/// Fewer bytes than there should be: what was begun cannot be ended as announced.
fn short(path: &str) -> ErrorReply {
    let message = format!("Unable to read {path}; it became shorter");
    ErrorReply {
        ours: true,
        ..ErrorReply::new(ErrorCode::IoError, message)
    }
}
