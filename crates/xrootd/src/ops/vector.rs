//! `readv`: many small reads in one request.
//!
//! Elements are answered in their order, as many per frame as fit. Elements that are adjacent in
//! the file, or less than a page apart, are read as one. Elements in memory are served from there
//! at once. The other elements of a frame are read at the same time.

use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use dewar_types::{ByteRange, PAGE_BYTES};
use dewar_xrootd_proto::limits::{READV_ITEM_BYTES_MAX, VECTOR_ITEM_BYTES};
use dewar_xrootd_proto::request::ReadItem;
use dewar_xrootd_proto::{ErrorCode, ResponseHeader, Status};
use futures_util::StreamExt as _;

use super::Context;
use crate::connection::ReplyWriter;
use crate::error::{ErrorReply, VerbResult};
use crate::limits::{FRAME_BYTES, VECTOR_READS};
use crate::session::{BufferReservation, Handle, Reader, Writer, copied};

/// Most bytes that one request may ask for.
const TOTAL_MAX: u64 = i32::MAX as u64;

/// An element whose file was found.
#[derive(Clone)]
struct ResolvedItem {
    item: ReadItem,
    file: File,
}

#[derive(Clone)]
enum File {
    Reader(Arc<Reader>),
    Writer(Arc<Writer>),
}

/// Most bytes between two elements that are read as one: those of a page are read with what stands beside
/// them anyway, since pages are verified whole.
const GAP_MAX: u64 = PAGE_BYTES as u64;

/// Elements that lie one behind the other in a file, or nearly so.
struct CoalescedRead<'w> {
    file: &'w File,
    range: ByteRange,
    items: &'w [ResolvedItem],
}

impl CoalescedRead<'_> {
    /// Its bytes, if they can be had without waiting.
    fn now(&self) -> Option<Bytes> {
        match self.file {
            File::Reader(reader) => reader.file.read_now(self.range),
            File::Writer(_) => None,
        }
    }
}

pub(super) async fn read(context: &Context, path_id: u8, items: Vec<ReadItem>) -> VerbResult<()> {
    let outlet = context.outlet(path_id)?;
    let wanted = resolve_items(context, items)?;
    let mut rest = &wanted[..];
    while !rest.is_empty() {
        let most = &rest[..frame_of(rest, FRAME_BYTES)];
        let mut share = outlet.room(wire_len(most)).await;
        let (now, later) = rest.split_at(frame_of(rest, share.bytes()));
        let len = wire_len(now);
        if len > share.bytes() {
            // An element goes out whole.
            drop(share);
            share = outlet.room_for_whole(len).await;
        }
        share.shrink(len);
        send(context, &outlet, share, now, later.is_empty()).await?;
        rest = later;
    }
    Ok(())
}

/// Finds the files, and refuses what cannot be.
fn resolve_items(context: &Context, items: Vec<ReadItem>) -> VerbResult<Vec<ResolvedItem>> {
    let refuse = |code, message: &str| Err(ErrorReply::new(code, message));
    if items.is_empty() {
        return refuse(ErrorCode::ArgMissing, "Read vector is empty");
    }
    let total: u64 = items.iter().map(|item| u64::from(item.len)).sum();
    if total > TOTAL_MAX {
        return refuse(ErrorCode::NoMemory, "Total readv transfer is too large");
    }
    let mut wanted: Vec<ResolvedItem> = Vec::with_capacity(items.len());
    for item in items {
        if item.len > READV_ITEM_BYTES_MAX {
            return refuse(ErrorCode::NoMemory, "Single readv transfer is too large");
        }
        let file = match wanted.last() {
            Some(before) if before.item.handle == item.handle => before.file.clone(),
            _ => match context.session.handle(item.handle, "readv")? {
                Handle::Reader(reader) => File::Reader(reader),
                Handle::Writer(writer) => File::Writer(writer),
                Handle::Copy(copy) => return Err(copied("read", &copy)),
            },
        };
        let (size, path) = match &file {
            File::Reader(reader) => (reader.file.info.size, &reader.path),
            File::Writer(writer) => (writer.size(), &writer.path),
        };
        let start = u64::try_from(item.offset).ok();
        let end = start.and_then(|start| start.checked_add(u64::from(item.len)));
        if end.is_none_or(|end| end > size) {
            let message = format!("Unable to readv {path}; illegal seek");
            return refuse(ErrorCode::FsError, &message);
        }
        wanted.push(ResolvedItem { item, file });
    }
    Ok(wanted)
}

/// Bytes of elements on the wire.
fn wire_len(wanted: &[ResolvedItem]) -> usize {
    let lens = wanted.iter().map(|wanted| wanted.item.len as usize);
    lens.sum::<usize>() + wanted.len() * VECTOR_ITEM_BYTES
}

/// How many elements go into a frame of `max` bytes; at least one.
fn frame_of(wanted: &[ResolvedItem], max: usize) -> usize {
    let mut bytes = 0;
    let fits = |wanted: &&ResolvedItem| {
        bytes += wanted.item.len as usize + VECTOR_ITEM_BYTES;
        bytes <= max
    };
    wanted.iter().take_while(fits).count().max(1)
}

async fn send(
    context: &Context,
    outlet: &ReplyWriter,
    share: BufferReservation,
    now: &[ResolvedItem],
    last: bool,
) -> VerbResult<()> {
    let data: usize = now.iter().map(|wanted| wanted.item.len as usize).sum();
    let len = wire_len(now);
    let runs = runs(now);
    let at_hand: Vec<Option<Bytes>> = runs.iter().map(CoalescedRead::now).collect();
    let mut reads = Vec::new();
    for (run, bytes) in runs.iter().zip(&at_hand) {
        if bytes.is_none() {
            reads.push(read_run(run));
        }
    }
    let mut read = futures_util::stream::iter(reads).buffered(VECTOR_READS);
    let header = ResponseHeader {
        stream: context.stream,
        status: match last {
            true => Status::Ok,
            false => Status::OkSoFar,
        },
        len: len as u32,
    };
    let mut pieces = Vec::with_capacity(1 + 2 * now.len());
    pieces.push(Bytes::copy_from_slice(&header.encode()));
    let mut heads = BytesMut::with_capacity(now.len() * VECTOR_ITEM_BYTES);
    for (run, bytes) in runs.iter().zip(&at_hand) {
        let mut bytes = match bytes {
            Some(bytes) => bytes.clone(),
            None => read.next().await.unwrap_or_else(|| Ok(Bytes::new()))?,
        };
        if bytes.len() as u64 != run.range.len() {
            return Err(short(run.file));
        }
        let mut at = run.range.start;
        for ResolvedItem { item, .. } in run.items {
            let start = item.offset.unsigned_abs();
            bytes.advance((start - at) as usize);
            at = start + u64::from(item.len);
            heads.extend_from_slice(&item.encode());
            pieces.push(heads.split().freeze());
            pieces.push(bytes.split_to(item.len as usize));
        }
    }
    context.door.sent(data);
    outlet.send(pieces, Some(share)).await;
    Ok(())
}

fn runs(wanted: &[ResolvedItem]) -> Vec<CoalescedRead<'_>> {
    let mut runs: Vec<CoalescedRead<'_>> = Vec::with_capacity(wanted.len());
    let mut first = 0;
    for (place, ResolvedItem { item, file }) in wanted.iter().enumerate() {
        let start = item.offset.unsigned_abs();
        let end = start + u64::from(item.len);
        if let Some(run) = runs.last_mut()
            && goes_on(run.range.end, start)
            && wanted[first].item.handle == item.handle
        {
            run.range.end = end;
            run.items = &wanted[first..=place];
            continue;
        }
        first = place;
        runs.push(CoalescedRead {
            file,
            range: ByteRange { start, end },
            items: &wanted[place..=place],
        });
    }
    runs
}

/// Whether what begins at `start` is read together with what ends at `end`.
fn goes_on(end: u64, start: u64) -> bool {
    start.checked_sub(end).is_some_and(|gap| gap < GAP_MAX)
}

async fn read_run(run: &CoalescedRead<'_>) -> VerbResult<Bytes> {
    match run.file {
        File::Writer(writer) => writer.read(run.range).await,
        File::Reader(reader) => {
            let len = run.range.len() as usize;
            let failed = |error| ErrorReply::of(&error, "readv", &reader.path);
            let mut stream = reader.file.read(run.range);
            let first = stream.next().await.transpose().map_err(failed)?;
            let first = first.unwrap_or_default();
            if first.len() == len {
                return Ok(first);
            }
            let mut joined = BytesMut::with_capacity(len);
            joined.extend_from_slice(&first);
            while let Some(bytes) = stream.next().await {
                joined.extend_from_slice(&bytes.map_err(failed)?);
            }
            Ok(joined.freeze())
        }
    }
}

fn short(file: &File) -> ErrorReply {
    let path = match file {
        File::Reader(reader) => &reader.path,
        File::Writer(writer) => &writer.path,
    };
    let message = format!("Unable to readv {path}; it became shorter");
    ErrorReply {
        ours: true,
        ..ErrorReply::new(ErrorCode::IoError, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_a_page_between_two_is_read_too() {
        assert!(goes_on(100, 100) && goes_on(100, 4195));
        assert!(!goes_on(100, 4196) && !goes_on(100, 99));
    }
}
