//! Appending: a record gets a sequence number, a place, and its bytes go into a group.

use std::sync::Arc;

use bytes::Bytes;
use dewar_types::{Error, ErrorKind};

use super::group::Group;
use super::{FileInfo, GROUP_BYTES, LogPhase, LogState, Permit, SharedLog};
use crate::Seq;
use crate::format::{BLOCK_BYTES, FileHeader, RecordHeader, framed_bytes};

impl SharedLog {
    /// Puts a record at the end of the log. The order of calls is the order of the log.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if it is longer than its permit,
    /// [`ErrorKind::Unavailable`] if the journal is closed; nothing was appended.
    pub(crate) fn append(self: &Arc<Self>, permit: Permit, body: &[Bytes]) -> Result<Seq, Error> {
        let len: usize = body.iter().map(Bytes::len).sum();
        if framed_bytes(len) > permit.bytes() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("a journal record of {len} bytes is longer than was admitted"),
            ));
        }
        let mut state = self.state.lock();
        if let LogPhase::Closed | LogPhase::ReadOnly = state.phase {
            let refusal = state.refusal();
            drop(state);
            return Err(refusal);
        }
        state.reserved -= permit.spend();
        state.unacked += framed_bytes(len);
        state.counters.records += 1;
        state.counters.bytes += len as u64;
        let seq = self.encode(&mut state, len, body);
        self.start_soon(&mut state);
        Ok(seq)
    }

    /// Leaves out the sequences up to `seq`.
    pub(crate) fn skip_to(&self, seq: Seq) {
        let mut state = self.state.lock();
        state.next = state.next.max(seq);
    }

    /// Encodes a record with the next sequence behind the last one.
    pub(super) fn encode(&self, state: &mut LogState, len: usize, body: &[Bytes]) -> Seq {
        let seq = state.next;
        let mut group = self.group_for(state, len);
        let header = RecordHeader {
            crc: 0,
            // `admit` allows no more than a file holds, which is below 4 GiB.
            len: len as u32,
            seq,
            epoch: state.epoch.number,
            acked: self.acked(),
            prev: state.prev,
            jump: seq != state.last + 1,
        };
        state.prev = group.push(&header, body);
        state.last = seq;
        state.next = seq + 1;
        if let Some(file) = state.files.back_mut() {
            file.last = seq;
        }
        state.open = Some(group);
        seq
    }

    /// The open group if the record fits it, or else a new one.
    fn group_for(&self, state: &mut LogState, len: usize) -> Group {
        if let Some(group) = state.open.take() {
            if group.fits(len) && self.fits_file(group.end(), len) {
                return group;
            }
            self.seal(state, group);
        }
        let framed = framed_bytes(len).next_multiple_of(BLOCK_BYTES as usize);
        if state.offset > 0 && !self.fits_file(state.offset, len) {
            state.file += 1;
            state.offset = 0;
        }
        if state.offset > 0 {
            let buffer = self.buffers.take(framed.max(GROUP_BYTES));
            return Group::new(state.epoch.id, state.file, state.offset, buffer, None);
        }
        let header = FileHeader {
            lineage: state.epoch.lineage.0,
            epoch: state.epoch.id,
            epoch_number: state.epoch.number,
            file: state.file,
            first: state.next,
            floor: state.floor,
            acked: self.acked(),
            prev: state.prev,
        };
        let last = state.next - 1;
        state.files.push_back(FileInfo { header, last });
        let room = framed + BLOCK_BYTES as usize;
        let buffer = self.buffers.take(room.max(GROUP_BYTES));
        Group::new(state.epoch.id, state.file, 0, buffer, Some(header))
    }

    fn fits_file(&self, offset: u64, len: usize) -> bool {
        offset + framed_bytes(len) as u64 <= self.config.file_bytes
    }

    /// Ends a group; the next one begins behind it.
    pub(super) fn seal(&self, state: &mut LogState, group: Group) {
        state.offset = group.end().next_multiple_of(BLOCK_BYTES);
        state.sealed.push_back(group);
    }
}
