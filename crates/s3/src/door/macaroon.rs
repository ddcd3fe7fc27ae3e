//! Requests for macaroons.

use std::sync::Arc;

use dewar_auth::Origin;
use dewar_http_front::limits::MACAROON_REQUEST_BYTES_MAX;
use dewar_http_front::macaroon::MacaroonEndpoint;
use dewar_http_front::{
    Answer, BudgetHolder, RequestError, RequestSummary, WireBody, base_url, host_of,
};
use dewar_sigv4::Query;
use http::request::Parts;

use super::address::Address;
use super::{Door, WireFacts, count_connection, no_room};
use crate::error::Result;
use crate::payload::{BodyHead, PayloadMode, RequestBody};

/// Answers such a request.
///
/// # Errors
/// Those of the credential; errors in the request.
pub(super) async fn call(
    door: &Door,
    call: MacaroonEndpoint,
    head: Parts,
    wire: &mut Option<WireBody>,
    query: &Query,
    origin: Origin,
    told: &mut RequestSummary,
) -> Result<Answer> {
    told.verb = Some("Macaroon");
    let host = host_of(&head).unwrap_or_default();
    let here = base_url(&head, origin.secure).unwrap_or_default();
    if let Some(answer) = call.answer_at_once(&head, &here) {
        return Ok(answer);
    }
    let (caller, payload, chunks) = door.who(&head, query, None, origin).await?;
    told.user = caller.user().map(|user| user.name.clone());
    count_connection(&head, &caller)?;
    let mode = PayloadMode::parse(payload.as_deref())?;
    let body_head = BodyHead::read(&head.headers)?;
    let wire = wire
        .take()
        .ok_or(RequestError::Macaroon("the body is gone"))?;
    let mut body = RequestBody::new(wire, mode, body_head, chunks)?;
    let room = door
        .documents
        .room(BudgetHolder::of(&caller), MACAROON_REQUEST_BYTES_MAX);
    let _room = room.ok_or_else(no_room)?;
    let bytes = body.collect(MACAROON_REQUEST_BYTES_MAX).await?;
    let path = match call {
        MacaroonEndpoint::Path => caveat_path(&head)?,
        _ => None,
    };
    let mut request = call.parse(path, &bytes)?;
    request.location = host;
    let now = door.env.clock.now();
    let caller = caller.with_facts(WireFacts::of(&Arc::new(head), None, now, door.region()));
    let (token, ends) = door.store.accounts().macaroon(&caller, request).await?;
    let seconds = ends.secs().saturating_sub(now.secs());
    Ok(call.granted(token.reveal(), seconds))
}

/// The path of a request as a caveat names it.
fn caveat_path(head: &Parts) -> Result<Option<String>> {
    let address = Address::parse(head, None)?;
    let Some(bucket) = address.bucket() else {
        return Ok(None);
    };
    if bucket.tenant.is_some() {
        let words = "macaroons are for paths of one's own tenant";
        return Err(RequestError::Macaroon(words).into());
    }
    let key = address.key().map_or("", |key| key.as_str());
    Ok(Some(format!("/{}/{key}", bucket.name)))
}
