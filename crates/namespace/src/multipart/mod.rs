//! Multipart uploads: parts are written like files without a name, and joined without copying.
//!
//! A part put, a completion and an abort all require that the upload's record is unchanged. The
//! last two remove the record. Exactly one of them therefore succeeds, and no part is added
//! afterwards. They also require that the set of parts is exactly the one that they read (each part
//! unchanged, the gaps between them empty), so no part is left over.

mod complete;
mod list;
mod owners;
mod upload_charge;

use bytes::Bytes;
use dewar_catalog::record::{
    ContentCopy, DisplayedChecksum, ETag, EncryptionRecord, PartRecord, Record, UploadChecksum,
    UploadRecord,
};
use dewar_catalog::{Actor, keys};
use dewar_checksum::DigestSet;
use dewar_kv::{Precondition, ReadValue, Scan};
use dewar_types::{
    ByteRange, Error, ErrorKind, GroupId, ObjectKey, PoolId, Timestamp, UploadId, VersionId,
};

use super::batch_builder::{BatchBuilder, CommitOutcome};
use super::copy::{CopyOptions, slice};
use super::publish::DataChanges;
use super::resolve::{NameRef, ResolvedPath};
use super::retry::ConflictRetry;
use super::version_attributes::VersionAttributes;
use super::{Bucket, Tree, charge};

pub use complete::{CompleteFn, CompletePart, CompletedObject};
pub use list::{ListedUpload, PartPage, UploadPage, UploadQuery};
pub use owners::{OpenUploadEntry, UploadUsage};

/// Highest part number.
pub const PART_NUMBER_MAX: u16 = 10_000;

/// Attributes of the finished file besides its content.
#[derive(Clone, Debug)]
pub struct NewUpload {
    /// The group that will own the file.
    pub group: Option<GroupId>,
    /// Permission bits of the file.
    pub mode: u32,
    /// Attributes of the version.
    pub attributes: VersionAttributes,
    /// The checksum that the client announced.
    pub checksum: Option<UploadChecksum>,
    /// How the parts will be encrypted.
    pub encryption: Option<EncryptionRecord>,
    /// Pool of the parts; the default pool if `None`.
    pub pool: Option<PoolId>,
}

impl Default for NewUpload {
    fn default() -> Self {
        Self {
            group: None,
            mode: 0o644,
            attributes: VersionAttributes::default(),
            checksum: None,
            encryption: None,
            pool: None,
        }
    }
}

impl NewUpload {
    /// What is stored of it.
    pub(super) fn record(
        &self,
        id: UploadId,
        actor: &Actor<'_>,
        initiated: Timestamp,
        chain: &ResolvedPath,
    ) -> UploadRecord {
        let attributes = self.attributes.clone();
        UploadRecord {
            spaces: chain.spaces().collect(),
            id,
            owner: actor.user,
            group: self.group.or_else(|| chain.group()),
            mode: self.mode,
            initiated,
            principal: actor.principal.to_owned(),
            headers: attributes.headers,
            metadata: attributes.metadata,
            checksum: self.checksum.clone(),
            storage_class: attributes.storage_class,
            encryption: self.encryption.clone(),
            pool: self.pool,
            tags: attributes.tags.unwrap_or_default(),
            retention: attributes.retention,
            legal_hold: attributes.legal_hold,
            acl: attributes.acl,
        }
    }
}

/// A part that was written. All blobs and slots in `copies` must be new.
#[derive(Clone, Debug)]
pub struct NewPart {
    /// The id under which it was written, if it was minted before.
    pub id: Option<VersionId>,
    /// Bytes.
    pub size: u64,
    /// ETag by which the client must name the part.
    pub etag: ETag,
    /// Digests of the part.
    pub digests: DigestSet,
    /// Places of the bytes.
    pub copies: Vec<ContentCopy>,
    /// The checksum to be shown to readers.
    pub checksum: Option<DisplayedChecksum>,
}

/// Names of a copied part, which the caller knows.
#[derive(Clone, Debug)]
pub struct PartNames {
    /// ETag by which the client must name the part.
    pub etag: ETag,
    /// Digests of the part.
    pub digests: DigestSet,
    /// The checksum to be shown to readers.
    pub checksum: Option<DisplayedChecksum>,
}

/// An upload and the reads that found it.
pub(super) struct OpenUpload {
    pub(super) chain: ResolvedPath,
    pub(super) key: Bytes,
    pub(super) read: ReadValue,
    pub(super) record: UploadRecord,
}

/// A part and the read that found it.
struct StoredPart {
    number: u16,
    key: Bytes,
    value: Bytes,
    seq: dewar_kv::Seq,
    record: PartRecord,
}

impl Tree {
    /// Begins an upload.
    ///
    /// # Errors
    /// `NoSuchBucket`; `Quota`; `Conflict`; errors of the engine.
    pub async fn create_upload(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        key: &ObjectKey,
        new: &NewUpload,
    ) -> Result<UploadRecord, Error> {
        let id = self.ids().upload().await?;
        let mut turn = ConflictRetry::new(self, bucket.path(key.as_str()));
        loop {
            let (dirs, _) = key.split();
            let chain = self.resolve(bucket, &dirs).await?;
            let mut stage = BatchBuilder::new(self);
            stage.keep_to_quotas();
            let record = new.record(id, actor, stage.now(), &chain);
            let key = keys::upload(bucket.id, key.as_str(), id);
            stage.begin_upload(chain, key, record.clone()).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(record),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// The record of an upload in progress.
    ///
    /// # Errors
    /// `NoSuchUpload`, `NoSuchBucket`; errors of the engine.
    pub async fn upload(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        upload: UploadId,
    ) -> Result<UploadRecord, Error> {
        Ok(self.open_upload(bucket, key, upload).await?.record)
    }

    pub(super) async fn open_upload(
        &self,
        bucket: &Bucket,
        object: &ObjectKey,
        upload: UploadId,
    ) -> Result<OpenUpload, Error> {
        let (dirs, _) = object.split();
        let chain = self.resolve(bucket, &dirs).await?;
        let key = keys::upload(bucket.id, object.as_str(), upload);
        let read = self.kv().get(&key).await?;
        let Some(value) = &read.value else {
            return Err(Error::new(
                ErrorKind::NoSuchUpload,
                format!(
                    "upload {upload} of {} does not exist",
                    bucket.path(object.as_str())
                ),
            ));
        };
        let record = UploadRecord::from_value(&key, value)?;
        Ok(OpenUpload {
            chain,
            key,
            read,
            record,
        })
    }

    /// Adds a part, or replaces one (the old one's blobs are freed). It is charged to the owner of
    /// the upload from now on.
    ///
    /// # Errors
    /// `NoSuchUpload`; `InvalidArgument` for a part number outside 1 to 10,000; `Quota`;
    /// `Conflict`.
    pub async fn put_part(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        upload: UploadId,
        number: u16,
        new: &NewPart,
        extra: &DataChanges,
    ) -> Result<PartRecord, Error> {
        check_number(number)?;
        let id = match new.id {
            Some(id) => id,
            None => self.ids().version().await?,
        };
        let mut turn = ConflictRetry::new(self, bucket.path(key.as_str()));
        loop {
            let open = self.open_upload(bucket, key, upload).await?;
            let mut stage = BatchBuilder::new(self);
            stage.keep_to_quotas();
            for copy in &new.copies {
                stage.fresh(&copy.extents);
            }
            extra.stage(&mut stage);
            let record = PartRecord {
                id,
                size: new.size,
                etag: new.etag.clone(),
                modified: stage.now(),
                digests: new.digests,
                copies: new.copies.clone(),
                checksum: new.checksum.clone(),
            };
            let record = stage.place_part(&open, number, record).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(record),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// Adds a part that shares the bytes of a file, or of a range of it. `names` are for a
    /// whole file the source's, for a range computed by reading.
    ///
    /// # Errors
    /// As [`Tree::put_part`] and [`Tree::copy`]; `InvalidRange` when the source is shorter.
    #[allow(
        clippy::too_many_arguments,
        reason = "the wire's own list: what, from where, to where"
    )]
    pub async fn copy_part(
        &self,
        mut from: NameRef<'_>,
        range: Option<ByteRange>,
        options: &CopyOptions,
        (bucket, key): (&Bucket, &ObjectKey),
        upload: UploadId,
        number: u16,
        names: PartNames,
    ) -> Result<PartRecord, Error> {
        check_number(number)?;
        let id = self.ids().version().await?;
        let mut turn = ConflictRetry::new(self, bucket.path(key.as_str()));
        loop {
            let open = self.open_upload(bucket, key, upload).await?;
            let Some(mut source) = self.source(&mut from, options).await? else {
                turn.lost().await?;
                continue;
            };
            let range = range.unwrap_or(ByteRange::whole(source.version.size));
            let mut stage = BatchBuilder::new(self);
            stage.keep_to_quotas();
            stage.watch_source(&source);
            for copy in &mut source.copies {
                copy.extents = slice(&copy.extents, range)?;
                stage.share(&copy.extents);
            }
            let record = PartRecord {
                id,
                size: range.len(),
                etag: names.etag.clone(),
                modified: stage.now(),
                digests: names.digests,
                copies: source.copies,
                checksum: names.checksum.clone(),
            };
            let record = stage.place_part(&open, number, record).await?;
            match stage.commit().await? {
                CommitOutcome::Done => return Ok(record),
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// Ends an upload and frees its parts.
    ///
    /// # Errors
    /// `NoSuchUpload`, also when a completion came first; `Conflict`.
    pub async fn abort_upload(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        key: &ObjectKey,
        upload: UploadId,
    ) -> Result<(), Error> {
        let always = |_| true;
        self.abort_upload_if(actor, bucket, key, upload, always)
            .await?;
        Ok(())
    }

    /// Ends an upload and frees its parts if `due` returns true. `due` is called with the time of
    /// the last part, or of the beginning if there are no parts. Returns whether the upload ended.
    ///
    /// # Errors
    /// As [`Tree::abort_upload`].
    pub async fn abort_upload_if(
        &self,
        actor: &Actor<'_>,
        bucket: &Bucket,
        key: &ObjectKey,
        upload: UploadId,
        due: impl Fn(Timestamp) -> bool,
    ) -> Result<bool, Error> {
        let mut turn = ConflictRetry::new(self, bucket.path(key.as_str()));
        loop {
            let open = self.open_upload(bucket, key, upload).await?;
            let parts = self.all_parts(upload).await?;
            let last = parts.iter().map(|part| part.record.modified).max();
            if !due(last.map_or(open.record.initiated, |last| {
                last.max(open.record.initiated)
            })) {
                return Ok(false);
            }
            let mut stage = BatchBuilder::new(self);
            stage.close_upload(&open, &parts).await?;
            for part in &parts {
                stage.release(part.record.id, &part.record.copies).await?;
            }
            match stage.commit().await? {
                CommitOutcome::Done => {
                    tracing::debug!(%upload, principal = actor.principal, "upload aborted");
                    return Ok(true);
                }
                CommitOutcome::Lost => turn.lost().await?,
            }
        }
    }

    /// Every part of an upload, by number.
    async fn all_parts(&self, upload: UploadId) -> Result<Vec<StoredPart>, Error> {
        let range = keys::parts(upload);
        let page = self
            .kv()
            .scan(Scan {
                from: &range.from,
                to: &range.to,
                limit: usize::from(PART_NUMBER_MAX) + 1,
                reverse: false,
            })
            .await?;
        let seq = page.seq;
        page.pairs
            .into_iter()
            .map(|(key, value)| {
                Ok(StoredPart {
                    number: keys::parse_part(&key)?.1,
                    record: PartRecord::from_value(&key, &value)?,
                    key,
                    value,
                    seq,
                })
            })
            .collect()
    }
}

fn check_number(number: u16) -> Result<(), Error> {
    if (1..=PART_NUMBER_MAX).contains(&number) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format!("part number {number} is not between 1 and {PART_NUMBER_MAX}"),
    ))
}

impl BatchBuilder<'_> {
    async fn place_part(
        &mut self,
        open: &OpenUpload,
        number: u16,
        mut record: PartRecord,
    ) -> Result<PartRecord, Error> {
        self.watch(&open.chain);
        self.same(open.key.clone(), &open.read);
        let key = keys::part(open.record.id, number);
        let old = self.tree().kv().get(&key).await?;
        self.same(key.clone(), &old);
        let mut bytes = record.size as i64;
        if let Some(value) = &old.value {
            let old = PartRecord::from_value(&key, value)?;
            self.release(old.id, &old.copies).await?;
            bytes -= old.size as i64;
        }
        self.charge_upload(open, 0, bytes).await?;
        self.spill(record.id, &mut record.copies)?;
        self.put(key, record.to_value());
        Ok(record)
    }

    /// An upload begins, under a key at which none is.
    pub(super) async fn begin_upload(
        &mut self,
        chain: ResolvedPath,
        key: Bytes,
        record: UploadRecord,
    ) -> Result<(), Error> {
        self.watch(&chain);
        self.put(key.clone(), record.to_value());
        let read = ReadValue {
            value: None,
            seq: 0,
        };
        let charge = charge::of_upload(&record);
        let open = OpenUpload {
            chain,
            key,
            read,
            record,
        };
        self.charge_upload(&open, charge.objects as i64, charge.bytes as i64)
            .await
    }

    /// The upload goes with exactly these parts, and counts no more; what they name is the caller's
    /// business.
    async fn close_upload(&mut self, open: &OpenUpload, parts: &[StoredPart]) -> Result<(), Error> {
        let charge = charge::of_upload(&open.record);
        let parts_bytes: u64 = parts.iter().map(|part| part.record.size).sum();
        let bytes = (charge.bytes + parts_bytes) as i64;
        self.charge_upload(open, -(charge.objects as i64), -bytes)
            .await?;
        self.watch(&open.chain);
        self.same(open.key.clone(), &open.read);
        self.delete(open.key.clone());
        let range = keys::parts(open.record.id);
        let mut from = range.from;
        for part in parts {
            if from < part.key {
                self.require(Precondition::Empty {
                    from,
                    to: part.key.clone(),
                });
            }
            self.require(Precondition::Same {
                key: part.key.clone(),
                value: Some(part.value.clone()),
                read_at: part.seq,
            });
            self.delete(part.key.clone());
            // Part keys have a fixed length: the next one follows at once.
            from = match part.number.checked_add(1) {
                Some(next) => keys::part(open.record.id, next),
                None => range.to.clone(),
            };
        }
        if from < range.to {
            self.require(Precondition::Empty { from, to: range.to });
        }
        Ok(())
    }
}
