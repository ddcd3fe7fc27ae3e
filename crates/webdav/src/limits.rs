//! Every limit and deadline of the WebDAV front, by name.

use std::time::Duration;

/// Longest XML document of a request, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 64 * 1024;

/// Longest document of a PROPPATCH, in bytes: properties of all attributes together, and as much
/// again for the syntax around them.
pub const PROPPATCH_BYTES_MAX: usize = 256 * 1024;

/// The same for a request without credentials, which is refused unless a policy allows it.
pub const ANONYMOUS_DOCUMENT_BYTES_MAX: usize = 16 * 1024;

/// Deepest nesting of elements in a document.
pub const XML_DEPTH_MAX: usize = 32;

/// Most elements and attributes in a document together. Each holds its namespace in memory.
pub const XML_NODES_MAX: usize = 4096;

/// Most properties that one request may name.
pub const PROPERTIES_MAX: usize = 256;

/// Longest namespace and local name of a property together, in bytes.
pub const PROPERTY_NAME_BYTES_MAX: usize = 1024;

/// Most ranges in one request: as many as a head of 32 KiB can name in practice.
pub const RANGES_MAX: usize = 4096;

/// Longest media type in the head of each of several ranges. A longer one is not sent there.
pub const PART_TYPE_BYTES_MAX: usize = 128;

/// Longest media type of a source of a third-party copy that is kept. A longer one is not.
pub const MEDIA_TYPE_BYTES_MAX: usize = 256;

/// Names of a directory that are read at once.
pub const LIST_PAGE: usize = 500;

/// Names in a page of a browser.
pub const BROWSER_PAGE: usize = 1000;

/// Deepest directory that a PROPFIND of infinite depth enters.
pub const WALK_DEPTH_MAX: usize = 512;

/// How long a client waits for a digest that must be computed. gfal2 gives 300 s.
pub const DIGEST_WAIT: Duration = Duration::from_secs(280);

/// Seconds after which a client may ask again for something that is not ready.
pub const RETRY_AFTER_SECS: u64 = 5;

/// Longest `If` header, in bytes.
pub const IF_BYTES_MAX: usize = 8 * 1024;

/// Most conditions in an `If` header: each may look a name up.
pub const IF_CONDITIONS_MAX: usize = 128;

/// Time of a lock if the client asks for none.
pub const LOCK_TIME_DEFAULT: Duration = Duration::from_secs(600);

/// Longest `ArchiveMetadata` in bytes, in base64.
pub(crate) const ARCHIVE_METADATA_BYTES_MAX: usize = 1024;
