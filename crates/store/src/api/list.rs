//! Listing.

use dewar_types::{Timestamp, UserId};

use super::{BucketRef, ObjectChecksum};

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
    /// The checksum shown to readers, if any.
    pub checksum: Option<ObjectChecksum>,
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
