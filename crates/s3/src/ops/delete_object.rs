//! DeleteObject.

use dewar_http_front::{Answer, empty_answer, value_of};
use dewar_store::api::DeleteRequest;
use http::{HeaderValue, StatusCode};

use crate::door::{Door, RequestContext};
use crate::error::Result;
use crate::wire::delete_condition;

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let request = DeleteRequest {
        object: context.object()?,
        version: context.version()?,
        condition: delete_condition(context.headers())?,
        bypass: context.bypasses()?,
    };
    let deleted = door.store.delete(&context.caller, request).await?;
    let mut answer = empty_answer(StatusCode::NO_CONTENT);
    let headers = answer.headers_mut();
    if let Some(name) = deleted.name {
        headers.insert("x-amz-version-id", value_of(&name.to_string()));
    }
    if deleted.marker {
        let yes = HeaderValue::from_static("true");
        headers.insert("x-amz-delete-marker", yes);
    }
    Ok(answer)
}
