//! What there is to know about an object, its parts included.

use dewar_auth::{Action, Caller};
use dewar_checksum::Digest;
use dewar_meta::ns::record::{ShownChecksum, VersionRecord};
use dewar_types::Result;

use crate::api::{AttributesRequest, ObjectInfo, PartAttributes};
use crate::encryption;
use crate::info::object_info;
use crate::limits::PAGE_ITEMS_MAX;
use crate::{Inner, Store};

impl Store {
    /// What a HEAD says, and a page of the parts.
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
            .permitted(
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
        let parts = self.inner.parts(&file.current, after, max).await?;
        Ok((object_info(&bucket, &file), parts))
    }
}

impl Inner {
    /// The checksum of a part, by the algorithm of the whole's.
    pub(crate) async fn part_checksum(
        &self,
        version: &VersionRecord,
        number: u32,
    ) -> Result<Option<Digest>> {
        let name = match &version.checksum {
            Some(ShownChecksum::Full(name) | ShownChecksum::Composite(name, ..)) => name,
            None => return Ok(None),
        };
        let Ok(algorithm) = name.parse() else {
            return Ok(None);
        };
        let digests = self.tree.part_digests(version).await?;
        let digest = number
            .checked_sub(1)
            .and_then(|index| digests.get(index as usize));
        Ok(digest.and_then(|bytes| Digest::new(algorithm, bytes).ok()))
    }

    async fn parts(
        &self,
        version: &VersionRecord,
        after: u32,
        max: usize,
    ) -> Result<Vec<PartAttributes>> {
        let runs = self.tree.part_runs(version).await?.unwrap_or_default();
        let digests = self.tree.part_digests(version).await?;
        let algorithm = match &version.checksum {
            Some(ShownChecksum::Composite(name, ..)) => name.parse().ok(),
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
                let digest = digests.get(number as usize - 1);
                let checksum = algorithm
                    .zip(digest)
                    .and_then(|(algorithm, bytes)| Digest::new(algorithm, bytes).ok());
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
