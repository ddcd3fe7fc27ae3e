//! Uploads in parts: create, part, complete, abort, list.

use std::fmt;

use bytes::Bytes;
use dewar_auth::{Action, Caller, Details};
use dewar_catalog::record::{
    DisplayedChecksum, ETag, EncryptionRecord, PartRecord, UploadChecksum, UploadRecord,
};
use dewar_checksum::{Algorithm, AlgorithmSet, DigestSet};
use dewar_namespace::{
    Bucket, CompletePart as NamedPart, CopyOptions, ListedUpload as Item, NameRef, NewPart,
    NewUpload, PartNames, UploadQuery,
};
use dewar_types::{Error, ErrorKind, ObjectKey, PoolId, RangeSpec, Result, UploadId};

use crate::api::{
    CompleteRequest, CreateUploadRequest, ExpectedContent, GetRequest, ListPartsRequest,
    ListUploadsRequest, ListedPart, ListedUpload, ObjectInfo, ObjectRef, PartSource, PartsPage,
    UploadPartRequest, UploadsPage, VersionAttributes,
};
use crate::authorize::{actor, pairs};
use crate::content_log::ContentLog;
use crate::content_reader::ContentReader;
use crate::copy::{is_in_pool, named_from};
use crate::document::document_of;
use crate::encryption::{self, DataKey, EncryptionMode};
use crate::info::{check_metadata, version_info};
use crate::lifecycle::{Expiry, Lifecycle};
use crate::limits::{PAGE_ITEMS_MAX, PART_NUMBER_MAX};
use crate::multipart_digest::{announced, check_made, join};
use crate::write::run_to_completion;
use crate::{CustomerKey, SharedStore, Store};
use dewar_disks::salvage_header::{PartOf, SalvageOrigin};

/// An incoming part. It is invisible before [`PartUpload::commit`]. If it is dropped before,
/// nothing remains.
pub struct PartUpload {
    shared: SharedStore,
    bucket: Bucket,
    key: ObjectKey,
    upload: UploadId,
    number: u16,
    checksum: Option<Algorithm>,
    encrypted: Option<EncryptionMode>,
    encryption: Option<EncryptionRecord>,
    /// Under which the part is named, where its MD5 must not show.
    naming: Option<DataKey>,
    /// Those of the upload.
    attributes: VersionAttributes,
    incoming: ContentLog,
}

/// An upload that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedUpload {
    /// Its id.
    pub id: UploadId,
    /// The encryption of its parts. If the request has none, it is the bucket's default.
    pub encrypted: Option<EncryptionMode>,
    /// The time when a rule of the bucket gives it up, if it is still open then.
    pub abort: Option<Expiry>,
}

/// When an upload is given up by a rule of its bucket.
fn abort_of(bucket: &Bucket, key: &ObjectKey, upload: &UploadRecord) -> Result<Option<Expiry>> {
    let rules = document_of::<Lifecycle>(bucket)?;
    Ok(rules.and_then(|rules| rules.abort(key.as_str(), upload.initiated)))
}

/// The pool as an upload's record has it.
fn pool_of(pool: Option<PoolId>) -> Result<Option<u16>> {
    let number = pool.map(|pool| u16::try_from(pool.0)).transpose();
    number.map_err(|error| Error::with_source(ErrorKind::Corrupt, "the pool of an upload", error))
}

impl Store {
    /// Begins an upload in parts, which counts as an object until it ends.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::Quota`].
    pub async fn create_upload(
        &self,
        caller: &Caller,
        request: CreateUploadRequest,
    ) -> Result<CreatedUpload> {
        let key = &request.object.key;
        let tags = request.attributes.tags.as_ref().map(pairs);
        let details = Details {
            creates: Some(false),
            tags: tags.as_deref(),
            ..self.inner.details()
        };
        let (action, named) = (Action::PutObject, Some(key.as_str()));
        let bucket = self
            .inner
            .authorize_bucket_with(caller, action, &request.object.bucket, named, &details)
            .await?;
        self.inner
            .check_version_attributes(caller, &bucket, key, &request.attributes, &details)?;
        let owner = self
            .inner
            .object_owner(caller, &bucket, key.as_str(), request.acl.as_ref())
            .await?;
        let checksum = request.checksum.map(|algorithm| UploadChecksum {
            algorithm: algorithm.name().to_owned(),
            full_object: !request.composite,
        });
        let mut attributes = request.attributes;
        check_metadata(&attributes)?;
        attributes.acl = owner.acl_bytes();
        let new = NewUpload {
            pool: self
                .inner
                .pool_of_class(attributes.storage_class.as_deref())
                .map(|pool| PoolId(pool.into())),
            attributes,
            checksum,
            encryption: match &encryption::chosen(request.encryption, &bucket)? {
                Some(how) => {
                    let (master, rng) = (&self.inner.master, &*self.inner.env.rng);
                    Some(encryption::begin(how, master, rng)?.upload())
                }
                None => None,
            },
            ..NewUpload::default()
        };
        let principal = caller.to_string();
        let record = self
            .inner
            .tree
            .create_upload(&owner.actor(&principal), &bucket, key, &new)
            .await?;
        Ok(CreatedUpload {
            id: record.id,
            encrypted: encrypted(&record),
            abort: abort_of(&bucket, key, &record)?,
        })
    }

    /// Begins to write a part.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NoSuchUpload`],
    /// [`ErrorKind::InvalidArgument`] for a number out of range; [`ErrorKind::Quota`] for a part
    /// that does not fit.
    pub async fn upload_part(
        &self,
        caller: &Caller,
        request: UploadPartRequest,
    ) -> Result<PartUpload> {
        let opened = self.open_part(caller, &request, None).await?;
        self.write_part(request, opened).await
    }

    /// The same where the caller may.
    async fn write_part(
        &self,
        request: UploadPartRequest,
        opened: (Bucket, ObjectKey, u16, UploadRecord),
    ) -> Result<PartUpload> {
        let (bucket, key, number, open) = opened;
        let checksum = request
            .checksum
            .or_else(|| announced(&open).map(|(algorithm, _)| algorithm));
        let want = requested_digests(&request, &open);
        let data_key = self.part_key(&open, request.customer_key.as_ref())?;
        let (encrypted, attributes) = (encrypted(&open), VersionAttributes::from(&open));
        let (encryption, owner) = (open.encryption, open.owner);
        let origin = SalvageOrigin {
            owner: owner.0,
            path: bucket.path(key.as_str()),
            part: Some(PartOf {
                upload: request.upload,
                number,
            }),
            pool: pool_of(open.pool)?,
        };
        let (size, key_of) = (request.size, data_key.as_ref());
        if let Some(size) = size {
            let tree = &self.inner.tree;
            tree.check_part_room(&bucket, &key, request.upload, number, size)
                .await?;
        }
        let incoming = ContentLog::new(&self.inner, want, size, origin, key_of).await?;
        let naming = data_key.filter(|_| encrypted == Some(EncryptionMode::ByCustomer));
        Ok(PartUpload {
            shared: SharedStore::clone(&self.inner),
            bucket,
            key,
            upload: request.upload,
            number,
            checksum,
            encrypted,
            encryption,
            naming,
            attributes,
            incoming,
        })
    }

    /// The key of an upload's parts, for a caller who may have it.
    fn part_key(
        &self,
        open: &UploadRecord,
        customer: Option<&CustomerKey>,
    ) -> Result<Option<DataKey>> {
        encryption::open(open.encryption.as_ref(), customer, &self.inner.master)
    }

    /// The upload of a part, if the caller may add it, and the part's source, if it is copied.
    async fn open_part(
        &self,
        caller: &Caller,
        request: &UploadPartRequest,
        source: Option<(&Bucket, &ObjectKey)>,
    ) -> Result<(Bucket, ObjectKey, u16, UploadRecord)> {
        let key = request.object.key.clone();
        let bucket = self.inner.bucket_of(caller, &request.object.bucket).await?;
        let copied = source.map(|(from, key)| named_from(&bucket, from, key));
        let details = Details {
            creates: Some(false),
            copy_source: copied.as_deref(),
            ..self.inner.details()
        };
        let action = Action::PutObject;
        self.inner
            .authorize_in_bucket(caller, action, &bucket, Some(key.as_str()), &details)?;
        let number = part_number(request.number)?;
        let open = self
            .inner
            .tree
            .upload(&bucket, &key, request.upload)
            .await?;
        Ok((bucket, key, number, open))
    }

    /// Makes a part of another object or a range of it. Its bytes are shared if they are in the
    /// upload's pool. They are then read only to compute missing digests of a range.
    ///
    /// # Errors
    /// As [`Store::upload_part`] and [`Store::get`].
    pub async fn upload_part_copy(
        &self,
        caller: &Caller,
        request: UploadPartRequest,
        source: PartSource,
    ) -> Result<ListedPart> {
        let from = self
            .inner
            .source_bucket(caller, &source.object.bucket)
            .await?;
        let copied = Some((&from, &source.object.key));
        let (bucket, key, number, open) = self.open_part(caller, &request, copied).await?;
        let checksum = request
            .checksum
            .or_else(|| announced(&open).map(|(algorithm, _)| algorithm));
        let read = GetRequest {
            object: source.object.clone(),
            version: source.version,
            range: source.range,
            part: None,
            condition: source.condition.clone(),
            customer_key: source.customer_key.clone(),
        };
        let mut download =
            self.open(caller, &from, &read)
                .await
                .map_err(|error| match error.kind() {
                    ErrorKind::NotModified => {
                        Error::new(ErrorKind::Precondition, error.message().to_owned())
                    }
                    _ => error,
                })?;
        if let Some(RangeSpec::FromTo(_, last)) = source.range
            && last >= download.info.size
        {
            let size = download.info.size;
            let message = format!("the range is not within the {size} bytes of its source");
            return Err(Error::new(ErrorKind::InvalidRange, message));
        }
        let pool = self.inner.number_of(pool_of(open.pool)?);
        let stays = is_in_pool(&download.copies, pool);
        if !stays || open.encryption.is_some() || download.info.encrypted.is_some() {
            let opened = (bucket, key, number, open);
            return self.copy_part_bytes(request, opened, download).await;
        }
        let whole = download.range.len() == download.info.size;
        let want = requested_digests(&request, &open);
        let known = want
            .iter()
            .all(|algorithm| download.info.digests.get(algorithm).is_some());
        let digests = if whole && known {
            download.info.digests
        } else {
            let mut digests = dewar_checksum::StreamDigests::new(want, &self.inner.lanes);
            while let Some(bytes) = download.next().await {
                digests.update(bytes?).await;
            }
            digests.finish().await
        };
        let options = CopyOptions {
            source: source.condition,
            source_name: source.version,
            source_version: Some(download.info.version),
            ..CopyOptions::default()
        };
        let etag = digests.md5().map_or(ETag::Version, ETag::Md5);
        let record = self
            .inner
            .tree
            .copy_part(
                (&from, &source.object.key).into(),
                Some(download.range),
                &options,
                (&bucket, &key),
                request.upload,
                number,
                PartNames {
                    etag,
                    digests,
                    checksum: checksum.map(DisplayedChecksum::full),
                },
            )
            .await?;
        Ok(listed_part(number, &record, checksum, None))
    }

    /// A part whose bytes are read and written, because they must be in another pool or be
    /// encrypted differently.
    async fn copy_part_bytes(
        &self,
        request: UploadPartRequest,
        opened: (Bucket, ObjectKey, u16, UploadRecord),
        mut download: ContentReader,
    ) -> Result<ListedPart> {
        let size = Some(download.range.len());
        let mut part = self
            .write_part(UploadPartRequest { size, ..request }, opened)
            .await?;
        while let Some(bytes) = download.next().await {
            part.write(bytes?).await?;
        }
        part.commit(ExpectedContent::of_size(size)).await
    }

    /// Joins the listed parts to an object; the others are freed. A repeated call gets the same
    /// answer as long as that object is the current one and the parts are the same.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchUpload`], [`ErrorKind::InvalidPart`], [`ErrorKind::InvalidPartOrder`],
    /// [`ErrorKind::PartTooSmall`], [`ErrorKind::ChecksumMismatch`], [`ErrorKind::Precondition`].
    pub async fn complete_upload(
        &self,
        caller: &Caller,
        request: CompleteRequest,
    ) -> Result<ObjectInfo> {
        let key = request.object.key.clone();
        let details = Details {
            creates: Some(true),
            ..self.inner.details()
        };
        let (action, whole) = (Action::PutObject, Some(key.as_str()));
        let bucket = self
            .inner
            .authorize_bucket_with(caller, action, &request.object.bucket, whole, &details)
            .await?;
        let mut named = Vec::with_capacity(request.parts.len());
        for part in &request.parts {
            named.push(NamedPart {
                number: part_number(part.number)?,
                etag: part.etag.clone(),
            });
        }
        let (condition, found) = self
            .inner
            .write_target(caller, &bucket, &key, &request.condition, false)
            .await?;
        let (shared, caller) = (SharedStore::clone(&self.inner), caller.clone());
        run_to_completion(async move {
            let principal = caller.to_string();
            let join = |open: &UploadRecord, parts: &[(u16, &PartRecord)]| {
                let mut joined = join(open, parts, &request)?;
                let (record, customer) = (open.encryption.as_ref(), request.customer_key.as_ref());
                let key = encryption::open(record, customer, &shared.master)?;
                if let (Some(record), Some(key)) = (record, key) {
                    let digests = std::mem::replace(&mut joined.digests, DigestSet::ABSENT);
                    let checksum = joined.checksum.take();
                    joined.checksum = checksum.as_ref().map(encryption::named);
                    let rng = &*shared.env.rng;
                    let master = &shared.master;
                    // In clear they would tell what is encrypted.
                    let of_parts = std::mem::take(&mut joined.part_digests);
                    joined.part_digests = encryption::seal_parts(&key, rng, of_parts)?;
                    let sealed =
                        encryption::finish_upload(record, &key, master, rng, digests, checksum)?;
                    joined.encryption = Some(sealed);
                }
                Ok(joined)
            };
            let mut published = shared
                .tree
                .complete_upload(
                    &actor(&caller, &principal),
                    NameRef::new(&bucket, &key, found),
                    request.upload,
                    &named,
                    shared.part_bytes_min,
                    &condition,
                    &join,
                )
                .await?;
            let version = &mut published.version;
            let (record, customer) = (version.encryption.as_ref(), request.customer_key.as_ref());
            if let Some(key) = encryption::open(record, customer, &shared.master)? {
                encryption::unseal(version, &key)?;
            }
            check_made(version, &request)?;
            Ok(version_info(&bucket, caller.account(), version))
        })
        .await
    }

    /// Gives an upload up and frees its parts.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NoSuchUpload`].
    pub async fn abort_upload(
        &self,
        caller: &Caller,
        object: ObjectRef,
        upload: UploadId,
    ) -> Result<()> {
        let key = object.key.as_str();
        let bucket = self
            .inner
            .authorize_bucket(
                caller,
                Action::AbortMultipartUpload,
                &object.bucket,
                Some(key),
            )
            .await?;
        let principal = caller.to_string();
        let actor = actor(caller, &principal);
        self.inner
            .tree
            .abort_upload(&actor, &bucket, &object.key, upload)
            .await
    }

    /// A page of the parts of an upload.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NoSuchUpload`]; [`ErrorKind::EncryptionKey`]
    /// for a key that is not that of the upload.
    pub async fn list_parts(
        &self,
        caller: &Caller,
        request: ListPartsRequest,
    ) -> Result<PartsPage> {
        let key = &request.object.key;
        let bucket = self
            .inner
            .authorize_bucket(
                caller,
                Action::ListMultipartUploadParts,
                &request.object.bucket,
                Some(key.as_str()),
            )
            .await?;
        let after = u16::try_from(request.after).unwrap_or(u16::MAX);
        let max = request.max.clamp(1, PAGE_ITEMS_MAX);
        let page = self
            .inner
            .tree
            .list_parts(&bucket, key, request.upload, after, max)
            .await?;
        let checksum = announced(&page.upload);
        let customer = request.customer_key.as_ref();
        if customer.is_some() {
            self.part_key(&page.upload, customer)?;
        }
        // It is of the clear bytes, so only who can read them is told.
        let told =
            customer.is_some() || encrypted(&page.upload) != Some(EncryptionMode::ByCustomer);
        let shown = checksum.map(|(algorithm, _)| algorithm).filter(|_| told);
        let next = page.parts.last().map(|(number, _)| u32::from(*number));
        Ok(PartsPage {
            owner: page.upload.owner,
            storage_class: page.upload.storage_class.clone(),
            abort: abort_of(&bucket, key, &page.upload)?,
            checksum,
            parts: page
                .parts
                .iter()
                .take(request.max)
                .map(|(number, record)| {
                    listed_part(*number, record, shown, encrypted(&page.upload))
                })
                .collect(),
            next: next.filter(|_| page.truncated && request.max > 0),
        })
    }

    /// A page of the uploads in progress.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`].
    pub async fn list_uploads(
        &self,
        caller: &Caller,
        request: ListUploadsRequest,
    ) -> Result<UploadsPage> {
        let details = Details {
            prefix: Some(&request.prefix),
            delimiter: Some(request.delimiter.as_str()).filter(|text| !text.is_empty()),
            ..self.inner.details()
        };
        let action = Action::ListBucketMultipartUploads;
        let bucket = self
            .inner
            .authorize_bucket_with(caller, action, &request.bucket, None, &details)
            .await?;
        if request.max == 0 {
            return Ok(UploadsPage::default());
        }
        let query = UploadQuery {
            prefix: &request.prefix,
            delimiter: Some(request.delimiter.as_str()).filter(|text| !text.is_empty()),
            after_key: Some(request.after_key.as_str()).filter(|text| !text.is_empty()),
            after_upload: request.after_upload,
            max: request.max.min(PAGE_ITEMS_MAX),
        };
        let found = self.inner.tree.list_uploads(&bucket, query).await?;
        let mut page = UploadsPage {
            next: found.next,
            ..UploadsPage::default()
        };
        for item in found.items {
            match item {
                Item::Upload { key, upload } => page.uploads.push(ListedUpload {
                    key,
                    upload: upload.id,
                    initiated: upload.initiated,
                    owner: upload.owner,
                    checksum: announced(&upload),
                    storage_class: upload.storage_class,
                }),
                Item::Prefix(prefix) => page.prefixes.push(prefix),
            }
        }
        Ok(page)
    }
}

impl PartUpload {
    /// Takes the next bytes. Waits while the disks are slower than the client.
    ///
    /// # Errors
    /// As [`crate::ContentWriter::write`].
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.incoming.write(bytes).await
    }

    /// Completes the part: makes it durable and adds it to its upload. It replaces an earlier part
    /// of its number.
    ///
    /// # Errors
    /// As [`crate::ContentWriter::commit`]; [`ErrorKind::NoSuchUpload`] when the upload ended meanwhile;
    /// [`ErrorKind::Quota`] for a part that does not fit any more.
    pub async fn commit(self, expect: ExpectedContent) -> Result<ListedPart> {
        let id = self.incoming.version();
        let of_upload = self.encryption;
        let encrypted = self.encrypted;
        let naming = self.naming;
        let name = |clear: &DigestSet| naming.as_ref().map(|key| encryption::part_etag(key, clear));
        let received = self
            .incoming
            .finish(&expect, &self.attributes, |clear| {
                Ok((of_upload, name(clear)))
            })
            .await?;
        let name = name(&received.digests);
        let (shared, bucket, key, upload, number, checksum) = (
            self.shared,
            self.bucket,
            self.key,
            self.upload,
            self.number,
            self.checksum,
        );
        run_to_completion(async move {
            let new = NewPart {
                id: Some(id),
                size: received.size,
                etag: name
                    .unwrap_or_else(|| received.digests.md5().map_or(ETag::Version, ETag::Md5)),
                digests: received.digests,
                copies: received.copies,
                checksum: checksum.map(DisplayedChecksum::full),
            };
            let extra = received.held.extra();
            let outcome = shared
                .tree
                .put_part(&bucket, &key, upload, number, &new, &extra)
                .await;
            received.held.settle(&shared, &outcome).await;
            outcome.map(|record| listed_part(number, &record, checksum, encrypted))
        })
        .await
    }
}

impl fmt::Debug for PartUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PartUpload({}, part {})",
            self.bucket.path(self.key.as_str()),
            self.number
        )
    }
}

fn part_number(number: u32) -> Result<u16> {
    u16::try_from(number)
        .ok()
        .filter(|n| (1..=PART_NUMBER_MAX).contains(&u32::from(*n)))
        .ok_or_else(|| {
            let message = format!("part number {number}: 1 to {PART_NUMBER_MAX} are allowed");
            Error::new(ErrorKind::InvalidArgument, message)
        })
}

/// The digests to compute for a part: those that its client declares, and the one for the checksum
/// of the whole, which may be another.
fn requested_digests(request: &UploadPartRequest, open: &UploadRecord) -> AlgorithmSet {
    let announced = announced(open).map(|(algorithm, _)| algorithm);
    let all = request.checksum.into_iter().chain(announced);
    all.fold(request.want.with(Algorithm::Md5), AlgorithmSet::with)
}

fn encrypted(upload: &UploadRecord) -> Option<EncryptionMode> {
    let record = upload.encryption.as_ref()?;
    Some(record.holder.into())
}

fn listed_part(
    number: u16,
    record: &PartRecord,
    checksum: Option<Algorithm>,
    encrypted: Option<EncryptionMode>,
) -> ListedPart {
    ListedPart {
        number: u32::from(number),
        size: record.size,
        etag: record.etag(),
        modified: record.modified,
        checksum: checksum.and_then(|algorithm| record.digests.get(algorithm)),
        encrypted,
    }
}
