//! Storage of the bytes: blobs, shards, pages, segments, placement.

pub mod blob;
pub mod format;
pub mod pace;
pub mod pool;
pub mod segment;
