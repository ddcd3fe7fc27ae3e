//! Requests for macaroons, in both forms that clients use: a POST of `application/macaroon-request`
//! to the path of the macaroon, and a token request at the endpoint in the metadata.

use dewar_iam::MacaroonRequest;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use crate::{Answer, RequestError, Result, UrlEncodedForm, typed_answer};

const METADATA: &str = "/.well-known/oauth-authorization-server";
const TOKEN: &str = "/.oauth2/token";

/// The request about macaroons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacaroonEndpoint {
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

impl MacaroonEndpoint {
    /// The endpoint that a request is for; `None` for another request.
    #[must_use]
    pub fn of(head: &Parts) -> Option<Self> {
        match (&head.method, head.uri.path()) {
            (&Method::GET, METADATA) => Some(Self::Metadata),
            (&Method::POST, TOKEN) => Some(Self::Token),
            (&Method::POST, _) if is_kind(head, "application/macaroon-request") => Some(Self::Path),
            _ => None,
        }
    }

    /// The answer that needs neither a caller nor a body: the metadata of the server at `here`, or
    /// the refusal of a token request that is no form.
    #[must_use]
    pub fn answer_at_once(self, head: &Parts, here: &str) -> Option<Answer> {
        match self {
            Self::Metadata => Some(json_answer(&json!({
                "issuer": here,
                "token_endpoint": format!("{here}{TOKEN}"),
                "grant_types_supported": ["client_credentials"],
            }))),
            Self::Token if !is_kind(head, "application/x-www-form-urlencoded") => {
                let words = "tokens are asked for with application/x-www-form-urlencoded\n";
                let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
                Some(typed_answer(status, "application/xml", words))
            }
            Self::Token | Self::Path => None,
        }
    }

    /// Parses the body of a request. `path` is the path of the request as a caveat names it, such as
    /// `/BUCKET/KEY`. A token request names its path itself.
    ///
    /// # Errors
    /// [`RequestError::Macaroon`].
    pub fn parse(self, path: Option<String>, bytes: &[u8]) -> Result<MacaroonRequest> {
        match self {
            Self::Token => of_form(bytes),
            Self::Path | Self::Metadata => of_path(path, bytes),
        }
    }

    /// The answer with a macaroon that is valid for some seconds.
    #[must_use]
    pub fn granted(self, token: &str, seconds: u64) -> Answer {
        json_answer(&match self {
            Self::Token => {
                json!({"access_token": token, "token_type": "bearer", "expires_in": seconds})
            }
            Self::Path | Self::Metadata => json!({"macaroon": token, "expires_in": seconds}),
        })
    }
}

fn malformed(words: &'static str) -> RequestError {
    RequestError::Macaroon(words)
}

fn json_answer(value: &Value) -> Answer {
    let mut answer = typed_answer(StatusCode::OK, "application/json", value.to_string());
    // It is a secret: RFC 6749 section 5.1.
    let store = HeaderValue::from_static("no-store");
    answer.headers_mut().insert(CACHE_CONTROL, store);
    answer
}

/// `{"caveats": ["activity:DOWNLOAD,LIST"], "validity": "PT60M"}`, for the path of the request.
fn of_path(path: Option<String>, bytes: &[u8]) -> Result<MacaroonRequest> {
    let body: Value = match bytes {
        [] => json!({}),
        _ => serde_json::from_slice(bytes).map_err(|_| malformed("the request is no JSON"))?,
    };
    let path = path.map(|path| format!("path:{path}"));
    let mut caveats: Vec<String> = path.into_iter().collect();
    match body.get("caveats") {
        None | Some(Value::Null) => {}
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
        None | Some(Value::Null) => None,
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
    let form = UrlEncodedForm::parse(bytes);
    let form = form.ok_or_else(|| malformed("the form cannot be read"))?;
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
        let wish = wish.expect("a request");
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
