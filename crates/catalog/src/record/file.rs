//! Files, symlinks, and the possible records at an entry key.

use dewar_types::{Error, VersionId};
use minicbor::{Decode, Encode};

use super::{DirRecord, EntryAttributes, Record, VersionRecord, is_default};

/// A file: its attributes and its current version.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct FileRecord {
    /// Id, owner, times.
    #[n(0)]
    pub attributes: EntryAttributes,
    /// The version that a reader gets. Older ones are in their own table.
    #[n(1)]
    pub current: VersionRecord,
    /// Number of older versions, including delete markers, which are in their own table.
    #[cbor(n(2), skip_if = "is_default")]
    pub older: u64,
    /// The older version whose name is `null`.
    #[n(3)]
    pub older_null: Option<VersionId>,
}

impl FileRecord {
    /// Whether it can be read: the current version is no delete marker.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.current.flags.delete_marker()
    }
}

/// A name that points to another path. S3 does not show it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SymlinkRecord {
    /// Id, owner, times.
    #[n(0)]
    pub attributes: EntryAttributes,
    /// Target of the link, as it was given.
    #[n(1)]
    pub target: String,
}

/// The record at an entry key.
#[allow(
    clippy::large_enum_variant,
    reason = "most entries are files, and a box would cost an allocation for each look-up"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file.
    File(FileRecord),
    /// A directory.
    Dir(DirRecord),
    /// A symbolic link.
    Symlink(SymlinkRecord),
}

impl Entry {
    /// Reads the value of an entry key.
    ///
    /// # Errors
    /// As [`Record::from_value`].
    pub fn from_value(key: &[u8], value: &[u8]) -> Result<Self, Error> {
        match value.first() {
            Some(&DirRecord::TAG) => DirRecord::from_value(key, value).map(Self::Dir),
            Some(&SymlinkRecord::TAG) => SymlinkRecord::from_value(key, value).map(Self::Symlink),
            _ => FileRecord::from_value(key, value).map(Self::File),
        }
    }

    /// Id, owner, times.
    #[must_use]
    pub fn attributes(&self) -> &EntryAttributes {
        match self {
            Self::File(file) => &file.attributes,
            Self::Dir(dir) => &dir.attributes,
            Self::Symlink(link) => &link.attributes,
        }
    }
}
