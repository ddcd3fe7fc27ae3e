//! Replies: written by servers, read by clients.

mod attributes;
mod body;
mod pages;
mod stat;

use bytes::{BufMut, Bytes, BytesMut};

pub use attributes::{AttributeOutcome, AttributeReply};
pub use body::{CheckpointSpace, LoginReply, OpenReply, ProtocolReply, SigningRules};
pub use pages::{BadPages, PageStatus, ResponseType};
pub use stat::{DIRLIST_STAT_HEAD, StatExtension, StatFlags, StatText};

use crate::cursor::{Cursor, text_of};
use crate::{AttnAction, DecodeError, ErrorCode, ResponseHeader, Status, StreamId};

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Success, with the requested data.
    Ok(Bytes),
    /// A part of it; more comes.
    OkSoFar(Bytes),
    /// Not a reply: something to know.
    Message(Bytes),
    /// The delayed reply to a request whose client was told to wait.
    Later {
        /// Of which request.
        stream: StreamId,
        /// The reply.
        status: Status,
        /// Its body.
        body: Bytes,
    },
    /// The credential is not enough yet.
    AuthMore(Bytes),
    /// Failure.
    Error {
        /// Why, as a number; [`ErrorCode::from_number`] knows it or not.
        code: u32,
        /// Why, for people.
        message: String,
    },
    /// Redirects the client to another server.
    Redirect {
        /// The port, or a negative number if `host` is a whole URL.
        port: i32,
        /// The host, with `?` and options to append to the path.
        host: String,
    },
    /// Ask again.
    Wait {
        /// After so many seconds.
        seconds: u32,
        /// Why.
        message: String,
    },
    /// The reply comes later, as [`Reply::Later`].
    WaitResp {
        /// After so many seconds at most.
        seconds: u32,
    },
    /// Pages, or results for some of them; the announced bytes follow.
    Status(PageStatus),
}

impl Reply {
    /// A failure.
    #[must_use]
    pub fn error(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Error {
            code: code.number(),
            message: message.into(),
        }
    }

    /// How it begins.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::Ok(_) => Status::Ok,
            Self::OkSoFar(_) => Status::OkSoFar,
            Self::Message(_) | Self::Later { .. } => Status::Attn,
            Self::AuthMore(_) => Status::AuthMore,
            Self::Error { .. } => Status::Error,
            Self::Redirect { .. } => Status::Redirect,
            Self::Wait { .. } => Status::Wait,
            Self::WaitResp { .. } => Status::WaitResp,
            Self::Status(_) => Status::Status,
        }
    }

    /// Encodes the reply. For [`Reply::Status`] the caller sends the announced data after it.
    pub fn encode(&self, stream: StreamId, out: &mut BytesMut) {
        if let Self::Status(status) = self {
            status.encode(stream, out);
            return;
        }
        let start = out.len();
        let header = |len| ResponseHeader {
            // Messages belong to no request.
            stream: match self {
                Self::Message(_) | Self::Later { .. } => StreamId::default(),
                _ => stream,
            },
            status: self.status(),
            len,
        };
        out.put_slice(&header(0).encode());
        match self {
            Self::Ok(body) | Self::OkSoFar(body) | Self::AuthMore(body) => out.put_slice(body),
            Self::Message(text) => {
                out.put_u32(AttnAction::Message.number());
                out.put_slice(text);
            }
            Self::Later {
                stream,
                status,
                body,
            } => {
                out.put_u32(AttnAction::Response.number());
                out.put_u32(0);
                let inner = ResponseHeader {
                    stream: *stream,
                    status: *status,
                    len: u32::try_from(body.len()).unwrap_or(u32::MAX),
                };
                out.put_slice(&inner.encode());
                out.put_slice(body);
            }
            Self::Error { code, message } => {
                out.put_u32(*code);
                out.put_slice(message.as_bytes());
                out.put_u8(0);
            }
            Self::Redirect { port, host } => {
                out.put_i32(*port);
                out.put_slice(host.as_bytes());
            }
            Self::Wait { seconds, message } => {
                out.put_u32(*seconds);
                out.put_slice(message.as_bytes());
            }
            Self::WaitResp { seconds } => out.put_u32(*seconds),
            Self::Status(_) => {}
        }
        let len = out.len() - start - ResponseHeader::LEN;
        let header = header(u32::try_from(len).unwrap_or(u32::MAX)).encode();
        out[start..start + ResponseHeader::LEN].copy_from_slice(&header);
    }

    /// Decodes a header and the bytes that followed it.
    ///
    /// # Errors
    /// The first violation of the protocol.
    pub fn decode(header: &ResponseHeader, body: Bytes) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(body.clone(), "a reply");
        Ok(match header.status {
            Status::Ok => Self::Ok(body),
            Status::OkSoFar => Self::OkSoFar(body),
            Status::AuthMore => Self::AuthMore(body),
            Status::Attn => {
                let action = cursor.u32()?;
                match AttnAction::from_number(action) {
                    Some(AttnAction::Message) => Self::Message(cursor.rest()),
                    Some(AttnAction::Response) => {
                        cursor.u32()?;
                        let inner = ResponseHeader::decode(&cursor.array()?)?;
                        Self::Later {
                            stream: inner.stream,
                            status: inner.status,
                            body: cursor.take(inner.len as usize)?,
                        }
                    }
                    None => return Err(DecodeError::Invalid("an unasked message")),
                }
            }
            Status::Error => Self::Error {
                code: cursor.u32()?,
                message: text_of(&cursor.rest(), "an error")?,
            },
            Status::Redirect => Self::Redirect {
                port: i32::from_be_bytes(cursor.array()?),
                host: text_of(&cursor.rest(), "a host")?,
            },
            Status::Wait => Self::Wait {
                seconds: cursor.u32()?,
                message: text_of(&cursor.rest(), "a reason")?,
            },
            Status::WaitResp => Self::WaitResp {
                seconds: cursor.u32()?,
            },
            Status::Status => Self::Status(PageStatus::decode(header.stream, body)?),
        })
    }
}

/// Fuzz target: decodes any bytes as replies, as a client would.
pub fn fuzz_xrootd_reply(bytes: &[u8]) {
    let mut rest = Bytes::copy_from_slice(bytes);
    while rest.len() >= ResponseHeader::LEN {
        let head = rest.split_to(ResponseHeader::LEN);
        let Ok(head) = <[u8; ResponseHeader::LEN]>::try_from(&head[..]) else {
            return;
        };
        let Ok(header) = ResponseHeader::decode(&head) else {
            return;
        };
        let len = (header.len as usize).min(rest.len());
        let body = rest.split_to(len);
        if let Ok(Reply::Ok(body)) = Reply::decode(&header, body) {
            let _ = ProtocolReply::decode(&body);
            let _ = LoginReply::decode(body.clone());
            let _ = OpenReply::decode(body.clone());
            let _ = AttributeReply::decode(body.clone(), true);
            let _ = AttributeReply::decode_list(body.clone(), true);
            let _ = BadPages::decode(body.clone());
            let _ = crate::page::unwrap_pages(7, body.clone());
            if let Ok(text) = std::str::from_utf8(&body) {
                let _ = StatText::parse(text);
            }
        }
    }
}
