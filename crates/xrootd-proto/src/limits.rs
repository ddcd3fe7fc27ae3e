//! The longest of everything.

/// Maximum bytes of a request's arguments that are a path with its options, which may include
/// tokens.
pub const PATH_BYTES_MAX: usize = 64 << 10;

/// Bytes of the arguments of a login, a query, a `set` and a signature.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// Bytes of a credential.
pub const CREDENTIAL_BYTES_MAX: usize = 256 << 10;

/// Bytes of the list of a `prepare` or a `statx`.
pub const LIST_BYTES_MAX: usize = 1 << 20;

/// Elements of a `readv`, a `writev`, and of the list that a `read` may carry.
pub const VECTOR_ITEMS_MAX: usize = 1024;

/// Bytes of an element of a vector.
pub const VECTOR_ITEM_BYTES: usize = 16;

/// Bytes of one element of a `readv`, as in every server since 2.9: 2 MiB less an element's own
/// description.
pub const READV_ITEM_BYTES_MAX: u32 = 2_097_136;

/// Elements of a `clone`.
pub const CLONE_ITEMS_MAX: usize = 1024;

/// Attributes of one `fattr`.
pub const ATTRIBUTES_MAX: usize = 16;

/// Bytes of an attribute's name.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 248;

/// Bytes of an attribute's value.
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 65_536;

/// Bytes of the arguments of a `fattr`.
pub const ATTRIBUTE_BYTES_MAX: usize =
    PATH_BYTES_MAX + ATTRIBUTES_MAX * (ATTRIBUTE_NAME_BYTES_MAX + ATTRIBUTE_VALUE_BYTES_MAX + 7);

/// Maximum pages of one `pgwrite` that may be reported as bad.
pub const BAD_PAGES_PER_REQUEST_MAX: usize = 128;

/// Pages of a file that may be bad and not yet sent again.
pub const BAD_PAGES_PER_FILE_MAX: usize = 256;

/// Bytes of a reply that a client keeps in memory as a whole.
pub const REPLY_BYTES_MAX: usize = 64 << 20;
