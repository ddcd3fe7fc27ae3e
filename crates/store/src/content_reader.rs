//! A version that is open for reading: from its first byte to its last, or at any places.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use dewar_auth::Caller;
use dewar_catalog::record::{ContentCopy, Extent};
use dewar_disks::blob::VerifiedBytes;
use dewar_namespace::{Bucket, ResolvedName};
use dewar_types::{ByteRange, Result};

use crate::api::{GetRequest, ObjectInfo};
use crate::encryption::DataKey;
use crate::extent_reader::{ExtentReader, cut};
use crate::file::NodeAttributes;
use crate::{Inner, SharedStore};
use dewar_disks::ReadPin;

/// Memory of an open version beside its attributes and the places of its pieces, about.
const OPEN_MEMORY_BYTES: usize = 2 << 10;

/// One version, open for reading. It stays readable until this is dropped, whatever becomes of the
/// name. Reads at different places do not disturb each other.
pub struct ContentReader {
    /// The version.
    pub info: ObjectInfo,
    /// Attributes of the file at the time of opening.
    pub attributes: NodeAttributes,
    /// The bytes that were asked for.
    pub range: ByteRange,
    shared: SharedStore,
    /// Where each piece of the range begins in the version, and where it lies.
    extents: Vec<(u64, Extent)>,
    key: Option<DataKey>,
    /// Where the whole version was when it was opened.
    pub(crate) copies: Vec<ContentCopy>,
    /// The first piece, if it is small and was read when the version was opened.
    ready: Option<Bytes>,
    /// The bytes that [`ContentReader::next`] gives, once it was called.
    stream: Option<ExtentReader>,
    _pinned: ReadPin,
}

/// Bytes of a range of a [`ContentReader`], which must be kept while they are read.
pub struct RangeReader<'r> {
    pieces: ExtentReader,
    _version: &'r ContentReader,
}

/// How an open version is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOrder {
    /// From the first byte to the last, at once. A single small piece is read when it is opened, and
    /// a single large one outlives its name for as long as that takes.
    Sequential,
    /// At any places, at any time.
    Random,
}

impl Inner {
    /// Opens a version, or a range of it, in a bucket that was looked up, as was the name if there is
    /// one.
    ///
    /// # Errors
    /// As [`crate::Store::get`].
    pub(crate) async fn open_version(
        self: &SharedStore,
        caller: &Caller,
        bucket: &Bucket,
        request: &GetRequest,
        mut found: Option<ResolvedName>,
        order: ReadOrder,
    ) -> Result<ContentReader> {
        let path = || bucket.path(request.object.key.as_str());
        loop {
            let found = match found.take() {
                Some(found) => found,
                None => self.tree.find_name(bucket, &request.object.key).await?,
            };
            let (file, range, key) = self.find_in(caller, bucket, request, found, false).await?;
            let extents = match self.extents(&file).await {
                Err(_) if !self.is_current(bucket, request, &file).await? => continue,
                extents => extents.map_err(|error| error.context(path()))?,
            };
            let pieces = cut(&extents, range);
            let blobs = pieces.iter().map(|piece| piece.blob);
            let pinned = self.table.readers().pin(blobs);
            // What is read later must not go meanwhile. The hold works from here on; what went before
            // it shows as another version.
            if (order == ReadOrder::Random || pieces.len() > 1)
                && !self.is_current(bucket, request, &file).await?
            {
                continue;
            }
            let mut at = range.start;
            let begun = |extent: &Extent| {
                let begin = at;
                at += extent.len;
                (begin, *extent)
            };
            let extents = pieces.iter().map(begun).collect();
            let first = match pieces.first().filter(|_| order == ReadOrder::Sequential) {
                Some(piece) => self.slot_bytes(piece, key.as_ref()).await,
                None => Ok(None),
            };
            let ready = match first {
                Ok(ready) => ready,
                Err(error) => {
                    // It may have been deleted and compacted away between the look and the hold, and
                    // then there is another answer.
                    if self.is_current(bucket, request, &file).await? {
                        return Err(error.context(path()));
                    }
                    dewar_env::coverage_mark("an object went while it was opened");
                    continue;
                }
            };
            return Ok(ContentReader {
                info: self
                    .shown_info(bucket, request, &file, key.as_ref())
                    .await?,
                attributes: NodeAttributes::from(&file.attributes),
                range,
                shared: SharedStore::clone(self),
                extents,
                ready,
                stream: None,
                key,
                copies: file.current.copies,
                _pinned: pinned,
            });
        }
    }
}

impl ContentReader {
    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let stored: usize = self.copies.iter().map(|copy| copy.extents.len()).sum();
        OPEN_MEMORY_BYTES
            + self.info.attributes.bytes()
            + self.extents.len() * size_of::<(u64, Extent)>()
            + stored * size_of::<Extent>()
    }

    /// The key that decrypts its content, if it is encrypted.
    pub(crate) fn key(&self) -> Option<&DataKey> {
        self.key.as_ref()
    }

    /// The bytes of a range. The part behind the end of the file is left out.
    #[must_use]
    pub fn read(&self, range: ByteRange) -> RangeReader<'_> {
        let pieces = self.pieces(range);
        RangeReader {
            pieces: ExtentReader::new(&self.shared, None, pieces, self.key.clone()),
            _version: self,
        }
    }

    /// The bytes of a small range, if that needs no waiting: they lie in one stripe unit whose pages are in
    /// memory. `None` says nothing else than that [`ContentReader::read`] must be asked.
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
    pub(crate) fn pieces(&self, range: ByteRange) -> VecDeque<Extent> {
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

    /// The next bytes of the range, from its first to its last; `None` at the end.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Unavailable`] while too many disks are missing,
    /// [`dewar_types::ErrorKind::Corrupt`] when too many shards do not verify. Bytes that fail their
    /// checksum are never returned.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        if self.stream.is_none() {
            let mut pieces = self.pieces(self.range);
            let ready = self.ready.take();
            if ready.is_some() {
                pieces.pop_front();
            }
            let key = self.key.clone();
            self.stream = Some(ExtentReader::new(&self.shared, ready, pieces, key));
        }
        self.stream.as_mut()?.next().await
    }
}

impl RangeReader<'_> {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// As [`ContentReader::next`].
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        self.pieces.next().await
    }

    /// The same with the checksums of stored pages, where what is read is what they hold.
    ///
    /// # Errors
    /// As [`RangeReader::next`].
    pub async fn next_verified(&mut self) -> Option<Result<VerifiedBytes>> {
        self.pieces.next_verified().await
    }
}

impl fmt::Debug for ContentReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentReader")
            .field("version", &self.info.version)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}
