//! Decisions, and records of them in the audit log. Verbs ask the [`Authorizer`] and not
//! [`fn@authorize`], which records nothing.
//!
//! Refused actions are always recorded. Allowed actions are recorded if they change something or
//! give out access. Allowed reads are recorded if the log wants them. Dewar's own work is not
//! recorded here, and neither are actions on the admin socket, which has its own records.

use std::sync::{Arc, OnceLock};

use dewar_types::{Error, ErrorKind, Result, Timestamp};

use crate::{
    AccessDenied, Action, AuditBatch, AuditEvent, AuditOutcome, AuditRecord, AuditSink, Caller,
    Details, Origin, Principal, Resource, authorize, explain,
};

/// Decides about actions, and records decisions, logins and issued credentials.
#[derive(Default)]
pub struct Authorizer(OnceLock<Arc<dyn AuditSink>>);

/// A decision, apart from what can go wrong on the way to it.
pub type AuthorizeResult = std::result::Result<(), AccessDenied>;

/// An action that cannot be recorded is refused.
fn unrecorded() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the audit log cannot be written, and nothing is done without it",
    )
}

impl Authorizer {
    /// Sends records to `sink` from now on. Only the first call has an effect.
    pub fn set_sink(&self, sink: Arc<dyn AuditSink>) {
        // A second sink would mean a second opening of the same store.
        let _ = self.0.set(sink);
    }

    fn sink(&self) -> Option<&Arc<dyn AuditSink>> {
        self.0.get()
    }

    /// The sink for a caller whose actions are recorded: the batch of its request, if it has one.
    fn sink_for<'a>(&'a self, caller: &'a Caller) -> Option<&'a dyn AuditSink> {
        let is_recorded = !matches!(caller.principal(), Principal::System);
        let sink = self.sink().filter(|_| is_recorded)?;
        Some(match caller.batch() {
            Some(batch) => &**batch,
            None => &**sink,
        })
    }

    /// A caller whose request decides about many names. The log gets one record for each kind of
    /// decision when the last copy of the caller is gone.
    pub fn batched(&self, caller: &Caller) -> Caller {
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
    pub fn authorize(
        &self,
        caller: &Caller,
        action: Action,
        resource: Resource<'_>,
        details: &Details<'_>,
    ) -> Result<()> {
        Ok(self.authorize_resource(caller, action, resource, details)??)
    }

    /// As [`Authorizer::authorize`], with a refusal as a separate result.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the decision must be recorded and cannot be.
    pub fn authorize_resource(
        &self,
        caller: &Caller,
        action: Action,
        resource: Resource<'_>,
        details: &Details<'_>,
    ) -> Result<AuthorizeResult> {
        let Some(sink) = self.sink_for(caller) else {
            return Ok(authorize(caller, action, resource, details));
        };
        let record = |outcome, why: String| {
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
                record(AuditOutcome::Refused, denied.reason().to_string());
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
        record(outcome, decision.reason.to_string());
        Ok(decision.into_result(caller, action, &resource))
    }

    /// Records a refusal that no policy decided.
    pub fn record_refusal(&self, caller: &Caller, action: Action, path: String, why: &str) {
        if let Some(sink) = self.sink_for(caller) {
            sink.record(AuditRecord::of(caller, action.to_string(), path).refused(why));
        }
    }

    /// Records a login.
    pub fn record_login(&self, caller: &Caller, how: &str, why: String) {
        if let Some(sink) = self.sink_for(caller) {
            sink.record(AuditRecord {
                event: AuditEvent::Login,
                why,
                ..AuditRecord::of(caller, format!("login:{how}"), String::new())
            });
        }
    }

    /// Records a refused credential. `named` is its public half, as far as it has one.
    pub fn record_refused_login(&self, origin: Origin, how: &str, named: Option<&str>, why: &str) {
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
    pub fn check_ready(&self) -> Result<()> {
        match self.sink() {
            Some(sink) if !sink.is_ready() => Err(unrecorded()),
            _ => Ok(()),
        }
    }

    /// Records that a credential with an end was issued, or was refused.
    pub fn record_credential(
        &self,
        caller: &Caller,
        action: impl Into<String>,
        target: String,
        issued: std::result::Result<(&str, Timestamp), &str>,
    ) {
        let Some(sink) = self.sink_for(caller) else {
            return;
        };
        let (outcome, why) = match issued {
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
