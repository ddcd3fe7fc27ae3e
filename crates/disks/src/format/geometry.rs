//! The division of a blob: which of its bytes are in which shard, and which bytes of the others
//! give a lost one back.
//!
//! A blob is divided into stripes of k units. Data shard j has unit j of every stripe, in order,
//! and parity shard i the parity of every stripe. Only the last stripe is short. Its data units are
//! filled from the first on, so some may be full, one short and the rest empty. Its parity units
//! are as long as its first data unit. Every offset within a stripe is the same in all shards.

use core::ops::Range;

use dewar_types::{ByteRange, Layout};
use thiserror::Error;

use super::{BLOB_BYTES_MAX, ShardSet, layout_flaw, runs};

/// Why a blob cannot be cut.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum GeometryError {
    /// The layout is outside the format.
    #[error("layout {layout} with units of {} bytes: {flaw}", layout.unit)]
    Layout {
        /// The layout.
        layout: Layout,
        /// The violated rule.
        flaw: &'static str,
    },
    /// The blob is too long.
    #[error("a blob of {len} bytes is longer than {BLOB_BYTES_MAX}")]
    TooLong {
        /// Its length.
        len: u64,
    },
}

/// A blob of known length in a layout. All lengths and offsets are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    layout: Layout,
    len: u64,
}

/// A stretch of the blob that lies in one unit of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The data shard.
    pub shard: usize,
    /// Start in the shard, in bytes.
    pub shard_offset: u64,
    /// Start in the blob, in bytes.
    pub blob_offset: u64,
    /// Its bytes, at least 1 and at most a unit.
    pub len: usize,
}

impl Piece {
    /// The bytes of the shard.
    #[must_use]
    pub const fn shard_range(&self) -> Range<u64> {
        self.shard_offset..self.shard_offset + self.len as u64
    }
}

/// A shard to compute a lost one from, and which of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeInput {
    /// The shard, data or parity.
    pub shard: usize,
    /// The range of the shard to read. It begins where the lost range begins and may end earlier,
    /// at the end of the shard. An empty range is not read.
    pub range: Range<u64>,
}

impl Geometry {
    /// The geometry of a blob of `len` bytes.
    ///
    /// # Errors
    /// When the layout is outside the format (k 1 to 16, m 0 to 4, unit a multiple of 4 KiB up to
    /// 4 MiB) or the blob longer than [`BLOB_BYTES_MAX`].
    pub fn new(layout: Layout, len: u64) -> Result<Self, GeometryError> {
        if let Some(flaw) = layout_flaw(layout) {
            return Err(GeometryError::Layout { layout, flaw });
        }
        if len > BLOB_BYTES_MAX {
            return Err(GeometryError::TooLong { len });
        }
        Ok(Self { layout, len })
    }

    /// The layout.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Length of the blob.
    #[must_use]
    pub const fn blob_len(&self) -> u64 {
        self.len
    }

    /// Stripes, the short last one included.
    #[must_use]
    pub const fn stripes(&self) -> u64 {
        self.len.div_ceil(self.layout.stripe_bytes())
    }

    /// How many bytes of data shard `shard` stand before `offset` of the blob.
    const fn before(&self, shard: usize, offset: u64) -> u64 {
        let unit = self.layout.unit as u64;
        let stripe = self.layout.stripe_bytes();
        let here = (offset % stripe).saturating_sub(shard as u64 * unit);
        offset / stripe * unit + if here < unit { here } else { unit }
    }

    /// Length of shard `shard`, 0 to k+m-1. A parity shard is as long as data shard 0.
    #[must_use]
    pub const fn shard_len(&self, shard: usize) -> u64 {
        let data = if shard < self.layout.k as usize {
            shard
        } else {
            0
        };
        self.before(data, self.len)
    }

    /// Length of shard `shard`'s unit in stripe `stripe`: a whole unit in all but the last stripe,
    /// 0 beyond it.
    #[must_use]
    pub const fn unit_len(&self, shard: usize, stripe: u64) -> usize {
        let unit = self.layout.unit as u64;
        let left = self.shard_len(shard).saturating_sub(stripe * unit);
        (if left < unit { left } else { unit }) as usize
    }

    /// Length of the shard's file, up to its last real byte ([`runs::file_len`]).
    #[must_use]
    pub const fn file_len(&self, shard: usize) -> u64 {
        runs::file_len(self.shard_len(shard))
    }

    /// Pages of the shard.
    #[must_use]
    pub const fn page_count(&self, shard: usize) -> u64 {
        runs::page_count(self.shard_len(shard))
    }

    /// The blob offset of byte `shard_offset` of data shard `shard`.
    #[must_use]
    pub const fn blob_offset(&self, shard: usize, shard_offset: u64) -> u64 {
        let unit = self.layout.unit as u64;
        let stripe = shard_offset / unit * self.layout.stripe_bytes();
        stripe + shard as u64 * unit + shard_offset % unit
    }

    /// The places of the bytes of `range`, in the order of the blob, unit by unit. Bytes beyond the
    /// blob are left out.
    #[must_use]
    pub fn pieces(&self, range: ByteRange) -> Pieces {
        Pieces {
            geometry: *self,
            next: range.start,
            end: range.end.min(self.len),
        }
    }

    /// The bytes of data shard `shard` that `range` of the blob touches: one contiguous range, made
    /// of the shard's pieces of [`Self::pieces`] in order; empty when it touches none.
    #[must_use]
    pub fn shard_span(&self, shard: usize, range: ByteRange) -> Range<u64> {
        let end = range.end.min(self.len);
        self.before(shard, range.start.min(end))..self.before(shard, end)
    }

    /// Up to k shards from which `range` of a lost shard, data or parity, can be computed. They are
    /// in ascending order, with the range to read of each. Fewer than k when too few are left.
    ///
    /// `range` is not empty and inside the lost shard. `usable` are the readable shards without the
    /// lost one. A data shard that has no bytes in `range` is always a source, because its bytes
    /// are known to be zeros.
    #[must_use]
    pub fn sources(&self, range: Range<u64>, usable: ShardSet) -> DecodeInputs {
        DecodeInputs {
            geometry: *self,
            range,
            usable,
            next: 0,
            left: self.layout.k as usize,
        }
    }
}

/// The iterator of [`Geometry::pieces`].
#[derive(Clone, Debug)]
pub struct Pieces {
    geometry: Geometry,
    next: u64,
    end: u64,
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.next >= self.end {
            return None;
        }
        let unit = u64::from(self.geometry.layout.unit);
        let (units, in_unit) = (self.next / unit, self.next % unit);
        let k = u64::from(self.geometry.layout.k);
        let piece = Piece {
            shard: (units % k) as usize,
            shard_offset: units / k * unit + in_unit,
            blob_offset: self.next,
            len: (unit - in_unit).min(self.end - self.next) as usize,
        };
        self.next += piece.len as u64;
        Some(piece)
    }
}

/// The iterator of [`Geometry::sources`].
#[derive(Clone, Debug)]
pub struct DecodeInputs {
    geometry: Geometry,
    range: Range<u64>,
    usable: ShardSet,
    next: usize,
    left: usize,
}

impl Iterator for DecodeInputs {
    type Item = DecodeInput;

    fn next(&mut self) -> Option<DecodeInput> {
        while self.left > 0 && self.next < self.geometry.layout.shards() {
            let shard = self.next;
            self.next += 1;
            let end = self.range.end.min(self.geometry.shard_len(shard));
            let range = self.range.start..end.max(self.range.start);
            let is_data = shard < self.geometry.layout.k as usize;
            if self.usable.contains(shard) || is_data && range.is_empty() {
                self.left -= 1;
                return Some(DecodeInput { shard, range });
            }
        }
        None
    }
}
