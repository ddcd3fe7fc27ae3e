//! Sessions: credentials for some hours, which carry all that a gateway must know to check them.
//!
//! A session token is a [`Session`] sealed under a key that is derived from the master key for this
//! one session, so every gateway that has the master key file can open it, and nobody else can read
//! or change it. The bytes are drawn in `docs/formats/session.md`. What a role may do is not in it
//! but looked up anew, so that a change of a role counts at once; revoking is looked up as well.
//!
//! [`Bounds`] is what a session or a token adds to a [`crate::Caller`]: what narrows it, and what
//! policies may ask of it.

mod bounds;
mod session_token;

pub use bounds::{ALL_CLAIMS_OMITTED, Bounds, Limit, is_claim_omitted};
pub use session_token::{
    ParentCredential, SESSION_KEY_PREFIX, Session, SessionError, SessionKind, SessionPrincipal,
    TokenFacts,
};
