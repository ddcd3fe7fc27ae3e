//! A version of a file, opened once and read at any places.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use dewar_auth::Caller;
use dewar_catalog::record::{ContentCopy, Extent};
use dewar_disks::blob::VerifiedBytes;
use dewar_namespace::Bucket;
use dewar_types::{ByteRange, Result};

use crate::api::{GetRequest, ObjectInfo};
use crate::content_reader::ContentReader;
use crate::encryption::DataKey;
use crate::info::object_info;
use crate::{SharedStore, Store};
use dewar_disks::ReadPin;

use super::NodeAttributes;

/// Memory of an open file beside its attributes and the places of its pieces, about.
const OPEN_MEMORY_BYTES: usize = 2 << 10;

/// One version of a file, open for reading. It stays readable until this is dropped, whatever
/// becomes of the name. Reads do not disturb each other.
pub struct OpenFile {
    /// The version.
    pub info: ObjectInfo,
    /// Attributes at the time of opening.
    pub attributes: NodeAttributes,
    shared: SharedStore,
    /// Where each piece begins in the file, and where it lies.
    extents: Vec<(u64, Extent)>,
    key: Option<DataKey>,
    /// Where the whole of it was when it was opened.
    pub(super) copies: Vec<ContentCopy>,
    pub(super) storage_class: Option<String>,
    _pinned: ReadPin,
}

/// Bytes of a range of an [`OpenFile`], which must be kept while they are read.
pub struct FileBytes<'f> {
    pieces: ContentReader,
    _file: &'f OpenFile,
}

impl Store {
    /// Opens a file for reading at any places. [`GetRequest::range`] and [`GetRequest::part`] are
    /// not looked at.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub async fn open_file(&self, caller: &Caller, request: GetRequest) -> Result<OpenFile> {
        let bucket = self.inner.bucket_of(caller, &request.object.bucket).await?;
        let request = GetRequest {
            range: None,
            part: None,
            ..request
        };
        self.open_version(caller, &bucket, &request).await
    }

    pub(crate) async fn open_version(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        request: &GetRequest,
    ) -> Result<OpenFile> {
        let inner = &self.inner;
        loop {
            let (file, _, key) = inner.find(caller, bucket, request, false).await?;
            let extents = match inner.extents(&file).await {
                Err(_) if !inner.is_current(bucket, request, &file).await? => continue,
                extents => extents
                    .map_err(|error| error.context(bucket.path(request.object.key.as_str())))?,
            };
            let blobs = extents.iter().map(|extent| extent.blob);
            let pinned = inner.table.readers().pin(blobs);
            // The hold works from here on; what went before it shows as another version.
            if !inner.is_current(bucket, request, &file).await? {
                continue;
            }
            let mut at = 0;
            let begun = |extent: Extent| {
                let begin = at;
                at += extent.len;
                (begin, extent)
            };
            return Ok(OpenFile {
                info: object_info(bucket, &file),
                attributes: NodeAttributes::from(&file.attributes),
                shared: SharedStore::clone(inner),
                extents: extents.into_iter().map(begun).collect(),
                key,
                copies: file.current.copies,
                storage_class: file.current.storage_class,
                _pinned: pinned,
            });
        }
    }
}

impl OpenFile {
    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let stored: usize = self.copies.iter().map(|copy| copy.extents.len()).sum();
        let pairs = self.info.attributes.user.iter();
        let named: usize = pairs.map(|(key, value)| key.len() + value.len()).sum();
        OPEN_MEMORY_BYTES
            + named
            + self.extents.len() * size_of::<(u64, Extent)>()
            + stored * size_of::<Extent>()
    }

    /// What opens its content, if that is encrypted.
    pub(crate) fn key(&self) -> Option<&DataKey> {
        self.key.as_ref()
    }

    /// The bytes of a range. The part behind the end of the file is left out.
    #[must_use]
    pub fn read(&self, range: ByteRange) -> FileBytes<'_> {
        let pieces = self.pieces(range);
        FileBytes {
            pieces: ContentReader::new(&self.shared, None, pieces, self.key.clone()),
            _file: self,
        }
    }

    /// The bytes of a small range, if that needs no waiting: they lie in one stripe unit whose pages are in
    /// memory. `None` says nothing else than that [`OpenFile::read`] must be asked.
    #[must_use]
    pub fn read_now(&self, range: ByteRange) -> Option<Bytes> {
        let place = self
            .extents
            .partition_point(|(begin, extent)| begin + extent.len <= range.start);
        let (begin, extent) = self.extents.get(place)?;
        let inside = range.start >= *begin && range.end <= begin + extent.len;
        if !inside || extent.slot.is_some() || extent.salt.is_some() {
            return None;
        }
        let record = self.shared.table.known_record(extent.blob)?;
        let stored = ByteRange {
            start: extent.offset + (range.start - begin),
            end: extent.offset + (range.end - begin),
        };
        self.shared.blobs.open(record).ok()?.read_now(stored)
    }

    /// The extents that hold a range, cut to it.
    pub(super) fn pieces(&self, range: ByteRange) -> VecDeque<Extent> {
        let first = self
            .extents
            .partition_point(|(begin, extent)| begin + extent.len <= range.start);
        let mut pieces = VecDeque::new();
        for (begin, extent) in &self.extents[first..] {
            if *begin >= range.end {
                break;
            }
            let from = range.start.max(*begin);
            let to = range.end.min(begin + extent.len);
            if from < to {
                pieces.push_back(Extent {
                    offset: extent.offset + (from - begin),
                    len: to - from,
                    ..*extent
                });
            }
        }
        pieces
    }
}

impl FileBytes<'_> {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// As [`crate::Download::next`].
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        self.pieces.next().await
    }

    /// The same with the checksums of stored pages, where what is read is what they hold.
    ///
    /// # Errors
    /// As [`FileBytes::next`].
    pub async fn next_verified(&mut self) -> Option<Result<VerifiedBytes>> {
        self.pieces.next_verified().await
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile")
            .field("version", &self.info.version)
            .finish_non_exhaustive()
    }
}
