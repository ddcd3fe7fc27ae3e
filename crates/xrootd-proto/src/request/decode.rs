//! From bytes to requests.

use bytes::Bytes;

use crate::cursor::{Cursor, text_of};
use crate::{DecodeError, FileHandle, RequestCode, RequestHeader, SessionId, StreamId};

use super::{
    Checkpoint, CloneItem, Fattr, HandleOrPath, Login, Open, PageRead, Prepare, Protocol, Read,
    ReadItem, Request, Signature, Stat, Write, WriteItem,
};

/// Numbers out of the 16 bytes of a header.
struct Body<'a>(&'a [u8; 16]);

impl Body<'_> {
    fn at<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.0[at..at + N]);
        out
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.at(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.at(at))
    }

    fn i64(&self, at: usize) -> i64 {
        i64::from_be_bytes(self.at(at))
    }

    fn length(&self, at: usize) -> Result<u32, DecodeError> {
        let length = i32::from_be_bytes(self.at(at));
        u32::try_from(length).map_err(|_| DecodeError::NegativeLength(length))
    }

    fn handle(&self, at: usize) -> FileHandle {
        FileHandle(self.at(at))
    }
}

impl Request {
    /// Decodes a header and the [`RequestHeader::arguments_len`] bytes that followed it.
    ///
    /// # Errors
    /// The first violation of the protocol; see [`DecodeError::code`] for the answer to the client.
    #[expect(
        clippy::too_many_lines,
        reason = "a list of the requests, one after the other"
    )]
    pub fn decode(header: &RequestHeader, arguments: Bytes) -> Result<Self, DecodeError> {
        let body = Body(&header.body);
        let path = || {
            let path = text_of(&arguments, "a path")?;
            if path.is_empty() {
                return Err(DecodeError::Missing("a path"));
            }
            Ok(path)
        };
        Ok(match header.request()? {
            RequestCode::Auth => Self::Auth {
                kind: body.at(12),
                credential: arguments,
            },
            RequestCode::Query => Self::Query {
                kind: body.u16(0),
                handle: body.handle(4),
                argument: arguments,
            },
            RequestCode::Chmod => Self::Chmod {
                mode: body.u16(14),
                path: path()?,
            },
            RequestCode::Close => Self::Close {
                handle: body.handle(0),
            },
            RequestCode::Dirlist => Self::Dirlist {
                options: header.body[15],
                path: path()?,
            },
            RequestCode::Gpfile => Self::Gpfile {
                argument: arguments,
            },
            RequestCode::Protocol => Self::Protocol(Protocol {
                version: body.u32(0),
                flags: header.body[4],
                expect: header.body[5] & 0x0f,
            }),
            RequestCode::Login => Self::Login(Login {
                pid: body.u32(0),
                user: text_of(&header.body[4..12], "a user")?,
                ability_more: header.body[12],
                ability: header.body[13],
                capability: header.body[14],
                info: arguments,
            }),
            RequestCode::Mkdir => Self::Mkdir {
                options: header.body[0],
                mode: body.u16(14),
                path: path()?,
            },
            RequestCode::Mv => {
                let (from, to) = two_paths(&arguments, body.u16(14))?;
                Self::Mv { from, to }
            }
            RequestCode::Open => Self::Open(Open {
                mode: body.u16(0),
                options: body.u16(2),
                options_more: body.u16(4),
                template: body.handle(12),
                path: path()?,
            }),
            RequestCode::Ping => Self::Ping,
            RequestCode::Chkpoint => Self::Chkpoint {
                handle: body.handle(0),
                action: checkpoint(header.body[15], &arguments)?,
            },
            RequestCode::Read => Self::Read(read(&body, arguments)?),
            RequestCode::Rm => Self::Rm { path: path()? },
            RequestCode::Rmdir => Self::Rmdir { path: path()? },
            RequestCode::Sync => Self::Sync {
                handle: body.handle(0),
            },
            RequestCode::Stat => Self::Stat(Stat {
                options: header.body[0],
                wants: body.u32(8),
                target: target(&arguments, body.handle(12))?,
            }),
            RequestCode::Set => Self::Set {
                modifier: header.body[15],
                text: text_of(&arguments, "what to set")?,
            },
            RequestCode::Write => Self::Write(write(header, &body)),
            RequestCode::Fattr => Self::Fattr(Fattr::decode(&header.body, arguments)?),
            RequestCode::Prepare => Self::Prepare(Prepare {
                options: header.body[0],
                priority: header.body[1],
                port: body.u16(2),
                options_more: body.u16(4),
                list: text_of(&arguments, "a list")?,
            }),
            RequestCode::Statx => {
                let list = text_of(&arguments, "a list")?;
                let paths = list.split('\n').filter(|path| !path.is_empty());
                Self::Statx {
                    options: header.body[0],
                    paths: paths.map(str::to_owned).collect(),
                }
            }
            RequestCode::Endsess => Self::Endsess {
                session: SessionId(header.body),
            },
            RequestCode::Bind => Self::Bind {
                session: SessionId(header.body),
            },
            RequestCode::Readv => Self::Readv {
                path_id: header.body[15],
                items: ReadItem::list(arguments)?,
            },
            RequestCode::Pgwrite => Self::Pgwrite(write(header, &body)),
            RequestCode::Locate => Self::Locate {
                options: body.u16(0),
                path: path()?,
            },
            RequestCode::Truncate => Self::Truncate {
                target: target(&arguments, body.handle(0))?,
                size: body.i64(4),
            },
            RequestCode::Sigver => Self::Sigver(Signature {
                expect: body.u16(0),
                version: header.body[2],
                flags: header.body[3],
                sequence: u64::from_be_bytes(body.at(4)),
                crypto: header.body[12],
                digest: arguments,
            }),
            RequestCode::Pgread => Self::Pgread(PageRead {
                handle: body.handle(0),
                offset: body.i64(4),
                len: body.length(12)?,
                path_id: arguments.first().copied().unwrap_or(0),
                flags: arguments.get(1).copied().unwrap_or(0),
            }),
            RequestCode::Writev => Self::Writev {
                options: header.body[0],
                items: WriteItem::list(arguments)?,
            },
            RequestCode::Clone => Self::Clone {
                handle: body.handle(0),
                items: CloneItem::list(arguments)?,
            },
        })
    }
}

fn read(body: &Body<'_>, arguments: Bytes) -> Result<Read, DecodeError> {
    let mut cursor = Cursor::new(arguments, "a read's list");
    let path_id = match cursor.len() {
        0 => 0,
        _ => cursor.take(8)?[0],
    };
    Ok(Read {
        handle: body.handle(0),
        offset: body.i64(4),
        len: body.length(12)?,
        path_id,
        ahead: ReadItem::list(cursor.rest())?,
    })
}

fn write(header: &RequestHeader, body: &Body<'_>) -> Write {
    Write {
        handle: body.handle(0),
        offset: body.i64(4),
        path_id: header.body[12],
        flags: if header.code == RequestCode::Pgwrite.number() {
            header.body[13]
        } else {
            0
        },
        len: header.len,
    }
}

fn target(arguments: &[u8], handle: FileHandle) -> Result<HandleOrPath, DecodeError> {
    let path = text_of(arguments, "a path")?;
    Ok(if path.is_empty() {
        HandleOrPath::Handle(handle)
    } else {
        HandleOrPath::Path(path)
    })
}

/// Two paths with a space between; the length of the first says where, since names may hold spaces.
fn two_paths(arguments: &[u8], first: u16) -> Result<(String, String), DecodeError> {
    let text = text_of(arguments, "a path")?;
    let cut = match first {
        0 => text.split_once(' '),
        len => {
            let len = usize::from(len);
            match (
                text.get(..len),
                text.get(len..).and_then(|rest| rest.strip_prefix(' ')),
            ) {
                (Some(from), Some(to)) => Some((from, to)),
                _ => None,
            }
        }
    };
    match cut {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => {
            Ok((from.to_owned(), to.to_owned()))
        }
        _ => Err(DecodeError::Missing("a path")),
    }
}

fn checkpoint(action: u8, arguments: &[u8]) -> Result<Checkpoint, DecodeError> {
    Ok(match action {
        0 => Checkpoint::Begin,
        1 => Checkpoint::Commit,
        2 => Checkpoint::Query,
        3 => Checkpoint::Rollback,
        4 => {
            let header: &[u8; RequestHeader::LEN] = arguments
                .try_into()
                .map_err(|_| DecodeError::Invalid("the length of an embedded request"))?;
            let header = RequestHeader::decode(header)?;
            match header.request()? {
                RequestCode::Write
                | RequestCode::Pgwrite
                | RequestCode::Writev
                | RequestCode::Truncate => Checkpoint::Execute(header),
                _ => return Err(DecodeError::Invalid("an embedded request")),
            }
        }
        _ => return Err(DecodeError::Invalid("what to do with a checkpoint")),
    })
}

/// Fuzz target: reads any bytes as the requests of a connection, as a server would. Decoded
/// requests must be the same after encoding and decoding again.
pub fn fuzz_xrootd_request(bytes: &[u8]) {
    let mut rest = Bytes::copy_from_slice(bytes);
    while rest.len() >= RequestHeader::LEN {
        let header = rest.split_to(RequestHeader::LEN);
        let header: [u8; RequestHeader::LEN] = match header[..].try_into() {
            Ok(header) => header,
            Err(_) => return,
        };
        let Ok(header) = RequestHeader::decode(&header) else {
            return;
        };
        let Ok(len) = header.arguments_len() else {
            return;
        };
        if rest.len() < len {
            return;
        }
        let Ok(request) = Request::decode(&header, rest.split_to(len)) else {
            continue;
        };
        let mut again = bytes::BytesMut::new();
        request.encode(StreamId([1, 2]), &mut again);
        let again = again.freeze();
        let head: [u8; RequestHeader::LEN] = match again[..RequestHeader::LEN].try_into() {
            Ok(head) => head,
            Err(_) => return,
        };
        let reread = RequestHeader::decode(&head)
            .and_then(|header| Request::decode(&header, again.slice(RequestHeader::LEN..)));
        assert_eq!(reread.as_ref(), Ok(&request), "written and read again");
    }
}
