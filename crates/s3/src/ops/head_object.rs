//! HeadObject.

use super::get_object::{Partial, explain, head, read_request};
use crate::door::{Answer, Door, Exchange, empty_answer};
use crate::error::Result;

pub(super) async fn call(door: &Door, exchange: &Exchange) -> Result<Answer> {
    let request = read_request(exchange)?;
    let partial = Partial::of(&request);
    let (info, range) = match door.store.head(&exchange.caller, request).await {
        Ok(found) => found,
        Err(error) => return Err(explain(door, exchange, error).await),
    };
    let (status, headers) = head(exchange, &info, range, &partial)?;
    let mut answer = empty_answer(status);
    *answer.headers_mut() = headers;
    Ok(answer)
}
