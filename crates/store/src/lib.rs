//! The verbs: put, get, head, list, copy, delete, multipart, rename, once, for every protocol.
//!
//! A front turns its wire into a request of [`api`], calls one verb with a
//! [`dewar_auth::Caller`], and turns the answer or the [`dewar_types::Error`] back. Whether the
//! caller may, where a path leads, where bytes go and when a version exists is decided here.

pub mod api;
