//! The registry of tables.
//!
//! The first byte of a key names its table. Only this file says which byte that is. A new table is
//! a line here, functions for its keys in [`crate::keys`], and its description in
//! docs/formats/catalog.md.

use bytes::{BufMut, Bytes, BytesMut};

use crate::key_range::KeyRange;

/// A table of the catalog: all keys that begin with one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// First byte of each of its keys.
    pub prefix: u8,
    /// The crate that defines when the table changes.
    pub owner: &'static str,
    /// Name of a record of the table in errors.
    pub name: &'static str,
    /// The types of its values, or their form.
    pub values: &'static str,
}

impl Table {
    /// The table of a key, if a table has its first byte.
    #[must_use]
    pub fn of(key: &[u8]) -> Option<Self> {
        let prefix = key.first()?;
        TABLES.iter().copied().find(|table| table.prefix == *prefix)
    }

    /// All keys of the table.
    #[must_use]
    pub fn keys(self) -> KeyRange {
        self.range(&[])
    }

    /// A key of the table.
    pub(crate) fn key(self, parts: &[&[u8]]) -> Bytes {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut key = BytesMut::with_capacity(1 + len);
        key.put_u8(self.prefix);
        for part in parts {
            key.put_slice(part);
        }
        key.freeze()
    }

    /// The keys of the table that begin with these parts.
    pub(crate) fn range(self, parts: &[&[u8]]) -> KeyRange {
        KeyRange::prefix(self.key(parts))
    }
}

macro_rules! tables {
    ($($table:ident: $prefix:expr, $owner:literal $name:literal => $values:literal;)*) => {
        $(
            #[doc = concat!("The table of each ", $name, ": ", $values, ".")]
            pub const $table: Table = Table {
                prefix: $prefix,
                owner: $owner,
                name: $name,
                values: $values,
            };
        )*

        /// Every table.
        pub const TABLES: &[Table] = &[$($table),*];
    };
}

tables! {
    ENTRY: b'e', "namespace" "entry" => "FileRecord, DirRecord, SymlinkRecord";
    VERSION: b'v', "namespace" "older version" => "VersionRecord";
    LONG: b'l', "namespace" "long list" => "LongRecord";
    DOCUMENT: b'B', "namespace" "bucket document" => "DocumentRecord";
    HINT: b'h', "namespace" "hint" => "HintRecord";
    LOCK: b'W', "namespace" "WebDAV lock" => "LockRecord";
    REMOVAL: b'z', "namespace" "removed directory" => "RemovalRecord";
    SPACE: b'S', "namespace" "space" => "SpaceRecord";
    UPLOAD: b'u', "namespace" "upload" => "UploadRecord";
    PART: b'p', "namespace" "part" => "PartRecord";
    REFERENCES: b'r', "namespace" "reference count" => "8 bytes";
    BLOB: b'b', "data" "blob" => "BlobRecord";
    SEGMENT: b's', "data" "segment" => "SegmentRecord";
    REPAIR: b'q', "data" "blob to be repaired" => "KnownBadShards";
    DEAD: b'd', "catalog" "dead slot" => "4 bytes";
    FREE: b'x', "catalog" "blob to be freed" => "nothing";
    COUNTER: b'c', "catalog" "counter" => "8 bytes";
    QUOTA: b'Q', "catalog" "quota" => "QuotaRecord";
    IDS: b'i', "catalog" "reservation of ids" => "8 bytes";
    TENANT: b't', "catalog" "tenant" => "TenantRecord";
    REBUILT: b'R', "store" "mark of a rebuilt catalog" => "RebuildMarker";
    DISK: b'D', "store" "record of a disk" => "by kind";
    WORK: b'w', "store" "progress of background work" => "by kind";
    USER: b'U', "store" "user" => "UserRecord";
    ACCESS_KEY: b'K', "store" "access key" => "KeyRecord";
    IDENTITY: b'I', "store" "record of an identity" => "by kind";
    CHANGE_LOG: dewar_kv::embedded::CHANGE_LOG, "kv" "change" => "ChangeRecord";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_byte_names_one_table() {
        let prefixes: BTreeSet<u8> = TABLES.iter().map(|table| table.prefix).collect();
        assert_eq!(prefixes.len(), TABLES.len());
        for table in TABLES {
            assert_eq!(Table::of(&[table.prefix, 1]), Some(*table));
        }
        assert_eq!(Table::of(b""), None);
    }

    #[test]
    fn the_page_of_the_format_lists_every_table() {
        let page = include_str!("../../../docs/formats/catalog.md");
        let (_, keys) = page.split_once("\n## 1. Keys\n").expect("has the section");
        let (keys, _) = keys.split_once("\n## ").expect("has another section");
        let listed: BTreeSet<char> = keys
            .lines()
            .filter_map(|line| line.strip_prefix("    "))
            .filter(|line| !line.starts_with(' '))
            .filter_map(|line| line.chars().next())
            .collect();
        let registered = TABLES
            .iter()
            .map(|table| char::from(table.prefix))
            .collect();
        assert_eq!(listed, registered);
    }
}
