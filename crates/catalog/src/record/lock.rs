//! Locks that WebDAV clients take.

use dewar_types::{EntryId, Timestamp};
use minicbor::{Decode, Encode};

/// A lock on a file or directory. Only WebDAV looks at it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct LockRecord {
    /// The bucket.
    #[n(0)]
    pub bucket: EntryId,
    /// The path below the bucket when the lock was taken.
    #[n(1)]
    pub path: String,
    /// Whether others may have shared locks beside it.
    #[n(2)]
    pub shared: bool,
    /// Whether it also covers what is below the directory.
    #[n(3)]
    pub deep: bool,
    /// The holder, by an id that stays when it is renamed.
    #[n(4)]
    pub holder: String,
    /// The holder's name when the lock was taken, for people.
    #[n(5)]
    pub principal: String,
    /// The client's words about the owner: content of an XML element.
    #[n(6)]
    pub owner: String,
    /// When it ends.
    #[n(7)]
    pub expires: Timestamp,
}
