//! Who is asking and what they may do.
//!
//! A front proves a credential and gets a [`Caller`]; only the store asks [`authorize`], once in
//! every verb. This crate owns the rules and the traits, not the tables: users and keys live in
//! the catalog, behind [`Credentials`].

mod authorize;
mod caller;
mod credentials;
mod master_key;
mod secret;
mod wrap;

pub use authorize::{Action, Denied, Resource, authorize};
pub use caller::{Caller, Origin, Principal};
pub use credentials::{AccessKey, Credentials, User};
pub use master_key::{MasterKeyError, MasterKeyId, MasterKeys};
pub use secret::Secret;
pub use wrap::{SECRET_BYTES_MAX, WrapError, wrapped_with};
