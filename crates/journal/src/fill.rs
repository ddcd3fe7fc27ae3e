//! Copying the log's older files to a new holder.
//!
//! Each record comes from whichever copy verifies and goes to the same place. The copy counts when
//! it is synced; until then the new holder's disk keeps what it had from an earlier time.

use std::sync::Arc;

use bytes::Bytes;
use dewar_types::Error;

use crate::chain::{Chain, Start};
use crate::epoch::Span;
use crate::format::BLOCK_BYTES;
use crate::keeper::Replacement;
use crate::lane::{Lane, Slot};
use crate::log::{FileInfo, Shared};

/// Bytes gathered for one write.
const CHUNK_BYTES: usize = 1 << 20;

/// Copies files to a new holder, oldest first, and then removes what was on its disk before.
pub(crate) async fn fill(shared: Arc<Shared>, to: Replacement, files: Vec<FileInfo>) {
    for file in files {
        let number = file.header.file;
        if lane_has(&to.lane, number) {
            continue; // freed meanwhile
        }
        match copy(&shared, &to.lane, &file).await {
            Ok(slot) => to.lane.copied(number, Some(slot)),
            Err(_) if !shared.state.lock().needs_file(number) => to.lane.copied(number, None),
            Err(error) => {
                tracing::error!(%error, file = number, "a journal file cannot be copied");
                return;
            }
        }
    }
    for path in &to.leftovers {
        if let Err(error) = to.lane.disk.remove(path).await {
            tracing::warn!(%error, "an old journal file stays");
        }
    }
}

fn lane_has(lane: &Lane, number: u64) -> bool {
    lane.missing().is_none_or(|missing| missing != number)
}

async fn copy(shared: &Arc<Shared>, lane: &Lane, file: &FileInfo) -> Result<Arc<Slot>, Error> {
    let header = &file.header;
    let span = Span {
        epoch: header.epoch,
        number: header.epoch_number,
        file: header.file,
        first: header.first,
        prev: header.prev,
        last: Some(file.last),
    };
    let start = Start {
        file: header.file,
        first: header.first,
        prev: header.prev,
    };
    let bytes = shared.config.file_bytes;
    let mut chain = Chain::new(Arc::clone(shared), bytes, vec![span], start);
    let slot = lane.create_slot().await?;
    let mut chunk = Chunk {
        at: 0,
        bytes: header.encode(),
    };
    while let Some(link) = chain.next().await? {
        chunk.put(link.place.offset, &link.record.raw);
        if chunk.bytes.len() >= CHUNK_BYTES {
            let (at, bytes) = chunk.take_blocks();
            slot.file.write_at(at, vec![bytes]).await?;
        }
    }
    let (at, bytes) = chunk.take_all();
    slot.file.write_at(at, vec![bytes]).await?;
    slot.file.sync().await?;
    Ok(slot)
}

/// Bytes from an offset on that are not written yet.
struct Chunk {
    at: u64,
    bytes: Vec<u8>,
}

impl Chunk {
    fn put(&mut self, offset: u64, raw: &[u8]) {
        let start = usize::try_from(offset - self.at).expect("a file fits the address space");
        self.bytes.resize(start, 0);
        self.bytes.extend_from_slice(raw);
    }

    /// The whole blocks; what is left of the last one stays.
    fn take_blocks(&mut self) -> (u64, Bytes) {
        let whole = self.bytes.len() - self.bytes.len() % BLOCK_BYTES as usize;
        let rest = self.bytes.split_off(whole);
        let blocks = std::mem::replace(&mut self.bytes, rest);
        let at = self.at;
        self.at += whole as u64;
        (at, blocks.into())
    }

    fn take_all(mut self) -> (u64, Bytes) {
        let padded = self.bytes.len().next_multiple_of(BLOCK_BYTES as usize);
        self.bytes.resize(padded, 0);
        (self.at, self.bytes.into())
    }
}
