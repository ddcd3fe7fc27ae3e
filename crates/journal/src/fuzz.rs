//! Fuzz targets: the parsers of everything that a journal reads from disks.

use std::sync::Arc;

use bytes::Bytes;
use dewar_env::disk::Result;
use dewar_env::{BoxFuture, DiskError, DiskErrorKind, DiskFile};
use dewar_types::DiskId;
use futures_util::FutureExt;

use crate::copies::FileCopy;
use crate::epoch::{EpochFile, EpochId, Span};
use crate::format::{
    BLOCK_BYTES, FileHeader, RECORD_HEADER_BYTES, RecordHeader, RecordPosition, seal_record,
};
use crate::log_reader::{CopySource, LogReader, ReadStart};

/// The epoch file: nothing panics, and what is read is written as it was.
pub fn fuzz_epoch(bytes: &[u8]) {
    if let Ok(file) = EpochFile::decode(bytes) {
        let again = file.encode();
        assert_eq!(EpochFile::decode(&again).ok(), Some(file));
    }
    // Behind a wrong checksum nothing is looked at, so the content is tried with a right one.
    if let Some(sealed) = EpochFile::sealed(bytes)
        && let Ok(file) = EpochFile::decode(&sealed)
    {
        let again = file.encode();
        assert_eq!(EpochFile::decode(&again).ok(), Some(file));
    }
}

/// A journal file: its header, and its records as they are and with right checksums.
pub fn fuzz_journal_file(bytes: &[u8]) {
    let mut block = bytes.to_vec();
    block.resize(BLOCK_BYTES as usize, 0);
    if let Ok(Some(header)) = FileHeader::decode(&block) {
        assert_eq!(header.encode()[..12], block[..12]);
    }
    walk(bytes);
    walk(&with_checksums(bytes));
}

const EPOCH: EpochId = EpochId(7);
const FILE: u64 = 3;

/// Follows the chain from the first record on.
fn walk(bytes: &[u8]) {
    let first = bytes.get(BLOCK_BYTES as usize..);
    let Some(first) = first.and_then(RecordHeader::parse) else {
        return;
    };
    let span = Span {
        epoch: EPOCH,
        number: first.epoch,
        file: FILE,
        first: first.seq,
        prev: first.prev,
        last: None,
    };
    let start = ReadStart {
        file: FILE,
        first: first.seq,
        prev: first.prev,
    };
    let source = InMemory(Bytes::copy_from_slice(bytes));
    let mut chain = LogReader::new(source, bytes.len() as u64, vec![span], start);
    let mut last = None;
    // Everything is in memory, so nothing is waited for.
    while let Some(Ok(Some(link))) = chain.next().now_or_never() {
        let seq = link.record.header.seq;
        assert!(last.is_none_or(|last| seq > last), "{seq} follows {last:?}");
        assert_eq!(link.body().len(), link.record.header.len as usize);
        last = Some(seq);
    }
    let _ = chain.evidence().now_or_never();
}

/// The bytes with the checksums of the records that follow one another made right, and each naming
/// the one before.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut offset = BLOCK_BYTES as usize;
    let mut prev = None;
    while let Some(header) = bytes.get(offset..).and_then(RecordHeader::parse) {
        let end = offset + RECORD_HEADER_BYTES + header.len as usize;
        let Some(record) = bytes.get_mut(offset..end) else {
            break;
        };
        if let Some((seq, crc)) = prev {
            record[8..16].copy_from_slice(&u64::wrapping_add(seq, 1).to_le_bytes());
            record[32..36].copy_from_slice(&u32::to_le_bytes(crc));
        }
        let place = RecordPosition {
            epoch: EPOCH,
            file: FILE,
            offset: offset as u64,
        };
        let seq = u64::from_le_bytes([
            record[8], record[9], record[10], record[11], record[12], record[13], record[14],
            record[15],
        ]);
        prev = Some((seq, seal_record(record, &place)));
        offset += header.framed_bytes();
    }
    bytes
}

#[derive(Debug)]
struct InMemory(Bytes);

impl CopySource for InMemory {
    fn copies(&self, _: EpochId, file: u64) -> BoxFuture<'_, Vec<FileCopy>> {
        let copy = || FileCopy::new(DiskId(1), Arc::new(Self(self.0.clone())));
        let copies = (file == FILE).then(copy).into_iter().collect();
        Box::pin(std::future::ready(copies))
    }
}

fn refused<T: Send + 'static>() -> BoxFuture<'static, Result<T>> {
    let error = DiskError::new(DiskErrorKind::Invalid, "write", "memory", "");
    Box::pin(std::future::ready(Err(error)))
}

impl DiskFile for InMemory {
    fn read_now(&self, offset: u64, len: usize) -> Option<Result<Bytes>> {
        let all = self.0.len();
        let from = usize::try_from(offset).map_or(all, |from| from.min(all));
        Some(Ok(self.0.slice(from..from.saturating_add(len).min(all))))
    }
    fn read_at(&self, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes>> {
        let read = self
            .read_now(offset, len)
            .unwrap_or_else(|| Ok(Bytes::new()));
        Box::pin(std::future::ready(read))
    }
    fn read_pieces(&self, _: Vec<(u64, usize)>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        refused()
    }
    fn write_at(&self, _: u64, _: Vec<Bytes>) -> BoxFuture<'_, Result<()>> {
        refused()
    }
    fn write_pieces(&self, _: Vec<(u64, Vec<Bytes>)>) -> BoxFuture<'_, Result<()>> {
        refused()
    }
    fn write_durable(&self, _: u64, _: Vec<Bytes>) -> BoxFuture<'_, Result<()>> {
        refused()
    }
    fn sync(&self) -> BoxFuture<'_, Result<()>> {
        refused()
    }
    fn is_in_place(&self) -> BoxFuture<'_, Result<bool>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    fn len(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(std::future::ready(Ok(self.0.len() as u64)))
    }
}
