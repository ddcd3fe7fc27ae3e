//! AWS Signature Version 4, for the side that signs and the side that verifies.
//!
//! Both sides build the same texts: the canonical request of the received or intended request, and
//! the string to sign, which names the date, the [`CredentialScope`] and the canonical request's
//! digest. A [`SigningKey`] signs that string. A [`Signer`] does this for one connection. A
//! verifier parses an [`Authorization`], finds the secret, and calls [`SignedRequest::verify`].
//! A [`ChunkChain`] signs or verifies the chunks of an aws-chunked body.
//!
//! The crate knows no policy: its caller decides which headers must be signed, how old a signature
//! may be, and which answer an [`Error`] gets.
//!
//! Specification: "Signature calculations" of the Amazon S3 API reference: for the Authorization
//! header, for query parameters, and for payloads in multiple chunks with and without trailers.

mod authorization;
mod canonical;
mod chunk_chain;
mod date;
mod encode;
mod error;
mod key;
pub mod limits;
mod query;
mod scope;
mod signature;
mod signer;
#[cfg(test)]
mod tests;

pub use authorization::{Authorization, SignedHeaders, fuzz_authorization};
pub use canonical::{SignedRequest, fuzz_canonical};
pub use chunk_chain::ChunkChain;
pub use date::RequestDate;
pub use encode::{decode_percent, encode_path, encode_strict, hex, hex_digit, parse_hex_32};
pub use error::{Error, Mismatch, Result};
pub use key::{SigningKey, SigningKeys};
pub use query::{Query, SIGNATURE_PARAMETER};
pub use scope::CredentialScope;
pub use signature::Signature;
pub use signer::{Credentials, RequestToSign, Signer};

/// The one algorithm of Signature V4 that S3 clients use.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The value that replaces the digest of an unsigned payload.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";
/// The payload of an unsigned aws-chunked body with trailers.
pub const STREAMING_UNSIGNED_TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
/// The payload of an aws-chunked body whose chunks are signed.
pub const STREAMING_SIGNED: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
/// The payload of an aws-chunked body whose chunks and trailers are signed.
pub const STREAMING_SIGNED_TRAILER: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
/// SHA-256 of nothing, in hexadecimal: the payload of a request without a body.
pub const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
