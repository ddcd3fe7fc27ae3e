//! The description that is stored in front of the bytes for salvage: owner, path and times
//! (RECORDS.md section 5).
//!
//! It is in the header of a small object's slot and in the owner field of a large object's shards.
//! It is written once, with the bytes. Field numbers never change. Fields after the fifth were
//! added later, so older descriptions lack them (docs/formats/catalog.md, section 3).

use std::collections::BTreeMap;

use crate::format::OWNER_BYTES_MAX;
use dewar_catalog::record::{ETag, EncryptionRecord, SystemHeaders};
use dewar_checksum::DigestSet;
use dewar_types::{UploadId, VersionId};
use minicbor::{Decode, Encode};

/// The description of one content.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SalvageHeader {
    /// The version; its clock says when.
    #[n(0)]
    pub version: VersionId,
    /// Bytes.
    #[n(1)]
    pub size: u64,
    /// Digests of the bytes; absent for encrypted content, because they would reveal it.
    #[n(2)]
    pub digests: Option<DigestSet>,
    /// The user who wrote it.
    #[n(3)]
    pub owner: u64,
    /// Path at writing: `/bucket/key`, or `/@tenant/bucket/key`.
    #[n(4)]
    pub path: String,
    /// Set for a part of an upload, which is not an object.
    #[n(5)]
    pub part: Option<PartOf>,
    /// Headers that go out as they came in; of a part, those of its upload.
    #[cbor(n(6), skip_if = "is_default")]
    pub headers: SystemHeaders,
    /// User metadata; of a part, that of its upload.
    #[cbor(n(7), skip_if = "is_default")]
    pub metadata: BTreeMap<String, String>,
    /// Whether headers or metadata were left out for lack of space.
    #[cbor(n(8), skip_if = "is_default")]
    pub cut: bool,
    /// How it is encrypted; of a part, how its upload is.
    #[n(9)]
    pub encryption: Option<EncryptionRecord>,
    /// For encrypted content: the salt that distinguishes its stream from others under the same
    /// key.
    #[n(10)]
    pub salt: Option<u64>,
    /// For encrypted content: its ETag, which cannot be computed again.
    #[n(11)]
    pub etag: Option<ETag>,
    /// The number of the pool that it was written for, if not the main one.
    #[n(12)]
    pub pool: Option<u16>,
}

/// The upload and the number of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PartOf {
    /// The upload.
    #[n(0)]
    pub upload: UploadId,
    /// The part's number.
    #[n(1)]
    pub number: u16,
}

/// The part of a description that is known before the bytes.
#[derive(Clone, Debug, Default)]
pub struct SalvageOrigin {
    /// The user who writes it.
    pub owner: u64,
    /// Its path, as in [`SalvageHeader::path`].
    pub path: String,
    /// Set for a part of an upload.
    pub part: Option<PartOf>,
    /// The pool, if not the main one.
    pub pool: Option<u16>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl SalvageOrigin {
    /// The description of content of so many bytes; of a part, with the headers and metadata of its
    /// upload.
    pub fn describe(
        self,
        version: VersionId,
        size: u64,
        headers: SystemHeaders,
        metadata: BTreeMap<String, String>,
    ) -> SalvageHeader {
        SalvageHeader {
            version,
            size,
            digests: None,
            owner: self.owner,
            path: self.path,
            part: self.part,
            headers,
            metadata,
            cut: false,
            encryption: None,
            salt: None,
            etag: None,
            pool: self.pool,
        }
    }
}

impl SalvageHeader {
    /// With the digests of the clear bytes, or how these are encrypted.
    pub fn told(
        self,
        digests: DigestSet,
        salt: Option<u64>,
        encryption: Option<EncryptionRecord>,
        etag: Option<ETag>,
    ) -> Self {
        Self {
            digests: salt.is_none().then_some(digests),
            salt,
            encryption,
            etag,
            ..self
        }
    }

    /// Its bytes. Fields that do not fit a header are left out, the metadata first.
    pub fn into_bytes(mut self) -> Vec<u8> {
        let bytes = self.encoded();
        if bytes.len() <= OWNER_BYTES_MAX {
            return bytes;
        }
        self.cut = true;
        self.metadata.clear();
        let bytes = self.encoded();
        if bytes.len() <= OWNER_BYTES_MAX {
            return bytes;
        }
        self.headers = SystemHeaders::default();
        self.encoded()
    }

    fn encoded(&self) -> Vec<u8> {
        // Writing into a vector cannot fail.
        minicbor::to_vec(self).unwrap_or_default()
    }

    /// Reads what a header says; `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        minicbor::decode(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SalvageHeader {
        SalvageHeader {
            version: VersionId(7),
            size: 12_345,
            digests: Some(DigestSet::new(1, 2)),
            owner: 9,
            path: "/data/a".to_owned(),
            part: None,
            headers: SystemHeaders::default(),
            metadata: BTreeMap::new(),
            cut: false,
            encryption: None,
            salt: None,
            etag: None,
            pool: None,
        }
    }

    /// The bytes of the first release must always be readable. They are still written if there are
    /// no newer fields.
    #[test]
    fn version_1_is_read_and_still_written() {
        let mut stored = b"\xa5\x00\x50".to_vec();
        stored.extend_from_slice(&[0; 15]);
        stored.extend_from_slice(b"\x07\x01\x19\x30\x39\x02\x82\x01\x02\x03\x09\x04\x67/data/a");
        assert_eq!(SalvageHeader::from_bytes(&stored), Some(sample()));
        assert_eq!(sample().into_bytes(), stored);
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_said() {
        let headers = SystemHeaders {
            content_type: Some("text/plain".to_owned()),
            ..SystemHeaders::default()
        };
        let part = Some(PartOf {
            upload: UploadId(3),
            number: 10_000,
        });
        let full = SalvageHeader {
            path: format!("/data/{}", "k".repeat(1024)),
            part,
            headers: headers.clone(),
            metadata: [("a".to_owned(), "b".repeat(100))].into(),
            ..sample()
        };
        let bytes = full.clone().into_bytes();
        assert_eq!(SalvageHeader::from_bytes(&bytes), Some(full.clone()));
        let mut long = full;
        long.metadata = [("a".to_owned(), "b".repeat(2048))].into();
        let bytes = long.clone().into_bytes();
        assert!(bytes.len() <= OWNER_BYTES_MAX);
        let read = SalvageHeader::from_bytes(&bytes).expect("reads");
        assert!(read.cut && read.metadata.is_empty());
        assert_eq!((read.part, read.headers), (part, headers));
        long.headers.redirect = Some("r".repeat(4096));
        let bytes = long.into_bytes();
        assert!(bytes.len() <= OWNER_BYTES_MAX);
        let read = SalvageHeader::from_bytes(&bytes).expect("reads");
        assert!(read.cut && read.headers == SystemHeaders::default());
        assert_eq!(read.part, part);
    }
}
