//! Sub-resources that clients request by default and that Dewar does not store. Each is answered as
//! S3 answers for a bucket or object on which they were never set.

use dewar_http_front::Answer;
use http::StatusCode;

use crate::door::{Configuration, Door, RequestContext, text_answer};
use crate::error::{Refusal, Result};

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
const XMLNS: &str = "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";

/// Of a bucket, which must exist.
pub(super) async fn bucket(
    door: &Door,
    context: &RequestContext,
    what: Configuration,
) -> Result<Answer> {
    door.store
        .head_bucket(&context.caller, &context.bucket()?)
        .await?;
    unset(what)
}

fn unset(what: Configuration) -> Result<Answer> {
    let name = match what {
        Configuration::None(code, words) => return Err(Refusal::new(code, words)),
        Configuration::Unset(name) => name,
    };
    let xml = format!("{HEAD}<{name} {XMLNS}></{name}>");
    Ok(text_answer(StatusCode::OK, xml))
}
