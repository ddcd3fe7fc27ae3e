//! Object metadata, including the parts.

use dewar_auth::{Action, Caller};
use dewar_catalog::record::{DisplayedChecksum, VersionRecord};
use dewar_checksum::{Algorithm, Digest};
use dewar_types::Result;
use minicbor::bytes::ByteVec;

use crate::api::{AttributesRequest, ObjectInfo, PartAttributes};
use crate::encryption::{self, DataKey};
use crate::info::object_info;
use crate::limits::PAGE_ITEMS_MAX;
use crate::{Inner, Store};

impl Store {
    /// The answer of a HEAD, and a page of the parts.
    ///
    /// # Errors
    /// As [`Store::head`].
    pub async fn attributes(
        &self,
        caller: &Caller,
        request: AttributesRequest,
    ) -> Result<(ObjectInfo, Vec<PartAttributes>)> {
        let action = match request.version {
            None => Action::GetObjectAttributes,
            Some(_) => Action::GetObjectVersionAttributes,
        };
        let bucket = self.inner.bucket_of(caller, &request.object.bucket).await?;
        let mut file = self
            .inner
            .authorized_version(
                caller,
                action,
                &bucket,
                &request.object.key,
                request.version,
            )
            .await?;
        let path = || bucket.path(request.object.key.as_str());
        let encryption = file.current.encryption.as_ref();
        let brought = request.customer_key.as_ref();
        let key = encryption::open(encryption, brought, &self.inner.master)
            .map_err(|error| error.context(path()))?;
        if let Some(key) = &key {
            encryption::unseal(&mut file.current, key).map_err(|error| error.context(path()))?;
        }
        let (after, max) = (request.after, request.max.min(PAGE_ITEMS_MAX));
        let parts = self
            .inner
            .parts(&file.current, key.as_ref(), after, max)
            .await?;
        Ok((object_info(&bucket, &file), parts))
    }
}

impl Inner {
    /// The checksum of a part, with the algorithm of the whole's. `key` is the key of encrypted
    /// content.
    pub(crate) async fn part_checksum(
        &self,
        version: &VersionRecord,
        key: Option<&DataKey>,
        number: u32,
    ) -> Result<Option<Digest>> {
        let name = match &version.checksum {
            Some(DisplayedChecksum::Full(name) | DisplayedChecksum::Composite(name, ..)) => name,
            None => return Ok(None),
        };
        let Ok(algorithm) = name.parse() else {
            return Ok(None);
        };
        let digests = self.tree.part_digests(version).await?;
        let Some(index) = number.checked_sub(1) else {
            return Ok(None);
        };
        digest_of_part(key, algorithm, &digests, index)
    }

    async fn parts(
        &self,
        version: &VersionRecord,
        key: Option<&DataKey>,
        after: u32,
        max: usize,
    ) -> Result<Vec<PartAttributes>> {
        let runs = self.tree.part_runs(version).await?.unwrap_or_default();
        let digests = self.tree.part_digests(version).await?;
        let algorithm = match &version.checksum {
            Some(DisplayedChecksum::Composite(name, ..)) => name.parse().ok(),
            _ => None,
        };
        let mut parts = Vec::new();
        let mut number = 0;
        for run in runs {
            for _ in 0..run.count {
                number += 1;
                if number <= after {
                    continue;
                }
                if parts.len() == max {
                    return Ok(parts);
                }
                let checksum = match algorithm {
                    Some(algorithm) => digest_of_part(key, algorithm, &digests, number - 1)?,
                    None => None,
                };
                parts.push(PartAttributes {
                    number,
                    size: run.size,
                    checksum,
                });
            }
        }
        Ok(parts)
    }
}

/// The digest of a part, counted from 0, where there is one; sealed if there is a key.
fn digest_of_part(
    key: Option<&DataKey>,
    algorithm: Algorithm,
    digests: &[ByteVec],
    index: u32,
) -> Result<Option<Digest>> {
    let Some(bytes) = digests.get(index as usize) else {
        return Ok(None);
    };
    let digest = match key {
        None => Digest::new(algorithm, bytes),
        Some(key) => Digest::new(algorithm, &encryption::unseal_part(key, index, bytes)?),
    };
    Ok(digest.ok())
}
