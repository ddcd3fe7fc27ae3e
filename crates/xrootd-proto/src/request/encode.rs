//! From requests to bytes.

use bytes::{BufMut, BytesMut};

use crate::{FileHandle, RequestHeader, StreamId};

use super::{Checkpoint, HandleOrPath, Request, Write};

/// The 16 bytes of a header, put together.
struct Body([u8; 16]);

impl Body {
    fn put<const N: usize>(mut self, at: usize, bytes: [u8; N]) -> Self {
        self.0[at..at + N].copy_from_slice(&bytes);
        self
    }

    fn handle(self, at: usize, handle: FileHandle) -> Self {
        self.put(at, handle.0)
    }
}

impl Request {
    /// Encodes header and arguments. The caller sends [`Request::data_len`] bytes of data after
    /// them.
    pub fn encode(&self, stream: StreamId, out: &mut BytesMut) {
        let start = out.len();
        let mut header = RequestHeader {
            stream,
            code: self.code().number(),
            body: self.body().0,
            len: 0,
        };
        header.encode(out);
        let arguments = out.len();
        self.arguments(out);
        let len = match self {
            Self::Write(write) | Self::Pgwrite(write) => write.len as usize,
            _ => out.len() - arguments,
        };
        header.len = u32::try_from(len).unwrap_or(u32::MAX);
        let mut head = BytesMut::with_capacity(RequestHeader::LEN);
        header.encode(&mut head);
        out[start..start + RequestHeader::LEN].copy_from_slice(&head);
    }

    fn body(&self) -> Body {
        let body = Body([0; 16]);
        match self {
            Self::Auth { kind, .. } => body.put(12, *kind),
            Self::Query { kind, handle, .. } => body.put(0, kind.to_be_bytes()).handle(4, *handle),
            Self::Chmod { mode, .. } => body.put(14, mode.to_be_bytes()),
            Self::Close { handle } | Self::Sync { handle } | Self::Clone { handle, .. } => {
                body.handle(0, *handle)
            }
            Self::Dirlist { options, .. } => body.put(15, [*options]),
            Self::Gpfile { .. } | Self::Ping | Self::Rm { .. } | Self::Rmdir { .. } => body,
            Self::Protocol(protocol) => body
                .put(0, protocol.version.to_be_bytes())
                .put(4, [protocol.flags, protocol.expect]),
            Self::Login(login) => {
                let mut user = [0; 8];
                let len = login.user.len().min(user.len());
                user[..len].copy_from_slice(&login.user.as_bytes()[..len]);
                body.put(0, login.pid.to_be_bytes())
                    .put(4, user)
                    .put(12, [login.ability_more, login.ability, login.capability])
            }
            Self::Mkdir { options, mode, .. } => {
                body.put(0, [*options]).put(14, mode.to_be_bytes())
            }
            Self::Mv { from, .. } => {
                let len = u16::try_from(from.len()).unwrap_or(u16::MAX);
                body.put(14, len.to_be_bytes())
            }
            Self::Open(open) => body
                .put(0, open.mode.to_be_bytes())
                .put(2, open.options.to_be_bytes())
                .put(4, open.options_more.to_be_bytes())
                .handle(12, open.template),
            Self::Chkpoint { handle, action } => {
                let action = match action {
                    Checkpoint::Begin => 0,
                    Checkpoint::Commit => 1,
                    Checkpoint::Query => 2,
                    Checkpoint::Rollback => 3,
                    Checkpoint::Execute(_) => 4,
                };
                body.handle(0, *handle).put(15, [action])
            }
            Self::Read(read) => body
                .handle(0, read.handle)
                .put(4, read.offset.to_be_bytes())
                .put(12, read.len.to_be_bytes()),
            Self::Pgread(read) => body
                .handle(0, read.handle)
                .put(4, read.offset.to_be_bytes())
                .put(12, read.len.to_be_bytes()),
            Self::Stat(stat) => {
                let body = body.put(0, [stat.options]).put(8, stat.wants.to_be_bytes());
                at_target(body, 12, &stat.target)
            }
            Self::Set { modifier, .. } => body.put(15, [*modifier]),
            Self::Write(write) | Self::Pgwrite(write) => written(body, write),
            Self::Fattr(fattr) => {
                let (number, count) = fattr.action.numbers();
                at_target(body, 0, &fattr.target).put(4, [number, count, fattr.options])
            }
            Self::Prepare(prepare) => body
                .put(0, [prepare.options, prepare.priority])
                .put(2, prepare.port.to_be_bytes())
                .put(4, prepare.options_more.to_be_bytes()),
            Self::Statx { options, .. } | Self::Writev { options, .. } => body.put(0, [*options]),
            Self::Endsess { session } | Self::Bind { session } => body.put(0, session.0),
            Self::Readv { path_id, .. } => body.put(15, [*path_id]),
            Self::Locate { options, .. } => body.put(0, options.to_be_bytes()),
            Self::Truncate { target, size } => {
                at_target(body, 0, target).put(4, size.to_be_bytes())
            }
            Self::Sigver(signature) => body
                .put(0, signature.expect.to_be_bytes())
                .put(2, [signature.version, signature.flags])
                .put(4, signature.sequence.to_be_bytes())
                .put(12, [signature.crypto]),
        }
    }

    fn arguments(&self, out: &mut BytesMut) {
        match self {
            Self::Auth {
                credential: bytes, ..
            }
            | Self::Query {
                argument: bytes, ..
            }
            | Self::Gpfile { argument: bytes } => out.put_slice(bytes),
            Self::Login(login) => out.put_slice(&login.info),
            Self::Sigver(signature) => out.put_slice(&signature.digest),
            Self::Chmod { path, .. }
            | Self::Dirlist { path, .. }
            | Self::Mkdir { path, .. }
            | Self::Rm { path }
            | Self::Rmdir { path }
            | Self::Locate { path, .. } => out.put_slice(path.as_bytes()),
            Self::Open(open) => out.put_slice(open.path.as_bytes()),
            Self::Stat(stat) => target_path(&stat.target, out),
            Self::Truncate { target, .. } => target_path(target, out),
            Self::Set { text, .. } => out.put_slice(text.as_bytes()),
            Self::Prepare(prepare) => out.put_slice(prepare.list.as_bytes()),
            Self::Statx { paths, .. } => out.put_slice(paths.join("\n").as_bytes()),
            Self::Mv { from, to } => {
                out.put_slice(from.as_bytes());
                out.put_u8(b' ');
                out.put_slice(to.as_bytes());
            }
            Self::Chkpoint { action, .. } => {
                if let Checkpoint::Execute(header) = action {
                    header.encode(out);
                }
            }
            Self::Read(read) => {
                if read.path_id != 0 || !read.ahead.is_empty() {
                    out.put_slice(&[read.path_id, 0, 0, 0, 0, 0, 0, 0]);
                    read.ahead
                        .iter()
                        .for_each(|item| out.put_slice(&item.encode()));
                }
            }
            Self::Pgread(read) => {
                if read.path_id != 0 || read.flags != 0 {
                    out.put_slice(&[read.path_id, read.flags]);
                }
            }
            Self::Readv { items, .. } => {
                items.iter().for_each(|item| out.put_slice(&item.encode()));
            }
            Self::Writev { items, .. } => {
                items.iter().for_each(|item| out.put_slice(&item.encode()));
            }
            Self::Clone { items, .. } => items.iter().for_each(|item| item.encode(out)),
            Self::Fattr(fattr) => fattr.encode(out),
            Self::Close { .. }
            | Self::Sync { .. }
            | Self::Protocol(_)
            | Self::Ping
            | Self::Endsess { .. }
            | Self::Bind { .. }
            | Self::Write(_)
            | Self::Pgwrite(_) => {}
        }
    }
}

fn written(body: Body, write: &Write) -> Body {
    body.handle(0, write.handle)
        .put(4, write.offset.to_be_bytes())
        .put(12, [write.path_id, write.flags])
}

fn at_target(body: Body, at: usize, target: &HandleOrPath) -> Body {
    match target {
        HandleOrPath::Handle(handle) => body.handle(at, *handle),
        HandleOrPath::Path(_) => body,
    }
}

fn target_path(target: &HandleOrPath, out: &mut BytesMut) {
    if let HandleOrPath::Path(path) = target {
        out.put_slice(path.as_bytes());
    }
}
