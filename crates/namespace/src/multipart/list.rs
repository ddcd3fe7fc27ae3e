//! Listing parts and uploads.

use dewar_catalog::keys;
use dewar_catalog::record::{PartRecord, Record, UploadRecord};
use dewar_kv::Scan;
use dewar_types::{Error, ErrorKind, ObjectKey, UploadId};

use super::super::{Bucket, Tree};

/// Most items of one page.
const LIST_MAX: usize = 10_000;
/// Uploads read at once, at most.
const PAGE_MAX: usize = 1_000;
/// Uploads read at once behind some that were rolled up: what follows is often rolled up too.
const PAGE_AFTER_PREFIX: usize = 8;

/// A page of an upload's parts.
#[derive(Clone, Debug)]
pub struct PartPage {
    /// The upload.
    pub upload: UploadRecord,
    /// Numbers and parts in order.
    pub parts: Vec<(u16, PartRecord)>,
    /// Whether there are more.
    pub truncated: bool,
}

/// A query for the uploads of a bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct UploadQuery<'a> {
    /// Only keys that begin so.
    pub prefix: &'a str,
    /// Keys that contain this string after the prefix are rolled up.
    pub delimiter: Option<&'a str>,
    /// Only uploads of keys above this one, and, with `after_upload`, of this key above that.
    pub after_key: Option<&'a str>,
    /// See `after_key`.
    pub after_upload: Option<UploadId>,
    /// At most so many uploads and prefixes.
    pub max: usize,
}

/// An item of a listing of uploads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedUpload {
    /// An upload in progress.
    Upload {
        /// The key it is for.
        key: String,
        /// Its record.
        upload: UploadRecord,
    },
    /// Keys rolled up.
    Prefix(String),
}

/// A page of uploads.
#[derive(Clone, Debug, Default)]
pub struct UploadPage {
    /// In the order of keys, uploads of one key by age.
    pub items: Vec<ListedUpload>,
    /// Start of the next page, if there is one: key (or prefix) and upload.
    pub next: Option<(String, Option<UploadId>)>,
}

impl Tree {
    /// A page of the parts of an upload with numbers above `after`.
    ///
    /// # Errors
    /// `NoSuchUpload`, `NoSuchBucket`; errors of the engine.
    pub async fn list_parts(
        &self,
        bucket: &Bucket,
        key: &ObjectKey,
        upload: UploadId,
        after: u16,
        max: usize,
    ) -> Result<PartPage, Error> {
        let kv = self.kv().snapshot();
        self.bucket_in(kv.as_ref(), bucket).await?;
        let upload_key = keys::upload(bucket.id, key.as_str(), upload);
        let Some(value) = kv.get(&upload_key).await?.value else {
            return Err(Error::new(
                ErrorKind::NoSuchUpload,
                format!("upload {upload} does not exist"),
            ));
        };
        let mut page = PartPage {
            upload: UploadRecord::from_value(&upload_key, &value)?,
            parts: Vec::new(),
            truncated: false,
        };
        let max = max.min(LIST_MAX);
        let (Some(first), 1..) = (after.checked_add(1), max) else {
            return Ok(page);
        };
        let range = keys::parts(upload).starting(&keys::part(upload, first));
        let found = kv
            .scan(Scan {
                from: &range.from,
                to: &range.to,
                limit: max,
                reverse: false,
            })
            .await?;
        page.truncated = found.more;
        for (key, value) in &found.pairs {
            let (_, number) = keys::parse_part(key)?;
            page.parts
                .push((number, PartRecord::from_value(key, value)?));
        }
        Ok(page)
    }

    /// A page of a bucket's uploads in progress.
    ///
    /// # Errors
    /// `NoSuchBucket`; errors of the engine.
    pub async fn list_uploads(
        &self,
        bucket: &Bucket,
        query: UploadQuery<'_>,
    ) -> Result<UploadPage, Error> {
        let kv = self.kv().snapshot();
        self.bucket_in(kv.as_ref(), bucket).await?;
        let delimiter = query.delimiter.filter(|delimiter| !delimiter.is_empty());
        let rolled = |key: &str| -> Option<String> {
            let rest = key.strip_prefix(query.prefix)?;
            let delimiter = delimiter?;
            let end = query.prefix.len() + rest.find(delimiter)? + delimiter.len();
            Some(key[..end].to_owned())
        };
        let past = |prefix: &str| {
            let begin = keys::uploads_prefix(bucket.id, prefix.as_bytes());
            keys::KeyRange::prefix(begin).to
        };
        let mut range =
            keys::KeyRange::prefix(keys::uploads_prefix(bucket.id, query.prefix.as_bytes()));
        if let Some(after) = query.after_key {
            let from = match (rolled(after), query.after_upload) {
                (Some(prefix), _) => past(&prefix),
                (None, Some(upload)) => keys::just_after(&keys::upload(bucket.id, after, upload)),
                (None, None) => {
                    keys::just_after(&keys::upload(bucket.id, after, UploadId(u128::MAX)))
                }
            };
            range = range.starting(&from);
        }
        let max = query.max.min(LIST_MAX);
        let mut page = UploadPage::default();
        if max == 0 {
            return Ok(page);
        }
        let mut limit = PAGE_MAX;
        'pages: while range.from < range.to {
            let found = kv
                .scan(Scan {
                    from: &range.from,
                    to: &range.to,
                    limit: (max + 1 - page.items.len()).min(limit),
                    reverse: false,
                })
                .await?;
            limit = (limit * 2).min(PAGE_MAX);
            for (key, value) in &found.pairs {
                let (_, object, _) = keys::parse_upload(key)?;
                let prefix = rolled(&object);
                if page.items.len() == max {
                    page.next = page.items.last().map(ListedUpload::marker);
                    break 'pages;
                }
                if let Some(prefix) = prefix {
                    limit = PAGE_AFTER_PREFIX;
                    range = range.starting(&past(&prefix));
                    page.items.push(ListedUpload::Prefix(prefix));
                    continue 'pages;
                }
                let upload = UploadRecord::from_value(key, value)?;
                page.items.push(ListedUpload::Upload {
                    key: object,
                    upload,
                });
            }
            match found.pairs.last() {
                Some((last, _)) if found.more => range = range.starting(&keys::just_after(last)),
                _ => break,
            }
        }
        Ok(page)
    }
}

impl ListedUpload {
    fn marker(&self) -> (String, Option<UploadId>) {
        match self {
            Self::Upload { key, upload } => (key.clone(), Some(upload.id)),
            Self::Prefix(prefix) => (prefix.clone(), None),
        }
    }
}
