//! Elements of vectors.

use bytes::{BufMut, Bytes, BytesMut};

use crate::cursor::Cursor;
use crate::limits::{CLONE_ITEMS_MAX, VECTOR_ITEM_BYTES, VECTOR_ITEMS_MAX};
use crate::{DecodeError, FileHandle};

/// An element of a `readv`; in the reply it comes before the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadItem {
    /// Of which file.
    pub handle: FileHandle,
    /// Bytes wanted.
    pub len: u32,
    /// First byte.
    pub offset: i64,
}

/// An element of a `writev`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteItem {
    /// To which file.
    pub handle: FileHandle,
    /// Bytes that follow the list.
    pub len: u32,
    /// First byte in the file.
    pub offset: i64,
}

/// An element of a `clone`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloneItem {
    /// From which file.
    pub source: FileHandle,
    /// First byte there.
    pub source_offset: u64,
    /// Bytes.
    pub len: u64,
    /// First byte in the target.
    pub offset: u64,
}

impl ReadItem {
    /// Its 16 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; VECTOR_ITEM_BYTES] {
        encode(self.handle, self.len, self.offset)
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`DecodeError::NegativeLength`].
    pub fn decode(bytes: &[u8; VECTOR_ITEM_BYTES]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(Bytes::copy_from_slice(bytes), "an element");
        Self::read(&mut cursor)
    }

    fn read(cursor: &mut Cursor) -> Result<Self, DecodeError> {
        Ok(Self {
            handle: FileHandle(cursor.array()?),
            len: cursor.length()?,
            offset: i64::from_be_bytes(cursor.array()?),
        })
    }

    pub(super) fn list(bytes: Bytes) -> Result<Vec<Self>, DecodeError> {
        list(bytes, VECTOR_ITEM_BYTES, VECTOR_ITEMS_MAX, Self::read)
    }
}

impl WriteItem {
    pub(super) fn list(bytes: Bytes) -> Result<Vec<Self>, DecodeError> {
        list(bytes, VECTOR_ITEM_BYTES, VECTOR_ITEMS_MAX, |cursor| {
            let item = ReadItem::read(cursor)?;
            Ok(Self {
                handle: item.handle,
                len: item.len,
                offset: item.offset,
            })
        })
    }

    pub(super) fn encode(&self) -> [u8; VECTOR_ITEM_BYTES] {
        encode(self.handle, self.len, self.offset)
    }
}

impl CloneItem {
    /// Bytes of one.
    const LEN: usize = 32;

    pub(super) fn list(bytes: Bytes) -> Result<Vec<Self>, DecodeError> {
        list(bytes, Self::LEN, CLONE_ITEMS_MAX, |cursor| {
            let source = FileHandle(cursor.array()?);
            cursor.u32()?;
            Ok(Self {
                source,
                source_offset: cursor.u64()?,
                len: cursor.u64()?,
                offset: cursor.u64()?,
            })
        })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&self.source.0);
        out.put_u32(0);
        out.put_u64(self.source_offset);
        out.put_u64(self.len);
        out.put_u64(self.offset);
    }
}

fn encode(handle: FileHandle, len: u32, offset: i64) -> [u8; VECTOR_ITEM_BYTES] {
    let mut out = [0; VECTOR_ITEM_BYTES];
    out[..4].copy_from_slice(&handle.0);
    out[4..8].copy_from_slice(&len.to_be_bytes());
    out[8..].copy_from_slice(&offset.to_be_bytes());
    out
}

fn list<T>(
    bytes: Bytes,
    each: usize,
    max: usize,
    read: impl Fn(&mut Cursor) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = bytes.len() / each;
    if !bytes.len().is_multiple_of(each) {
        return Err(DecodeError::Invalid("the length of a vector"));
    }
    if count > max {
        return Err(DecodeError::TooLong {
            what: "a vector",
            len: count,
            max,
        });
    }
    let mut cursor = Cursor::new(bytes, "a vector");
    (0..count).map(|_| read(&mut cursor)).collect()
}
