//! DeleteBucket.

use dewar_store::api::Emptiness;
use http::StatusCode;

use crate::door::{Answer, Door, Exchange, empty_answer};
use crate::error::Result;

pub(super) async fn call(door: &Door, exchange: &Exchange) -> Result<Answer> {
    door.store
        .delete_bucket(
            &exchange.caller,
            &exchange.bucket()?,
            Emptiness::DirectoriesOnly,
        )
        .await?;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}
