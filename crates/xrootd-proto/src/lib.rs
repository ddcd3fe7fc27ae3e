//! The XRootD protocol as it goes over the wire: every request and reply of version 5.2.0, in both
//! directions, for servers and clients alike. No I/O, no async, no clock: bytes in, values out.
//!
//! # Reading requests
//! A server gathers 20 bytes for a [`Handshake`], then 24 for each [`RequestHeader`]. The header
//! says how many bytes of arguments follow ([`RequestHeader::arguments_len`], never more than the
//! request may have) and [`Request::decode`] turns both into a value. The bytes of `write`,
//! `pgwrite` and `writev` are not arguments: [`Request::data_len`] says how many of them come next,
//! and the reader takes them from its socket in pieces of any size.
//!
//! # Writing replies
//! A [`Reply`] encodes itself. Where data is large, [`ResponseHeader`] and [`PageStatus`] are
//! written by themselves and the data follows from wherever it is, uncopied.
//!
//! # Clients
//! [`Request::encode`] and [`Reply::decode`] are the same the other way round; bodies of successful
//! replies have types of their own in [`reply`].
//!
//! # Limits
//! Every length that comes from the wire is held against one of [`limits`] before anything is
//! allocated for it.

mod code;
mod cursor;
mod error;
mod handshake;
mod header;
pub mod limits;
pub mod options;
pub mod page;
mod path;
pub mod reply;
pub mod request;

pub use code::{AttnAction, ErrorCode, QueryKind, RequestCode, Status};
pub use error::DecodeError;
pub use handshake::{Handshake, HandshakeReply};
pub use header::{FileHandle, RequestHeader, ResponseHeader, SessionId, StreamId};
pub use path::{Cgi, split_cgi};
pub use reply::{PageStatus, Reply, fuzz_xrootd_reply};
pub use request::{Request, fuzz_xrootd_request};

/// The version that this crate speaks: 5.2.0, one decimal digit for each half byte.
pub const VERSION: u32 = 0x520;

/// Since when replies of page reads and writes are known.
pub const VERSION_PAGES: u32 = 0x511;

/// Since when a connection can change to TLS.
pub const VERSION_TLS: u32 = 0x500;
