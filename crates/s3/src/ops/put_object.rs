//! PutObject.

use dewar_checksum::Algorithm;
use dewar_http_front::{Answer, empty_answer, quoted, write_condition};
use dewar_store::api::{ObjectInfo, WriteRequest};
use http::header::ETAG;
use http::{HeaderMap, StatusCode};

use crate::door::{Door, RequestContext};
use crate::error::Result;
use crate::wire::{
    DeclaredDigests, acl_of, checksum_headers, encryption_headers, encryption_of,
    refuse_unsupported, version_attributes_of, version_headers,
};

pub(super) async fn call(door: &Door, context: &mut RequestContext) -> Result<Answer> {
    context.need_length()?;
    refuse_unsupported(context.headers())?;
    let declared = DeclaredDigests::read(context.headers())?;
    let length = context
        .body
        .as_ref()
        .and_then(crate::payload::RequestBody::length);
    let object = context.object()?;
    let encryption = match encryption_of(context, context.headers()) {
        Ok(encryption) => encryption,
        Err(refusal) => {
            door.store.can_put(&context.caller, &object).await?;
            return Err(refusal);
        }
    };
    let request = WriteRequest {
        size: length,
        attributes: version_attributes_of(context.headers())?,
        want: declared.want(),
        // What S3 keeps when the client sends none.
        checksum: declared.algorithm.or(Some(Algorithm::Crc64Nvme)),
        condition: write_condition(context.headers())?,
        encryption,
        acl: acl_of(context.headers())?,
        ..WriteRequest::new(object)
    };
    // The store says no before a byte of the body is read.
    let mut upload = door.store.write(&context.caller, request).await?;
    let mut body = context.take_body()?;
    while let Some(bytes) = body.next().await? {
        upload.write(bytes).await?;
    }
    let expect = declared.expect(body.received(), body.trailers())?;
    let info = upload.commit(expect).await?;
    Ok(written(&info, context.headers()))
}

/// The answer to a write: the metadata of the new version.
pub(super) fn written(info: &ObjectInfo, asked: &HeaderMap) -> Answer {
    let mut answer = empty_answer(StatusCode::OK);
    let headers = answer.headers_mut();
    headers.insert(ETAG, quoted(&info.etag));
    checksum_headers(headers, info.checksum.as_ref());
    encryption_headers(headers, info.encrypted, asked);
    version_headers(headers, info);
    answer
}
