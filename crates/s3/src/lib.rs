//! The S3 front: translates S3 requests into store verbs.
//!
//! [`sigv4`] verifies the signature of a request's head. [`Door`] recognises the verb. [`payload`]
//! decodes and verifies the body while it streams. A verb of `ops` calls the store. Code behind the
//! signature check never sees an unverified request, or a body with its framing.
//!
//! The library s3s provides the types and the XML of S3's documents. It never sees a request.

mod door;
pub mod error;
pub mod form;
pub mod limits;
mod ops;
pub mod payload;
pub mod sigv2;
pub mod sigv4;
mod wire;

pub use door::{Door, DoorConfig, HOST_ID, REQUEST_ID, TlsVersion};
