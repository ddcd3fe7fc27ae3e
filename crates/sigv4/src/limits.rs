//! Every limit of the parsers and of the cache of keys.

/// Longest Authorization header. The longest legitimate ones name about forty signed headers.
pub const AUTHORIZATION_BYTES_MAX: usize = 4 * 1024;

/// Most names in a SignedHeaders list.
pub const SIGNED_HEADERS_MAX: usize = 64;

/// Longest access key id that is looked up.
pub const ACCESS_KEY_BYTES_MAX: usize = 128;

/// Derived signing keys that are kept; a full cache is emptied by half.
pub const SIGNING_KEYS_MAX: usize = 4096;

/// Most parameters in a query string.
pub const QUERY_PARAMETERS_MAX: usize = 64;
