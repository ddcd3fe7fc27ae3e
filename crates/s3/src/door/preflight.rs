//! The preflight requests of browsers.

use dewar_http_front::{Answer, CorsRequest, empty_answer, header};
use dewar_store::Store;
use http::StatusCode;
use http::header::ACCESS_CONTROL_REQUEST_METHOD;
use http::request::Parts;

use crate::error::{Code, Refusal, Result};

/// Answers a browser's preflight request.
///
/// # Errors
/// `BadRequest` for a malformed preflight; `AccessForbidden` for a page that is not allowed.
pub(super) async fn answer(
    store: &Store,
    head: &Parts,
    page: Option<&CorsRequest>,
) -> Result<Answer> {
    let bad = |words: &'static str| Refusal::new(Code::BadRequest, words);
    let page =
        page.ok_or_else(|| bad("Insufficient information. Origin request header needed."))?;
    let method = header(&head.headers, ACCESS_CONTROL_REQUEST_METHOD.as_str())?;
    if method.is_none() {
        return Err(bad("Invalid Access-Control-Request-Method: null"));
    }
    let rule = page.rule(store).await.ok_or_else(|| {
        let words = "CORSResponse: This CORS request is not allowed. This is usually because the \
                     evalution of Origin, request method / Access-Control-Request-Method or \
                     Access-Control-Request-Headers are not whitelisted by the resource's CORS \
                     spec.";
        Refusal::new(Code::AccessForbidden, words)
            .element("Method", page.method())
            .element("ResourceType", "OBJECT")
    })?;
    let mut answer = empty_answer(StatusCode::OK);
    page.allow(&rule, answer.headers_mut());
    Ok(answer)
}
