//! RenameObject: a name changes, no byte moves.

use dewar_store::api::{ObjectRef, RenameRequest, WriteCondition};
use http::StatusCode;

use crate::door::{Answer, Door, Exchange, empty_answer};
use crate::error::{Code, Refusal, Result};
use crate::wire::{etag_condition, header, rename_source, write_condition};

pub(super) async fn call(door: &Door, exchange: &Exchange) -> Result<Answer> {
    let headers = exchange.headers();
    for name in [
        "x-amz-rename-source-if-none-match",
        "x-amz-rename-source-if-modified-since",
        "x-amz-rename-source-if-unmodified-since",
    ] {
        if headers.contains_key(name) {
            let message = format!(
                "A header you provided implies functionality that is not implemented: {name}"
            );
            return Err(Refusal::new(Code::NotImplemented, message));
        }
    }
    let ObjectRef { bucket, key } = exchange.object()?;
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
    let source_tag = header(headers, "x-amz-rename-source-if-match")?;
    let request = RenameRequest {
        source,
        source_condition: WriteCondition {
            if_match: source_tag.map(etag_condition).transpose()?,
            ..WriteCondition::default()
        },
        target: key,
        condition: write_condition(headers)?,
    };
    door.store.rename(&exchange.caller, request).await?;
    Ok(empty_answer(StatusCode::OK))
}
