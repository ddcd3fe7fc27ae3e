//! UploadPart.

use dewar_http_front::{Answer, empty_answer, quoted, value_of};
use dewar_store::api::UploadPartRequest;
use http::StatusCode;
use http::header::ETAG;

use super::document_fields::upload_id;
use crate::door::{Door, RequestContext};
use crate::error::{Code, Refusal, Result};
use crate::limits::PART_NUMBER_MAX;
use crate::wire::{DeclaredDigests, customer_key, encryption_headers, refuse_unsupported};

pub(super) async fn call(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    context.need_length()?;
    refuse_unsupported(context.headers())?;
    let declared = DeclaredDigests::read(context.headers())?;
    let length = context
        .body
        .as_ref()
        .and_then(crate::payload::RequestBody::length);
    let request = UploadPartRequest {
        object: context.object()?,
        upload: upload_id(context)?,
        number: part_number(context)?,
        size: length,
        want: declared.want(),
        checksum: declared.algorithm,
        customer_key: customer_key(context)?,
    };
    let mut upload = door.store.upload_part(&context.caller, request).await?;
    let mut body = context.take_body()?;
    while let Some(bytes) = body.next().await? {
        upload.write(bytes).await?;
    }
    let expect = declared.expect(body.received(), body.trailers())?;
    let part = upload.commit(expect).await?;
    let mut answer = empty_answer(StatusCode::OK);
    let headers = answer.headers_mut();
    headers.insert(ETAG, quoted(&part.etag));
    encryption_headers(headers, part.encrypted, context.headers());
    if let Some(digest) = part.checksum
        && let Some(name) = digest.algorithm().s3_header()
    {
        headers.insert(name, value_of(&digest.base64()));
    }
    Ok(answer)
}

/// The part's number.
pub(super) fn part_number(context: &RequestContext) -> Result<u32> {
    let number = context.number("partNumber", 1..=PART_NUMBER_MAX)?;
    number.ok_or_else(|| Refusal::new(Code::InvalidArgument, "partNumber is missing"))
}
