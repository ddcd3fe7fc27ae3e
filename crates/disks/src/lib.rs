//! The content of the disks: blobs, shards, pages and segments, their records in the catalog, and
//! the upkeep of their redundancy.
//!
//! [`blob`], [`segment`], [`pool`] and [`format`](mod@format) store bytes on disks and know no
//! catalog. [`BlobTable`] has the records of both. [`Disks`] is the whole, and [`upkeep`] keeps it
//! redundant. The crate knows no names: what needs the names of objects is done by its users.

pub mod blob;
mod blob_table;
mod disks;
pub mod format;
mod limits;
pub mod pace;
pub mod pool;
mod rebuild_marker;
pub mod salvage_header;
pub mod segment;
mod segment_recovery;
pub mod upkeep;

pub use blob_table::{BlobTable, JournalPin, ReadPin, ReadPins};
pub use disks::{DiskParts, Disks};
pub use rebuild_marker::{RebuildMarker, RebuildSource};
pub use segment_recovery::{SegmentRecovery, pool_in};
