//! AbortMultipartUpload.

use http::StatusCode;

use super::shown::upload_id;
use crate::door::{Answer, Door, Exchange, empty_answer};
use crate::error::Result;

pub(super) async fn call(door: &Door, exchange: &Exchange) -> Result<Answer> {
    let upload = upload_id(exchange)?;
    door.store
        .abort_upload(&exchange.caller, exchange.object()?, upload)
        .await?;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}
