//! The shard file, version 1: its layout byte by byte, as pure functions over numbers and slices.
//! `docs/formats/shard.md` describes it; it is a disk format, so it does not change.
//!
//! - [`Geometry`]: which bytes of a blob are in which shard, and which bytes of the other shards
//!   give a lost one back.
//! - [`runs`]: offsets of the pages of a shard and of their checksums in its file.
//! - [`PageKey`]: the checksum of a page, bound to the position of the page.
//! - [`ShardHeader`]: the first page of the file, which identifies the shard.
//!
//! Nothing here does I/O, allocates per page or depends on the content of a disk. The exception is
//! [`ShardHeader::decode`], which takes any bytes and returns a header or a typed error.
//!
//! The format does not do the following:
//!
//! - It does not say which of two intact generations is current; the catalog knows.
//! - It does not keep a torn header readable. Salvage needs the header, reading does not.
//! - It does not protect against forged checksums, since a CRC is no signature.

mod geometry;
mod header;
mod page;
pub mod runs;
mod shard_set;
#[cfg(test)]
mod tests;

pub use geometry::{DecodeInput, DecodeInputs, Geometry, GeometryError, Piece, Pieces};
pub use header::{ChecksumKind, HeaderError, ShardHeader, ShardKind, fuzz_shard_header};
pub use page::{PageError, PageKey};
pub use shard_set::ShardSet;

/// The version of the format that is written, in every shard's header.
pub const FORMAT_VERSION: u16 = 1;

/// Bytes of the header, which is the first page of the file.
pub const HEADER_BYTES: usize = 4096;

/// Bytes of a checksum slot.
pub const SLOT_BYTES: usize = 4;

/// Slots in a checksum page, which is also the maximum number of pages in a run.
pub const SLOTS_PER_PAGE: usize = dewar_types::PAGE_BYTES / SLOT_BYTES;

/// The longest owner description a header holds, in bytes.
pub const OWNER_BYTES_MAX: usize = 3072;

/// The longest blob, in bytes: 64 PiB, so that no offset in any shard file overflows.
pub const BLOB_BYTES_MAX: u64 = 1 << 56;

/// The largest stripe unit, in bytes.
pub const UNIT_BYTES_MAX: u32 = 4 << 20;

/// Why `layout` cannot be on a disk, if it cannot.
fn layout_flaw(layout: dewar_types::Layout) -> Option<&'static str> {
    if !(1..=16).contains(&layout.k) {
        Some("k is not 1 to 16")
    } else if layout.m > 4 {
        Some("m is not 0 to 4")
    } else if layout.unit == 0 || layout.unit > UNIT_BYTES_MAX {
        Some("the stripe unit is not 4 KiB to 4 MiB")
    } else if !(layout.unit as usize).is_multiple_of(dewar_types::PAGE_BYTES) {
        Some("the stripe unit is not a multiple of 4 KiB")
    } else {
        None
    }
}
