//! The S3 door: wire to store verbs, nothing else.
//!
//! A request's way: [`sigv4`] says who signed its head; [`payload`] decodes and verifies its body
//! while it streams. What follows them never sees a request that is not authenticated, nor a
//! framed body.

pub mod error;
pub mod form;
pub mod limits;
pub mod payload;
mod range;
pub mod sigv4;

pub use range::{fuzz_range, parse_range};
