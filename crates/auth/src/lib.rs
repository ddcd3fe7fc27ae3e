//! Authentication and authorization: the identity of callers and their rights.
//!
//! A front verifies a credential and gets a [`Caller`]. Only the verbs of the store and of the IAM
//! API ask the [`Authorizer`], for everything that they touch. This crate has the rules and the
//! traits. The tables (users, keys and documents) are in the catalog, behind [`CredentialStore`] and
//! the store.

mod access;
mod access_codec;
mod acl;
mod action;
mod age;
mod audit;
mod audit_batch;
mod authdb;
mod authorize;
mod authorizer;
mod caller;
mod connection;
mod credentials;
mod facts;
pub mod fair_share;
mod macaroon;
mod master_key;
mod network;
mod policy;
mod secret;
mod session;
pub mod token;
mod wrap;

pub use access::{
    BucketAccess, BucketPolicy, ObjectAccess, Ownership, PublicAccessBlock, RequestPayment,
};
pub use acl::{Acl, AclError, CannedAcl, GRANTS_MAX, Grant, Grantee, Permission};
pub use action::{Action, ActionSet, Level};
pub use age::{AgeError, AgeRecipient, age_encrypt};
pub use audit::{AuditEvent, AuditOutcome, AuditRecord, AuditSink};
pub use audit_batch::{AuditBatch, BATCH_NAMES_MAX};
pub use authdb::{AUTHDB_BYTES_MAX, Authdb, AuthdbHolder, AuthdbLine, fuzz_authdb};
pub use authorize::{
    AccessDenied, Decision, Details, Reason, Resource, assume, authorize, explain, makes_only_new,
};
pub use authorizer::{AuthorizeResult, Authorizer};
pub use caller::{Caller, Origin, Principal};
pub use connection::{AcceptedConnection, UncountedConnection};
pub use credentials::{
    AccessKey, CredentialError, CredentialStore, User, UserKind, UserPolicies, UserPolicy, role_arn,
};
pub use facts::{Fact, Facts};
pub use macaroon::{CaveatError, Caveats, Macaroon, MacaroonError, before_caveat, fuzz_macaroon};
pub use master_key::{MasterKeyError, MasterKeyId, MasterKeys, TooManyKeys};
pub use network::{Network, client_network};
pub use policy::{
    BUCKET_POLICY_BYTES_MAX, Effect, IDENTITY_POLICY_BYTES_MAX, Policy, PolicyError, PolicyKind,
    STORED_POLICY_BYTES_MAX, condition_keys, fuzz_iam_policy, principals_of, shown_principals,
    stored_principals,
};
pub use secret::Secret;
pub use session::{
    ALL_CLAIMS_OMITTED, Bounds, Limit, ParentCredential, SESSION_KEY_PREFIX, Session, SessionError,
    SessionKind, SessionPrincipal, TokenFacts, is_claim_omitted,
};
pub use wrap::{SECRET_BYTES_MAX, WrapError, wrapped_with};
