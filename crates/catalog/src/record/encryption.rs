//! Encryption of a version's bytes (RECORDS.md section 6). The catalog stores these fields and
//! reads none of them; the layer above interprets them.

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// How the content of a version, or of an upload in progress, is encrypted.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct EncryptionRecord {
    /// Holder of the key that decrypts it.
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
    /// Digests of the clear content and the checksum for clients. They are encrypted with a key
    /// that only the holder of the key above can derive.
    #[n(4)]
    pub sealed: Option<ByteVec>,
}

/// The holder of the key of encrypted content.
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
