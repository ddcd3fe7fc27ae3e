//! DeleteObject.

use dewar_store::api::DeleteRequest;
use http::StatusCode;

use crate::door::{Answer, Door, Exchange, empty_answer};
use crate::error::Result;
use crate::wire::delete_condition;

pub(super) async fn call(door: &Door, exchange: &Exchange) -> Result<Answer> {
    let request = DeleteRequest {
        object: exchange.object()?,
        condition: delete_condition(exchange.headers())?,
    };
    door.store.delete(&exchange.caller, request).await?;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}
