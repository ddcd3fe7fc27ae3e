//! Running a request, and recording it with the caller in the audit log.
//!
//! Requests contain secrets (keys, tokens), so only the target that the command names is recorded.

use dewar_audit::AuditLog;
use dewar_auth::{AuditEvent, AuditOutcome, AuditRecord, AuditSink as _, Caller};

use crate::command::{AdminRequest, Effect};
use crate::context::AdminApi;
use crate::error::{AdminError, Failure, Result};

/// Runs a request for the caller with this Unix user id, and returns the reply as JSON.
///
/// # Errors
/// As the command.
pub async fn carry_out(
    api: &dyn AdminApi,
    request: Box<dyn AdminRequest>,
    uid: u32,
) -> Result<Vec<u8>> {
    let (effect, action, target) = (request.effect(), request.action(), request.target());
    let result = api.run(request).await;
    if let Some(audit) = api.audit()
        && (effect == Effect::Change || audit.keeps_reads())
    {
        let (outcome, why) = match &result {
            Ok(_) => (AuditOutcome::Allowed, String::new()),
            Err(AdminError { kind, message }) => match kind {
                Failure::Internal | Failure::Unavailable => (AuditOutcome::Failed, message.clone()),
                _ => (AuditOutcome::Refused, message.clone()),
            },
        };
        record(audit, uid, (action, target), outcome, why);
    }
    result
}

/// Records a caller that may not use the admin API, with its Unix user id.
pub fn turned_away(api: &dyn AdminApi, uid: u32) {
    if let Some(audit) = api.audit() {
        let why = "the admin socket is for root and for the user of the server".to_owned();
        let what = ("admin:connect", String::new());
        record(audit, uid, what, AuditOutcome::Refused, why);
    }
}

/// Records an action that a command did without a server, with the user of this process.
pub fn done_here(
    audit: &AuditLog,
    action: &'static str,
    target: String,
    result: &std::result::Result<String, String>,
) {
    let (outcome, why) = match result {
        Ok(what) => (AuditOutcome::Allowed, what.clone()),
        Err(why) => (AuditOutcome::Failed, why.clone()),
    };
    let uid = rustix::process::getuid().as_raw();
    record(audit, uid, (action, target), outcome, why);
}

fn record(
    audit: &AuditLog,
    uid: u32,
    (action, target): (&'static str, String),
    outcome: AuditOutcome,
    why: String,
) {
    let system = Caller::system();
    audit.record(AuditRecord {
        event: AuditEvent::Admin,
        outcome,
        who: format!("uid {uid}"),
        why,
        ..AuditRecord::of(&system, action, target)
    });
}
