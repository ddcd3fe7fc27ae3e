//! CreateMultipartUpload.

use dewar_http_front::Answer;
use dewar_store::api::CreateUploadRequest;
use http::HeaderValue;
use s3s::dto::CreateMultipartUploadOutput;

use crate::door::{Door, RequestContext, xml_answer};
use crate::error::Result;
use crate::wire::{
    abort_headers, acl_of, announced_checksum, encryption_headers, encryption_of,
    refuse_unsupported, version_attributes_of,
};

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let headers = context.headers();
    refuse_unsupported(headers)?;
    let object = context.object()?;
    let (algorithm, composite) = announced_checksum(headers)?;
    let request = CreateUploadRequest {
        object: object.clone(),
        attributes: version_attributes_of(headers)?,
        checksum: Some(algorithm),
        composite,
        encryption: encryption_of(context, headers)?,
        acl: acl_of(headers)?,
    };
    let begun = door.store.create_upload(&context.caller, request).await?;
    let mut answer = xml_answer(&CreateMultipartUploadOutput {
        bucket: Some(object.bucket.name.to_string()),
        key: Some(object.key.to_string()),
        upload_id: Some(begun.id.to_string()),
        ..CreateMultipartUploadOutput::default()
    })?;
    encryption_headers(answer.headers_mut(), begun.encrypted, headers);
    abort_headers(answer.headers_mut(), begun.abort.as_ref());
    if headers.contains_key("x-amz-checksum-algorithm") {
        let shown = answer.headers_mut();
        let name = algorithm.s3_name().unwrap_or_default();
        shown.insert("x-amz-checksum-algorithm", HeaderValue::from_static(name));
        let kind = if composite {
            "COMPOSITE"
        } else {
            "FULL_OBJECT"
        };
        shown.insert("x-amz-checksum-type", HeaderValue::from_static(kind));
    }
    Ok(answer)
}
