//! Copying an object inside Dewar. Within a pool the copy shares the bytes, so only names are
//! written.

use dewar_auth::{Action, Caller, Details};
use dewar_catalog::record::{ContentCopy, EncryptionRecord, FileRecord, KeyHolder};
use dewar_checksum::{Algorithm, AlgorithmSet};
use dewar_namespace::{Bucket, CopyOptions, Hierarchy, NameRef};
use dewar_types::{Error, ErrorKind, ObjectKey, PoolId, Result};

use crate::access::ObjectOwner;
use crate::api::{
    CopyRequest, ExpectedContent, GetRequest, ObjectChecksum, ObjectInfo, VersionAttributes,
    WriteRequest,
};
use crate::authorize::{AccessFacts, pairs};
use crate::encryption::{self, Encryption, chosen};
use crate::info::{check_metadata, full_checksum, version_info};
use crate::limits::COPY_ATTEMPTS_MAX;
use crate::version_attributes::Tags;
use crate::{Inner, Store};

/// Whether the bytes of copies are in a pool. Content without copies is in every pool.
pub(crate) fn is_in_pool(copies: &[ContentCopy], pool: u16) -> bool {
    let empty = |copy: &ContentCopy| copy.extents.is_empty() && copy.chunks == 0;
    let here = |copy: &ContentCopy| copy.pool == PoolId(pool.into());
    copies.iter().all(|copy| here(copy) || empty(copy))
}

impl Store {
    /// Copies an object, also from another bucket. The bytes are read and written again in two
    /// cases: if a checksum is requested that the source does not have, and if the copy's storage
    /// class has another pool. Otherwise no bytes are read.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::Precondition`], [`ErrorKind::Conflict`].
    pub async fn copy(&self, caller: &Caller, request: CopyRequest) -> Result<ObjectInfo> {
        for _ in 0..COPY_ATTEMPTS_MAX {
            if let Some(info) = self.copy_judged(caller, &request).await? {
                return Ok(info);
            }
            dewar_env::coverage_mark("the source of a copy was replaced after it was judged");
        }
        let path = &request.source.key;
        let message = format!("{path} was replaced again and again before it could be copied");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// Checks and copies; `None` if the source was replaced by another version after the check.
    async fn copy_judged(
        &self,
        caller: &Caller,
        request: &CopyRequest,
    ) -> Result<Option<ObjectInfo>> {
        let inner = &self.inner;
        let (source, target) = (&request.source, &request.target);
        let from = inner.source_bucket(caller, &source.bucket).await?;
        let source_version = request.source_version;
        let action = match source_version {
            None => Action::GetObject,
            Some(_) => Action::GetObjectVersion,
        };
        let found = inner.tree.find_name(&from, &source.key).await?;
        let (name, details) = ((&from, &source.key, found.clone()), inner.details());
        let file = inner
            .authorized_version_in(caller, action, name, source_version, &details)
            .await?;
        let to = inner.bucket_of(caller, &target.bucket).await?;
        let owner = inner
            .authorize_copy(caller, request, (&from, &file), &to)
            .await?;
        let version = &file.current;
        let summed = |algorithm| version.digests.get(algorithm).is_some();
        let by_dewar = |record: &EncryptionRecord| record.holder == KeyHolder::Dewar;
        let as_it_is = match &chosen(request.encryption.clone(), &to)? {
            None => version.encryption.is_none(),
            Some(Encryption::Dewar) => version.encryption.as_ref().is_some_and(by_dewar),
            Some(Encryption::Customer(_)) => false,
        };
        let pool =
            inner.number_of(inner.pool_of_class(request.attributes.storage_class.as_deref()));
        let stays = is_in_pool(&version.copies, pool);
        if !stays
            || !as_it_is
            || request.source_key.is_some()
            || !request.checksum.is_none_or(summed)
        {
            return self.copy_bytes(caller, (from, &file), to, request).await;
        }
        check_metadata(&request.attributes)?;
        let attributes = VersionAttributes {
            // Those that were judged, whatever becomes of the source's.
            tags: Some(tags_of(request, &file).clone()),
            acl: owner.acl_bytes(),
            ..request.attributes.clone()
        };
        let (condition, there) = inner
            .write_target(caller, &to, &target.key, &request.condition, false)
            .await?;
        let options = CopyOptions {
            attributes,
            replace_headers: request.replace_headers,
            source: request.source_condition.clone(),
            target: condition,
            hierarchy: request.hierarchy,
            checksum: full_checksum(request.checksum),
            source_name: source_version,
            source_version: Some(version.id),
            ..CopyOptions::default()
        };
        let principal = caller.to_string();
        let published = inner
            .tree
            .copy(
                &owner.actor(&principal),
                NameRef::new(&from, &source.key, Some(found)),
                NameRef::new(&to, &target.key, there),
                &options,
            )
            .await;
        let mut published = match published {
            Err(error) if error.kind() == ErrorKind::Precondition => {
                let now = inner.tree.find_name(&from, &source.key).await?;
                let now = inner
                    .readable(now, &from, &source.key, source_version)
                    .await;
                return match now {
                    Ok(now) if now.current.id == version.id => Err(error),
                    // It went, or is another: what the caller may is to be asked anew.
                    _ => Ok(None),
                };
            }
            published => published?,
        };
        // What is told of an encrypted copy stands sealed in it.
        let record = published.version.encryption.as_ref();
        if let Some(key) = encryption::open(record, None, &inner.master)? {
            encryption::unseal(&mut published.version, &key)?;
        }
        Ok(Some(version_info(&to, owner.owner, &published.version)))
    }

    /// A copy whose bytes are read and written, to compute a digest or to change the encryption;
    /// `None` if the source was replaced by another version.
    async fn copy_bytes(
        &self,
        caller: &Caller,
        (from, file): (Bucket, &FileRecord),
        to: Bucket,
        request: &CopyRequest,
    ) -> Result<Option<ObjectInfo>> {
        let mut attributes = VersionAttributes {
            tags: Some(tags_of(request, file).clone()),
            ..request.attributes.clone()
        };
        let request = request.clone();
        let read = GetRequest {
            object: request.source,
            version: request.source_version,
            range: None,
            part: None,
            condition: request.source_condition,
            customer_key: request.source_key,
        };
        let mut download =
            self.open(caller, &from, &read)
                .await
                .map_err(|error| match error.kind() {
                    // Every condition of a copy that fails is a failed precondition.
                    ErrorKind::NotModified => {
                        dewar_types::Error::new(ErrorKind::Precondition, error.message().to_owned())
                    }
                    _ => error,
                })?;
        if download.info.version != file.current.id {
            return Ok(None);
        }
        // A checksum over parts has none in the copy, which is one piece: it gets one over all bytes.
        let shown = match &download.info.checksum {
            Some(ObjectChecksum::Full(digest)) => digest.algorithm(),
            Some(ObjectChecksum::Composite(parts)) => parts.digest.algorithm(),
            None => Algorithm::Crc64Nvme,
        };
        if !request.replace_headers {
            let source = download.info.attributes.clone();
            (attributes.headers, attributes.metadata) = (source.headers, source.metadata);
            attributes.client_modified = attributes.client_modified.or(source.client_modified);
            let archive = attributes.archive_metadata.take();
            attributes.archive_metadata = archive.or(source.archive_metadata);
        }
        let write = WriteRequest {
            hierarchy: request.hierarchy,
            size: Some(download.info.size),
            attributes,
            want: AlgorithmSet::EMPTY.with(Algorithm::Md5),
            checksum: request.checksum.or(Some(shown)),
            condition: request.condition,
            encryption: request.encryption,
            acl: request.acl,
            ..WriteRequest::new(request.target)
        };
        let mut writer = self.write_authorized(caller, to, write).await?;
        if request.hierarchy == Hierarchy::Strict && request.source_version.is_none() {
            writer.xattrs.clone_from(&file.attributes.xattrs);
        }
        while let Some(bytes) = download.next().await {
            writer.write(bytes?).await?;
        }
        let expect = ExpectedContent::of_size(Some(download.info.size));
        writer.commit(expect).await.map(Some)
    }
}

impl Inner {
    /// Checks whether a caller who may read the source of a copy may write it at the target, and
    /// returns the copy's owner. The rights for the source's tags are checked separately: the right
    /// to read an object does not include the right to read its tags, or to set tags on a new
    /// object. Retention, holds and lists are not copied.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; errors in the attributes and the list.
    async fn authorize_copy(
        &self,
        caller: &Caller,
        request: &CopyRequest,
        (from, file): (&Bucket, &FileRecord),
        to: &Bucket,
    ) -> Result<ObjectOwner> {
        let (source, target) = (&request.source.key, &request.target.key);
        let copied = named_from(to, from, source);
        let tags = pairs(tags_of(request, file));
        let details = Details {
            copy_source: Some(&copied),
            creates: Some(true),
            tags: Some(&tags),
            ..self.details()
        };
        let key = Some(target.as_str());
        self.authorize_in_bucket(caller, Action::PutObject, to, key, &details)?;
        if request.attributes.tags.is_none() && !tags.is_empty() {
            let version = request.source_version.map(|version| version.to_string());
            let asked = Details {
                version: version.as_deref(),
                ..self.details()
            };
            let action = match version {
                None => Action::GetObjectTagging,
                Some(_) => Action::GetObjectVersionTagging,
            };
            let access_facts = AccessFacts::of(file)?;
            self.authorize_object(
                caller,
                action,
                from,
                source.as_str(),
                Some(&access_facts),
                &asked,
            )?;
            self.authorize_in_bucket(caller, Action::PutObjectTagging, to, key, &details)?;
        }
        self.check_version_attributes(caller, to, target, &request.attributes, &details)?;
        self.object_owner(caller, to, target.as_str(), request.acl.as_ref())
            .await
    }
}

/// The tags that a copy gets.
fn tags_of<'a>(request: &'a CopyRequest, source: &'a FileRecord) -> &'a Tags {
    request
        .attributes
        .tags
        .as_ref()
        .unwrap_or(&source.current.tags)
}

/// The source of a copy, as policies of the target's bucket name it. A bucket of another tenant is
/// named with that tenant, because a name alone means a bucket of the target's tenant.
pub(crate) fn named_from(to: &Bucket, from: &Bucket, key: &ObjectKey) -> String {
    let (name, tenant) = (&from.name, &from.tenant.name);
    if *tenant == to.tenant.name {
        format!("{name}/{key}")
    } else {
        format!("{tenant}:{name}/{key}")
    }
}
