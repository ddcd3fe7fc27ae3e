//! Every limit of this client that no option sets.

use std::time::Duration;

/// Bytes of a reply that is text: an error, a redirection, a reason to wait.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// Maximum bytes of a small reply: a checksum, a configuration, a `stat` reply.
pub const SMALL_BYTES_MAX: usize = 1 << 20;

/// Bytes of a file that one request may ask for or send.
pub const CHUNK_BYTES_MAX: usize = 16 << 20;

/// Bytes that each frame of a long reply has on average, at least.
pub const FRAME_BYTES_MIN: usize = 1024;

/// Further frames that a reply may have.
pub const FRAMES_SPARE: usize = 16;

/// Pending progress messages for one request.
pub const EVENTS_MAX: usize = 8;

/// Addresses of a name that are looked at.
pub const ADDRESSES_MAX: usize = 64;

/// Addresses of a name that are tried.
pub const ADDRESSES_TRIED_MAX: usize = 4;

/// Ways of proving oneself that a server's offer may name.
pub const WAYS_MAX: usize = 16;

/// How often damaged pages of a write are sent again.
pub const PAGE_RETRIES_MAX: usize = 3;

/// Maximum time that a server may tell a client to wait before it asks again.
pub const WAIT_MAX: Duration = Duration::from_secs(300);
