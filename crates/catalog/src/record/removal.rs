//! Directories that were removed with their content, which is still being freed.

use dewar_types::{EntryId, TenantId, Timestamp};
use minicbor::{Decode, Encode};

use super::is_default;

/// A removed directory. Its entries are still in the catalog, under its id, and nothing else names
/// it. They count for the scopes of this record until they are freed.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RemovalRecord {
    /// The tenant of the bucket.
    #[n(0)]
    pub tenant: TenantId,
    /// The bucket. It may be deleted before the content is freed.
    #[n(1)]
    pub bucket: EntryId,
    /// Name of the bucket.
    #[n(2)]
    pub bucket_name: String,
    /// The spaces that count the content, outermost first.
    #[cbor(n(3), skip_if = "is_default")]
    pub spaces: Vec<EntryId>,
    /// Path of the directory when it was removed, the bucket and a tenant's `/@name` included.
    #[n(4)]
    pub path: String,
    /// When it was removed.
    #[n(5)]
    pub since: Timestamp,
}
