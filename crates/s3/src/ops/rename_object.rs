//! RenameObject: a name changes, no byte moves.

use dewar_http_front::{Answer, empty_answer, header, write_condition_at};
use dewar_store::api::{ObjectRef, RenameRequest};
use http::StatusCode;

use crate::door::{Door, RequestContext};
use crate::error::{Code, Refusal, Result};
use crate::wire::rename_source;

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let headers = context.headers();
    let ObjectRef { bucket, key } = context.object()?;
    let source = header(headers, "x-amz-rename-source")?.ok_or_else(|| {
        Refusal::new(
            Code::InvalidRequest,
            "Missing required header for this request: x-amz-rename-source",
        )
    })?;
    let source = ObjectRef {
        key: rename_source(source, bucket.name.as_str())?,
        bucket,
    };
    let request = RenameRequest {
        source,
        source_condition: write_condition_at(headers, "x-amz-rename-source-")?,
        target: key,
        condition: write_condition_at(headers, "")?,
    };
    door.store.rename(&context.caller, request).await?;
    Ok(empty_answer(StatusCode::OK))
}
