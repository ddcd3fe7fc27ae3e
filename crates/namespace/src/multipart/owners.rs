//! Uploads in progress of all buckets: their owners, and uploads that seem abandoned.

use std::collections::BTreeMap;

use dewar_catalog::record::{Counter, Record, UploadRecord, number};
use dewar_catalog::{keys, tables};
use dewar_types::{EntryId, Error, Timestamp, UserId};

use super::super::Tree;

/// Counters or uploads read at once.
const PAGE: usize = 1000;

/// The amount that the uploads in progress of a user hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadUsage {
    /// Owner of the uploads.
    pub owner: UserId,
    /// How many.
    pub uploads: u64,
    /// Size of the uploads as quotas count it, in bytes.
    pub bytes: u64,
    /// Start of the oldest upload, if it is among those that were examined.
    pub oldest: Option<Timestamp>,
}

/// An upload in progress with its bucket and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenUploadEntry {
    /// The bucket.
    pub bucket: EntryId,
    /// The key that it is for.
    pub key: String,
    /// Its record.
    pub upload: UploadRecord,
}

impl Tree {
    /// The uploads in progress of every user that has some, in descending order of size. Numbers
    /// and bytes are exact. The oldest one is searched among at most `looked_max` uploads.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn upload_usage(&self, looked_max: usize) -> Result<Vec<UploadUsage>, Error> {
        let mut owners = BTreeMap::new();
        let range = keys::KeyRange {
            from: Counter::Uploads(UserId(0)).key(),
            to: keys::just_after(&Counter::Uploads(UserId(u64::MAX)).key()),
        };
        let mut pages = range.pages(&**self.kv(), PAGE);
        while let Some(pairs) = pages.next().await? {
            for (key, value) in &pairs {
                let uploads = number(key, value)?.cast_signed();
                let id = key.last_chunk::<8>().map(|id| u64::from_be_bytes(*id));
                let Some(owner) = id.map(UserId).filter(|_| uploads > 0) else {
                    continue;
                };
                let bytes = Counter::UploadBytes(owner).value(&**self.kv()).await?;
                let usage = UploadUsage {
                    owner,
                    uploads: uploads.unsigned_abs(),
                    bytes: u64::try_from(bytes).unwrap_or(0),
                    oldest: None,
                };
                owners.insert(owner, usage);
            }
        }
        let (mut left, mut after) = (looked_max, None);
        while left > 0 && !owners.is_empty() {
            let page = self.uploads_after(after.as_ref(), left.min(PAGE)).await?;
            for entry in &page {
                let initiated = entry.upload.initiated;
                if let Some(usage) = owners.get_mut(&entry.upload.owner) {
                    let before = usage.oldest.unwrap_or(initiated);
                    usage.oldest = Some(before.min(initiated));
                }
            }
            left = left.saturating_sub(page.len());
            match page.into_iter().next_back() {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        let mut owners: Vec<_> = owners.into_values().collect();
        owners.sort_by_key(|usage| (std::cmp::Reverse(usage.bytes), usage.owner));
        Ok(owners)
    }

    /// Uploads of all buckets after `after`, at most `max`; empty when there are no more.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn uploads_after(
        &self,
        after: Option<&OpenUploadEntry>,
        max: usize,
    ) -> Result<Vec<OpenUploadEntry>, Error> {
        let mut range = tables::UPLOAD.keys();
        if let Some(last) = after {
            let key = keys::upload(last.bucket, &last.key, last.upload.id);
            range.from = keys::just_after(&key);
        }
        let pairs = range.pages(&**self.kv(), max).next().await?;
        let pairs = pairs.unwrap_or_default();
        let entries = pairs.iter().map(|(at, value)| {
            let (bucket, key, _) = keys::parse_upload(at)?;
            let upload = UploadRecord::from_value(at, value)?;
            Ok(OpenUploadEntry {
                bucket,
                key,
                upload,
            })
        });
        entries.collect()
    }
}
