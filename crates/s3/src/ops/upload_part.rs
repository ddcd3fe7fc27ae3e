//! UploadPart.

use dewar_store::api::UploadPartRequest;
use http::StatusCode;
use http::header::ETAG;

use super::shown::upload_id;
use crate::door::{Answer, Door, Exchange, empty_answer};
use crate::error::{Code, Refusal, Result};
use crate::limits::PART_NUMBER_MAX;
use crate::wire::{
    Declared, customer_key, encryption_headers, quoted, refuse_unsupported, value_of,
};

pub(super) async fn call(door: &Door, exchange: &mut Exchange) -> Result<Answer> {
    exchange.need_length()?;
    refuse_unsupported(exchange.headers())?;
    let declared = Declared::read(exchange.headers())?;
    let length = exchange
        .body
        .as_ref()
        .and_then(crate::payload::RequestBody::length);
    let request = UploadPartRequest {
        object: exchange.object()?,
        upload: upload_id(exchange)?,
        number: part_number(exchange)?,
        size: length,
        want: declared.want(),
        checksum: declared.algorithm,
        customer_key: customer_key(exchange)?,
    };
    let mut upload = door.store.upload_part(&exchange.caller, request).await?;
    let mut body = exchange.take_body()?;
    while let Some(bytes) = body.next().await? {
        upload.write(bytes).await?;
    }
    let expect = declared.expect(body.received(), body.trailers())?;
    let part = upload.commit(expect).await?;
    let mut answer = empty_answer(StatusCode::OK);
    let headers = answer.headers_mut();
    headers.insert(ETAG, quoted(&part.etag));
    encryption_headers(headers, part.encrypted, exchange.headers());
    if let Some(digest) = part.checksum
        && let Some(name) = digest.algorithm().s3_header()
    {
        headers.insert(name, value_of(&digest.base64()));
    }
    Ok(answer)
}

/// The part's number.
pub(super) fn part_number(exchange: &Exchange) -> Result<u32> {
    let number = exchange.number("partNumber", 1..=PART_NUMBER_MAX)?;
    number.ok_or_else(|| Refusal::new(Code::InvalidArgument, "partNumber is missing"))
}
