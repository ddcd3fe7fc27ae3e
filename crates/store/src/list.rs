//! Listing a bucket's keys.

use dewar_auth::{Action, Caller};
use dewar_meta::ns::{ListQuery, Listed};
use dewar_types::Result;

use crate::Store;
use crate::api::{ListPage, ListRequest, ListedObject};
use crate::info::shown_checksum;
use crate::limits::PAGE_ITEMS_MAX;

impl Store {
    /// A page of keys in byte order of the whole key, as one moment shows them.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Denied`], [`dewar_types::ErrorKind::NoSuchBucket`].
    pub async fn list(&self, caller: &Caller, request: ListRequest) -> Result<ListPage> {
        let bucket = self
            .inner
            .admit(caller, Action::ListBucket, &request.bucket, None)
            .await?;
        if request.max == 0 {
            return Ok(ListPage::default());
        }
        let query = ListQuery {
            prefix: &request.prefix,
            delimiter: Some(request.delimiter.as_str()).filter(|text| !text.is_empty()),
            after: Some(request.after.as_str()).filter(|text| !text.is_empty()),
            max: request.max.min(PAGE_ITEMS_MAX),
            explicit_dirs: false,
        };
        let listing = self.inner.tree.list(&bucket, query).await?;
        let mut page = ListPage {
            next: listing.next,
            ..ListPage::default()
        };
        for item in listing.items {
            match item {
                Listed::File { key, file: record } => page.objects.push(ListedObject {
                    key,
                    size: record.current.size,
                    etag: record.current.etag(),
                    modified: record.current.modified,
                    owner: record.attributes.owner,
                    checksum: shown_checksum(&record.current),
                }),
                Listed::Prefix { prefix, .. } => page.prefixes.push(prefix),
            }
        }
        Ok(page)
    }
}
