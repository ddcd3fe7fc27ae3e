//! AWS Signature Version 4: verifies the signature of a request, in the three ways that S3 has.
//!
//! Order: The credential (header, query string or form) is parsed without using any secret. Date,
//! region and service are checked. The access key is looked up. The canonical request is built from
//! the received bytes, and its signature is compared in constant time. Only then does a [`VerifiedSignature`]
//! exist. The body is not read here. [`crate::payload`] verifies its digest, or the signatures of
//! its chunks, while it streams, with the [`Seed`] that is returned here.
//!
//! Cancellation: dropping the future at any point leaves nothing behind.

mod authorization;
mod canonical;
mod date;
mod encode;
mod fuzz;
mod key;
mod post;
mod presign;
mod presigned_url;
mod query;
mod scope;
mod verify;

pub use authorization::Authorization;
pub use date::RequestDate;
pub use encode::{decode_percent, encode_path, encode_strict};
pub(crate) use encode::{hex_digit, parse_hex_32, push_hex};
pub use fuzz::{fuzz_authorization, fuzz_presigned};
pub use key::{SigningKey, SigningKeys};
pub use post::verify_form;
pub use presign::{PresignRequest, presign};
pub use presigned_url::PresignedUrl;
pub use query::Query;
pub use scope::CredentialScope;
pub(crate) use verify::{AMZ_DATE, CONTENT_SHA256, SECURITY_TOKEN, header_date, mismatch, single};
pub use verify::{Seed, SignatureCheck, VerifiedSignature, Verifier};

#[cfg(test)]
pub(crate) mod tests;
