//! Replies of kind `status`: pages, and results for pages.

use bytes::{BufMut, Bytes, BytesMut};

use crate::cursor::{Cursor, wire_length};
use crate::page::crc32c;
use crate::{DecodeError, RequestCode, ResponseHeader, Status, StreamId};

/// Whether more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseType {
    /// Nothing more.
    Final,
    /// More.
    Partial,
    /// Only a sign of life.
    Alive,
}

/// The head of such a reply; the data that it announces follows on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageStatus {
    /// To which request, a `pgread` or `pgwrite`.
    pub request: RequestCode,
    /// Whether more comes.
    pub progress: ResponseType,
    /// Start of the pages in the file.
    pub offset: u64,
    /// Bytes that follow, checksums included.
    pub data_len: u32,
}

/// Bytes of its body, which the header announces.
const BODY_BYTES: usize = 24;

impl PageStatus {
    /// Bytes of it on the wire, without the data.
    pub const LEN: usize = ResponseHeader::LEN + BODY_BYTES;

    /// Writes it.
    pub fn encode(&self, stream: StreamId, out: &mut BytesMut) {
        let header = ResponseHeader {
            stream,
            status: Status::Status,
            len: BODY_BYTES as u32,
        };
        out.reserve(Self::LEN);
        out.put_slice(&header.encode());
        let mut body = [0; BODY_BYTES];
        body[4..6].copy_from_slice(&stream.0);
        body[6] = (self.request.number() - RequestCode::Auth.number()) as u8;
        body[7] = match self.progress {
            ResponseType::Final => 0,
            ResponseType::Partial => 1,
            ResponseType::Alive => 2,
        };
        body[12..16].copy_from_slice(&wire_length(self.data_len as usize));
        body[16..].copy_from_slice(&self.offset.to_be_bytes());
        let crc = crc32c(&body[4..]);
        body[..4].copy_from_slice(&crc.to_be_bytes());
        out.put_slice(&body);
    }

    /// Decodes the body of such a reply.
    ///
    /// # Errors
    /// [`DecodeError::Checksum`]; an error if it belongs to another request or has unknown values.
    pub fn decode(stream: StreamId, body: Bytes) -> Result<Self, DecodeError> {
        let covered = body.get(4..).map(crc32c);
        let mut cursor = Cursor::new(body, "the head of pages");
        let expected = cursor.u32()?;
        let its = StreamId(cursor.array()?);
        let request = cursor.u8()?;
        let progress = match cursor.u8()? {
            0 => ResponseType::Final,
            1 => ResponseType::Partial,
            2 => ResponseType::Alive,
            _ => return Err(DecodeError::Invalid("the head of pages")),
        };
        cursor.u32()?;
        let data_len = cursor.length()?;
        let offset = cursor.u64()?;
        if let Some(found) = covered.filter(|found| *found != expected) {
            let what = "the head of pages";
            return Err(DecodeError::Checksum {
                what,
                expected,
                found,
            });
        }
        if its != stream {
            return Err(DecodeError::Invalid("the head of pages"));
        }
        let number = RequestCode::Auth.number() + u16::from(request);
        Ok(Self {
            request: RequestCode::from_number(number).ok_or(DecodeError::UnknownRequest(number))?,
            progress,
            offset,
            data_len,
        })
    }
}

/// Pages of a `pgwrite` that arrived damaged, and must be sent again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadPages {
    /// Start and length of each page. All pages between the first and the last are whole.
    pub pages: Vec<(u64, usize)>,
}

impl BadPages {
    /// Its bytes, the data of a [`PageStatus`].
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(8 + 8 * self.pages.len());
        let len = |page: Option<&(u64, usize)>| page.map_or(0, |(_, len)| *len as u16);
        out.put_u32(0);
        out.put_u16(len(self.pages.first()));
        out.put_u16(len(self.pages.last()));
        for (offset, _) in &self.pages {
            out.put_u64(*offset);
        }
        let crc = crc32c(&out[4..]);
        out[..4].copy_from_slice(&crc.to_be_bytes());
        out.freeze()
    }

    /// Reads them.
    ///
    /// # Errors
    /// [`DecodeError::Checksum`]; it ends early.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let covered = bytes.get(4..).map(crc32c);
        let mut cursor = Cursor::new(bytes, "bad pages");
        let expected = cursor.u32()?;
        if let Some(found) = covered.filter(|found| *found != expected) {
            let what = "bad pages";
            return Err(DecodeError::Checksum {
                what,
                expected,
                found,
            });
        }
        let (first, last) = (cursor.u16()?, cursor.u16()?);
        let mut pages = Vec::new();
        while !cursor.is_empty() {
            pages.push((cursor.u64()?, crate::page::PAGE_BYTES));
        }
        if let Some(page) = pages.last_mut() {
            page.1 = usize::from(last);
        }
        if let Some(page) = pages.first_mut() {
            page.1 = usize::from(first);
        }
        Ok(Self { pages })
    }
}
