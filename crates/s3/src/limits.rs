//! Every limit and deadline of the S3 door, by name.

use std::time::Duration;

/// Largest difference between a request's date and the server's clock (S3: 15 minutes).
pub const CLOCK_SKEW_SECS_MAX: u64 = 15 * 60;

/// Longest validity of a presigned URL (S3: 7 days).
pub const PRESIGNED_SECS_MAX: u64 = 7 * 24 * 3600;

/// Longest line of an aws-chunked chunk header: 16 hex digits, an extension name and a signature
/// need 98 bytes.
pub const CHUNK_HEADER_BYTES_MAX: usize = 256;

/// Longest single trailer line after an aws-chunked body.
pub const TRAILER_LINE_BYTES_MAX: usize = 1024;

/// Most trailers after an aws-chunked body.
pub const TRAILERS_MAX: usize = 16;

/// Largest object that one PUT, one part or one form may carry (S3: 5 GiB).
pub const SINGLE_WRITE_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// Largest XML body: a completion that lists 10,000 parts with checksums is about 3 MiB.
pub const XML_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The same for an unsigned request, which is refused unless a policy allows it.
pub const UNSIGNED_XML_BODY_BYTES_MAX: usize = 16 * 1024;

/// Largest single field of a browser upload form, the file aside; the policy is the largest.
pub const FORM_FIELD_BYTES_MAX: usize = 20 * 1024;

/// All fields of a browser upload form together, the file aside (S3: 20 KB; clients with much
/// metadata exceed it).
pub const FORM_FIELDS_BYTES_MAX: usize = 64 * 1024;

/// Most fields of a browser upload form.
pub const FORM_FIELDS_MAX: usize = 100;

/// Most conditions in a policy document.
pub const POLICY_CONDITIONS_MAX: usize = 200;

/// User metadata, names and values together (S3: 2 KB).
pub const USER_METADATA_BYTES_MAX: usize = 2 * 1024;

/// System headers that are stored with an object, together.
pub const SYSTEM_METADATA_BYTES_MAX: usize = 6 * 1024;

/// Keys or parts in one page of a listing (S3: 1,000).
pub const PAGE_ITEMS_MAX: usize = 1000;

/// Keys in one bulk delete (S3: 1,000).
pub const BULK_DELETE_KEYS_MAX: usize = 1000;

/// Deletes of one bulk delete that are in flight together.
pub const BULK_DELETE_CONCURRENCY: usize = 32;

/// Highest part number (S3: 10,000).
pub const PART_NUMBER_MAX: u32 = 10_000;

/// Between two blanks that keep a long completion's connection alive.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Longest call of the IAM API, in bytes: a policy, URL-encoded.
pub(crate) const IAM_BODY_BYTES_MAX: usize = 64 * 1024;
