//! Cloning ranges of open files into another open file, without transfer through the client.

use std::sync::Arc;

use bytes::Bytes;
use dewar_types::ByteRange;
use dewar_xrootd_proto::{ErrorCode, FileHandle, request::CloneItem};

use super::QueuedChange;
use crate::error::{ErrorReply, VerbResult};
use crate::limits::PIECE_BYTES;
use crate::session::{Handle, Session, Writer};

/// Takes the place of a `clone` among the changes of its target.
pub(super) fn enqueue_change(
    session: &Arc<Session>,
    target: FileHandle,
    items: &[CloneItem],
) -> QueuedChange {
    let (session, items) = (Arc::clone(session), items.to_vec());
    // A close that comes next waits for it.
    let change = session.begin(target, "clone");
    Box::pin(async move {
        let change = change?;
        let sources = items
            .iter()
            .map(|item| session.handle(item.source, "clone"));
        let sources = sources.collect::<VerbResult<Vec<Handle>>>()?;
        for (item, source) in items.iter().zip(&sources) {
            let from = range(source, item)?;
            copy(&session, source, from, &change.writer, item.offset).await?;
        }
        change.came();
        Ok(Bytes::new())
    })
}

/// Gives a file that was just opened the content of an open one.
pub(super) async fn whole(
    session: &Session,
    template: FileHandle,
    target: &Arc<Writer>,
) -> VerbResult<()> {
    let source = session.handle(template, "clone")?;
    let from = ByteRange::whole(size(&source)?);
    copy(session, &source, from, target, 0).await
}

fn size(source: &Handle) -> VerbResult<u64> {
    match source {
        Handle::Reader(reader) => Ok(reader.file.info.size),
        Handle::Writer(writer) => Ok(writer.size()),
        Handle::Copy(copy) => Err(crate::session::copied("clone", copy)),
    }
}

/// The bytes of an element; without a length, all to the end.
fn range(source: &Handle, item: &CloneItem) -> VerbResult<ByteRange> {
    let size = size(source)?;
    let start = item.source_offset;
    let end = match item.len {
        0 => Some(size),
        len => start.checked_add(len),
    };
    match end {
        Some(end) if start <= end && end <= size => Ok(ByteRange { start, end }),
        _ => {
            let message = "clone refers to bytes behind the end of the source";
            Err(ErrorReply::new(ErrorCode::ArgInvalid, message))
        }
    }
}

/// One at a time for each session, so that it takes no more than a client that sends the bytes.
async fn copy(
    session: &Session,
    source: &Handle,
    from: ByteRange,
    target: &Arc<Writer>,
    to: u64,
) -> VerbResult<()> {
    let _alone = session.clones.lock().await;
    let mut at = from.start;
    while at < from.end {
        let end = from.end.min(at + PIECE_BYTES as u64);
        let mut next = at;
        for bytes in read(source, ByteRange { start: at, end }).await? {
            let len = bytes.len() as u64;
            target.put(to + (next - from.start), bytes.into()).await?;
            next += len;
        }
        if next != end {
            let message = format!(
                "Unable to clone; the source of {} became shorter",
                target.path
            );
            return Err(ErrorReply::new(ErrorCode::IoError, message));
        }
        at = end;
    }
    Ok(())
}

async fn read(source: &Handle, range: ByteRange) -> VerbResult<Vec<Bytes>> {
    match source {
        Handle::Reader(reader) => {
            let mut bytes = reader.file.read(range);
            let mut pieces = Vec::new();
            while let Some(piece) = bytes.next().await {
                pieces.push(piece.map_err(|error| ErrorReply::of(&error, "clone", &reader.path))?);
            }
            Ok(pieces)
        }
        Handle::Writer(writer) => Ok(vec![writer.read(range).await?]),
        Handle::Copy(copy) => Err(crate::session::copied("clone", copy)),
    }
}
