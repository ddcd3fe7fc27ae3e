//! Every limit of the door that no configuration key sets.

use std::time::Duration;

/// Bytes of the file in one frame of an answer.
pub const FRAME_BYTES: usize = 2 << 20;

/// The same while the memory that all connections share is used up.
pub const FRAME_BYTES_LEAST: usize = 256 << 10;

/// Bytes of the file taken from the socket at once. Whole pages, so that a piece of a page write
/// holds whole pages too.
pub const PIECE_BYTES: usize = 1 << 20;

/// The same while the memory that all connections share is used up.
pub const PIECE_BYTES_LEAST: usize = 64 << 10;

/// Bytes of answers that one connection may have waiting.
pub const OUT_BYTES_MAX: usize = 16 << 20;

/// Maximum bytes of an answer that reserves no memory.
pub const SMALL_ANSWER_BYTES: usize = 1 << 10;

/// Bytes of an error message; clients show no more of it.
pub const MESSAGE_BYTES_MAX: usize = 2 << 10;

/// Bytes of memory that an entry of a directory may take on its way, with its name.
pub const DIR_ENTRY_BYTES: usize = 2 << 10;

/// Bytes written to files of one connection that are not on the disks yet.
pub const IN_BYTES_MAX: usize = 32 << 20;

/// Requests of one connection that run at the same time; further ones wait in the socket.
pub const REQUESTS_MAX: usize = 256;

/// Changes of one file that may wait, however small they are.
pub const OPS_MAX: usize = 512;

/// Maximum number of further connections bound to a session.
pub const BOUND_MAX: usize = 15;

/// Maximum number of uploads kept after their connection broke.
pub const INTERRUPTED_MAX: usize = 512;

/// Those of one account among them.
pub const INTERRUPTED_OF_USER_MAX: usize = 128;

/// Files being read that are remembered after their connection broke.
pub const INTERRUPTED_READS_MAX: usize = 16_384;

/// Those of one account among them.
pub const INTERRUPTED_READS_OF_USER_MAX: usize = 4096;

/// Time for which the version of these files is remembered.
pub const INTERRUPTED_READS_TIME: Duration = Duration::from_secs(3600);

/// Time that a client that resumes an upload waits for the remaining bytes of its old connection.
pub const TAKE_OVER_TIME: Duration = Duration::from_secs(10);

/// Elements of a vector that are read at the same time.
pub const VECTOR_READS: usize = 32;

/// Names of a directory per request to the store.
pub const DIR_PAGE: usize = 1000;

/// Maximum time of a connection from its first byte to the end of its login.
pub const LOGIN_TIME: Duration = Duration::from_secs(60);

/// The same while few connections are left for others. A session without a proof may be idle for as
/// long.
pub const CROWDED_LOGIN_TIME: Duration = Duration::from_secs(10);

/// Maximum time for a refused client to send its first request and to close.
pub const REFUSAL_TIME: Duration = Duration::from_secs(5);

/// Maximum bytes of the arguments of requests before a login.
pub const FIRST_BYTES_MAX: usize = 8 << 10;

/// The same for a credential: longer than any token in a header, and than those of `sss`.
pub const CREDENTIAL_BYTES_MAX: usize = 64 << 10;

/// Maximum time of a TLS handshake.
pub const TLS_TIME: Duration = Duration::from_secs(15);

/// Bytes of an invalid request that are skipped so that the connection can continue.
pub const SKIP_BYTES_MAX: usize = 16 << 20;

/// Paths of one `prepare` or `statx`.
pub const LIST_PATHS_MAX: usize = 10_000;

/// Retry time for a file that is not opened because the server stops.
pub const OPEN_LATER: Duration = Duration::from_secs(5);

/// Retry time for a file that is not opened because its account has too many open, or because the
/// memory of open files is used up.
pub const FILE_LATER: Duration = Duration::from_secs(2);

/// Time that a write waits for memory beyond the amount reserved at the open of its file.
pub const GROWTH_TIME: Duration = Duration::from_secs(10);

/// Retry time for a third-party copy, or for leaving a key for one, when the limit is reached.
pub const COPY_LATER: Duration = Duration::from_secs(5);

/// Retry time for a client when no server can serve it.
pub const SERVER_LATER: Duration = Duration::from_secs(2);

/// Time for which a stopping server accepts new connections, if a redirector sends clients to it.
pub const LINGER_TIME: Duration = Duration::from_secs(1);

/// A client that asked for statistics within this time counts as a monitor of this server.
pub const WATCHED_TIME: Duration = Duration::from_secs(5);

/// Time that a client waits for the computation of a checksum before it is told that the answer
/// comes later.
pub const CHECKSUM_PATIENCE: Duration = Duration::from_secs(2);
