//! Copying an object inside Dewar: the copy shares the bytes, so only names are written.

use dewar_auth::{Action, Caller};
use dewar_checksum::{Algorithm, AlgorithmSet};
use dewar_meta::ns::record::{EncryptionRecord, KeyHolder};
use dewar_meta::ns::{CopyHeaders, CopyOptions};
use dewar_types::{ErrorKind, Result};

use crate::Store;
use crate::admit::actor;
use crate::api::{CopyRequest, Expect, GetRequest, ObjectChecksum, ObjectInfo, PutRequest};
use crate::encryption::Encryption;
use crate::info::{full_checksum, headers, read_condition, version_info, write_condition};

impl Store {
    /// Copies an object, of another bucket too. When a checksum is asked for that the source does
    /// not have, its bytes are read and written anew to compute it; otherwise none are touched.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], [`ErrorKind::NoSuchBucket`], [`ErrorKind::NotFound`],
    /// [`ErrorKind::Precondition`], [`ErrorKind::Conflict`].
    pub async fn copy(&self, caller: &Caller, request: CopyRequest) -> Result<ObjectInfo> {
        let inner = &self.inner;
        let (source, target) = (&request.source, &request.target);
        let from = inner
            .admit(
                caller,
                match request.source_version {
                    None => Action::GetObject,
                    Some(_) => Action::GetObjectVersion,
                },
                &source.bucket,
                Some(source.key.as_str()),
            )
            .await?;
        let to = inner
            .admit(
                caller,
                Action::PutObject,
                &target.bucket,
                Some(target.key.as_str()),
            )
            .await?;
        inner.check_marks(&to, &request.marks)?;
        let source_version = request.source_version;
        let found = inner
            .tree
            .lookup_version(&from, &source.key, source_version)
            .await?;
        if let Some(found) = found {
            let version = &found.file.current;
            let summed = |algorithm| version.digests.get(algorithm).is_some();
            let by_dewar = |record: &EncryptionRecord| record.holder == KeyHolder::Dewar;
            let as_it_is = match &request.encryption {
                None => version.encryption.is_none(),
                Some(Encryption::Dewar) => version.encryption.as_ref().is_some_and(by_dewar),
                Some(Encryption::Customer(_)) => false,
            };
            if !as_it_is || request.source_key.is_some() || !request.checksum.is_none_or(summed) {
                return self.copy_bytes(caller, request).await;
            }
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
            target: write_condition(&request.condition),
            checksum: full_checksum(request.checksum),
            source_name: source_version,
            storage_class: request.marks.storage_class.clone(),
            tags: request.marks.tags.clone(),
            retention: request.marks.retention,
            legal_hold: request.marks.legal_hold,
            ..CopyOptions::default()
        };
        let principal = caller.to_string();
        let published = inner
            .tree
            .copy(
                &actor(caller, &principal),
                (&from, &source.key),
                (&to, &target.key),
                &options,
            )
            .await?;
        Ok(version_info(&to, caller.user_id(), &published.version))
    }

    /// A copy whose bytes pass through, so that a digest can be computed or because they are to be
    /// encrypted in another way.
    async fn copy_bytes(&self, caller: &Caller, request: CopyRequest) -> Result<ObjectInfo> {
        let mut marks = request.marks;
        if marks.tags.is_none() {
            let (object, version) = (&request.source, request.source_version);
            marks.tags = Some(self.tags_of(caller, object, version).await?);
        }
        let read = GetRequest {
            object: request.source,
            version: request.source_version,
            range: None,
            part: None,
            condition: request.source_condition,
            customer_key: request.source_key,
        };
        let mut download = self
            .get(caller, read)
            .await
            .map_err(|error| match error.kind() {
                // Every condition of a copy that fails is a failed precondition.
                ErrorKind::NotModified => {
                    dewar_types::Error::new(ErrorKind::Precondition, error.message().to_owned())
                }
                _ => error,
            })?;
        let shown = match &download.info.checksum {
            Some(ObjectChecksum::Full(digest)) => Some(digest.algorithm()),
            Some(ObjectChecksum::Composite(_)) | None => None,
        };
        let put = PutRequest {
            object: request.target,
            size: Some(download.info.size),
            attributes: request
                .attributes
                .unwrap_or_else(|| download.info.attributes.clone()),
            marks,
            want: AlgorithmSet::EMPTY.with(Algorithm::Md5),
            checksum: request.checksum.or(shown),
            condition: request.condition,
            encryption: request.encryption,
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
