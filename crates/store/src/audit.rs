//! Decisions, and records of them in the audit log. Only this module of the store calls
//! [`fn@authorize`].
//!
//! Refused actions are always recorded. Allowed actions are recorded if they change something or
//! give out access. Allowed reads are recorded if the log wants them. Dewar's own work is not
//! recorded here, and neither are actions on the admin socket, which has its own records.

use std::sync::{Arc, OnceLock};

use dewar_auth::{
    AccessDenied, Action, AuditBatch, AuditEvent, AuditOutcome, AuditRecord, AuditSink, Caller,
    Details, Origin, Principal, Resource, authorize, explain,
};
use dewar_types::{Error, ErrorKind, Result, Timestamp};

use crate::Store;

/// The sink for decisions, once it is set.
#[derive(Default)]
pub(crate) struct Audit(OnceLock<Arc<dyn AuditSink>>);

/// A decision, apart from what can go wrong on the way to it.
pub(crate) type AuthorizeResult = std::result::Result<(), AccessDenied>;

/// An action that cannot be recorded is refused.
fn unrecorded() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the audit log cannot be written, and nothing is done without it",
    )
}

impl Audit {
    fn sink(&self) -> Option<&Arc<dyn AuditSink>> {
        self.0.get()
    }

    /// The sink for a caller whose actions are recorded: the batch of its request, if it has one.
    fn sink_for<'a>(&'a self, caller: &'a Caller) -> Option<&'a dyn AuditSink> {
        let told = !matches!(caller.principal(), Principal::System);
        let sink = self.sink().filter(|_| told)?;
        Some(match caller.batch() {
            Some(batch) => &**batch,
            None => &**sink,
        })
    }

    /// A caller whose request decides about many names. The log gets one record for each kind of
    /// decision when the last copy of the caller is gone.
    pub(crate) fn batched(&self, caller: &Caller) -> Caller {
        match self.sink() {
            Some(sink) => {
                let batch = Arc::new(AuditBatch::new(Arc::clone(sink)));
                caller.clone().with_batch(batch)
            }
            None => caller.clone(),
        }
    }

    /// Decides and records.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`]; [`ErrorKind::Unavailable`] if the decision must be recorded and
    /// cannot be.
    pub(crate) fn authorize(
        &self,
        caller: &Caller,
        action: Action,
        resource: Resource<'_>,
        details: &Details<'_>,
    ) -> Result<()> {
        Ok(self.authorize_resource(caller, action, resource, details)??)
    }

    /// The same, with a refusal as a separate result.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`], as above.
    pub(crate) fn authorize_resource(
        &self,
        caller: &Caller,
        action: Action,
        resource: Resource<'_>,
        details: &Details<'_>,
    ) -> Result<AuthorizeResult> {
        let Some(sink) = self.sink_for(caller) else {
            return Ok(authorize(caller, action, resource, details));
        };
        let told = |outcome, why: String| {
            let mut target = resource.to_string();
            if let (Resource::Bucket { key: None, .. }, Some(prefix)) = (&resource, details.prefix)
            {
                target.push('/');
                target.push_str(prefix);
            }
            sink.record(AuditRecord {
                outcome,
                why,
                ..AuditRecord::of(caller, action.to_string(), target)
            });
        };
        if action.only_reads() && !sink.keeps_reads() {
            let judged = authorize(caller, action, resource, details);
            if let Err(denied) = &judged {
                told(AuditOutcome::Refused, denied.reason().to_string());
            }
            return Ok(judged);
        }
        let decision = explain(caller, action, resource, details);
        if decision.allowed && !sink.is_ready() {
            return Err(unrecorded());
        }
        let outcome = match decision.allowed {
            true => AuditOutcome::Allowed,
            false => AuditOutcome::Refused,
        };
        told(outcome, decision.reason.to_string());
        Ok(decision.into_result(caller, action, &resource))
    }

    /// Tells of a refusal that no policy decided.
    pub(crate) fn refused(&self, caller: &Caller, action: Action, path: String, why: &str) {
        if let Some(sink) = self.sink_for(caller) {
            sink.record(AuditRecord::of(caller, action.to_string(), path).refused(why));
        }
    }

    /// Records a login.
    pub(crate) fn login(&self, caller: &Caller, how: &str, why: String) {
        if let Some(sink) = self.sink_for(caller) {
            sink.record(AuditRecord {
                event: AuditEvent::Login,
                why,
                ..AuditRecord::of(caller, format!("login:{how}"), String::new())
            });
        }
    }

    /// Records a refused credential. `named` is its public half, as far as it has one.
    pub(crate) fn not_taken(&self, origin: Origin, how: &str, named: Option<&str>, why: &str) {
        let Some(sink) = self.sink() else {
            return;
        };
        let nobody = Caller::anonymous(origin);
        let record = AuditRecord::of(&nobody, format!("login:{how}"), String::new());
        sink.record(AuditRecord {
            event: AuditEvent::Login,
            credential: named.map(Into::into),
            ..record.refused(why)
        });
    }

    /// Checks whether a credential may be issued. Issuing must be recorded.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`].
    pub(crate) fn check(&self) -> Result<()> {
        match self.sink() {
            Some(sink) if !sink.is_ready() => Err(unrecorded()),
            _ => Ok(()),
        }
    }

    /// Tells of a credential that ends and was given out, or was not.
    pub(crate) fn session(
        &self,
        caller: &Caller,
        action: impl Into<String>,
        target: String,
        given: std::result::Result<(&str, Timestamp), &str>,
    ) {
        let Some(sink) = self.sink_for(caller) else {
            return;
        };
        let (outcome, why) = match given {
            Ok((id, ends)) => (
                AuditOutcome::Allowed,
                format!("gave {id}, which ends at {} seconds", ends.secs()),
            ),
            Err(why) => (AuditOutcome::Refused, why.to_owned()),
        };
        sink.record(AuditRecord {
            event: AuditEvent::Session,
            outcome,
            why,
            ..AuditRecord::of(caller, action.into(), target)
        });
    }
}

impl Store {
    /// Sends decisions to `sink` from now on. Only the first call has an effect.
    pub fn set_audit_sink(&self, sink: Arc<dyn AuditSink>) {
        // A second trail would mean a second opening of the same store.
        let _ = self.inner.audit.0.set(sink);
    }

    /// Records a login at a front with sessions.
    pub fn audit_login(&self, caller: &Caller, how: &str) {
        self.inner.audit.login(caller, how, String::new());
    }

    /// Records a refused login. `named` is the public half of its credential, as far as it has one.
    pub fn audit_refused_login(&self, origin: Origin, how: &str, named: Option<&str>, why: &str) {
        self.inner.audit.not_taken(origin, how, named, why);
    }
}
