//! Limits and deadlines of requests, the same for all fronts.

use std::time::Duration;

/// Most bytes of all request documents in memory at once. A request beyond it is asked to come back
/// later.
pub const DOCUMENTS_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Into how many shares that memory is divided: one account gets at most one.
pub const DOCUMENT_SHARES: usize = 4;

/// Most bytes that are read from the body of a refused request. A client that writes before it
/// reads then sees the answer and not a reset connection.
pub const REFUSED_BODY_BYTES_MAX: u64 = 1024 * 1024;

/// How long a refused request's body is read for.
pub const REFUSED_BODY_DEADLINE: Duration = Duration::from_secs(2);

/// Longest head of one part of a form.
pub const FORM_PART_HEAD_BYTES_MAX: usize = 8 * 1024;

/// Longest boundary of a form (RFC 2046 section 5.1.1).
pub const FORM_BOUNDARY_BYTES_MAX: usize = 70;

/// Longest request for a macaroon.
pub const MACAROON_REQUEST_BYTES_MAX: usize = 4096;
