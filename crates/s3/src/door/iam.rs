//! Calls of the IAM API and of STS, which are forms sent to the same address.
//!
//! Their clients sign the body but do not send its digest, so the body is read first. Its length is
//! limited, and it counts in the memory limit of documents.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use dewar_auth::{Caller, CredentialStore as _, Origin};
use dewar_http_front::{Answer, BudgetHolder, RequestSummary, WireBody, bearer_token};
use dewar_sigv4::{Query, hex};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method};

use super::{Door, WireFacts, audit_failed_auth, claimed_key, count_connection, no_room};
use crate::error::Result;
use crate::limits::IAM_BODY_BYTES_MAX;
use crate::ops;
use crate::payload::{BodyHead, PayloadMode, RequestBody};
use crate::sigv4::{CONTENT_SHA256, SignatureCheck};

/// Whether a request is one.
pub(super) fn is_call(head: &Parts, in_host: Option<&str>) -> bool {
    let form = head.headers.get(CONTENT_TYPE).is_some_and(|kind| {
        let kind = kind.as_bytes();
        kind.get(..33)
            .is_some_and(|start| start.eq_ignore_ascii_case(b"application/x-www-form-urlencoded"))
    });
    form && head.method == Method::POST
        && head.uri.path() == "/"
        && head.uri.query().is_none()
        && in_host.is_none()
}

/// Verifies and answers a call.
///
/// # Errors
/// Those of the signature, and of a body that is too long.
pub(super) async fn call(
    door: &Door,
    mut head: Parts,
    wire: WireBody,
    origin: Origin,
    id: &str,
    told: &mut RequestSummary,
) -> Result<Answer> {
    // Who asks is known only when the form is here, which is part of what is signed.
    let body_head = BodyHead::read(&head.headers)?;
    let announced = body_head.content_length.map(usize::try_from);
    let most = announced.and_then(Result::ok).unwrap_or(usize::MAX);
    let room = most.min(IAM_BODY_BYTES_MAX);
    let room = door.documents.room(BudgetHolder::at(origin), room);
    let _room = room.ok_or_else(no_room)?;
    let mut body = RequestBody::new(wire, PayloadMode::Unsigned, body_head, None)?;
    let bytes = body.collect(IAM_BODY_BYTES_MAX).await?;
    if let Ok(value) = HeaderValue::from_str(&hex(digest(&SHA256, &bytes).as_ref())) {
        head.headers.insert(CONTENT_SHA256, value);
    }
    let now = door.env.clock.now();
    let query = Query::parse(None)?;
    let authorization = head.headers.get(AUTHORIZATION);
    let signed_for = |service: &str| {
        let text = authorization.and_then(|value| value.to_str().ok());
        text.is_some_and(|text| text.contains(service))
    };
    let unsigned = authorization.is_none();
    if let Some(token) = bearer_token(&head.headers)? {
        // Who somebody is may be asked with a token alone; what gives credentials refuses it.
        let caller = door.store.accounts().bearer(token, origin).await?;
        told.user = caller.user().map(|user| user.name.clone());
        told.verb = Some("Sts");
        if let Err(refusal) = count_connection(&head, &caller) {
            return Ok(ops::iam_refused(&refusal, id));
        }
        let caller = caller.with_facts(WireFacts::of(&Arc::new(head), None, now, door.region()));
        return Ok(ops::sts(&door.store, &caller, &bytes, id).await);
    }
    let sts = signed_for("/sts/aws4_request") || (unsigned && ops::is_unsigned_call(&bytes));
    let verifier = if sts {
        &door.sts_verifier
    } else {
        &door.iam_verifier
    };
    let caller = match verifier.verify(&head, &query, None, now).await {
        Ok(SignatureCheck::Signed(signed)) => Caller::by_access_key(&signed.key, origin),
        Ok(SignatureCheck::Anonymous) => Caller::anonymous(origin),
        Err(refusal) => {
            let named = claimed_key(&head, &query);
            audit_failed_auth(&door.store, origin, named, &refusal);
            return Ok(ops::iam_refused(&refusal, id));
        }
    };
    told.user = caller.user().map(|user| user.name.clone());
    told.verb = Some(if sts { "Sts" } else { "Iam" });
    if let Err(refusal) = count_connection(&head, &caller) {
        return Ok(ops::iam_refused(&refusal, id));
    }
    let caller = caller.with_facts(WireFacts::of(&Arc::new(head), None, now, door.region()));
    if sts {
        return Ok(ops::sts(&door.store, &caller, &bytes, id).await);
    }
    Ok(ops::iam(&door.store, &caller, &bytes, id).await)
}
