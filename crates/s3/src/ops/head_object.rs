//! HeadObject.

use dewar_http_front::{Answer, empty_answer};

use super::get_object::{PartialRead, explain, head, read_request};
use crate::door::{Door, RequestContext};
use crate::error::Result;

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let request = read_request(context)?;
    let partial = PartialRead::of(&request);
    let (info, range) = match door.store.head(&context.caller, request).await {
        Ok(found) => found,
        Err(error) => return Err(explain(door, context, error).await),
    };
    let (status, headers) = head(context, &info, range, &partial)?;
    let mut answer = empty_answer(status);
    *answer.headers_mut() = headers;
    Ok(answer)
}
