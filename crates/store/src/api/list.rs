//! Listing.

use dewar_checksum::Algorithm;
use dewar_types::{Timestamp, UserId, VersionName};

use super::BucketRef;

/// A request for a page of keys, in byte order of the whole key.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// Of which bucket.
    pub bucket: BucketRef,
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys with the same text before the delimiter's first occurrence after the prefix count as
    /// one. Empty for none.
    pub delimiter: String,
    /// Only keys and common prefixes after this one.
    pub after: String,
    /// At most this many keys and common prefixes together, 0 to 1,000.
    pub max: usize,
}

/// A key of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// The whole key.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its ETag without quotes.
    pub etag: String,
    /// When it was written.
    pub modified: Timestamp,
    /// The owner.
    pub owner: UserId,
    /// The checksum shown to readers, if any, and whether it is over parts. If the object is
    /// encrypted, the value is available only with the key.
    pub checksum: Option<(Algorithm, bool)>,
    /// Its storage class, if not the default.
    pub storage_class: Option<String>,
}

/// A part of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// The keys, in byte order.
    pub objects: Vec<ListedObject>,
    /// The common prefixes, in byte order, each ending in the delimiter.
    pub prefixes: Vec<String>,
    /// The last key or common prefix of this page when more follow. Pass it on as
    /// [`ListRequest::after`].
    pub next: Option<String>,
}

/// A request for a page of versions, in byte order of the whole key, newest first.
#[derive(Clone, Debug)]
pub struct ListVersionsRequest {
    /// Of which bucket.
    pub bucket: BucketRef,
    /// As in [`ListRequest::prefix`].
    pub prefix: String,
    /// As in [`ListRequest::delimiter`].
    pub delimiter: String,
    /// Only keys and common prefixes after this one. With `after_version`, also the older versions
    /// of this key.
    pub after: String,
    /// See `after`.
    pub after_version: Option<VersionName>,
    /// At most this many versions and common prefixes together, 0 to 1,000.
    pub max: usize,
}

/// A version or delete marker of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedVersion {
    /// The version's name, as clients see it.
    pub name: VersionName,
    /// Whether it is the current one.
    pub latest: bool,
    /// Whether it is a delete marker. Size, ETag and checksum have no meaning then.
    pub marker: bool,
    /// All else.
    pub object: ListedObject,
}

/// A part of a listing of versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionsPage {
    /// The versions.
    pub versions: Vec<ListedVersion>,
    /// The common prefixes, in byte order, each ending in the delimiter.
    pub prefixes: Vec<String>,
    /// The position to continue from when more versions follow. Pass it on as
    /// [`ListVersionsRequest::after`] and [`ListVersionsRequest::after_version`].
    pub next: Option<(String, Option<VersionName>)>,
}
