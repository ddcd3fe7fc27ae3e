//! AbortMultipartUpload.

use dewar_http_front::{Answer, empty_answer};
use http::StatusCode;

use super::document_fields::upload_id;
use crate::door::{Door, RequestContext};
use crate::error::Result;

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let upload = upload_id(context)?;
    door.store
        .abort_upload(&context.caller, context.object()?, upload)
        .await?;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}
