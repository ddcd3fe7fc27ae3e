//! How a version's bytes are encrypted (RECORDS.md section 6). The catalog keeps this and looks at
//! none of it; what it means is the business of the layer above.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// How the content of a version, or of an upload in progress, is encrypted.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct EncryptionRecord {
    /// Whose key opens it.
    #[n(0)]
    pub holder: KeyHolder,
    /// How: the number of a format in `docs/formats/encryption.md`.
    #[n(1)]
    pub scheme: u32,
    /// Chosen at random; the wrapped key below is bound to it.
    #[n(2)]
    pub id: ByteVec,
    /// The key of the bytes, wrapped.
    #[n(3)]
    pub key: ByteVec,
    /// Digests of the clear content and the checksum to be shown, sealed with a key that only who
    /// has the one above can make.
    #[n(4)]
    pub sealed: Option<ByteVec>,
}

/// Whose key opens encrypted content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum KeyHolder {
    /// Dewar's: the content's key is wrapped under the master key.
    #[n(0)]
    Dewar,
    /// The customer, who sends the key with each request.
    #[n(1)]
    Customer,
}
