//! How objects of a bucket are encrypted that do not say.

use dewar_namespace::Bucket;
use dewar_types::Result;
use minicbor::{Decode, Encode};

use super::Encryption;
use crate::document::document_of;

/// A bucket's default encryption: with a key of Dewar's. There is no other kind yet, so the
/// document has no fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct BucketEncryption {}

crate::cbor_document!(BucketEncryption, format 1, Encryption, get GetEncryptionConfiguration, put PutEncryptionConfiguration, delete PutEncryptionConfiguration);

/// The encryption of a new object in the bucket: the requested one, or the bucket's default.
pub(crate) fn chosen(asked: Option<Encryption>, bucket: &Bucket) -> Result<Option<Encryption>> {
    if asked.is_some() {
        return Ok(asked);
    }
    let by_default = document_of::<BucketEncryption>(bucket)?;
    Ok(by_default.map(|_| Encryption::Dewar))
}
