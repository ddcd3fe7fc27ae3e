//! One atomic change of the catalog.

use bytes::Bytes;
use dewar_types::{BlobId, Error, ErrorKind};

use super::{ReadValue, Seq};

/// Preconditions and changes that happen together or not at all. A key may stand in at most one
/// of `puts`, `deletes` and `adds`; see [`Batch::check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// What must hold when the batch is put in order.
    pub require: Vec<Precondition>,
    /// Keys and their new values.
    pub puts: Vec<(Bytes, Bytes)>,
    /// Keys that go; absent ones are no error.
    pub deletes: Vec<Bytes>,
    /// Counters and what is added to them. Adding commutes and needs no precondition.
    pub adds: Vec<(Bytes, i64)>,
    /// Records for the change log.
    pub log: Vec<Bytes>,
    /// Bytes of a small object that ride in the same journal record (RECORDS.md section 6).
    pub carry: Option<InlineData>,
    /// Whether it leads to room being freed (ids to compact with, a blob forgotten): then it may
    /// use what is kept back for that when the log is nearly full.
    pub frees: bool,
    /// Whether it lets records of the log go (a segment is sealed): then it may use what is kept even
    /// from those that free other things.
    pub seals: bool,
}

/// Longest key in bytes.
pub const KEY_BYTES_MAX: usize = 8 * 1024;
/// Longest value in bytes; longer things are split by who owns the encoding.
pub const VALUE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most bytes of one batch in all, the carry included.
pub const BATCH_BYTES_MAX: usize = 16 * 1024 * 1024;

impl Batch {
    /// Whether it keeps to the limits and no key stands in two of `puts`, `deletes` and `adds` or
    /// twice in the first two. A counter may be added to several times.
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

/// What must hold for a batch to be applied.
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
    /// The counter is at most this (an absent one is 0) before the batch adds to it, with all that
    /// was put in order before the batch: what limits is exact however many write at once.
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
    /// Where in the segment's logical space the slot begins, in bytes.
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
