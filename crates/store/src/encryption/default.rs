//! How objects of a bucket are encrypted that do not say.

use dewar_meta::ns::Bucket;
use dewar_types::Result;
use minicbor::{Decode, Encode};

use super::Encryption;
use crate::document::document_of;

/// A bucket's choice for objects that come without one: a key of Dewar's. There is no other way yet,
/// so that it is there says it all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct BucketEncryption {}

crate::cbor_document!(BucketEncryption, format 1, Encryption, get GetEncryptionConfiguration, put PutEncryptionConfiguration, delete PutEncryptionConfiguration);

/// How what is written to the bucket is encrypted: as asked for, else as the bucket says.
pub(crate) fn chosen(asked: Option<Encryption>, bucket: &Bucket) -> Result<Option<Encryption>> {
    if asked.is_some() {
        return Ok(asked);
    }
    let by_default = document_of::<BucketEncryption>(bucket)?;
    Ok(by_default.map(|_| Encryption::Dewar))
}
