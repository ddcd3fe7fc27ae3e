//! GetBucketLocation.

use dewar_http_front::Answer;
use s3s::dto::{BucketLocationConstraint, GetBucketLocationOutput};

use crate::door::{Door, RequestContext, xml_answer};
use crate::error::Result;

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    door.store
        .head_bucket(&context.caller, &context.bucket()?)
        .await?;
    // The first region has no constraint; clients know it by that.
    let place = Some(&**door.region()).filter(|region| *region != "us-east-1");
    xml_answer(&GetBucketLocationOutput {
        location_constraint: place.map(|region| BucketLocationConstraint::from(region.to_owned())),
    })
}
