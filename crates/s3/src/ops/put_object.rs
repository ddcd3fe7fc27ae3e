//! PutObject.

use dewar_checksum::Algorithm;
use dewar_store::api::{ObjectInfo, PutRequest};
use http::header::ETAG;
use http::{HeaderMap, StatusCode};

use crate::door::{Answer, Door, Exchange, empty_answer};
use crate::error::Result;
use crate::wire::{
    Declared, acl_of, attributes_of, checksum_headers, encryption_headers, encryption_of, marks_of,
    quoted, refuse_unsupported, version_headers, write_condition,
};

pub(super) async fn call(door: &Door, exchange: &mut Exchange) -> Result<Answer> {
    exchange.need_length()?;
    refuse_unsupported(exchange.headers())?;
    let declared = Declared::read(exchange.headers())?;
    let length = exchange
        .body
        .as_ref()
        .and_then(crate::payload::RequestBody::length);
    let object = exchange.object()?;
    let encryption = match encryption_of(exchange, exchange.headers()) {
        Ok(encryption) => encryption,
        Err(refusal) => {
            door.store.may_put(&exchange.caller, &object).await?;
            return Err(refusal);
        }
    };
    let request = PutRequest {
        object,
        size: length,
        attributes: attributes_of(exchange.headers())?,
        marks: marks_of(exchange.headers())?,
        want: declared.want(),
        // What S3 keeps when the client sends none.
        checksum: declared.algorithm.or(Some(Algorithm::Crc64Nvme)),
        condition: write_condition(exchange.headers())?,
        encryption,
        acl: acl_of(exchange.headers())?,
    };
    // The store says no before a byte of the body is read.
    let mut upload = door.store.put(&exchange.caller, request).await?;
    let mut body = exchange.take_body()?;
    while let Some(bytes) = body.next().await? {
        upload.write(bytes).await?;
    }
    let expect = declared.expect(body.received(), body.trailers())?;
    let info = upload.commit(expect).await?;
    Ok(written(&info, exchange.headers()))
}

/// The answer to a write: what it became.
pub(super) fn written(info: &ObjectInfo, asked: &HeaderMap) -> Answer {
    let mut answer = empty_answer(StatusCode::OK);
    let headers = answer.headers_mut();
    headers.insert(ETAG, quoted(&info.etag));
    checksum_headers(headers, info.checksum.as_ref());
    encryption_headers(headers, info.encrypted, asked);
    version_headers(headers, info);
    answer
}
