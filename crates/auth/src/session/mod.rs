//! Sessions: credentials for some hours that contain everything a gateway needs to check them.
//!
//! A session token is a [`Session`] that is sealed under a key derived from the master key for this
//! session alone. So every gateway with the master key file can open it, and nobody else can read
//! or change it. The format is described in `docs/formats/session.md`. The token does not contain
//! the rights of the role: they are looked up at each use, so a change of the role takes effect at
//! once. Revocations are looked up as well.
//!
//! [`Bounds`] is the part that a session or a token adds to a [`crate::Caller`]: its restrictions,
//! and the facts that policies may test.

mod bounds;
mod session_token;

pub use bounds::{ALL_CLAIMS_OMITTED, Bounds, Limit, is_claim_omitted};
pub use session_token::{
    ParentCredential, SESSION_KEY_PREFIX, Session, SessionError, SessionKind, SessionPrincipal,
    TokenFacts,
};
