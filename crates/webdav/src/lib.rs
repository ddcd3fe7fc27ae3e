//! The WebDAV front: HTTP and WebDAV (RFC 9110, RFC 4918) to verbs of the store.
//!
//! A path is `/BUCKET/KEY`, read by the rules of a hierarchy: see [`dewar_store::file`]. [`WebDav`]
//! finds out who asks and what for. A file of `ops` for each method calls the store. [`xml`] reads
//! documents within limits and writes answers.

mod access;
mod context;
mod destination;
mod error;
mod facts;
mod front;
mod if_header;
pub mod limits;
mod ops;
mod resource_path;
mod third_party;
pub mod xml;

pub use front::{WebDav, WebDavConfig};
pub use if_header::fuzz_if;
pub use resource_path::fuzz_path;
pub use third_party::ThirdPartyCopies;
