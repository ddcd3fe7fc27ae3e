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

/// Longest Basic credentials, encoded.
pub const BASIC_BYTES_MAX: usize = 2048;

/// Failed logins of one user name at one address, in [`FAILED_LOGIN_PERIOD`].
pub const FAILED_LOGINS_PER_USER_MAX: u32 = 10;

/// Failed logins of one address, in [`FAILED_LOGIN_PERIOD`].
pub const FAILED_LOGINS_PER_ADDRESS_MAX: u32 = 100;

/// For how long failed logins are counted.
pub const FAILED_LOGIN_PERIOD: Duration = Duration::from_secs(60);

/// Most counters of failed logins.
pub const FAILED_LOGIN_COUNTERS_MAX: usize = 10_000;

/// Bytes of one piece of an answer with several ranges.
pub const RANGE_PIECE_BYTES: u64 = 256 * 1024;

/// Pieces of such an answer that are read at once.
pub const RANGE_PIECES_AHEAD: usize = 8;
