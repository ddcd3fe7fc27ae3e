//! UploadPartCopy.

use dewar_checksum::{Algorithm, AlgorithmSet};
use dewar_http_front::{Answer, header, read_condition_of, value_of};
use dewar_store::api::{PartSource, UploadPartRequest};

use super::copy_object::{copy_source, failed_source};
use super::document_fields::upload_id;
use super::parts_documents::{CopyChecksum, CopyResult};
use super::upload_part::part_number;
use crate::door::{Door, RequestContext, xml_answer};
use crate::error::Result;
use crate::wire::{copy_range, customer_key, encryption_headers, refuse_unsupported, source_key};

pub(super) async fn call(door: &Door, context: &RequestContext) -> Result<Answer> {
    let headers = context.headers();
    refuse_unsupported(headers)?;
    let range = header(headers, "x-amz-copy-source-range")?;
    let (object, version) = copy_source(headers)?;
    let source = PartSource {
        object,
        version,
        range: range.map(copy_range).transpose()?,
        condition: read_condition_of(headers, "x-amz-copy-source-")?,
        customer_key: source_key(context)?,
    };
    let request = UploadPartRequest {
        object: context.object()?,
        upload: upload_id(context)?,
        number: part_number(context)?,
        size: None,
        want: AlgorithmSet::EMPTY.with(Algorithm::Md5),
        checksum: None,
        customer_key: customer_key(context)?,
    };
    let part = door
        .store
        .upload_part_copy(&context.caller, request, source)
        .await
        .map_err(failed_source)?;
    let mut answer = xml_answer(&CopyResult {
        element: "CopyPartResult",
        etag: &part.etag,
        modified: part.modified,
        checksum: CopyChecksum::Part(part.checksum.as_ref()),
    })?;
    encryption_headers(answer.headers_mut(), part.encrypted, headers);
    if let Some(name) = version {
        let name = value_of(&name.to_string());
        answer
            .headers_mut()
            .insert("x-amz-copy-source-version-id", name);
    }
    Ok(answer)
}
