//! Reading an object, or only looking at it.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use dewar_auth::{Action, Caller, Details};
use dewar_catalog::record::{ContentCopy, CopyState, Extent, FileRecord, VersionRecord};
use dewar_namespace::Bucket;
use dewar_types::{ByteRange, Error, ErrorKind, ObjectKey, Result, VersionName};

use crate::api::{DeleteMarkerError, GetRequest, ObjectInfo};
use crate::authorize::AccessFacts;
use crate::content_reader::{ContentReader, cut};
use crate::encryption::{self, DataKey};
use crate::info::{object_info, read_condition, with_expiry};
use crate::limits::RECALL_WAIT;
use crate::{Inner, Store};
use dewar_disks::ReadPin;

/// An object being read. Its content stays readable until this is dropped, even if its name is
/// removed.
pub struct Download {
    /// The object.
    pub info: ObjectInfo,
    /// The bytes that will come.
    pub range: ByteRange,
    copies: Vec<ContentCopy>,
    bucket: Bucket,
    pieces: ContentReader,
    _pinned: ReadPin,
}

impl Store {
    /// Opens an object for reading.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::Precondition`], [`ErrorKind::NotModified`], [`ErrorKind::InvalidRange`],
    /// [`ErrorKind::InvalidPart`], [`ErrorKind::Later`]. If the first bytes are small content,
    /// also those of [`Download::next`].
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
            let (file, range, key) = inner.find(caller, &bucket, &request, false).await?;
            let extents = match inner.extents(&file).await {
                Err(_) if !inner.is_current(&bucket, &request, &file).await? => continue,
                extents => extents
                    .map_err(|error| error.context(bucket.path(request.object.key.as_str())))?,
            };
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
                    dewar_env::coverage_mark("an object went while it was opened");
                    continue;
                }
            };
            if ready.is_some() {
                pieces.pop_front();
            }
            return Ok(Download {
                info: inner
                    .shown_info(&bucket, &request, &file, key.as_ref())
                    .await?,
                copies: file.current.copies,
                range,
                bucket,
                pieces: ContentReader::new(inner, ready, pieces, key),
                _pinned: pinned,
            });
        }
    }

    /// The answer to a read, without the bytes.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub async fn head(
        &self,
        caller: &Caller,
        request: GetRequest,
    ) -> Result<(ObjectInfo, ByteRange)> {
        let bucket = self.inner.bucket_of(caller, &request.object.bucket).await?;
        let (file, range, key) = self.inner.find(caller, &bucket, &request, true).await?;
        let info = self
            .inner
            .shown_info(&bucket, &request, &file, key.as_ref())
            .await?;
        Ok((info, range))
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
    /// The metadata for a reader, with the checksum of the part if it asked for one.
    async fn shown_info(
        &self,
        bucket: &Bucket,
        request: &GetRequest,
        file: &FileRecord,
        key: Option<&DataKey>,
    ) -> Result<ObjectInfo> {
        let mut info = current_info(bucket, request, file)?;
        if let Some(number) = request.part {
            info.part_checksum = self.part_checksum(&file.current, key, number).await?;
        }
        Ok(info)
    }

    /// The object, for a caller who may read it, with the requested range and the key that decrypts
    /// it if it is encrypted. `stat`: none of its bytes.
    pub(crate) async fn find(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        request: &GetRequest,
        stat: bool,
    ) -> Result<(FileRecord, ByteRange, Option<DataKey>)> {
        let key = &request.object.key;
        let path = bucket.path(key.as_str());
        let action = match request.version {
            None => Action::GetObject,
            Some(_) => Action::GetObjectVersion,
        };
        let mut file = self
            .authorized_version_stat(caller, action, bucket, key, request.version, stat)
            .await?;
        read_condition(&request.condition).check_read(&path, &file.current)?;
        let size = file.current.size;
        let current = &file.current;
        let held = request.condition.if_range.as_ref();
        let counts = held.is_none_or(|held| held.holds(&current.etag(), current.modified));
        let range = match (request.range.filter(|_| counts), request.part) {
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

    /// The file and the version to read, for a caller who has the right to `action` on it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; those of [`Inner::readable`], for callers who may know that nothing
    /// is there.
    pub(crate) async fn authorized_version(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &Bucket,
        key: &ObjectKey,
        version: Option<VersionName>,
    ) -> Result<FileRecord> {
        self.authorized_version_stat(caller, action, bucket, key, version, false)
            .await
    }

    async fn authorized_version_stat(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &Bucket,
        key: &ObjectKey,
        version: Option<VersionName>,
        stat: bool,
    ) -> Result<FileRecord> {
        let details = Details {
            stat,
            ..self.details()
        };
        self.authorized_version_with(caller, action, bucket, key, version, &details)
            .await
    }

    /// The same, with further facts for policies.
    ///
    /// # Errors
    /// As [`Inner::authorized_version`].
    pub(crate) async fn authorized_version_with(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &Bucket,
        key: &ObjectKey,
        version: Option<VersionName>,
        details: &Details<'_>,
    ) -> Result<FileRecord> {
        let found = self.readable(bucket, key, version).await;
        let access_facts = match &found {
            Ok(file) => Some(AccessFacts::of(file)?),
            Err(_) => None,
        };
        let named = version.map(|version| version.to_string());
        let details = Details {
            version: named.as_deref(),
            ..*details
        };
        let name = key.as_str();
        self.authorize_object(
            caller,
            action,
            bucket,
            name,
            access_facts.as_ref(),
            &details,
        )?;
        match found {
            Err(error) if reveals_version(&error) => {
                Err(self.mask_version_error(caller, action, bucket, name, &details, error)?)
            }
            found => found,
        }
    }

    /// The error for a version that cannot be read, for a caller who may list the key. Names of
    /// versions and delete markers are not in a listing of keys. Only callers with the right to the
    /// requested action, or to list versions, may know them. For others a key behind a marker looks
    /// like a missing one, and a missing version looks like one that they may not read.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`].
    fn mask_version_error(
        &self,
        caller: &Caller,
        action: Action,
        bucket: &Bucket,
        key: &str,
        details: &Details<'_>,
        error: Error,
    ) -> Result<Error> {
        let listing = Details {
            prefix: Some(key),
            version: None,
            ..*details
        };
        let versions = Action::ListBucketVersions;
        if self
            .authorize_optional(caller, action, bucket, Some(key), details)
            .is_ok()
            || self
                .authorize_optional(caller, versions, bucket, None, &listing)
                .is_ok()
        {
            return Ok(error);
        }
        if error.kind() == ErrorKind::NotFound {
            return Ok(not_found(&bucket.path(key)));
        }
        self.authorize_in_bucket(caller, versions, bucket, None, &listing)?;
        Ok(error)
    }

    /// The file and the version to read.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::NoSuchVersion`] and [`ErrorKind::DeleteMarker`] for a
    /// named version. For a delete marker, [`DeleteMarkerError`] is the source.
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
                return Err(not_found(&path()));
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
        Err(Error::with_source(
            kind,
            message,
            DeleteMarkerError { name },
        ))
    }

    /// Whether the name still leads to the version that was found.
    pub(crate) async fn is_current(
        &self,
        bucket: &Bucket,
        request: &GetRequest,
        file: &FileRecord,
    ) -> Result<bool> {
        let (key, version) = (&request.object.key, request.version);
        let now = self.tree.lookup_version(bucket, key, version).await?;
        // The same version may be in another pool by now.
        let same =
            |now: &VersionRecord| now.id == file.current.id && now.copies == file.current.copies;
        Ok(now.is_some_and(|now| same(&now.file.current)))
    }

    /// The range of a part. An object that was not uploaded in parts has one part, number 1.
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

    /// The extents of a copy that can be read without waiting. A version without bytes needs no
    /// copy.
    ///
    /// # Errors
    /// [`ErrorKind::Later`] for content without an online copy; those of the catalog.
    pub(crate) async fn extents(&self, file: &FileRecord) -> Result<Vec<Extent>> {
        let online = |copy: &ContentCopy| copy.state != CopyState::Nearline;
        match file.current.copies.iter().position(online) {
            Some(copy) => Ok(self.tree.extents(&file.current, copy).await?.into_owned()),
            None if file.current.size == 0 => Ok(Vec::new()),
            None => {
                let version = file.current.name();
                let message = format!("version {version} has no online copy: it must be recalled");
                Err(Error::new(ErrorKind::Later(RECALL_WAIT), message))
            }
        }
    }
}

fn not_found(path: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{path} does not exist"))
}

/// Whether an error says more than that there is no such key.
fn reveals_version(error: &Error) -> bool {
    let marker =
        std::error::Error::source(error).is_some_and(|source| source.is::<DeleteMarkerError>());
    marker
        || matches!(
            error.kind(),
            ErrorKind::NoSuchVersion | ErrorKind::DeleteMarker
        )
}

impl Download {
    /// The bucket of the object, for a caller who may read there.
    pub(crate) fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    /// The places of all its bytes.
    pub(crate) fn copies(&self) -> &[ContentCopy] {
        &self.copies
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] while too many disks are missing, [`ErrorKind::Corrupt`] when too
    /// many shards do not verify. Bytes that fail their checksum are never returned.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        self.pieces.next().await
    }
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download")
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}
