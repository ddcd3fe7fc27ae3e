//! Listing.

use dewar_checksum::Algorithm;
use dewar_types::{Timestamp, UserId, VersionName};

use super::BucketRef;

/// Which keys are wanted; they come in byte order of the whole key.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// Of which bucket.
    pub bucket: BucketRef,
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys that share what stands before its first occurrence after the prefix count as one.
    /// Empty for none.
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
    /// Who wrote it.
    pub owner: UserId,
    /// The checksum shown to readers, if any, and whether it is over parts. Its value takes a key where the
    /// object is encrypted.
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
    /// The last key or common prefix of this page when more follow: hand it back as
    /// [`ListRequest::after`].
    pub next: Option<String>,
}

/// Which versions are wanted; they come in byte order of the whole key, newest first.
#[derive(Clone, Debug)]
pub struct ListVersionsRequest {
    /// Of which bucket.
    pub bucket: BucketRef,
    /// As in [`ListRequest::prefix`].
    pub prefix: String,
    /// As in [`ListRequest::delimiter`].
    pub delimiter: String,
    /// Only keys and common prefixes after this one, and with `after_version` the versions of this
    /// key that are older.
    pub after: String,
    /// See `after`.
    pub after_version: Option<VersionName>,
    /// At most this many versions and common prefixes together, 0 to 1,000.
    pub max: usize,
}

/// A version or delete marker of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedVersion {
    /// What clients call it.
    pub name: VersionName,
    /// Whether it is the current one.
    pub latest: bool,
    /// Whether it is a delete marker; then size, ETag and checksum mean nothing.
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
    /// Where to continue when more follow: hand it back as [`ListVersionsRequest::after`] and
    /// [`ListVersionsRequest::after_version`].
    pub next: Option<(String, Option<VersionName>)>,
}
