//! Requests for macaroons, in both forms that clients use: a POST of `application/macaroon-request`
//! to the path of the macaroon, and a token request at the endpoint in the metadata.

use std::sync::Arc;

use dewar_auth::Origin;
use dewar_iam::MacaroonRequest;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use serde_json::json;

use super::address::Address;
use super::document_budget::{BudgetHolder, no_room};
use super::{Answer, Door, RequestSummary, WireFacts, full_answer, host_of, text_answer};
use crate::error::{Code, Refusal, Result};
use crate::ops::Form;
use crate::payload::{BodyHead, PayloadMode, RequestBody, WireBody};
use crate::sigv4::Query;

/// Longest request.
const BODY_BYTES_MAX: usize = 4096;
const METADATA: &str = "/.well-known/oauth-authorization-server";
const TOKEN: &str = "/.oauth2/token";

/// The request about macaroons.
pub(super) enum MacaroonEndpoint {
    /// The metadata with the address of the token endpoint.
    Metadata,
    /// A token.
    Token,
    /// A macaroon for the path.
    Path,
}

fn is_kind(head: &Parts, kind: &str) -> bool {
    let found = head
        .headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let bare = found.and_then(|text| text.split(';').next());
    bare.is_some_and(|bare| bare.trim().eq_ignore_ascii_case(kind))
}

/// Whether a request is one.
pub(super) fn is_call(head: &Parts) -> Option<MacaroonEndpoint> {
    match (&head.method, head.uri.path()) {
        (&Method::GET, METADATA) => Some(MacaroonEndpoint::Metadata),
        (&Method::POST, TOKEN) => Some(MacaroonEndpoint::Token),
        (&Method::POST, _) if is_kind(head, "application/macaroon-request") => {
            Some(MacaroonEndpoint::Path)
        }
        _ => None,
    }
}

fn malformed(words: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidArgument, words.into())
}

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
    let scheme = if origin.secure { "https" } else { "http" };
    let authority = head.headers.get(http::header::HOST);
    let authority = authority
        .and_then(|value| value.to_str().ok())
        .unwrap_or(&host);
    let here = format!("{scheme}://{authority}");
    if matches!(call, MacaroonEndpoint::Metadata) {
        let metadata = json!({
            "issuer": here,
            "token_endpoint": format!("{here}{TOKEN}"),
            "grant_types_supported": ["client_credentials"],
        });
        return Ok(json_answer(&metadata));
    }
    if matches!(call, MacaroonEndpoint::Token)
        && !is_kind(&head, "application/x-www-form-urlencoded")
    {
        let words = "tokens are asked for with application/x-www-form-urlencoded\n".to_owned();
        return Ok(text_answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
    }
    let (caller, payload, seed) = door.who(&head, query, None, origin).await?;
    told.user = caller.user().map(|user| user.name.clone());
    let mode = PayloadMode::parse(payload.as_deref())?;
    let body_head = BodyHead::read(&head.headers)?;
    let wire = wire.take().ok_or_else(|| malformed("the body is gone"))?;
    let mut body = RequestBody::new(wire, mode, body_head, seed)?;
    let room = door
        .documents
        .room(BudgetHolder::of(&caller), BODY_BYTES_MAX);
    let _room = room.ok_or_else(no_room)?;
    let bytes = body.collect(BODY_BYTES_MAX).await?;
    let mut wish = match call {
        MacaroonEndpoint::Token => of_form(&bytes)?,
        MacaroonEndpoint::Path | MacaroonEndpoint::Metadata => of_path(&head, &bytes)?,
    };
    wish.location = host;
    let oauth = matches!(call, MacaroonEndpoint::Token);
    let now = door.env.clock.now();
    let caller = caller.with_facts(WireFacts::of(&Arc::new(head), None, now, door.region()));
    let (token, ends) = door.store.accounts().macaroon(&caller, wish).await?;
    let lasts = ends.secs().saturating_sub(now.secs());
    let told = if oauth {
        json!({"access_token": token.reveal(), "token_type": "bearer", "expires_in": lasts})
    } else {
        json!({"macaroon": token.reveal(), "expires_in": lasts})
    };
    Ok(json_answer(&told))
}

fn json_answer(value: &serde_json::Value) -> Answer {
    let mut answer = full_answer(value.to_string().into());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // It is a secret: RFC 6749 section 5.1.
    let store = HeaderValue::from_static("no-store");
    headers.insert(http::header::CACHE_CONTROL, store);
    answer
}

/// `{"caveats": ["activity:DOWNLOAD,LIST"], "validity": "PT60M"}`, for the path of the request.
fn of_path(head: &Parts, bytes: &[u8]) -> Result<MacaroonRequest> {
    let body: serde_json::Value = match bytes {
        [] => json!({}),
        _ => serde_json::from_slice(bytes).map_err(|_| malformed("the request is no JSON"))?,
    };
    let mut caveats = Vec::new();
    let address = Address::parse(head, None)?;
    if let Some(bucket) = address.bucket() {
        if bucket.tenant.is_some() {
            return Err(malformed("macaroons are for paths of one's own tenant"));
        }
        let key = address.key().map_or("", |key| key.as_str());
        caveats.push(format!("path:/{}/{key}", bucket.name));
    }
    match body.get("caveats") {
        None | Some(serde_json::Value::Null) => {}
        Some(given) => {
            let given = given
                .as_array()
                .ok_or_else(|| malformed("caveats is a list"))?;
            for caveat in given {
                let caveat = caveat
                    .as_str()
                    .ok_or_else(|| malformed("a caveat is a text"))?;
                caveats.push(caveat.to_owned());
            }
        }
    }
    let validity = match body.get("validity") {
        None | Some(serde_json::Value::Null) => None,
        Some(text) => {
            let seconds = text.as_str().and_then(duration);
            Some(seconds.ok_or_else(|| malformed("validity is an ISO 8601 duration, as PT60M"))?)
        }
    };
    Ok(MacaroonRequest {
        caveats,
        seconds: validity,
        ..MacaroonRequest::default()
    })
}

/// `grant_type=client_credentials&expire_in=3600&scope=DOWNLOAD:/path LIST:/path`.
fn of_form(bytes: &[u8]) -> Result<MacaroonRequest> {
    let form = Form::read(bytes).map_err(|_| malformed("the form cannot be read"))?;
    if form.get("grant_type") != Some("client_credentials") {
        return Err(malformed("grant_type is client_credentials"));
    }
    let scope = form.get("scope").or(form.get("scopes")).unwrap_or_default();
    let mut path: Option<&str> = None;
    let mut activities = Vec::new();
    for word in scope.split_ascii_whitespace() {
        let (activity, of) = word
            .split_once(':')
            .ok_or_else(|| malformed("a scope is ACTIVITY:/PATH"))?;
        if path.is_some_and(|path| path != of) {
            return Err(malformed("all scopes of a macaroon are for one path"));
        }
        path = Some(of);
        activities.push(activity);
    }
    let path = path.ok_or_else(|| malformed("there is no scope"))?;
    let seconds = form.get("expire_in").map(str::parse).transpose();
    Ok(MacaroonRequest {
        caveats: vec![
            format!("path:{path}"),
            format!("activity:{}", activities.join(",")),
        ],
        seconds: seconds.map_err(|_| malformed("expire_in is a number of seconds"))?,
        ..MacaroonRequest::default()
    })
}

/// Seconds of a duration (ISO 8601). Months and years are not supported.
fn duration(text: &str) -> Option<u64> {
    let rest = text.strip_prefix('P')?;
    let (days, time) = rest.split_once('T').unwrap_or((rest, ""));
    if rest.is_empty() || rest.ends_with('T') {
        return None;
    }
    let mut total: u64 = 0;
    for (mut part, units) in [
        (days, &[('D', 86_400)][..]),
        (time, &[('H', 3600), ('M', 60), ('S', 1)][..]),
    ] {
        let mut units = units.iter();
        while !part.is_empty() {
            let at = part.find(|c: char| !c.is_ascii_digit())?;
            let number: u64 = part[..at].parse().ok()?;
            let letter = part[at..].chars().next()?;
            let (_, seconds) = units.find(|(unit, _)| *unit == letter)?;
            total = total.checked_add(number.checked_mul(*seconds)?)?;
            part = &part[at + 1..];
        }
    }
    (total > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_clients_write_them() {
        assert_eq!(duration("PT60M"), Some(3600));
        assert_eq!(duration("PT1H30M5S"), Some(5405));
        assert_eq!(duration("P1D"), Some(86_400));
        assert_eq!(duration("P1DT1S"), Some(86_401));
        for wrong in [
            "", "P", "PT", "60", "PT60", "PT5S1M", "P1M", "PT0S", "PTM", "PT1H1H",
        ] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn scopes_become_caveats() {
        let read = |text: &str| of_form(text.as_bytes());
        let wish = read(
            "grant_type=client_credentials&expire_in=120&scopes=LIST%3A%2Fa%20DOWNLOAD%3A%2Fa",
        );
        let wish = wish.expect("a wish");
        assert_eq!(wish.caveats, ["path:/a", "activity:LIST,DOWNLOAD"]);
        assert_eq!(wish.seconds, Some(120));
        for wrong in [
            "grant_type=password&scope=LIST:/a",
            "grant_type=client_credentials",
            "grant_type=client_credentials&scope=LIST",
            "grant_type=client_credentials&scope=LIST:/a DOWNLOAD:/b",
            "grant_type=client_credentials&scope=LIST:/a&expire_in=soon",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
