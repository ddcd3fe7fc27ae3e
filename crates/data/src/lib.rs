//! Where the bytes are: blobs, shards, pages, segments, placement.

pub mod format;
