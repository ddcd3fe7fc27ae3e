//! One atomic change of the catalog.

use bytes::Bytes;
use dewar_types::BlobId;

use super::{Read, Seq};

/// Preconditions and changes that happen together or not at all. A key may stand in at most one
/// of `puts`, `deletes` and `adds`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// What must hold when the batch is put in order.
    pub require: Vec<Require>,
    /// Keys and their new values.
    pub puts: Vec<(Bytes, Bytes)>,
    /// Keys that go; absent ones are no error.
    pub deletes: Vec<Bytes>,
    /// Counters and what is added to them. Adding commutes and needs no precondition.
    pub adds: Vec<(Bytes, i64)>,
    /// Records for the change log.
    pub log: Vec<Bytes>,
    /// Bytes of a small object that ride in the same journal record (RECORDS.md section 6).
    pub carry: Option<Carry>,
}

/// What must hold for a batch to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Require {
    /// The key has this value (or none), which was read at `read_at`.
    Same {
        /// The key.
        key: Bytes,
        /// The value that was read.
        value: Option<Bytes>,
        /// [`Read::seq`] of that read.
        read_at: Seq,
    },
    /// No key from `from` up to, not including, `to` exists.
    Empty {
        /// First key of the range.
        from: Bytes,
        /// First key after the range.
        to: Bytes,
    },
}

impl Require {
    /// The key is still as `read` showed it.
    #[must_use]
    pub fn same(key: Bytes, read: &Read) -> Self {
        Self::Same {
            key,
            value: read.value.clone(),
            read_at: read.seq,
        }
    }

    /// The key does not exist.
    #[must_use]
    pub fn absent(key: Bytes) -> Self {
        Self::Same {
            key,
            value: None,
            read_at: 0,
        }
    }
}

/// A small object's bytes at their place in an open segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carry {
    /// The segment.
    pub segment: BlobId,
    /// Where in the segment's logical space the slot begins, in bytes.
    pub offset: u32,
    /// The slot: its header and the object's bytes, in pieces.
    pub bytes: Vec<Bytes>,
}

impl Carry {
    /// Bytes in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.iter().map(Bytes::len).sum()
    }

    /// Whether there is nothing to carry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
