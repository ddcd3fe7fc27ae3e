//! A new version of a file, written at any places and seen when it is committed.
//!
//! Written bytes go to the end of a log, which is a blob like any other. A map says which bytes
//! of the file stand where. Bytes that come in order are one run of one blob, and the version is
//! what [`crate::Upload`] would have made of them. Else the version is made of extents of the log
//! and of the version that it revises, whose blobs it shares.
//!
//! - **Reading what was written.** A log that is on the disks is sealed first and another one begun.
//! - **Holes** read as zeros; a stretch of zeros in the log stands for all of them.
//! - **Digests** are those of the stream, where the bytes came in order. Else they are computed by a
//!   pass over the new version before its commit, if at least a part of it as large as
//!   [`DIGEST_SHARE`] says was written now; a small change of a large file leaves it without.
//! - **Quotas.** The bytes of the logs are reserved as they come, whether the version will name them or not. A commit
//!   exchanges the reservation for what the version counts.
//! - **Crashes and cancellation.** Sealed logs that nothing names are collected by the sweep of the
//!   next start; dropping a revision removes them.

mod memory;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use dewar_auth::Caller;
use dewar_catalog::record::{ContentCopy, DisplayedChecksum, ETag, Extent, SystemHeaders};
use dewar_checksum::{Algorithm, AlgorithmSet, DigestSet};
use dewar_disks::blob::BlobRecord;
use dewar_namespace::{Bucket, Condition, DataChanges, NewVersion, Reservation};
use dewar_types::{ByteRange, Error, ErrorKind, ObjectKey, PoolId, Result};
use minicbor::bytes::ByteVec;

use crate::access::ObjectOwner;
use crate::api::{ExpectedContent, ObjectInfo, ObjectRef};
use crate::content_writer::{ContentWriter, StagedContent, blob_extra};
use crate::encryption::{self, NewDataKey};
use crate::info::{full_checksum, version_info, with_expiry};
use crate::limits::{OBJECT_BYTES_MAX, READ_WRITE_SWITCHES_MAX, REVISION_RUNS_MAX};
use crate::put::run_to_completion;
use crate::{Inner, SharedStore, Store};
use dewar_disks::salvage_header::{PartOf, SalvageOrigin as Written};

use super::assembly::{AssemblySources, UncommittedReader};
use super::extent_map::{ExtentMap, ExtentOrigin, MappedExtent};
use super::write_authorization::{AuthorizedWrite, current_version};
use super::{ChecksummedBytes, OpenFile};

/// Digests are computed anew for a file of at most so many times the bytes that were written.
const DIGEST_SHARE: u64 = 4;

/// Longest stretch of zeros that is stored to stand for holes.
const ZEROS_MAX: u64 = 16 << 20;

/// Zeros written at once.
const ZEROS_AT_ONCE: u64 = 1 << 20;

/// The condition on the existing file, and its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// There must be nothing.
    New,
    /// What is there is replaced.
    Replace,
    /// What is there is changed; it must be there.
    Update,
}

/// A file is to be written.
#[derive(Clone, Debug)]
pub struct FileWrite {
    /// Which.
    pub object: ObjectRef,
    /// The condition on the existing file.
    pub mode: WriteMode,
    /// How many bytes will come, when known.
    pub size: Option<u64>,
    /// Digests to compute beside those that always are.
    pub want: AlgorithmSet,
    /// Permission bits of the file.
    pub permissions: u32,
}

/// A new version on its way in. Nothing of it can be seen before [`Revision::commit`]; dropped, it
/// was never there.
pub struct Revision {
    shared: SharedStore,
    /// Who began it, for the change log. The caller itself would keep its policies in memory.
    principal: String,
    bucket: Bucket,
    key: ObjectKey,
    owner: ObjectOwner,
    pub(super) permissions: u32,
    pub(super) xattrs: BTreeMap<String, ByteVec>,
    headers: SystemHeaders,
    metadata: BTreeMap<String, String>,
    tags: BTreeMap<String, String>,
    condition: Condition,
    fresh: Option<NewDataKey>,
    base: Option<OpenFile>,
    want: AlgorithmSet,
    /// The pool of what is written, if not the main one.
    pool: Option<u16>,
    log: ContentWriter,
    /// Bytes in that log.
    logged: u64,
    /// Bytes in all logs.
    written: u64,
    reservation: Reservation,
    sealed: SealedLogs,
    map: ExtentMap,
    size: u64,
}

/// A log that is complete and durable, and that nothing names yet.
pub(super) struct SealedLog {
    pub(super) record: BlobRecord,
    extent: Extent,
    digests: DigestSet,
}

/// Those of one revision; dropped, they are removed.
struct SealedLogs {
    shared: SharedStore,
    logs: Vec<SealedLog>,
}

impl SealedLogs {
    /// Gives up the logs of which nothing is left in the version: all that was in them was written
    /// over, or cut off.
    fn drop_unused(&mut self, extents: &[Extent]) {
        let logs = std::mem::take(&mut self.logs);
        let named = |log: &SealedLog| extents.iter().any(|extent| extent.blob == log.record.id);
        let (used, unused) = logs.into_iter().partition(named);
        self.logs = used;
        drop(Self {
            shared: SharedStore::clone(&self.shared),
            logs: unused,
        });
    }
}

impl Drop for SealedLogs {
    fn drop(&mut self) {
        if self.logs.is_empty() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // The process ends: the sweep of the next one collects them.
            return;
        };
        let (shared, logs) = (
            SharedStore::clone(&self.shared),
            std::mem::take(&mut self.logs),
        );
        runtime.spawn(async move {
            for log in logs {
                shared.blobs.take_back(&log.record).await;
            }
        });
    }
}

impl Store {
    /// Begins to write a file. Directories that are missing above it are made when it is committed.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] or [`ErrorKind::NotFound`] as [`WriteMode`] says,
    /// [`ErrorKind::IsADirectory`], [`ErrorKind::NotADirectory`], [`ErrorKind::Denied`],
    /// [`ErrorKind::NoSuchBucket`], [`ErrorKind::TooLarge`], [`ErrorKind::Quota`],
    /// [`ErrorKind::NoSpace`], [`ErrorKind::Unavailable`]; [`ErrorKind::Unsupported`] for a change of encrypted content.
    pub async fn write_file(&self, caller: &Caller, write: FileWrite) -> Result<Revision> {
        let shared = &self.inner;
        let AuthorizedWrite {
            bucket,
            there,
            condition,
        } = shared.authorize_file_write(caller, &write).await?;
        let key = write.object.key;
        let path = bucket.path(key.as_str());
        let base = match write.mode {
            WriteMode::Update => Some(self.open_base_version(caller, &bucket, &key).await?),
            WriteMode::New | WriteMode::Replace => None,
        };
        let owner = shared.object_owner(caller, &bucket, key.as_str(), None);
        let owner = owner.await?;
        let size = write.size.unwrap_or(0);
        let tree = &shared.tree;
        tree.check_room(&bucket, &key, owner.owner, size).await?;
        let fresh = match (&encryption::chosen(None, &bucket)?, &base) {
            (None, _) => None,
            (Some(_), Some(_)) => return Err(no_change_of_encrypted(&path)),
            (Some(how), None) => Some(encryption::begin(how, &shared.master, &*shared.env.rng)?),
        };
        let want = wanted(&bucket, write.want);
        let pool = shared.pool_of_revision(base.as_ref());
        let origin = Written {
            owner: owner.owner.0,
            path,
            pool,
            ..Written::default()
        };
        let reservation = tree.reservation(&bucket, &key, owner.owner, there.as_ref());
        if base.is_none() {
            // The size of a changed file does not say how much will be written.
            let fits = tree.check_reservation(&reservation, &bucket, &key, size);
            fits.await?;
        }
        let data_key = fresh.as_ref().map(|fresh| &fresh.key);
        let log = ContentWriter::new(shared, want, write.size, origin, data_key).await?;
        let mut map = ExtentMap::default();
        let mut size = 0;
        let (mut headers, mut metadata) = (SystemHeaders::default(), BTreeMap::new());
        let (mut tags, mut xattrs) = (BTreeMap::new(), BTreeMap::new());
        let mut permissions = write.permissions & 0o7777;
        if let (Some(base), Some(file)) = (&base, there) {
            size = base.info.size;
            map.put(0, of_base(size));
            (headers, metadata, tags) = (
                file.current.headers,
                file.current.metadata,
                file.current.tags,
            );
            (permissions, xattrs) = (file.attributes.mode, file.attributes.xattrs);
        }
        Ok(Revision {
            principal: caller.to_string(),
            bucket,
            key,
            owner,
            permissions,
            xattrs,
            headers,
            metadata,
            tags,
            condition,
            fresh,
            base,
            want,
            pool,
            log,
            logged: 0,
            written: 0,
            reservation,
            sealed: SealedLogs {
                shared: SharedStore::clone(shared),
                logs: Vec::new(),
            },
            shared: SharedStore::clone(shared),
            map,
            size,
        })
    }

    /// The version that is to be changed, for a caller who may read it too.
    async fn open_base_version(
        &self,
        caller: &Caller,
        bucket: &Bucket,
        key: &ObjectKey,
    ) -> Result<OpenFile> {
        let request = current_version(bucket, key);
        let base = self.open_version(caller, bucket, &request).await?;
        match base.info.encrypted {
            None => Ok(base),
            Some(_) => Err(no_change_of_encrypted(&bucket.path(key.as_str()))),
        }
    }
}

/// The digests to compute, with those that every file of the bucket is to have.
fn wanted(bucket: &Bucket, asked: AlgorithmSet) -> AlgorithmSet {
    match bucket.settings().is_some_and(|settings| settings.md5) {
        true => asked.with(Algorithm::Md5),
        false => asked,
    }
}

impl Inner {
    /// The pool of what is written, `None` if it is the main one: what revises a version stays where that
    /// is, whatever pool its class would have now.
    fn pool_of_revision(&self, base: Option<&OpenFile>) -> Option<u16> {
        match base.and_then(|base| base.copies.first()) {
            Some(copy) => u16::try_from(copy.pool.0)
                .ok()
                .filter(|pool| *pool != self.number_of(None)),
            None => self.pool_of_class(None),
        }
    }
}

/// The content of a [`Revision`] at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    map: ExtentMap,
    size: u64,
    written: u64,
}

impl Revision {
    /// Bytes of the file as it is now.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Permission bits that the version will have.
    #[must_use]
    pub fn permissions(&self) -> u32 {
        self.permissions
    }

    /// The present content, for [`Revision::restore`]. Holds no bytes, only where they are: up to some
    /// megabytes for a file in very many pieces.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            map: self.map.clone(),
            size: self.size,
            written: self.written,
        }
    }

    /// Bytes written since a snapshot.
    #[must_use]
    pub fn written_since(&self, snapshot: &Snapshot) -> u64 {
        self.written - snapshot.written
    }

    /// Restores an earlier content. Bytes that were written meanwhile stay in the log, unseen, until the
    /// log goes.
    pub fn restore(&mut self, snapshot: Snapshot) {
        // Logs only grow, so what the map names is where it was.
        (self.map, self.size) = (snapshot.map, snapshot.size);
    }

    /// Writes bytes, at most about 1 MiB at once; waits while the disks are behind.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], also for a file in too many pieces; [`ErrorKind::Quota`] when all that was
    /// written does not fit, however much of it was written over; [`ErrorKind::NoSpace`],
    /// [`ErrorKind::Unavailable`].
    pub async fn write(&mut self, offset: u64, bytes: Bytes) -> Result<()> {
        self.write_paged(offset, bytes.into()).await
    }

    /// The same for bytes whose pages came with checksums, which are stored with them where a page of the
    /// file is a stored page.
    ///
    /// # Errors
    /// As [`Revision::write`].
    pub async fn write_paged(&mut self, offset: u64, paged: ChecksummedBytes) -> Result<()> {
        let len = paged.bytes().len() as u64;
        if len == 0 {
            // As on a POSIX file: the size stays too.
            return Ok(());
        }
        let end = offset.saturating_add(len);
        if end > OBJECT_BYTES_MAX {
            return Err(too_large(&self.path(), end));
        }
        if self.map.len() >= REVISION_RUNS_MAX {
            let message = format!(
                "{}: more than {REVISION_RUNS_MAX} pieces out of order",
                self.path()
            );
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let written = self.written.saturating_add(len);
        if written > self.reservation.covers() {
            let tree = &self.shared.tree;
            let reservation = &mut self.reservation;
            let reserved = tree.reserve(reservation, &self.bucket, &self.key, written);
            reserved.await?;
        }
        self.log.write_paged(paged).await?;
        let run = MappedExtent {
            len,
            origin: ExtentOrigin::Log(self.sealed.logs.len()),
            offset: self.logged,
        };
        self.map.put(offset, run);
        self.logged += len;
        self.written += len;
        self.size = self.size.max(end);
        Ok(())
    }

    /// Makes the file longer, by zeros, or shorter.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`].
    pub fn truncate(&mut self, size: u64) -> Result<()> {
        if size > OBJECT_BYTES_MAX {
            return Err(too_large(&self.path(), size));
        }
        if size < self.size {
            self.map.clear(ByteRange {
                start: size,
                end: self.size,
            });
        }
        self.size = size;
        Ok(())
    }

    /// Reads a range as it is now. The part behind the end is left out. All of it is held in
    /// memory, so ask for little at once.
    ///
    /// # Errors
    /// As [`crate::Download::next`]; [`ErrorKind::Unsupported`] for what was written to encrypted
    /// content, and when reading and writing took turns too often.
    pub async fn read(&mut self, range: ByteRange) -> Result<Bytes> {
        let range = ByteRange {
            start: range.start.min(self.size),
            end: range.end.min(self.size),
        };
        let current = ExtentOrigin::Log(self.sealed.logs.len());
        let in_log =
            |(_, run): &(u64, Option<MappedExtent>)| run.is_some_and(|run| run.origin == current);
        if self.map.pieces(range).iter().any(in_log) && self.log.in_memory().is_none() {
            self.seal_log().await?;
        }
        let mut out = BytesMut::with_capacity(range.len() as usize);
        for (len, run) in self.map.pieces(range) {
            self.read_piece(len, run, &mut out).await?;
        }
        Ok(out.freeze())
    }

    async fn read_piece(
        &self,
        len: u64,
        run: Option<MappedExtent>,
        out: &mut BytesMut,
    ) -> Result<()> {
        let Some(run) = run else {
            out.resize(out.len() + len as usize, 0);
            return Ok(());
        };
        let range = ByteRange {
            start: run.offset,
            end: run.offset + run.len,
        };
        match (run.origin, &self.base) {
            (ExtentOrigin::Base, Some(base)) => {
                let mut bytes = base.read(range);
                while let Some(bytes) = bytes.next().await {
                    out.extend_from_slice(&bytes?);
                }
            }
            (ExtentOrigin::Log(number), _) => match self.sealed.logs.get(number) {
                Some(log) => {
                    let reader = self.shared.blobs.open(Arc::new(log.record.clone()))?;
                    out.extend_from_slice(&reader.read(range).await?);
                }
                None => copy_range(self.log.in_memory().unwrap_or_default(), range, out),
            },
            (ExtentOrigin::Base, None) => {}
        }
        Ok(())
    }

    /// Ends the log and begins another, so that what is in it can be read.
    async fn seal_log(&mut self) -> Result<()> {
        let path = self.path();
        if self.fresh.is_some() {
            let message = format!("{path}: what is being encrypted cannot be read yet");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if self.sealed.logs.len() >= READ_WRITE_SWITCHES_MAX {
            let message = format!("{path}: reading and writing took turns too often");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let origin = Written {
            owner: self.owner.owner.0,
            path,
            part: Some(self.fragment().await?),
            pool: self.pool,
            ..Written::default()
        };
        let next =
            ContentWriter::new(&self.shared, AlgorithmSet::EMPTY, None, origin, None).await?;
        let mut log = std::mem::replace(&mut self.log, next);
        log.is_part(self.fragment().await?);
        self.logged = 0;
        let received = log
            .finish(&ExpectedContent::default(), |_| Ok((None, None)))
            .await?;
        let extent = first_extent(received.copies);
        match (received.held, extent) {
            (StagedContent::Large { record }, Some(extent)) => {
                self.sealed.logs.push(SealedLog {
                    record,
                    extent,
                    digests: received.digests,
                });
                Ok(())
            }
            _ => Err(Error::new(
                ErrorKind::Internal,
                "a log in memory was sealed",
            )),
        }
    }

    /// What tells salvage that a log is no file of its own.
    async fn fragment(&self) -> Result<PartOf> {
        Ok(PartOf {
            upload: self.shared.tree.ids().upload().await?,
            number: 1,
        })
    }

    fn path(&self) -> String {
        self.bucket.path(self.key.as_str())
    }

    /// The whole file, when it is one log from its first byte to its last.
    fn whole_log(&self) -> Option<usize> {
        if self.size == 0 {
            return (self.sealed.logs.is_empty() && self.logged == 0).then_some(0);
        }
        match self.map.pieces(ByteRange::whole(self.size))[..] {
            [
                (
                    _,
                    Some(MappedExtent {
                        len,
                        origin: ExtentOrigin::Log(number),
                        offset: 0,
                    }),
                ),
            ] => {
                let log = self.sealed.logs.get(number);
                let its = log.map_or(self.logged, |log| log.record.len);
                (its == len).then_some(number)
            }
            _ => None,
        }
    }

    /// The file is complete: makes it durable and gives it its name.
    ///
    /// # Errors
    /// [`ErrorKind::IncompleteBody`] when its size is another than `size`,
    /// [`ErrorKind::AlreadyExists`] for a new file whose name was taken meanwhile,
    /// [`ErrorKind::Conflict`] where what was changed was replaced meanwhile; those of
    /// [`crate::Upload::commit`]. The name is as it was.
    pub async fn commit(mut self, size: Option<u64>) -> Result<ObjectInfo> {
        let path = self.path();
        if let Some(size) = size.filter(|size| *size != self.size) {
            let message = format!("{path}: {} of {size} bytes came", self.size);
            return Err(Error::new(ErrorKind::IncompleteBody, message));
        }
        let whole = self.whole_log();
        if whole.is_none() && self.fresh.is_some() {
            let what = "encrypted content must be written in order";
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("{path}: {what}"),
            ));
        }
        let zeros = match whole {
            Some(_) => None,
            None => self.put_zeros().await?,
        };
        if whole.is_none() {
            let fragment = self.fragment().await?;
            self.log.is_part(fragment);
        }
        self.finish(whole, zeros).await
    }

    /// Puts a stretch of zeros in the log that stands for all holes; where it is and how long.
    async fn put_zeros(&mut self) -> Result<Option<(u64, u64)>> {
        let pieces = self.map.pieces(ByteRange::whole(self.size));
        let holes = pieces.iter().filter(|(_, run)| run.is_none());
        let Some(longest) = holes.map(|(len, _)| *len).max() else {
            return Ok(None);
        };
        let len = longest.min(ZEROS_MAX);
        let at = self.logged;
        let chunk = Bytes::from(vec![0; len.min(ZEROS_AT_ONCE) as usize]);
        let mut left = len;
        while left > 0 {
            let take = left.min(chunk.len() as u64);
            self.log.write(chunk.slice(..take as usize)).await?;
            left -= take;
        }
        self.logged += len;
        Ok(Some((at, len)))
    }

    async fn finish(self, whole: Option<usize>, zeros: Option<(u64, u64)>) -> Result<ObjectInfo> {
        let current = self.sealed.logs.len();
        let (fresh, rng) = (self.fresh, Arc::clone(&self.shared.env.rng));
        let master = Arc::clone(&self.shared.master);
        let mut encrypted = None;
        let version = self.log.version();
        let received = self
            .log
            .finish(&ExpectedContent::default(), |clear| {
                if let Some(fresh) = fresh {
                    encrypted = Some(fresh.finish(&master, &*rng, *clear, None)?);
                }
                Ok(encrypted.clone().unzip())
            })
            .await?;
        let new_extent = first_extent(received.copies);
        let assembled = AssemblySources {
            logs: self
                .sealed
                .logs
                .iter()
                .map(|log| Some(log.extent))
                .chain([new_extent])
                .collect(),
            base: self.base.as_ref(),
            zeros: zeros.map(|(at, len)| (current, at, len)),
        };
        let extents = assembled.extents(&self.map, self.size)?;
        let digests = match whole {
            Some(number) if number < current => self.sealed.logs[number].digests,
            Some(_) => received.digests,
            None if self.size <= self.written.saturating_mul(DIGEST_SHARE) => {
                let pass = UncommittedReader {
                    shared: &self.shared,
                    sealed: &self.sealed.logs,
                    held: &received.held,
                };
                pass.digests(self.want, &extents).await?
            }
            None => DigestSet::ABSENT,
        };
        let mut held = received.held;
        let mut sealed = self.sealed;
        sealed.drop_unused(&extents);
        if !held.is_in(&extents) {
            held.give_up(&self.shared).await;
            held = StagedContent::Nothing;
        }
        let copies = vec![ContentCopy {
            pool: PoolId(self.shared.number_of(self.pool).into()),
            extents,
            ..ContentCopy::default()
        }];
        let mut new = NewVersion {
            id: Some(version),
            headers: self.headers,
            metadata: self.metadata,
            tags: self.tags,
            copies,
            mode: self.permissions,
            xattrs: self.xattrs,
            acl: self.owner.acl_bytes(),
            storage_class: self
                .base
                .as_ref()
                .and_then(|base| base.storage_class.clone()),
            revises: self
                .base
                .as_ref()
                .map(|base| (base.info.version, base.copies.clone())),
            ..NewVersion::new(self.size, ETag::Version, DigestSet::ABSENT, Vec::new())
        };
        match encrypted {
            None => {
                new.etag = digests.md5().map_or(ETag::Version, ETag::Md5);
                // Readers of S3 see no other.
                new.checksum = shown_checksum(&digests);
                new.digests = digests;
            }
            Some((record, etag)) => {
                new.etag = etag;
                new.encryption = Some(record);
            }
        }
        let naming = VersionCommit {
            shared: self.shared,
            principal: self.principal,
            bucket: self.bucket,
            key: self.key,
            owner: self.owner,
            condition: self.condition,
            held,
            sealed,
            reservation: self.reservation,
            _base: self.base,
        };
        run_to_completion(naming.publish(new, digests)).await
    }
}

/// What readers of S3 see of the digests that were computed.
fn shown_checksum(digests: &DigestSet) -> Option<DisplayedChecksum> {
    let crc32c = digests.get(Algorithm::Crc32c);
    full_checksum(crc32c.map(|crc| crc.algorithm()))
}

/// What is needed to give a version its name.
struct VersionCommit {
    shared: SharedStore,
    principal: String,
    bucket: Bucket,
    key: ObjectKey,
    owner: ObjectOwner,
    condition: Condition,
    held: StagedContent,
    sealed: SealedLogs,
    reservation: Reservation,
    /// Keeps the revised content until it is shared.
    _base: Option<OpenFile>,
}

impl VersionCommit {
    async fn publish(mut self, new: NewVersion, clear: DigestSet) -> Result<ObjectInfo> {
        let mut extra: DataChanges = self.held.extra();
        for log in &self.sealed.logs {
            extra.puts.extend(blob_extra(&log.record).puts);
        }
        // What the version counts is judged in its batch.
        drop(self.reservation);
        let outcome = self
            .shared
            .tree
            .publish(
                &self.owner.actor(&self.principal),
                &self.bucket,
                &self.key,
                new,
                &self.condition,
                &extra,
            )
            .await;
        for log in std::mem::take(&mut self.sealed.logs) {
            let held = StagedContent::Large { record: log.record };
            held.settle(&self.shared, &outcome).await;
        }
        self.held.settle(&self.shared, &outcome).await;
        let published = outcome.map_err(|error| match error.kind() {
            // The only condition there is: that there was nothing.
            ErrorKind::Precondition => {
                let message = format!("{} exists", self.bucket.path(self.key.as_str()));
                Error::with_source(ErrorKind::AlreadyExists, message, error)
            }
            _ => error,
        })?;
        let mut version = published.version;
        version.digests = clear;
        let info = version_info(&self.bucket, self.owner.owner, &version);
        with_expiry(info, &self.bucket, self.key.as_str(), &version)
    }
}

fn of_base(len: u64) -> MappedExtent {
    MappedExtent {
        len,
        origin: ExtentOrigin::Base,
        offset: 0,
    }
}

/// Where a log lies; an empty one lies nowhere.
fn first_extent(copies: Vec<ContentCopy>) -> Option<Extent> {
    copies.into_iter().flat_map(|copy| copy.extents).next()
}

/// Copies a range of what lies in several buffers.
fn copy_range(parts: &[Bytes], range: ByteRange, out: &mut BytesMut) {
    let mut at = 0;
    for part in parts {
        let end = at + part.len() as u64;
        let from = range.start.max(at);
        let to = range.end.min(end);
        if from < to {
            out.extend_from_slice(&part[(from - at) as usize..(to - at) as usize]);
        }
        at = end;
    }
}

pub(super) fn too_large(path: &str, size: u64) -> Error {
    let message = format!("{path}: {size} bytes, {OBJECT_BYTES_MAX} are allowed");
    Error::new(ErrorKind::TooLarge, message)
}

fn no_change_of_encrypted(path: &str) -> Error {
    let message = format!("{path}: encrypted content cannot be changed in place");
    Error::new(ErrorKind::Unsupported, message)
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revision({})", self.path())
    }
}
