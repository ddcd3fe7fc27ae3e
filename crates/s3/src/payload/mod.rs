//! The body of a request: decoded and verified while it streams.
//!
//! The head of the request decides the mode ([`PayloadMode`]). [`RequestBody`] then yields the
//! object's own bytes in the slices in which they arrived, without copying. It reports the end only
//! after everything that was announced is verified: the length, the SHA-256 of the payload, every
//! chunk's signature, the trailers' signature. **Until then nothing may be committed**: bytes are
//! yielded before the signature or digest that covers them has arrived.
//!
//! Memory: one incoming frame, one chunk header line or trailer line, at most
//! [`crate::limits::TRAILERS_MAX`] trailers. Nothing grows with the size of the body, of a chunk,
//! or their number.
//!
//! Cancellation: dropping a [`RequestBody`] between frames loses nothing but the body.

mod body;
mod chunked;
mod fuzz;
mod mode;
mod trailer;

pub use body::{BodyHead, RequestBody};
pub use chunked::{ChunkedDecoder, ChunkedStep};
pub use fuzz::fuzz_aws_chunked;
pub use mode::{PayloadMode, strip_aws_chunked};
pub use trailer::Trailers;

#[cfg(test)]
mod tests;
