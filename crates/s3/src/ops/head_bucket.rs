//! HeadBucket.

use http::StatusCode;

use crate::door::{Answer, Door, Exchange, empty_answer};
use crate::error::Result;
use crate::wire::value_of;

pub(super) async fn call(door: &Door, exchange: &Exchange) -> Result<Answer> {
    door.store
        .head_bucket(&exchange.caller, &exchange.bucket()?)
        .await?;
    Ok(bucket_region(door, empty_answer(StatusCode::OK)))
}

/// Says where a bucket is, as clients that look for it want to hear.
pub(super) fn bucket_region(door: &Door, mut answer: Answer) -> Answer {
    let region = value_of(door.region());
    answer.headers_mut().insert("x-amz-bucket-region", region);
    answer
}
