//! The common part of all fronts on HTTP. A front is a [`HttpFront`] that turns requests of its
//! protocol into verbs of the store.
//!
//! - [`HttpFront`]: the seam to the listener, with the [`Arrival`] of a request and its
//!   [`RequestSummary`] for logs and metrics
//! - the head of a request: [`header`], [`host_of`], [`bearer_token`], [`parse_range`],
//!   [`read_condition`], [`parse_http_date`]
//! - its body: [`BodyReader`] and [`BodyLength`] with their limits, [`DocumentBudget`] for the
//!   memory of documents, [`UrlEncodedForm`] and [`FormDecoder`]
//! - the answer: [`AnswerBody`], [`download_answer`], [`CorsRequest`]
//! - [`macaroon`]: requests for macaroons
//!
//! A defect of a request is a [`RequestError`]. Each front words it in its own protocol.

mod answer;
mod basic;
mod body;
mod byteranges;
mod condition;
mod cors;
mod date;
mod digest;
mod document_budget;
mod error;
mod form;
mod front;
mod header;
pub mod limits;
mod login_limiter;
pub mod macaroon;
mod multipart;
mod range;
mod request_id;

pub use answer::{
    Answer, AnswerBody, download_answer, empty_answer, full_answer, stream_answer, typed_answer,
};
pub use basic::BasicCredentials;
pub use body::{BodyLength, BodyReader, WireBody, announced_length, transfer_chunked};
pub use byteranges::byteranges_answer;
pub use condition::{
    etags, read_condition, read_condition_of, write_condition, write_condition_at,
    write_condition_of,
};
pub use cors::CorsRequest;
pub use date::{http_date, iso_date, moment, parse_http_date, parse_iso_date};
pub use digest::{
    DigestFields, answered_digests, declared_digests, digest_fields, wanted_digest, wanted_digests,
};
pub use document_budget::{BudgetHolder, DocumentBudget, DocumentReservation};
pub use error::{RequestError, Result};
pub use form::UrlEncodedForm;
pub use front::{Arrival, HttpFront, RequestSummary, count_connection};
pub use header::{base_url, bearer_token, has_one_host, header, host_of, quoted, value_of};
pub use login_limiter::LoginLimiter;
pub use multipart::{FormDecoder, FormStep, boundary_of, fuzz_multipart};
pub use range::{
    content_range, fuzz_range, merge_ranges, parse_range, parse_ranges, unsatisfied_range,
};
pub use request_id::RequestIds;
