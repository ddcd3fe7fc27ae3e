//! Signature Version 4 as S3 takes it, in the three ways that S3 has: header, query string, form.
//!
//! Order: The credential (header, query string or form) is parsed without using any secret. Date,
//! region and service are checked. The access key is looked up. The canonical request is built from
//! the received bytes, and its signature is compared in constant time. Only then does a [`VerifiedSignature`]
//! exist. The body is not read here. [`crate::payload`] verifies its digest, or the signatures of
//! its chunks, while it streams, with the [`dewar_sigv4::ChunkChain`] that is returned here.
//!
//! The crate `dewar-sigv4` computes the signatures. This module says where a signature is looked
//! for, which headers it must cover, for how long it is valid and how a wrong one is answered.
//!
//! Cancellation: dropping the future at any point leaves nothing behind.

mod post;
mod presigned_url;
mod scope;
mod verify;

pub use post::verify_form;
pub use presigned_url::{PresignedUrl, fuzz_presigned};
pub(crate) use verify::{
    AMZ_DATE, CONTENT_SHA256, SECURITY_TOKEN, check_skew, header_date, mismatch, single,
};
pub use verify::{SignatureCheck, VerifiedSignature, Verifier};

#[cfg(test)]
pub(crate) mod tests;
