//! CopyObject.

use dewar_store::api::{CopyRequest, ObjectRef};
use http::HeaderMap;
use s3s::dto::CopyObjectResult;

use super::shown::{Checksums, etag};
use crate::door::{Answer, Door, Exchange, xml_answer};
use crate::error::{Code, Refusal, Result};
use crate::wire::{
    algorithm_named, attributes_of, copy_source_condition, encryption_headers, encryption_of,
    header, object_named, refuse_unsupported, source_key, write_condition, xml_date,
};

pub(super) async fn call(door: &Door, exchange: &Exchange) -> Result<Answer> {
    let headers = exchange.headers();
    refuse_unsupported(headers)?;
    refuse_tagging_directive(headers)?;
    let source = copy_source(headers)?;
    let target = exchange.object()?;
    let replace = match header(headers, "x-amz-metadata-directive")? {
        None | Some("COPY") => false,
        Some("REPLACE") => true,
        Some(_) => {
            let message = "Unknown metadata directive.";
            return Err(Refusal::new(Code::InvalidArgument, message)
                .element("ArgumentName", "x-amz-metadata-directive"));
        }
    };
    let checksum = header(headers, "x-amz-checksum-algorithm")?;
    let checksum = checksum.map(algorithm_named).transpose()?;
    let encryption = encryption_of(exchange, headers)?;
    if source == target && !replace && checksum.is_none() && encryption.is_none() {
        return Err(Refusal::new(
            Code::InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself \
             without changing the object's metadata, storage class, website redirect location or \
             encryption attributes.",
        ));
    }
    let request = CopyRequest {
        source,
        source_condition: copy_source_condition(headers)?,
        target,
        attributes: if replace {
            Some(attributes_of(headers)?)
        } else {
            None
        },
        checksum,
        condition: write_condition(headers)?,
        source_key: source_key(exchange)?,
        encryption,
    };
    let info = door
        .store
        .copy(&exchange.caller, request)
        .await
        .map_err(failed_source)?;
    let (sums, kind) = Checksums::of_object(info.checksum.as_ref());
    let mut answer = xml_answer(&CopyObjectResult {
        checksum_crc32: sums.crc32,
        checksum_crc32c: sums.crc32c,
        checksum_crc64nvme: sums.crc64nvme,
        checksum_sha1: sums.sha1,
        checksum_sha256: sums.sha256,
        checksum_type: kind,
        e_tag: Some(etag(&info.etag)),
        last_modified: Some(xml_date(info.modified)),
    })?;
    encryption_headers(answer.headers_mut(), info.encrypted, headers);
    Ok(answer)
}

/// The source of a copy.
pub(super) fn copy_source(headers: &HeaderMap) -> Result<ObjectRef> {
    object_named(header(headers, "x-amz-copy-source")?.unwrap_or_default())
}

/// A condition on the source that says "not modified" fails a copy as any other does.
pub(super) fn failed_source(error: dewar_types::Error) -> Refusal {
    if error.kind() == dewar_types::ErrorKind::NotModified {
        let message = "At least one of the pre-conditions you specified did not hold";
        return Refusal::new(Code::PreconditionFailed, message);
    }
    error.into()
}

fn refuse_tagging_directive(headers: &HeaderMap) -> Result<()> {
    match header(headers, "x-amz-tagging-directive")? {
        // There are no tags, so copying them is done.
        None | Some("COPY") => Ok(()),
        Some(_) => Err(Refusal::new(
            Code::NotImplemented,
            "A header you provided implies functionality that is not implemented: \
             x-amz-tagging-directive",
        )),
    }
}
