//! Every limit of the verbs, by name.

use std::time::Duration;

/// Largest object in bytes: S3's 5 TiB.
pub const OBJECT_BYTES_MAX: u64 = 5 << 40;

/// Largest small object by default; see docs/performance.md for the measurement.
pub const SMALL_BYTES_DEFAULT: u32 = 64 * 1024;

/// Smallest part of an upload but its last, in bytes.
pub const PART_BYTES_MIN: u64 = 5 << 20;

/// Highest part number.
pub const PART_NUMBER_MAX: u32 = 10_000;

/// Most items in a page of any listing.
pub const PAGE_ITEMS_MAX: usize = 1000;

/// User metadata and system headers of an object together, in bytes.
pub const ATTRIBUTE_BYTES_MAX: usize = 8 * 1024;

/// Tags of an object.
pub const TAGS_PER_OBJECT_MAX: usize = 10;

/// Tags of a bucket.
pub const TAGS_PER_BUCKET_MAX: usize = 50;

/// Longest key of a tag, in UTF-16 code units.
pub const TAG_KEY_CHARS_MAX: usize = 128;

/// Longest value of a tag, in UTF-16 code units.
pub const TAG_VALUE_CHARS_MAX: usize = 256;

/// Longest default retention: a hundred years.
pub const RETENTION_DAYS_MAX: u64 = 36_500;

/// Buckets that one user may own.
pub const BUCKETS_PER_OWNER_MAX: usize = 1000;

/// Runs of a file that is written out of order, and extents of the result.
pub const REVISION_RUNS_MAX: usize = 65_536;

/// Most alternations of reading and writing in a file that is being written.
pub const READ_WRITE_SWITCHES_MAX: usize = 1000;

/// Extended attributes of a file or directory, names and values together, in bytes.
pub const XATTR_BYTES_MAX: usize = 64 << 10;

/// The number of attempts of a copy whose source is replaced after the check.
pub const COPY_ATTEMPTS_MAX: usize = 16;

/// Time after which a client may ask again for a version without an online copy.
pub(crate) const RECALL_WAIT: Duration = Duration::from_secs(60);

/// Time after which a client may ask again for a checksum that is not computed because too many
/// are.
pub const DIGEST_LATER: Duration = Duration::from_secs(2);

/// The number of attempts to find a checksum if the object is replaced, or another checksum is
/// computed, meanwhile.
pub const DIGEST_ATTEMPTS_MAX: usize = 16;

/// Directories that are copied or removed with their content at the same time. An account may start
/// another one while it has fewer than are free.
pub(crate) const TREE_WALKS_MAX: usize = 16;

/// Time after which a client may ask again to copy or remove a directory.
pub(crate) const TREE_WALK_LATER: Duration = Duration::from_secs(2);

/// Names of a directory that such a walk reads at once.
pub(crate) const TREE_PAGE: usize = 100;

/// Failures of such a walk that are reported one by one.
pub const TREE_FAILURES_MAX: usize = 100;

/// Longest time of a lock, after which it ends unless it is extended.
pub const LOCK_TIME_MAX: Duration = Duration::from_secs(3600);

/// Most locks of one holder.
pub const LOCKS_PER_HOLDER_MAX: usize = 1000;

/// Longest text about the owner of a lock, in bytes.
pub const LOCK_OWNER_BYTES_MAX: usize = 4096;
