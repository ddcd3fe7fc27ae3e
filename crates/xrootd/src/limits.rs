//! Every limit of the door that no configuration key sets.

use std::time::Duration;

/// Bytes of the file in one frame of an answer.
pub const FRAME_BYTES: usize = 2 << 20;

/// The same while the room that all connections share is used up.
pub const FRAME_BYTES_LEAST: usize = 256 << 10;

/// Bytes of the file taken from the socket at once. Whole pages, so that a piece of a page write
/// holds whole pages too.
pub const PIECE_BYTES: usize = 1 << 20;

/// The same while the room that all connections share is used up.
pub const PIECE_BYTES_LEAST: usize = 64 << 10;

/// Bytes of answers that one connection may have waiting.
pub const OUT_BYTES_MAX: usize = 16 << 20;

/// Bytes of an answer that holds no room.
pub const SMALL_ANSWER_BYTES: usize = 1 << 10;

/// Bytes of a message that says why something failed; clients show no more of it.
pub const MESSAGE_BYTES_MAX: usize = 2 << 10;

/// Bytes of memory that an entry of a directory may take on its way, with its name.
pub const DIR_ENTRY_BYTES: usize = 2 << 10;

/// Bytes written to files of one connection that the disks have not taken yet.
pub const IN_BYTES_MAX: usize = 32 << 20;

/// Requests of one connection that run at the same time; further ones wait in the socket.
pub const REQUESTS_MAX: usize = 256;

/// Changes of one file that wait for their turn, however small they are.
pub const OPS_MAX: usize = 512;

/// Connections bound to a session beside its first.
pub const BOUND_MAX: usize = 15;

/// Uploads kept whose connection broke.
pub const INTERRUPTED_MAX: usize = 512;

/// Those of one user among them.
pub const INTERRUPTED_OF_USER_MAX: usize = 128;

/// Files being read that are remembered when their connection breaks.
pub const INTERRUPTED_READS_MAX: usize = 16_384;

/// Those of one user among them.
pub const INTERRUPTED_READS_OF_USER_MAX: usize = 4096;

/// For how long it is remembered which version of them it was.
pub const INTERRUPTED_READS_TIME: Duration = Duration::from_secs(3600);

/// How long a client that goes on with an upload waits for what its old connection still brings.
pub const TAKE_OVER_TIME: Duration = Duration::from_secs(10);

/// Elements of a vector that are read at the same time.
pub const VECTOR_READS: usize = 32;

/// Names of a directory asked for at once.
pub const DIR_PAGE: usize = 1000;

/// How long a connection may take from its first byte to the end of its login.
pub const LOGIN_TIME: Duration = Duration::from_secs(60);

/// The same while few connections are left for others. A session without a proof may idle for as long.
pub const CROWDED_LOGIN_TIME: Duration = Duration::from_secs(10);

/// How long a client that is refused may take for its first request and its goodbye.
pub const REFUSAL_TIME: Duration = Duration::from_secs(5);

/// Bytes of the arguments of what comes before a login: more than any client says of itself.
pub const FIRST_BYTES_MAX: usize = 8 << 10;

/// The same of a credential: longer than any token in a header, and than those of `sss`.
pub const CREDENTIAL_BYTES_MAX: usize = 64 << 10;

/// How long a TLS handshake may take.
pub const TLS_TIME: Duration = Duration::from_secs(15);

/// Bytes of a request that makes no sense which are skipped so that the connection can go on.
pub const SKIP_BYTES_MAX: usize = 16 << 20;

/// Paths of one `prepare` or `statx`.
pub const LIST_PATHS_MAX: usize = 10_000;

/// When a client may ask again for a file that is not opened because the server stops.
pub const OPEN_LATER: Duration = Duration::from_secs(5);

/// When a client may ask again for a file that is not opened because its account has too many open, or
/// because open files hold all the memory that they may.
pub const FILE_LATER: Duration = Duration::from_secs(2);

/// How long a write waits for memory that its file needs beyond what was foreseen at its open.
pub const GROWTH_TIME: Duration = Duration::from_secs(10);

/// When a client may ask again for a third-party copy, or to leave a key for one, that found no room.
pub const COPY_LATER: Duration = Duration::from_secs(5);

/// When a client may ask again where no server is there that could serve it.
pub const SERVER_LATER: Duration = Duration::from_secs(2);

/// How long new connections are taken by a server that stops, if somebody sends clients to it.
pub const LINGER_TIME: Duration = Duration::from_secs(1);

/// Whoever asked for statistics within so long watches this server.
pub const WATCHED_TIME: Duration = Duration::from_secs(5);

/// How long a client waits for a checksum that must be computed before it is told that the answer comes later.
pub const CHECKSUM_PATIENCE: Duration = Duration::from_secs(2);
