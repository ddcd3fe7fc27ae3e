//! A new version, written in order or at any places and seen when it is committed.
//!
//! Written bytes go to the end of a log ([`crate::content_log`]), which is a blob like any other, or
//! stays in memory if it is small. A map says which bytes of the version stand where. Bytes that come
//! in order are one run of one log, and the version is that log. Else the version is made of extents
//! of logs and of the version that it revises, whose blobs it shares.
//!
//! - **Reading what was written.** A log that is on the disks is sealed first and another one begun.
//! - **Holes** read as zeros; a stretch of zeros in the log stands for all of them.
//! - **Digests** are those of the stream, where the bytes came in order. Else they are computed by a
//!   pass over the new version before its commit, if the client expects one, or if at least a part of
//!   the version as large as [`DIGEST_SHARE`] says was written now; a small change of a large file
//!   leaves it without.
//! - **Quotas.** Under the rules of a hierarchy, the bytes of the logs are reserved as they come,
//!   whether the version will name them or not. A commit exchanges the reservation for what the
//!   version counts.
//! - **Crashes and cancellation.** Sealed logs that nothing names are collected by the sweep of the
//!   next start; dropping a writer removes them.

mod assembly;
mod extent_map;
mod memory;
mod sealed_logs;
mod version_commit;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use dewar_auth::Caller;
use dewar_catalog::record::{ContentCopy, DisplayedChecksum, ETag, Extent};
use dewar_checksum::{Algorithm, AlgorithmSet, Digest, DigestSet};
use dewar_disks::blob::ChecksummedBytes;
use dewar_namespace::{Bucket, Hierarchy, NewVersion, Reservation, ResolvedName};
use dewar_types::{ByteRange, Error, ErrorKind, ObjectKey, PoolId, Result};
use minicbor::bytes::ByteVec;

use crate::access::ObjectOwner;
use crate::api::{
    DigestMismatch, ExpectedContent, ObjectInfo, VersionAttributes, WriteCondition, WriteMode,
    WriteRequest,
};
use crate::content_log::{ContentLog, StagedContent};
use crate::content_reader::{ContentReader, ReadOrder};
use crate::encryption::{self, NewDataKey};
use crate::info::{check_metadata, full_checksum};
use crate::limits::{OBJECT_BYTES_MAX, READ_WRITE_SWITCHES_MAX, REVISION_RUNS_MAX};
use crate::write::{AuthorizedWrite, current_version, run_to_completion};
use crate::{Inner, SharedStore, Store};
use dewar_disks::salvage_header::{PartOf, SalvageOrigin};

use assembly::{AssemblySources, UncommittedReader};
use extent_map::{ExtentMap, ExtentOrigin, MappedExtent};
use sealed_logs::{SealedLog, SealedLogs};
use version_commit::VersionCommit;

/// Digests are computed anew for a file of at most so many times the bytes that were written.
const DIGEST_SHARE: u64 = 4;

/// Longest stretch of zeros that is stored to stand for holes.
const ZEROS_MAX: u64 = 16 << 20;

/// Zeros written at once.
const ZEROS_AT_ONCE: u64 = 1 << 20;

/// A new version on its way in. Nothing of it can be seen before [`ContentWriter::commit`]; dropped,
/// it was never there.
pub struct ContentWriter {
    shared: SharedStore,
    /// The principal that began it, for the change log. The caller itself would keep its policies in
    /// memory.
    principal: String,
    bucket: Bucket,
    key: ObjectKey,
    /// The name as it was looked up before the first byte, if the commit may start from it.
    found: Option<ResolvedName>,
    owner: ObjectOwner,
    pub(crate) permissions: u32,
    pub(crate) xattrs: BTreeMap<String, ByteVec>,
    attributes: VersionAttributes,
    condition: WriteCondition,
    hierarchy: Hierarchy,
    /// Whether the only condition is that nothing has the name.
    is_new: bool,
    /// The digest to show as the checksum of the version.
    checksum: Option<Algorithm>,
    fresh: Option<NewDataKey>,
    base: Option<ContentReader>,
    want: AlgorithmSet,
    /// The pool of what is written, if not the main one.
    pool: Option<u16>,
    log: ContentLog,
    /// Bytes in that log.
    logged: u64,
    /// Bytes in all logs.
    written: u64,
    reservation: Option<Reservation>,
    sealed: SealedLogs,
    map: ExtentMap,
    size: u64,
}

impl Store {
    /// Begins to write where the caller may.
    #[allow(
        clippy::too_many_lines,
        reason = "one field of the writer after the other"
    )]
    pub(crate) async fn begin_write(
        &self,
        caller: &Caller,
        write: AuthorizedWrite,
        request: WriteRequest,
    ) -> Result<ContentWriter> {
        let shared = &self.inner;
        let AuthorizedWrite {
            bucket,
            found,
            condition,
        } = write;
        let strict = request.hierarchy == Hierarchy::Strict;
        let (key, mut attributes) = (request.object.key, request.attributes);
        let path = bucket.path(key.as_str());
        let base = match request.mode {
            WriteMode::Update => {
                let base = self.open_base_version(caller, &bucket, &key, found.clone());
                Some(base.await?)
            }
            WriteMode::New | WriteMode::Replace => None,
        };
        let owner = shared
            .object_owner(caller, &bucket, key.as_str(), request.acl.as_ref())
            .await?;
        let tree = &shared.tree;
        let mut reservation = None;
        if let Some(found) = found.as_ref().filter(|_| strict || request.size.is_some()) {
            let size = request.size.unwrap_or(0);
            tree.check_room(found, owner.owner, size).await?;
            if strict {
                let reserved = tree.reservation(&bucket, &key, owner.owner, found.file());
                // The size of a changed file does not say how much will be written.
                if base.is_none() {
                    tree.check_reservation(&reserved, found, size).await?;
                }
                reservation = Some(reserved);
            }
        }
        check_metadata(&attributes)?;
        let fresh = match (&encryption::chosen(request.encryption, &bucket)?, &base) {
            (None, _) => None,
            (Some(_), Some(_)) => return Err(no_change_of_encrypted(&path)),
            (Some(how), None) => Some(encryption::begin(how, &shared.master, &*shared.env.rng)?),
        };
        let want = request
            .checksum
            .into_iter()
            .fold(request.want, AlgorithmSet::with);
        let want = wanted(&bucket, want);
        let pool = match &base {
            Some(base) => shared.pool_of_base(base),
            None => shared.pool_of_class(attributes.storage_class.as_deref()),
        };
        let origin = SalvageOrigin {
            owner: owner.owner.0,
            path,
            part: None,
            pool,
        };
        let data_key = fresh.as_ref().map(|fresh| &fresh.key);
        let log = ContentLog::new(shared, want, request.size, origin, data_key).await?;
        let mut map = ExtentMap::default();
        let mut size = 0;
        let (mut permissions, mut xattrs) = (request.permissions & 0o7777, BTreeMap::new());
        let there = found.as_ref().and_then(ResolvedName::file);
        if let (Some(base), Some(file)) = (&base, there) {
            size = base.info.size;
            map.put(0, of_base(size));
            attributes = VersionAttributes {
                // They belong to the version that is changed.
                retention: None,
                legal_hold: None,
                client_modified: None,
                ..VersionAttributes::from(&file.current)
            };
            (permissions, xattrs) = (file.attributes.mode, file.attributes.xattrs.clone());
        } else if let (true, Some(file)) = (request.keep_extended, there) {
            xattrs.clone_from(&file.attributes.xattrs);
        }
        attributes.acl = owner.acl_bytes();
        Ok(ContentWriter {
            principal: caller.to_string(),
            bucket,
            key,
            // A file may be open for long, and many are at once.
            found: found.filter(|_| !strict),
            owner,
            permissions,
            xattrs,
            attributes,
            condition,
            hierarchy: request.hierarchy,
            is_new: strict && request.condition.is_none(),
            checksum: request.checksum,
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
        found: Option<ResolvedName>,
    ) -> Result<ContentReader> {
        let request = current_version(bucket, key);
        let (inner, order) = (&self.inner, ReadOrder::Random);
        let base = inner
            .open_version(caller, bucket, &request, found, order)
            .await?;
        match base.info.encrypted {
            None => Ok(base),
            Some(_) => Err(no_change_of_encrypted(&bucket.path(key.as_str()))),
        }
    }
}

/// The digests to compute, with those that every version of the bucket is to have.
fn wanted(bucket: &Bucket, asked: AlgorithmSet) -> AlgorithmSet {
    match bucket.settings().is_some_and(|settings| settings.md5) {
        true => asked.with(Algorithm::Md5),
        false => asked,
    }
}

impl Inner {
    /// The pool of what revises a version, `None` if it is the main one: it stays where that version
    /// is, whatever pool its class would have now.
    fn pool_of_base(&self, base: &ContentReader) -> Option<u16> {
        match base.copies.first() {
            Some(copy) => u16::try_from(copy.pool.0)
                .ok()
                .filter(|pool| *pool != self.number_of(None)),
            None => self.pool_of_class(None),
        }
    }
}

/// The content of a [`ContentWriter`] at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    map: ExtentMap,
    size: u64,
    written: u64,
}

impl ContentWriter {
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

    /// The present content, for [`ContentWriter::restore`]. Holds no bytes, only where they are: up to some
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

    /// Reserves quota for a version of so many bytes before they come. The reservation is given back
    /// when the writer is dropped, and exchanged for what the version counts when it commits.
    ///
    /// # Errors
    /// [`ErrorKind::Quota`]; nothing is reserved then.
    pub async fn reserve(&mut self, bytes: u64) -> Result<()> {
        match &mut self.reservation {
            Some(reservation) => {
                let tree = &self.shared.tree;
                let reserved = tree.reserve(reservation, &self.bucket, &self.key, bytes);
                reserved.await
            }
            None => Ok(()),
        }
    }

    /// Writes the next bytes, at most about 1 MiB at once. Waits while the disks are slower than the
    /// client.
    ///
    /// # Errors
    /// As [`ContentWriter::write_at`].
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.write_at(self.size, bytes.into()).await
    }

    /// Writes bytes at a place. Checksums of pages that came with them are stored where a page of the
    /// file is a stored page.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], also for a file in too many pieces; [`ErrorKind::Quota`] when all that was
    /// written does not fit, however much of it was written over; [`ErrorKind::NoSpace`],
    /// [`ErrorKind::Unavailable`].
    pub async fn write_at(&mut self, offset: u64, paged: ChecksummedBytes) -> Result<()> {
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
        if let Some(reservation) = &mut self.reservation
            && written > reservation.covers()
        {
            let tree = &self.shared.tree;
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
    /// As [`crate::ContentReader::next`]; [`ErrorKind::Unsupported`] for what was written to encrypted
    /// content, and when reading and writing took turns too often.
    pub async fn read_back(&mut self, range: ByteRange) -> Result<Bytes> {
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
            let message = format!("{path}: encrypted content cannot be read before it is complete");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        if self.sealed.logs.len() >= READ_WRITE_SWITCHES_MAX {
            let message = format!("{path}: reading and writing took turns too often");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let origin = SalvageOrigin {
            owner: self.owner.owner.0,
            path,
            part: Some(self.fragment().await?),
            pool: self.pool,
        };
        let next = ContentLog::new(&self.shared, AlgorithmSet::EMPTY, None, origin, None).await?;
        let mut log = std::mem::replace(&mut self.log, next);
        log.is_part(self.fragment().await?);
        self.logged = 0;
        let received = log
            .finish(
                &ExpectedContent::default(),
                &VersionAttributes::default(),
                |_| Ok((None, None)),
            )
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

    /// The version is complete: makes it durable and gives it its name, if it is as `expect` says.
    ///
    /// # Errors
    /// [`ErrorKind::IncompleteBody`], [`ErrorKind::ChecksumMismatch`], [`ErrorKind::Precondition`],
    /// [`ErrorKind::AlreadyExists`] for a new file whose name was taken meanwhile,
    /// [`ErrorKind::Conflict`] where what was changed was replaced meanwhile,
    /// [`ErrorKind::NoSuchBucket`], [`ErrorKind::Quota`], [`ErrorKind::NoSpace`],
    /// [`ErrorKind::Unavailable`]; in a hierarchy also [`ErrorKind::IsADirectory`] and
    /// [`ErrorKind::NotADirectory`]. The name is unchanged then.
    pub async fn commit(mut self, expect: ExpectedContent) -> Result<ObjectInfo> {
        if let Some(size) = expect.size.filter(|size| *size != self.size) {
            let message = format!("{}: {} of {size} bytes came", self.path(), self.size);
            return Err(Error::new(ErrorKind::IncompleteBody, message));
        }
        let whole = self.whole_log();
        let mut zeros = None;
        if whole.is_none() {
            if self.fresh.is_some() {
                let message = format!(
                    "{}: encrypted content must be written in order",
                    self.path()
                );
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            zeros = self.put_zeros().await?;
            let fragment = self.fragment().await?;
            self.log.is_part(fragment);
        }
        self.finish(whole, zeros, expect.digests).await
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

    #[allow(
        clippy::too_many_lines,
        reason = "the steps of one commit, in their order"
    )]
    async fn finish(
        self,
        whole: Option<usize>,
        zeros: Option<(u64, u64)>,
        expected: Vec<Digest>,
    ) -> Result<ObjectInfo> {
        let current = self.sealed.logs.len();
        let (path, computed) = (self.path(), !expected.is_empty());
        let mut expect = ExpectedContent::default();
        // Those of the log are compared before it is sealed.
        if whole == Some(current) {
            expect.digests.clone_from(&expected);
        }
        let (fresh, rng) = (self.fresh, Arc::clone(&self.shared.env.rng));
        let master = Arc::clone(&self.shared.master);
        let mut checksum = full_checksum(self.checksum);
        let mut encrypted = None;
        let version = self.log.version();
        let received = self
            .log
            .finish(&expect, &self.attributes, |clear| {
                if let Some(fresh) = fresh {
                    encrypted = Some(fresh.finish(&master, &*rng, *clear, checksum.clone())?);
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
            None if computed || self.size <= self.written.saturating_mul(DIGEST_SHARE) => {
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
        if let Some(other) = expected
            .iter()
            .find(|one| digests.verify(one) != Some(true))
        {
            held.give_up(&self.shared).await;
            return Err(DigestMismatch::error(other, &digests, &path));
        }
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
            attributes: self.attributes,
            copies,
            mode: self.permissions,
            xattrs: self.xattrs,
            hierarchy: self.hierarchy,
            revises: self
                .base
                .as_ref()
                .map(|base| (base.info.version, base.copies.clone())),
            ..NewVersion::new(self.size, ETag::Version, DigestSet::ABSENT, Vec::new())
        };
        match encrypted {
            None => {
                new.etag = digests.md5().map_or(ETag::Version, ETag::Md5);
                if checksum.is_none() && self.hierarchy == Hierarchy::Strict {
                    // Readers of S3 see no other.
                    checksum = shown_checksum(&digests);
                }
                new.checksum.clone_from(&checksum);
                new.digests = digests;
            }
            Some((record, etag)) => {
                new.etag = etag;
                new.checksum = checksum.as_ref().map(encryption::named);
                new.encryption = Some(record);
            }
        }
        let naming = VersionCommit {
            shared: self.shared,
            principal: self.principal,
            bucket: self.bucket,
            key: self.key,
            found: self.found,
            owner: self.owner,
            condition: self.condition,
            is_new: self.is_new,
            held,
            sealed,
            reservation: self.reservation,
            _base: self.base,
        };
        run_to_completion(naming.publish(new, digests, checksum)).await
    }
}

/// What readers of S3 see of the digests that were computed.
fn shown_checksum(digests: &DigestSet) -> Option<DisplayedChecksum> {
    let crc32c = digests.get(Algorithm::Crc32c);
    full_checksum(crc32c.map(|crc| crc.algorithm()))
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

pub(crate) fn too_large(path: &str, size: u64) -> Error {
    let message = format!("{path}: {size} bytes, {OBJECT_BYTES_MAX} are allowed");
    Error::new(ErrorKind::TooLarge, message)
}

fn no_change_of_encrypted(path: &str) -> Error {
    let message = format!("{path}: encrypted content cannot be changed in place");
    Error::new(ErrorKind::Unsupported, message)
}

impl fmt::Debug for ContentWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentWriter({})", self.path())
    }
}
