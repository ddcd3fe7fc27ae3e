//! Every limit of a transfer that no setting changes.

use std::time::Duration;

/// Redirects that one request follows.
pub(crate) const REDIRECTS_MAX: usize = 5;

/// Addresses of a name that are looked at, and those that are tried.
pub(crate) const ADDRESSES_MAX: usize = 64;
pub(crate) const ADDRESSES_TRIED_MAX: usize = 4;

/// Threads that resolve names at the same time.
pub(crate) const RESOLVERS_MAX: usize = 16;

/// The longest wait of a lookup for one of these threads.
pub(crate) const RESOLVER_WAIT_TIME: Duration = Duration::from_secs(60);

/// Names that are looked up or known at the same time.
pub(crate) const NAMES_MAX: usize = 4096;

/// Time for which the addresses of a name are known. They are judged for each connection.
pub(crate) const RESOLVED_TIME: Duration = Duration::from_secs(5);

/// Headers of an answer.
pub(crate) const ANSWER_HEADERS_MAX: usize = 100;

/// Bytes of the names and values of an answer's headers.
pub(crate) const ANSWER_HEAD_BYTES_MAX: usize = 64 << 10;

/// Buffer of a connection, for reading and for writing. It also bounds the largest piece of a body.
pub(crate) const CONNECTION_BUFFER_BYTES: usize = 512 << 10;

/// Bytes of the body of an answer that is not the file.
pub(crate) const OTHER_BODY_BYTES_MAX: usize = 4 << 10;

/// Time for the body of an answer that is not the file.
pub(crate) const OTHER_BODY_TIME: Duration = Duration::from_secs(5);

/// Characters of the other side's explanation that a failure repeats.
pub(crate) const EXPLANATION_CHARS_MAX: usize = 300;

/// Maximum pause that `Retry-After` of the other side may ask for.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// A file must have this size before it is pulled over several connections.
pub(crate) const STREAMS_BYTES_MIN: u64 = 32 << 20;

/// Bytes that a pull over at most eight connections asks for and holds at the same time. Each further connection
/// adds [`BLOCK_BYTES_MIN`].
pub(crate) const STREAMS_BUFFER_BYTES: u64 = 8 << 20;

/// Bytes that all pulls over several connections hold at the same time.
pub(crate) const STREAMS_BYTES_TOTAL: u64 = 128 << 20;

/// Smallest range of a pull over several connections.
pub(crate) const BLOCK_BYTES_MIN: u64 = 1 << 20;

/// Largest file that one PUT to a presigned URL may carry.
pub(crate) const PRESIGNED_BYTES_MAX: u64 = 5 << 30;

/// Pieces of a pushed file that wait for the connection.
pub(crate) const PIECES_AHEAD: usize = 2;

/// Attempts to verify a file that was pushed.
pub(crate) const VERIFY_ATTEMPTS_MAX: u32 = 3;

/// The port of collectors of fireflies.
pub(crate) const FIREFLY_PORT: u16 = 10514;
