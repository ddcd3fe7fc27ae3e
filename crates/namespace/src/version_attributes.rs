//! The attributes that a client sets on a version beside its content. The records of versions and
//! uploads keep these fields flat; this file converts.

use std::collections::BTreeMap;

use dewar_catalog::record::{Retention, SystemHeaders, UploadRecord, VersionRecord};
use dewar_types::Timestamp;
use minicbor::bytes::ByteVec;

/// Attributes of a version beside its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionAttributes {
    /// Headers that go out as they came in.
    pub headers: SystemHeaders,
    /// User metadata: lower-case names without the protocol's prefix.
    pub metadata: BTreeMap<String, String>,
    /// Tags. `None` in a request that says nothing about tags: a new version has none then, and a
    /// copy has those of its source.
    pub tags: Option<BTreeMap<String, String>>,
    /// How long the version is kept, if not as the bucket says.
    pub retention: Option<Retention>,
    /// Whether the version has a legal hold; `None` if it was never set.
    pub legal_hold: Option<bool>,
    /// The storage class, if not the default.
    pub storage_class: Option<String>,
    /// The access control list, in a form that the layers above define. Requests carry theirs apart.
    pub acl: Option<ByteVec>,
    /// When the content changed, as the client says that writes it. It becomes the modification time of
    /// the file.
    pub client_modified: Option<Timestamp>,
    /// Text for a tape archive: JSON in base64 (WLCG's `ArchiveMetadata`).
    pub archive_metadata: Option<String>,
}

impl VersionAttributes {
    /// A version's record with these attributes.
    pub(super) fn apply(self, version: VersionRecord) -> VersionRecord {
        VersionRecord {
            headers: self.headers,
            metadata: self.metadata,
            tags: self.tags.unwrap_or_default(),
            retention: self.retention,
            legal_hold: self.legal_hold,
            storage_class: self.storage_class,
            acl: self.acl,
            client_modified: self.client_modified,
            archive_metadata: self.archive_metadata,
            ..version
        }
    }

    /// Bytes of the headers, of the user metadata with its names, and of the text for an archive.
    #[must_use]
    pub fn metadata_bytes(&self) -> usize {
        let archive = self.archive_metadata.as_ref().map_or(0, String::len);
        self.headers.bytes() + text_bytes(&self.metadata) + archive
    }

    /// Bytes of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let acl = self.acl.as_ref().map_or(0, |acl| acl.len());
        self.metadata_bytes() + self.tags.as_ref().map_or(0, text_bytes) + acl
    }
}

/// Bytes of names and values.
pub(super) fn text_bytes(map: &BTreeMap<String, String>) -> usize {
    map.iter().map(|(name, text)| name.len() + text.len()).sum()
}

impl From<&VersionRecord> for VersionAttributes {
    fn from(version: &VersionRecord) -> Self {
        Self {
            headers: version.headers.clone(),
            metadata: version.metadata.clone(),
            tags: Some(version.tags.clone()),
            retention: version.retention,
            legal_hold: version.legal_hold,
            storage_class: version.storage_class.clone(),
            acl: version.acl.clone(),
            client_modified: version.client_modified,
            archive_metadata: version.archive_metadata.clone(),
        }
    }
}

impl From<&UploadRecord> for VersionAttributes {
    fn from(upload: &UploadRecord) -> Self {
        Self {
            headers: upload.headers.clone(),
            metadata: upload.metadata.clone(),
            tags: Some(upload.tags.clone()),
            retention: upload.retention,
            legal_hold: upload.legal_hold,
            storage_class: upload.storage_class.clone(),
            acl: upload.acl.clone(),
            client_modified: None,
            archive_metadata: None,
        }
    }
}
