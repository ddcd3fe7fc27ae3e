//! DeleteBucket.

use dewar_http_front::{Answer, empty_answer};
use dewar_store::api::Emptiness;
use http::StatusCode;

use crate::door::{Door, RequestContext};
use crate::error::Result;

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    door.store
        .delete_bucket(
            &context.caller,
            &context.bucket()?,
            Emptiness::DirectoriesOnly,
        )
        .await?;
    Ok(empty_answer(StatusCode::NO_CONTENT))
}
