//! The XRootD wire protocol: every request and reply of version 5.2.0, in both directions, for
//! servers and clients alike. No I/O, no async, no clock: bytes in, values out.
//!
//! # Reading requests
//! A server reads 20 bytes for a [`Handshake`], then 24 for each [`RequestHeader`]. The header says
//! how many bytes of arguments follow ([`RequestHeader::arguments_len`], never more than the limit
//! of the request). [`Request::decode`] makes a value of both. The bytes of `write`, `pgwrite` and
//! `writev` are not arguments. [`Request::data_len`] says how many of them follow, and the reader
//! takes them from its socket in pieces of any size.
//!
//! # Writing replies
//! A [`Reply`] encodes itself. For large data, [`ResponseHeader`] and [`PageStatus`] are written
//! separately, and the data follows without a copy.
//!
//! # Clients
//! [`Request::encode`] and [`Reply::decode`] are the reverse functions. Bodies of successful
//! replies have types of their own in [`reply`].
//!
//! # Limits
//! Every length from the wire is compared with one of [`limits`] before memory is allocated for it.

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

/// First version with replies of page reads and writes.
pub const VERSION_PAGES: u32 = 0x511;

/// First version in which a connection can change to TLS.
pub const VERSION_TLS: u32 = 0x500;
