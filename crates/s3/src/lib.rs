//! The S3 door: wire to store verbs, nothing else.
//!
//! A request's way: [`sigv4`] says who signed its head; [`Door`] finds out what it asks for;
//! [`payload`] decodes and verifies its body while it streams; a verb of `ops` calls the store. What
//! follows the signature never sees a request that is not verified, nor a framed body.
//!
//! The library s3s has the types and the XML of S3's documents; it never sees a request.

mod door;
pub mod error;
pub mod form;
pub mod limits;
mod ops;
pub mod payload;
mod range;
pub mod sigv2;
pub mod sigv4;
mod wire;

pub use door::{
    AnswerBody, Door, DoorConfig, HOST_ID, REQUEST_ID, RequestSummary, SLOW_DOWN, TlsVersion,
};
pub use range::{fuzz_range, parse_range};
