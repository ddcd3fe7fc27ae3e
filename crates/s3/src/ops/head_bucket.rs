//! HeadBucket.

use dewar_http_front::{Answer, empty_answer, value_of};
use dewar_store::limits::BUCKETS_PER_OWNER_MAX;
use http::{HeaderValue, StatusCode};

use crate::door::{Door, RequestContext};
use crate::error::Result;

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let bucket = context.bucket()?;
    let mut answer = empty_answer(StatusCode::OK);
    if context.query.get("read-stats") == Some("true") {
        // Ceph's parameter and headers: counting without listing.
        let usage = door.store.bucket_usage(&context.caller, &bucket).await?;
        let headers = answer.headers_mut();
        headers.insert("x-rgw-object-count", HeaderValue::from(usage.objects));
        headers.insert("x-rgw-bytes-used", HeaderValue::from(usage.bytes));
        let buckets = HeaderValue::from(BUCKETS_PER_OWNER_MAX);
        headers.insert("x-rgw-quota-max-buckets", buckets);
    } else {
        door.store.head_bucket(&context.caller, &bucket).await?;
    }
    Ok(bucket_region(door, answer))
}

/// Says where a bucket is, as clients that look for it want to hear.
pub(super) fn bucket_region(door: &Door, mut answer: Answer) -> Answer {
    let region = value_of(door.region());
    answer.headers_mut().insert("x-amz-bucket-region", region);
    answer
}
