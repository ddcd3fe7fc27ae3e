//! Reading an object, or only looking at it.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use dewar_auth::{Action, Caller};
use dewar_data::blob::BlobStream;
use dewar_meta::ns::Bucket;
use dewar_meta::ns::record::{ContentCopy, CopyState, Extent, FileRecord};
use dewar_types::{ByteRange, Error, ErrorKind, Result};

use crate::api::{GetRequest, ObjectInfo};
use crate::blobs::Pinned;
use crate::info::{object_info, read_condition};
use crate::{Inner, Shared, Store};

/// An object being read. Holds its content until it is dropped, whatever becomes of the name.
pub struct Download {
    /// The object.
    pub info: ObjectInfo,
    /// The bytes that will come.
    pub range: ByteRange,
    shared: Shared,
    bucket: Bucket,
    /// The first piece, when it is small: read when the object was opened.
    ready: Option<Bytes>,
    pieces: VecDeque<Extent>,
    current: Option<BlobStream>,
    _pinned: Pinned,
}

impl Store {
    /// Opens an object for reading.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::Precondition`], [`ErrorKind::NotModified`], [`ErrorKind::InvalidRange`],
    /// [`ErrorKind::InvalidPart`]; where the first bytes are small content, also those of
    /// [`Download::next`].
    pub async fn get(&self, caller: &Caller, request: GetRequest) -> Result<Download> {
        let inner = &self.inner;
        let bucket = inner.admit_read(caller, &request).await?;
        loop {
            let (file, range) = inner.find(&bucket, &request).await?;
            let extents = inner.extents(&file).await?;
            let mut pieces: VecDeque<Extent> = cut(&extents, range).into();
            let pinned = inner
                .table
                .readers()
                .pin(pieces.iter().map(|piece| piece.blob));
            // What is read later must not go meanwhile. The hold works from here on; what went before
            // it shows as another version.
            if pieces.len() > 1 && !inner.is_current(&bucket, &request, &file).await? {
                continue;
            }
            let first = match pieces.front() {
                Some(piece) => inner.slot_bytes(piece).await,
                None => Ok(None),
            };
            let ready = match first {
                Ok(ready) => ready,
                Err(error) => {
                    // It may have been deleted and compacted away between the look and the hold, and
                    // then there is another answer.
                    if inner.is_current(&bucket, &request, &file).await? {
                        return Err(error.context(bucket.path(request.object.key.as_str())));
                    }
                    dewar_env::reached("an object went while it was opened");
                    continue;
                }
            };
            if ready.is_some() {
                pieces.pop_front();
            }
            return Ok(Download {
                info: object_info(&file),
                range,
                shared: Shared::clone(inner),
                ready,
                bucket,
                pieces,
                current: None,
                _pinned: pinned,
            });
        }
    }

    /// What a read would say, without the bytes.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub async fn head(
        &self,
        caller: &Caller,
        request: GetRequest,
    ) -> Result<(ObjectInfo, ByteRange)> {
        let bucket = self.inner.admit_read(caller, &request).await?;
        let (file, range) = self.inner.find(&bucket, &request).await?;
        Ok((object_info(&file), range))
    }
}

impl Inner {
    async fn admit_read(&self, caller: &Caller, request: &GetRequest) -> Result<Bucket> {
        let key = Some(request.object.key.as_str());
        self.admit(caller, Action::GetObject, &request.object.bucket, key)
            .await
    }

    async fn find(&self, bucket: &Bucket, request: &GetRequest) -> Result<(FileRecord, ByteRange)> {
        let path = bucket.path(request.object.key.as_str());
        let file = self
            .tree
            .lookup(bucket, &request.object.key)
            .await?
            .map(|found| found.file)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("{path} does not exist")))?;
        read_condition(&request.condition).check_read(&path, &file.current)?;
        let size = file.current.size;
        let range = match (request.range, request.part) {
            (Some(range), _) => range.resolve(size).map_err(|error| error.context(&path))?,
            (None, Some(number)) => self.part_range(&file, number, &path).await?,
            (None, None) => ByteRange::whole(size),
        };
        Ok((file, range))
    }

    /// Whether the name still leads to the version that was found.
    async fn is_current(
        &self,
        bucket: &Bucket,
        request: &GetRequest,
        file: &FileRecord,
    ) -> Result<bool> {
        let now = self.tree.lookup(bucket, &request.object.key).await?;
        Ok(now.is_some_and(|now| now.file.current.id == file.current.id))
    }

    /// Where a part lies; an object that was not uploaded in parts is its own part 1.
    async fn part_range(&self, file: &FileRecord, number: u32, path: &str) -> Result<ByteRange> {
        let no_part = || {
            Error::new(
                ErrorKind::InvalidPart,
                format!("{path} has no part {number}"),
            )
        };
        let Some(parts) = &file.current.parts else {
            return if number == 1 {
                Ok(ByteRange::whole(file.current.size))
            } else {
                Err(no_part())
            };
        };
        let mut start = 0;
        let mut left = number
            .checked_sub(1)
            .filter(|_| number <= parts.count)
            .ok_or_else(no_part)?;
        for run in self
            .tree
            .part_runs(&file.current)
            .await?
            .unwrap_or_default()
        {
            if left < run.count {
                let start = start + u64::from(left) * run.size;
                return Ok(ByteRange {
                    start,
                    end: start + run.size,
                });
            }
            start += u64::from(run.count) * run.size;
            left -= run.count;
        }
        Err(no_part())
    }

    /// The extents of the copy that can be read at once.
    pub(crate) async fn extents(&self, file: &FileRecord) -> Result<Vec<Extent>> {
        let online = |copy: &ContentCopy| copy.state != CopyState::Nearline;
        match file.current.copies.iter().position(online) {
            Some(copy) => Ok(self.tree.extents(&file.current, copy).await?.into_owned()),
            None => Ok(Vec::new()),
        }
    }

    /// The bytes of a piece that lies in a slot.
    async fn slot_bytes(&self, piece: &Extent) -> Result<Option<Bytes>> {
        let Some(slot) = piece.slot else {
            return Ok(None);
        };
        let inside = u64::from(slot.offset) + u64::from(slot.header) + piece.offset;
        let (Ok(offset), Ok(len)) = (u32::try_from(inside), u32::try_from(piece.len)) else {
            let message = format!("segment {}: a slot at {inside}", piece.blob);
            return Err(Error::new(ErrorKind::Corrupt, message));
        };
        self.segments.read(piece.blob, offset, len).await.map(Some)
    }
}

impl Download {
    /// The bucket it was found in, for a caller who may read there.
    pub(crate) fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] while too many disks are missing, [`ErrorKind::Corrupt`] when
    /// too much does not verify. Nothing that fails its checksum is ever returned.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        if let Some(bytes) = self.ready.take() {
            return Some(Ok(bytes));
        }
        loop {
            if let Some(stream) = &mut self.current {
                match stream.next().await {
                    Some(bytes) => return Some(bytes),
                    None => self.current = None,
                }
            }
            let piece = self.pieces.pop_front()?;
            match self.shared.slot_bytes(&piece).await {
                Ok(Some(bytes)) => return Some(Ok(bytes)),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
            let record = match self.shared.table.record(piece.blob).await {
                Ok(record) => record,
                Err(error) => return Some(Err(error)),
            };
            let range = ByteRange {
                start: piece.offset,
                end: piece.offset + piece.len,
            };
            if range.end > record.len {
                let message = format!("blob {} is shorter than its extent", piece.blob);
                return Some(Err(Error::new(ErrorKind::Corrupt, message)));
            }
            match self.shared.blobs.open(record) {
                Ok(reader) => self.current = Some(reader.stream(range)),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download")
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// The parts of extents that hold `range`.
fn cut(extents: &[Extent], range: ByteRange) -> Vec<Extent> {
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
