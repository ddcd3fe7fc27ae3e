//! Reading an object, or only looking at it.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use dewar_auth::{Action, Caller, Details};
use dewar_data::blob::BlobStream;
use dewar_meta::ns::Bucket;
use dewar_meta::ns::record::{ContentCopy, CopyState, Extent, FileRecord};
use dewar_types::{ByteRange, Error, ErrorKind, ObjectKey, Result, VersionName};

use crate::admit::{Standing, permit_found};
use crate::api::{GetRequest, MarkerFound, ObjectInfo};
use crate::blobs::Pinned;
use crate::encryption::{self, DataKey, Opener};
use crate::info::{object_info, read_condition, with_expiry};
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
    current: Option<Reading>,
    key: Option<DataKey>,
    _pinned: Pinned,
}

/// A large piece being read, and what opens it when it is encrypted.
struct Reading {
    stream: BlobStream,
    opener: Option<Opener>,
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
        let bucket = self.inner.bucket_of(caller, &request.object.bucket).await?;
        self.open(caller, bucket, request).await
    }

    /// The same in a bucket that was looked up.
    pub(crate) async fn open(
        &self,
        caller: &Caller,
        bucket: Bucket,
        request: GetRequest,
    ) -> Result<Download> {
        let inner = &self.inner;
        loop {
            let (file, range, key) = inner.find(caller, &bucket, &request).await?;
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
                Some(piece) => inner.slot_bytes(piece, key.as_ref()).await,
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
                info: current_info(&bucket, &request, &file)?,
                range,
                shared: Shared::clone(inner),
                ready,
                bucket,
                pieces,
                current: None,
                key,
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
        let bucket = self.inner.bucket_of(caller, &request.object.bucket).await?;
        let (file, range, _) = self.inner.find(caller, &bucket, &request).await?;
        Ok((current_info(&bucket, &request, &file)?, range))
    }
}

fn current_info(bucket: &Bucket, request: &GetRequest, file: &FileRecord) -> Result<ObjectInfo> {
    let info = object_info(bucket, file);
    match request.version {
        None => with_expiry(info, bucket, request.object.key.as_str(), &file.current),
        // Whether it is the current one is not known here, and older ones expire otherwise.
        Some(_) => Ok(info),
    }
}

impl Inner {
    /// The object, for a caller who may read it, what of it is asked for, and the key that opens it
    /// if it is encrypted.
    async fn find(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        request: &GetRequest,
    ) -> Result<(FileRecord, ByteRange, Option<DataKey>)> {
        let key = &request.object.key;
        let path = bucket.path(key.as_str());
        let action = match request.version {
            None => Action::GetObject,
            Some(_) => Action::GetObjectVersion,
        };
        let mut file = self
            .permitted(caller, action, bucket, key, request.version)
            .await?;
        read_condition(&request.condition).check_read(&path, &file.current)?;
        let size = file.current.size;
        let range = match (request.range, request.part) {
            (Some(range), _) => range.resolve(size).map_err(|error| error.context(&path))?,
            (None, Some(number)) => self.part_range(&file, number, &path).await?,
            (None, None) => ByteRange::whole(size),
        };
        let encryption = file.current.encryption.as_ref();
        let key = encryption::open(encryption, request.customer_key.as_ref(), &self.master)
            .map_err(|error| error.context(&path))?;
        if let Some(key) = &key {
            encryption::unseal(&mut file.current, key).map_err(|error| error.context(&path))?;
        }
        Ok((file, range, key))
    }

    /// The file with the version that a reader gets, for a caller who may do `action` to it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; what [`Inner::readable`] says, to who may know that there is nothing.
    pub(crate) async fn permitted(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &Bucket,
        key: &ObjectKey,
        version: Option<VersionName>,
    ) -> Result<FileRecord> {
        let found = self.readable(bucket, key, version).await;
        let standing = match &found {
            Ok(file) => Some(Standing::of(file)?),
            Err(_) => None,
        };
        let named = version.map(|version| version.to_string());
        let details = Details {
            version: named.as_deref(),
            ..self.details()
        };
        let key = key.as_str();
        permit_found(caller, action, bucket, key, standing.as_ref(), &details)?;
        found
    }

    /// The file with the version that a reader gets.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::NoSuchVersion`] and [`ErrorKind::DeleteMarker`] for a
    /// version that was named. Where a delete marker stands, [`MarkerFound`] is the source.
    pub(crate) async fn readable(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        version: Option<VersionName>,
    ) -> Result<FileRecord> {
        let path = || bucket.path(key.as_str());
        let found = self.tree.lookup_version(bucket, key, version).await?;
        let file = match (found, version) {
            (Some(found), _) if found.file.is_live() => return Ok(found.file),
            (Some(found), _) => found.file,
            (None, None) => {
                let message = format!("{} does not exist", path());
                return Err(Error::new(ErrorKind::NotFound, message));
            }
            (None, Some(name)) => {
                let message = format!("{} has no version {name}", path());
                return Err(Error::new(ErrorKind::NoSuchVersion, message));
            }
        };
        let kind = match version {
            None => ErrorKind::NotFound,
            Some(_) => ErrorKind::DeleteMarker,
        };
        let name = file.current.name();
        let message = format!("{}: version {name} is a delete marker", path());
        Err(Error::with_source(kind, message, MarkerFound { name }))
    }

    /// Whether the name still leads to the version that was found.
    async fn is_current(
        &self,
        bucket: &Bucket,
        request: &GetRequest,
        file: &FileRecord,
    ) -> Result<bool> {
        let (key, version) = (&request.object.key, request.version);
        let now = self.tree.lookup_version(bucket, key, version).await?;
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
    async fn slot_bytes(&self, piece: &Extent, key: Option<&DataKey>) -> Result<Option<Bytes>> {
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
            if let Some(reading) = &mut self.current {
                match reading.next().await {
                    Some(bytes) => return Some(bytes),
                    None => self.current = None,
                }
            }
            let piece = self.pieces.pop_front()?;
            match self.shared.slot_bytes(&piece, self.key.as_ref()).await {
                Ok(Some(bytes)) => return Some(Ok(bytes)),
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
    async fn next(&mut self) -> Option<Result<Bytes>> {
        loop {
            let stored = self.stream.next().await;
            let Some(opener) = &mut self.opener else {
                return stored;
            };
            match stored {
                Some(Ok(stored)) => match opener.push(&stored) {
                    Ok(clear) if clear.is_empty() => {}
                    outcome => return Some(outcome),
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

/// What of a piece's stored bytes must be read, out of `stored`, and what opens them.
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
