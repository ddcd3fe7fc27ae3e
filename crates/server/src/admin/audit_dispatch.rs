//! Running a request, and recording it with the caller in the audit log.
//!
//! Requests contain secrets (keys, tokens), so only the fields listed here are recorded.

use dewar_auth::{AuditEvent, AuditOutcome, AuditRecord, AuditSink as _, Caller};

use super::api::{AdminApi, AdminError, Failure, Reply, Request, Result, dispatch};
use super::federation::{FederationRequest, RevokeRequest};
use super::identity::{HolderName, IdentityRequest};
use super::key_file::KeyFileRequest;
use super::quota::QuotaRequest;
use super::share::ShareRequest;
use crate::audit::AuditLog;

/// The audit name of a request, its target, and whether it only reads.
pub(super) struct AuditEntry {
    pub(super) action: &'static str,
    pub(super) target: String,
    pub(super) looks: bool,
}

fn changes(action: &'static str, target: impl Into<String>) -> AuditEntry {
    AuditEntry {
        action,
        target: target.into(),
        looks: false,
    }
}

fn looks(action: &'static str, target: impl Into<String>) -> AuditEntry {
    AuditEntry {
        looks: true,
        ..changes(action, target)
    }
}

/// Runs a request for the caller with this Unix user id.
///
/// # Errors
/// As [`dispatch`].
pub async fn carry_out(api: &dyn AdminApi, request: Request, uid: u32) -> Result<Reply> {
    let told = told(&request);
    let result = dispatch(api, request).await;
    if let Some(audit) = api.audit().filter(|log| !told.looks || log.keeps_reads()) {
        let (outcome, why) = match &result {
            Ok(_) => (AuditOutcome::Allowed, String::new()),
            Err(AdminError { kind, message }) => match kind {
                Failure::Internal | Failure::Unavailable => (AuditOutcome::Failed, message.clone()),
                _ => (AuditOutcome::Refused, message.clone()),
            },
        };
        record(audit, uid, told, outcome, why);
    }
    result
}

/// Records a caller who was refused.
pub(super) fn turned_away(api: &dyn AdminApi, uid: u32) {
    if let Some(audit) = api.audit() {
        let why = "the admin socket is for root and for who runs the server".to_owned();
        let told = changes("admin:connect", "");
        record(audit, uid, told, AuditOutcome::Refused, why);
    }
}

/// Records an action that a command did without a server, with the user of this process.
pub(crate) fn done_here(
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
    record(audit, uid, changes(action, target), outcome, why);
}

fn record(audit: &AuditLog, uid: u32, told: AuditEntry, outcome: AuditOutcome, why: String) {
    let system = Caller::system();
    audit.record(AuditRecord {
        event: AuditEvent::Admin,
        outcome,
        who: format!("uid {uid}"),
        why,
        ..AuditRecord::of(&system, told.action, told.target)
    });
}

pub(super) fn told(request: &Request) -> AuditEntry {
    match request {
        Request::Status {} => looks("admin:status", ""),
        Request::DiskList {} => looks("admin:disk-list", ""),
        Request::DiskDecide { disk, action, .. } => {
            changes("admin:disk-decide", format!("{disk}: {action:?}"))
        }
        Request::DiskAdd { folder, .. } => changes("admin:disk-add", folder),
        Request::DiskRemove { disk } => changes("admin:disk-remove", disk),
        Request::DiskReadmit { disk } => changes("admin:disk-readmit", disk),
        Request::Scrub { disk } => changes("admin:scrub", disk.clone().unwrap_or_default()),
        Request::FsckStart { .. } => changes("admin:fsck", ""),
        Request::Fsck {} => looks("admin:fsck-status", ""),
        Request::FsckMore { .. } => looks("admin:fsck-status", ""),
        Request::ScrubStatus {} => looks("admin:scrub-status", ""),
        Request::Identity(request) => identity(request),
        Request::Federation(request) => federation(request),
        Request::Quota(request) => match request {
            QuotaRequest::List {} => looks("admin:quota-list", ""),
            QuotaRequest::Show { target } => looks("admin:quota-show", target),
            QuotaRequest::Set { target, .. } => changes("admin:quota-set", target),
        },
        Request::Share(request) => match request {
            ShareRequest::Add { path, .. } => changes("admin:share-add", path),
            ShareRequest::List {} => looks("admin:share-list", ""),
            ShareRequest::Revoke { id } => changes("admin:share-revoke", id),
        },
        Request::KeyFile(request) => match request {
            KeyFileRequest::List {} => looks("admin:key-file-list", ""),
            KeyFileRequest::Rotate {} => changes("admin:key-file-rotate", ""),
            KeyFileRequest::Retire { id, .. } => changes("admin:key-file-retire", id),
            KeyFileRequest::Export { recipients } => {
                changes("admin:key-file-export", recipients.join(" "))
            }
        },
        Request::BackupStart { target, .. } => changes("admin:backup", target),
        Request::Backup {} => looks("admin:backup-status", ""),
        Request::UserAdd(user) => changes("admin:user-add", &user.name),
        Request::UserList { .. } => looks("admin:user-list", ""),
        Request::UserRemove { name } => changes("admin:user-remove", name),
        Request::UserSet { name, state } => changes("admin:user-set", format!("{name}: {state:?}")),
        Request::KeyAdd(key) => {
            let id = key.access_key.as_deref().unwrap_or("a new key");
            changes("admin:key-add", format!("{id} of {}", key.user))
        }
        Request::KeyList { .. } => looks("admin:key-list", ""),
        Request::KeyRemove { access_key } => changes("admin:key-remove", access_key),
        Request::KeySet { access_key, state } => {
            changes("admin:key-set", format!("{access_key}: {state:?}"))
        }
    }
}

fn holder(holder: &HolderName) -> String {
    match holder {
        HolderName::User(name) => format!("user {name}"),
        HolderName::Group(name) => format!("group {name}"),
        HolderName::Role(name) => format!("role {name}"),
    }
}

fn identity(request: &IdentityRequest) -> AuditEntry {
    use IdentityRequest as R;
    match request {
        R::PolicyPut {
            holder: of, policy, ..
        } => changes("admin:policy-put", format!("{policy} of {}", holder(of))),
        R::PolicyRemove { holder: of, policy } => {
            changes("admin:policy-remove", format!("{policy} of {}", holder(of)))
        }
        R::PolicyList { holder: of } => looks("admin:policy-list", holder(of)),
        R::Explain { action, path, .. } => {
            looks("admin:policy-explain", format!("{action} {path}"))
        }
        R::GroupAdd { name } => changes("admin:group-add", name),
        R::GroupRemove { name } => changes("admin:group-remove", name),
        R::GroupList { .. } => looks("admin:group-list", ""),
        R::GroupOwn { path, group } => {
            let group = group.as_deref().unwrap_or("nobody");
            changes("admin:group-own", format!("{path}: {group}"))
        }
        R::GroupOf { path } => looks("admin:group-of", path),
        R::GroupMember {
            group,
            user,
            member,
        } => {
            let action = if *member {
                "admin:group-join"
            } else {
                "admin:group-leave"
            };
            changes(action, format!("{user} and group {group}"))
        }
    }
}

fn federation(request: &FederationRequest) -> AuditEntry {
    use FederationRequest as R;
    match request {
        R::IssuerAdd(issuer) => changes("admin:issuer-add", &issuer.url),
        R::IssuerList {} => looks("admin:issuer-list", ""),
        R::IssuerRemove { url } => changes("admin:issuer-remove", url),
        R::IssuerSet { url, disabled } => {
            let action = if *disabled {
                "admin:issuer-disable"
            } else {
                "admin:issuer-enable"
            };
            changes(action, url)
        }
        R::TokenTest { .. } => looks("admin:issuer-test", ""),
        R::RoleAdd(role) => changes("admin:role-add", &role.name),
        R::RoleList { .. } => looks("admin:role-list", ""),
        R::RoleRemove { name } => changes("admin:role-remove", name),
        R::Revoke(what) => {
            let what = match what {
                RevokeRequest::Session(key) => format!("session {key}"),
                RevokeRequest::User(name) => format!("user {name}"),
                RevokeRequest::Role(name) => format!("role {name}"),
                RevokeRequest::Issuer(url) => format!("issuer {url}"),
            };
            changes("admin:session-revoke", what)
        }
    }
}
