//! Listing a bucket's keys.

use dewar_auth::{Action, Caller, Details};
use dewar_namespace::{ListQuery, Listed, ListedVersion as Item, VersionQuery};
use dewar_types::{Result, UserId, VersionName};

use crate::Store;
use crate::api::{
    ListPage, ListRequest, ListVersionsRequest, ListedObject, ListedVersion, VersionsPage,
};
use crate::info::named_checksum;
use crate::limits::PAGE_ITEMS_MAX;

impl Store {
    /// A page of keys in byte order of the whole key, from one snapshot. A page that reads many
    /// names without showing them ends early, perhaps without any item.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Denied`], [`dewar_types::ErrorKind::NoSuchBucket`];
    /// [`dewar_types::ErrorKind::Busy`] while the account runs too many such listings.
    pub async fn list(&self, caller: &Caller, request: ListRequest) -> Result<ListPage> {
        let details = Details {
            prefix: Some(&request.prefix),
            delimiter: Some(request.delimiter.as_str()).filter(|text| !text.is_empty()),
            max_keys: Some(request.max),
            ..self.inner.details()
        };
        let bucket = self
            .inner
            .authorize_bucket_with(caller, Action::ListBucket, &request.bucket, None, &details)
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
        let (tree, gate) = (&self.inner.tree, self.inner.listings.gate(caller));
        let listing = tree.list_within(&bucket, query, gate.budget()).await?;
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
                    checksum: named_checksum(&record.current),
                    storage_class: record.current.storage_class.clone(),
                }),
                Listed::Prefix { prefix, .. } => page.prefixes.push(prefix),
            }
        }
        Ok(page)
    }
}

impl Store {
    /// A page of versions and delete markers, in byte order of the whole key, those of a key newest
    /// first, from one snapshot.
    ///
    /// # Errors
    /// [`dewar_types::ErrorKind::Denied`], [`dewar_types::ErrorKind::NoSuchBucket`].
    pub async fn list_versions(
        &self,
        caller: &Caller,
        request: ListVersionsRequest,
    ) -> Result<VersionsPage> {
        let details = Details {
            prefix: Some(&request.prefix),
            delimiter: Some(request.delimiter.as_str()).filter(|text| !text.is_empty()),
            max_keys: Some(request.max),
            ..self.inner.details()
        };
        let action = Action::ListBucketVersions;
        let bucket = self
            .inner
            .authorize_bucket_with(caller, action, &request.bucket, None, &details)
            .await?;
        if request.max == 0 {
            return Ok(VersionsPage::default());
        }
        let query = VersionQuery {
            prefix: &request.prefix,
            delimiter: Some(request.delimiter.as_str()).filter(|text| !text.is_empty()),
            after: Some(request.after.as_str()).filter(|text| !text.is_empty()),
            after_version: request.after_version,
            max: request.max.min(PAGE_ITEMS_MAX),
        };
        let (tree, gate) = (&self.inner.tree, self.inner.listings.gate(caller));
        let listing = tree
            .list_versions_within(&bucket, query, gate.budget())
            .await?;
        let next = listing.next;
        let mut page = VersionsPage {
            next: next.map(|(key, version)| (key, version.map(VersionName::Id))),
            ..VersionsPage::default()
        };
        for item in listing.items {
            match item {
                Item::Version {
                    key,
                    current,
                    version,
                } => page.versions.push(ListedVersion {
                    name: version.name(),
                    latest: current,
                    marker: version.flags.delete_marker(),
                    object: ListedObject {
                        key,
                        size: version.size,
                        etag: version.etag(),
                        modified: version.modified,
                        owner: version.owner.unwrap_or(UserId(0)),
                        checksum: named_checksum(&version),
                        storage_class: version.storage_class.clone(),
                    },
                }),
                Item::Prefix(prefix) => page.prefixes.push(prefix),
            }
        }
        Ok(page)
    }
}
