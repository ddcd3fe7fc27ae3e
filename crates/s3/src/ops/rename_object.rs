//! RenameObject: a name changes, no byte moves.

use dewar_store::api::{ObjectRef, RenameRequest};
use http::StatusCode;

use crate::door::{Answer, Door, RequestContext, empty_answer};
use crate::error::{Code, Refusal, Result};
use crate::wire::{header, rename_condition, rename_source};

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
        source_condition: rename_condition(headers, "x-amz-rename-source-")?,
        target: key,
        condition: rename_condition(headers, "")?,
    };
    door.store.rename(&context.caller, request).await?;
    Ok(empty_answer(StatusCode::OK))
}
