//! Records that the catalog stores under its keys.
//!
//! Every value begins with one byte for the kind of the record and one byte for the record's
//! format. CBOR with numbered fields follows. Records may change by these rules:
//!
//! - A field's number is never given to another field, and a field's meaning never changes.
//! - A new field is optional or has a default; readers skip numbers they do not know. A writer that
//!   changes a record of a newer minor release would lose such fields. Going back to an older
//!   binary after new fields were written is therefore not offered.
//! - A change that an older reader must not overlook takes the next format number. Every format
//!   that was ever released stays readable; `testdata/records-v1` holds a sample of each.
//! - New variants of an enum count as such a change.

mod change;
mod counter;
mod dir;
mod document;
mod encryption;
mod file;
mod lock;
mod removal;
mod space;
#[cfg(test)]
mod tests;
mod upload;
mod version;

use bytes::Bytes;
use dewar_types::{EntryId, Error, ErrorKind, GroupId, Timestamp, UserId};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

pub use change::{ChangeKind, ChangeRecord, VersionSummary};
pub use counter::{Counter, CounterScope};
pub use dir::{
    BucketSettings, DefaultRetention, DirRecord, HintRecord, HintStep, ObjectLock, QuotaRecord,
    SpaceMark, TenantRecord, Versioning,
};
pub use document::{DocumentKind, DocumentRecord};
pub use encryption::{EncryptionRecord, KeyHolder};
pub use file::{Entry, FileRecord, SymlinkRecord};
pub use lock::LockRecord;
pub use removal::RemovalRecord;
pub use space::SpaceRecord;
pub use upload::{PartRecord, UploadChecksum, UploadRecord};
pub use version::{
    ContentCopy, CopyState, DisplayedChecksum, ETag, Extent, LongRecord, PartRun, PartSizes,
    Retention, RetentionMode, Slot, SystemHeaders, VersionFlags, VersionRecord,
};

/// A kind of value in the catalog.
pub trait Record: Encode<()> + for<'b> Decode<'b, ()> {
    /// First byte of the value.
    const TAG: u8;
    /// Second byte of the value: the format that this release writes.
    const FORMAT: u8;
    /// What it is called in errors.
    const NAME: &'static str;

    /// The stored form.
    fn to_value(&self) -> Bytes {
        let mut value = Vec::with_capacity(256);
        value.extend([Self::TAG, Self::FORMAT]);
        minicbor::encode(self, &mut value).expect("writing to memory does not fail");
        value.into()
    }

    /// Reads the stored form; `key` is named in errors.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a format of a newer release, [`ErrorKind::Corrupt`] for
    /// anything else that is not this record.
    fn from_value(key: &[u8], value: &[u8]) -> Result<Self, Error> {
        let at = || key.escape_ascii().to_string();
        match value {
            [tag, format, body @ ..] if *tag == Self::TAG => {
                if *format == 0 || *format > Self::FORMAT {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        format!(
                            "the {} at catalog key {} has format {format}, written by a newer release",
                            Self::NAME,
                            at()
                        ),
                    ));
                }
                let mut decoder = minicbor::Decoder::new(body);
                let record = decoder.decode().map_err(|error| {
                    Error::with_source(
                        ErrorKind::Corrupt,
                        format!("the {} at catalog key {} is damaged", Self::NAME, at()),
                        error,
                    )
                })?;
                if decoder.position() != body.len() {
                    return Err(Error::new(
                        ErrorKind::Corrupt,
                        format!("the {} at catalog key {} has a tail", Self::NAME, at()),
                    ));
                }
                Ok(record)
            }
            _ => Err(Error::new(
                ErrorKind::Corrupt,
                format!("catalog key {} does not hold a {}", at(), Self::NAME),
            )),
        }
    }
}

macro_rules! records {
    ($($type:ty: $tag:literal $format:literal $name:literal;)*) => {$(
        impl Record for $type {
            const TAG: u8 = $tag;
            const FORMAT: u8 = $format;
            const NAME: &'static str = $name;
        }
    )*};
}

records! {
    FileRecord: b'f' 1 "file";
    DirRecord: b'd' 1 "directory";
    SymlinkRecord: b'y' 1 "symlink";
    VersionRecord: b'v' 1 "version";
    LongRecord: b'l' 1 "long list";
    HintRecord: b'h' 1 "hint";
    UploadRecord: b'u' 1 "upload";
    PartRecord: b'p' 1 "part";
    TenantRecord: b't' 1 "tenant";
    ChangeRecord: b'c' 1 "change";
    DocumentRecord: b'D' 1 "bucket document";
    QuotaRecord: b'q' 1 "quota";
    LockRecord: b'w' 1 "WebDAV lock";
    RemovalRecord: b'z' 1 "removed directory";
    SpaceRecord: b'S' 1 "space";
}

/// A number that is stored in 8 bytes, big-endian; `key` is named in errors.
///
/// # Errors
/// [`ErrorKind::Corrupt`] when the value has another length.
pub fn number(key: &[u8], value: &[u8]) -> Result<u64, Error> {
    value.try_into().map(u64::from_be_bytes).map_err(|_| {
        Error::new(
            ErrorKind::Corrupt,
            format!("catalog key {} does not hold a number", key.escape_ascii()),
        )
    })
}

/// Whether a field may be left out.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The attributes of every entry.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct EntryAttributes {
    /// Its id, which stays through renames.
    #[n(0)]
    pub id: EntryId,
    /// Owner of the entry.
    #[n(1)]
    pub owner: UserId,
    /// The group that owns it.
    #[n(2)]
    pub group: Option<GroupId>,
    /// Permission bits as POSIX has them.
    #[n(3)]
    pub mode: u32,
    /// When its content changed; a client may set it.
    #[n(4)]
    pub mtime: Timestamp,
    /// When anything about it changed last.
    #[n(5)]
    pub ctime: Timestamp,
    /// Extended attributes.
    #[cbor(n(6), skip_if = "is_default")]
    pub xattrs: BTreeMap<String, ByteVec>,
}
