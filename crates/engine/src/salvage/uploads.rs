//! Joining the found parts of uploads.
//!
//! The disks do not record whether an upload was completed, or with which of its parts. Most were
//! completed with all parts. So an upload whose parts are numbered from 1 without a gap becomes an
//! object, with the time of its newest part. Any other upload stays open. A user who knows it can
//! complete or abort it.

use dewar_catalog::record::{PartRecord, UploadRecord};
use dewar_namespace::{
    Bucket, BucketQuery, CompletePart as NamedPart, ListedUpload, UploadQuery, WriteCondition,
};
use dewar_store::join_parts;
use dewar_store::limits::{PAGE_ITEMS_MAX, PART_NUMBER_MAX};
use dewar_types::{ObjectKey, Result, Timestamp, VersionId};

use super::SalvageWalk;
use super::report::Finding;
use super::restore_names::{PRINCIPAL, actor};

impl SalvageWalk<'_> {
    /// Joins what can be joined, in all buckets.
    pub(super) async fn join_uploads(&mut self) -> Result<()> {
        let tree = self.tree();
        for tenant in tree.catalog().tenants().await? {
            let mut after: Option<String> = None;
            loop {
                let query = BucketQuery {
                    owner: None,
                    prefix: "",
                    after: after.as_deref(),
                    max: PAGE_ITEMS_MAX,
                };
                let page = tree.buckets(&tenant, query).await?;
                after = page.buckets.last().map(|b| b.name.as_str().to_owned());
                for listed in &page.buckets {
                    if let Some(bucket) = tree.bucket(&tenant, &listed.name).await? {
                        self.join_in(&bucket).await?;
                    }
                }
                if !page.truncated || after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn join_in(&mut self, bucket: &Bucket) -> Result<()> {
        let tree = self.tree();
        let mut after: Option<(String, Option<dewar_types::UploadId>)> = None;
        loop {
            let query = UploadQuery {
                prefix: "",
                delimiter: None,
                after_key: after.as_ref().map(|(key, _)| &key[..]),
                after_upload: after.as_ref().and_then(|(_, upload)| *upload),
                max: PAGE_ITEMS_MAX,
            };
            let page = tree.list_uploads(bucket, query).await?;
            for item in page.items {
                if let ListedUpload::Upload { key, upload } = item
                    && upload.principal == PRINCIPAL
                {
                    self.join_one(bucket, &ObjectKey::new(&key)?, &upload)
                        .await?;
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    async fn join_one(
        &mut self,
        bucket: &Bucket,
        key: &ObjectKey,
        upload: &UploadRecord,
    ) -> Result<()> {
        let tree = self.tree();
        let path = bucket.path(key.as_str());
        let most = PART_NUMBER_MAX as usize;
        let page = tree.list_parts(bucket, key, upload.id, 0, most).await?;
        let open = |why: String| Finding::Open {
            path: path.clone(),
            upload: upload.id,
            why,
        };
        if upload.encryption.is_some() {
            let why = "its parts are encrypted, and their digests are not known";
            self.tell(&open(why.to_owned()));
            return Ok(());
        }
        let Some(newest) = page.parts.iter().map(|(_, part)| part.id).max() else {
            self.tell(&open("it has no parts".to_owned()));
            return Ok(());
        };
        let numbers = page.parts.iter().map(|(number, _)| usize::from(*number));
        if let Some(gap) = numbers.zip(1..).find(|(number, n)| number != n) {
            self.tell(&open(format!("part {} was not found", gap.1)));
            return Ok(());
        }
        if let Some(found) = tree.lookup(bucket, key).await? {
            let current = found.current.id;
            if current > newest {
                let at = Timestamp(current.clock()).0;
                self.tell(&open(format!("its path has a newer content, of {at}")));
                return Ok(());
            }
        }
        self.placer.make_way(bucket, key).await?;
        let size = page.parts.iter().map(|(_, part)| part.size).sum();
        let named: Vec<NamedPart> = page
            .parts
            .iter()
            .map(|(number, part)| NamedPart {
                number: *number,
                etag: part.etag(),
            })
            .collect();
        let as_old_as = |open: &UploadRecord, parts: &[(u16, &PartRecord)]| {
            let mut joined = join_parts(open, parts)?;
            joined.version = Some(VersionId(newest.0));
            Ok(joined)
        };
        self.tell(&Finding::Joined {
            path,
            upload: upload.id,
            parts: named.len() as u32,
            size,
        });
        tree.complete_upload(
            &actor(upload.owner),
            (bucket, key).into(),
            upload.id,
            &named,
            0,
            &WriteCondition::NONE,
            &as_old_as,
        )
        .await?;
        Ok(())
    }
}
