//! One atomic change of the catalog.

use bytes::Bytes;
use dewar_types::{BlobId, Error, ErrorKind};

use super::{ReadValue, Seq};

/// Preconditions and changes that are applied together or not at all. A key may be in at most one
/// of `puts`, `deletes` and `adds`; see [`Batch::check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Preconditions that are checked when the batch gets its place in the order.
    pub require: Vec<Precondition>,
    /// Keys and their new values.
    pub puts: Vec<(Bytes, Bytes)>,
    /// Keys to delete; absent ones are no error.
    pub deletes: Vec<Bytes>,
    /// Counters and the amounts to add. Additions commute and need no precondition.
    pub adds: Vec<(Bytes, i64)>,
    /// Records for the change log.
    pub log: Vec<Bytes>,
    /// Bytes of a small object for the same journal record (RECORDS.md section 6).
    pub carry: Option<InlineData>,
    /// Whether the batch leads to free space (ids to compact with, a blob forgotten). It may then
    /// use the reserve of a nearly full log.
    pub frees: bool,
    /// Whether the batch lets records of the log be freed (a segment is sealed). It may then also
    /// use the part of the reserve that other batches that free space may not use.
    pub seals: bool,
}

/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 8 * 1024;
/// Maximum length of a value in bytes; the owner of the encoding splits longer ones.
pub const VALUE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most bytes of one batch in all, the carry included.
pub const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

impl Batch {
    /// Checks the limits, and that no key is in two of `puts`, `deletes` and `adds` or twice in one
    /// of the first two. A counter may be added to several times.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] or [`ErrorKind::InvalidArgument`], naming the key.
    pub fn check(&self) -> Result<(), Error> {
        let mut bytes = self.carry.as_ref().map_or(0, InlineData::len);
        for (key, value) in &self.puts {
            if value.len() > VALUE_BYTES_MAX {
                return Err(too_large(key, "value", value.len()));
            }
            bytes += value.len();
        }
        bytes += self.log.iter().map(Bytes::len).sum::<usize>();
        let mut written: Vec<&[u8]> =
            Vec::with_capacity(self.puts.len() + self.deletes.len() + self.adds.len());
        written.extend(self.puts.iter().map(|(key, _)| &key[..]));
        written.extend(self.deletes.iter().map(|key| &key[..]));
        written.sort_unstable();
        for pair in written.windows(2) {
            if pair[0] == pair[1] {
                return Err(duplicate_key(pair[0]));
            }
        }
        for (key, _) in &self.adds {
            if written.binary_search(&&key[..]).is_ok() {
                return Err(duplicate_key(key));
            }
        }
        written.extend(self.adds.iter().map(|(key, _)| &key[..]));
        for key in written {
            if key.len() > KEY_BYTES_MAX {
                return Err(too_large(key, "key", key.len()));
            }
            bytes += key.len();
        }
        if bytes > BATCH_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("a batch of {bytes} bytes; at most {BATCH_BYTES_MAX} are allowed"),
            ));
        }
        Ok(())
    }
}

fn duplicate_key(key: &[u8]) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("a batch writes key {} twice", key.escape_ascii()),
    )
}

fn too_large(key: &[u8], what: &str, bytes: usize) -> Error {
    let head = &key[..key.len().min(64)];
    Error::new(
        ErrorKind::TooLarge,
        format!("{what} of {bytes} bytes, key {}", head.escape_ascii()),
    )
}

/// A precondition of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The key has this value (or none), which was read at `read_at`.
    Same {
        /// The key.
        key: Bytes,
        /// The value that was read.
        value: Option<Bytes>,
        /// [`ReadValue::seq`] of that read.
        read_at: Seq,
    },
    /// No key from `from` up to, not including, `to` exists.
    Empty {
        /// First key of the range.
        from: Bytes,
        /// First key after the range.
        to: Bytes,
    },
    /// The counter is at most this before the batch adds to it (an absent one is 0). It includes
    /// all batches that come before in the order, so the limit is exact however many clients write
    /// at once.
    AtMost {
        /// The counter's key.
        counter: Bytes,
        /// Its largest value.
        max: i64,
    },
}

/// What a counter's value says; what is none counts as 0.
pub(super) fn decode_counter(value: Option<&[u8]>) -> i64 {
    let bytes = value.and_then(|value| value.try_into().ok());
    bytes.map_or(0, i64::from_be_bytes)
}

impl Precondition {
    /// The key is still as `read` showed it.
    #[must_use]
    pub fn same(key: Bytes, read: &ReadValue) -> Self {
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
pub struct InlineData {
    /// The segment.
    pub segment: BlobId,
    /// Start of the slot in the segment's logical space, in bytes.
    pub offset: u32,
    /// The slot: its header and the object's bytes, in pieces.
    pub bytes: Vec<Bytes>,
}

impl InlineData {
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
