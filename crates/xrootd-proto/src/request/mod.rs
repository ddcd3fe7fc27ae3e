//! Requests: their arguments as values, read by servers and written by clients.

mod attributes;
mod decode;
mod encode;
mod vector;

use bytes::Bytes;

pub use attributes::{Fattr, FattrAction};
pub use decode::fuzz_xrootd_request;
pub use vector::{CloneItem, ReadItem, WriteItem};

use crate::{FileHandle, RequestCode, RequestHeader, SessionId};

/// `protocol`: the capabilities of each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protocol {
    /// The client's version; 0 if it sends none.
    pub version: u32,
    /// Bits of [`crate::options::protocol`].
    pub flags: u8,
    /// Next request of the client, one of the `EXPECT` numbers there.
    pub expect: u8,
}

/// `login`: the claimed user, before any proof.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// The client's process.
    pub pid: u32,
    /// User name of the client; at most eight bytes.
    pub user: String,
    /// Further abilities.
    pub ability_more: u8,
    /// Abilities of the client.
    pub ability: u8,
    /// The client's generation, 5 since TLS; the bit 0x80 says that it accepts delayed replies.
    pub capability: u8,
    /// Information of the client about itself: `xrd.appname=xrdcp&…`.
    pub info: Bytes,
}

/// `open`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// Permission bits of a new file.
    pub mode: u16,
    /// Bits of [`crate::options::open`].
    pub options: u16,
    /// Bits of [`crate::options::open_more`].
    pub options_more: u16,
    /// The open file that some of these bits are about.
    pub template: FileHandle,
    /// The path, with its options.
    pub path: String,
}

impl Open {
    /// Whether the file is opened for writing: any of these bits means so, whatever the others are.
    #[must_use]
    pub fn writes(&self) -> bool {
        use crate::options::open::{APPEND, DELETE, NEW, UPDATE, WRITE};
        self.options & (DELETE | NEW | UPDATE | APPEND | WRITE) != 0
    }
}

/// `read`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Of which file.
    pub handle: FileHandle,
    /// First byte.
    pub offset: i64,
    /// Bytes wanted.
    pub len: u32,
    /// On which of the session's connections to answer; 0 is the one it came on.
    pub path_id: u8,
    /// Ranges that will be read soon.
    pub ahead: Vec<ReadItem>,
}

/// `pgread`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRead {
    /// Of which file.
    pub handle: FileHandle,
    /// First byte.
    pub offset: i64,
    /// Bytes wanted.
    pub len: u32,
    /// As in [`Read::path_id`].
    pub path_id: u8,
    /// Bits of [`crate::options::pages`].
    pub flags: u8,
}

/// `write` and `pgwrite`; the bytes follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// To which file.
    pub handle: FileHandle,
    /// First byte in the file.
    pub offset: i64,
    /// On which of the session's connections the bytes come; 0 is this one.
    pub path_id: u8,
    /// Of `pgwrite`: bits of [`crate::options::pages`].
    pub flags: u8,
    /// Bytes that follow; of `pgwrite` with the checksums among them.
    pub len: u32,
}

/// The open file or the path that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandleOrPath {
    /// An open file.
    Handle(FileHandle),
    /// A path, with its options.
    Path(String),
}

/// `stat` and `statx`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Bits of [`crate::options::stat`].
    pub options: u8,
    /// Attributes wanted beyond the usual.
    pub wants: u32,
    /// File or path of the operation.
    pub target: HandleOrPath,
}

/// `prepare`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepare {
    /// Bits of [`crate::options::prepare`].
    pub options: u8,
    /// 0 to 3.
    pub priority: u8,
    /// Port on which the client receives the notification.
    pub port: u16,
    /// More bits.
    pub options_more: u16,
    /// Lines: paths, or the id of an earlier one first.
    pub list: String,
}

/// `chkpoint`: changes of a file that are made together or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// From here on.
    Begin,
    /// They come about.
    Commit,
    /// How much may change.
    Query,
    /// They do not.
    Rollback,
    /// The request after this header belongs to the checkpoint. It is handled like a separate
    /// request.
    Execute(RequestHeader),
}

/// `sigver`: the signature of the request that follows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// That request's number.
    pub expect: u16,
    /// Of the rules, 0.
    pub version: u8,
    /// 1: the payload is not covered.
    pub flags: u8,
    /// Grows with every signature.
    pub sequence: u64,
    /// How it was made.
    pub crypto: u8,
    /// The encrypted hash.
    pub digest: Bytes,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the specification's names; fields as in the structs above"
)]
pub enum Request {
    /// A credential of a kind, like `ztn` or `sss`.
    Auth {
        kind: [u8; 4],
        credential: Bytes,
    },
    Query {
        kind: u16,
        handle: FileHandle,
        argument: Bytes,
    },
    Chmod {
        mode: u16,
        path: String,
    },
    Close {
        handle: FileHandle,
    },
    Dirlist {
        options: u8,
        path: String,
    },
    /// Never came into use.
    Gpfile {
        argument: Bytes,
    },
    Protocol(Protocol),
    Login(Login),
    Mkdir {
        options: u8,
        mode: u16,
        path: String,
    },
    Mv {
        from: String,
        to: String,
    },
    Open(Open),
    Ping,
    Chkpoint {
        handle: FileHandle,
        action: Checkpoint,
    },
    Read(Read),
    Rm {
        path: String,
    },
    Rmdir {
        path: String,
    },
    Sync {
        handle: FileHandle,
    },
    Stat(Stat),
    Set {
        modifier: u8,
        text: String,
    },
    Write(Write),
    Fattr(Fattr),
    Prepare(Prepare),
    Statx {
        options: u8,
        paths: Vec<String>,
    },
    Endsess {
        session: SessionId,
    },
    Bind {
        session: SessionId,
    },
    Readv {
        path_id: u8,
        items: Vec<ReadItem>,
    },
    Pgwrite(Write),
    Locate {
        options: u16,
        path: String,
    },
    Truncate {
        target: HandleOrPath,
        size: i64,
    },
    Sigver(Signature),
    Pgread(PageRead),
    Writev {
        options: u8,
        items: Vec<WriteItem>,
    },
    Clone {
        handle: FileHandle,
        items: Vec<CloneItem>,
    },
}

impl Request {
    /// Its number.
    #[must_use]
    pub fn code(&self) -> RequestCode {
        match self {
            Self::Auth { .. } => RequestCode::Auth,
            Self::Query { .. } => RequestCode::Query,
            Self::Chmod { .. } => RequestCode::Chmod,
            Self::Close { .. } => RequestCode::Close,
            Self::Dirlist { .. } => RequestCode::Dirlist,
            Self::Gpfile { .. } => RequestCode::Gpfile,
            Self::Protocol(_) => RequestCode::Protocol,
            Self::Login(_) => RequestCode::Login,
            Self::Mkdir { .. } => RequestCode::Mkdir,
            Self::Mv { .. } => RequestCode::Mv,
            Self::Open(_) => RequestCode::Open,
            Self::Ping => RequestCode::Ping,
            Self::Chkpoint { .. } => RequestCode::Chkpoint,
            Self::Read(_) => RequestCode::Read,
            Self::Rm { .. } => RequestCode::Rm,
            Self::Rmdir { .. } => RequestCode::Rmdir,
            Self::Sync { .. } => RequestCode::Sync,
            Self::Stat(_) => RequestCode::Stat,
            Self::Set { .. } => RequestCode::Set,
            Self::Write(_) => RequestCode::Write,
            Self::Fattr(_) => RequestCode::Fattr,
            Self::Prepare(_) => RequestCode::Prepare,
            Self::Statx { .. } => RequestCode::Statx,
            Self::Endsess { .. } => RequestCode::Endsess,
            Self::Bind { .. } => RequestCode::Bind,
            Self::Readv { .. } => RequestCode::Readv,
            Self::Pgwrite(_) => RequestCode::Pgwrite,
            Self::Locate { .. } => RequestCode::Locate,
            Self::Truncate { .. } => RequestCode::Truncate,
            Self::Sigver(_) => RequestCode::Sigver,
            Self::Pgread(_) => RequestCode::Pgread,
            Self::Writev { .. } => RequestCode::Writev,
            Self::Clone { .. } => RequestCode::Clone,
        }
    }

    /// Bytes of data that follow the arguments on the wire. For a `writev` these are its elements,
    /// one after the other, which no length announces.
    #[must_use]
    pub fn data_len(&self) -> u64 {
        match self {
            Self::Write(write) | Self::Pgwrite(write) => u64::from(write.len),
            Self::Writev { items, .. } => items.iter().map(|item| u64::from(item.len)).sum(),
            _ => 0,
        }
    }
}
