//! Small things that several documents show.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use dewar_checksum::Algorithm;
use dewar_sigv4::encode_path;
use dewar_types::{UploadId, UserId};
use s3s::dto::{ChecksumAlgorithm, ChecksumType, ETag, Initiator, Owner, StorageClass};

use crate::door::{Door, RequestContext};
use crate::error::{Code, Refusal, Result};

/// The accounts that an answer names, each looked up once.
#[derive(Default)]
pub(super) struct Owners(BTreeMap<UserId, Option<String>>);

impl Owners {
    /// Looks accounts up.
    pub(super) async fn of(door: &Door, ids: Vec<UserId>) -> Result<Self> {
        let mut names = BTreeMap::new();
        for id in ids {
            if let Entry::Vacant(place) = names.entry(id) {
                place.insert(door.store.display_name(id).await?);
            }
        }
        Ok(Self(names))
    }

    pub(super) fn owner(&self, id: UserId) -> Owner {
        Owner {
            display_name: self.0.get(&id).cloned().flatten(),
            id: Some(id.to_string()),
        }
    }

    pub(super) fn initiator(&self, id: UserId) -> Initiator {
        Initiator {
            display_name: self.0.get(&id).cloned().flatten(),
            id: Some(id.to_string()),
        }
    }
}

pub(super) fn etag(etag: &str) -> ETag {
    ETag::Strong(etag.to_owned())
}

pub(super) fn algorithm(algorithm: Algorithm) -> Option<ChecksumAlgorithm> {
    algorithm.s3_name().map(ChecksumAlgorithm::from_static)
}

pub(super) fn kind(composite: bool) -> ChecksumType {
    ChecksumType::from_static(if composite {
        ChecksumType::COMPOSITE
    } else {
        ChecksumType::FULL_OBJECT
    })
}

/// A storage class as documents have it.
pub(super) fn storage_class(class: Option<String>) -> StorageClass {
    match class {
        Some(class) => StorageClass::from(class),
        None => StorageClass::from_static(StorageClass::STANDARD),
    }
}

/// Text of a listing, URL-encoded when the client asked for that.
pub(super) fn listed(text: &str, encode: bool) -> String {
    if !encode {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 16);
    encode_path(&mut out, text.as_bytes());
    out
}

/// The upload id in the query string.
///
/// # Errors
/// `NoSuchUpload` for malformed text.
pub(super) fn upload_id(context: &RequestContext) -> Result<UploadId> {
    let text = context.query.get("uploadId").unwrap_or_default();
    text.parse().map_err(|_| {
        Refusal::new(
            Code::NoSuchUpload,
            "The specified upload does not exist. The upload ID may be invalid, or the upload may \
             have been aborted or completed.",
        )
        .element("UploadId", text)
    })
}
