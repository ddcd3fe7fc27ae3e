//! The header of every request and every reply.

use core::fmt;

use bytes::{BufMut, BytesMut};

use crate::cursor::wire_length;
use crate::limits;
use crate::{DecodeError, RequestCode, Status};

/// A client's id of one of its requests. The reply repeats it. Only the client interprets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub [u8; 2]);

/// A server's id of an open file, within one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileHandle(pub [u8; 4]);

impl FileHandle {
    /// Of a number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number.to_be_bytes())
    }

    /// As a number.
    #[must_use]
    pub const fn number(self) -> u32 {
        u32::from_be_bytes(self.0)
    }
}

/// A server's id of a session. A client that knows it may bind connections to the session. It must
/// therefore not be guessable, and its `Debug` output does not show it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 16]);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(..)")
    }
}

/// The first 24 bytes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The client's id of the request.
    pub stream: StreamId,
    /// The request's number, which may be unknown.
    pub code: u16,
    /// Arguments of fixed size.
    pub body: [u8; 16],
    /// Bytes that follow, as announced.
    pub len: u32,
}

impl RequestHeader {
    /// Its length in bytes.
    pub const LEN: usize = 24;

    /// Decodes a header.
    ///
    /// # Errors
    /// [`DecodeError::NegativeLength`].
    pub fn decode(bytes: &[u8; Self::LEN]) -> Result<Self, DecodeError> {
        let mut body = [0; 16];
        body.copy_from_slice(&bytes[4..20]);
        let len = i32::from_be_bytes([bytes[20], bytes[21], bytes[22], bytes[23]]);
        Ok(Self {
            stream: StreamId([bytes[0], bytes[1]]),
            code: u16::from_be_bytes([bytes[2], bytes[3]]),
            body,
            len: u32::try_from(len).map_err(|_| DecodeError::NegativeLength(len))?,
        })
    }

    /// Writes it.
    pub fn encode(&self, out: &mut BytesMut) {
        out.reserve(Self::LEN);
        out.put_slice(&self.stream.0);
        out.put_u16(self.code);
        out.put_slice(&self.body);
        out.put_slice(&wire_length(self.len as usize));
    }

    /// The kind of the request.
    ///
    /// # Errors
    /// [`DecodeError::UnknownRequest`].
    pub fn request(&self) -> Result<RequestCode, DecodeError> {
        RequestCode::from_number(self.code).ok_or(DecodeError::UnknownRequest(self.code))
    }

    /// Bytes of arguments that follow and must be gathered for [`crate::Request::decode`].
    ///
    /// # Errors
    /// [`DecodeError::UnknownRequest`]; [`DecodeError::TooLong`] for more than such a request can
    /// have. The bytes are still announced, so a server that wants to go on must skip
    /// [`RequestHeader::len`] of them.
    pub fn arguments_len(&self) -> Result<usize, DecodeError> {
        let code = self.request()?;
        let (what, max) = match code {
            // These bytes are data.
            RequestCode::Write | RequestCode::Pgwrite => return Ok(0),
            RequestCode::Auth => ("a credential", limits::CREDENTIAL_BYTES_MAX),
            RequestCode::Readv | RequestCode::Writev => (
                "a vector",
                limits::VECTOR_ITEMS_MAX * limits::VECTOR_ITEM_BYTES,
            ),
            RequestCode::Read => (
                "a read's list",
                8 + limits::VECTOR_ITEMS_MAX * limits::VECTOR_ITEM_BYTES,
            ),
            RequestCode::Clone => ("a clone's list", limits::CLONE_ITEMS_MAX * 32),
            RequestCode::Fattr => ("attributes", limits::ATTRIBUTE_BYTES_MAX),
            RequestCode::Prepare | RequestCode::Statx => ("a list", limits::LIST_BYTES_MAX),
            RequestCode::Query
            | RequestCode::Login
            | RequestCode::Set
            | RequestCode::Sigver
            | RequestCode::Gpfile
            | RequestCode::Protocol => ("an argument", limits::TEXT_BYTES_MAX),
            RequestCode::Chmod
            | RequestCode::Dirlist
            | RequestCode::Mkdir
            | RequestCode::Mv
            | RequestCode::Open
            | RequestCode::Rm
            | RequestCode::Rmdir
            | RequestCode::Stat
            | RequestCode::Locate
            | RequestCode::Truncate => ("a path", limits::PATH_BYTES_MAX),
            RequestCode::Chkpoint => ("an embedded request", Self::LEN),
            RequestCode::Close
            | RequestCode::Ping
            | RequestCode::Sync
            | RequestCode::Endsess
            | RequestCode::Bind
            | RequestCode::Pgread => ("an argument", 64),
        };
        let len = self.len as usize;
        if len > max {
            return Err(DecodeError::TooLong { what, len, max });
        }
        Ok(len)
    }
}

/// The first 8 bytes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// Of which request.
    pub stream: StreamId,
    /// Kind of the reply.
    pub status: Status,
    /// Bytes that follow.
    pub len: u32,
}

impl ResponseHeader {
    /// Its length in bytes.
    pub const LEN: usize = 8;

    /// Decodes a header.
    ///
    /// # Errors
    /// [`DecodeError::NegativeLength`]; [`DecodeError::Invalid`] for an unknown status.
    pub fn decode(bytes: &[u8; Self::LEN]) -> Result<Self, DecodeError> {
        let status = u16::from_be_bytes([bytes[2], bytes[3]]);
        let len = i32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        Ok(Self {
            stream: StreamId([bytes[0], bytes[1]]),
            status: Status::from_number(status).ok_or(DecodeError::Invalid("a reply's status"))?,
            len: u32::try_from(len).map_err(|_| DecodeError::NegativeLength(len))?,
        })
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..2].copy_from_slice(&self.stream.0);
        out[2..4].copy_from_slice(&self.status.number().to_be_bytes());
        out[4..].copy_from_slice(&wire_length(self.len as usize));
        out
    }
}
