//! Telling the audit log of signatures that are not taken.

use dewar_auth::Origin;
use dewar_sigv4::Query;
use dewar_store::Store;
use http::header::AUTHORIZATION;
use http::request::Parts;

use crate::error::Refusal;

/// Longest access key that is recorded.
const ID_CHARS_MAX: usize = 128;

/// Records a request whose signature was refused. Failures of the server itself are not recorded.
pub(crate) fn audit_failed_auth(
    store: &Store,
    origin: Origin,
    named: Option<String>,
    refusal: &Refusal,
) {
    if refusal.code().status().is_server_error() {
        return;
    }
    let named = named.map(|id| format!("key:{id}"));
    let why = refusal.code().as_str();
    store
        .authorizer()
        .record_refused_login(origin, "signature", named.as_deref(), why);
}

/// The access key that a request claims: public, and not proven.
pub(crate) fn claimed_key(head: &Parts, query: &Query) -> Option<String> {
    let header = head.headers.get(AUTHORIZATION);
    let header = header.and_then(|value| value.to_str().ok());
    let in_header = header.and_then(|text| match text.split_once("Credential=") {
        Some((_, rest)) => rest.split('/').next(),
        None => text.strip_prefix("AWS ")?.split(':').next(),
    });
    let in_query = || {
        let credential = query.get("X-Amz-Credential");
        let id = credential.and_then(|text| text.split('/').next());
        id.or(query.get("AWSAccessKeyId"))
    };
    let id = in_header.or_else(in_query)?;
    let shown = id.chars().filter(|c| c.is_ascii_graphic());
    Some(shown.take(ID_CHARS_MAX).collect())
}
