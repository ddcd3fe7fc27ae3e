//! Copying an object inside Dewar: within a pool the copy shares the bytes, so only names are written.

use dewar_auth::{Action, Caller, Details};
use dewar_checksum::{Algorithm, AlgorithmSet};
use dewar_meta::ns::record::{ContentCopy, EncryptionRecord, KeyHolder};
use dewar_meta::ns::{Bucket, CopyHeaders, CopyOptions};
use dewar_types::{ErrorKind, PoolId, Result};

use crate::Store;
use crate::api::{CopyRequest, Expect, GetRequest, ObjectChecksum, ObjectInfo, PutRequest};
use crate::encryption::{self, Encryption, chosen};
use crate::info::{full_checksum, headers, read_condition, version_info};

/// Whether the bytes of some copies, if there are any, are in a pool: what has none is in every one.
pub(crate) fn is_in_pool(copies: &[ContentCopy], pool: u16) -> bool {
    let empty = |copy: &ContentCopy| copy.extents.is_empty() && copy.chunks == 0;
    let here = |copy: &ContentCopy| copy.pool == PoolId(pool.into());
    copies.iter().all(|copy| here(copy) || empty(copy))
}

impl Store {
    /// Copies an object, of another bucket too. When a checksum is asked for that the source does
    /// not have, its bytes are read and written anew to compute it, and so they are when the copy's storage
    /// class has another pool; otherwise none are touched.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::Precondition`], [`ErrorKind::Conflict`].
    pub async fn copy(&self, caller: &Caller, request: CopyRequest) -> Result<ObjectInfo> {
        let inner = &self.inner;
        let (source, target) = (&request.source, &request.target);
        let from = inner.source_bucket(caller, &source.bucket).await?;
        let source_version = request.source_version;
        let action = match source_version {
            None => Action::GetObject,
            Some(_) => Action::GetObjectVersion,
        };
        let file = inner
            .permitted(caller, action, &from, &source.key, source_version)
            .await?;
        let copied = format!("{}/{}", source.bucket.name, source.key);
        let details = Details {
            copy_source: Some(&copied),
            ..inner.details()
        };
        let key = Some(target.key.as_str());
        let to = inner
            .admit_with(caller, Action::PutObject, &target.bucket, key, &details)
            .await?;
        inner.check_marks(caller, &to, &target.key, &request.marks)?;
        let owner = inner
            .object_owner(caller, &to, target.key.as_str(), request.acl.as_ref())
            .await?;
        let version = &file.current;
        let summed = |algorithm| version.digests.get(algorithm).is_some();
        let by_dewar = |record: &EncryptionRecord| record.holder == KeyHolder::Dewar;
        let as_it_is = match &chosen(request.encryption.clone(), &to)? {
            None => version.encryption.is_none(),
            Some(Encryption::Dewar) => version.encryption.as_ref().is_some_and(by_dewar),
            Some(Encryption::Customer(_)) => false,
        };
        let pool = inner.number_of(inner.pool_of_class(request.marks.storage_class.as_deref()));
        let stays = is_in_pool(&version.copies, pool);
        if !stays
            || !as_it_is
            || request.source_key.is_some()
            || !request.checksum.is_none_or(summed)
        {
            return self.copy_bytes(caller, from, request).await;
        }
        let headers = match &request.attributes {
            None => CopyHeaders::Keep,
            Some(attributes) => CopyHeaders::Replace {
                headers: headers(attributes)?,
                metadata: attributes.user.clone(),
            },
        };
        let options = CopyOptions {
            headers,
            source: read_condition(&request.source_condition),
            target: inner
                .write_condition(caller, &to, &target.key, &request.condition)
                .await?,
            checksum: full_checksum(request.checksum),
            source_name: source_version,
            storage_class: request.marks.storage_class.clone(),
            tags: request.marks.tags.clone(),
            retention: request.marks.retention,
            legal_hold: request.marks.legal_hold,
            acl: owner.acl_bytes(),
            ..CopyOptions::default()
        };
        let principal = caller.to_string();
        let mut published = inner
            .tree
            .copy(
                &owner.actor(&principal),
                (&from, &source.key),
                (&to, &target.key),
                &options,
            )
            .await?;
        // What is told of an encrypted copy stands sealed in it.
        let record = published.version.encryption.as_ref();
        if let Some(key) = encryption::open(record, None, &inner.master)? {
            encryption::unseal(&mut published.version, &key)?;
        }
        Ok(version_info(&to, owner.owner, &published.version))
    }

    /// A copy whose bytes pass through, so that a digest can be computed or because they are to be
    /// encrypted in another way.
    async fn copy_bytes(
        &self,
        caller: &Caller,
        from: Bucket,
        request: CopyRequest,
    ) -> Result<ObjectInfo> {
        let mut marks = request.marks;
        if marks.tags.is_none() {
            let (key, version) = (&request.source.key, request.source_version);
            let file = self.inner.readable(&from, key, version).await?;
            marks.tags = Some(file.current.tags);
        }
        let read = GetRequest {
            object: request.source,
            version: request.source_version,
            range: None,
            part: None,
            condition: request.source_condition,
            customer_key: request.source_key,
        };
        let mut download =
            self.open(caller, from, read)
                .await
                .map_err(|error| match error.kind() {
                    // Every condition of a copy that fails is a failed precondition.
                    ErrorKind::NotModified => {
                        dewar_types::Error::new(ErrorKind::Precondition, error.message().to_owned())
                    }
                    _ => error,
                })?;
        // A checksum over parts has none in the copy, which is one piece: it gets one over all bytes.
        let shown = match &download.info.checksum {
            Some(ObjectChecksum::Full(digest)) => digest.algorithm(),
            Some(ObjectChecksum::Composite(parts)) => parts.digest.algorithm(),
            None => Algorithm::Crc64Nvme,
        };
        let put = PutRequest {
            object: request.target,
            size: Some(download.info.size),
            attributes: request
                .attributes
                .unwrap_or_else(|| download.info.attributes.clone()),
            marks,
            want: AlgorithmSet::EMPTY.with(Algorithm::Md5),
            checksum: request.checksum.or(Some(shown)),
            condition: request.condition,
            encryption: request.encryption,
            acl: request.acl,
        };
        let mut upload = self.put(caller, put).await?;
        while let Some(bytes) = download.next().await {
            upload.write(bytes?).await?;
        }
        upload
            .commit(Expect {
                size: Some(download.info.size),
                digests: Vec::new(),
            })
            .await
    }
}
