//! Reading an object, or only looking at it.

use dewar_auth::{Action, Caller, Details};
use dewar_catalog::record::{ContentCopy, CopyState, Extent, FileRecord, VersionRecord};
use dewar_namespace::{Bucket, ResolvedName};
use dewar_types::{ByteRange, Error, ErrorKind, ObjectKey, Result, VersionName};

use crate::api::{DeleteMarkerError, GetRequest, ObjectInfo};
use crate::authorize::AccessFacts;
use crate::content_reader::{ContentReader, ReadOrder};
use crate::encryption::{self, DataKey};
use crate::info::{object_info, with_expiry};
use crate::limits::RECALL_WAIT;
use crate::{Inner, Store};

impl Store {
    /// Opens an object, or a range of it, to be read from the first byte to the last.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::Precondition`], [`ErrorKind::NotModified`], [`ErrorKind::InvalidRange`],
    /// [`ErrorKind::InvalidPart`], [`ErrorKind::Later`]. If the first bytes are small content,
    /// also those of [`ContentReader::next`].
    pub async fn get(&self, caller: &Caller, request: GetRequest) -> Result<ContentReader> {
        let bucket = self.inner.bucket_of(caller, &request.object.bucket).await?;
        self.open(caller, &bucket, &request).await
    }

    /// The same in a bucket that was looked up.
    pub(crate) async fn open(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        request: &GetRequest,
    ) -> Result<ContentReader> {
        let order = ReadOrder::Sequential;
        self.inner
            .open_version(caller, bucket, request, None, order)
            .await
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
        let inner = &self.inner;
        let bucket = inner.bucket_of(caller, &request.object.bucket).await?;
        let found = inner.tree.find_name(&bucket, &request.object.key).await?;
        let (file, range, key) = inner
            .find_in(caller, &bucket, &request, found, true)
            .await?;
        let info = inner
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
    pub(crate) async fn shown_info(
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

    /// The object of a name that was looked up, for a caller who may read it, with the requested
    /// range and the key that decrypts it if it is encrypted. `stat`: none of its bytes.
    pub(crate) async fn find_in(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        request: &GetRequest,
        found: ResolvedName,
        stat: bool,
    ) -> Result<(FileRecord, ByteRange, Option<DataKey>)> {
        let key = &request.object.key;
        let path = bucket.path(key.as_str());
        let action = match request.version {
            None => Action::GetObject,
            Some(_) => Action::GetObjectVersion,
        };
        let details = Details {
            stat,
            ..self.details()
        };
        let name = (bucket, key, found);
        let mut file = self
            .authorized_version_in(caller, action, name, request.version, &details)
            .await?;
        request.condition.check(&path, &file.current)?;
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
        let found = self.tree.find_name(bucket, key).await?;
        let name = (bucket, key, found);
        self.authorized_version_in(caller, action, name, version, &self.details())
            .await
    }

    /// The same for a name that was looked up, with further facts for policies.
    ///
    /// # Errors
    /// As [`Inner::authorized_version`].
    pub(crate) async fn authorized_version_in(
        &self,
        caller: &Caller,
        action: Action,
        (bucket, key, found): (&Bucket, &ObjectKey, ResolvedName),
        version: Option<VersionName>,
        details: &Details<'_>,
    ) -> Result<FileRecord> {
        let found = self.readable(found, bucket, key, version).await;
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

    /// The file and the version to read, of a name that was looked up.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::NoSuchVersion`] and [`ErrorKind::DeleteMarker`] for a
    /// named version. For a delete marker, [`DeleteMarkerError`] is the source.
    pub(crate) async fn readable(
        &self,
        found: ResolvedName,
        bucket: &Bucket,
        key: &ObjectKey,
        version: Option<VersionName>,
    ) -> Result<FileRecord> {
        let path = || bucket.path(key.as_str());
        let file = match (self.tree.version_of(found, version).await?, version) {
            (Some(file), _) if file.is_live() => return Ok(file),
            (Some(file), _) => file,
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
        Ok(now.is_some_and(|now| same(&now.current)))
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
