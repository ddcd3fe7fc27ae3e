//! Reading the bytes of writes from the socket.
//!
//! Even if a write is refused, its bytes are on the wire and must be read before the next request.
//! They are then discarded, and the answer names the error.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use dewar_store::file::ChecksummedBytes;
use dewar_xrootd_proto::limits::BAD_PAGES_PER_REQUEST_MAX;
use dewar_xrootd_proto::page::{self, CRC_BYTES, PAGE_BYTES, crc32c, page_len};
use dewar_xrootd_proto::reply::{BadPages, ResponseType};
use dewar_xrootd_proto::request::{Write, WriteItem};
use dewar_xrootd_proto::{ErrorCode, PageStatus, Reply, RequestCode, StreamId};
use tokio::io::AsyncRead;

use super::{Connection, ConnectionEnd, PendingRequest, small};
use crate::error::{ErrorReply, VerbResult};
use crate::limits::PIECE_BYTES;
use crate::measure::RequestOutcome;
use crate::session::writer::{self, WriteCompletion};
use crate::session::{Session, Writer};

/// Bytes on the wire of the pages in one piece.
const PAGES_PER_PIECE: usize = PIECE_BYTES / (PAGE_BYTES + CRC_BYTES);

impl<R: AsyncRead + Send + Unpin> Connection<R> {
    pub(super) async fn take_write(
        &mut self,
        session: &Arc<Session>,
        asked: PendingRequest,
        write: Write,
    ) -> Result<(), ConnectionEnd> {
        self.refuse_paths(write)?;
        let stream = asked.stream;
        let ending = WriteCompletion::new(self.outlet.clone(), asked, 1);
        ending.on_success(vec![small(&Reply::Ok(Bytes::new()), stream)]);
        let begun = writable(session, write.handle, write.offset);
        self.take_bytes(session, begun, write.offset, write.len as usize, ending)
            .await
    }

    /// Data of a write may come on another connection; no client does that.
    fn refuse_paths(&self, write: Write) -> Result<(), ConnectionEnd> {
        match write.path_id {
            0 => Ok(()),
            _ => Err(ConnectionEnd::Protocol(
                "data of a write elsewhere".to_owned(),
            )),
        }
    }

    /// Takes `len` bytes and has them written.
    async fn take_bytes(
        &mut self,
        session: &Arc<Session>,
        write: VerbResult<writer::PendingWrite>,
        offset: i64,
        len: usize,
        ending: Arc<WriteCompletion>,
    ) -> Result<(), ConnectionEnd> {
        let write = match write {
            Ok(write) => write,
            Err(refusal) => {
                self.inlet.skip(len).await?;
                ending.fail(refusal);
                ending.part_done().await;
                return Ok(());
            }
        };
        let mut at = offset.unsigned_abs();
        let mut left = len;
        while left > 0 {
            let share = session.room.take(left.min(PIECE_BYTES)).await;
            let bytes = self.inlet.data(share.bytes()).await?;
            let len = bytes.len();
            self.door.received(len);
            let (writer, bytes) = (&write.writer, bytes.freeze().into());
            writer.write(at, bytes, share, &ending).await;
            at += len as u64;
            left -= len;
        }
        write.writer.part_done(ending).await;
        write.came();
        Ok(())
    }

    pub(super) async fn take_vector(
        &mut self,
        session: &Arc<Session>,
        asked: PendingRequest,
        items: Vec<WriteItem>,
    ) -> Result<(), ConnectionEnd> {
        let stream = asked.stream;
        if items.is_empty() {
            let reply = Reply::error(ErrorCode::ArgMissing, "Write vector is empty");
            self.outlet.reply(stream, &reply).await;
            asked.measure.end(RequestOutcome::Refused);
            return Ok(());
        }
        let ending = WriteCompletion::new(self.outlet.clone(), asked, items.len());
        ending.on_success(vec![small(&Reply::Ok(Bytes::new()), stream)]);
        // All of them begin now: a close waits for the whole request, or refuses the whole.
        let writable = |item: &WriteItem| writable(session, item.handle, item.offset);
        let writes: Vec<_> = items.iter().map(writable).collect();
        for (item, write) in items.into_iter().zip(writes) {
            let ending = Arc::clone(&ending);
            self.take_bytes(session, write, item.offset, item.len as usize, ending)
                .await?;
        }
        Ok(())
    }

    pub(super) async fn take_pages(
        &mut self,
        session: &Arc<Session>,
        asked: PendingRequest,
        write: Write,
    ) -> Result<(), ConnectionEnd> {
        self.refuse_paths(write)?;
        let stream = asked.stream;
        let offset = write.offset.unsigned_abs();
        let wire = write.len as usize;
        let sound = page::data_len(offset, wire).map_err(ErrorReply::from);
        let begun = writable(session, write.handle, write.offset);
        let begun = match sound.and(begun) {
            Ok(begun) => begun,
            Err(refusal) => {
                self.inlet.skip(wire).await?;
                self.outlet.refuse(stream, &refusal).await;
                asked.measure.answered(Some(&refusal));
                return Ok(());
            }
        };
        let writer = &begun.writer;
        let ending = WriteCompletion::new(self.outlet.clone(), asked, 1);
        let mut bad = BadPages::default();
        let (mut at, mut left) = (offset, wire);
        while left > 0 {
            // A piece ends with a page.
            let wanted = PAGES_PER_PIECE * (PAGE_BYTES + CRC_BYTES);
            let share = session.room.take(left.min(wanted)).await;
            let take = whole_pages(at, left, share.bytes());
            let mut bytes = self.inlet.data(take).await?;
            left -= take;
            self.door.received(take);
            let (runs, len) = sort_out(&mut bytes, at, writer, &mut bad, &ending);
            // What is left of a damaged piece does not keep all of it in memory.
            let bytes = match bytes.len() * 2 < take {
                true => Bytes::copy_from_slice(&bytes),
                false => bytes.freeze(),
            };
            let mut share = Some(share);
            for run in runs {
                // The room is held by the first run of a piece; others come of damage only.
                let held = match share.take() {
                    Some(share) => share,
                    None => session.room.take(1).await,
                };
                let paged =
                    ChecksummedBytes::new(run.offset, bytes.slice(run.from..run.to), run.crcs);
                writer.write(run.offset, paged, held, &ending).await;
            }
            at += len;
        }
        ending.on_success(outcome(stream, offset, &bad));
        writer.part_done(ending).await;
        begun.came();
        Ok(())
    }
}

/// The answer to a page write whose pages came, but for `bad` ones.
fn outcome(stream: StreamId, offset: u64, bad: &BadPages) -> Vec<Bytes> {
    let list = if bad.pages.is_empty() {
        Bytes::new()
    } else {
        bad.encode()
    };
    let status = PageStatus {
        request: RequestCode::Pgwrite,
        progress: ResponseType::Final,
        offset,
        data_len: list.len() as u32,
    };
    let mut head = BytesMut::new();
    status.encode(stream, &mut head);
    vec![head.freeze(), list]
}

fn writable(
    session: &Session,
    handle: dewar_xrootd_proto::FileHandle,
    offset: i64,
) -> VerbResult<writer::PendingWrite> {
    if offset < 0 {
        return Err(ErrorReply::new(
            ErrorCode::ArgInvalid,
            "Write offset is negative",
        ));
    }
    session.begin(handle, "write")
}

/// Bytes on the wire of as many whole pages as go into `room`, at least one.
fn whole_pages(at: u64, left: usize, room: usize) -> usize {
    if left <= room {
        return left;
    }
    let first = (page_len(at, usize::MAX) + CRC_BYTES).min(left);
    let unit = PAGE_BYTES + CRC_BYTES;
    let more = room.saturating_sub(first) / unit * unit;
    (first + more).min(left)
}

/// Good data of pages that follow each other.
struct PageRun {
    /// Start in the file.
    offset: u64,
    /// Start in the received bytes.
    from: usize,
    to: usize,
    /// Checksums that the client sent with its pages.
    crcs: Vec<u32>,
}

/// Checks the pages in `bytes` and moves their data together, in place: runs of good data, and how many
/// bytes of the file this was.
fn sort_out(
    bytes: &mut BytesMut,
    offset: u64,
    writer: &Writer,
    bad: &mut BadPages,
    ending: &WriteCompletion,
) -> (Vec<PageRun>, u64) {
    let mut runs: Vec<PageRun> = Vec::with_capacity(1);
    let (mut from, mut to, mut at) = (0, 0, offset);
    while from + CRC_BYTES < bytes.len() {
        let mut expected = [0; CRC_BYTES];
        expected.copy_from_slice(&bytes[from..from + CRC_BYTES]);
        from += CRC_BYTES;
        let len = page_len(at, bytes.len() - from);
        let page = &bytes[from..from + len];
        let expected = u32::from_be_bytes(expected);
        if crc32c(page) == expected {
            writer.page_is_good(at, len);
            bytes.copy_within(from..from + len, to);
            match runs.last_mut() {
                Some(run) if run.offset + (run.to - run.from) as u64 == at => {
                    run.to += len;
                    run.crcs.push(expected);
                }
                _ => {
                    let left = (bytes.len() - from) / PAGE_BYTES;
                    let mut crcs = Vec::with_capacity(left + 1);
                    crcs.push(expected);
                    let (offset, from, to) = (at, to, to + len);
                    runs.push(PageRun {
                        offset,
                        from,
                        to,
                        crcs,
                    });
                }
            }
            to += len;
        } else {
            if bad.pages.len() >= BAD_PAGES_PER_REQUEST_MAX {
                let message = format!("Unable to write {}; too many checksum errors", writer.path);
                ending.fail(ErrorReply::new(ErrorCode::TooManyErrs, message));
            } else {
                bad.pages.push((at, len));
            }
            if let Err(refusal) = writer.page_is_bad(at, len) {
                ending.fail(refusal);
            }
        }
        from += len;
        at += len as u64;
    }
    bytes.truncate(to);
    (runs, at - offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_with_pages() {
        let unit = PAGE_BYTES + CRC_BYTES;
        for (at, data) in [
            (0u64, 8usize << 20),
            (100, 5000),
            (4095, 1),
            (4096, 4096),
            (1, 12_287),
        ] {
            for room in [1, 5000, 65_536, 1 << 20] {
                let (mut offset, mut left) = (at, page::wire_len(at, data));
                while left > 0 {
                    let take = whole_pages(offset, left, room);
                    assert!(take > CRC_BYTES && take <= left);
                    assert!(take <= room.max(unit), "{take} for {room}");
                    let len = page::data_len(offset, take).expect("whole pages") as u64;
                    offset += len;
                    left -= take;
                    assert!(left == 0 || offset.is_multiple_of(PAGE_BYTES as u64));
                }
                assert_eq!(offset, at + data as u64);
            }
        }
    }
}
