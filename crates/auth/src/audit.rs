//! Audit records of decisions: the seam between the code that decides and the audit log.

use std::borrow::Cow;
use std::sync::Arc;

use dewar_types::UserId;

use crate::{Caller, Origin, Principal, UserKind};

/// The kind of event of an audit record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditEvent {
    /// A request for an action on data, or on users, roles and policies.
    Access,
    /// Somebody proved who it is, or could not.
    Login,
    /// A credential that ends was given out, or was not.
    Session,
    /// An administrator's command.
    Admin,
    /// About the log itself.
    Log,
}

impl AuditEvent {
    /// Its name in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Login => "login",
            Self::Session => "session",
            Self::Admin => "admin",
            Self::Log => "log",
        }
    }
}

/// The outcome of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditOutcome {
    /// It was let happen.
    Allowed,
    /// It was not.
    Refused,
    /// It was let happen, and went wrong.
    Failed,
}

impl AuditOutcome {
    /// Its name in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// An audit record. It never contains a secret: credentials are named by their public half, tokens
/// by the first digits of their digest.
#[derive(Clone, Debug)]
pub struct AuditRecord {
    /// The kind of event.
    pub event: AuditEvent,
    /// The outcome.
    pub outcome: AuditOutcome,
    /// The name of the caller: `[TENANT:]NAME`, `anonymous`, `uid 0`.
    pub who: String,
    /// By which credential: `key:…`, `session:…`, `token:…`.
    pub credential: Option<Arc<str>>,
    /// From where.
    pub origin: Origin,
    /// The requested action: `s3:PutObject`, `login:ztn`, `admin:user-add`.
    pub action: Cow<'static, str>,
    /// To what: a path, an ARN, a name.
    pub target: String,
    /// The reason for the decision.
    pub why: String,
    /// The request's id at its door.
    pub request: Option<String>,
    /// Whether the caller is anonymous. Anybody can cause such records, so they share one rate
    /// limit.
    pub by_nobody: bool,
    /// The account whose share of the log the record uses; 0 for anonymous callers and for Dewar
    /// itself.
    pub account: UserId,
    /// Whether an issuer vouches for the caller. Such persons share the account of their issuer.
    pub federated: bool,
    /// The number of equal decisions that the record counts, at least 1.
    pub count: u64,
    /// The first targets of a record that counts several decisions. `target` is their common
    /// folder.
    pub names: Vec<String>,
}

impl AuditRecord {
    /// A record of an allowed action of a caller.
    #[must_use]
    pub fn of(caller: &Caller, action: impl Into<Cow<'static, str>>, target: String) -> Self {
        let who = match (caller.user(), caller.bounds()) {
            (Some(user), _) if !user.tenant.is_default() => {
                format!("{}:{}", user.tenant, user.name)
            }
            (None, Some(bounds)) => bounds.vouched_for(),
            _ => caller.to_string(),
        };
        Self {
            event: AuditEvent::Access,
            outcome: AuditOutcome::Allowed,
            who,
            credential: caller.credential().cloned(),
            origin: caller.origin(),
            action: action.into(),
            target,
            why: String::new(),
            request: caller.facts().and_then(crate::Facts::request_id),
            by_nobody: matches!(caller.principal(), Principal::Anonymous)
                && caller.bounds().is_none(),
            account: caller.account(),
            federated: caller
                .user()
                .is_some_and(|user| matches!(user.kind, UserKind::Federated { .. })),
            count: 1,
            names: Vec::new(),
        }
    }

    /// The same, refused.
    #[must_use]
    pub fn refused(self, why: impl Into<String>) -> Self {
        Self {
            outcome: AuditOutcome::Refused,
            why: why.into(),
            ..self
        }
    }
}

/// The sink for audit records. Calls come from the threads that serve and must return at once.
pub trait AuditSink: Send + Sync {
    /// Whether decisions about reading are wanted too.
    fn keeps_reads(&self) -> bool;

    /// Whether records can be written now. If not, and recording is mandatory, the action is
    /// refused.
    fn is_ready(&self) -> bool;

    /// Takes a record.
    fn record(&self, record: AuditRecord);
}
